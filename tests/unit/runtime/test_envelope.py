"""Objects of a review are read when somebody looks at them, and what nobody looks at is not."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from runtime.config import Settings
from runtime.controllers.compilation import compile_text
from runtime.controllers.triggers import looks as triggers_look
from runtime.engine import What
from runtime.policyset import PolicySet
from runtime.webhook.entry import MANAGED_BY, Entry
from runtime.webhook.envelope import Envelopes
from runtime.webhook.live import ALL, Hook, Live, Snapshot
from tests.integration.server import review

NO_PODS = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: no-pods}
spec:
  rules:
    - name: none
      match: {any: [{resources: {kinds: [Pod], operations: [CREATE]}}]}
      validate: {failureAction: Enforce, deny: {}}
"""
IN_TEAM = NO_PODS.replace("ClusterPolicy", "Policy").replace("{name: no-pods}", "{name: no-pods, namespace: team}")
GENERATES = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: makes}
spec:
  rules:
    - name: config
      match: {any: [{resources: {kinds: [Secret]}}]}
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: made
        namespace: "{{request.namespace}}"
        data: {data: {a: b}}
"""


def live(text: str) -> Live:
    compiled = compile_text(text, "policy.yaml")
    assert compiled.bundle is not None
    made = Live()
    made.swap(Snapshot.of(PolicySet.load(compiled.bundle)))
    return made


def body(kind: str, operation: str = "CREATE", labels: dict[str, str] | None = None, **request: Any) -> bytes:
    obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "namespace": "team", "labels": labels or {}}}
    return json.dumps(review(obj, operation=operation, **request), separators=(",", ":")).encode()


def is_read(live: Live, sent: bytes, what: What = "validate") -> bool:
    """Whether the objects were read; what came out is the whole review then, and else all but the objects."""
    got, whole = Envelopes().opened(partial(live.looks, what, ALL), sent), json.loads(sent)
    if got == whole:
        return True
    assert got["request"] == {k: v for k, v in whole["request"].items() if k != "oldObject"} | {"object": {}}
    return False


def test_objects_are_read_for_the_rules_of_their_kind_and_operation_alone() -> None:
    policies = live(NO_PODS)
    assert is_read(policies, body("Pod"))
    assert not is_read(policies, body("Secret"))
    assert not is_read(policies, body("Pod", "DELETE"))
    assert not is_read(policies, body("Pod"), "mutate")


def test_a_namespaced_policy_looks_into_its_namespace_and_where_none_is_named() -> None:
    policies = live(IN_TEAM)
    assert is_read(policies, body("Pod", namespace="team"))
    assert not is_read(policies, body("Pod", namespace="other"))
    assert is_read(policies, body("Pod", namespace=""))
    assert is_read(policies, body("Pod", namespace=None))


@pytest.mark.parametrize("request_", [{"operation": 1}, {"subResource": "status"}], ids=str)
def test_what_the_envelope_does_not_tell_is_told_by_the_whole(request_: dict[str, Any]) -> None:
    assert is_read(live(NO_PODS), body("Secret", **request_))


def test_before_the_first_policy_all_is_read() -> None:
    assert is_read(Live(), body("Secret"))


def test_what_may_follow_from_an_object_has_it_read() -> None:
    policies = live(NO_PODS + "---" + GENERATES)
    assert not is_read(policies, body("Secret"))
    policies.hooks.append(Hook(lambda judged: None, looks=triggers_look))  # type: ignore[arg-type,return-value]
    assert is_read(policies, body("Secret"))
    assert not is_read(policies, body("Secret"), "mutate")
    assert not is_read(policies, body("ConfigMap", labels={"a": "b"}))
    assert is_read(policies, body("ConfigMap", labels={MANAGED_BY: "kyverno"}))
    assert is_read(policies, body("ConfigMap", labels={"generate.kyverno.io/clone-source": ""}))


def test_protected_objects_are_read() -> None:
    policies = live(NO_PODS)
    policies.entry = Entry(Settings(protect_managed=True))
    assert not is_read(policies, body("Secret"))
    assert is_read(policies, body("Secret", labels={MANAGED_BY: "kyverno"}))


def test_the_bytes_of_what_nobody_looks_at_are_not_read() -> None:
    looks = partial(live(NO_PODS).looks, "validate", ALL)
    broken = body("Secret").replace(b'"labels":{}', b'"labels":{}}')
    with pytest.raises(json.JSONDecodeError):
        json.loads(broken)
    # The API server, which is who asks, sends what it has decoded.
    assert Envelopes().opened(looks, broken)["request"]["object"] == {}
    with pytest.raises(json.JSONDecodeError):
        Envelopes().opened(looks, body("Pod").replace(b'"labels":{}', b'"labels":{}}'))


def test_what_is_always_looked_at_is_read_at_once() -> None:
    asked: list[bytes] = []
    envelopes = Envelopes()

    def looks(request: Any, raw: bytes) -> bool:
        asked.append(raw)
        return True

    for _ in range(32):
        assert envelopes.opened(looks, body("Pod")) == json.loads(body("Pod"))
    assert len(asked) == 2
    for _ in range(32):
        assert envelopes.opened(lambda request, raw: False, body("Secret"))["request"]["object"] == {}
