"""What may change of a policy with generate rules that is in force (semantics §18): called with the policy as it was
and as it is to be, by ``thesmos lint --against`` and by whoever accepts an update.

As in Kyverno the target and its data may change, with a warning where old objects are then left behind (T1412), and
with the target the rest of the rule; rules may come and go; anything else of a generate rule is refused (T1411), its
match when some rule keeps objects in step.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import orjson

from compiler.diagnostics import Reporter
from compiler.schema.model import Policy, Rule

Json: TypeAlias = Any

_TARGET: Final = ("apiVersion", "kind", "name", "namespace", "clone", "cloneList")
_FREE: Final = ("data", "foreach", "synchronize", "orphanDownstreamOnPolicyDelete", "generateExisting")


def check_update(old: Policy, new: Policy, reporter: Reporter) -> None:
    """Reports, at places of the new policy, what an update may not change."""
    before = [r for r in old.rules if r.raw.get("generate")]
    if not before:
        return
    after = [r for r in new.rules if r.raw.get("generate")]
    whole = any((r.raw["generate"] or {}).get("synchronize") for r in before)
    known = {_rest(r, whole): r for r in before}
    rests = {_rest(r, whole): r for r in after}
    fewer = len(before) > len(after)
    odd = [r for key, r in rests.items() if key not in known] if fewer else []
    gone = [r for key, r in known.items() if key not in rests] if not fewer else []
    named = {r.name: r for r in before}
    moved = {r.name for r in after if r.name in named and _target(named[r.name]) != _target(r)}
    changed: list[Rule | None] = [*odd] or [_closest(r, after) for r in gone]
    changed = [r for r in changed if r is None or r.name not in moved]
    for rule in changed:
        reporter.error(
            "T1411",
            new.doc.spans.span(rule.pointer if rule is not None else "/spec/rules"),
            "changes of immutable fields of a rule spec in a generate rule is disallowed",
            "the target and its data alone may change",
            "give the changed rule a new name beside the old one, or delete the policy and make it again",
        )
    if changed:
        return
    for key, rule in rests.items():
        earlier = named[rule.name] if rule.name in moved else known.get(key)
        if earlier is not None and _target(earlier) != _target(rule):
            reporter.warning(
                "T1412",
                new.doc.spans.key_span(f"{rule.pointer}/generate"),
                "no synchronization will be performed to the old target resource upon policy updates",
                "",
                "delete what was generated for the old target",
            )


def _rest(rule: Rule, whole: bool) -> bytes:
    """A rule without what may change freely; with ``whole`` its match counts too."""
    generate = {k: v for k, v in rule.raw["generate"].items() if k not in (*_TARGET, *_FREE)}
    left = {k: v for k, v in rule.raw.items() if whole or k not in ("match", "exclude")}
    return orjson.dumps({**left, "generate": generate}, option=orjson.OPT_SORT_KEYS)


def _target(rule: Rule) -> dict[str, Json]:
    return {k: rule.raw["generate"].get(k) for k in _TARGET}


def _closest(gone: Rule, rules: list[Rule]) -> Rule | None:
    return next((r for r in rules if r.name == gone.name), None)
