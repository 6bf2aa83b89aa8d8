"""Normalised JSON to the model; called by ``read_policies`` and, for the rules it makes, by autogen.

Expects what the structural check has passed; it reports nothing and fills in every default.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from compiler.schema.decode_loops import decode_context, decode_foreach, decode_generate_target, decode_targets
from compiler.schema.model import (
    Action,
    Cel,
    CelExpression,
    Cleanup,
    Deny,
    Exclusion,
    Filter,
    Generate,
    MatchBlock,
    Mode,
    Mutate,
    NamedExpression,
    Origin,
    Override,
    Params,
    PodSecurity,
    Policy,
    Removal,
    Rule,
    Subject,
    Validate,
)
from compiler.source import Document

Json: TypeAlias = Any

HOURLY: Final = "0 * * * *"
"""When a cleanup rule looks again that names no schedule (decision 5)."""

DEFAULT_WEBHOOK_TIMEOUT: Final = 10
"""Seconds the API server waits for an answer when the policy names none."""


def decode_policy(doc: Document, spec: dict[str, Json]) -> Policy:
    """The policy of a document and its normalised spec."""
    value = doc.value
    meta: dict[str, Json] = value.get("metadata") or {}
    kind: Literal["ClusterPolicy", "Policy"] = "Policy" if value["kind"] == "Policy" else "ClusterPolicy"
    webhook: dict[str, Json] = spec.get("webhookConfiguration") or {}
    timeout = webhook.get("timeoutSeconds") or spec.get("webhookTimeoutSeconds") or DEFAULT_WEBHOOK_TIMEOUT
    return Policy(
        kind=kind,
        api_version=value["apiVersion"],
        name=meta["name"],
        namespace=(meta.get("namespace") or "default") if kind == "Policy" else "",
        labels=dict(meta.get("labels") or {}),
        annotations=dict(meta.get("annotations") or {}),
        failure_action=spec.get("validationFailureAction", "Audit"),
        overrides=_overrides(spec.get("validationFailureActionOverrides")),
        apply_rules=spec.get("applyRules", "All"),
        background=spec.get("background", True),
        admission=spec.get("admission", True),
        failure_policy=webhook.get("failurePolicy") or spec.get("failurePolicy") or "Fail",
        webhook_timeout=timeout,
        emit_warning=spec.get("emitWarning", False),
        rules=tuple(decode_rule(_inherited(r, spec), i, f"/spec/rules/{i}") for i, r in enumerate(spec["rules"])),
        doc=doc,
        match_conditions=_named(webhook.get("matchConditions"), "/spec/webhookConfiguration/matchConditions"),
    )


def _inherited(rule: dict[str, Json], spec: dict[str, Json]) -> dict[str, Json]:
    """The rule with what the policy says for all rules that do not say it themselves (fields of older versions)."""
    for block, field in (("generate", "generateExisting"), ("mutate", "mutateExistingOnPolicyUpdate")):
        own = rule.get(block)
        if spec.get(field) is True and isinstance(own, dict) and field not in own:
            rule = {**rule, block: {**own, field: True}}
    return rule


def decode_rule(raw: dict[str, Json], index: int, at: str, origin: Origin = "policy") -> Rule:
    """A rule of its normalised JSON; ``at`` is the pointer of the rule it came from."""
    exclude = raw.get("exclude")
    validate, mutate = raw.get("validate"), raw.get("mutate")
    generate, cleanup = raw.get("generate"), raw.get("cleanup")
    return Rule(
        name=raw["name"],
        index=index,
        pointer=at,
        raw=raw,
        origin=origin,
        match=decode_block(raw.get("match") or {}, at + "/match"),
        exclude=decode_block(exclude, at + "/exclude") if exclude else None,
        preconditions=raw.get("preconditions"),
        cel_preconditions=_named(raw.get("celPreconditions"), at + "/celPreconditions"),
        validate=_validate(validate, at + "/validate") if validate is not None else None,
        mutate=_mutate(mutate, at + "/mutate") if mutate is not None else None,
        generate=_generate(generate, at + "/generate") if generate is not None else None,
        cleanup=_cleanup(cleanup, at + "/cleanup") if cleanup else None,
        context=decode_context(raw.get("context"), at + "/context"),
        image_extractors=raw.get("imageExtractors"),
        # A null in a map of texts is an empty text, as the API server reads it.
        report_properties={k: "" if v is None else v for k, v in (raw.get("reportProperties") or {}).items()},
        skip_background_requests=raw.get("skipBackgroundRequests", True),
    )


def decode_block(block: dict[str, Json], at: str) -> MatchBlock:
    """A match or exclude block; a non-empty ``any`` comes before ``all``, and both before what is written directly."""
    modes: tuple[Mode, Mode] = ("any", "all")
    for mode in modes:
        if filters := block.get(mode):
            return MatchBlock(mode, tuple(_filter(f, f"{at}/{mode}/{i}") for i, f in enumerate(filters)))
    return MatchBlock("direct", (_filter(block, at),))


def _filter(value: dict[str, Json], at: str) -> Filter:
    return _resources(
        value.get("resources") or {},
        at,
        roles=tuple(value.get("roles") or ()),
        cluster_roles=tuple(value.get("clusterRoles") or ()),
        subjects=tuple(Subject(s["kind"], s["name"], s.get("namespace") or "") for s in value.get("subjects") or ()),
    )


def _resources(
    value: dict[str, Json],
    at: str,
    roles: tuple[str, ...] = (),
    cluster_roles: tuple[str, ...] = (),
    subjects: tuple[Subject, ...] = (),
) -> Filter:
    name = value.get("name")
    inner = value.get("excludeResources")
    return Filter(
        kinds=tuple(value.get("kinds") or ()),
        names=((name,) if name else ()) + tuple(value.get("names") or ()),
        namespaces=tuple(value.get("namespaces") or ()),
        annotations=value.get("annotations") or None,
        selector=value.get("selector"),
        namespace_selector=value.get("namespaceSelector"),
        operations=tuple(value.get("operations") or ()),
        roles=roles,
        cluster_roles=cluster_roles,
        subjects=subjects,
        exclude_resources=_resources(inner, at + "/resources/excludeResources") if inner else None,
        labels=value.get("labels") or None,
        pointer=at,
    )


def _validate(value: dict[str, Json], at: str) -> Validate:
    deny, cel, pod_security = value.get("deny"), value.get("cel"), value.get("podSecurity")
    action: Action | None = value.get("failureAction")
    return Validate(
        message=value.get("message"),
        pattern=value.get("pattern"),
        any_pattern=value.get("anyPattern"),
        deny=Deny(deny.get("conditions")) if deny is not None else None,
        cel=_cel(cel, at + "/cel") if cel is not None else None,
        pod_security=_pod_security(pod_security, at + "/podSecurity") if pod_security is not None else None,
        foreach=decode_foreach(value.get("foreach"), at + "/foreach"),
        failure_action=action,
        overrides=_overrides(value.get("failureActionOverrides")),
        allow_existing=value.get("allowExistingViolations", True),
    )


def _pod_security(value: dict[str, Json], at: str) -> PodSecurity:
    return PodSecurity(
        level=value["level"],
        version=value.get("version") or "latest",
        exclude=decode_exclusions(value.get("exclude"), at + "/exclude"),
    )


def decode_exclusions(entries: list[dict[str, Json]] | None, at: str) -> tuple[Exclusion, ...]:
    """The entries of ``podSecurity.exclude``, or of ``podSecurity`` in an exception."""
    return tuple(
        Exclusion(
            control=e["controlName"],
            images=tuple(e.get("images") or ()),
            restricted_field=e.get("restrictedField") or "",
            values=tuple(e.get("values") or ()),
            pointer=f"{at}/{i}",
        )
        for i, e in enumerate(entries or ())
    )


def _mutate(value: dict[str, Json], at: str) -> Mutate:
    return Mutate(
        value.get("patchStrategicMerge"),
        value.get("patchesJson6902"),
        foreach=decode_foreach(value.get("foreach"), at + "/foreach"),
        targets=decode_targets(value.get("targets"), at + "/targets"),
        on_policy_update=value.get("mutateExistingOnPolicyUpdate") is True,
    )


def _generate(value: dict[str, Json], at: str) -> Generate:
    loops = value.get("foreach")
    return Generate(
        target=None if loops else decode_generate_target(value, at),
        foreach=decode_foreach(loops, at + "/foreach"),
        synchronize=value.get("synchronize") is True,
        generate_existing=value.get("generateExisting") is True,
        orphan_downstream=value.get("orphanDownstreamOnPolicyDelete") is True,
    )


def _cleanup(value: dict[str, Json], at: str) -> Cleanup:
    return Cleanup(
        removals=tuple(
            Removal(
                kind=entry["kind"] if not entry.get("apiVersion") else f"{entry['apiVersion']}/{entry['kind']}",
                names=tuple(entry.get("names") or ()),
                namespaces=tuple(entry.get("namespaces") or ()),
                selector=entry.get("selector"),
                pointer=f"{at}/removeResources/{i}",
            )
            for i, entry in enumerate(value.get("removeResources") or ())
        ),
        schedule=value.get("schedule") or HOURLY,
    )


def _cel(value: dict[str, Json], at: str) -> Cel:
    return Cel(
        expressions=tuple(
            CelExpression(e["expression"], e.get("message"), e.get("messageExpression"), f"{at}/expressions/{i}")
            for i, e in enumerate(value.get("expressions") or ())
        ),
        variables=_named(value.get("variables"), at + "/variables"),
        params=_params(value.get("paramKind"), value.get("paramRef")),
        audit_annotations=_named(
            value.get("auditAnnotations"), at + "/auditAnnotations", name="key", expression="valueExpression"
        ),
    )


def _params(kind: dict[str, Json] | None, ref: dict[str, Json] | None) -> Params | None:
    """The parameters of a rule; as in Kyverno a kind without a reference asks for none."""
    if not kind or not ref:
        return None
    return Params(
        api_version=kind.get("apiVersion") or "",
        kind=kind.get("kind") or "",
        name=ref.get("name") or "",
        namespace=ref.get("namespace") or "",
        selector=ref.get("selector"),
        required=ref.get("parameterNotFoundAction") == "Deny",
    )


def _named(
    entries: list[dict[str, Json]] | None, at: str, *, name: str = "name", expression: str = "expression"
) -> tuple[NamedExpression, ...]:
    return tuple(NamedExpression(e[name], e[expression], f"{at}/{i}/{expression}") for i, e in enumerate(entries or ()))


def _overrides(entries: list[dict[str, Json]] | None) -> tuple[Override, ...]:
    return tuple(
        Override(e["action"], tuple(e.get("namespaces") or ()), e.get("namespaceSelector"))
        for e in entries or ()
        if "action" in e
    )
