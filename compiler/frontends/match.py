"""Lowers ``match`` and ``exclude`` to one condition, and to the keys by which requests find the rule (semantics §11).

Called by :mod:`compiler.lower` for rules and for exceptions. The condition is a tree of ``And`` and ``Or`` over
``match.*`` intrinsics, with kinds and operations first, which the pass ``hoist_match`` moves into the index.
"""

from __future__ import annotations

from typing import Final

from compiler.frontends.pattern import parse_kind
from compiler.frontends.rule import OPERATION, RESOURCE
from compiler.ir.build import FALSE, all_of, any_of, negate
from compiler.ir.ops import And, Const, Expr, Invoke, KindKey, Load, MatchKey, Op
from compiler.schema.model import Filter, MatchBlock, ResourceRule, Rule

ANY_KIND: Final = KindKey("*", "*", "*", "*")

_KIND: Final = Load(("$kind",))
_ADMISSION: Final = Load(("$admission",))
_LABELS: Final = Load(("$namespaceLabels",))
_NAMESPACE_TESTS: Final = ("match.namespace_selector", "match.own_namespace_selector")
"""As Kyverno reads the selector, and as the API server does."""
LABELS_UNKNOWN: Final = And(
    (
        Op("is_absent", (_LABELS,)),
        negate(Op("is_empty", (Op("as_text", (Load(("$resource", "metadata", "namespace")),)),))),
    )
)
"""The resource has a namespace and nobody could read its labels."""


def applies(rule: Rule, namespace: str | None) -> Expr:
    """The condition under which a rule applies; ``namespace`` is that of a namespaced policy."""
    terms = [matched(rule.match)]
    if namespace is not None:
        # A namespaced policy is for the objects of its namespace alone.
        terms.append(Op("equal", (Load(("$resource", "metadata", "namespace")), Const(namespace))))
    if rule.bound is not None:
        terms.append(matched(rule.bound))
    for block in (rule.exclude, rule.released):
        excluded_when = excluded(block) if block is not None else FALSE
        if excluded_when != FALSE:
            terms.append(negate(excluded_when))
    return all_of(terms)


def matched(block: MatchBlock, *, exception: bool = False) -> Expr:
    """Whether a ``match`` block holds. That of an exception does not look at operations, and frees nothing as long as
    the labels of the namespace are unknown."""
    filters = [_match_filter(f, exception) for f in block.filters]
    return all_of(filters) if block.mode == "all" else any_of(filters)


def excluded(block: MatchBlock) -> Expr:
    """Whether an ``exclude`` block holds: all parts of one filter together. An empty filter excludes nothing, and in
    ``all`` it makes the whole block exclude nothing."""
    filters = [FALSE if f.empty else all_of([*_resource_terms(f), *_user_terms(f)]) for f in block.filters]
    if block.mode == "all":
        return FALSE if FALSE in filters else all_of(filters)
    return any_of([f for f in filters if f != FALSE])


def match_keys(block: MatchBlock) -> tuple[MatchKey, ...]:
    """Keys that cover every request the block can match: kinds by operations, too many rather than too few."""
    filters = block.filters
    if block.mode == "all":
        # Every filter must hold, so that any one which names kinds covers the rule.
        filters = next(((f,) for f in filters if f.kinds), filters[:1])
    keys: list[MatchKey] = []
    for f in filters:
        selectors = [key for kind in f.kinds if (key := parse_kind(kind)) is not None]
        keys += [MatchKey(key, tuple(sorted(set(f.operations)))) for key in selectors or [ANY_KIND]]
    return tuple(dict.fromkeys(keys))


def reads_namespace_labels(rule: Rule) -> bool:
    """Whether the match or exclude of a rule looks at the labels of the namespace."""
    blocks = (rule.match, rule.exclude, rule.bound, rule.released)
    filters = tuple(f for block in blocks if block is not None for f in block.filters)
    inner = tuple(f.exclude_resources for f in filters if f.exclude_resources is not None)
    return any(f.namespace_selector is not None for f in (*filters, *inner))


