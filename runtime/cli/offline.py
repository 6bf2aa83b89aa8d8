"""Compiles policies and evaluates resources without a cluster: the common half of ``apply`` and ``test``.

It runs the same bundle on the same VM as the webhook. Policies are compiled one by one (those of the API server with
their bindings), so that a refused one is known by name and leaves the others standing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from runtime.cli import kept
from runtime.cli.files import PolicyFile, identity
from runtime.cli.problem import Problem
from runtime.cli.values import NO_VALUES, Values, operation_of
from runtime.context.outside import CONTEXT_CALLS, Outside, element_value
from runtime.context.tenancy import asker
from runtime.engine import Engine, RuleResult
from runtime.host import AUTHORIZE, SOURCES, TARGETS
from runtime.host import KEY as HOST
from runtime.params import CALL as PARAMS
from runtime.params import Query, chosen, query_of
from runtime.policyset import PolicyInfo, PolicySet, Tier
from runtime.request import Request, RequestError, UserInfo, base_rule, split_api_version
from vm.code import BACKGROUND_KINDS
from vm.host import HostCall
from vm.values import MISSING, Err, Value

if TYPE_CHECKING:
    from compiler import Options
    from compiler.diagnostics import Diagnostic
    from compiler.source import Document


@dataclass(frozen=True, slots=True)
class Refused:
    """A policy that does not compile: its kind, its name (``namespace/name`` for a namespaced one) and why."""

    kind: str
    name: str
    diagnostics: tuple[Diagnostic, ...]

    @property
    def reason(self) -> str:
        first = next((d for d in self.diagnostics if d.severity == "error"), None)
        return first.message if first else "it does not compile"


@dataclass(frozen=True, slots=True)
class Policies:
    """What a command runs: the loaded set, and what was refused or remarked on the way."""

    loaded: PolicySet
    refused: tuple[Refused, ...]
    diagnostics: tuple[Diagnostic, ...]
    exceptions: int = 0
    entries: tuple[dict[str, Any], ...] = ()
    """The entries of the global context that stand among the policies."""

    @property
    def names(self) -> frozenset[str]:
        """Every name by which a loaded policy may be called."""
        return frozenset(n for p in self.loaded.policies for n in (p.name, p.key))


@dataclass(frozen=True, slots=True)
class Answer:
    """What one policy said of one resource under one operation. ``patched`` is the resource as this policy left it,
    ``made`` are the objects that its rules make because of it, by rule, ``removed`` says that the resource goes."""

    policy: PolicyInfo
    resource: dict[str, Any]
    operation: str
    mutation: bool
    results: tuple[RuleResult, ...]
    patched: Any = field(repr=False)
    made: Mapping[str, tuple[Any, ...]] = field(default_factory=dict, repr=False)
    removed: bool = False


class Backend(Protocol):
    """What compiles and evaluates: the VM, or (in tests) an evaluator to compare it with."""

    def load(self, files: Iterable[PolicyFile], exceptions: Iterable[Document]) -> Policies: ...

    def evaluate(
        self,
        policies: Policies,
        resource: dict[str, Any],
        values: Values,
        user: UserInfo | None,
        operation: str | None,
    ) -> list[Answer]: ...


@dataclass(frozen=True, slots=True)
class Machine:
    """The backend that everything but tests uses: compiled policies on the VM."""

    tier: Tier = "2"
    level: int = 2
    cel_strict: bool = False
    quirks: str = ""
    crds: tuple[dict[str, Any], ...] = ()

    def load(self, files: Iterable[PolicyFile], exceptions: Iterable[Document]) -> Policies:
        return load_policies(
            files,
            exceptions=exceptions,
            tier=self.tier,
            level=self.level,
            cel_strict=self.cel_strict,
            quirks=self.quirks,
            crds=self.crds,
        )

    def evaluate(
        self,
        policies: Policies,
        resource: dict[str, Any],
        values: Values,
        user: UserInfo | None,
        operation: str | None,
    ) -> list[Answer]:
        return evaluate(policies.loaded, resource, values=values, user=user, operation=operation)


MACHINE: Final = Machine()

_bundles: dict[str, tuple[bytes | None, tuple[Any, ...]]] = {}
"""Compiled documents by :func:`kept.key_of`: a test suite names one file many times."""

GLOBAL_KIND: Final = "GlobalContextEntry"
BINDINGS: Final = ("ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding")


def compile_documents(
    documents: Sequence[Document], options: Options, fingerprint: str
) -> tuple[bytes | None, tuple[Diagnostic, ...]]:
    """The bundle of documents that belong together (None when it is refused) and its diagnostics; kept for the life of
    the process, and for those after it where it is not refused. ``fingerprint`` is that of the options, which costs a
    digest of the CRDs."""
    key = kept.key_of(fingerprint, *(part for d in documents for part in (d.origin, str(d.index), d.text)))
    known = _bundles.get(key) or kept.get(key)
    if known is None:
        from compiler import compile_policies

        result = compile_policies(documents, options=options)
        known = (result.bundle, tuple(result.diagnostics))
        if result.bundle is not None:
            kept.put(key, result.bundle, known[1])
    _bundles[key] = known
    return known


def grouped(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents one by one, but an admission policy of the API server with its bindings, whatever files they are in."""
    documents = list(documents)
    bindings: dict[tuple[str, str], list[Document]] = {}
    for document in documents:
        if document.value.get("kind") in BINDINGS:
            bindings.setdefault(_bound(document), []).append(document)
    used: set[int] = set()
    groups: list[list[Document]] = []
    for document in documents:
        kind, name = document.value.get("kind"), identity(document.value)[3]
        own = bindings.get((f"{kind}Binding", name), []) if f"{kind}Binding" in BINDINGS else []
        used |= {id(binding) for binding in own}
        groups.append([document, *own])
    yield from (group for group in groups if id(group[0]) not in used)


