"""Advice about a policy that says nothing wrong: what its users, or those who run it, will stumble over.

:func:`advise` is called by :func:`compiler.lint.lint` for each policy that could be read. Patterns and patches have a
module of their own (:mod:`compiler.lint.advice_patterns`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from compiler.autogen import CONTROLLERS
from compiler.diagnostics import Reporter
from compiler.frontends.pattern import parse_kind
from compiler.lint import advice_patterns
from compiler.schema.kinds import Schemas
from compiler.schema.match_rules import texts
from compiler.schema.model import Policy, Rule

Json: TypeAlias = Any

MOST_UNRELATED: Final = 2
"""Rules that have nothing in common and may stand in one policy, by the user's guide."""

_EMPTY_WORDS: Final = frozenset(
    ("a", "an", "and", "are", "be", "by", "denied", "error", "fail", "failed", "failure", "for", "forbidden", "invalid",
     "is", "it", "not", "of", "policy", "rule", "the", "this", "to", "validation", "violation", "violated", "allowed",
     "blocked", "bad", "wrong", "message", "todo", "test")
)  # fmt: skip
"""Words that alone tell nobody what to mend."""
_WORD: Final = re.compile(r"[^\W_]+")
_MAP_KEY: Final = re.compile(
    r"""request\.(?:object|oldObject)\.metadata\.(labels|annotations)\.(?:"[^"]+"|[\w-]+)(?=\s*(?:\}\}|$))"""
)
_ANY_KEY: Final = re.compile(r"""request\.(?:object|oldObject)\.metadata\.(?:labels|annotations)\.(?:"[^"]+"|[\w-]+)""")
_VARIABLE: Final = re.compile(r"\{\{(?:\{[^{}]*\}|[^{}])*\}\}")


def advise(policy: Policy, schemas: Schemas, reporter: Reporter) -> None:
    """Reports advice about a policy: T1430 to T1440."""
    if policy.native:
        return
    _unrelated(policy, reporter)
    _twice(policy, reporter)
    for rule in policy.rules:
        _direct(policy, rule, reporter)
        _every_kind(policy, rule, reporter)
        _message(policy, rule, reporter)
        _json_patch(policy, rule, reporter)
        _replicas(policy, rule, reporter)
        _missing_keys(policy, rule, reporter)
        advice_patterns.advise(policy, rule, schemas, reporter)


def _unrelated(policy: Policy, reporter: Reporter) -> None:
    """Rules are related when they share an action and a kind, or a word of their names."""
    groups: list[tuple[set[str], Rule]] = []
    for rule in policy.rules:
        marks = _marks(rule)
        joined = [g for g in groups if g[0] & marks]
        merged = set(marks).union(*(g[0] for g in joined)) if joined else marks
        first = joined[0][1] if joined else rule
        groups = [g for g in groups if g not in joined]
        groups.append((merged, first))
    if len(groups) > MOST_UNRELATED:
        names = ", ".join(f'"{rule.name}"' for _, rule in groups)
        reporter.advice(
            "T1430",
            policy.doc.spans.span("/metadata/name"),
            f"the policy has {len(groups)} rules that have nothing in common: {names}",
            "",
            "make a policy of each, so that each has its own exceptions, action and report",
        )


def _marks(rule: Rule) -> set[str]:
    action = next((a for a in ("validate", "mutate", "generate", "verifyImages", "cleanup") if rule.raw.get(a)), "")
    marks = {f"word {w.lower()}" for w in _WORD.findall(rule.name) if len(w) > 2 and w.lower() not in _EMPTY_WORDS}
    for f in rule.match.filters:
        for selector in f.kinds:
            key = parse_kind(selector)
            kind = key.kind if key is not None else selector
            marks.add(f"{action} {'Pod' if kind in CONTROLLERS else kind}")
    return marks


def _twice(policy: Policy, reporter: Reporter) -> None:
    seen: list[tuple[dict[str, Json], Rule]] = []
    for rule in policy.rules:
        plain = {k: v for k, v in rule.raw.items() if k != "name"}
        if isinstance(plain.get("validate"), dict):
            plain["validate"] = {k: v for k, v in plain["validate"].items() if k != "message"}
        for other, first in seen:
            if other == plain:
                line = policy.doc.spans.span(first.pointer).line
                reporter.advice(
                    "T1439",
                    policy.doc.spans.span(f"{rule.pointer}/name"),
                    f'the rule "{rule.name}" says the same as "{first.name}" in line {line}',
                    "",
                    "remove one of the two",
                )
                break
        seen.append((plain, rule))


def _direct(policy: Policy, rule: Rule, reporter: Reporter) -> None:
    for name, block in (("match", rule.match), ("exclude", rule.exclude)):
        if block is not None and block.mode == "direct" and not block.filters[0].empty:
            reporter.advice(
                "T1440",
                policy.doc.spans.key_span(f"{rule.pointer}/{name}"),
                f"the {name} stands by itself, which Kyverno is about to give up",
                "",
                f"write it as an element of any:\n{name}:\n  any:\n  - resources: …",
            )


def _every_kind(policy: Policy, rule: Rule, reporter: Reporter) -> None:
    for f in rule.match.filters:
        for i, kind in enumerate(f.kinds):
            if kind in ("*", "*/*"):
                reporter.advice(
                    "T1431",
                    policy.doc.spans.span(f"{f.pointer}/resources/kinds/{i}"),
                    "the rule is asked for every request of the cluster, Leases and Events too",
                    "",
                    "name the kinds that are meant",
                )


