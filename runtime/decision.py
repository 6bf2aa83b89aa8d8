"""Turns engine responses into an admission answer: allowed or not, the text of a refusal, warnings, patch, annotations.

The webhook calls :func:`decide`; the texts are Kyverno's (semantics §5, §23), since people and tools read them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from runtime.engine import ERROR, FAIL, PASS, SKIP, EngineResponse, RuleResult
from runtime.policyset import RulePlan

MAX_WARNING: Final = 256
"""Characters of one warning that clients show; the API server cuts longer ones and all beyond 4096 in sum."""


MAX_ANNOTATION: Final = 1024
"""Characters of one audit annotation: each request that a policy sees has some in the audit log."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to one admission request. ``patch`` is a list of RFC 6902 operations, None when nothing changed."""

    allowed: bool
    message: str = ""
    warnings: tuple[str, ...] = ()
    patch: list[dict[str, Any]] | None = None
    audit_annotations: dict[str, str] = field(default_factory=dict)


def decide(responses: EngineResponse | Iterable[EngineResponse], *, force_ignore: bool = False) -> Decision:
    """Joins the responses of one webhook call.

    ``force_ignore`` is ``--forceFailurePolicyIgnore``: errors no longer block, violations still do.
    """
    if isinstance(responses, EngineResponse):
        if not responses.results:
            # Most requests: nothing was found, and the same rules held the last time.
            return _clean(responses.passed)
        given: tuple[EngineResponse, ...] = (responses,)
    else:
        given = tuple(responses)
    synchronous = [
        result
        for response in given
        for result in response.results
        if response.what == "mutate" or result.info is None or result.info.enforcing
    ]
    blocked = any(blocks(result, force_ignore=force_ignore) for result in synchronous)
    warnings = tuple(
        f"policy {result.policy}.{result.rule}: {result.message}"
        for response in given
        for result in response.results
        if result.info is not None and result.info.emit_warning and _told(result)
    )
    annotations = audit_annotations(given, allowed=not blocked)
    if blocked:
        return Decision(False, denial_text(given, synchronous), warnings, None, annotations)
    return Decision(True, "", warnings, _patch(given), annotations)


def _told(result: RuleResult) -> bool:
    """Whether a rule of a policy with ``emitWarning`` has something to tell: what is wrong, or what it changed."""
    return result.status not in (PASS, SKIP) or (result.status == PASS and result.patched is not None)


def blocks(result: RuleResult, *, force_ignore: bool = False) -> bool:
    """Whether a result refuses the request: an enforced violation, or an error under failurePolicy Fail.

    Kyverno asks for one policy with failurePolicy Fail in the same webhook call; its calls are split by failure policy,
    so that the policy's own setting comes to the same.
    """
    if result.status == FAIL:
        return result.action == "Enforce"
    if result.status == ERROR:
        return not force_ignore and (result.info is None or result.info.failure_policy == "Fail")
    return False


def denial_text(responses: Sequence[EngineResponse], results: Iterable[RuleResult]) -> str:
    """The message of a refusal: a header line, then policies and rules as a YAML map."""
    reasons: dict[str, dict[str, str]] = {}
    for result in results:
        if result.status not in (PASS, SKIP):
            reasons.setdefault(result.policy, {})[result.rule] = result.message
    request = responses[0].request
    lines = [
        f"\n\nresource {request.kind}/{request.namespace}/{request.name} was blocked due to the following policies \n"
    ]
    for policy in sorted(reasons):
        lines.append(f"{yaml_scalar(policy)}:")
        for rule in sorted(reasons[policy]):
            lines.append(f"  {yaml_scalar(rule)}: {yaml_scalar(reasons[policy][rule], indent=4)}")
    return "\n".join(lines) + "\n"


def audit_annotations(responses: Iterable[EngineResponse], *, allowed: bool) -> dict[str, str]:
    """Audit annotations of the answer: the decision, the policies that took part in it, and the rules that found
    something, by what they found.

    The API server puts the name of the webhook and a slash before each key, and drops keys that have a slash already.
    """
    given = tuple(responses)
    annotations = {"decision": "allow" if allowed else "deny"}
    policies: dict[str, None] = {}
    found: dict[str, list[str]] = {}
    for response in given:
        for plan in response.passed:
            policies[plan.policy.key] = None
        for result in response.results:
            policies[result.policy_key] = None
            if result.patched is not None:
                found.setdefault("mutate", []).append(f"{result.policy_key}/{result.rule}")
            elif result.status in (FAIL, ERROR):
                found.setdefault(result.status, []).append(f"{result.policy_key}/{result.rule}")
            elif result.exceptions:
                found.setdefault("exceptions", []).extend(result.exceptions)
    if policies:
        annotations["policies"] = _listed(policies)
    for key, names in found.items():
        annotations[key] = _listed(dict.fromkeys(names))
    return annotations


