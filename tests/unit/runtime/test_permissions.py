"""What policies need of other objects, and what comes of it where that is not allowed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from compiler.diagnostics import Reporter
from compiler.schema import read_policies
from compiler.schema.model import Policy
from compiler.source import load_documents
from runtime.config import Names, Settings
from runtime.controllers.permissions import Lacking, Need, Rights, scan_needs, summary, unserved, working_needs
from runtime.controllers.policyadmission import PolicyAdmission
from runtime.k8s.client import Resource
from runtime.k8s.discovery import Discovery, Entry
from runtime.k8s.errors import ApiProblem

DISCOVERY = Discovery(
    [
        Entry(Resource("", "v1", "pods", "Pod")),
        Entry(Resource("", "v1", "configmaps", "ConfigMap")),
        Entry(Resource("", "v1", "secrets", "Secret")),
        Entry(Resource("", "v1", "namespaces", "Namespace", namespaced=False)),
        Entry(Resource("batch", "v1", "jobs", "Job")),
        Entry(Resource("apps", "v1", "deployments", "Deployment")),
        Entry(Resource("apps", "v1", "deployments", "Scale"), "scale"),
    ]
)
USER = "system:serviceaccount:kyverno:kyverno"


def policy(rule: str, kind: str = "ClusterPolicy", match: str = "Namespace") -> dict[str, Any]:
    import yaml

    text = f"""
apiVersion: kyverno.io/v1
kind: {kind}
metadata: {{name: p{", namespace: team" if kind == "Policy" else ""}}}
spec:
  background: false
  rules:
  - name: r
    match: {{any: [{{resources: {{kinds: [{match}]}}}}]}}
    {rule}