def _bound(binding: Document) -> tuple[str, str]:
    """The kind of a binding, and the name of the policy that it binds."""
    spec = binding.value.get("spec")
    return binding.value["kind"], str(spec.get("policyName")) if type(spec) is dict else ""


def load_policies(
    files: Iterable[PolicyFile],
    *,
    bundles: Sequence[bytes] = (),
    exceptions: Iterable[Document] = (),
    tier: Tier = "2",
    level: int = 2,
    at_once: bool = False,
    cel_strict: bool = False,
    quirks: str = "",
    crds: tuple[dict[str, Any], ...] = (),
    parts: bool = False,
    join: Callable[[Sequence[bytes]], PolicySet] | None = None,
) -> Policies:
    """Compiles the documents of files and joins them with ready bundles and exceptions into one set.

    ``at_once`` as for ``PolicySet.load``; ``join`` stands in for that. ``parts`` as for ``compiler.Options``.
    """
    from compiler import Options

    options = Options(level=level, cel_strict=cel_strict, quirks=quirks, crds=crds, parts=parts)
    fingerprint = f"{options.fingerprint}{' parts' if parts else ''}"
    ready = list(bundles)
    refused: list[Refused] = []
    diagnostics: list[Diagnostic] = []
    count = 0
    documents = [d for file in files for d in file.documents]
    for group in grouped([*documents, *exceptions]):
        document = group[0]
        bundle, found = compile_documents(group, options, fingerprint)
        diagnostics += found
        if document.value.get("kind") == "PolicyException":
            count += 1
        if bundle is None:
            _, kind, namespace, name = identity(document.value)
            shown = name if "Cluster" in kind or not namespace else f"{namespace}/{name}"
            refused.append(Refused(kind, shown, found))
        else:
            ready.append(bundle)
    entries = tuple(d.value for d in documents if d.value.get("kind") == GLOBAL_KIND)
    loaded = join(ready) if join is not None else PolicySet.load(ready, tier=tier, at_once=at_once)
    return Policies(loaded, tuple(refused), tuple(diagnostics), count, entries)


def evaluate(
    policies: PolicySet,
    resource: dict[str, Any],
    *,
    values: Values = NO_VALUES,
    user: UserInfo | None = None,
    operation: str | None = None,
) -> list[Answer]:
    """Every policy's answer on a resource: the mutating ones in order, each on what the one before left, then the
    validating ones on the result, and those that work on other objects because of it. ``operation`` wins over the
    values' own."""
    engine = Engine(policies)
    mutating = {id(rule.policy) for rule in policies.rules if rule.kind == "mutate"}
    validating = {id(rule.policy) for rule in policies.rules if rule.kind == "validate"}
    background = {id(rule.policy) for rule in policies.rules if rule.kind in BACKGROUND_KINDS}
    answers: list[Answer] = []
    current = resource
    for policy in policies.policies:
        if id(policy) in mutating:
            request = offline_request(current, policy, values, user, operation)
            response = engine.evaluate(request, "mutate", full=True, only=[policy])
            answers.append(Answer(policy, resource, request.operation, True, response.results, response.resource))
            if response.patched is not None:
                current = response.patched
    for policy in policies.policies:
        if id(policy) in background:
            request = offline_request(current, policy, values, user, operation)
            response = engine.evaluate(request, "background", only=[policy])
            plain, made = _objects(request, response.results)
            answers.append(Answer(policy, resource, request.operation, False, plain, current, made))
            answers += _targets(engine, policy, resource, request, response.results)
            answers += _removals(engine, policy, resource, request)
        if id(policy) in validating or not {id(policy)} & (mutating | background):
            request = offline_request(current, policy, values, user, operation)
            response = engine.evaluate(request, "validate", full=True, only=[policy])
            answers.append(Answer(policy, resource, request.operation, False, response.results, current))
    return answers


def _objects(
    request: Request, results: Iterable[RuleResult]
) -> tuple[tuple[RuleResult, ...], dict[str, tuple[Any, ...]]]:
    """The results of rules that work in the background, without those that are told of by other objects, and the
    objects that generate rules make."""
    plain: list[RuleResult] = []
    made: dict[str, tuple[Any, ...]] = {}
    for result in results:
        if result.kind == "generate":
            from runtime.generate import generate

            generation = generate(result, request)
            plain.append(generation.result)
            if generation.made:
                made[result.rule] = tuple(one.object for one in generation.made)
        elif result.kind != "cleanup" and (result.product is None or result.kind != "mutateExisting"):
            plain.append(result)
    return tuple(plain), made


