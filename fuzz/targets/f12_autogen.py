"""A rule about Pods says of a Pod what the rule made from it says of a Deployment that wraps the Pod."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from typing import Any, Final

from fuzz.explore import Counterexample, numbers
from fuzz.gen.rules import Case, case
from fuzz.pairs import by_product, ready
from tests.reference.evaluate import Result
from tests.reference.query import equal

NAME: Final = "f12_autogen"
PROPERTY: Final = "rule(pod) = autogen-rule(deployment that wraps the pod): status, message, path, patched template"

_SAFE: Final = re.compile(r"request\.(?:object\.(?:spec|metadata)|operation|namespace)\b")
_ENGINES: Final = ("O2", "tier 2")


def run(seconds: float, seed: int) -> int:
    count = 0
    for number in numbers(seconds, seed):
        made = case(number, resources=2)
        if made.operation != "CREATE" or len(made.documents) > 1 or not _comparable(made):
            continue
        _for_pods(made.documents[0])
        wrapped = replace(made, resources=[_wrapped(r) for r in made.resources])
        compiled = ready(made, _ENGINES)
        if compiled is None:
            continue
        for policies in compiled.sets.values():
            for at in range(len(made.resources)):
                plain = [_plain(r) for r in by_product(policies, made, at)]
                inside = [_plain(r) for r in by_product(policies, wrapped, at)]
                count += 1
                if not equal(plain, inside):
                    raise Counterexample(
                        f"policy: {json.dumps(made.documents[0])}\npod: {json.dumps(made.resources[at])}\n"
                        f"pod: {plain}\ndeployment: {inside}"
                    )
    return count


def _comparable(made: Case) -> bool:
    """Only Pods, only queries that autogen rewrites, nothing that a made rule is known to lose."""
    policy = made.documents[0]
    rules = policy["spec"]["rules"]
    if any(r["kind"] != "Pod" for r in made.resources) or policy["kind"] != "ClusterPolicy":
        return False
    if "request" in _SAFE.sub("", json.dumps(rules)) or "images" in json.dumps(rules):
        return False
    for rule in rules:
        if "generate" in rule or "targets" in (rule.get("mutate") or {}):
            return False
        mutate = rule.get("mutate") or {}
        if "patchesJson6902" in json.dumps(mutate) or "+(extra)" in json.dumps(mutate):
            return False
        if any("order" in e or "foreach" in e for e in mutate.get("foreach") or ()):
            return False
        if "elementScope" in json.dumps(rule) or "{{ request.object.metadata.{{" in json.dumps(rule):
            return False
    return True


def _for_pods(policy: dict[str, Any]) -> None:
    policy["metadata"].pop("annotations", None)
    for rule in policy["spec"]["rules"]:
        rule["match"] = {"any": [{"resources": {"kinds": ["Pod"]}}]}


def _wrapped(pod: dict[str, Any]) -> dict[str, Any]:
    template = copy.deepcopy({"metadata": pod["metadata"], "spec": pod.get("spec")})
    metadata = {k: pod["metadata"][k] for k in ("name", "namespace") if k in pod["metadata"]}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": template}}


def _plain(result: Result) -> list[Any]:
    """A result in the words of the rule about Pods."""
    message = None if result.status == "error" else result.message
    if message is not None:
        message = message.replace("autogen-", "").replace("/spec/template/", "/").replace("spec.template.spec", "spec")
        message = message.replace("spec.template.metadata", "metadata")
        message = "mutated" if message.startswith("mutated ") else message  # a patch may change the Pod's name
    patched = result.patched
    if patched is not None:
        inside = patched["spec"]["template"] if patched["kind"] == "Deployment" else patched
        patched = {k: inside.get(k) for k in ("metadata", "spec")}
    return [result.rule.removeprefix("autogen-"), result.status, message, patched]