def _match_filter(f: Filter, exception: bool) -> Expr:
    terms = _resource_terms(f, not exception)
    if f.namespace_selector is not None and not exception:
        # Unknown labels must not let a request slip past the rule: it counts as matched here and ends as an error.
        terms = [any_of([LABELS_UNKNOWN, t]) if _is_namespace_selector(t) else t for t in terms]
    users = _user_terms(f)
    if users and f.has_resources:
        # In background mode nobody asks, so the user part of a match counts as met (Kyverno).
        terms.append(any_of([negate(Op("is_true", (_ADMISSION,))), all_of(users)]))
    elif users:
        terms += [Op("is_true", (_ADMISSION,)), *users]
    return all_of(terms)


def _resource_terms(f: Filter, operations: bool = True) -> list[Expr]:
    terms: list[Expr] = []
    rule = f.resource_rule
    at = f.pointer if rule is not None or f.pointer.endswith("/excludeResources") else f"{f.pointer}/resources"
    if f.kinds:
        selectors = [[k.group, k.version, k.kind, k.subresource] for s in f.kinds if (k := parse_kind(s)) is not None]
        terms.append(Invoke("match.kinds", (_KIND, Const(selectors)), f"{at}/kinds"))
    if f.operations and operations:
        terms.append(Invoke("match.operations", (OPERATION, Const(list(f.operations))), f"{at}/operations"))
    if rule is not None:
        terms += _resource_rule_terms(rule, at)
    if f.names:
        terms.append(_test("names", list(f.names), f"{at}/names"))
    if f.namespaces:
        terms.append(_test("namespaces", list(f.namespaces), f"{at}/namespaces"))
    if f.annotations:
        terms.append(_test("annotations", dict(f.annotations), f"{at}/annotations"))
    if f.selector is not None:
        here = f"{at}/selector"
        terms.append(_test("selector", f.selector, here) if rule is None else _either_object(f.selector, here))
    if f.labels:
        terms.append(_test("selector", {"matchLabels": dict(f.labels)}, f"{at}/labels"))
    if f.namespace_selector is not None:
        wanted = (RESOURCE, _LABELS, Const(f.namespace_selector))
        terms.append(Invoke(_NAMESPACE_TESTS[rule is not None], wanted, f"{at}/namespaceSelector"))
    if f.exclude_resources is not None and not f.exclude_resources.empty:
        inner = f.exclude_resources
        terms.append(negate(all_of([*_resource_terms(inner), *_user_terms(inner)])))
    return terms


def _resource_rule_terms(rule: ResourceRule, at: str) -> list[Expr]:
    terms: list[Expr] = []
    if rule.groups:
        terms.append(Invoke("match.groups", (_KIND, Const(list(rule.groups))), f"{at}/apiGroups"))
    if rule.plurals:
        terms.append(Invoke("match.plurals", (_KIND, Const(list(rule.plurals))), f"{at}/resources"))
    if rule.scope:
        cluster_wide = Op("is_empty", (Op("as_text", (Load(("$resource", "metadata", "namespace")),)),))
        terms.append(cluster_wide if rule.scope == "Cluster" else negate(cluster_wide))
    return terms


def _either_object(selector: object, at: str) -> Expr:
    """Whether the labels of the object or of the old object meet a selector; there must be one (Kubernetes)."""
    tests: list[Expr] = []
    for name in ("$object", "$oldObject"):
        there = Load((name,))
        tests.append(all_of([Op("is_map", (there,)), Invoke("match.selector", (there, Const(selector)), at)]))
    return any_of(tests)


def _is_namespace_selector(term: Expr) -> bool:
    return isinstance(term, Invoke) and term.name in _NAMESPACE_TESTS


def _user_terms(f: Filter) -> list[Expr]:
    terms: list[Expr] = []
    at = f.pointer
    if f.roles:
        terms.append(Invoke("match.roles", (Load(("request", "roles")), Const(list(f.roles))), f"{at}/roles"))
    if f.cluster_roles:
        wanted = (Load(("request", "clusterRoles")), Const(list(f.cluster_roles)))
        terms.append(Invoke("match.roles", wanted, f"{at}/clusterRoles"))
    if f.subjects:
        subjects = [[s.kind, s.name, s.namespace] for s in f.subjects]
        terms.append(Invoke("match.subjects", (Load(("request", "userInfo")), Const(subjects)), f"{at}/subjects"))
    return terms


def _test(name: str, wanted: object, at: str) -> Expr:
    return Invoke(f"match.{name}", (RESOURCE, Const(wanted)), at)
