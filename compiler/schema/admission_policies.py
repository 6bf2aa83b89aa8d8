"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy with their bindings, to the policy model; called by
``read_policies``.

A policy becomes one rule for each of its bindings, named like the policy; without a binding in sight it becomes one
that is bound to everything, as the command line of the reference has it (the API server lets an unbound policy rest).
Resource rules become kind selectors by what the schema table knows of resources. These policies are for offline use:
in a cluster the API server itself evaluates them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, TypeAlias

from compiler.diagnostics import Reporter
from compiler.frontends.cel.types import ListOf, MapOf, Object, Soft, Type
from compiler.schema.cel_rules import check_conditions
from compiler.schema.kinds import ResourceInfo, Schemas, provider
from compiler.schema.model import (
    Action,
    Cel,
    CelExpression,
    CelMutate,
    CelMutation,
    Filter,
    MatchBlock,
    Mutate,
    NamedExpression,
    Params,
    Policy,
    Rule,
    Validate,
)
from compiler.source import Document, type_name

Json: TypeAlias = Any

GROUP: Final = "admissionregistration.k8s.io"
POLICIES: Final = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
BINDINGS: Final = ("ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding")
VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
_PATCHES: Final = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
_FULL: Final = Soft(Object("", open=True))


def read_admission_policies(docs: Iterable[Document], reporter: Reporter) -> list[Policy]:
    """The policies among the documents, each with the bindings that name it; other documents are left alone.

    A binding whose policy is not among them is a warning (T1260): it does nothing.
    """
    docs = list(docs)
    bindings = [d for d in docs if d.value.get("kind") in BINDINGS and _sound(d, reporter)]
    policies = []
    used: set[int] = set()
    for doc in docs:
        kind = doc.value.get("kind")
        if kind not in POLICIES or not _sound(doc, reporter):
            continue
        name = doc.value["metadata"]["name"]
        own = [b for b in bindings if b.value["kind"] == f"{kind}Binding" and b.value["spec"].get("policyName") == name]
        used |= {id(b) for b in own}
        before = reporter.errors
        policy = _Reader(doc, own, reporter).policy()
        if reporter.errors == before:
            policies.append(policy)
    for binding in bindings:
        if id(binding) not in used:
            reporter.warning(
                "T1260",
                binding.spans.span("/spec/policyName"),
                f'no {binding.value["kind"].removesuffix("Binding")} "{binding.value["spec"].get("policyName")}" is given',
                "",
                "give the policy and its bindings together",
            )
    return policies


def _sound(doc: Document, reporter: Reporter) -> bool:
    """Structure as the API server's schema has it: names of fields and shapes of values."""
    before = reporter.errors
    kind, api_version = doc.value["kind"], doc.value.get("apiVersion")
    group, _, version = str(api_version).partition("/")
    if group != GROUP or version not in VERSIONS:
        expected = "one of " + ", ".join(f"{GROUP}/{v}" for v in VERSIONS)
        reporter.error("T0205", doc.spans.span("/apiVersion"), f'"{api_version}" is no version of {kind}', expected)
        return False
    # Versions differ in nothing that a policy says, so that the stored one stands for all.
    known = provider().kind(GROUP, "v1", kind)
    if known is not None:
        _check_shape(doc, doc.value, Soft(known), "", reporter)
    metadata, spec = doc.value.get("metadata"), doc.value.get("spec")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        reporter.error("T0203", doc.spans.key_span("/metadata"), f"a {kind} needs a name", "metadata: {name: …}")
    if not isinstance(spec, dict):
        reporter.error("T0203", doc.spans.span(""), f"a {kind} needs a spec", "spec: …")
    return reporter.errors == before


def _check_shape(doc: Document, value: Json, expected: Type, at: str, reporter: Reporter) -> None:
    schemas = provider()
    inner = expected.of if isinstance(expected, Soft) else expected
    if value is None:
        return
    match inner:
        case Object(name) if name:
            if not isinstance(value, dict):
                _wrong(doc, value, "a map", at, reporter)
                return
            fields = schemas.fields(name) or {}
            for key, part in value.items():
                if key in fields:
                    _check_shape(doc, part, fields[key], f"{at}/{_escaped(key)}", reporter)
                elif not inner.open:
                    from difflib import get_close_matches

                    close = get_close_matches(key, fields, 1)
                    mend = f'did you mean "{close[0]}"?' if close else ""
                    span = doc.spans.key_span(f"{at}/{_escaped(key)}")
                    reporter.error("T0201", span, f'unknown field "{key}"', ", ".join(sorted(fields)[:8]), mend)
        case ListOf(item):
            if not isinstance(value, list):
                _wrong(doc, value, "a list", at, reporter)
                return
            for i, part in enumerate(value):
                _check_shape(doc, part, item, f"{at}/{i}", reporter)
        case MapOf(_, item):
            if not isinstance(value, dict):
                _wrong(doc, value, "a map", at, reporter)
                return
            for key, part in value.items():
                _check_shape(doc, part, item, f"{at}/{_escaped(key)}", reporter)
        case _ if str(getattr(inner, "name", "")) in _SCALARS and type(value) not in _SCALARS[inner.name]:  # type: ignore[union-attr]
            _wrong(doc, value, _WORDS[inner.name], at, reporter)  # type: ignore[union-attr]


