"""What removes objects: CleanupPolicy, ClusterCleanupPolicy, and the rule with ``cleanup`` of the guide (decision 5),
checked and read into the model. Called by ``read_policies``.

A cleanup policy becomes a policy with one rule of its own name, whose preconditions are its conditions; they see the
object as ``target``.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.frontends.pattern import parse_kind
from compiler.schema import condition_rules, context_rules, match_rules
from compiler.schema.decode import decode_block
from compiler.schema.decode_loops import decode_context
from compiler.schema.model import Cleanup, Policy, Rule
from compiler.schema.normal import normalise_match
from compiler.source import Document

Json: TypeAlias = Any

KINDS: Final = ("ClusterCleanupPolicy", "CleanupPolicy")
_CONTEXTS: Final = ("imageRegistry", "configMap")
"""Entries that the reference refuses here."""


def read(doc: Document, kind: str, reporter: Reporter) -> Policy | None:
    """The policy of a document that is structurally sound; None when something in it is wrong."""
    before = reporter.errors
    spec: dict[str, Json] = {k: v for k, v in doc.value["spec"].items() if v is not None}
    metadata = doc.value["metadata"]
    blocks: dict[str, dict[str, Json]] = {
        name: normalise_match(doc, spec[name], f"/spec/{name}", reporter)
        for name in ("match", "exclude")
        if name in spec
    }
    rule: dict[str, Json] = {"name": metadata["name"], "cleanup": {}, **blocks}
    match_rules.check_rule(doc, kind, rule, "/spec", False, reporter)
    for name, block in blocks.items():
        for part, value in _user_info(block):
            reporter.error(
                "T1362",
                doc.spans.key_span(f"/spec/{name}{part}"),
                f"a clean-up has no user, so that {value} can never hold",
                "resources",
            )
    conditions = _conditions(spec.get("conditions"))
    if conditions is not None:
        condition_rules.check(doc, conditions, "/spec/conditions", reporter)
        doc.spans.move("/spec/preconditions", "/spec/conditions")
    entries = spec.get("context")
    if entries:
        context_rules.check_rule(doc, kind, {**rule, "context": entries}, "/spec", reporter)
    for i, entry in enumerate(entries or ()):
        for name in _CONTEXTS:
            if entry.get(name) is not None:
                reporter.error(
                    "T1363",
                    doc.spans.key_span(f"/spec/context/{i}/{name}"),
                    f"a cleanup policy has no context of {name}",
                    "variable, apiCall or globalReference",
                )
    check_schedule(doc, spec["schedule"], "/spec/schedule", reporter)
    if reporter.errors != before:
        return None
    raw = {**rule, **({"preconditions": conditions} if conditions is not None else {})}
    exclude = blocks.get("exclude")
    return Policy(
        kind="CleanupPolicy" if kind == "CleanupPolicy" else "ClusterCleanupPolicy",
        api_version=doc.value["apiVersion"],
        name=metadata["name"],
        namespace=(metadata.get("namespace") or "default") if kind == "CleanupPolicy" else "",
        labels=dict(metadata.get("labels") or {}),
        annotations=dict(metadata.get("annotations") or {}),
        failure_action="Audit",
        overrides=(),
        apply_rules="All",
        background=True,
        admission=False,
        failure_policy="Ignore",
        webhook_timeout=10,
        emit_warning=False,
        rules=(
            Rule(
                name=metadata["name"],
                index=0,
                pointer="/spec",
                raw=raw,
                origin="policy",
                match=decode_block(blocks["match"], "/spec/match"),
                exclude=decode_block(exclude, "/spec/exclude") if exclude else None,
                preconditions=conditions,
                cleanup=Cleanup((), spec["schedule"], spec.get("deletionPropagationPolicy") or ""),
                context=decode_context(entries, "/spec/context"),
            ),
        ),
        doc=doc,
    )


def check_rules(doc: Document, spec: dict[str, Json], reporter: Reporter) -> None:
    """Checks the guide's cleanup rules of a normalised spec."""
    for i, rule in enumerate(spec["rules"]):
        cleanup = rule.get("cleanup")
        if not cleanup:
            continue
        at = f"/spec/rules/{i}/cleanup"
        reporter.note(
            "T1361",
            doc.spans.key_span(at),
            "the rule removes objects when the policy comes, when objects that match change, and on its schedule",
            "",
            "the standard form is a CleanupPolicy or ClusterCleanupPolicy of kyverno.io/v2",
        )
        if not cleanup.get("removeResources"):
            reporter.error("T1364", doc.spans.key_span(at), "the rule removes nothing", "removeResources: [{kind: …}]")
        for n, entry in enumerate(cleanup.get("removeResources") or ()):
            key = parse_kind(entry["kind"])
            if key is None or key.subresource or "*" in key.kind or "?" in key.kind:
                reporter.error(
                    "T1364",
                    doc.spans.span(f"{at}/removeResources/{n}/kind"),
                    f'"{entry["kind"]}" does not name one kind',
                    "a kind",
                )
        if cleanup.get("schedule") is not None:
            check_schedule(doc, cleanup["schedule"], at + "/schedule", reporter)


def check_schedule(doc: Document, text: str, at: str, reporter: Reporter) -> None:
    """Reports a cron text that no clock can follow (T1360): five fields, as in Kubernetes."""
    problem = schedule_problem(text)
    if problem:
        reporter.error(
            "T1360",
            doc.spans.span(at),
            f'"{text}" is no schedule: {problem}',
            "minute hour day month weekday",
            'every hour is "0 * * * *"',
        )


def schedule_problem(text: str) -> str:
    """What is wrong with a cron text, empty for a good one."""
    from datetime import UTC, datetime

    from cronsim import CronSim, CronSimError

    fields = text.split()
    if len(fields) != 5:
        return f"it has {len(fields)} field{'' if len(fields) == 1 else 's'}, a schedule has 5"
    try:
        next(CronSim(" ".join(fields), datetime(2024, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        return str(error).rstrip(".").lower()
    except StopIteration:
        return "no day is ever due"
    return ""


def _conditions(block: dict[str, Json] | None) -> dict[str, Json] | None:
    """Conditions without empty lists: here an empty ``any`` asks for nothing (semantics §25)."""
    kept = {key: block[key] for key in ("all", "any") if block.get(key)} if block else {}
    return kept or None


def _user_info(block: dict[str, Json]) -> list[tuple[str, str]]:
    places = [("", block)]
    for mode in ("any", "all"):
        places += [(f"/{mode}/{i}", f) for i, f in enumerate(block.get(mode) or ())]
    return [(f"{at}/{key}", key) for at, f in places for key in ("roles", "clusterRoles", "subjects") if f.get(key)]
