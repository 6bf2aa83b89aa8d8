"""Checks of the CEL parts of a policy that need no expression to be read; called by policy_rules.

Names, what must stand together, and the bounds that Kubernetes sets (``ValidatingAdmissionPolicy``, whose rules
``validate.cel`` has). What the expressions say is checked when they are lowered.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.source import Document

Json: TypeAlias = Any

MAX_CONDITIONS: Final = 64
MAX_ANNOTATIONS: Final = 20
MAX_VALUE_EXPRESSION: Final = 5 * 1024
"""Bytes of the expression of an audit annotation."""

_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED: Final = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
_LABEL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WILDCARD: Final = re.compile(r"[*?]")


def check_rule(doc: Document, rule: dict[str, Json], at: str, reporter: Reporter) -> None:
    """``celPreconditions`` and ``validate.cel`` of a rule."""
    cel = (rule.get("validate") or {}).get("cel")
    if conditions := rule.get("celPreconditions"):
        if cel is None:
            reporter.error(
                "T1247",
                doc.spans.key_span(at + "/celPreconditions"),
                "celPrecondition can only be used with validate.cel",
                "preconditions",
            )
        check_conditions(doc, conditions, at + "/celPreconditions", reporter)
    if cel is not None:
        _cel(doc, cel, at + "/validate/cel", reporter)


def check_conditions(
    doc: Document, conditions: list[dict[str, Json]], at: str, reporter: Reporter, *, qualified: bool = False
) -> None:
    """Preconditions of a rule, or the match conditions of a policy's webhook, whose names the API server reads too
    (``qualified``)."""
    _limit(doc, conditions, MAX_CONDITIONS, "conditions", at, reporter)
    _unique(doc, conditions, "name", at, reporter)
    for i, condition in enumerate(conditions):
        if qualified:
            _qualified(doc, condition["name"], f"{at}/{i}/name", reporter)
        _not_empty(doc, condition, "expression", f"{at}/{i}", reporter)


def _cel(doc: Document, cel: dict[str, Json], at: str, reporter: Reporter) -> None:
    expressions, annotations = cel.get("expressions") or [], cel.get("auditAnnotations") or []
    if not expressions and not annotations:
        reporter.error("T1240", doc.spans.key_span(at), "cel checks nothing", "expressions: [{expression: …}]")
    for i, entry in enumerate(expressions):
        _not_empty(doc, entry, "expression", f"{at}/expressions/{i}", reporter)
        if entry.get("messageExpression"):
            _not_empty(doc, entry, "messageExpression", f"{at}/expressions/{i}", reporter)
    check_variables(doc, cel.get("variables") or [], at + "/variables", reporter)
    check_annotations(doc, annotations, at + "/auditAnnotations", reporter)
    _params(doc, cel, at, reporter)


def check_variables(doc: Document, variables: list[dict[str, Json]], at: str, reporter: Reporter) -> None:
    """The names of a policy's variables, each its own, and that each says something."""
    _unique(doc, variables, "name", at, reporter)
    for i, variable in enumerate(variables):
        name = variable["name"]
        if not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
            reporter.error(
                "T1241",
                doc.spans.span(f"{at}/{i}/name"),
                f'"{name}" is not a valid name of a variable' if name else "the variable has an empty name",
                "letters, digits and _, not beginning with a digit, and no word of CEL",
            )
        _not_empty(doc, variable, "expression", f"{at}/{i}", reporter)


def check_annotations(doc: Document, annotations: list[dict[str, Json]], at: str, reporter: Reporter) -> None:
    """Audit annotations: their number, their keys and the length of what they say."""
    _limit(doc, annotations, MAX_ANNOTATIONS, "audit annotations", at, reporter)
    _unique(doc, annotations, "key", at, reporter)
    for i, annotation in enumerate(annotations):
        where = f"{at}/{i}"
        name = (doc.value.get("metadata") or {}).get("name")
        if not _is_qualified(f"{name}/{annotation['key']}"):
            reporter.error(
                "T1243",
                doc.spans.span(where + "/key"),
                f'"{annotation["key"]}" is not a valid key of an audit annotation',
                "at most 63 letters, digits, -, _ and ., beginning and ending with a letter or digit",
            )
        _not_empty(doc, annotation, "valueExpression", where, reporter)
        size = len(annotation["valueExpression"].strip().encode("utf-8", "surrogatepass"))
        if size > MAX_VALUE_EXPRESSION:
            reporter.error(
                "T1246",
                doc.spans.span(where + "/valueExpression"),
                f"the expression has {size} bytes",
                f"at most {MAX_VALUE_EXPRESSION} bytes",
            )


