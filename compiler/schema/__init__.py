"""The policy kinds: documents to the model, with every check that needs no query or pattern to be read.

``read_policies`` is called by the compiler's facade and by the command line; ``crd_manifests`` by the cluster set-up.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from compiler.diagnostics import Reporter
from compiler.schema import cleanup_rules, exceptions, structural, unbuilt
from compiler.schema.context_rules import check_global
from compiler.schema.decode import decode_policy
from compiler.schema.exceptions import is_guide_form
from compiler.schema.model import ExceptionPolicy, Policy
from compiler.schema.normal import normalise_spec
from compiler.schema.policy_rules import check_metadata, check_policy
from compiler.schema.structural import GROUP, crd_manifests
from compiler.source import Document, type_name

if TYPE_CHECKING:
    from compiler.schema.kinds import Schemas

__all__ = ["crd_manifests", "read_policies"]

_HARMLESS: Final = ("T0204", "T0208", "T0312", "T0313", "T0323", "T0325")
"""Structural errors after which the rest of a policy still reads as it was meant."""

ADMISSION_KINDS: Final = frozenset(
    f"{kind}AdmissionPolicy{part}" for kind in ("Validating", "Mutating") for part in ("", "Binding")
)
"""The kinds of the API server's own policies, which have their own reader."""
_CLUSTER_WIDE: Final = ADMISSION_KINDS | {"ClusterPolicy", "ClusterCleanupPolicy", "GlobalContextEntry"}


def read_policies(
    docs: Iterable[Document], reporter: Reporter, schemas: Schemas | None = None, *, quirks: bool = False
) -> tuple[list[Policy], list[ExceptionPolicy]]:
    """Policies and exceptions of the documents, in their order; those of the API server come last. ``schemas`` are the
    kinds that are known (the built-in ones); ``quirks`` as for :class:`compiler.Options`.

    A document with an error is left out (the reporter has it); the others are answered, so that one bad policy does not
    take the rest with it.
    """
    policies: list[Policy] = []
    found: list[ExceptionPolicy] = []
    native: list[Document] = []
    seen: dict[tuple[str, str, str], Document] = {}
    for doc in docs:
        before = reporter.errors
        kind = _identify(doc, reporter)
        if kind is None:
            continue
        _same_name(doc, kind, seen, reporter)
        if kind in ADMISSION_KINDS:
            if reporter.errors == before:
                native.append(doc)
            continue
        if kind == "GlobalContextEntry":
            _check_global(doc, kind, reporter, before)
            continue
        if kind in cleanup_rules.KINDS:
            cleanup = _cleanup(doc, kind, reporter, before)
            if cleanup is not None:
                policies.append(cleanup)
            continue
        spec = _checked_spec(doc, kind, reporter, before, schemas, quirks)
        if spec is None or reporter.errors != before:
            continue
        if kind == "PolicyException":
            found.append(exceptions.decode(doc, spec))
        else:
            policies.append(decode_policy(doc, spec))
    if native:
        from compiler.schema.admission_policies import read_admission_policies

        policies += read_admission_policies(native, reporter, schemas)
    return policies, found


def _check_global(doc: Document, kind: str, reporter: Reporter, before: int) -> None:
    """An entry of the global context: it is checked, and hosts read it (``runtime.context``); no code comes of it."""
    check_metadata(doc, kind, reporter)
    structural.check(doc, kind, doc.value["apiVersion"].partition("/")[2], reporter)
    if reporter.errors == before:
        check_global(doc, reporter)


def _cleanup(doc: Document, kind: str, reporter: Reporter, before: int) -> Policy | None:
    """A policy that removes objects by the clock; None when something in it is wrong."""
    check_metadata(doc, kind, reporter)
    structural.check(doc, kind, doc.value["apiVersion"].partition("/")[2], reporter)
    return cleanup_rules.read(doc, kind, reporter) if reporter.errors == before else None


