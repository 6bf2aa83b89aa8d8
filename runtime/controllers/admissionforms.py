"""A ValidatingAdmissionPolicy and its binding from a ClusterPolicy with ``validate.cel``, where they say the same
(semantics §21): the API server then judges by itself, with no call to anybody.

Pure: ``runtime.controllers.admissionpolicies`` calls :func:`translate` and writes what comes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from runtime.k8s.client import Object
from runtime.k8s.discovery import Discovery
from vm.intrinsics.wildcard import contains_wildcard

if TYPE_CHECKING:
    from compiler.schema.model import Filter, MatchBlock, Policy, Rule

MANAGED: Final = {"app.kubernetes.io/managed-by": "kyverno"}
API_VERSION: Final = "admissionregistration.k8s.io/v1"
UNREPORTED: Final = "reports.kyverno.io/disabled"

OPERATIONS: Final = ("CREATE", "UPDATE", "CONNECT", "DELETE")
"""Kyverno's order, which is also that of a filter without any."""

_SKIP: Final = "skip generating ValidatingAdmissionPolicy: "
"""Kyverno's own words, which tools look for."""

Side = Literal["match", "exclude"]


class Ineligible(Exception):
    """The two would not say the same; the text is why."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{_SKIP}{why}")


@dataclass(frozen=True, slots=True)
class Freed:
    """An exception for the rule: what it matches. ``everywhere``: for objects of all namespaces."""

    match: MatchBlock
    everywhere: bool
    conditions: bool = False
    several: bool = False


@dataclass(slots=True)
class _Rules:
    """Resource rules of one side, joined where only the resources differ, and what no resource rule can say."""

    rows: dict[tuple[str, str, tuple[str, ...], tuple[str, ...]], set[str]] = field(default_factory=dict)
    conditions: list[str] = field(default_factory=list)

    def add(self, group: str, version: str, operations: tuple[str, ...], names: tuple[str, ...], resource: str) -> None:
        self.rows.setdefault((group, version, operations, names), set()).add(resource)

    def objects(self) -> list[Object]:
        found = []
        for (group, version, operations, names), resources in self.rows.items():
            row: Object = {"apiGroups": [group], "apiVersions": [version], "operations": list(operations)}
            if names:
                row["resourceNames"] = list(names)
            found.append({**row, "resources": sorted(resources), "scope": "*"})
        return found


def policy_name(policy: str) -> str:
    """What the ValidatingAdmissionPolicy of a ClusterPolicy is called."""
    return f"cpol-{policy}"


def binding_name(policy: str) -> str:
    return f"cpol-{policy}-binding"


def asks(policy: Policy) -> bool:
    """Whether a policy is one of which the API server's own may be made: a ClusterPolicy with a CEL rule."""
    return policy.kind == "ClusterPolicy" and any(_cel(rule) for rule in policy.rules)