def _params(doc: Document, cel: dict[str, Json], at: str, reporter: Reporter) -> None:
    spans = doc.spans
    kind, ref = cel.get("paramKind"), cel.get("paramRef")
    if ref is not None and kind is None:
        reporter.error(
            "T1245",
            spans.key_span(at + "/paramRef"),
            "paramRef needs a paramKind",
            "paramKind: {apiVersion: …, kind: …}",
        )
    if kind is not None:
        for field in ("apiVersion", "kind"):
            if not kind.get(field):
                reporter.error("T0203", spans.key_span(at + "/paramKind"), f"paramKind has no {field}", f"{field}: …")
        if ref is None:
            reporter.error(
                "T1245",
                spans.key_span(at + "/paramKind"),
                "paramKind needs a paramRef that says which parameters",
                "paramRef: {name: …} or paramRef: {selector: …}",
            )
    if ref is None:
        return
    name, selector = ref.get("name"), ref.get("selector")
    if name and selector is not None:
        reporter.error(
            "T0207", spans.key_span(at + "/paramRef/selector"), "name and selector exclude each other", "one"
        )
    elif not name and selector is None:
        reporter.error(
            "T1245", spans.key_span(at + "/paramRef"), "paramRef names no parameters", "name: … or selector: …"
        )
    for key, value in ((selector or {}).get("matchLabels") or {}).items():
        if _WILDCARD.search(key) or _WILDCARD.search(str(value)):
            reporter.error(
                "T0322", spans.key_span(at + "/paramRef/selector"), "the selector of parameters takes no wildcards"
            )
    if doc.value["kind"] == "Policy" and (wanted := ref.get("namespace")):
        own = (doc.value.get("metadata") or {}).get("namespace") or "default"
        if wanted != own:
            reporter.error(
                "T1248",
                spans.span(at + "/paramRef/namespace"),
                f"a Policy reads parameters of its own namespace {own} only",
                own,
                "make it a ClusterPolicy to read those of another one",
            )


def _limit(doc: Document, entries: list[Json], most: int, what: str, at: str, reporter: Reporter) -> None:
    if len(entries) > most:
        reporter.error("T1246", doc.spans.key_span(at), f"there are {len(entries)} {what}", f"at most {most}")


def _unique(doc: Document, entries: list[dict[str, Json]], field: str, at: str, reporter: Reporter) -> None:
    first: dict[str, int] = {}
    for i, entry in enumerate(entries):
        if (earlier := first.setdefault(entry[field], i)) != i:
            line = doc.spans.span(f"{at}/{earlier}/{field}").line
            reporter.error(
                "T1242",
                doc.spans.span(f"{at}/{i}/{field}"),
                f'"{entry[field]}" is already there in line {line}',
                f"a {field} of its own for each",
            )


def _qualified(doc: Document, name: str, at: str, reporter: Reporter) -> None:
    if not _is_qualified(name):
        reporter.error(
            "T1243",
            doc.spans.span(at),
            f'"{name}" is not a valid name of a condition' if name else "the condition has an empty name",
            "at most 63 letters, digits, -, _ and ., beginning and ending with a letter or digit",
        )


def _is_qualified(name: str) -> bool:
    """Whether a name is a qualified name of Kubernetes: an optional DNS domain and a slash, then at most 63
    characters."""
    domain, slash, label = name.rpartition("/")
    return bool(_LABEL.fullmatch(label)) and (not slash or (len(domain) <= 253 and bool(_DOMAIN.fullmatch(domain))))


def _not_empty(doc: Document, entry: dict[str, Json], field: str, at: str, reporter: Reporter) -> None:
    if not entry[field].strip():
        reporter.error("T1244", doc.spans.span(f"{at}/{field}"), f"the {field} is empty", "a CEL expression")
