"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy with their bindings, to the policy model; called by
``read_policies``.

A policy becomes one rule for each of its bindings, named like the policy; without a binding in sight it becomes one
that is bound to everything, as the command line of the reference has it (the API server lets an unbound policy rest).
Resource rules become kind selectors by what the schema table knows of resources. These policies are for offline use:
in a cluster the API server itself evaluates them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeAlias

from compiler.diagnostics import Reporter
from compiler.frontends.cel.types import ListOf, MapOf, Object, Soft, Type
from compiler.schema.cel_rules import check_annotations, check_conditions, check_variables
from compiler.schema.kinds import Schemas, provider
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
    ResourceRule,
    Rule,
    Validate,
)
from compiler.source import Document, pointer, type_name

Json: TypeAlias = Any

GROUP: Final = "admissionregistration.k8s.io"
POLICIES: Final = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
BINDINGS: Final = ("ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding")
VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
_PATCHES: Final = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final[dict[str, Literal["", "Namespaced", "Cluster"]]] = {"Namespaced": "Namespaced", "Cluster": "Cluster"}
_OPTIONAL: Final = ("validationActions",)
"""Fields that the schema of a binding wants and that nobody needs without an API server; the reference does without."""
_LISTED: Final = re.compile(r"\bparams\s*\.\s*\??\s*items\b")