_NOTHING: Final = Decision(True, audit_annotations={"decision": "allow"})

_known_rules: dict[tuple[int, ...], tuple[RulePlan, ...]] = {}
_known_decisions: dict[int, tuple[tuple[RulePlan, ...], Decision]] = {}
"""The decision on requests of which nothing was found, by the id of the tuple of rules that held. Ids are those of what
is kept beside them, so that they stay theirs: :func:`forget_policies` lets go of all."""
MOST_KNOWN: Final = 256


def forget_policies() -> None:
    """Other policies are in force: nothing of those before is kept."""
    _known_rules.clear()
    _known_decisions.clear()


def same_rules(passed: tuple[RulePlan, ...]) -> tuple[RulePlan, ...]:
    """One tuple for all that hold the same rules, so that its id stands for them."""
    known = _known_decisions.get(id(passed))
    if known is not None:
        return passed
    # The engine has answered with another tuple: fused code gives the same one every time, rules one by one do not.
    key = tuple(map(id, passed))
    found = _known_rules.get(key)
    if found is None:
        if len(_known_rules) >= MOST_KNOWN:
            forget_policies()
        found = _known_rules[key] = passed
        policies = _listed(dict.fromkeys(plan.policy.key for plan in passed))
        decision = Decision(True, audit_annotations={"decision": "allow", "policies": policies})
        _known_decisions[id(passed)] = (passed, decision)
    return found


def _clean(passed: tuple[RulePlan, ...]) -> Decision:
    return _known_decisions[id(same_rules(passed))][1] if passed else _NOTHING


def _listed(names: Iterable[str]) -> str:
    """Names with commas between; an ellipsis where they would be too many."""
    given = list(names)
    text = ", ".join(given)
    while len(text) > MAX_ANNOTATION:
        given = given[: len(given) // 2]
        text = ", ".join(given) + ", …"
    return text


def _patch(responses: Iterable[EngineResponse]) -> list[dict[str, Any]] | None:
    from vm.patch.diff import diff

    operations: list[dict[str, Any]] = []
    for response in responses:
        before = response.request.resource
        for result in response.results:
            if result.patched is not None:
                operations += diff(before, result.patched)
                before = result.patched
    return operations or None


_PLAIN: Final = re.compile(r"[A-Za-z0-9_./\\(\"$^;+<=)~][^\n]*\Z|-(?=[^\s])[^\n]*\Z")
_RESOLVES: Final = re.compile(
    r"(?:~|null|true|false|yes|no|on|off|y|n|[-+]?(?:0x[0-9a-f]+|0o?[0-7]+|[0-9][0-9_]*)"
    r"|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:e[-+]?[0-9]+)?|[-+]?\.inf|\.nan|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*|<<|=)\Z",
    re.IGNORECASE,
)


def yaml_scalar(text: str, indent: int = 2) -> str:
    """A text as YAML on one line, plain where it reads back as the same text; several lines as a literal block."""
    if "\n" in text:
        return _block(text, indent)
    if text == "" or _RESOLVES.match(text):
        return '"' + text + '"'
    if not text.isprintable():
        return _double(text)
    safe = _PLAIN.match(text) and ": " not in text and " #" not in text and not text.endswith((":", " "))
    return text if safe and not text.startswith(('"', "---")) else "'" + text.replace("'", "''") + "'"


def _block(text: str, indent: int) -> str:
    if text.startswith((" ", "\n", "\t")) or any(not c.isprintable() and c != "\n" for c in text):
        return _double(text)
    body = text.rstrip("\n")
    ends = len(text) - len(body)
    head = "|-" if ends == 0 else "|" if ends == 1 else "|+"
    pad = " " * indent
    lines = [pad + line if line else "" for line in body.split("\n")] + [""] * max(ends - 1, 0)
    return head + "\n" + "\n".join(lines)


def _double(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)