def _checked_spec(
    doc: Document, kind: str, reporter: Reporter, before: int, schemas: Schemas | None, quirks: bool
) -> dict[str, Any] | None:
    """The normalised spec (of an exception: its match) after all checks; None when it cannot even be normalised."""
    exception = kind == "PolicyException"
    # An exception by rules that is read back in another version still has the guide's form.
    version = "v1alpha1" if exception and is_guide_form(doc) else doc.value["apiVersion"].partition("/")[2]
    check_metadata(doc, kind, reporter)
    structural.check(doc, kind, version, reporter)
    if reporter.errors != before and not _walkable(reporter, before):
        return None
    if exception:
        return exceptions.check(doc, reporter)
    spec = normalise_spec(doc, reporter)
    unbuilt.refuse_parts(doc, spec, reporter)
    if any(rule.get("generate") is not None for rule in spec["rules"]):
        # It looks kinds up, whose table is large: policies that make nothing do not load it.
        from compiler.schema.generate_forms import complete

        complete(doc, kind, spec, schemas, reporter, quirks=quirks)
    if any(rule.get("cleanup") for rule in spec["rules"]):
        cleanup_rules.check_rules(doc, spec, reporter)
    check_policy(doc, kind, spec, reporter)
    return spec


def _walkable(reporter: Reporter, before: int) -> bool:
    """Whether the semantic checks can go on: not after wrong types or a misspelt field, which then is missing."""
    errors = [d for d in reporter.diagnostics if d.severity == "error"][before:]
    return all(d.code in _HARMLESS for d in errors)


def _identify(doc: Document, reporter: Reporter) -> str | None:
    """The kind of a document this version reads; None (and a diagnostic) for all others."""
    value, spans = doc.value, doc.spans
    kind, api_version = value.get("kind"), value.get("apiVersion")
    for name, found in (("kind", kind), ("apiVersion", api_version)):
        if type(found) is not str or not found:
            span = spans.span("/" + name) if name in value else spans.span("")
            problem = (
                f"the document has no {name}" if found is None else f"{name} must be a text, not {type_name(found)}"
            )
            reporter.error("T0203" if found is None else "T0202", span, problem, f"{name}: …")
            return None
    assert isinstance(kind, str)
    assert isinstance(api_version, str)
    if kind in ADMISSION_KINDS:
        return kind
    if kind in unbuilt.KINDS:
        unbuilt.refuse_kind(doc, kind, reporter)
        return None
    known = structural.load()
    versions = known.versions(kind)
    group, _, version = api_version.partition("/")
    if not versions or (group != GROUP and kind != "PolicyException"):
        close = difflib.get_close_matches(kind, {k for k, _ in known.specs}, 1, 0.7)
        if versions:
            reporter.error(
                "T0205",
                spans.span("/apiVersion"),
                f'"{api_version}" is no version of {kind}',
                "one of " + ", ".join(f"{GROUP}/{v}" for v in versions),
            )
            return None
        reporter.error(
            "T0206",
            spans.span("/kind"),
            f"{kind} is no policy",
            "ClusterPolicy, Policy or PolicyException",
            f'did you mean "{close[0]}"?' if close else "",
        )
        return None
    if kind == "PolicyException" and group == "policies.kyverno.io":
        unbuilt.refuse_kind(doc, f"PolicyException of {api_version}", reporter)
        return None
    if group != GROUP or version not in versions:
        reporter.error(
            "T0205",
            spans.span("/apiVersion"),
            f'"{api_version}" is no version of {kind}',
            "one of " + ", ".join(f"{GROUP}/{v}" for v in versions),
        )
        return None
    return kind


def _same_name(doc: Document, kind: str, seen: dict[tuple[str, str, str], Document], reporter: Reporter) -> None:
    """Reports a second policy of one kind, namespace and name (T0325)."""
    meta = doc.value.get("metadata")
    if type(meta) is not dict or type(meta.get("name")) is not str:
        return
    namespace = str(meta.get("namespace") or "default") if kind not in _CLUSTER_WIDE else ""
    first = seen.setdefault((kind, namespace, meta["name"]), doc)
    if first is not doc:
        span = first.spans.span("/metadata/name")
        reporter.error(
            "T0325",
            doc.spans.span("/metadata/name"),
            f'a {kind} "{meta["name"]}" is already there in {span.file} line {span.line}',
            "a name of its own for each policy",
        )
