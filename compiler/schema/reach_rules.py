"""Rules that no object can reach: matches that contradict themselves, excludes that take away all or nothing, rules
behind others, preconditions that cannot hold. Called by :mod:`compiler.schema.model_rules` on the model.

Everything is decided on the safe side, by :mod:`compiler.schema.filters`. Kyverno refuses one of these (an exclude that
equals the match), which is an error here too; the others are warnings.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from compiler.diagnostics import Reporter
from compiler.frontends.pattern import parse_key, parse_kind
from compiler.schema.filters import apart, covers, selector_contradiction
from compiler.schema.kinds import Schemas
from compiler.schema.model import Filter, MatchBlock, Policy, Rule
from vm.intrinsics import wildcard

_NEAR: Final = 0.88
"""Likeness (of difflib) from which an unknown kind is taken for a misspelt one: kinds of custom resources that are
built on the name of a built-in one (``IngressRoute``) are below it."""
_FIELDS: Final = {"kinds": "kinds", "names": "names"}
_OWN_GROUPS: Final = (".k8s.io",)
_BUILT_IN: Final = frozenset(("apps", "batch", "autoscaling", "policy", "extensions"))


def check_reach(policy: Policy, schemas: Schemas, reporter: Reporter) -> None:
    """Reports the rules of a policy that cannot apply, in the order in which they are written."""
    for i, rule in enumerate(policy.rules):
        checker = _Checker(policy, rule, schemas, reporter)
        checker.kinds()
        checker.match()
        if rule.exclude is not None:
            checker.exclude(rule.exclude)
        checker.deletes()
        if policy.apply_rules == "One":
            checker.behind(policy.rules[:i])


class _Checker:
    __slots__ = ("_policy", "_reporter", "_rule", "_schemas", "_spans")

    def __init__(self, policy: Policy, rule: Rule, schemas: Schemas, reporter: Reporter) -> None:
        self._policy = policy
        self._rule = rule
        self._schemas = schemas
        self._reporter = reporter
        self._spans = policy.doc.spans

    def kinds(self) -> None:
        """Warns of kinds that nothing is known of and that look like one that is known (T1402)."""
        for f in self._all_filters():
            for i, selector in enumerate(f.kinds):
                key = parse_kind(selector)
                if key is None or wildcard.contains_wildcard(key.kind) or _versions(self._schemas, key.kind, key.group):
                    continue
                at = f"{f.pointer}/resources/kinds/{i}"
                elsewhere = sorted({r.group or "v1" for r in _versions(self._schemas, key.kind, "*")})
                if elsewhere:
                    if _is_built_in(key.group):
                        self._reporter.warning(
                            "T1402",
                            self._spans.span(at),
                            f"the group {key.group} has no kind {key.kind}",
                            "",
                            f"it is in {' and '.join(elsewhere)}",
                        )
                    continue
                if key.group != "*" and not _is_built_in(key.group):
                    continue
                known = sorted({r.kind for r in self._schemas.resources()})
                near = [k for k in known if k.lower() == key.kind.lower()]
                near = near or difflib.get_close_matches(key.kind, known, 1, _NEAR)
                if near:
                    self._reporter.warning(
                        "T1402",
                        self._spans.span(at),
                        f"no kind {key.kind} is known",
                        "",
                        f'did you mean "{near[0]}"? definitions of custom resources are given by --crd',
                    )

    def match(self) -> None:
        """Warns of filters, and pairs under ``all``, that nothing meets (T1404)."""
        block = self._rule.match
        for f in block.filters:
            self._filter(f, "match")
        if block.mode == "all":
            for i, f in enumerate(block.filters):
                for other in block.filters[:i]:
                    if part := apart(other, f):
                        line = self._spans.span(other.pointer).line
                        self._reporter.warning(
                            "T1404",
                            self._place(f, part),
                            f"no object meets these {part} and those of line {line}, so the rule never applies",
                            "",
                            "under all every element must hold: use any for one or the other",
                        )
                        return

    def exclude(self, block: MatchBlock) -> None:
        """Reports an exclude that leaves nothing of the match (T1403), and notes one that takes nothing (T0324)."""
        matched = self._rule.match
        wholly = matched.mode != "all" and self._wholly(matched.filters, block)
        if wholly:
            same = block.mode != "all" and any(_same(m, e) for m in matched.filters for e in block.filters)
            report = self._reporter.error if same else self._reporter.warning
            report(
                "T1403",
                self._spans.key_span(f"{self._rule.pointer}/exclude"),
                f'the rule "{self._rule.name}" excludes everything that it matches',
                "an exclude that is narrower than the match",
                "remove the exclude, or name the resources that are meant",
            )
            return
        for f in block.filters:
            self._filter(f, "exclude")
            if f.empty or block.mode == "all" or matched.mode == "all":
                continue
            parts = {apart(m, f) for m in matched.filters}
            if len(parts) == 1 and (part := next(iter(parts))) in _FIELDS:
                self._reporter.note(
                    "T0324",
                    self._place(f, part),
                    f"these {part} are never among those of match, so this exclude never holds",
                    "",
                    "all parts of one exclude must hold together with the match",
                )

    def deletes(self) -> None:
        """Warns of patterns for requests that delete, which are never looked at (T1409)."""
        validate = self._rule.validate
        if validate is None or (validate.pattern is None and validate.any_pattern is None):
            return
        filters = [f for f in self._rule.match.filters if f.operations]
        if (
            filters
            and len(filters) == len(self._rule.match.filters)
            and all(f.operations == ("DELETE",) for f in filters)
        ):
            at = f"{filters[0].pointer}/resources/operations"
            self._reporter.warning(
                "T1409",
                self._spans.key_span(at),
                "a pattern is not asked of what is deleted, so the rule never applies",
                "",
                "use deny with conditions, which look at request.oldObject",
            )

    def behind(self, earlier: Sequence[Rule]) -> None:
        """Warns of a rule that ``applyRules: One`` never comes to, since an earlier one always decides (T1408)."""
        for other in earlier:
            if _always_decides(other) and _same_check(other, self._rule) and self._within(other):
                line = self._spans.span(other.pointer).line
                self._reporter.warning(
                    "T1408",
                    self._spans.span(f"{self._rule.pointer}/name"),
                    f'the rule "{self._rule.name}" is never reached: with applyRules: One the rule "{other.name}" of '
                    f"line {line} decides before it",
                    "",
                    "put the narrower rule first, or leave applyRules out",
                )
                return

    def _within(self, other: Rule) -> bool:
        if other.match.mode == "all" or self._rule.match.mode == "all":
            return False
        return all(any(covers(o, f) for o in other.match.filters) for f in self._rule.match.filters)

    def _wholly(self, matched: Sequence[Filter], block: MatchBlock) -> bool:
        if block.mode == "all":
            return all(all(covers(e, m) for e in block.filters if not e.empty) for m in matched) and not any(
                e.empty for e in block.filters
            )
        return all(any(not e.empty and covers(e, m) for e in block.filters) for m in matched)

    def _filter(self, f: Filter, name: str) -> None:
        for field, selector in (("selector", f.selector), ("namespaceSelector", f.namespace_selector)):
            if selector is not None and (why := selector_contradiction(selector)):
                self._reporter.warning(
                    "T1404", self._spans.key_span(f"{f.pointer}/resources/{field}"), f"{why}, so the {name} never holds"
                )
        scopes = [self._cluster_wide(kind) for kind in f.kinds]
        if not scopes or None in scopes or not all(scopes):
            return
        words = " and ".join(f.kinds)
        if self._policy.kind == "Policy" and name == "match":
            self._reporter.warning(
                "T1404",
                self._spans.key_span(f"{f.pointer}/resources/kinds"),
                f"{words} {'is' if len(scopes) == 1 else 'are'} cluster-wide, and a Policy is for one namespace alone",
                "",
                "make it a ClusterPolicy",
            )
        elif f.namespaces and not any(wildcard.match(n, "") for n in f.namespaces) and "Namespace" not in f.kinds:
            self._reporter.warning(
                "T1404",
                self._spans.key_span(f"{f.pointer}/resources/namespaces"),
                f"{words} {'has' if len(scopes) == 1 else 'have'} no namespace, so the {name} never holds",
                "",
                "remove namespaces",
            )
        elif f.namespace_selector is not None and f.kinds == ("Namespace",):
            self._reporter.warning(
                "T1404",
                self._spans.key_span(f"{f.pointer}/resources/namespaceSelector"),
                f"a Namespace lies in no namespace, so the {name} never holds",
                "",
                "use selector for the labels of the Namespace itself",
            )

    def _cluster_wide(self, selector: str) -> bool | None:
        """Whether all kinds of a selector have no namespace; None when it is not known."""
        key = parse_kind(selector)
        if key is None or key.subresource or wildcard.contains_wildcard(key.kind):
            return None
        rows = _versions(self._schemas, key.kind, key.group)
        return not any(r.namespaced for r in rows) if rows else None

    def _place(self, f: Filter, part: str) -> Any:
        return self._spans.key_span(f"{f.pointer}/resources/{part}")

    def _all_filters(self) -> Iterator[Filter]:
        yield from self._rule.match.filters
        yield from self._rule.exclude.filters if self._rule.exclude is not None else ()


def _versions(schemas: Schemas, kind: str, group: str) -> list[Any]:
    return [r for r in schemas.resources_of_kind(kind) if wildcard.match(group, r.group)]


def _is_built_in(group: str) -> bool:
    return group in _BUILT_IN or group.endswith(_OWN_GROUPS)


def _same(a: Filter, b: Filter) -> bool:
    return a == b and a.exclude_resources is None and a.labels is None


def _always_decides(rule: Rule) -> bool:
    """Whether a rule has a result for each object that it matches: nothing in it can skip."""
    if rule.preconditions is not None or rule.cel_preconditions or rule.exclude is not None or rule.validate is None:
        return False
    validate = rule.validate
    if validate.deny is not None:
        return True
    if validate.pattern is not None:
        return not _may_skip(validate.pattern)
    return bool(validate.any_pattern) and not any(map(_may_skip, validate.any_pattern or ()))


def _same_check(a: Rule, b: Rule) -> bool:
    """Whether the first has a result wherever the second has one: patterns have none for what is deleted."""
    if a.validate is None or b.validate is None:
        return False
    return a.validate.deny is not None or b.validate.pattern is not None or b.validate.any_pattern is not None


def _may_skip(pattern: Any) -> bool:
    if isinstance(pattern, dict):
        return any(parse_key(key).anchor in ("", "<") or _may_skip(value) for key, value in pattern.items())
    return isinstance(pattern, list) and any(map(_may_skip, pattern))