"""
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def model(obj: dict[str, Any]) -> Policy:
    reporter = Reporter()
    (found,), _ = read_policies(load_documents(json.dumps(obj), "p", reporter), reporter)
    return found


class Allowing:
    """An API server that allows what is listed: verb, resource, namespace (``*``: all)."""

    def __init__(self, *allowed: tuple[str, str, str]) -> None:
        self.allowed = allowed
        self.asked: list[dict[str, Any]] = []
        self.problem: Exception | None = None

    async def create(self, resource: Resource, obj: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        if self.problem is not None:
            raise self.problem
        self.asked.append({"kind": obj["kind"], **obj["spec"]})
        a = obj["spec"]["resourceAttributes"]
        where = a.get("namespace", "")
        granted = any(
            (verb, plural) == (a["verb"], a["resource"]) and place in ("*", where)
            for verb, plural, place in self.allowed
        )
        return {"status": {"allowed": granted}}


GENERATE = "generate: {apiVersion: v1, kind: ConfigMap, name: made, namespace: NS, synchronize: SYNC, data: {data: {}}}"


def generate(namespace: str, synchronize: bool = False) -> str:
    return GENERATE.replace("NS", namespace).replace("SYNC", str(synchronize).lower())


@pytest.mark.parametrize(
    ("rule", "needs"),
    [
        (generate("team"), [("spec.rules[0].generate", "configmaps", "get create", "team")]),
        (
            generate('"{{ request.object.metadata.name }}"', True),
            [("spec.rules[0].generate", "configmaps", "get create update delete", "")],
        ),
        (
            "generate: {namespace: team, cloneList: {namespace: source, kinds: [v1/Secret]}}",
            [
                ("spec.rules[0].generate", "secrets", "get create", "team"),
                ("spec.rules[0].generate.cloneList", "secrets", "get list", "source"),
            ],
        ),
        (
            "mutate: {targets: [{apiVersion: v1, kind: ConfigMap}], patchStrategicMerge: {data: {a: b}}}",
            [
                ("spec.rules[0].mutate.targets[0]", "configmaps", "get update", ""),
                ("spec.rules[0].mutate.targets[0]", "configmaps", "list", ""),
            ],
        ),
        (
            "mutate: {targets: [{apiVersion: apps/v1, kind: Deployment/scale, name: web, namespace: team}], "
            "patchStrategicMerge: {spec: {replicas: 1}}}",
            [("spec.rules[0].mutate.targets[0]", "deployments/scale", "get update", "team")],
        ),
        (
            "cleanup: {removeResources: [{kind: Job}]}",
            [("spec.rules[0].cleanup.removeResources[0]", "jobs", "list delete", "")],
        ),
        ("validate: {deny: {}}", []),
    ],
)
def test_what_rules_do_to_other_objects(rule: str, needs: list[tuple[str, str, str, str]]) -> None:
    found = working_needs(model(policy(rule)), DISCOVERY)
    assert [(n.at, n.resource, " ".join(n.verbs), n.namespace) for n in found] == needs


def test_a_cleanup_policy_needs_what_it_matches() -> None:
    obj = {
        "apiVersion": "kyverno.io/v2",
        "kind": "CleanupPolicy",
        "metadata": {"name": "c", "namespace": "team"},
        "spec": {"match": {"any": [{"resources": {"kinds": ["Pod"]}}]}, "schedule": "* * * * *"},
    }
    (need,) = working_needs(model(obj), DISCOVERY)
    assert (need.at, need.resource, need.verbs) == ("spec.match.any[0]", "pods", ("list", "delete"))
    assert (need.namespace, need.part) == ("team", "cleanup")


def test_a_scan_reads_the_kinds_that_are_matched() -> None:
    obj = policy("validate: {deny: {}}", match="Pod")
    assert scan_needs(model(obj), DISCOVERY) == []
    obj["spec"]["background"] = True
    found = scan_needs(model(obj), DISCOVERY)
    assert [(n.plural, n.verbs, n.part) for n in found] == [("pods", ("get", "list", "watch"), "reports")]


def test_kinds_that_nobody_serves() -> None:
    assert unserved(model(policy("validate: {deny: {}}", match="Widget")), DISCOVERY) == [
        ("Widget", "spec.rules[0].match")
    ]
    assert unserved(model(policy("validate: {deny: {}}", match="'*'")), DISCOVERY) == []


def test_access_is_asked_for_once_and_of_the_right_account() -> None:
    async def main() -> None:
        need = Need("here", "", "pods", "Pod", ("get", "list"), "team")
        api = Allowing(("get", "pods", "team"))
        rights = Rights(api, Names())  # type: ignore[arg-type]
        (lack,) = await rights.lacking([need])
        assert lack.verbs == ("list",)
        assert summary([lack]) == "needs list on pods"
        assert [a["kind"] for a in api.asked] == ["SelfSubjectAccessReview"] * 2
        await rights.lacking([need])
        assert len(api.asked) == 2
        separate = Allowing()
        await Rights(separate, Names(separate=True)).lacking([need])  # type: ignore[arg-type]
        assert separate.asked[0]["kind"] == "SubjectAccessReview"
        assert separate.asked[0]["user"] == "system:serviceaccount:kyverno:kyverno-background-controller"
        assert "system:serviceaccounts:kyverno" in separate.asked[0]["groups"]

    asyncio.run(main())


def _admit(obj: dict[str, Any], api: Allowing, settings: Settings | None = None) -> dict[str, Any]:
    async def discovery(fresh: bool) -> Discovery:
        return DISCOVERY

    settings = settings or Settings()
    group, _, version = obj["apiVersion"].partition("/")
    request = {
        "uid": "u",
        "kind": {"group": group, "version": version, "kind": obj["kind"]},
        "resource": {"group": group, "version": version, "resource": "x"},
        "operation": "CREATE",
        "namespace": obj["metadata"].get("namespace", ""),
        "userInfo": {"username": "jane"},
        "object": obj,
    }
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()
    admission = PolicyAdmission(settings, Rights(api, settings.names), discovery)  # type: ignore[arg-type]
    answer = asyncio.run(admission.check(body))
    response: dict[str, Any] = json.loads(answer.body)["response"]
    return response


def test_a_policy_that_could_not_do_its_work_is_refused() -> None:
    obj = policy(generate("team", True))
    refused = _admit(obj, Allowing(("get", "configmaps", "*")))
    assert refused["allowed"] is False
    said = refused["status"]["message"].splitlines()
    assert said[1] == (
        f"spec.rules[0].generate: {USER} requires permissions create,update,delete "
        "for resource configmaps in namespace team"
    )
    assert "rbac.kyverno.io/aggregate-to-background-controller" in said[2]
    everything = [(verb, "configmaps", "*") for verb in ("get", "create", "update", "delete")]
    assert _admit(obj, Allowing(*everything))["allowed"] is True


def test_what_is_lacking_for_some_objects_alone_is_warned_of() -> None:
    obj = policy("mutate: {targets: [{apiVersion: v1, kind: ConfigMap}], patchStrategicMerge: {data: {a: b}}}")
    admitted = _admit(obj, Allowing(("get", "configmaps", "*"), ("update", "configmaps", "*")))
    assert admitted["allowed"] is True
    assert admitted["warnings"] == [
        f"spec.rules[0].mutate.targets[0]: {USER} requires permissions list for resource configmaps"
    ]


def test_an_api_server_that_does_not_answer_leaves_a_warning() -> None:
    api = Allowing()
    api.problem = ApiProblem(500, "InternalError", "etcd is away")
    admitted = _admit(policy(generate("team")), api)
    assert admitted["allowed"] is True
    assert "was not tested" in admitted["warnings"][0]


def test_kinds_that_the_cluster_does_not_serve_are_warned_of() -> None:
    admitted = _admit(policy("validate: {deny: {}}", match="Widget"), Allowing())
    assert "spec.rules[0].match: the cluster does not serve the kind Widget" in admitted["warnings"]


EXCEPTION = {
    "apiVersion": "kyverno.io/v2",
    "kind": "PolicyException",
    "metadata": {"name": "e", "namespace": "team"},
    "spec": {
        "match": {"any": [{"resources": {"kinds": ["Pod"]}}]},
        "exceptions": [{"policyName": "p", "ruleNames": ["r"]}],
    },
}


@pytest.mark.parametrize(
    ("settings", "warning"),
    [
        (Settings(), None),
        (Settings(exception_namespaces=("*",)), None),
        (Settings(exception_namespaces=("delta",)), "counts for objects of team alone"),
        (Settings(exceptions_count=False), "would not be processed until it is enabled"),
    ],
)
def test_exceptions_that_do_not_count_as_meant_are_warned_of(settings: Settings, warning: str | None) -> None:
    admitted = _admit(EXCEPTION, Allowing(), settings)
    assert admitted["allowed"] is True
    if warning is None:
        assert "warnings" not in admitted
    else:
        assert warning in admitted["warnings"][0]


def test_a_time_to_live_that_says_nothing_is_warned_of() -> None:
    def asked(label: str) -> dict[str, Any]:
        metadata = {"name": "x", "namespace": "team", "labels": {"cleanup.kyverno.io/ttl": label}}
        request = {
            "uid": "u",
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "operation": "CREATE",
            "userInfo": {},
            "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata},
        }
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
        answer = asyncio.run(PolicyAdmission().check_ttl(body.encode()))
        response: dict[str, Any] = json.loads(answer.body)["response"]
        return response

    assert "warnings" not in asked("2h")
    wrong = asked("tomorrow")
    assert wrong["allowed"] is True
    assert "tomorrow" in wrong["warnings"][0]


def test_the_status_names_what_policies_lack() -> None:
    async def main() -> None:
        scanned = policy("validate: {deny: {}}", match="Pod")
        scanned["spec"]["background"] = True
        models = {
            ("ClusterPolicy", "", "p"): model(scanned),
            ("ClusterPolicy", "", "q"): model(policy(generate("team"))),
        }
        api = Allowing(("get", "pods", "*"))
        lacking = Lacking(Rights(api, Names()), scans=True)  # type: ignore[arg-type]
        told = {
            ("ClusterPolicy", "", "p"): "needs list,watch on pods",
            ("ClusterPolicy", "", "q"): "needs get,create on configmaps",
        }
        assert await lacking.look(models, DISCOVERY) == told
        api.problem = ApiProblem(500, "InternalError", "etcd is away")
        lacking._rights._known.clear()
        assert await lacking.look(models, DISCOVERY) == told
        quiet = Lacking(Rights(Allowing(), Names()), scans=False)  # type: ignore[arg-type]
        assert ("ClusterPolicy", "", "p") not in await quiet.look(models, DISCOVERY)

    asyncio.run(main())
