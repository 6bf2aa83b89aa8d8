"""Generate rules that set each other off (T1410), over all policies that are compiled together; called by
:mod:`compiler.schema.model_rules`.

A generated object comes from the background controller, whose requests a rule passes over unless it says
``skipBackgroundRequests: false`` (semantics §17). So only such rules can be set off by another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from compiler.diagnostics import Reporter
from compiler.schema.filters import apart
from compiler.schema.model import Filter, Policy, Rule

Json: TypeAlias = Any


@dataclass(frozen=True, slots=True, eq=False)
class _Maker:
    """A generate rule with what its objects look like, as filters."""

    policy: Policy
    rule: Rule
    made: tuple[Filter, ...]

    def sets_off(self, other: _Maker) -> bool:
        if other.rule.skip_background_requests:
            return False
        return any(not apart(m, f) and f.kinds for m in self.made for f in other.rule.match.filters)


def check_loops(policies: Sequence[Policy], reporter: Reporter) -> None:
    """Warns once of every circle of generate rules, at the rule of it that is written first."""
    makers = [
        _Maker(policy, rule, made)
        for policy in policies
        for rule in policy.rules
        if (made := tuple(_made(rule.raw.get("generate") or {})))
    ]
    told: set[frozenset[int]] = set()
    for start in range(len(makers)):
        circle = _circle(makers, start)
        if circle is None or frozenset(circle) in told:
            continue
        told.add(frozenset(circle))
        first = makers[circle[0]]
        names = [f'"{makers[i].rule.name}"' for i in (*circle, circle[0])]
        reporter.warning(
            "T1410",
            first.policy.doc.spans.key_span(f"{first.rule.pointer}/generate"),
            f"generate rules set each other off without end: {' → '.join(names)}",
            "",
            "narrow the match, or remove skipBackgroundRequests: false",
        )


def _circle(makers: Sequence[_Maker], start: int) -> list[int] | None:
    """The shortest way from a rule back to itself."""
    ways: list[list[int]] = [[start]]
    seen: set[int] = set()
    while ways:
        way = ways.pop(0)
        for i, other in enumerate(makers):
            if not makers[way[-1]].sets_off(other):
                continue
            if i == start:
                return way
            if i not in seen:
                seen.add(i)
                ways.append([*way, i])
    return None


def _made(generate: dict[str, Json]) -> Iterator[Filter]:
    for target in (generate, *(generate.get("foreach") or ())):
        for kind in (target.get("cloneList") or {}).get("kinds") or ():
            yield Filter(kinds=(kind,), namespaces=_constant(target.get("namespace")))
        if isinstance(kind := target.get("kind"), str) and kind:
            version = target.get("apiVersion")
            selector = f"{version}/{kind}" if isinstance(version, str) and version and "{{" not in version else kind
            yield Filter(
                kinds=(selector,),
                names=_constant(target.get("name")),
                namespaces=_constant(target.get("namespace")),
                operations=("CREATE", "UPDATE"),
            )


def _constant(text: Json) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) and text and "{{" not in text else ()
