"""Lowers policies to IR: each computed rule becomes an entry function, each exception a condition, the rest metadata.

Called by the facade between the model and the passes. An entry is ``() -> O``: match and exclude, preconditions, body.

Metadata for the runtime, plain JSON, keys absent where a policy says nothing:

======================  ==============================================================================================
of a policy             meaning
======================  ==============================================================================================
``kind, apiVersion``    as in the document
``failureAction``       ``Audit`` or ``Enforce``
``overrides``           list of ``{action, namespaces?, namespaceSelector?}``, first match wins
``applyRules``          ``All`` or ``One``
``failurePolicy``       ``Fail`` or ``Ignore``
``webhookTimeout``      seconds
``background``          ``admission``, ``emitWarning``: booleans
``annotations``         ``labels``: maps of texts
``matchConditions``     of the webhook: list of ``{name, expression}``
``file``                where the policy came from
======================  ==============================================================================================

======================  ==============================================================================================
of a rule               meaning
======================  ==============================================================================================
``origin``              ``policy``, ``autogen`` or ``autogen-cronjob``
``failureAction``       of the rule alone; absent: the policy's
``overrides``           of the rule alone, before the policy's
``allowExistingViolations``  boolean, for validate rules
``skipBackgroundRequests``  false: requests of Thesmos itself set off the rule too
``reportProperties``    map of texts, variables not put in
``pointer``             place of the rule in the document
``namespaceLabels``     true: its match or exclude looks at the labels of the namespace
``params``              parameters of a CEL rule: ``{apiVersion, kind, name?, namespace?, selector?, required?,
                        listed?}``; of a policy of the API server also ``onError``, ``fail`` or ``ignore``
``cel``                 true: the code is that of CEL expressions, whose cost has limits of its own
``podSecurity``         ``{level, version, exclude}`` of such a rule
``onPolicyUpdate``      true: a change of the policy sets a rule with targets off for all that it matches
``passed``              the message of a pass, where it is not the standing one
``generate``            ``{synchronize, generateExisting, orphanDownstreamOnPolicyDelete, useServerSideApply,
                        targets}``; a target is ``{apiVersion, kind, name, namespace, clone, cloneList}`` as written,
                        variables not put in
``cleanup``             ``{schedule, propagation?}``; of the guide's rule also ``removals``, a list of
                        ``{kind, names?, namespaces?, selector?}``, and ``kinds`` that ``match`` names (a kind is a
                        list of group, version, kind and subresource)
======================  ==============================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from compiler.autogen import expand
from compiler.diagnostics import Reporter
from compiler.frontends.conditions import preconditions
from compiler.frontends.context import load_certain, register
from compiler.frontends.exceptions import exemption
from compiler.frontends.images import register_images
from compiler.frontends.match import LABELS_UNKNOWN, applies, match_keys, reads_namespace_labels
from compiler.frontends.mutate import lower_mutate
from compiler.frontends.pattern import parse_kind
from compiler.frontends.pod_security import exclusion_json
from compiler.frontends.properties import note_properties
from compiler.frontends.rule import OPERATION, RuleFrame, frame_of
from compiler.frontends.validate import lower_validate
from compiler.ir import ops as ir
from compiler.ir.build import TRUE, negate
from compiler.schema.kinds import Schemas, provider
from compiler.schema.model import Cleanup, ExceptionPolicy, Override, Params, Policy, Removal, Rule


def lower(
    policies: Sequence[Policy],
    exceptions: Sequence[ExceptionPolicy],
    reporter: Reporter,
    schemas: Schemas | None = None,
    *,
    cel_strict: bool = False,
    quirks: bool = False,
) -> ir.Module:
    """The IR of policies and exceptions, unoptimised. Errors in variables, patterns, patches and expressions go to the
    reporter. ``schemas`` are the kinds that are known (the built-in ones); ``cel_strict`` is plain CEL, where
    quantities are texts; with ``quirks`` loops answer as the reference (see :mod:`compiler.passes.kyverno`)."""
    schemas = schemas if schemas is not None else provider()
    functions: list[ir.Function] = []
    spans: dict[tuple[int, str], tuple[str, int, int]] = {}
    lowered = []
    for index, policy in enumerate(policies):
        rules = []
        for number, rule in enumerate(expand(policy)):
            # A rule of autogen is the same text once more: what is wrong in it was said of the rule as written.
            # The bindings of one policy share its expressions.
            told = reporter if rule.origin == "policy" and not (policy.native and rule.index) else None
            frame = frame_of(policy, index, rule, f"p{index}.r{number}", told)
            frame.scope.functions = functions
            frame.scope.quirks = quirks
            functions.append(_entry(frame, functions, schemas, cel_strict))
            rules.append(_rule(policy, rule, frame.builder.name))
            for pointer in sorted(frame.places):
                span = policy.doc.spans.span(pointer)
                spans[index, pointer] = (span.file, span.line, span.column)
        namespace = policy.scope
        lowered.append(ir.Policy(policy.name, namespace, tuple(rules), _policy_meta(policy)))
    exemptions = []
    for number, exception in enumerate(exceptions):
        exemptions.append(exemption(exception, f"x{number}", functions, reporter))
    return ir.Module(tuple(functions), tuple(lowered), tuple(exemptions), spans)


def _entry(frame: RuleFrame, functions: list[ir.Function], schemas: Schemas, cel_strict: bool) -> ir.Function:
    rule, b = frame.rule, frame.builder
    condition = applies(rule, frame.policy.scope)
    if condition != TRUE:
        b.ret_if(negate(condition), ir.Op("o_none"), frame.at("match"))
    if reads_namespace_labels(rule):
        text = "failed to match the rule: the labels of the namespace are not known"
        b.ret_if(LABELS_UNKNOWN, ir.Op("o_error", (ir.Const(text),)), frame.at("match"))
    if frame.policy.native:
        from compiler.frontends.admission_policy import lower_native

        lower_native(frame, functions, schemas, strict=cel_strict)
        return b.function()
    if _works_on_others(rule) and not any("DELETE" in f.operations for f in rule.match.filters):
        # A deletion sets off such a rule only where its match lists it (semantics §17, §18).
        deleted = ir.Op("equal", (OPERATION, ir.Const("DELETE")))
        b.ret_if(deleted, ir.Op("o_none"), frame.at("match"))
    cel = rule.validate.cel if rule.validate is not None else None
    if frame.policy.match_conditions or cel is not None:
        # The front end of CEL is as large as all others together: policies without it do not load it.
        from compiler.frontends import validate_cel
    if frame.policy.match_conditions:
        validate_cel.lower_match_conditions(frame, functions, schemas, frame.policy.match_conditions)
    if cel is not None and cel.params is not None:
        validate_cel.await_params(frame)
    register_images(frame)
    targeted = rule.mutate is not None and bool(rule.mutate.targets)
    if (targeted or rule.cleanup is not None) and frame.scope.roots is not None:
        # What the rule's context says of the target is asked when the target is at hand.
        frame.scope.roots |= {"target"}
    register(frame, rule.context)
    load_certain(frame)
    if targeted and frame.scope.roots is not None:
        # Preconditions of the rule come before its targets.
        frame.scope.roots -= {"target"}
    preconditions(frame)
    note_properties(frame)
    if rule.mutate is not None and rule.mutate.targets:
        from compiler.frontends.mutate_targets import lower_targets

        lower_targets(frame)
    elif rule.mutate is not None:
        lower_mutate(frame)
    elif rule.generate is not None:
        from compiler.frontends.generate import lower_generate

        lower_generate(frame)
    elif rule.cleanup is not None:
        # What goes is said in the rule's metadata: removals hold no variables.
        b.ret(ir.Op("o_pass"), frame.at())
    elif cel is not None:
        validate_cel.lower_cel(frame, validate_cel.begin(frame, functions, schemas, cel.params, strict=cel_strict))
    else:
        lower_validate(frame)
    return b.function()


_TARGET: Final = ("apiVersion", "kind", "name", "namespace", "clone", "cloneList")


def _works_on_others(rule: Rule) -> bool:
    """Whether a rule makes or changes other objects than the one that sets it off."""
    return rule.generate is not None or (rule.mutate is not None and bool(rule.mutate.targets))


def _rule(policy: Policy, rule: Rule, entry: str) -> ir.Rule:
    kind = _kind(rule)
    meta = _rule_meta(rule)
    if rule.generate is not None:
        meta["generate"] = _generate_meta(policy, rule)
    if rule.cleanup is not None:
        meta["cleanup"] = _cleanup_meta(rule, rule.cleanup)
    if kind == "mutateExisting" and _on_policy_update(policy, rule):
        meta["onPolicyUpdate"] = True
    if policy.native:
        from compiler.frontends.admission_policy import native_meta

        meta |= native_meta(policy, rule, meta)
    return ir.Rule(rule.name, entry, kind, match_keys(rule.match), meta)


def _kind(rule: Rule) -> str:
    if rule.mutate is not None:
        return "mutateExisting" if rule.mutate.targets else "mutate"
    return "generate" if rule.generate is not None else "cleanup" if rule.cleanup is not None else "validate"


def _generate_meta(policy: Policy, rule: Rule) -> dict[str, Any]:
    generate, raw = rule.generate, rule.raw["generate"]
    if generate is None:
        raise ValueError(f"rule {rule.name} does not generate")
    spec = policy.doc.value.get("spec") or {}
    targets = raw["foreach"] if generate.foreach else [raw]
    return {
        "synchronize": generate.synchronize,
        "generateExisting": generate.generate_existing or spec.get("generateExisting") is True,
        "orphanDownstreamOnPolicyDelete": generate.orphan_downstream,
        "useServerSideApply": spec.get("useServerSideApply") is True,
        "targets": [{key: target[key] for key in _TARGET if target.get(key)} for target in targets],
    }


def _cleanup_meta(rule: Rule, cleanup: Cleanup) -> dict[str, Any]:
    meta: dict[str, Any] = {"schedule": cleanup.schedule}
    if cleanup.propagation:
        meta["propagation"] = cleanup.propagation
    if cleanup.removals:
        meta["removals"] = [_removal(removal) for removal in cleanup.removals]
        meta["kinds"] = [_selector(k) for f in rule.match.filters for k in f.kinds]
    return meta


def _removal(removal: Removal) -> dict[str, Any]:
    meta: dict[str, Any] = {"kind": _selector(removal.kind)}
    if removal.names:
        meta["names"] = list(removal.names)
    if removal.namespaces:
        meta["namespaces"] = list(removal.namespaces)
    if removal.selector is not None:
        meta["selector"] = removal.selector
    return meta


def _selector(kind: str) -> list[str]:
    key = parse_kind(kind)
    return [key.group, key.version, key.kind, key.subresource] if key is not None else [kind] * 4


def _rule_meta(rule: Rule) -> dict[str, Any]:
    meta: dict[str, Any] = {"origin": rule.origin, "pointer": rule.pointer}
    if reads_namespace_labels(rule):
        meta["namespaceLabels"] = True
    if rule.validate is not None:
        if rule.validate.failure_action is not None:
            meta["failureAction"] = rule.validate.failure_action
        if rule.validate.overrides:
            meta["overrides"] = _overrides(rule.validate.overrides)
        # The reference asks of old violations for patterns and conditions alone, never for expressions.
        meta["allowExistingViolations"] = rule.validate.allow_existing and rule.validate.cel is None
        pod_security = rule.validate.pod_security
        if pod_security is not None:
            meta["podSecurity"] = {
                "level": pod_security.level,
                "version": pod_security.version,
                "exclude": [exclusion_json(e) for e in pod_security.exclude],
            }
        if rule.validate.cel is not None:
            meta["cel"] = True
        if rule.validate.cel is not None or pod_security is not None:
            meta["passed"] = f"Validation rule '{rule.name}' passed."
    params = _cel_params(rule)
    if params is not None and params.chosen:
        meta["params"] = _params(params)
    if not rule.skip_background_requests:
        meta["skipBackgroundRequests"] = False
    if rule.report_properties:
        meta["reportProperties"] = dict(rule.report_properties)
    return meta


def _on_policy_update(policy: Policy, rule: Rule) -> bool:
    """Whether a change of the policy sets the rule off for every object that it matches; a rule that does not say so
    follows its policy."""
    spec = policy.doc.value.get("spec")
    written = (rule.raw.get("mutate") or {}).get("mutateExistingOnPolicyUpdate")
    inherited = spec.get("mutateExistingOnPolicyUpdate") if type(spec) is dict else None
    return (inherited if written is None else written) is True


def _cel_params(rule: Rule) -> Params | None:
    validate, mutate = rule.validate, rule.mutate
    if validate is not None and validate.cel is not None:
        return validate.cel.params
    return mutate.cel.params if mutate is not None and mutate.cel is not None else None


def _params(params: Params) -> dict[str, Any]:
    meta: dict[str, Any] = {"apiVersion": params.api_version, "kind": params.kind}
    if params.name:
        meta["name"] = params.name
    if params.namespace:
        meta["namespace"] = params.namespace
    if params.selector is not None:
        meta["selector"] = params.selector
    if params.required:
        meta["required"] = True
    if params.listed:
        meta["listed"] = True
    return meta


def _policy_meta(policy: Policy) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "kind": policy.kind,
        "apiVersion": policy.api_version,
        "failureAction": policy.failure_action,
        "applyRules": policy.apply_rules,
        "failurePolicy": policy.failure_policy,
        "webhookTimeout": policy.webhook_timeout,
        "background": policy.background,
        "admission": policy.admission,
        "emitWarning": policy.emit_warning,
        "file": policy.doc.origin,
    }
    if policy.overrides:
        meta["overrides"] = _overrides(policy.overrides)
    if policy.annotations:
        meta["annotations"] = dict(policy.annotations)
    if policy.labels:
        meta["labels"] = dict(policy.labels)
    if policy.match_conditions:
        meta["matchConditions"] = [{"name": c.name, "expression": c.expression} for c in policy.match_conditions]
    return meta


def _overrides(overrides: Iterable[Override]) -> list[dict[str, Any]]:
    entries = []
    for override in overrides:
        entry: dict[str, Any] = {"action": override.action}
        if override.namespaces:
            entry["namespaces"] = list(override.namespaces)
        if override.namespace_selector is not None:
            entry["namespaceSelector"] = override.namespace_selector
        entries.append(entry)
    return entries