def read_admission_policies(
    docs: Iterable[Document], reporter: Reporter, schemas: Schemas | None = None
) -> list[Policy]:
    """The policies among the documents, each with the bindings that name it; other documents are left alone.

    ``schemas`` are the kinds that are known (the built-in ones). A binding whose policy is not among the documents is a
    warning (T1260): it does nothing.
    """
    docs = list(docs)
    known = schemas if schemas is not None else provider()
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
        policy = _Reader(doc, own, reporter, known).policy()
        if reporter.errors == before:
            policies.append(policy)
    for binding in bindings:
        if id(binding) not in used:
            reporter.warning(
                "T1260",
                binding.spans.span("/spec/policyName"),
                f'no {binding.value["kind"][:-7]} "{binding.value["spec"].get("policyName")}" is given',
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
    if reporter.errors != before:
        return False
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
                    _check_shape(doc, part, fields[key], f"{at}{pointer(key)}", reporter)
                elif not inner.open:
                    close = get_close_matches(key, fields, 1)
                    mend = f'did you mean "{close[0]}"?' if close else ""
                    span = doc.spans.key_span(f"{at}{pointer(key)}")
                    reporter.error("T0201", span, f'unknown field "{key}"', ", ".join(sorted(fields)[:8]), mend)
                allowed = schemas.enum(name, key)
                if allowed is not None and type(part) is str and part not in allowed:
                    reporter.error(
                        "T0204", doc.spans.span(f"{at}{pointer(key)}"), f'"{part}" is no {key}', " or ".join(allowed)
                    )
            for key in sorted(schemas.required(name) - {k for k, v in value.items() if v is not None}):
                if key not in _OPTIONAL:
                    span = doc.spans.key_span(at) if at else doc.spans.span("")
                    reporter.error("T0203", span, f"{_entry_name(at)} has no {key}", f"{key}: …")
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
                _check_shape(doc, part, item, f"{at}{pointer(key)}", reporter)
        case _ if str(getattr(inner, "name", "")) in _SCALARS and type(value) not in _SCALARS[inner.name]:  # type: ignore[union-attr]
            _wrong(doc, value, _WORDS[inner.name], at, reporter)  # type: ignore[union-attr]


_SCALARS: Final[dict[str, tuple[type, ...]]] = {"string": (str,), "bool": (bool,), "int": (int,)}
_WORDS: Final = {"string": "a text", "bool": "a boolean", "int": "a number"}


def _wrong(doc: Document, value: Json, expected: str, at: str, reporter: Reporter) -> None:
    field = at.rpartition("/")[2]
    reporter.error("T0202", doc.spans.span(at), f"{field} must be {expected}, not {type_name(value)}", expected)


def _entry_name(at: str) -> str:
    """How an object at a place is called: ``validations[0]``, ``spec``."""
    parent, _, last = at.rpartition("/")
    return f"{parent.rpartition('/')[2]}[{last}]" if last.isdecimal() else last or "the document"


class _Reader:
    """One policy with its bindings."""

    def __init__(self, doc: Document, bindings: Sequence[Document], reporter: Reporter, schemas: Schemas) -> None:
        self.doc = doc
        self.schemas = schemas
        self.bindings = bindings
        self.reporter = reporter
        self.spec: dict[str, Json] = doc.value["spec"]
        self.kind: str = doc.value["kind"]

    def policy(self) -> Policy:
        metadata = self.doc.value["metadata"]
        name = metadata["name"]
        conditions = self.spec.get("matchConditions") or []
        check_conditions(self.doc, conditions, "/spec/matchConditions", self.reporter, qualified=True)
        check_variables(self.doc, self.spec.get("variables") or [], "/spec/variables", self.reporter)
        check_annotations(self.doc, self.spec.get("auditAnnotations") or [], "/spec/auditAnnotations", self.reporter)
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
            validate = Validate(cel=self.cel(params), failure_action=action, allow_existing=False)
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
        if not kind:
            return None
        ref = ref or {}
        listed = ref.get("selector") is not None and self.lists_params()
        if listed:
            self.reporter.note(
                "T1262",
                self.doc.spans.key_span("/spec/paramKind"),
                "params.items is read as the list of all parameters that the selector of the binding chooses",
                "",
                "the API server evaluates the policy once for each parameter, and there params has no items",
            )
        return Params(
            api_version=kind.get("apiVersion") or "",
            kind=kind.get("kind") or "",
            name=ref.get("name") or "",
            namespace=ref.get("namespace") or "",
            selector=ref.get("selector"),
            required=bool(ref) and ref.get("parameterNotFoundAction") != "Allow",
            listed=listed,
        )

    def lists_params(self) -> bool:
        """Whether some expression reads ``params.items``."""
        entries = [*(self.spec.get("variables") or ()), *(self.spec.get("matchConditions") or ())]
        for mutation in self.spec.get("mutations") or ():
            entries += [mutation.get(field) or {} for field in _PATCHES.values()]
        return any(_LISTED.search(str(entry.get("expression") or "")) for entry in entries)

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
        equivalent = block.get("matchPolicy") != "Exact"
        selectors: dict[str, Json] = {
            "selector": block.get("objectSelector") or None,
            "namespace_selector": block.get("namespaceSelector") or None,
        }
        filters: list[Filter] = []
        for i, rule in enumerate(block.get("resourceRules") or ()):
            filters += self.filters(doc, rule, f"{at}/resourceRules/{i}", selectors, equivalent)
        if not block.get("resourceRules"):
            filters = [Filter(resource_rule=ResourceRule(), **selectors)]
        out: list[Filter] = []
        for i, rule in enumerate(block.get("excludeResourceRules") or ()):
            out += self.filters(doc, rule, f"{at}/excludeResourceRules/{i}", {}, equivalent)
        if any(kind.rpartition("/")[2].startswith("*") for f in filters for kind in f.kinds):
            # The API server asks no policy about policies and bindings of these kinds.
            out.append(Filter(kinds=tuple(f"{GROUP}/*/{kind}" for kind in (*POLICIES, *BINDINGS))))
        return MatchBlock("any", tuple(filters)), MatchBlock("any", tuple(out)) if out else None

    def filters(
        self, doc: Document, rule: dict[str, Json], at: str, selectors: dict[str, Json], equivalent: bool
    ) -> list[Filter]:
        """A resource rule as filters: one for the resources whose kind is known, one for the others."""
        groups, versions = rule.get("apiGroups") or [], rule.get("apiVersions") or []
        operations: list[str] = rule.get("operations") or []
        for i, operation in enumerate(operations):
            if operation not in _OPERATIONS:
                span = doc.spans.span(f"{at}/operations/{i}")
                self.reporter.error("T0204", span, f'"{operation}" is no operation', " or ".join(_OPERATIONS))
        kinds: list[str] = []
        own: list[str] = []
        unknown: list[str] = []
        guessed: list[str] = []
        for i, resource in enumerate(rule.get("resources") or ()):
            found, places = self.kinds(groups, versions, resource, equivalent)
            kinds += found
            own += places
            if not found:
                plural, _, sub = resource.partition("/")
                unknown.append(plural)
                guessed += _places(groups, versions, f"*/{sub}" if sub else "*")
                self.unknown(doc, groups, resource, f"{at}/resources/{i}")
        common: dict[str, Json] = {
            "names": tuple(rule.get("resourceNames") or ()),
            "operations": () if "*" in operations else tuple(operations),
            "pointer": at,
            **selectors,
        }
        scope = _SCOPES.get(rule.get("scope") or "*", "")
        made = []
        if kinds:
            exact = () if "*" in own else tuple(dict.fromkeys(own))
            made.append(
                Filter(kinds=tuple(dict.fromkeys(kinds)), resource_rule=ResourceRule(exact, (), scope), **common)
            )
        if unknown:
            guess = ResourceRule(() if "*" in groups else tuple(groups), tuple(unknown), scope)
            made.append(Filter(kinds=tuple(dict.fromkeys(guessed)), resource_rule=guess, **common))
        return made

    def kinds(
        self, groups: list[str], versions: list[str], resource: str, equivalent: bool
    ) -> tuple[list[str], list[str]]:
        """The kind selectors of what a resource (``pods``, ``pods/status``, ``pods/*``, ``*``, ``*/scale``) names in
        groups and versions, and the groups of these kinds, letter by letter.

        ``equivalent``: a resource in another version than those is the same one.
        """
        plural, _, sub = resource.partition("/")
        if plural == "*":
            both = ["*", "*/*"] if sub == "*" else [f"*/{sub}" if sub else "*"]
            return [place for kind in both for place in _places(groups, versions, kind)], groups
        named = [i for i in self.schemas.resources() if i.plural == plural and any(g in ("*", i.group) for g in groups)]
        exact = [i for i in named if any(v in ("*", i.version) for v in versions)]
        found = []
        for info in named if exact and equivalent else exact:
            base = f"{info.group or '*'}/{info.version}/{info.kind}"
            if sub in ("", "*"):
                found.append(base)
            if sub:
                found += [f"{base}/{name}" for name in info.subresources if sub in ("*", name)]
        return found, [info.group for info in exact]

    def unknown(self, doc: Document, groups: list[str], resource: str, at: str) -> None:
        plural = resource.partition("/")[0]
        known = {i.plural for i in self.schemas.resources() if any(g in ("*", i.group) for g in groups)}
        close = get_close_matches(plural, sorted(known), 1, 0.8)
        self.reporter.warning(
            "T1261",
            doc.spans.span(at),
            f'no resource "{resource}" is known in these groups and versions',
            "the plural name of a resource",
            f'did you mean "{close[0]}"?'
            if close
            else "it stands for kinds that usually have this plural; a CustomResourceDefinition would tell",
        )


def _places(groups: list[str], versions: list[str], kind: str) -> list[str]:
    """Selectors of kinds in each of the groups and versions; the empty group is told apart by the resource rule."""
    return [f"{group or '*'}/{version}/{kind}" for group in groups for version in versions]
