"""``apply --generate-exceptions``: a PolicyException for each violation, to be looked through and applied.

They free the object that was found, and what its controllers make of it, from the rule that failed; of a rule with
podSecurity only from the controls that the object breaks. A time to live lets the cleanup controller take them away.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from runtime.cli.files import identity
from runtime.cli.problem import Problem

if TYPE_CHECKING:
    from runtime.cli.offline import Answer
    from runtime.engine import RuleResult

TTL_LABEL: Final = "cleanup.kyverno.io/ttl"
DEFAULT_TTL: Final = "720h"
_TAG_OR_DIGEST: Final = re.compile(r"(?:@.*|:[^/]*)$")


def ttl_text(written: str) -> str:
    """A time to live as Go writes it, ``720h0m0s``; empty for none. Raises :class:`Problem` for no duration."""
    from vm.intrinsics.duration import format_duration, parse_duration

    nanoseconds = parse_duration(written)
    if nanoseconds is None:
        raise Problem(f'--generated-exception-ttl: "{written}" is no duration such as 720h')
    return format_duration(nanoseconds) if nanoseconds > 0 else ""


def generated(answers: Iterable[Answer], ttl: str, *, audit_warn: bool = False) -> Iterator[dict[str, Any]]:
    """The exceptions for all violations, in the order of the results."""
    for answer in answers:
        for result in answer.results:
            if result.report_status(audit_warn=audit_warn) == "fail":
                yield _exception(answer, result, ttl)


def _exception(answer: Answer, result: RuleResult, ttl: str) -> dict[str, Any]:
    _, kind, namespace, name = identity(answer.resource)
    policy = answer.policy.key
    kinds, rules, names = [kind], [result.rule], [name]
    # What a controller makes bears its name in front, and is checked by the rules for it.
    if (own := result.rule.removeprefix("autogen-cronjob-")) != result.rule:
        kinds += ["Job", "Pod"]
        rules += [f"autogen-{own}", own]
    elif (own := result.rule.removeprefix("autogen-")) != result.rule:
        kinds.append("Pod")
        rules.append(own)
    if len(kinds) > 1:
        names.append(f"{name}-*")
    resources: dict[str, Any] = {"kinds": kinds, "names": names}
    if namespace:
        resources["namespaces"] = [namespace]
    called = "-".join(filter(None, (policy, result.rule, namespace, name)))
    metadata: dict[str, Any] = {"name": called.replace("/", "-")}
    if namespace:
        metadata["namespace"] = namespace
    if ttl:
        metadata["labels"] = {TTL_LABEL: ttl}
    spec: dict[str, Any] = {
        "exceptions": [{"policyName": policy, "ruleNames": rules}],
        "match": {"any": [{"resources": resources}]},
    }
    if "controls" in result.properties:
        spec["podSecurity"] = _exclusions(answer.resource, result)
    return {"apiVersion": "kyverno.io/v2", "kind": "PolicyException", "metadata": metadata, "spec": spec}


def _exclusions(resource: dict[str, Any], result: RuleResult) -> list[dict[str, Any]]:
    """What must be excluded from the standard: by control, for the Pod itself and for the images of its containers."""
    from vm.intrinsics.pod_security import containers_of, violations

    properties = result.properties
    broken = properties["controls"].split(",")
    images = {c.name: c.image for c in reversed(containers_of(resource))}
    of_pod: dict[str, None] = {}
    of_images: dict[str, dict[str, None]] = {}
    for violation in violations(resource, properties["standard"], properties["version"], []):
        if violation.check.id not in broken:
            continue
        for error in violation.errors:
            if error.container is None:
                of_pod.setdefault(violation.check.control)
            else:
                chosen = of_images.setdefault(violation.check.control, {})
                chosen.setdefault(_TAG_OR_DIGEST.sub("", images.get(error.container, "")) + "*")
    return [
        *({"controlName": control} for control in of_pod),
        *({"controlName": control, "images": list(chosen)} for control, chosen in of_images.items()),
    ]
