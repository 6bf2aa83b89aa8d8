"""Mends that change how a policy is written and never what it says: the forms of the guide and deprecated ones in their
standard form, fields without effect taken out.

:func:`fix` is what ``thesmos lint --fix`` calls. It edits the text by places (:mod:`compiler.lint.edits`), reads the
outcome again after each round, and keeps nothing that brought an error in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from compiler.catalogue import CODES
from compiler.diagnostics import Reporter
from compiler.lint.edits import Edit, Layout, apply
from compiler.schema import read_policies
from compiler.source import Document, load_documents, pointer
from vm.intrinsics.duration import parse_duration
from vm.intrinsics.wildcard import contains_wildcard

Json: TypeAlias = Any

_ROUNDS: Final = 8
"""A mend may make room for the next; more rounds than forms that can follow each other."""
_SAME: Final = {"equal": "Equals", "notequal": "NotEquals"}
_SET: Final = {"in": "AnyIn", "notin": "AnyNotIn"}
_ONE_TEXT: Final = re.compile(
    r"""\{\{request\.(?:operation|namespace|name|kind\.kind|userInfo\.username|
        (?:object|oldObject)\.(?:kind|apiVersion|metadata\.(?:name|namespace)))
        (?:\|\|(?:''|`""`|"[^"{}]*"|'[^'{}]*'))?\}\}""",
    re.VERBOSE,
)
"""Keys that are one text (or an error), never a list: for these the deprecated set operators say what the newer say."""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
_ACTIONS: Final = {"audit": "Audit", "enforce": "Enforce"}
_ACTION_FIELDS: Final = {
    "validationFailureAction": "failureAction",
    "validationFailureActionOverrides": "failureActionOverrides",
}
_WEBHOOK_FIELDS: Final = {"failurePolicy": "failurePolicy", "webhookTimeoutSeconds": "timeoutSeconds"}
_NO_EFFECT: Final = ("schemaValidation", "generateExistingOnPolicyUpdate")


@dataclass(frozen=True, slots=True)
class Fix:
    """One mend: the code of what it mends and all its edits, which go in together."""

    code: str
    edits: tuple[Edit, ...]


def fix(text: str, name: str, wanted: Callable[[str, str], bool]) -> tuple[str, int]:
    """The text with the mends of all codes that are ``wanted`` (asked with code and severity), and how many."""
    count = 0
    errors = _errors(text, name)
    for _ in range(_ROUNDS):
        found = [f for f in _fixes(text, name) if wanted(f.code, CODES[f.code].severity)]
        chosen = _apart(found)
        if not chosen:
            break
        mended = apply(text, (e for f in chosen for e in f.edits))
        if len(_errors(mended, name)) > len(errors):
            break
        text, count = mended, count + len(chosen)
    return text, count


def _errors(text: str, name: str) -> list[str]:
    reporter = Reporter()
    read_policies(_policies(load_documents(text, name, reporter)), reporter)
    return [d.code for d in reporter.diagnostics if d.severity == "error"]


def _policies(docs: Sequence[Document]) -> list[Document]:
    return [
        d
        for d in docs
        if d.value.get("kind") in ("ClusterPolicy", "Policy")
        and str(d.value.get("apiVersion")).startswith("kyverno.io/")
        and type(d.value.get("spec")) is dict
    ]


def _fixes(text: str, name: str) -> Iterator[Fix]:
    reporter = Reporter()
    docs = load_documents(text, name, reporter)
    if reporter.failed:
        return
    for doc in _policies(docs):
        rules = doc.value["spec"].get("rules")
        if type(rules) is list and all(type(r) is dict for r in rules):
            yield from _Fixer(doc, rules).all()


def _apart(fixes: Sequence[Fix]) -> list[Fix]:
    """The mends that touch no character which one before them touches."""
    taken: list[Edit] = []
    chosen = []
    for f in fixes:
        if not any(e.start < t.end and t.start < e.end for e in f.edits for t in taken):
            taken += f.edits
            chosen.append(f)
    return chosen


class _Fixer:
    """The mends of one policy. A method gives None, or nothing, where the layout does not allow one."""

    __slots__ = ("_doc", "_layout", "_rules", "_spec")

    def __init__(self, doc: Document, rules: list[dict[str, Json]]) -> None:
        self._doc = doc
        self._layout = Layout(doc)
        self._rules = rules
        self._spec: dict[str, Json] = doc.value["spec"]

    def all(self) -> Iterator[Fix]:
        for code, edits in self._found():
            if edits and None not in edits:
                yield Fix(code, tuple(e for e in edits if e is not None))

    def _found(self) -> Iterator[tuple[str, list[Edit | None]]]:
        yield from self._actions()
        yield from self._spec_fields()
        metadata = self._doc.value.get("metadata")
        if self._doc.value["kind"] == "ClusterPolicy" and type(metadata) is dict and "namespace" in metadata:
            yield "T0406", [self._layout.removed("/metadata/namespace")]
        for i, rule in enumerate(self._rules):
            at = f"/spec/rules/{i}"
            if "validation" in rule and "validate" not in rule:
                yield "T0401", [self._layout.key(f"{at}/validation", "validate")]
            for block in ("match", "exclude"):
                if type(rule.get(block)) is dict:
                    yield from self._block(rule[block], f"{at}/{block}")
            for condition, place in _conditions(rule, at):
                if newer := _newer_operator(condition):
                    yield "T0501", [self._layout.value(f"{place}/operator", newer)]

    def _actions(self) -> Iterator[tuple[str, list[Edit | None]]]:
        holders = [(self._spec, "/spec", "validationFailureAction", "validationFailureActionOverrides")]
        for i, rule in enumerate(self._rules):
            for name in ("validate", "validation"):
                if type(rule.get(name)) is dict:
                    holders.append((rule[name], f"/spec/rules/{i}/{name}", "failureAction", "failureActionOverrides"))
        for holder, at, action, overrides in holders:
            if newer := _ACTIONS.get(str(holder.get(action))):
                yield "T0405", [self._layout.value(f"{at}/{action}", newer)]
            entries = holder.get(overrides)
            for j, entry in enumerate(entries if type(entries) is list else ()):
                if type(entry) is dict and (newer := _ACTIONS.get(str(entry.get("action")))):
                    yield "T0405", [self._layout.value(f"{at}/{overrides}/{j}/action", newer)]

    def _spec_fields(self) -> Iterator[tuple[str, list[Edit | None]]]:
        for name in _NO_EFFECT:
            if name in self._spec:
                yield "T0503", [self._layout.removed(f"/spec/{name}")]
        yield "T0502", self._moved(_ACTION_FIELDS, "validate")
        yield "T0502", self._moved({"generateExisting": "generateExisting"}, "generate")
        yield "T0502", self._moved({"mutateExistingOnPolicyUpdate": "mutateExistingOnPolicyUpdate"}, "mutate")
        if any(old in self._spec for old in _WEBHOOK_FIELDS):
            yield "T0502", self._webhook()

    def _moved(self, names: dict[str, str], part: str) -> list[Edit | None]:
        """Fields of the spec moved into every rule of a kind, all together: the rule's own action would else come
        before overrides that stayed behind."""
        given = {old: new for old, new in names.items() if self._spec.get(old) is not None}
        if not given or any("verifyImages" in rule or "validation" in rule for rule in self._rules):
            return []
        edits: list[Edit | None] = [self._layout.removed(f"/spec/{old}") for old in given]
        if len(given) >= len(self._spec):
            return []
        for i, rule in enumerate(self._rules):
            body = rule.get(part)
            if type(body) is not dict:
                continue
            if part == "mutate" and not body.get("targets"):
                continue
            if "validationFailureActionOverrides" in given:
                # A rule's own action comes before the overrides of the policy, its own overrides do not end them.
                if body.get("failureAction") is not None:
                    continue
                if body.get("failureActionOverrides") is not None:
                    return []
            rows: list[str] = []
            for old, new in given.items():
                if body.get(new) is None:
                    entry = self._layout.entry(f"/spec/{old}")
                    if entry is None or new in body:
                        return []
                    rows += [entry[0].replace(old, new, 1), *entry[1:]]
            if rows:
                edits.append(self._layout.added(f"/spec/rules/{i}/{part}", rows))
        return edits

    def _webhook(self) -> list[Edit | None]:
        """Fields of the spec moved into ``webhookConfiguration``, whose own come first."""
        webhook = self._spec.get("webhookConfiguration")
        own = webhook if type(webhook) is dict else {}
        rows: list[str] = []
        places: list[str] = []
        for old, new in _WEBHOOK_FIELDS.items():
            if old not in self._spec:
                continue
            entry = self._layout.entry(f"/spec/{old}")
            if entry is None or len(entry) > 1:
                return []
            places.append(f"/spec/{old}")
            if own.get(new) is None:
                rows.append(entry[0].replace(old, new, 1))
        if type(webhook) is dict:
            edits: list[Edit | None] = [self._layout.removed(place) for place in places]
            return [*edits, self._layout.added("/spec/webhookConfiguration", rows)] if rows else edits
        lines, column = self._layout.lines(places[0]), self._layout.inside("/spec")
        if lines is None or column is None or "webhookConfiguration" in self._spec:
            return []
        indent = " " * column[1]
        text = "".join(f"{indent}  {row}\n" for row in rows)
        written = Edit(*lines, f"{indent}webhookConfiguration:\n{text}")
        return [written, *(self._layout.removed(place) for place in places[1:])]

    def _block(self, block: dict[str, Json], at: str) -> Iterator[tuple[str, list[Edit | None]]]:
        yield from self._filter(block, at)
        for mode in ("any", "all"):
            filters = block.get(mode)
            for i, f in enumerate(filters if type(filters) is list else ()):
                if type(f) is dict:
                    yield from self._filter(f, f"{at}/{mode}/{i}")

    def _filter(self, f: dict[str, Json], at: str) -> Iterator[tuple[str, list[Edit | None]]]:
        resources = f.get("resources")
        if type(resources) is not dict:
            return
        place = f"{at}/resources"
        if "operations" in f and "operations" not in resources:
            rows = self._layout.entry(f"{at}/operations")
            if rows is not None:
                yield "T0402", [self._layout.removed(f"{at}/operations"), self._layout.added(place, rows)]
        name = resources.get("name")
        if type(name) is str and name and not resources.get("names"):
            plain = name if _PLAIN_NAME.fullmatch(name) else f'"{name}"'
            found = self._doc.spans.ranges(f"{place}/name")
            if found is not None and '"' not in name and "\\" not in name and "names" not in resources:
                yield "T0502", [self._layout.key(f"{place}/name", "names"), Edit(*found[1], f"[{plain}]")]
        if type(resources.get("labels")) is dict and "selector" not in resources:
            lines, rows = self._layout.lines(f"{place}/labels"), self._layout.entry(f"{place}/labels")
            column = self._layout.inside(place)
            if lines is not None and rows is not None and column is not None:
                indent = " " * column[1]
                inner = [rows[0].replace("labels", "matchLabels", 1), *rows[1:]]
                text = "".join(f"{indent}  {row}".rstrip() + "\n" for row in inner)
                yield "T0404", [Edit(*lines, f"{indent}selector:\n{text}")]


def _conditions(value: Json, at: str) -> Iterator[tuple[dict[str, Json], str]]:
    """Every condition of a rule, wherever it stands."""
    if type(value) is dict:
        if "operator" in value and "key" in value and "value" in value:
            yield value, at
            return
        for key, sub in value.items():
            if key not in ("pattern", "anyPattern", "patchStrategicMerge", "data"):
                yield from _conditions(sub, at + pointer(key))
    elif type(value) is list:
        for i, sub in enumerate(value):
            yield from _conditions(sub, f"{at}/{i}")


def _newer_operator(condition: dict[str, Json]) -> str:
    """The operator that says the same of this key and value; empty when there is none that surely does."""
    key, value = condition["key"], condition["value"]
    operator = str(condition["operator"]).lower()
    if operator in _SAME:
        return _SAME[operator]
    one = type(key) is str and _ONE_TEXT.fullmatch(key.replace(" ", "")) is not None
    if operator in _SET and one and type(value) is list:
        return _SET[operator] if all(type(v) is str and not contains_wildcard(v) for v in value) else ""
    if operator.startswith("duration") and str(condition["operator"]).startswith("Duration"):
        # Both sides are durations then: the newer operators read them as such before anything else.
        long = type(value) is str and value != "0" and parse_duration(value) is not None
        if long and type(key) is str and key.replace(" ", "").startswith("{{time_since("):
            return str(condition["operator"]).removeprefix("Duration")
    return ""