def _removals(engine: Engine, policy: PolicyInfo, resource: dict[str, Any], request: Request) -> Iterator[Answer]:
    """An answer for each rule that removes the resource, or cannot say whether it does."""
    for plan in engine.policies.rules:
        if plan.policy is policy and plan.kind == "cleanup" and request.operation == "CREATE":
            from runtime.cleanup import removal

            found = removal(engine, plan, request)
            if found is not None:
                gone = found.result.status == "pass"
                yield Answer(policy, resource, request.operation, False, (found.result,), resource, removed=gone)


def _targets(
    engine: Engine, policy: PolicyInfo, resource: dict[str, Any], request: Request, results: Iterable[RuleResult]
) -> Iterator[Answer]:
    """An answer for each object that rules with targets have changed or tried to."""
    for result in results:
        if result.product is None or result.kind != "mutateExisting":
            continue
        from runtime.mutate_existing import mutate_existing

        for changed in mutate_existing(result, request, engine.meter):
            target = changed.target
            if target is None:
                yield Answer(policy, resource, request.operation, False, (changed.result,), resource)
                continue
            made = changed.result.patched
            patched = target if made is None else made
            yield Answer(policy, target, request.operation, True, (changed.result,), patched)


def offline_request(
    resource: dict[str, Any], policy: PolicyInfo, values: Values, user: UserInfo | None, operation: str | None
) -> Request:
    """The request that stands for a resource, with the variables that this policy sees."""
    api_version, kind, namespace, name = identity(resource)
    variables = values.variables(policy.name, name)
    operation = operation or operation_of(variables)
    variables["request.operation"] = operation
    group, version = split_api_version(api_version)
    full_kind = None
    for sub in values.subresources:
        if (sub.group, sub.version, sub.kind) == (group, version, kind):
            full_kind = (*sub.parent, sub.name)
    try:
        request = Request.from_resource(
            resource,
            operation,
            user=user,
            namespace_labels=values.labels(namespace) or {},  # offline, what no values file says is not there
            namespace_object=values.namespaces.get(namespace),
            values=variables,
            kind=full_kind,
        )
    except RequestError as error:
        raise Problem(f"values for policy {policy.name} and resource {name}: {error}") from None
    request.root[HOST] = Offline(
        values.params, values.outside, values.of_elements(policy.name), values.targets, values.sources
    )
    own = values.of_rules(policy.name)
    return replace(request, rule_values=own) if own else request


@dataclass(frozen=True, slots=True)
class Offline:
    """The host of rules without a cluster: parameters are those that were given, and nobody knows who may do what.

    Context entries are answered from ``outside``; before that, within loops, from ``elements``: lists of values by rule
    and by the entry's dotted name. ``targets`` are the objects that rules with targets may change, ``sources`` those
    that generate rules may copy.
    """

    params: tuple[Mapping[str, Any], ...] = ()
    outside: Outside = field(default_factory=Outside)
    elements: Mapping[str, Mapping[str, list[Any]]] = field(default_factory=dict)
    targets: tuple[Mapping[str, Any], ...] = ()
    sources: tuple[Mapping[str, Any], ...] = ()

    def ask(self, call: HostCall) -> Value:
        if call.kind in CONTEXT_CALLS:
            if (given := asker(call, "given")) is not None:
                return given
            rule = str(asker(call, "rule"))
            lists = self.elements.get(rule) or self.elements.get(base_rule(rule))
            found = element_value(lists, call) if lists else MISSING
            return self.outside.answer(call) if found is MISSING else found
        if call.kind == PARAMS:
            query = query_of(call.payload)
            return chosen(query, self.params, _namespaced(query, self.params), call.scope)
        if call.kind in (TARGETS, SOURCES):
            from runtime.mutate_existing import selected

            given = self.targets if call.kind == TARGETS else self.sources
            known = {identity(dict(t)) for t in given}
            held = self.outside.objects.all() if self.outside.objects is not None else []
            return selected(call.payload, [*given, *(o for o in held if identity(o) not in known)])
        if call.kind == AUTHORIZE:
            return Err("host", "there is no cluster that could authorize")
        return Err("host", f"{call.kind}: there is no cluster to ask")


def _namespaced(query: Query, given: Iterable[Mapping[str, Any]]) -> bool:
    """Whether objects of the kind have a namespace: the schema says, else those that are given."""
    from compiler.schema.kinds import provider

    known = provider().of_kind(*split_api_version(query.api_version), query.kind)
    if known is not None:
        return known.namespaced
    same = [o for o in given if (o.get("apiVersion"), o.get("kind")) == (query.api_version, query.kind)]
    return any((o.get("metadata") or {}).get("namespace") for o in same)
