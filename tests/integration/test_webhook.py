"""The webhook over HTTP, in process: verdicts, patches, and one clear 4xx for everything that is no review."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.config import Settings
from runtime.observe.metrics import METRICS, Metrics
from runtime.webhook.app import build_app
from runtime.webhook.live import Live, Snapshot
from tests.integration.server import Client, policy_set, review, running, webhook

POLICIES = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: require-team}
spec:
  rules:
    - name: team-label
      match: {any: [{resources: {kinds: [Pod]}}]}
      validate:
        failureAction: Enforce
        message: "the label team is required"
        pattern: {metadata: {labels: {team: "?*"}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: warn-latest}
spec:
  emitWarning: true
  rules:
    - name: no-latest
      match: {any: [{resources: {kinds: [Pod]}}]}
      validate:
        failureAction: Audit
        message: "the tag latest moves"
        pattern: {spec: {containers: [{image: "!*:latest"}]}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: keep}
spec:
  background: false
  rules:
    - name: no-delete
      match: {any: [{resources: {kinds: [Pod], operations: [DELETE]}}]}
      validate:
        failureAction: Enforce
        message: "{{ request.object.metadata.name }} must stay"
        deny:
          conditions:
            all: [{key: "{{ request.object.metadata.labels.keep || 'no' }}", operator: Equals, value: "yes"}]
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: add-label}
spec:
  rules:
    - name: label
      match: {any: [{resources: {kinds: [Pod]}}]}
      mutate:
        patchStrategicMerge: {metadata: {labels: {"+(by)": thesmos}}}
"""


def pod(labels: dict[str, str] | None = None, image: str = "registry.example.com/app:1") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "app", "namespace": "default", "labels": labels or {}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with webhook(POLICIES) as found:
        yield found


def test_a_good_pod_is_admitted_with_its_uid(client: Client) -> None:
    answer = client.post("/validate?timeout=10s", review(pod({"team": "a"})))
    assert answer.status == 200
    assert answer.response == {
        "uid": "0b1e5b0e-5e5e-4b6e-9c1d-000000000001",
        "allowed": True,
        "auditAnnotations": {"decision": "allow", "policies": "require-team, warn-latest"},
    }


def test_a_bad_pod_is_refused_with_policy_rule_and_message(client: Client) -> None:
    response = client.post("/validate/fail", review(pod())).response
    assert response["allowed"] is False
    assert response["status"]["message"] == (
        "\n\nresource Pod/default/app was blocked due to the following policies \n\n"
        "require-team:\n  team-label: 'validation error: the label team is required. rule team-label failed at path "
        "/metadata/labels/team/'\n"
    )
    assert response["auditAnnotations"] == {
        "decision": "deny",
        "policies": "require-team, warn-latest",
        "fail": "require-team/team-label",
    }


def test_an_audited_policy_warns_when_asked_to(client: Client) -> None:
    response = client.post("/validate", review(pod({"team": "a"}, "app:latest"))).response
    assert response["allowed"] is True
    assert len(response["warnings"]) == 1
    assert "the tag latest moves" in response["warnings"][0]


def test_a_patch_is_base64_of_json_patch(client: Client) -> None:
    response = client.post("/mutate", review(pod({"team": "a"}))).response
    assert response["allowed"] is True
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == [
        {"op": "add", "path": "/metadata/labels/by", "value": "thesmos"}
    ]


def test_no_patch_when_nothing_changes(client: Client) -> None:
    assert "patch" not in client.post("/mutate", review(pod({"by": "me"}))).response


