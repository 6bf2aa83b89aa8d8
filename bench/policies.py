"""Policy sets for the benchmark: the reference work, and larger sets made from it by a seeded generator.

Equal copies of a policy would fold into one function, so each copy gets names, constants and keys of its own; all of
them match the reference Pod and pass on it, which is the common case of admission.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

Policy = dict[str, Any]


def reference_folder() -> Path:
    """Where the reference work lies: ``THESMOS_BENCH``, by default beside the checkout."""
    return Path(os.environ.get("THESMOS_BENCH", Path(__file__).resolve().parents[2] / "shared" / "bench"))


def reference_policies(folder: Path) -> list[Policy]:
    """The ten policies of the reference work."""
    return [d for d in yaml.safe_load_all((folder / "policies-10.yaml").read_text()) if d]


def generated_policies(count: int, seed: int = 20) -> list[Policy]:
    """``count`` policies in nine shapes, none equal to another."""
    rng = random.Random(seed)
    return [_SHAPES[i % len(_SHAPES)](i, rng) for i in range(count)]


def policies_of_other_kinds(count: int, seed: int = 21) -> list[Policy]:
    """``count`` policies that no Pod reaches: the same nine shapes, asked of other kinds."""
    made = generated_policies(count, seed)
    for number, policy in enumerate(made):
        policy["metadata"]["name"] = f"other-{policy['metadata']['name']}"
        for rule in policy["spec"]["rules"]:
            rule["match"] = {"any": [{"resources": {"kinds": [_OTHER_KINDS[number % len(_OTHER_KINDS)]]}}]}
    return made


def policies_of_other_pods(count: int, seed: int = 21) -> list[Policy]:
    """``count`` policies about Pods of another label, place or name than any that is asked about."""
    made = generated_policies(count, seed)
    for number, policy in enumerate(made):
        policy["metadata"]["name"] = f"elsewhere-{policy['metadata']['name']}"
        about = (
            {"selector": {"matchLabels": {"team": f"team-{number}"}}},
            {"namespaces": [f"place-{number}"]},
            {"names": [f"pod-{number}"]},
        )[number % 3]
        for rule in policy["spec"]["rules"]:
            rule["match"] = {"any": [{"resources": {"kinds": ["Pod"], **about}}]}
    return made


_OTHER_KINDS = ("ConfigMap", "Secret", "Service", "Ingress", "Namespace", "PersistentVolumeClaim", "Role", "Node")


def to_text(policies: list[Policy]) -> str:
    return yaml.safe_dump_all(policies, sort_keys=False)


def _policy(name: str, *validates: dict[str, Any], **rule_parts: Any) -> Policy:
    rules = [
        {
            "name": f"{name}-{n}",
            "match": {"any": [{"resources": {"kinds": ["Pod"]}}]},
            **rule_parts,
            "validate": validate,
        }
        for n, validate in enumerate(validates)
    ]
    return {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": name},
        "spec": {"validationFailureAction": "Enforce", "background": True, "rules": rules},
    }


def _containers(body: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"=(ephemeralContainers)": [body], "=(initContainers)": [body], "containers": [body]}}


def _word(rng: random.Random) -> str:
    return "".join(rng.choice("bcdfghjklmnprstvz") + rng.choice("aeiou") for _ in range(3))


def _host_path(i: int, rng: random.Random) -> Policy:
    key = f"{_word(rng)}Volume{i}"
    return _policy(
        f"no-{key.lower()}",
        {"message": f"{key} is forbidden.", "pattern": {"spec": {"=(volumes)": [{f"X({key})": "null"}]}}},
    )


def _privileged(i: int, rng: random.Random) -> Policy:
    key = f"{_word(rng)}Privilege{i}"
    body = {"=(securityContext)": {"=(privileged)": "false", f"=({key})": "false"}}
    return _policy(f"no-{key.lower()}", {"message": f"{key} is disallowed.", "pattern": _containers(body)})


def _limits(i: int, rng: random.Random) -> Policy:
    memory, cpu = rng.randint(1, 900), rng.randint(1, 90)
    limits = {"memory": f"<={memory}Gi", "cpu": f"<={cpu}"}
    pattern = {"spec": {"containers": [{"resources": {"limits": limits}}]}}
    return _policy(f"limits-{i}", {"message": f"memory limit must be <={memory}Gi and cpu <={cpu}", "pattern": pattern})


def _labels(i: int, rng: random.Random) -> Policy:
    key = f"{_word(rng)}.example.com/part-{i}"
    labels = {"app.kubernetes.io/name": "?*", "team": "?*", f"=({key})": "?*"}
    return _policy(
        f"labels-{i}", {"message": f"labels and {key} are required.", "pattern": {"metadata": {"labels": labels}}}
    )


def _registries(i: int, rng: random.Random) -> Policy:
    body = {"image": f"{_word(rng)}{i}.io/* | eu.foo.io/* | bar.io/* | ghcr.io/acme/*"}
    return _policy(f"registries-{i}", {"message": "unknown image registry.", "pattern": _containers(body)})


def _tags(i: int, rng: random.Random) -> Policy:
    tag = f"{_word(rng)}-{i}"
    return _policy(
        f"tags-{i}",
        {"message": "an image tag is required.", "pattern": {"spec": {"containers": [{"image": "*:*"}]}}},
        {"message": f"the tag {tag} may change.", "pattern": {"spec": {"containers": [{"image": f"!*:{tag}"}]}}},
    )


def _non_root(i: int, rng: random.Random) -> Policy:
    optional = {"=(securityContext)": {"=(runAsNonRoot)": "true", f"=({_word(rng)}{i})": "true"}}
    whole = _containers(optional)
    whole["spec"]["securityContext"] = {"runAsNonRoot": "true"}
    each = _containers({"securityContext": {"runAsNonRoot": "true"}})
    return _policy(f"non-root-{i}", {"message": "running as root is not allowed.", "anyPattern": [whole, each]})


_CREATED = {"all": [{"key": "{{ request.operation || 'BACKGROUND' }}", "operator": "NotEquals", "value": "DELETE"}]}


def _capabilities(i: int, rng: random.Random) -> Policy:
    lists = "ephemeralContainers, initContainers, containers"
    query = f"{{{{ request.object.spec.[{lists}][].securityContext.capabilities.add[] }}}}"
    allowed = ["NET_BIND_SERVICE", *sorted(f"{_word(rng).upper()}_{n}" for n in range(12))]
    deny = {"conditions": {"all": [{"key": query, "operator": "AnyNotIn", "value": allowed}]}}
    return _policy(
        f"capabilities-{i}", {"message": "capabilities beyond the list.", "deny": deny}, preconditions=_CREATED
    )


def _host_ports(i: int, rng: random.Random) -> Policy:
    query = f"{{{{ length(request.object.spec.containers[].ports[].{_word(rng)}Port{i} || `[]`) }}}}"
    deny = {"conditions": {"any": [{"key": query, "operator": "GreaterThan", "value": 0}]}}
    return _policy(f"host-ports-{i}", {"message": "host ports are not allowed.", "deny": deny}, preconditions=_CREATED)


_SHAPES: tuple[Callable[[int, random.Random], Policy], ...] = (
    _host_path,
    _privileged,
    _limits,
    _labels,
    _registries,
    _tags,
    _non_root,
    _capabilities,
    _host_ports,
)
