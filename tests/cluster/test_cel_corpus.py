"""The corpus of public CEL expressions in a native ValidatingAdmissionPolicy and in a Thesmos policy, object by object:
the API server must say the same of both.

Each object is asked of twice, as a dry run: the native policy is bound to one namespace, Thesmos' to another. The
objects are made to a kind without a schema, since the corpus is about many kinds.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import local
from typing import Any, Final

import pytest
import yaml

from bench.cel_corpus import Expression, conformance_folder, corpus, objects
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import TOKEN, ControlPlane

OBJECTS: Final = 200
CLIENTS: Final = 8
_LABEL: Final = "expression"
_DENIED: Final = re.compile(r".*ValidatingAdmissionPolicy '\w+' with binding '\w+' denied request: (.*)", re.DOTALL)
NATIVE: Final = "corpus-native"
OURS: Final = "corpus-thesmos"

_KIND = f"""
{{apiVersion: v1, kind: Namespace, metadata: {{name: {NATIVE}}}}}
---
{{apiVersion: v1, kind: Namespace, metadata: {{name: {OURS}}}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: things.corpus.example.com}}
spec:
  group: corpus.example.com
  scope: Namespaced
  names: {{plural: things, singular: thing, kind: Thing}}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"""


@dataclass(frozen=True, slots=True)
class Said:
    """What became of one object: the native message and Thesmos', None where they let it through."""

    native: str | None
    thesmos: str | None


def _policies(number: int, expression: Expression) -> list[dict[str, Any]]:
    name = f"e{number}"
    selector = {"matchLabels": {_LABEL: name}}
    resources = {"kinds": ["Thing"], "operations": ["CREATE", "UPDATE"], "selector": selector, "namespaces": [OURS]}
    rule = {
        "name": "holds",
        "match": {"any": [{"resources": resources}]},
        "validate": {"cel": {"expressions": [{"expression": expression.text}]}},
    }
    things = {"apiGroups": ["corpus.example.com"], "apiVersions": ["v1"], "resources": ["things"]}
    constraints = {"resourceRules": [{**things, "operations": ["CREATE", "UPDATE"]}], "objectSelector": selector}
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {"matchConstraints": constraints, "validations": [{"expression": expression.text}]},
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {
                "policyName": name,
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NATIVE}}},
            },
        },
        {
            "apiVersion": "kyverno.io/v1",
            "kind": "ClusterPolicy",
            "metadata": {"name": name},
            "spec": {"validationFailureAction": "Enforce", "background": False, "rules": [rule]},
        },
    ]


def _thing(found: Any, number: int, position: int) -> dict[str, Any]:
    """An object of the corpus as a Thing whose metadata the API server takes."""
    metadata = found.get("metadata") if isinstance(found.get("metadata"), dict) else {}
    kept: dict[str, Any] = {"name": f"e{number}-{position}"}
    for field, valid in (("labels", re.compile(r"([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?")), ("annotations", None)):
        entries = metadata.get(field)
        if isinstance(entries, dict):
            kept[field] = {
                k: v
                for k, v in entries.items()
                if isinstance(v, str)
                and re.fullmatch(r"([a-z0-9.-]+/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?", str(k))
                and (valid is None or valid.fullmatch(v))
            }
    if metadata.get("ownerReferences"):
        kept["ownerReferences"] = [{"apiVersion": "v1", "kind": "Thing", "name": "owner", "uid": "1"}]
    kept["labels"] = {**kept.get("labels", {}), _LABEL: f"e{number}"}
    return {**found, "apiVersion": "corpus.example.com/v1", "kind": "Thing", "metadata": kept}


