"""Checks of match and exclude, selectors, subjects and action overrides; called by policy_rules.

What a filter may not say: nothing, everything by accident, a user where there is none, a variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.frontends.pattern import parse_kind
from compiler.source import Document, pointer
from vm.intrinsics import wildcard

Json: TypeAlias = Any

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_SUBJECTS: Final = ("User", "Group", "ServiceAccount")
_USER_FIELDS: Final = ("roles", "clusterRoles", "subjects")
_SCALE: Final = "Scale"
_EXAMPLE: Final = "match:\n  any:\n  - resources:\n      kinds: [Pod]"
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


def check_rule(doc: Document, kind: str, rule: dict[str, Json], at: str, background: bool, reporter: Reporter) -> None:
    """Checks ``match`` and ``exclude`` of a normalised rule."""
    checker = _Checker(doc, kind, rule, background, reporter)
    match = rule.get("match")
    if not match:
        reporter.error(
            "T0305",
            doc.spans.span(at + "/match") if "match" in rule else doc.spans.span(at + "/name"),
            f'the rule "{rule["name"]}" does not say what it matches',
            "match",
            "name the kinds it is for:\n" + _EXAMPLE,
        )
    else:
        checker.block(match, at + "/match", "match")
    if exclude := rule.get("exclude"):
        checker.block(exclude, at + "/exclude", "exclude")
        if match:
            checker.never(match, exclude, at + "/exclude")


def check_exception(doc: Document, match: dict[str, Json], at: str, reporter: Reporter) -> None:
    """Checks the match of an exception: kinds may be left out, since its rules say what they are for."""
    checker = _Checker(doc, "PolicyException", {"name": "", "validate": {}}, False, reporter)
    checker.block(match, at, "match of the exception")


def check_overrides(doc: Document, entries: list[dict[str, Json]] | None, at: str, reporter: Reporter) -> None:
    """Two overrides may not give one namespace different actions; wildcards count (T0320)."""
    seen: list[tuple[str, str, str]] = []
    for i, entry in enumerate(entries or ()):
        action = entry.get("action")
        if action is None:
            reporter.error("T0203", doc.spans.key_span(f"{at}/{i}"), "the override has no action", "action: Audit")
            continue
        for j, name in enumerate(entry.get("namespaces") or ()):
            place = f"{at}/{i}/namespaces/{j}"
            for other, other_action, where in seen:
                if action == other_action or not (wildcard.match(other, name) or wildcard.match(name, other)):
                    continue
                reporter.error(
                    "T0320",
                    doc.spans.span(place),
                    f'"{name}" is set to {action} here and by "{other}" in line {doc.spans.span(where).line} to '
                    f"{other_action}",
                    "one action for each namespace",
                )
                break
            seen.append((name, action, place))


class _Checker:
    __slots__ = ("_background", "_doc", "_kind", "_reporter", "_rule")

    def __init__(self, doc: Document, kind: str, rule: dict[str, Json], background: bool, reporter: Reporter) -> None:
        self._doc = doc
        self._kind = kind
        self._rule = rule
        self._background = background
        self._reporter = reporter

    def block(self, block: dict[str, Json], at: str, name: str) -> None:
        spans, reporter = self._doc.spans, self._reporter
        self._variables(block, at, name)
        any_, all_ = block.get("any"), block.get("all")
        if any_ and all_:
            reporter.error(
                "T0207",
                spans.key_span(at + "/all"),
                f"{name} has any and all",
                "one of the two",
                "nest one as a rule of its own",
            )
        if (any_ or all_) and block.get("resources"):
            reporter.error(
                "T0207",
                spans.key_span(at + "/resources"),
                f"{name} has resources beside {'any' if any_ else 'all'}",
                "resources inside any or all",
                f"move it into an element of {'any' if any_ else 'all'}",
            )
        if any_ or all_:
            for field in _USER_FIELDS:
                if block.get(field):
                    reporter.warning(
                        "T0503",
                        spans.key_span(f"{at}/{field}"),
                        f"{field} beside any or all have no effect",
                        "",
                        "move them into the elements",
                    )
        mode = "any" if any_ else "all" if all_ else ""
        filters = [(f, f"{at}/{mode}/{i}") for i, f in enumerate(block[mode])] if mode else [(block, at)]
        for value, place in filters:
            self._filter(value, place, name, mode)

    def never(self, match: dict[str, Json], exclude: dict[str, Json], at: str) -> None:
        """Notes a part of an exclude that cannot hold for anything the rule matches, which makes the exclude empty."""
        matched = [f.get("resources") or {} for f in match.get("any") or match.get("all") or [match]]
        mode = "any" if exclude.get("any") else "all" if exclude.get("all") else ""
        filters = [(f, f"{at}/{mode}/{i}") for i, f in enumerate(exclude[mode])] if mode else [(exclude, at)]
        for value, place in filters:
            resources = value.get("resources") or {}
            for field in ("operations", "namespaces"):
                asked, known = resources.get(field), [m.get(field) for m in matched]
                if not asked or not all(known):
                    continue
                texts = [k for names in known for k in names or ()]
                if any(wildcard.match(a, k) or wildcard.match(k, a) for a in asked for k in texts):
                    continue
                self._reporter.note(
                    "T0324",
                    self._doc.spans.key_span(f"{place}/resources/{field}"),
                    f"these {field} are never among those of match, so this exclude never holds",
                    "",
                    "all parts of one exclude must hold together: write parts that count by themselves as\n"
                    "exclude:\n  any:\n  - resources: …\n  - resources: …",
                )

    def _filter(self, value: dict[str, Json], at: str, name: str, mode: str) -> None:
        spans, reporter = self._doc.spans, self._reporter
        resources: dict[str, Json] = value.get("resources") or {}
        users = [f for f in _USER_FIELDS if value.get(f)]
        asked = [
            f for f, v in resources.items() if v not in (None, [], {}, "") or f in ("selector", "namespaceSelector")
        ]
        if name == "exclude" or name == "match":
            if self._background:
                for field in users:
                    reporter.error(
                        "T0308",
                        spans.key_span(f"{at}/{field}"),
                        f"invalid variable used: {field} in {name} need a user, whom background scans do not have",
                        "",
                        "set spec.background: false, so that the policy looks at requests only",
                    )
            if not asked and not users and (name == "match" or mode == "any"):
                if name == "match":
                    reporter.error(
                        "T0306",
                        spans.span(at),
                        "the filter asks for nothing",
                        "resources, with kinds",
                        "name the kinds it is for:\n" + _EXAMPLE,
                    )
                else:
                    reporter.warning("T0503", spans.span(at), "an empty filter excludes nothing", "", "remove it")
            elif name == "match" and not resources.get("kinds") and not self._metadata_only():
                reporter.error(
                    "T0307",
                    spans.key_span(at + "/resources") if resources else spans.span(at),
                    "the match names no kinds",
                    "kinds",
                    "name the kinds it is for:\n" + _EXAMPLE,
                )
        self._resources(resources, at + "/resources", name)
        if (inner := resources.get("excludeResources")) is not None:
            self._resources(inner, at + "/resources/excludeResources", "excludeResources")
        for i, subject in enumerate(value.get("subjects") or ()):
            self._subject(subject, f"{at}/subjects/{i}")

    def _resources(self, value: dict[str, Json], at: str, name: str) -> None:
        spans, reporter = self._doc.spans, self._reporter
        if value.get("name") and value.get("names"):
            reporter.error("T0207", spans.key_span(at + "/names"), "name and names stand side by side", "names alone")
        if value.get("name"):
            reporter.warning(
                "T0502", spans.key_span(at + "/name"), "name is deprecated", "", "the newer form is names: […]"
            )
        kinds: list[str] = value.get("kinds") or []
        for i, kind in enumerate(kinds):
            self._kind_selector(kind, f"{at}/kinds/{i}")
        if "*" in kinds:
            self._wildcard(kinds, at + "/kinds")
        if self._kind == "Policy" and value.get("namespaces"):
            reporter.error(
                "T0204",
                spans.key_span(at + "/namespaces"),
                "a Policy is for its own namespace and cannot select namespaces",
                "",
                "remove namespaces, or make it a ClusterPolicy",
            )
        for field in ("selector", "namespaceSelector"):
            if (selector := value.get(field)) is not None:
                self._selector(selector, f"{at}/{field}", name)

    def _kind_selector(self, selector: str, at: str) -> None:
        key = parse_kind(selector)
        if key is None or key.kind == _SCALE:
            self._reporter.error(
                "T1401",
                self._doc.spans.span(at),
                f'"{selector}" is no selector of a kind'
                if key is None
                else f"{_SCALE} is a subresource of several kinds and no kind by itself",
                "Kind, version/Kind or group/version/Kind, each with an optional /subresource",
                "" if key is None else "for example: Deployment/scale",
            )
        elif key.subresource and self._background and self._rule.get("validate"):
            # Only the cluster knows whether a custom kind serves the subresource, so there it is no error.
            custom = "." in key.group and not key.group.endswith(".k8s.io")
            report = self._reporter.warning if custom else self._reporter.error
            report(
                "T0310",
                self._doc.spans.span(at),
                f"{selector} is a subresource, which background scans do not read",
                "",
                "set spec.background: false",
            )

    def _wildcard(self, kinds: list[str], at: str) -> None:
        place = self._doc.spans.span(f"{at}/{kinds.index('*')}")
        rule = self._rule
        validate = rule.get("validate") or {}
        mend = "set spec.background: false"
        if self._background:
            problem = "kinds: * would scan every object of the cluster in the background"
        elif len(kinds) > 1:
            problem, mend = "kinds: * stands beside other kinds, which it covers already", "remove the other kinds"
        elif rule.get("generate") or rule.get("verifyImages") or validate.get("foreach"):
            problem, mend = "kinds: * cannot be used by this kind of rule", "name the kinds"
        elif not self._metadata_only() or not self._metadata_conditions(validate):
            problem, mend = "a rule for kinds: * can only look at metadata", "name the kinds that have these fields"
        else:
            return
        self._reporter.error("T0309", place, problem, "", mend)

    def _metadata_only(self) -> bool:
        """Whether the rule's patterns and patches touch nothing but metadata."""
        validate, mutate = self._rule.get("validate") or {}, self._rule.get("mutate") or {}
        patterns = [validate.get("pattern"), mutate.get("patchStrategicMerge")]
        if type(validate.get("anyPattern")) is list:
            patterns += validate["anyPattern"]
        return all(key == "metadata" for p in patterns if type(p) is dict for key in p)

    def _metadata_conditions(self, validate: dict[str, Json]) -> bool:
        """Whether a legacy list of deny conditions looks at the request and metadata alone."""
        conditions = (validate.get("deny") or {}).get("conditions")
        if type(conditions) is not list:
            return True
        keys = [str(c.get("key")) for c in conditions if type(c) is dict]
        return not any("request.object.spec" in key and "request.object.metadata." not in key for key in keys)

    def _selector(self, selector: dict[str, Json], at: str, name: str) -> None:
        spans, reporter = self._doc.spans, self._reporter
        labels: dict[str, str | None] = selector.get("matchLabels") or {}
        expressions = selector.get("matchExpressions") or []
        if not labels and not expressions and at.endswith("/selector"):
            reporter.error("T0322", spans.span(at), "the selector asks for nothing", "matchLabels or matchExpressions")
        for key, value in labels.items():
            if value is None:
                spot = spans.span(at + "/matchLabels" + pointer(key))
                reporter.error("T0322", spot, f'the label "{key}" has no value', 'a text, perhaps the empty one: ""')
            elif not wildcard.contains_wildcard(key + value) and not _LABEL_VALUE.fullmatch(value):
                reporter.error(
                    "T0322",
                    spans.span(at + "/matchLabels" + pointer(key)),
                    f'"{value}" cannot be the value of a label',
                    "letters, digits, -, _ and .",
                )
        for i, expression in enumerate(expressions):
            place = f"{at}/matchExpressions/{i}"
            operator, values = expression.get("operator"), expression.get("values") or []
            if operator not in _OPERATORS:
                reporter.error(
                    "T0322",
                    spans.span(place + "/operator"),
                    f'"{operator}" is no operator of a selector',
                    "one of " + ", ".join(_OPERATORS),
                )
            elif operator in ("In", "NotIn") and not values:
                reporter.error("T0322", spans.span(place + "/operator"), f"{operator} needs values", "values: […]")
            elif operator in ("Exists", "DoesNotExist") and values:
                reporter.error("T0322", spans.key_span(place + "/values"), f"{operator} takes no values", "no values")

    def _subject(self, subject: dict[str, Json], at: str) -> None:
        spans, reporter = self._doc.spans, self._reporter
        kind = subject.get("kind")
        if kind not in _SUBJECTS:
            reporter.error(
                "T0326", spans.span(at + "/kind"), f'"{kind}" is no kind of subject', "one of " + ", ".join(_SUBJECTS)
            )
        elif kind == "ServiceAccount" and not subject.get("namespace"):
            reporter.error("T0326", spans.span(at + "/kind"), "a ServiceAccount has a namespace", "namespace: …")
        if not subject.get("name"):
            reporter.error("T0326", spans.span(at + "/name"), "the subject has no name", "name: …")

    def _variables(self, value: Json, at: str, name: str) -> None:
        for place, text, is_key in texts(value, at):
            if (start := text.find("{{")) < 0:
                continue
            end = text.find("}}", start)
            end = end + 2 if end >= 0 else len(text)
            span = self._doc.spans.key_span(place) if is_key else self._doc.spans.text_span(place, start, end)
            self._reporter.error(
                "T0311",
                span,
                f"{name} cannot hold variables",
                "a fixed text",
                "use preconditions to compare with what the request says",
            )


def texts(value: Json, at: str) -> Iterator[tuple[str, str, bool]]:
    """Every text of a JSON value with its pointer; keys too, marked true."""
    match value:
        case str():
            yield at, value, False
        case dict():
            for key, sub in value.items():
                place = at + pointer(key)
                yield place, key, True
                yield from texts(sub, place)
        case list():
            for i, sub in enumerate(value):
                yield from texts(sub, f"{at}/{i}")
