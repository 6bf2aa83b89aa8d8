"""The typed tree IR: what the front ends make, the passes rewrite and ``emit`` turns into bytecode.

An expression has a static kind of :mod:`vm.isa` (``V B I S L M E O``). ``Op`` applies any instruction of the table
that is neither control nor a local access; the other nodes are the ones that need structure. Nodes are frozen: a pass
builds new ones. ``at`` (on statements) is the JSON pointer of the policy text a statement came from; it takes no part
in equality.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Const:
    """A JSON constant. Must not be changed: generated code shares it."""

    value: Any


@dataclass(frozen=True, slots=True)
class Local:
    """Reads a local; its kind is declared in ``Function.locals``."""

    name: str


@dataclass(frozen=True, slots=True)
class Load:
    """The value at a constant path of the root (``("request", "object", "spec")``), MISSING when a step is not
    there."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Op:
    """An instruction applied to operands; ``imm`` are constants in source form (key text, path tuple, pattern text,
    n, of ``cell`` the name of a function of role cell)."""

    name: str
    args: tuple[Expr, ...] = ()
    imm: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Invoke:
    """Calls an intrinsic of ``vm.functions.INTRINSICS``. ``at`` is the place of a part of a statement (a clause of
    ``match``), which only code that is to be explained keeps."""

    name: str
    args: tuple[Expr, ...]
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """Calls a function of the module."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Choose:
    """``then`` when the condition (kind B) holds, else ``other``."""

    cond: Expr
    then: Expr
    other: Expr


@dataclass(frozen=True, slots=True)
class And:
    """Short-circuit conjunction of kind-B terms."""

    terms: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Short-circuit disjunction of kind-B terms."""

    terms: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Statements, then a value."""

    body: tuple[Stmt, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Set:
    name: str
    value: Expr
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class If:
    cond: Expr
    then: tuple[Stmt, ...]
    other: tuple[Stmt, ...] = ()
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Each:
    """For each element of a list (kind L), bound to ``item`` and, when named, its position to ``index``."""

    item: str
    over: Expr
    body: tuple[Stmt, ...]
    index: str | None = None
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class EachPair:
    """For each key, in sorted order, and value of a map (kind M)."""

    key: str
    value: str
    over: Expr
    body: tuple[Stmt, ...]
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Return:
    value: Expr
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Break:
    pass


@dataclass(frozen=True, slots=True)
class Next:
    pass


@dataclass(frozen=True, slots=True)
class Do:
    """Evaluates for effect (``append``, ``put``) and drops the value."""

    value: Expr
    at: str | None = field(default=None, compare=False)


Expr: TypeAlias = Const | Local | Load | Op | Invoke | Call | Choose | And | Or | Block
Stmt: TypeAlias = Set | If | Each | EachPair | Return | Break | Next | Do


@dataclass(frozen=True, slots=True)
class Function:
    """``locals`` maps every local, parameters first and included, to its kind. Each body ends in a ``Return`` on all
    paths.

    ``policy`` is the index of the policy it belongs to (for debug spans), ``role`` what it is: entry, message,
    exception, cell, helper.
    """

    name: str
    params: tuple[str, ...]
    locals: Mapping[str, str]
    body: tuple[Stmt, ...]
    result: str
    policy: int | None = None
    role: str = "helper"


@dataclass(frozen=True, slots=True)
class KindKey:
    """A kind selector as written, split: group, version, kind and subresource may hold wildcards; "" subresource is
    the object."""

    group: str
    version: str
    kind: str
    subresource: str


@dataclass(frozen=True, slots=True)
class MatchKey:
    """One way a rule may be reached: a kind selector and the operations (empty: all)."""

    kind: KindKey
    operations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """What the bundle's POLICY section says of one computed rule (an autogen rule is one of its own).

    ``keys`` are the ways in which a request may reach the rule; they over-approximate its match until ``hoist_match``
    has made them exact. ``meta`` is plain JSON for the runtime: failureAction, overrides, messages, report properties,
    …
    """

    name: str
    entry: str
    kind: str  # one of vm.code.RULE_KINDS
    keys: tuple[MatchKey, ...]
    meta: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Policy:
    """``meta`` is plain JSON: apiVersion, kind, failureAction, overrides, applyRules, failurePolicy, background,
    annotations, …"""

    name: str
    namespace: str | None
    rules: tuple[Rule, ...]
    meta: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Exemption:
    """A policy exception: the rules it names, and a function ``(root) -> B`` that says whether it applies."""

    name: str
    namespace: str
    rules: tuple[tuple[str | None, str], ...]  # (policy or None for any, rule name with wildcards)
    entry: str
    meta: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Module:
    functions: tuple[Function, ...]
    policies: tuple[Policy, ...]
    exemptions: tuple[Exemption, ...] = ()
    spans: Mapping[tuple[int, str], tuple[str, int, int]] = field(default_factory=dict, compare=False)