_SCALARS: Final[dict[str, tuple[type, ...]]] = {"string": (str,), "bool": (bool,), "int": (int,)}
_WORDS: Final = {"string": "a text", "bool": "a boolean", "int": "a number"}


def _wrong(doc: Document, value: Json, expected: str, at: str, reporter: Reporter) -> None:
    field = at.rpartition("/")[2]
    reporter.error("T0202", doc.spans.span(at), f"{field} must be {expected}, not {type_name(value)}", expected)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


class _Reader:
    """One policy with its bindings."""

    def __init__(self, doc: Document, bindings: Sequence[Document], reporter: Reporter) -> None:
        self.doc = doc
        self.bindings = bindings
        self.reporter = reporter
        self.spec: dict[str, Json] = doc.value["spec"]
        self.kind: str = doc.value["kind"]

    def policy(self) -> Policy:
        metadata = self.doc.value["metadata"]
        name = metadata["name"]
        conditions = self.spec.get("matchConditions") or []
        check_conditions(self.doc, conditions, "/spec/matchConditions", self.reporter, qualified=True)
        constraints = self.spec.get("matchConstraints") or {}
        match, exclude = self.matched(self.doc, constraints, "/spec/matchConstraints")
        if not constraints.get("resourceRules"):
            self.reporter.error(
                "T0203",
                self.doc.spans.key_span("/spec/matchConstraints"),
                f"a {self.kind} needs resource rules",
                "matchConstraints: {resourceRules: […]}",
            )
        rules = [self.rule(i, name, match, exclude, binding) for i, binding in enumerate(self.bindings or [None])]
        actions = {rule.validate.failure_action for rule in rules if rule.validate is not None}
        return Policy(
            kind="ValidatingAdmissionPolicy" if self.kind == POLICIES[0] else "MutatingAdmissionPolicy",
            api_version=self.doc.value["apiVersion"],
            name=name,
            namespace="",
            labels=dict(metadata.get("labels") or {}),
            annotations=dict(metadata.get("annotations") or {}),
            failure_action="Audit" if actions == {"Audit"} else "Enforce",
            overrides=(),
            apply_rules="All",
            background=True,
            admission=False,
            failure_policy="Ignore" if self.spec.get("failurePolicy") == "Ignore" else "Fail",
            webhook_timeout=10,
            emit_warning=False,
            rules=tuple(rules),
            doc=self.doc,
        )

    def rule(
        self, index: int, name: str, match: MatchBlock, exclude: MatchBlock | None, binding: Document | None
    ) -> Rule:
        bound: MatchBlock | None = None
        released: MatchBlock | None = None
        spec: dict[str, Json] = binding.value["spec"] if binding is not None else {}
        if binding is not None and spec.get("matchResources"):
            bound, released = self.matched(binding, spec["matchResources"], "/spec/matchResources")
        params = self.params(spec.get("paramRef"))
        validate = mutate = None
        if self.kind == POLICIES[0]:
            actions = spec.get("validationActions") or ["Deny"]
            action: Action = "Enforce" if "Deny" in actions else "Audit"
            validate = Validate(cel=self.cel(params), failure_action=action)
        else:
            mutate = Mutate(cel=self.mutations(params))
        return Rule(
            name=name,
            index=index,
            pointer="/spec",
            raw=self.spec,
            origin="policy",
            match=match,
            exclude=exclude,
            bound=bound,
            released=released,
            cel_preconditions=self.named("matchConditions"),
            validate=validate,
            mutate=mutate,
        )

    def params(self, ref: dict[str, Json] | None) -> Params | None:
        kind = self.spec.get("paramKind")
        if not kind or not ref:
            return None
        return Params(
            api_version=kind.get("apiVersion") or "",
            kind=kind.get("kind") or "",
            name=ref.get("name") or "",
            namespace=ref.get("namespace") or "",
            selector=ref.get("selector"),
            required=ref.get("parameterNotFoundAction") != "Allow",
        )

    def cel(self, params: Params | None) -> Cel:
        entries = self.spec.get("validations") or []
        return Cel(
            expressions=tuple(
                CelExpression(
                    e.get("expression") or "", e.get("message"), e.get("messageExpression"), f"/spec/validations/{i}"
                )
                for i, e in enumerate(entries)
            ),
            variables=self.named("variables"),
            params=params,
            audit_annotations=self.named("auditAnnotations", "key", "valueExpression"),
        )

    def mutations(self, params: Params | None) -> CelMutate:
        found = []
        for i, entry in enumerate(self.spec.get("mutations") or ()):
            at = f"/spec/mutations/{i}"
            patch_type = entry.get("patchType")
            field = _PATCHES.get(patch_type)
            body = entry.get(field) if field is not None else None
            if field is None:
                self.reporter.error(
                    "T0204",
                    self.doc.spans.span(f"{at}/patchType"),
                    f'"{patch_type}" is no patch type',
                    " or ".join(_PATCHES),
                )
            elif not isinstance(body, dict) or not isinstance(body.get("expression"), str):
                span = self.doc.spans.span(at)
                self.reporter.error("T0203", span, f"the mutation has no {field}", f"{field}: {{expression: …}}")
            else:
                chosen: Literal["ApplyConfiguration", "JSONPatch"] = patch_type
                found.append(CelMutation(chosen, body["expression"], f"{at}/{field}/expression"))
        return CelMutate(tuple(found), self.named("variables"), params)

    def named(self, field: str, name: str = "name", expression: str = "expression") -> tuple[NamedExpression, ...]:
        return tuple(
            NamedExpression(e.get(name) or "", e.get(expression) or "", f"/spec/{field}/{i}/{expression}")
            for i, e in enumerate(self.spec.get(field) or ())
        )

    # match constraints

    def matched(self, doc: Document, block: dict[str, Json], at: str) -> tuple[MatchBlock, MatchBlock | None]:
        """What ``matchConstraints`` or ``matchResources`` match, and what their exclude rules take out again."""
        common = {
            "selector": block.get("objectSelector"),
            "namespace_selector": block.get("namespaceSelector"),
        }
        rules = block.get("resourceRules")
        filters = [self.filter(doc, r, f"{at}/resourceRules/{i}", common) for i, r in enumerate(rules or ())]
        if not rules:
            filters = [
                Filter(kinds=("*",), selector=common["selector"], namespace_selector=common["namespace_selector"])
            ]
        exclude = block.get("excludeResourceRules") or ()
        out = [self.filter(doc, r, f"{at}/excludeResourceRules/{i}", {}) for i, r in enumerate(exclude)]
        return MatchBlock("any", tuple(filters)), MatchBlock("any", tuple(out)) if out else None

    def filter(self, doc: Document, rule: dict[str, Json], at: str, common: dict[str, Json]) -> Filter:
        kinds: list[str] = []
        for i, resource in enumerate(rule.get("resources") or ()):
            found = _selectors(rule.get("apiGroups") or [], rule.get("apiVersions") or [], resource, rule.get("scope"))
            if not found:
                self.reporter.error(
                    "T1261",
                    doc.spans.span(f"{at}/resources/{i}"),
                    f'no resource "{resource}" is known in these groups and versions',
                    "the plural name of a built-in resource",
                    "resources of custom kinds are known when their CustomResourceDefinition is given",
                )
            kinds += found
        operations = [o for o in rule.get("operations") or () if o != "*"]
        return Filter(
            kinds=tuple(dict.fromkeys(kinds)),
            names=tuple(rule.get("resourceNames") or ()),
            operations=tuple(operations) if "*" not in (rule.get("operations") or ()) else (),
            selector=common.get("selector"),
            namespace_selector=common.get("namespace_selector"),
            pointer=at,
        )


def _selectors(groups: list[str], versions: list[str], resource: str, scope: str | None) -> list[str]:
    """The kind selectors of the resources that a rule's groups, versions and resource (``pods``, ``pods/status``,
    ``*``, ``*/scale``) name."""
    plural, _, sub = resource.partition("/")
    if groups == ["*"] and versions == ["*"] and plural == "*" and scope in (None, "*"):
        return ["*"] if not sub else [f"*/{sub}"]
    found = []
    for info in _resources(provider(), scope):
        if not (
            any(g in ("*", info.group) for g in groups)
            and any(v in ("*", info.version) for v in versions)
            and plural in ("*", info.plural)
        ):
            continue
        base = f"{info.group}/{info.version}/{info.kind}" if info.group else f"{info.version}/{info.kind}"
        if not sub:
            found.append(base)
        else:
            found += [f"{base}/{name}" for name in info.subresources if fnmatchcase(name, sub)]
    return found


def _resources(schemas: Schemas, scope: str | None) -> list[ResourceInfo]:
    wanted = {"Namespaced": True, "Cluster": False}.get(scope or "*")
    return [r for r in schemas.resources() if wanted is None or r.namespaced is wanted]
