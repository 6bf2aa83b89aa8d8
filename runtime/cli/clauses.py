"""The clauses of a policy as its file has them: filters, conditions, patterns, elements of loops, each with its place.

``runtime.cli.coverage`` asks which of them the tests of a policy have exercised.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from compiler.source import pointer

if TYPE_CHECKING:
    from compiler.source import Document

CLASSIC: Final = ("ClusterPolicy", "Policy")
LISTS_OF_CEL: Final = ("matchConditions", "variables", "validations", "mutations", "auditAnnotations")


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause. ``label`` is its path within the rule (``validate.deny.conditions.any[0]``), ``kind`` is ``match``,
    ``exclude`` or ``code``; ``start`` and ``end`` are line and column, the end not included."""

    label: str
    kind: str
    start: tuple[int, int]
    end: tuple[int, int]
    value: Any

    @property
    def line(self) -> int:
        return self.start[0]


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """A rule as the file has it (not those that autogen makes of it), with its clauses in order."""

    name: str
    line: int
    kind: str
    conditional: bool
    clauses: tuple[Clause, ...]


def written_rules(document: Document) -> list[WrittenRule]:
    """The rules of a policy document. Other kinds than Kyverno's two count as one rule without a name."""
    spec = document.value.get("spec")
    if type(spec) is not dict:
        return []
    if document.value.get("kind") not in CLASSIC:
        clauses = [
            clause
            for key in LISTS_OF_CEL
            for n, value in enumerate(_list(spec.get(key)))
            for clause in [_clause(document, f"{key}[{n}]", "code", value, "spec", key, n)]
        ]
        kind = "mutate" if _list(spec.get("mutations")) else "validate"
        conditional = bool(_list(spec.get("matchConditions")))
        return [WrittenRule("", document.spans.span("/spec").line, kind, conditional, tuple(clauses))]
    found = []
    for n, rule in enumerate(_list(spec.get("rules"))):
        if type(rule) is not dict:
            continue
        kind = next((k for k in ("validate", "mutate", "generate", "cleanup", "verifyImages") if k in rule), "validate")
        conditional = bool(rule.get("preconditions") or rule.get("celPreconditions"))
        clauses = list(_of_rule(document, rule, ("spec", "rules", n)))
        line = document.spans.span(pointer("spec", "rules", n)).line
        found.append(WrittenRule(str(rule.get("name") or ""), line, kind, conditional, tuple(clauses)))
    return found


def _of_rule(document: Document, rule: dict[str, Any], at: tuple[str | int, ...]) -> Iterator[Clause]:
    for block in ("match", "exclude"):
        yield from (replace(c, kind=block) for c in _filters(document, rule.get(block), block, (*at, block)))
    yield from _conditions(document, rule.get("preconditions"), "preconditions", (*at, "preconditions"))
    for n, condition in enumerate(_list(rule.get("celPreconditions"))):
        yield _clause(document, f"celPreconditions[{n}]", "code", condition, *at, "celPreconditions", n)
    for kind in ("validate", "mutate", "generate"):
        body = rule.get(kind)
        if type(body) is dict:
            yield from _body(document, body, kind, (*at, kind))


def _filters(document: Document, block: Any, label: str, at: tuple[str | int, ...]) -> Iterator[Clause]:
    if type(block) is not dict or not block:
        return
    listed = [(mode, n, f) for mode in ("any", "all") for n, f in enumerate(_list(block.get(mode)))]
    for mode, n, value in listed:
        yield _clause(document, f"{label}.{mode}[{n}]", "code", value, *at, mode, n)
    if not listed:
        yield _clause(document, label, "code", block, *at)


def _conditions(document: Document, block: Any, label: str, at: tuple[str | int, ...]) -> Iterator[Clause]:
    """The entries of a condition block in any of its forms: a list, a map of ``any`` and ``all``, a list of these."""
    if type(block) is list:
        for n, value in enumerate(block):
            if type(value) is dict and ("any" in value or "all" in value):
                yield from _conditions(document, value, f"{label}[{n}]", (*at, n))
            else:
                yield _clause(document, f"{label}[{n}]", "code", value, *at, n)
    elif type(block) is dict:
        for mode in ("any", "all"):
            for n, value in enumerate(_list(block.get(mode))):
                yield _clause(document, f"{label}.{mode}[{n}]", "code", value, *at, mode, n)


def _body(document: Document, body: dict[str, Any], label: str, at: tuple[str | int, ...]) -> Iterator[Clause]:
    """What a rule, or one element of a loop, does."""
    for key in ("pattern", "podSecurity", "patchStrategicMerge", "patchesJson6902"):
        if key in body:
            yield _clause(document, f"{label}.{key}", "code", body[key], *at, key)
    for n, value in enumerate(_list(body.get("anyPattern"))):
        yield _clause(document, f"{label}.anyPattern[{n}]", "code", value, *at, "anyPattern", n)
    deny = body.get("deny")
    if type(deny) is dict:
        conditions = list(
            _conditions(document, deny.get("conditions"), f"{label}.deny.conditions", (*at, "deny", "conditions"))
        )
        yield from conditions or [_clause(document, f"{label}.deny", "code", deny, *at, "deny")]
    cel = body.get("cel")
    if type(cel) is dict:
        for n, value in enumerate(_list(cel.get("expressions"))):
            yield _clause(document, f"{label}.cel.expressions[{n}]", "code", value, *at, "cel", "expressions", n)
    for n, value in enumerate(_list(body.get("foreach"))):
        inner, place = f"{label}.foreach[{n}]", (*at, "foreach", n)
        yield _clause(document, inner, "code", value, *place)
        if type(value) is dict:
            entries = _conditions(
                document, value.get("preconditions"), f"{inner}.preconditions", (*place, "preconditions")
            )
            yield from entries
            yield from _body(document, value, inner, place)
    for n, value in enumerate(_list(body.get("targets"))):
        yield _clause(document, f"{label}.targets[{n}]", "code", value, *at, "targets", n)


def _clause(document: Document, label: str, kind: str, value: Any, *at: str | int) -> Clause:
    span = document.spans.span(pointer(*at))
    key = document.spans.key_span(pointer(*at))
    start = min((span.line, span.column), (key.line, key.column))
    return Clause(label, kind, start, (span.end_line, span.end_column), value)


def _list(value: Any) -> list[Any]:
    return value if type(value) is list else []