def translate(
    obj: Mapping[str, Any], policy: Policy, exceptions: Sequence[Freed], discovery: Discovery, *, ignore: bool = False
) -> tuple[Object, Object]:
    """The policy and the binding, with every default of the API server written out. ``obj`` is the ClusterPolicy as it
    is stored, ``policy`` its model; ``ignore``: no failure of ours may refuse a request. Raises :class:`Ineligible`."""
    rule = _only_rule(policy)
    action = _action(policy, rule)
    matched, released = _Rules(), _Rules()
    constraints: Object = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
    _check_block(rule.match, "match")
    _selectors(rule.match, constraints)
    for f in rule.match.filters:
        _add(f, "match", matched, discovery)
    if not matched.rows:
        raise Ineligible("the cluster serves none of the kinds.")
    if rule.exclude is not None:
        _check_block(rule.exclude, "exclude")
        for f in rule.exclude.filters:
            _add(f, "exclude", released, discovery)
    for exception in exceptions:
        _check_exception(exception)
        for f in exception.match.filters:
            _add(f, "exclude", released, discovery)
    constraints["resourceRules"] = matched.objects()
    if released.rows:
        constraints["excludeResourceRules"] = released.objects()
    written = obj["spec"]["rules"][0]
    cel = (written.get("validate") or written.get("validation"))["cel"]
    failure = "Ignore" if ignore else policy.failure_policy
    spec: Object = {"failurePolicy": failure, "matchConstraints": constraints}
    conditions = _conditions(policy, rule, released.conditions)
    if conditions:
        spec["matchConditions"] = conditions
    if cel.get("paramKind"):
        spec["paramKind"] = dict(cel["paramKind"])
    if cel.get("variables"):
        spec["variables"] = [dict(v) for v in cel["variables"]]
    if cel.get("auditAnnotations"):
        spec["auditAnnotations"] = [dict(a) for a in cel["auditAnnotations"]]
    spec["validations"] = [_validation(e, rule) for e in cel["expressions"]]
    metadata = _metadata(obj, policy_name(policy.name))
    if UNREPORTED in policy.labels:
        metadata["labels"] = {**metadata["labels"], UNREPORTED: "true"}
    made = {"apiVersion": API_VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec}
    bound: Object = {"policyName": policy_name(policy.name)}
    bound["validationActions"] = ["Deny"] if action == "Enforce" else ["Audit", "Warn"]
    if cel.get("paramRef"):
        bound["paramRef"] = {"parameterNotFoundAction": "Allow", **cel["paramRef"]}
    binding = {
        "apiVersion": API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": _metadata(obj, binding_name(policy.name)),
        "spec": bound,
    }
    return made, binding


def _metadata(obj: Mapping[str, Any], name: str) -> Object:
    metadata = obj["metadata"]
    owner = {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
    }
    return {"name": name, "labels": dict(MANAGED), "ownerReferences": [owner]}


def _cel(rule: Rule) -> bool:
    return rule.validate is not None and rule.validate.cel is not None


def _only_rule(policy: Policy) -> Rule:
    if not policy.admission:
        raise Ineligible("the policy takes no part in admission.")
    if len(policy.rules) != 1:
        raise Ineligible("multiple rules are not applicable.")
    (rule,) = policy.rules
    if not _cel(rule):
        raise Ineligible("a rule without validate.cel is not applicable.")
    if not ((rule.raw.get("validate") or {}).get("cel") or {}).get("generate"):
        raise Ineligible("validate.cel.generate is not set to true.")
    if rule.preconditions is not None or rule.context:
        raise Ineligible("preconditions and context of a rule are not applicable.")
    return rule


def _action(policy: Policy, rule: Rule) -> str:
    assert rule.validate is not None
    for overrides in (rule.validate.overrides, policy.overrides):
        if len(overrides) > 1:
            raise Ineligible("multiple validationFailureActionOverrides are not applicable.")
        for override in overrides:
            if override.namespaces or override.namespace_selector is not None:
                raise Ineligible("Namespaces in validationFailureActionOverrides is not applicable.")
    # As in admission: what an override says goes before what it overrides, and the rule before the policy.
    for override in rule.validate.overrides:
        return override.action
    if rule.validate.failure_action is not None:
        return rule.validate.failure_action
    for override in policy.overrides:
        return override.action
    return policy.failure_action


def _check_block(block: MatchBlock, side: Side) -> None:
    if block.mode == "all" and len(block.filters) > 1:
        raise Ineligible(f"multiple 'all' in the {side} block is not applicable.")
    for f in block.filters:
        _check_filter(f, side)
    if side == "match" and len(block.filters) > 1:
        limited = any(f.selector is not None or f.namespace_selector is not None for f in block.filters)
        if limited or len({f.namespaces for f in block.filters}) > 1:
            raise Ineligible(
                "namespaces and selectors across multiple resources in the match block are not applicable."
            )


