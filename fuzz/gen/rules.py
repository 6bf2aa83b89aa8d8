"""Policies of every kind of rule from a plain random source: contexts, loops, Pod security, exceptions, mutation.

``case(seed)`` is a policy with what goes with it, and objects to run it on.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from fuzz.gen import resource as res
from fuzz.gen.maker import Maker
from tests.reference.images import images

CONFIG_MAPS: Final = (
    {"metadata": {"name": "settings", "namespace": "default"}, "data": {"mode": "web", "list": '["web", "db"]'}},
    {"metadata": {"name": "settings", "namespace": "team-a"}, "data": {"mode": "db", "size": "1Gi"}},
)
OBJECTS: Final[tuple[dict[str, Any], ...]] = (
    *({"apiVersion": "v1", "kind": "ConfigMap", **c} for c in CONFIG_MAPS),
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": {"team": "web"}}},
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}},
)
CALLS: Final[tuple[dict[str, Any], ...]] = (
    {
        "urlPath": "/api/v1/nodes",
        "response": {"body": {"items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "web"}}]}},
    },
    {"urlPath": "/api/v1/secrets", "response": {"statusCode": 403, "body": {}}},
    {"urlPath": "/apis/x/check", "method": "POST", "response": {"body": {"allowed": True, "names": ["web"]}}},
)
GLOBAL: Final[dict[str, Any]] = {"allowed": ["web", "db", "nginx"], "allowed.first": "web"}
"""What ``globalReference`` finds: an entry, and its projection ``[0]``."""
CONTROLS: Final = (
    "HostProcess",
    "Host Namespaces",
    "Privileged Containers",
    "Capabilities",
    "HostPath Volumes",
    "Host Ports",
    "AppArmor",
    "SELinux",
    "/proc Mount Type",
    "Seccomp",
    "Sysctls",
    "Volume Types",
    "Privilege Escalation",
    "Running as Non-root",
    "Running as Non-root user",
)
_POD_LEVEL: Final = frozenset(("Host Namespaces", "HostPath Volumes", "Sysctls", "Volume Types"))
_LISTS: Final = (
    "request.object.spec.containers",
    "request.object.spec.[containers, initContainers][]",
    "request.object.spec.volumes",
    "request.object.spec.containers[].ports[]",
    "request.object.spec.containers[].image",
    "request.object.metadata.labels | items(@, 'key', 'value')",
    "request.object.metadata.labels | keys(@)",
    "request.object.spec.absent",
    "request.object.spec.initContainers || `[]`",
    "request.object.spec",
    "length(request.object.spec.volumes)",
    '`[1, null, "a", {"name": "web"}]`',
    "request.object.spec.template.spec.containers",
)
_INNER: Final = (
    "element.ports",
    "element.env",
    "element.securityContext.capabilities.add",
    "element",
    "request.object.spec.volumes",
)
KINDS: Final = frozenset(("validate", "foreach", "mutate", "mutateForeach", "podSecurity", "targets", "generate"))


@dataclass(frozen=True)
class Case:
    """``documents``: a policy and, maybe, exceptions. Everything else is what the rules may ask."""

    documents: list[dict[str, Any]]
    resources: list[dict[str, Any]]
    operation: str = "CREATE"
    user: dict[str, Any] | None = None
    olds: list[dict[str, Any]] = field(default_factory=list)
    """Of an UPDATE: what each resource was before."""


def case(seed: int, *, kinds: frozenset[str] = KINDS, resources: int = 1) -> Case:
    """The case of a seed."""
    return Rules(Random(seed)).case(kinds, resources)


class Rules(Maker):
    """Makes policies."""

    def case(self, kinds: frozenset[str], resources: int) -> Case:
        about = self.pod() if not self.chance(4) else self.resource()
        policy = self.policy(about, kinds)
        documents = [policy]
        if self.chance(6):
            documents.append(self.exception(policy, about))
        operation = self.rng.choice(("CREATE", "CREATE", "CREATE", "UPDATE", "DELETE"))
        objects = [self.near(about) if not self.chance(3) else self.resource() for _ in range(resources - 1)]
        given = [about, *objects]
        olds = [self.near(r) for r in given] if operation == "UPDATE" else []
        return Case(documents, given, operation, None if self.chance(2) else self.user(), olds)

    def user(self) -> dict[str, Any]:
        name = self.rng.choice(("ann", "system:serviceaccount:team-a:deployer", "system:admin"))
        info = {"username": name, "groups": self.some(("dev", "system:masters"), 2)}
        return {
            "userInfo": info,
            "roles": self.some(("team-a:edit",), 1),
            "clusterRoles": self.some(("admin", "view"), 2),
        }

    def users(self) -> dict[str, Any]:
        """The part of a filter that is about who asks."""
        return self.rng.choice(
            (
                {"subjects": [{"kind": "User", "name": self.rng.choice(("ann", "sys*"))}]},
                {"subjects": [{"kind": "Group", "name": "dev"}]},
                {
                    "subjects": [
                        {"kind": "ServiceAccount", "name": "deployer", "namespace": self.rng.choice(("team-a", "*"))}
                    ]
                },
                {"clusterRoles": ["admin"]},
                {"roles": ["team-a:edit"], "clusterRoles": ["view", "admin"]},
            )
        )

    def near(self, about: dict[str, Any]) -> dict[str, Any]:
        """The same object with a few places changed."""
        made = copy.deepcopy(about)
        for _ in range(self.rng.randint(0, 3)):
            path = self.rng.choice([p for p in res.paths_of(made) if len(p) > 2] or [()])
            if not path or path[0] != "spec":
                continue
            holder: Any = made
            for step in path[:-1]:
                holder = holder[step]
            if self.chance(2):
                del holder[path[-1]]
            elif "securityContext" in path:  # an API server lets no other type through
                continue
            elif isinstance(holder[path[-1]], str):
                holder[path[-1]] = self.rng.choice(("web", "nginx:latest", "1Gi", "Always"))
        return made

    def policy(self, about: dict[str, Any], kinds: frozenset[str]) -> dict[str, Any]:
        rules = [self.rule(about, f"rule-{i}", kinds) for i in range(self.rng.choice((1, 1, 2)))]
        spec: dict[str, Any] = {"background": False, "rules": rules}
        if self.chance(3):
            spec["validationFailureAction"] = self.rng.choice(("Enforce", "Audit"))
        if self.chance(6) and not any((r.get("mutate") or {}).get("targets") for r in rules):
            spec["applyRules"] = self.rng.choice(("One", "All"))
        metadata: dict[str, Any] = {"name": "generated"}
        made = {"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": metadata, "spec": spec}
        if self.chance(5):
            metadata["annotations"] = {"pod-policies.kyverno.io/autogen-controllers": "none"}
        if self.chance(8):
            made["kind"] = "Policy"
            metadata["namespace"] = about["metadata"].get("namespace", "default")
        return made

    def exception(self, policy: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
        name = policy["metadata"]["name"]
        if policy["kind"] == "Policy":
            name = f"{policy['metadata']['namespace']}/{name}"
        rules = self.rng.choice((["rule-0"], ["*"], ["rule-?", "autogen-*"], ["other"]))
        spec: dict[str, Any] = {
            "exceptions": [{"policyName": name, "ruleNames": rules}],
            "match": {"any": [{"resources": {"kinds": [self.rng.choice(("Pod", "*", about["kind"]))]}}]},
        }
        if self.chance(3):
            spec["conditions"] = {self.rng.choice(("any", "all")): [self.condition(self.sample(about))]}
        if self.chance(3) and all("podSecurity" in (r.get("validate") or {}) for r in policy["spec"]["rules"]):
            spec["podSecurity"] = [self.exclusion()]
        metadata = {"name": "exempt", "namespace": "team-a"}
        return {"apiVersion": "kyverno.io/v2", "kind": "PolicyException", "metadata": metadata, "spec": spec}

    def sample(self, about: dict[str, Any]) -> dict[str, Any]:
        request = {"object": about, "operation": "CREATE", "namespace": "default"}
        if self.chance(3):
            return {"request": {**request, "userInfo": {"username": "ann", "groups": ["dev"]}, "roles": ["a:b"]}}
        if self.chance(3):
            return {"request": request, "images": images(about) or {"containers": {}}, "serviceAccountName": "deployer"}
        return {"request": request}

    def rule(self, about: dict[str, Any], name: str, kinds: frozenset[str]) -> dict[str, Any]:
        sample = self.sample(about)
        rule: dict[str, Any] = {"name": name, "match": {"any": [{"resources": {"kinds": [self.kind(about)]}}]}}
        if self.chance(6):
            rule["match"]["any"][0] |= self.users()
        if self.chance(6):
            rule["exclude"] = {"any": [self.users()]}
        if self.chance(2):
            rule["context"], sample = self.context(sample, self.rng.randint(1, 3))
        if self.chance(3):
            rule["preconditions"] = self.conditions(sample)
        kind = self.rng.choice(sorted(kinds))
        match kind:
            case "validate":
                rule["validate"] = self.check(about, sample)
            case "foreach":
                rule["validate"] = {"foreach": [self.loop(sample, 0) for _ in range(self.rng.choice((1, 1, 2)))]}
            case "podSecurity":
                rule["validate"] = {"podSecurity": self.pod_security()}
            case "mutate":
                rule["mutate"] = self.patch(about, sample)
            case "mutateForeach":
                loops = [self.mutate_loop(about, sample, 0) for _ in range(self.rng.choice((1, 1, 2)))]
                rule["mutate"] = {"foreach": loops}
            case "generate":
                rule["generate"] = self.generate(sample)
            case "targets":
                rule["mutate"] = self.targets(sample)
        if "validate" in rule and kind != "podSecurity" and self.chance(2):
            rule["validate"]["message"] = self.rng.choice(("no", "labels are needed.", self.variable(sample)))
        if self.chance(10):
            rule["reportProperties"] = {"mode": self.variable(sample)}
        return rule

    def cleanup_policy(self, about: dict[str, Any]) -> dict[str, Any]:
        """A ClusterCleanupPolicy that is about objects like one."""
        sample: dict[str, Any] = {"target": about}
        match = {"any": [{"resources": {"kinds": [self.rng.choice((about["kind"], "*", "Deployment"))]}}]}
        spec: dict[str, Any] = {"schedule": "0 3 * * *", "match": match}
        if self.chance(3):
            spec["exclude"] = {"any": [{"resources": {"namespaces": ["kube-*"]}}]}
        if self.chance(2):
            spec["context"], sample = self.context(sample, 1)
        if not self.chance(4):
            spec["conditions"] = {key: [self.condition(sample)] for key in self.some(("any", "all"), 2)}
        metadata = {"name": "generated"}
        return {"apiVersion": "kyverno.io/v2", "kind": "ClusterCleanupPolicy", "metadata": metadata, "spec": spec}

    def kind(self, about: dict[str, Any]) -> str:
        return str(self.rng.choice((about["kind"], about["kind"], "Pod", "*/Pod")))

    # Context

    def context(self, sample: dict[str, Any], count: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Entries, and the sample with a value for each of their names."""
        entries = []
        for _ in range(count):
            name = self.rng.choice(("one", "two", "three"))
            entry, value = self.entry(sample)
            entries.append({"name": name, **entry})
            sample = {**sample, name: value}
        return entries, sample

    def entry(self, sample: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        pick = self.rng.choice
        match self.rng.randrange(8):
            case 0:
                named = "{{ request.namespace }}" if "request" in sample else "team-b"
                namespace = pick(("default", "team-a", named, "other"))
                made = {"name": pick(("settings", "settings", "absent")), "namespace": namespace}
                return {"configMap": made}, CONFIG_MAPS[0]
            case 1:
                call: dict[str, Any] = {"urlPath": pick(("/api/v1/nodes", "/api/v1/secrets", "/api/v1/namespaces"))}
                if self.chance(2):
                    call["jmesPath"] = pick(("items[].metadata.name", "items", "absent", "length(items)"))
                if self.chance(2):
                    call["default"] = pick(([], "none", {"a": 1}))
                return {"apiCall": call}, ["a", "web"]
            case 2:
                call = {
                    "urlPath": "/apis/x/check",
                    "method": "POST",
                    "data": [{"key": "a", "value": self.variable(sample)}],
                }
                return {"apiCall": call}, {"allowed": True, "names": ["web"]}
            case 3:
                made = {"name": pick(("allowed", "allowed.first", "absent"))}
                if self.chance(3):
                    made["jmesPath"] = pick(("[0]", "length(@)", "@"))
                return {"globalReference": made}, GLOBAL["allowed"]
        variable: dict[str, Any] = {}
        if self.chance(2):
            variable["value"] = pick(
                (self.variable(sample), {"a": self.variable(sample), "b": [1, "web"]}, ["web", "db"], "1Gi")
            )
            if self.chance(3):
                variable["jmesPath"] = pick(("a", "b", "@", "[0]", "to_string(@)"))
        else:
            variable["jmesPath"] = self.query(sample)
        if self.chance(2):
            variable["default"] = pick(("web", [], 1, {"a": 1}, self.variable(sample)))
        return {"variable": variable}, pick(("web", ["web", "db"], {"a": "web", "b": [1]}))

    # Validation

    def check(self, about: dict[str, Any], sample: dict[str, Any]) -> dict[str, Any]:
        match self.rng.randrange(4):
            case 0:
                return {"anyPattern": [self.whole(about, sample) for _ in range(self.rng.randint(1, 2))]}
            case 1 | 2:
                return {"deny": {"conditions": self.conditions(sample)}}
        return {"pattern": self.whole(about, sample)}

    def whole(self, about: dict[str, Any], sample: dict[str, Any]) -> dict[str, Any]:
        body = {k: v for k, v in about.items() if k not in ("apiVersion", "kind")}
        made = self.pattern(body)
        if not isinstance(made, dict) or not made:
            made = {"metadata": {"name": "?*"}}
        if self.chance(4):
            made["metadata"] = {"name": self.variable(sample)}
        return made

    def elements(self, depth: int, sample: dict[str, Any]) -> str:
        choices: tuple[str, ...] = _LISTS if depth == 0 else (*_INNER, *_LISTS[:3])
        if not self.chance(3):  # most loops should find something
            choices = _LISTS[:6] if depth == 0 else _INNER[:3]
        names = [n for n in ("one", "two", "three") if n in sample]
        return str(self.rng.choice(names)) if names and self.chance(4) else str(self.rng.choice(choices))

    def element(self, sample: dict[str, Any], depth: int) -> dict[str, Any]:
        """The sample within a loop."""
        one = self.rng.choice((self.container("web"), "web", {"name": "web", "value": "a"}))
        return {**sample, "element": one, "elementIndex": 0, f"element{depth}": one, f"elementIndex{depth}": 0}

    def loop(self, sample: dict[str, Any], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {"list": self.elements(depth, sample)}
        inside = self.element(sample, depth)
        if self.chance(3):
            made["context"], inside = self.context(inside, self.rng.randint(1, 2))
        if self.chance(3):
            made["preconditions"] = self.conditions(inside)
        if self.chance(6):
            made["elementScope"] = self.rng.choice((True, False))
        match self.rng.randrange(6 if depth < 2 else 5):
            case 0 | 1:
                made["deny"] = {"conditions": self.conditions(inside)}
            case 2 | 3:
                made["pattern"] = self.element_pattern(inside)
            case 4:
                made["anyPattern"] = [self.element_pattern(inside) for _ in range(self.rng.randint(1, 2))]
            case _:
                made["foreach"] = [self.loop(inside, depth + 1) for _ in range(self.rng.choice((1, 1, 2)))]
        return made

    def element_pattern(self, inside: dict[str, Any]) -> Any:
        made = self.pattern(self.container("web"))
        if isinstance(made, dict) and self.chance(4):
            made[self.rng.choice(("name", "(name)"))] = self.variable(inside)
        return made

    def pod_security(self) -> dict[str, Any]:
        made: dict[str, Any] = {"level": self.rng.choice(("baseline", "restricted"))}
        if self.chance(2):
            made["version"] = self.rng.choice(("latest", "v1.19", "v1.24", "v1.29", "v1.34", "v1.36"))
        if self.chance(2):
            made["exclude"] = [self.exclusion() for _ in range(self.rng.randint(1, 2))]
        return made

    def exclusion(self) -> dict[str, Any]:
        name = self.rng.choice(CONTROLS)
        made: dict[str, Any] = {"controlName": name}
        if name not in _POD_LEVEL and (not name.startswith(("Se", "Ru", "HostP", "App", "SEL")) or self.chance(2)):
            made["images"] = [self.rng.choice(("nginx*", "*", "gcr.io/*"))]
        if name == "Capabilities" and self.chance(2):
            made["restrictedField"] = "spec.containers[*].securityContext.capabilities.add"
            made["values"] = self.some(("SYS_ADMIN", "CHOWN", "SYS_*"), 2) or ["*"]
        return made

    # Mutation

    def patch(self, about: dict[str, Any], sample: dict[str, Any]) -> dict[str, Any]:
        if self.chance(3):
            return {"patchesJson6902": self.json_patch(sample)}
        body = {k: v for k, v in about.items() if k not in ("apiVersion", "kind")}
        made = self.merge_patch(body)
        if not made or self.chance(3):
            made = {"metadata": {"labels": {"+(app)": "web", "from": self.variable(sample)}}}
        return {"patchStrategicMerge": made}

    def json_patch(self, sample: dict[str, Any]) -> str:
        value = self.variable(sample) if self.chance(2) else self.scalar()
        path = self.rng.choice(
            ("/metadata/labels/from", "/spec/containers/0/image", "/metadata/annotations/note", "/spec/volumes/-")
        )
        return json.dumps([{"op": self.rng.choice(("add", "add", "replace", "remove")), "path": path, "value": value}])

    def mutate_loop(self, about: dict[str, Any], sample: dict[str, Any], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {"list": self.elements(depth, sample)}
        inside = self.element(sample, depth)
        if self.chance(3):
            made["context"], inside = self.context(inside, 1)
        if self.chance(3):
            made["preconditions"] = self.conditions(inside)
        if self.chance(4):
            made["order"] = self.rng.choice(("Ascending", "Descending"))
        match self.rng.randrange(5 if depth < 1 else 4):
            case 0:
                made["patchesJson6902"] = self._loop_operations(inside)
            case 1 | 2:
                one = self.merge_patch(self.container("web"))
                one = one if isinstance(one, dict) else {}
                name = self.rng.choice(("{{ element.name }}", "{{ element.name }}", "web", "x{{ elementIndex }}"))
                one[self.rng.choice(("name", "name", "(name)"))] = name
                made["patchStrategicMerge"] = {
                    "spec": {self.rng.choice(("containers", "containers", "volumes")): [one]}
                }
            case 3:
                label = self.rng.choice(
                    ("{{ element.name || 'x' }}", "{{ to_string(elementIndex) }}", self.variable(inside))
                )
                made["patchStrategicMerge"] = {"metadata": {"labels": {self.rng.choice(("last", "+(first)")): label}}}
            case _:
                made["foreach"] = [self.mutate_loop(about, inside, depth + 1)]
        return made

    def targets(self, sample: dict[str, Any]) -> dict[str, Any]:
        """A change of objects that are there already."""
        pick = self.rng.choice
        kind = pick(("ConfigMap", "ConfigMap", "Namespace", "Secret"))
        spec: dict[str, Any] = {"apiVersion": "v1", "kind": kind}
        if self.chance(2):
            spec["name"] = pick(("settings", "*", "{{ request.object.metadata.name }}", "team-a"))
        if kind != "Namespace" and self.chance(2):
            spec["namespace"] = pick(("default", "team-*", "{{ request.namespace }}"))
        if self.chance(6):
            spec["selector"] = {"matchLabels": {"team": "web"}}
        inside = {**sample, "target": pick(OBJECTS)}
        if self.chance(4):
            spec["context"], inside = self.context(inside, 1)
        if self.chance(3):
            spec["preconditions"] = self.conditions(inside)
        made: dict[str, Any] = {"targets": [spec]}
        if self.chance(4):
            path = pick(("/metadata/labels/from", "/data/mode", "/metadata/labels/team"))
            operation = {"op": pick(("add", "replace", "remove")), "path": path, "value": self.variable(inside)}
            made["patchesJson6902"] = json.dumps([operation])
        else:
            label = pick((self.variable(inside), "{{ target.metadata.name }}", "x"))
            patch = pick(({"metadata": {"labels": {"from": label}}}, {"data": {"+(mode)": label, "more": "1"}}))
            made["patchStrategicMerge"] = patch
        return made

    def generate(self, sample: dict[str, Any]) -> dict[str, Any]:
        if self.chance(3):
            loops = []
            for _ in range(self.rng.choice((1, 2))):
                entry: dict[str, Any] = {"list": self.elements(0, sample)}
                inside = self.element(sample, 0)
                if self.chance(3):
                    entry["context"], inside = self.context(inside, 1)
                if self.chance(3):
                    entry["preconditions"] = self.conditions(inside)
                loops.append({**entry, **self.target(inside)})
            return {"synchronize": False, "foreach": loops}
        return {"synchronize": self.chance(2), **self.target(sample)}

    def target(self, sample: dict[str, Any]) -> dict[str, Any]:
        """What a generate rule makes: an object of data, a copy, or copies of all that a selector finds."""
        pick = self.rng.choice
        made: dict[str, Any] = {"namespace": pick(("default", "{{ request.object.metadata.name }}", "made"))}
        if self.chance(4):
            listed: dict[str, Any] = {"namespace": pick(("default", "team-a", "other")), "kinds": ["v1/ConfigMap"]}
            if self.chance(3):
                listed["selector"] = {"matchLabels": {"team": "web"}}
            return {**made, "cloneList": listed}
        name = pick(("made", "{{ request.object.metadata.name }}", "settings", "x-{{ elementIndex }}"))
        if "elementIndex" not in sample:
            name = name.replace("{{ elementIndex }}", "0")
        made |= {"apiVersion": "v1", "kind": pick(("ConfigMap", "ConfigMap", "Namespace")), "name": name}
        if self.chance(3) and made["kind"] == "ConfigMap":
            return {**made, "clone": {"name": pick(("settings", "absent")), "namespace": pick(("default", "team-a"))}}
        data: dict[str, Any] = {"metadata": {"labels": {"from": pick(("x", self.variable(sample)))}}}
        if made["kind"] == "ConfigMap":
            data["data"] = {"mode": pick(("web", self.variable(sample)))}
        return {**made, "data": data}

    def _loop_operations(self, inside: dict[str, Any]) -> str:
        path = self.rng.choice(
            (
                "/spec/containers/{{ elementIndex }}/imagePullPolicy",
                "/metadata/labels/l{{ elementIndex }}",
                "/spec/volumes/{{ elementIndex }}",
            )
        )
        value = self.rng.choice(("Always", "{{ element.name }}", self.variable(inside)))
        return json.dumps([{"op": self.rng.choice(("add", "replace", "remove")), "path": path, "value": value}])