def _message(policy: Policy, rule: Rule, reporter: Reporter) -> None:
    """Messages of validate rules: none, or one of empty words."""
    validate = rule.validate
    if validate is None:
        return
    at = f"{rule.pointer}/validate"
    if validate.message is None:
        own = validate.cel is not None or validate.pod_security is not None or _condition_messages(rule.raw)
        if not own:
            reporter.advice(
                "T1433",
                policy.doc.spans.key_span(at),
                f'the rule "{rule.name}" has no message',
                "message: what to do",
                "say what is wanted, where, and an example of it",
            )
        return
    words = [w.lower() for w in _WORD.findall(validate.message)]
    names = ([w.lower() for w in _WORD.findall(name)] for name in (rule.name, policy.name))
    if validate.message and (all(w in _EMPTY_WORDS for w in words) or words in names):
        reporter.advice(
            "T1432",
            policy.doc.spans.span(f"{at}/message"),
            "the message does not say what to mend",
            "",
            "say what is wanted, where, and an example of it",
        )


def _condition_messages(raw: dict[str, Json]) -> bool:
    """Whether the conditions of a deny have messages of their own."""

    def found(value: Json) -> bool:
        if isinstance(value, dict):
            return bool(value.get("message")) or any(map(found, value.values()))
        return isinstance(value, list) and any(map(found, value))

    return found((raw.get("validate") or {}).get("deny") or {})


def _json_patch(policy: Policy, rule: Rule, reporter: Reporter) -> None:
    if rule.mutate is None or not rule.mutate.patches_json6902 or rule.mutate.targets:
        return
    if any(parse_kind(kind) == parse_kind("Pod") for f in rule.match.filters for kind in f.kinds):
        reporter.advice(
            "T1436",
            policy.doc.spans.key_span(f"{rule.pointer}/mutate/patchesJson6902"),
            "a policy with a JSON patch gets no rules for pod controllers, so that Pods alone are changed",
            "",
            "use patchStrategicMerge, or match the controllers too",
        )


def _replicas(policy: Policy, rule: Rule, reporter: Reporter) -> None:
    """``spec.replicas`` of kinds that have a subresource ``scale``, which the match does not name."""
    action = rule.raw.get("validate") or {}
    if not any(key == "replicas" or "spec.replicas" in text for key, text in _keys_and_texts(action)):
        return
    kinds = [key for f in rule.match.filters for kind in f.kinds if (key := parse_kind(kind)) is not None]
    if not kinds or any(k.subresource in ("scale", "*") or k.kind == "*" for k in kinds):
        return
    if all(k.kind in ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController") for k in kinds):
        at = f"{rule.match.filters[0].pointer}/resources/kinds"
        names = ", ".join(f"{k.kind}/scale" for k in kinds)
        reporter.advice(
            "T1437",
            policy.doc.spans.key_span(at),
            "replicas are changed by the subresource scale too, which the rule does not see",
            "",
            f"add {names}, with spec.background: false, or a rule of its own for it",
        )


def _keys_and_texts(value: Json) -> Iterator[tuple[str, str]]:
    for _, text, is_key in texts(value, ""):
        yield (text, "") if is_key else ("", text)


def _missing_keys(policy: Policy, rule: Rule, reporter: Reporter) -> None:
    """Variables that read a label or an annotation which need not be there, outside a default: the first of each."""
    told = _sure_keys(rule)
    for place, text, is_key in texts(rule.raw, rule.pointer):
        if is_key or "{{" not in text or "/match/" in place or "/exclude/" in place or place.endswith("/message"):
            continue
        for variable in _VARIABLE.finditer(text):
            found = _MAP_KEY.search(variable.group().replace(" ", ""))
            body = variable.group()
            if found is None or "||" in body or "(" in body or found.group() in told:
                continue
            told.add(found.group())
            one = found.group(1)[:-1]
            reporter.advice(
                "T1438",
                policy.doc.spans.text_span(place, variable.start(), variable.end()),
                f"where the {one} is missing, the rule ends as an error",
                "",
                f"give a default: {body[:-2].rstrip()} || '' }}}}",
            )


def _sure_keys(rule: Rule) -> set[str]:
    """The labels and annotations that the match asks for, or that a precondition looks at with a default, in the words
    of variables."""
    sure: set[str] = set()
    for i, f in enumerate(rule.match.filters):
        selector = f.selector or {}
        keys = {f"labels.{k}" for k in {**(selector.get("matchLabels") or {}), **(f.labels or {})}}
        keys |= {
            f"labels.{e.get('key')}"
            for e in selector.get("matchExpressions") or ()
            if e.get("operator") in ("In", "Exists")
        }
        keys |= {f"annotations.{k}" for k in f.annotations or {}}
        sure = keys if not i else sure | keys if rule.match.mode == "all" else sure & keys
    for _, text, _ in texts(rule.preconditions, ""):
        if "||" in text:
            sure |= {m.group()[m.group().index("metadata.") + 9 :].replace('"', "") for m in _ANY_KEY.finditer(text)}
    named = {part for key in sure for part in (key, _quoted(key))}
    return {f"request.{holder}.metadata.{part}" for holder in ("object", "oldObject") for part in named}


def _quoted(key: str) -> str:
    kind, _, name = key.partition(".")
    return f'{kind}."{name}"'
