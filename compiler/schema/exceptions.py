"""PolicyExceptions of ``kyverno.io``: checked beyond their structure, and read into the model (semantics §15.1).

Called by ``read_policies``. The guide's form names rules (``spec.rules``, decision 5), the standard one policies and
rules (``spec.exceptions``). Which form it is the fields tell and not the version: what was stored in one version the
API server hands out in another.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.schema import condition_rules, match_rules, pod_security_rules
from compiler.schema.decode import decode_block, decode_exclusions
from compiler.schema.model import ExceptionPolicy, ExceptionRule
from compiler.schema.normal import normalise_match
from compiler.source import Document
from vm.intrinsics.wildcard import match as wildcard

Json: TypeAlias = Any

_USER_FIELDS: Final = ("roles", "clusterRoles", "subjects")
_AUTOGEN: Final = "autogen-"


def is_guide_form(doc: Document) -> bool:
    """Whether an exception names rules only."""
    spec = doc.value.get("spec")
    version = str(doc.value.get("apiVersion")).partition("/")[2]
    if type(spec) is not dict:
        return version == "v1alpha1"
    return "exceptions" not in spec and ("rules" in spec or version == "v1alpha1")


def check(doc: Document, reporter: Reporter) -> dict[str, Json]:
    """Checks an exception whose structure is sound, and answers its normalised ``match``."""
    spec = doc.value["spec"]
    match = normalise_match(doc, spec.get("match") or {}, "/spec/match", reporter)
    match_rules.check_exception(doc, match, "/spec/match", reporter)
    if is_guide_form(doc):
        reporter.note(
            "T0407",
            doc.spans.span("/apiVersion"),
            "an exception that names rules is read as freeing from these rules, autogen's included",
            "",
            "the standard form is kyverno.io/v2 with spec.exceptions: [{policyName: …, ruleNames: […]}]",
        )
        return match
    _rules(doc, spec, match, reporter)
    if (conditions := spec.get("conditions")) is not None:
        condition_rules.check(doc, conditions, "/spec/conditions", reporter)
    for i, entry in enumerate(spec.get("podSecurity") or ()):
        pod_security_rules.check_exclusion(doc, entry, f"/spec/podSecurity/{i}", reporter)
    if spec.get("background") is not False:
        _no_users(doc, match, reporter)
    return match


def decode(doc: Document, match: dict[str, Json]) -> ExceptionPolicy:
    """The model of a checked exception and its normalised match."""
    value = doc.value
    meta, spec = value["metadata"], value["spec"]
    guide = is_guide_form(doc)
    if guide:
        rules = tuple(ExceptionRule(r["name"], r.get("policy")) for r in spec["rules"])
    else:
        rules = tuple(
            ExceptionRule(name, entry["policyName"]) for entry in spec["exceptions"] for name in entry["ruleNames"]
        )
    return ExceptionPolicy(
        name=meta["name"],
        namespace=meta.get("namespace") or "",
        api_version=value["apiVersion"],
        rules=rules,
        match=decode_block(match, "/spec/match"),
        doc=doc,
        background=spec.get("background") is not False,
        conditions=None if guide else spec.get("conditions"),
        pod_security=() if guide else decode_exclusions(spec.get("podSecurity"), "/spec/podSecurity"),
        guide=guide,
    )


def _rules(doc: Document, spec: dict[str, Json], match: dict[str, Json], reporter: Reporter) -> None:
    spans = doc.spans
    entries = spec["exceptions"]
    if not entries:
        reporter.error(
            "T0203",
            spans.key_span("/spec/exceptions"),
            "the exception frees from no rule",
            "exceptions: [{policyName: …, ruleNames: […]}]",
        )
    kinds = _kinds(match)
    for i, entry in enumerate(entries):
        at = f"/spec/exceptions/{i}"
        if not entry["policyName"]:
            reporter.error("T0203", spans.span(at + "/policyName"), "the exception names no policy", "policyName: …")
        names = entry["ruleNames"]
        if not names:
            reporter.error("T0203", spans.span(at + "/ruleNames"), "the exception names no rule", 'ruleNames: ["…"]')
        for kind in sorted(kinds & _CONTROLLERS):
            prefix = "autogen-cronjob-" if kind == "CronJob" else _AUTOGEN
            if names and not any(n.startswith((_AUTOGEN, "*", "?")) or wildcard(n, prefix + "x") for n in names):
                reporter.warning(
                    "T1345",
                    spans.span(at + "/ruleNames"),
                    f"a {kind} is checked by rules that autogen names {prefix}…, which this exception leaves in force",
                    "",
                    f"name them too: {prefix}{names[0]}",
                )
                break


_CONTROLLERS: Final = frozenset(
    ("CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet")
)


def _kinds(match: dict[str, Json]) -> set[str]:
    filters = [match, *(f for mode in ("any", "all") for f in match.get(mode) or ())]
    written = (k for f in filters for k in (f.get("resources") or {}).get("kinds") or ())
    return {str(kind).rpartition("/")[2] for kind in written}


def _no_users(doc: Document, match: dict[str, Json], reporter: Reporter) -> None:
    """Who asks is not known in background scans, so that such an exception must keep out of them."""
    places = [(match, "/spec/match")]
    places += [(f, f"/spec/match/{mode}/{i}") for mode in ("any", "all") for i, f in enumerate(match.get(mode) or ())]
    for f, at in places:
        for field in _USER_FIELDS:
            if f.get(field):
                reporter.error(
                    "T0308",
                    doc.spans.key_span(f"{at}/{field}"),
                    f"{field} are not known in background scans",
                    "",
                    "set spec.background: false, so that the exception counts for requests only",
                )
