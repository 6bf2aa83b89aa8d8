"""The policy model: what ``read_policies`` makes of a document and what autogen, the front ends and the runtime read.

Everything is in Kyverno's standard form here: the guide's own forms are rewritten before the model is built (each with
a note), except ``Filter.exclude_resources`` and ``Filter.labels``, which stay as they are. Free-form parts (patterns,
conditions, patches) are JSON values; they are shared, so whoever changes one copies it first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from compiler.source import Document

Json: TypeAlias = Any
"""A JSON value."""

Action: TypeAlias = Literal["Audit", "Enforce"]
Origin: TypeAlias = Literal["policy", "autogen", "autogen-cronjob"]
Mode: TypeAlias = Literal["any", "all", "direct"]


@dataclass(frozen=True, slots=True)
class Subject:
    """A user, group or service account of a filter; ``name`` and ``namespace`` may hold wildcards."""

    kind: str
    name: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class ResourceRule:
    """What a resource rule of the API server's own policies asks beyond kinds: the API ``groups`` letter by letter
    (empty: any), the ``plurals`` of resources whose kind is not known, and the ``scope``, empty for both.

    A filter that has one reads its selectors as the API server does: ``selector`` meets the object or the old one, and
    ``namespace_selector`` the labels of a Namespace itself.
    """

    groups: tuple[str, ...] = ()
    plurals: tuple[str, ...] = ()
    scope: Literal["", "Namespaced", "Cluster"] = ""


@dataclass(frozen=True, slots=True)
class Filter:
    """One resource filter of ``match`` or ``exclude``: every attribute that is given must hold (semantics §11).

    ``names`` joins ``name`` and ``names``. ``selector`` and ``namespace_selector`` are label selectors as JSON, None
    when not given. ``labels`` (guide form) reads like ``selector.matchLabels``; ``exclude_resources`` (guide form)
    takes resources out again: the filter does not match what that inner filter matches. ``pointer`` is the place of the
    filter in the document.
    """

    kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    annotations: dict[str, str] | None = None
    selector: dict[str, Json] | None = None
    namespace_selector: dict[str, Json] | None = None
    operations: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    cluster_roles: tuple[str, ...] = ()
    subjects: tuple[Subject, ...] = ()
    exclude_resources: Filter | None = None
    labels: dict[str, str] | None = None
    resource_rule: ResourceRule | None = None
    pointer: str = field(default="", compare=False)

    @property
    def has_user_info(self) -> bool:
        return bool(self.roles or self.cluster_roles or self.subjects)

    @property
    def has_resources(self) -> bool:
        """Whether anything but user info is asked for."""
        return bool(
            self.kinds
            or self.names
            or self.namespaces
            or self.operations
            or self.annotations
            or self.labels
            or self.selector is not None
            or self.namespace_selector is not None
            or self.exclude_resources is not None
            or self.resource_rule is not None
        )

    @property
    def empty(self) -> bool:
        return not (self.has_user_info or self.has_resources)


@dataclass(frozen=True, slots=True)
class MatchBlock:
    """``match`` or ``exclude`` of a rule. ``direct`` holds exactly one filter (the block itself)."""

    mode: Mode
    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Override:
    """An entry of the failure action overrides; without namespaces and selector it holds everywhere."""

    action: Action
    namespaces: tuple[str, ...] = ()
    namespace_selector: dict[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class Deny:
    """``conditions`` as written: a list, or an object with any and all; None denies always."""

    conditions: Json = None


@dataclass(frozen=True, slots=True)
class NamedExpression:
    """A CEL expression with a name: a variable, a precondition, a match condition or (by its key) an audit annotation.

    ``pointer`` is the place of the expression's text in the document.
    """

    name: str
    expression: str
    pointer: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class CelExpression:
    """One check of ``validate.cel``; ``message`` is its own, None or empty for the rule's. ``pointer`` is the place of
    the entry."""

    expression: str
    message: str | None = None
    message_expression: str | None = None
    pointer: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Params:
    """Which objects a rule sees as ``params``: a kind, and a name or a label selector.

    ``namespace`` empty: that of the resource, for a kind that has namespaces. ``required``: a rule without any
    parameter is an error (``parameterNotFoundAction: Deny``).
    """

    api_version: str
    kind: str
    name: str = ""
    namespace: str = ""
    selector: dict[str, Json] | None = None
    required: bool = False
    listed: bool = False

    @property
    def chosen(self) -> bool:
        """Whether there is a name or a selector."""
        return bool(self.name) or self.selector is not None


@dataclass(frozen=True, slots=True)
class Cel:
    """``validate.cel``: every expression must hold, in order. ``params`` None: the rule has none."""

    expressions: tuple[CelExpression, ...]
    variables: tuple[NamedExpression, ...] = ()
    params: Params | None = None
    audit_annotations: tuple[NamedExpression, ...] = ()


@dataclass(frozen=True, slots=True)
class CelMutation:
    """One mutation of a MutatingAdmissionPolicy: an expression that gives an ``Object`` to merge, or a list of
    ``JSONPatch`` operations. ``pointer`` is the place of its text."""

    patch_type: Literal["ApplyConfiguration", "JSONPatch"]
    expression: str
    pointer: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class CelMutate:
    """The mutations of a MutatingAdmissionPolicy, each on what the one before left."""

    mutations: tuple[CelMutation, ...]
    variables: tuple[NamedExpression, ...] = ()
    params: Params | None = None


ContextKind: TypeAlias = Literal["variable", "configMap", "apiCall", "globalReference", "imageRegistry"]


@dataclass(frozen=True, slots=True)
class ContextEntry:
    """An entry of ``context``: a name, and how its value is come by. ``body`` is what stands under the key ``kind``,
    normalised; ``pointer`` is the place of the entry."""

    name: str
    kind: ContextKind
    body: dict[str, Json]
    pointer: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ForEach:
    """An entry of ``foreach`` in a rule of any kind; which of the last fields are set follows from the rule's kind.

    ``query`` is its ``list``. ``element_scope`` and ``order`` are None where nothing is written. ``raw`` is the entry
    as normalised JSON.
    """

    query: str
    raw: dict[str, Json]
    context: tuple[ContextEntry, ...] = ()
    preconditions: Json = None
    foreach: tuple[ForEach, ...] = ()
    element_scope: bool | None = None
    pattern: Json = None
    any_pattern: list[Json] | None = None
    deny: Deny | None = None
    order: Literal["Ascending", "Descending"] | None = None
    patch_strategic_merge: Json = None
    patches_json6902: str | None = None
    generate: GenerateTarget | None = None
    pointer: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Target:
    """One of ``mutate.targets``: which objects a rule changes; texts may hold variables, names wildcards."""

    api_version: str
    kind: str
    name: str = ""
    namespace: str = ""
    uid: str = ""
    selector: dict[str, Json] | None = None
    context: tuple[ContextEntry, ...] = ()
    preconditions: Json = None
    raw: dict[str, Json] = field(default_factory=dict)
    pointer: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class GenerateTarget:
    """What a generate rule makes: exactly one of ``data``, ``clone`` (name, namespace) and ``clone_list`` (namespace,
    kinds, selector) is set. ``name`` is empty for a clone list."""

    api_version: str
    kind: str
    name: str = ""
    namespace: str = ""
    data: Json = None
    clone: dict[str, Json] | None = None
    clone_list: dict[str, Json] | None = None
    pointer: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Generate:
    """The generate part of a rule: one target, or several by ``foreach``."""

    target: GenerateTarget | None = None
    foreach: tuple[ForEach, ...] = ()
    synchronize: bool = False
    generate_existing: bool = False
    orphan_downstream: bool = False


@dataclass(frozen=True, slots=True)
class Exclusion:
    """An entry of ``podSecurity.exclude``; empty parts do not restrict."""

    control: str
    images: tuple[str, ...] = ()
    restricted_field: str = ""
    values: tuple[str, ...] = ()
    pointer: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class PodSecurity:
    """``validate.podSecurity``; ``version`` is ``latest`` or ``v1.N``."""

    level: Literal["privileged", "baseline", "restricted"]
    version: str = "latest"
    exclude: tuple[Exclusion, ...] = ()


@dataclass(frozen=True, slots=True)
class Removal:
    """An entry of ``cleanup.removeResources`` (guide form, decision 5)."""

    kind: str
    names: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    selector: dict[str, Json] | None = None
    pointer: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Cleanup:
    """The cleanup part of a rule (guide form): what goes, and when beside changes (a cron text).

    In a cleanup policy there are no ``removals``: what the rule matches goes. ``propagation`` is how (empty: by the
    kind's own default).
    """

    removals: tuple[Removal, ...]
    schedule: str
    propagation: str = ""


@dataclass(frozen=True, slots=True)
class Validate:
    """The validate part of a rule. At most one of ``pod_security``, ``cel``, ``deny``, ``pattern``, ``any_pattern``,
    ``foreach`` is set.

    ``failure_action`` and ``overrides`` are those of the rule alone; the policy's come after them (semantics §23).
    """

    message: str | None = None
    pattern: Json = None
    any_pattern: list[Json] | None = None
    deny: Deny | None = None
    cel: Cel | None = None
    pod_security: PodSecurity | None = None
    foreach: tuple[ForEach, ...] = ()
    failure_action: Action | None = None
    overrides: tuple[Override, ...] = ()
    allow_existing: bool = True


@dataclass(frozen=True, slots=True)
class Mutate:
    """The mutate part of a rule. ``patches_json6902`` is YAML or JSON text, variables included. With ``targets`` the
    rule changes those and not the object that triggers it."""

    patch_strategic_merge: Json = None
    patches_json6902: str | None = None
    cel: CelMutate | None = None
    foreach: tuple[ForEach, ...] = ()
    targets: tuple[Target, ...] = ()
    on_policy_update: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a policy, or one that autogen made of it.

    ``raw`` is the whole rule as normalised JSON (what variables of a mutate rule are substituted in). ``pointer`` is
    the place of the rule it came from in the document (``/spec/rules/0``); in an autogen rule pointers below it need
    not be there, the source map then answers with the nearest place above. ``index`` counts the rules as written,
    from 0. ``bound`` and ``released`` are what the binding of an admission policy matches besides, and excludes.
    """

    name: str
    index: int
    pointer: str
    raw: dict[str, Json]
    origin: Origin
    match: MatchBlock
    exclude: MatchBlock | None = None
    bound: MatchBlock | None = None
    released: MatchBlock | None = None
    preconditions: Json = None
    cel_preconditions: tuple[NamedExpression, ...] = ()
    validate: Validate | None = None
    mutate: Mutate | None = None
    generate: Generate | None = None
    cleanup: Cleanup | None = None
    context: tuple[ContextEntry, ...] = ()
    image_extractors: dict[str, Json] | None = None
    report_properties: dict[str, str] = field(default_factory=dict)
    skip_background_requests: bool = True


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy with every default filled in. ``webhook_timeout`` is in seconds. Those of the API server (``native``)
    have one rule for each of their bindings, named like the policy."""

    kind: Literal[
        "ClusterPolicy",
        "Policy",
        "ValidatingAdmissionPolicy",
        "MutatingAdmissionPolicy",
        "ClusterCleanupPolicy",
        "CleanupPolicy",
    ]
    api_version: str
    name: str
    namespace: str
    labels: dict[str, str]
    annotations: dict[str, str]
    failure_action: Action
    overrides: tuple[Override, ...]
    apply_rules: Literal["All", "One"]
    background: bool
    admission: bool
    failure_policy: Literal["Fail", "Ignore"]
    webhook_timeout: int
    emit_warning: bool
    rules: tuple[Rule, ...]
    doc: Document
    match_conditions: tuple[NamedExpression, ...] = ()

    @property
    def native(self) -> bool:
        """Whether it is a policy of the API server itself."""
        return self.kind.endswith("AdmissionPolicy")

    @property
    def scope(self) -> str | None:
        """The namespace that the policy is confined to, None for a cluster-wide one."""
        return self.namespace if self.kind in ("Policy", "CleanupPolicy") else None

    @property
    def key(self) -> str:
        """``name``, or ``namespace/name`` for a namespaced policy: how results and reports name it."""
        return self.name if self.scope is None else f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ExceptionRule:
    """A rule that an exception frees from: ``policy`` by name (``namespace/name`` for a namespaced one) and ``rule`` by
    the name of the computed rule, where wildcards count.

    In the guide's form (decision 5) ``policy`` None means any policy's rule of that name, and ``rule`` also covers the
    rules that autogen makes of it.
    """

    rule: str
    policy: str | None = None


@dataclass(frozen=True, slots=True)
class ExceptionPolicy:
    """A PolicyException: the named rules skip what meets ``match`` and ``conditions``; with ``background`` in scans
    too. ``pod_security`` are exclusions that it adds to rules with podSecurity instead of skipping them; without any it
    frees from these rules whole. ``guide`` marks the guide's form. ``namespace`` is empty where none is written."""

    name: str
    namespace: str
    api_version: str
    rules: tuple[ExceptionRule, ...]
    match: MatchBlock
    doc: Document
    background: bool = True
    conditions: Json = None
    pod_security: tuple[Exclusion, ...] = ()
    guide: bool = False