def test_a_delete_is_judged_by_the_old_object(client: Client) -> None:
    protected = pod({"keep": "yes", "team": "a"})
    response = client.post("/validate", review(None, operation="DELETE", oldObject=protected)).response
    assert response["allowed"] is False
    assert "app must stay" in response["status"]["message"]
    assert client.post("/validate", review(None, operation="DELETE", oldObject=pod())).response["allowed"] is True


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"apiVersion": "admission.k8s.io/v1beta1"}, "this server speaks admission.k8s.io/v1"),
        ({"kind": "Pod"}, "its kind is Pod"),
        ({"request": None}, "has no request"),
        ({"request": []}, "has no request"),
    ],
)
def test_what_is_no_review_is_a_400(client: Client, change: dict[str, Any], said: str) -> None:
    answer = client.post("/validate", {**review(pod()), **change})
    assert answer.status == 400
    assert said in answer.text
    assert answer.text.count("\n") == 1, "one line"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"uid": ""}, "uid"),
        ({"uid": 7}, "uid"),
        ({"operation": "PATCH"}, "operation"),
        ({"object": [1]}, "object"),
        ({"object": None}, "neither object nor oldObject"),
        ({"kind": "Pod"}, "kind"),
        ({"userInfo": "jane"}, "userInfo"),
    ],
)
def test_a_request_that_is_none_is_a_400(client: Client, change: dict[str, Any], said: str) -> None:
    answer = client.post("/validate", review(pod(), **change))
    assert answer.status == 400
    assert said in answer.text


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[1]", b"null", b'"AdmissionReview"', b"[" * 5000])
def test_a_body_that_is_no_json_object_is_a_400(client: Client, body: bytes) -> None:
    assert client.post("/validate", body).status == 400


@pytest.mark.parametrize("content_type", ["text/plain", "application/yaml", None])
def test_another_content_type_is_a_415(client: Client, content_type: str | None) -> None:
    answer = client.post("/validate", review(pod()), content_type)
    assert answer.status == 415
    assert "application/json" in answer.text


def test_the_content_type_may_have_parameters(client: Client) -> None:
    assert client.post("/validate", review(pod()), "application/json; charset=utf-8").status == 200


def test_a_compressed_body_is_a_415(client: Client) -> None:
    assert client.post("/validate", b"x", headers={"Content-Encoding": "gzip"}).status == 415


@pytest.mark.parametrize("timeout", ["soon", "-1s", "1h", "", "10"])
def test_a_timeout_that_is_no_duration_is_a_400(client: Client, timeout: str) -> None:
    assert client.post(f"/validate?timeout={timeout}", review(pod())).status == 400


def test_a_deadline_that_has_passed_is_a_408(client: Client) -> None:
    assert client.post("/validate?timeout=0s", review(pod())).status == 408


def test_a_body_over_the_limit_is_a_413() -> None:
    big = pod({"team": "a"})
    big["metadata"]["annotations"] = {"x": "y" * 3000}
    with webhook(POLICIES, Settings(body_limit=2000)) as small:
        answer = small.post("/validate", review(big))
        assert answer.status == 413
        assert "2000 bytes" in answer.text
    with webhook(POLICIES, Settings(body_limit=2000)) as small:
        assert small.post("/validate", review(pod({"team": "a"}))).status == 200


def test_other_methods_and_paths(client: Client) -> None:
    assert client.get("/validate").status == 405
    assert client.get("/nothing").status == 404
    assert client.post("/validate/sometimes", review(pod())).status == 404


def test_health_follows_the_policies() -> None:
    live = Live()
    with running(lambda: build_app(live, Settings(), Metrics())) as client:
        assert client.get("/health/liveness").status == 200
        assert client.get("/health/readiness").status == 503
        assert client.post("/validate", review(pod())).status == 503
        live.swap(Snapshot.of(policy_set(POLICIES)))
        assert client.get("/health/readiness").status == 200
        assert client.post("/validate", review(pod({"team": "a"}))).status == 200


def test_metrics_count_requests_and_results() -> None:
    with webhook(POLICIES) as client:
        client.post("/validate", review(pod()))
        text = client.get("/metrics").text
    for metric in METRICS:
        assert f"# TYPE {metric.name} " in text or f"# TYPE {metric.name.removesuffix('_total')}_total " in text
    assert (
        'kyverno_admission_requests_total{request_allowed="false",request_webhook="ValidatingWebhookConfiguration",'
        'resource_kind="Pod",resource_namespace="default",resource_request_operation="create"} 1.0'
    ) in text
    lines = [x for x in text.splitlines() if x.startswith("kyverno_policy_results_total{")]
    assert any('policy_name="require-team"' in x and 'rule_result="fail"' in x for x in lines)
    assert 'kyverno_webhooks_processed_total{request_webhook="validate"} 1.0' in text


def test_paths_of_one_failure_policy_answer_from_its_policies() -> None:
    from runtime.engine import Engine

    live = Live()
    strict, nothing = Engine(policy_set(POLICIES)), Engine(policy_set(POLICIES.split("---")[3]))
    live.swap(Snapshot(1, {"": strict, "fail": nothing, "ignore": strict, "finegrained/mine": strict}))
    with running(lambda: build_app(live, Settings(), Metrics())) as client:
        for path, allowed in (
            ("/validate", False),
            ("/validate/fail", True),
            ("/validate/ignore", False),
            ("/validate/fail/finegrained/mine", False),
            ("/validate/fail/finegrained/gone", True),
            ("/validate/fail/finegrained/space/gone", True),
        ):
            assert client.post(path, review(pod())).response["allowed"] is allowed, path


def test_a_request_ends_on_the_version_it_began_with() -> None:
    """A swap while requests are under way shows either version, never something else."""
    import threading

    old = policy_set(POLICIES)
    new = policy_set(POLICIES.replace("team", "owner"))
    live = Live()
    live.swap(Snapshot.of(old))
    stop = threading.Event()

    def swap() -> None:
        generation = 1
        while not stop.is_set():
            generation += 1
            live.swap(Snapshot.of(new if generation % 2 else old, generation=generation))

    with running(lambda: build_app(live, Settings(), Metrics())) as client:
        thread = threading.Thread(target=swap)
        thread.start()
        try:
            seen = {client.post("/validate", review(pod())).response["status"]["message"] for _ in range(200)}
        finally:
            stop.set()
            thread.join()
    assert len(seen) <= 2
    for message in seen:
        assert ("team" in message) != ("owner" in message)


def test_a_deadline_that_passes_between_two_policies_ends_the_evaluation() -> None:
    import time

    from runtime.engine import DeadlinePassed, Engine
    from runtime.request import Request

    engine = Engine(policy_set(POLICIES))
    request = Request.from_review(review(pod()))
    assert engine.evaluate(request, "validate", deadline=time.monotonic() + 60).results
    with pytest.raises(DeadlinePassed):
        engine.evaluate(request, "validate", deadline=time.monotonic())


@pytest.mark.parametrize(
    ("api_version", "kind", "allowed"),
    [
        ("kyverno.io/v1", "ClusterPolicy", True),
        ("wgpolicyk8s.io/v1alpha2", "PolicyReport", True),
        ("kyverno.io/v2", "PolicyException", False),
        ("example.com/v1", "Policy", False),
    ],
)
def test_no_policy_can_forbid_the_engines_own_kinds(api_version: str, kind: str, allowed: bool) -> None:
    text = """
        apiVersion: kyverno.io/v1
        kind: ClusterPolicy
        metadata: {name: nothing}
        spec:
          background: false
          rules:
            - name: at-all
              match: {any: [{resources: {kinds: ["*"]}}]}
              validate: {failureAction: Enforce, message: "no", deny: {}}
        """
    with webhook(text) as client:
        obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}
        assert client.post("/validate", review(obj)).response["allowed"] is allowed