def _check_filter(f: Filter, side: Side) -> None:
    if f.has_user_info:
        raise Ineligible("Roles / ClusterRoles / Subjects in any/all is not applicable.")
    if f.annotations:
        raise Ineligible("Annotations in resource description is not applicable.")
    if f.labels or f.exclude_resources is not None:
        raise Ineligible("labels and excludeResources are not applicable.")
    if any(map(contains_wildcard, (*f.names, *f.namespaces))):
        raise Ineligible("wildcards in names are not applicable.")
    if side == "exclude":
        if f.kinds and f.namespaces:
            raise Ineligible("excluding a resource within a namespace is not applicable.")
        if f.selector is not None or f.namespace_selector is not None:
            raise Ineligible("NamespaceSelector / ObjectSelector in the exclude block is not applicable.")
        if f.names and not f.kinds:
            raise Ineligible("excluding names of any kind is not applicable.")
    for selector in (f.selector, f.namespace_selector):
        texts = _texts((selector or {}).get("matchLabels")), _texts((selector or {}).get("matchExpressions"))
        if any(contains_wildcard(text) for found in texts for text in found):
            raise Ineligible("wildcards in selectors are not applicable.")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for pair in value.items() for part in pair for text in _texts(part))
    elif isinstance(value, list):
        yield from (text for item in value for text in _texts(item))


def _check_exception(exception: Freed) -> None:
    if not exception.everywhere:
        raise Ineligible("a PolicyException that counts for its own namespace alone is not applicable.")
    if exception.conditions:
        raise Ineligible("Conditions in PolicyException is not applicable.")
    if exception.several:
        raise Ineligible("multiple ruleNames in PolicyException is not applicable.")
    _check_block(exception.match, "exclude")


def _selectors(block: MatchBlock, constraints: Object) -> None:
    """The selectors of the match, which hold for all of it; the namespaces that filters name are one more."""
    (f, *_) = block.filters
    if f.selector is not None:
        constraints["objectSelector"] = dict(f.selector)
    selector = dict(f.namespace_selector or {})
    if f.namespaces:
        name = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(f.namespaces)}
        selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), name]
    constraints["namespaceSelector"] = selector


def _add(f: Filter, side: Side, rules: _Rules, discovery: Discovery) -> None:
    operations = tuple(o for o in OPERATIONS if o in f.operations) or OPERATIONS
    for kind in f.kinds:
        for group, version, resource in _resources(kind, discovery):
            rules.add(group, version, operations, f.names, resource)
    if f.kinds or side == "match":
        return
    terms = []
    if f.operations:
        terms.append(f"request.operation in {_list(operations)}")
    if f.namespaces:
        # Kyverno quirk: it names the Namespaces themselves, which leaves the objects in them to the policy. Here both
        # are let go, those by the rule and these by the condition.
        rules.add("", "v1", operations, f.namespaces, "namespaces")
        terms.append(f"request.namespace in {_list(f.namespaces)}")
    if terms:
        rules.conditions.append(f"!({' && '.join(terms)})")


def _list(texts: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{text}'" for text in texts) + "]"


def _resources(kind: str, discovery: Discovery) -> Iterator[tuple[str, str, str]]:
    from compiler.frontends.pattern import parse_kind

    key = parse_kind(kind)
    if key is None:
        return
    if key.kind == "*":
        yield key.group, key.version, f"*/{key.subresource}" if key.subresource else "*"
        return
    for entry in discovery.find(key.group, key.version, key.kind, key.subresource):
        yield entry.resource.group, entry.resource.version, entry.rule_name
        if entry.resource.group == "" and entry.rule_name == "pods":
            yield "", entry.resource.version, "pods/ephemeralcontainers"


def _conditions(policy: Policy, rule: Rule, released: Sequence[str]) -> list[Object]:
    named = [{"name": c.name, "expression": c.expression} for c in (*rule.cel_preconditions, *policy.match_conditions)]
    named += ({"name": f"not-excluded-{n}", "expression": text} for n, text in enumerate(released))
    if len({c["name"] for c in named}) != len(named):
        raise Ineligible("conditions of one name are not applicable.")
    return named


def _validation(written: Mapping[str, Any], rule: Rule) -> Object:
    made = {key: written[key] for key in ("expression", "message", "messageExpression", "reason") if written.get(key)}
    assert rule.validate is not None
    message = (rule.validate.message or "").strip()
    if "{{" in message or "{{" in made.get("message", ""):
        raise Ineligible("variables in messages are not applicable.")
    if "message" not in made and "messageExpression" not in made and message and "\n" not in message:
        made["message"] = message
    return made