class _Client:
    """Dry runs over connections that each thread keeps."""

    def __init__(self, plane: ControlPlane) -> None:
        self._host = plane.url.removeprefix("https://")
        self._tls = ssl.create_default_context(cafile=str(plane.folder / "ca.crt"))
        self._kept = local()
        self._opened: list[http.client.HTTPSConnection] = []

    def ask(self, thing: dict[str, Any], before: dict[str, Any] | None = None) -> Said:
        """What becomes of a creation, or of an update of ``before``, whose namespaces hold objects of its name."""
        native, ours = (self._refusal(thing, namespace, before) for namespace in (NATIVE, OURS))
        denied = _DENIED.fullmatch(native) if native is not None else None
        assert native is None or denied is not None, native
        assert ours is None or "denied the request" in ours, ours
        return Said(denied[1] if denied is not None else None, _rule_message(ours) if ours is not None else None)

    def create(self, thing: dict[str, Any]) -> dict[str, Any]:
        """The object as it was stored in both namespaces, with its versions by namespace."""
        versions = {}
        for namespace in (NATIVE, OURS):
            status, stored = self._send("POST", f"{namespace}/things", thing)
            assert status == 201, stored
            versions[namespace] = stored["metadata"]["resourceVersion"]
        return {"name": thing["metadata"]["name"], "versions": versions}

    def served(self) -> bool:
        """Whether the API server knows the kind yet."""
        return self._send("GET", f"{OURS}/things", {})[0] == 200

    def close(self) -> None:
        for connection in self._opened:
            connection.close()

    def _refusal(self, thing: dict[str, Any], namespace: str, before: dict[str, Any] | None) -> str | None:
        """The API server's message when it refuses a dry run."""
        if before is None:
            status, body = self._send("POST", f"{namespace}/things?dryRun=All", thing)
        else:
            named = {"name": before["name"], "resourceVersion": before["versions"][namespace]}
            changed = {**thing, "metadata": {**thing["metadata"], **named}}
            status, body = self._send("PUT", f"{namespace}/things/{before['name']}?dryRun=All", changed)
        return None if status in (200, 201) else str(body["message"])

    def _send(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        connection = getattr(self._kept, "connection", None)
        if connection is None:
            connection = self._kept.connection = http.client.HTTPSConnection(self._host, context=self._tls, timeout=30)
            self._opened.append(connection)
        connection.request(
            method,
            f"/apis/corpus.example.com/v1/namespaces/{path}",
            json.dumps(body, default=str),
            {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text.startswith(b"{") else {"message": text.decode()}


def _rule_message(denial: str) -> str:
    """The message of the one rule that refused, out of the text of the denial."""
    (policy,) = yaml.safe_load(denial.partition("\n\n")[2].partition("\n\n")[2]).values()
    return str(policy["holds"])


def test_the_corpus_is_judged_as_the_api_server_does(cluster: Cluster) -> None:
    expressions = corpus(conformance_folder())
    if not expressions:
        pytest.skip("no conformance data: set THESMOS_CONFORMANCE to its folder (owner: CEL)")
    cluster.apply(_KIND)
    try:
        _judge(cluster, expressions)
    finally:
        for number in range(len(expressions)):
            for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
                cluster.delete(kind, f"e{number}")
        cluster.delete("crd", "things.corpus.example.com")
        for namespace in (NATIVE, OURS):
            cluster.delete("namespace", namespace)


def _judge(cluster: Cluster, expressions: list[Expression]) -> None:
    client = _Client(cluster.plane)
    try:
        cluster.until(client.served, what="the kind Thing")
        # Stored before any policy is there: what an expression about the old object is asked of.
        before = {
            n: client.create(_thing(objects(e, 1)[0], n, 0)) for n, e in enumerate(expressions) if "oldObject" in e.text
        }
        cluster.apply(yaml.safe_dump_all([d for n, e in enumerate(expressions) for d in _policies(n, e)]))
        for number in range(len(expressions)):
            cluster.ready("clusterpolicy", f"e{number}")
        for number, expression in enumerate(expressions):
            _both_in_force(cluster, client, number, expression, before.get(number))
        seen: list[Counter[str]] = []
        for number, expression in enumerate(expressions):
            things = [_thing(o, number, n) for n, o in enumerate(objects(expression, OBJECTS))]
            with ThreadPoolExecutor(CLIENTS) as pool:
                said = list(pool.map(partial(client.ask, before=before.get(number)), things))
            for thing, answer in zip(things, said, strict=True):
                assert answer.native == answer.thesmos, f"{expression.policy}: {json.dumps(thing, default=str)}"
            seen.append(Counter(_class(s) for s in said))
    finally:
        client.close()
    lacking = [(e.policy, dict(c)) for e, c in zip(expressions, seen, strict=True) if not (c["true"] and c["false"])]
    assert not lacking
    assert sum(1 for c in seen if c["error"]) >= 10


def _class(said: Said) -> str:
    if said.native is None:
        return "true"
    return "error" if "resulted in error" in said.native else "false"


def _both_in_force(
    cluster: Cluster, client: _Client, number: int, expression: Expression, before: dict[str, Any] | None
) -> None:
    """Waits until both refuse some object that the expression does not hold of."""

    def look() -> bool:
        things = (_thing(o, number, n) for n, o in enumerate(objects(expression, 80)))
        said = (client.ask(thing, before) for thing in things)
        return any(s.native is not None and s.thesmos is not None for s in said)

    cluster.until(look, seconds=30, what=f"both policies of {expression.policy}")
