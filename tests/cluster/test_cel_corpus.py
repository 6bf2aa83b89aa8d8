"""The corpus of public CEL expressions in a native ValidatingAdmissionPolicy and in a Thesmos policy, object by object:
the API server must say the same of both.

One dry run asks both at once: the native binding only warns, so that its message comes as a warning header, while
Thesmos refuses. The objects are made to a kind without a schema, since the corpus is about many kinds.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
_WARNING: Final = re.compile(
    r"Validation failed for ValidatingAdmissionPolicy '[^']*' with binding '[^']*': (.*)", re.S
)

_KIND = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.corpus.example.com}
spec:
  group: corpus.example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


@dataclass(frozen=True, slots=True)
class Said:
    """What became of one object: the native message and Thesmos', None where they let it through."""

    native: str | None
    thesmos: str | None


def _policies(number: int, expression: Expression) -> list[dict[str, Any]]:
    name = f"e{number}"
    selector = {"matchLabels": {_LABEL: name}}
    rule = {
        "name": "holds",
        "match": {"any": [{"resources": {"kinds": ["Thing"], "operations": ["CREATE"], "selector": selector}}]},
        "validate": {"cel": {"expressions": [{"expression": expression.text}]}},
    }
    things = {"apiGroups": ["corpus.example.com"], "apiVersions": ["v1"], "resources": ["things"]}
    constraints = {"resourceRules": [{**things, "operations": ["CREATE"]}], "objectSelector": selector}
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
            "spec": {"policyName": name, "validationActions": ["Warn"]},
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

    def create(self, thing: dict[str, Any]) -> Said:
        connection = getattr(self._kept, "connection", None)
        if connection is None:
            connection = self._kept.connection = http.client.HTTPSConnection(self._host, context=self._tls, timeout=30)
        connection.request(
            "POST",
            "/apis/corpus.example.com/v1/namespaces/default/things?dryRun=All",
            json.dumps(thing, default=str),
            {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        body = json.loads(answer.read())
        native = None
        for header in answer.msg.get_all("Warning") or []:
            text = json.loads(header.split(" ", 2)[2])
            if (match := _WARNING.fullmatch(text)) is not None:
                native = match[1]
        if answer.status == 201:
            return Said(native, None)
        message = str(body["message"])
        assert "denied the request" in message, message
        return Said(native, _rule_message(message))


def _rule_message(denial: str) -> str:
    """The message of the one rule that refused, out of the text of the denial."""
    return str(yaml.safe_load(denial.partition("\n\n")[2].partition("\n\n")[2])["e"]["holds"])


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


def _judge(cluster: Cluster, expressions: list[Expression]) -> None:
    documents = [d for n, e in enumerate(expressions) for d in _policies(n, e)]
    cluster.apply(yaml.safe_dump_all(documents))
    for number in range(len(expressions)):
        cluster.ready("clusterpolicy", f"e{number}")
    client = _Client(cluster.plane)
    for number, expression in enumerate(expressions):
        _both_in_force(cluster, client, number, expression)
    seen: list[Counter[str]] = []
    for number, expression in enumerate(expressions):
        things = [_thing(o, number, n) for n, o in enumerate(objects(expression, OBJECTS))]
        with ThreadPoolExecutor(CLIENTS) as pool:
            said = list(pool.map(client.create, things))
        for thing, answer in zip(things, said, strict=True):
            assert answer.native == answer.thesmos, f"{expression.policy}: {json.dumps(thing, default=str)}"
        seen.append(Counter(_class(s) for s in said))
    assert all(c["true"] and c["false"] + c["error"] for c in seen), [dict(c) for c in seen]
    assert sum(1 for c in seen if c["error"]) >= 10
    assert sum(1 for c in seen if c["false"]) >= len(expressions) - 1


def _class(said: Said) -> str:
    if said.native is None:
        return "true"
    return "error" if "resulted in error" in said.native else "false"


def _both_in_force(cluster: Cluster, client: _Client, number: int, expression: Expression) -> None:
    """Waits until both refuse some object that the expression does not hold of."""

    def look() -> bool:
        said = [client.create(_thing(o, number, n)) for n, o in enumerate(objects(expression, 40))]
        return any(s.native is not None and s.thesmos is not None for s in said)

    cluster.until(look, seconds=30, what=f"both policies of {expression.policy}")
