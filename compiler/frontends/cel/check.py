"""The type checker: a tree and an environment in, a :class:`Checked` out; ``program`` and ``validate_cel`` call it.

It follows cel-go's checker rule by rule, so that an expression is refused here when the API server refuses it, in the
same words. What a schema says of a value (``Soft`` types) comes on top: each call is resolved by the API server's types
first, and then once more by the schema's, which can only give warnings and better types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from compiler.frontends.cel import quantities
from compiler.frontends.cel.apiserver import further_problems
from compiler.frontends.cel.ast import (
    Bind,
    Call,
    FieldInit,
    Ident,
    ListLit,
    Literal,
    Loop,
    MapLit,
    Node,
    Opt,
    Select,
    Span,
    StructLit,
)
from compiler.frontends.cel.checked import Checked, Constant, LoopVar, Problem, Variable
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.formats import format_problems
from compiler.frontends.cel.overloads import MAP_INSERT, Signature, index
from compiler.frontends.cel.resolve import Names, candidates, is_rooted, qualified, value_type
from compiler.frontends.cel.resolver import Resolver, in_words, short
from compiler.frontends.cel.soft import hard, has_soft, merged, schema, settled, softened
from compiler.frontends.cel.suggest import elsewhere, nearest
from compiler.frontends.cel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    OPTIONAL,
    QUANTITY_TEXT,
    WELL_KNOWN,
    ListOf,
    MapOf,
    Message,
    Object,
    Opaque,
    Param,
    Prim,
    Soft,
    Type,
    TypeOf,
    format_type,
    optional_of,
)
from compiler.frontends.cel.unify import Unifier, is_dyn, is_dyn_or_error, most_general
from vm.cel.library import Function

_LOGIC: Final = ("_&&_", "_||_")
_MACROS: Final = {"math.@max": "math.greatest", "math.@min": "math.least"}
"""Functions by the names that people write."""

_Scope = Mapping[str, tuple[Type, LoopVar]]


def check(node: Node, env: Env) -> Checked:
    """The types and the meaning of every part of an expression; never raises."""
    c = _Checker(env)
    c.check(node)
    types = {i: c.unify.substitute(t, to_dyn=True) for i, t in c.types.items()}
    problems = c.problems
    if not any(p.level == "error" for p in problems):
        problems += format_problems(node, types, c.calls)
        if env.kubernetes:
            problems += further_problems(node, types, c.calls)
    problems.sort(key=lambda p: p.at)
    return Checked(
        node,
        types[node.id],
        types,
        c.names,
        c.calls,
        c.structs,
        frozenset(c.namespaced),
        tuple(dict.fromkeys(problems)),
    )


class _Checker:
    """One check."""

    __slots__ = (
        "calls",
        "env",
        "index",
        "known",
        "names",
        "namespaced",
        "problems",
        "resolver",
        "scopes",
        "structs",
        "types",
        "unify",
    )

    def __init__(self, env: Env) -> None:
        self.env = env
        self.index = index(env.libraries)
        self.known = Names(env)
        self.unify = Unifier()
        self.scopes: list[_Scope] = []
        self.types: dict[int, Type] = {}
        self.names: dict[int, Variable | LoopVar | Constant] = {}
        self.calls: dict[int, Function] = {}
        self.structs: dict[int, str] = {}
        self.namespaced: set[int] = set()
        self.problems: list[Problem] = []
        self.resolver = Resolver(self.unify, self.problems)

    # What every kind of node goes through.

    def check(self, n: Node) -> Type:
        """Check a node and the nodes in it; its type, with type variables still free."""
        match n:
            case Literal(value):
                t = value_type(value)
            case Ident():
                t = self._ident(n)
            case Select():
                t = self._select(n)
            case Call():
                t = self._call(n)
            case ListLit():
                t = self._list(n)
            case MapLit():
                t = self._map(n)
            case StructLit():
                t = self._struct(n)
            case Loop():
                t = self._loop(n)
            case Bind():
                t = self._bind(n)
            case Opt():
                t = self._opt(n)
        self.types[n.id] = t
        return t

    def _now(self, t: Type) -> Type:
        """A type with what is known by now of its variables."""
        return settled(self.unify.substitute(t))

    def _error(self, kind: str, at: Span, message: str, expected: str = "", help: str = "") -> Type:
        self.problems.append(Problem(kind, message, at, "error", expected, help))
        return ERROR

    def _warn(self, kind: str, at: Span, message: str, expected: str = "", help: str = "") -> None:
        self.problems.append(Problem(kind, message, at, "warning", expected, help))

    @contextmanager
    def _scope(self, names: _Scope) -> Iterator[None]:
        self.scopes.append(names)
        try:
            yield
        finally:
            self.scopes.pop()

    def _local(self, name: str) -> tuple[Type, LoopVar] | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    # Names.

    def _ident(self, n: Ident) -> Type:
        if not is_rooted(n) and (local := self._local(n.name)) is not None:
            self.names[n.id] = local[1]
            return local[0]
        name = f".{n.name.removeprefix('.')}" if is_rooted(n) else n.name
        found = self.known.lookup(name)
        if found is None:
            return self._undeclared(n.at, name, [*self.known.known(), *(k for s in self.scopes for k in s)])
        self.names[n.id] = found[1]
        return found[0]

    def _undeclared(self, at: Span, name: str, near: Sequence[str]) -> Type:
        return self._error("undeclared", at, self._reference(name), help=nearest(name.removeprefix("."), near))

    def _undeclared_function(self, n: Call) -> Type:
        name = _MACROS.get(n.function, n.function)
        if self.env.kubernetes and (library := elsewhere(name, n.target)):
            help = f"the API server does not have the library '{library}' of CEL, where this function is"
            return self._error("undeclared", n.at, self._reference(name), help=help)
        return self._undeclared(n.at, name, [f for f in self.index if f[0] not in "_@!-"])

    def _reference(self, name: str) -> str:
        return f"undeclared reference to '{name}' (in container '{self.env.container}')"

    def _qualified(self, n: Node) -> str | None:
        """The name that a chain of selects writes, None where it begins with a loop variable or is no such chain."""
        found = qualified(n)
        if found is None:
            return None
        ident, name = found
        if is_rooted(ident):
            return "." + name
        return None if self._local(ident.name) is not None else name

    def _select(self, n: Select) -> Type:
        name = self._qualified(n)
        if name is not None and (found := self.known.lookup(name)) is not None:
            self.names[n.id] = found[1]
            return found[0]
        t = self._field(n, self._now(self.check(n.of)))
        return BOOL if n.test else t

    def _field(self, n: Select, of: Type) -> Type:
        """The type of a field of a value of type ``of``."""
        lifted, target = _unwrapped(of)
        match target:
            case Soft(said) if self._is_dynamic(target):
                t = self._schema_field(n.at, said, n.name)
            case Soft(said, MapOf(_, value)):
                t = merged(value, schema(self._schema_field(n.at, said, n.name)))
            case MapOf(_, value):
                t = value
            case Message() | Object():
                t = self._declared_field(n, target)
            case Param():
                self.unify.assignable(DYN, target)
                t = DYN
            case _:
                t = DYN
                if isinstance(target, Prim) and target.name.startswith("kubernetes."):
                    # Objects without fields to cel-go, not opaque types.
                    self._error("field", n.at, f"unexpected failed resolution of '{target.name}'")
                elif not is_dyn_or_error(target):
                    self._error("type", n.at, f"type '{self.resolver.show(target)}' does not support field selection")
        return optional_of(t) if lifted or n.optional else t

    def _is_dynamic(self, t: Soft) -> bool:
        """Whether a value of a schema is ``dyn`` to the API server; a type variable becomes it by use."""
        plain = hard(t)
        return self.unify.assignable(DYN, plain) if isinstance(plain, Param) else is_dyn(plain)

    def _declared_field(self, n: Select, of: Message | Object) -> Type:
        fields = self.known.fields(of)
        if fields is None:
            return self._error("field", n.at, f"unexpected failed resolution of '{of.name}'")
        t = fields.get(n.name)
        if t is not None:
            return t
        if isinstance(of, Object) and of.open:
            return DYN
        return self._error("field", n.at, f"undefined field '{n.name}'", help=nearest(n.name, fields))

    def _schema_field(self, at: Span, of: Type, name: str) -> Type:
        """A field of a value that a schema knows; where it does not, that is a warning and the value ``dyn``."""
        lifted, of = _unwrapped(of)
        t: Type = DYN
        match of:
            case Soft(inner):
                t = self._schema_field(at, inner, name)
            case MapOf(_, value):
                t = softened(value)
            case Object():
                fields = self.known.fields(of)
                if fields is not None and name in fields:
                    t = softened(fields[name])
                elif fields is not None and not of.open:
                    self._warn(
                        "schema",
                        at,
                        f"undefined field '{name}'; the schema of {short(of.name)} has none of that name",
                        help=nearest(name, fields),
                    )
            case _ if not is_dyn(of):
                self._warn("schema", at, f"the schema says {in_words(of)} here, which has no fields")
        return softened(optional_of(t)) if lifted else t

    # Calls.

    def _call(self, n: Call) -> Type:
        args = [self.check(x) for x in n.args]
        if n.function in _LOGIC:
            for x, t in zip(n.args, args, strict=True):
                self._expect(x, t, BOOL)
            return BOOL
        if n.target is None:
            return self._applied(n, self._function(n.function), args, False)
        prefix = self._qualified(n.target)
        if prefix is not None and (signatures := self._function(f"{prefix}.{n.function}")) is not None:
            self.namespaced.add(n.id)
            return self._applied(n, signatures, args, False)
        return self._applied(n, self._function(n.function), [self.check(n.target), *args], True)

    def _function(self, name: str) -> tuple[str, tuple[Signature, ...]] | None:
        for full in candidates(self.env.container, name):
            if full in self.index:
                return full, self.index[full]
        return None

    def _applied(
        self, n: Call, found: tuple[str, tuple[Signature, ...]] | None, operands: Sequence[Type], member: bool
    ) -> Type:
        operands = [self._now(t) for t in operands]
        if (t := self._quantities(n, operands, member)) is not None:
            return t
        if found is None:
            return self._undeclared_function(n)
        field = self._schema_index(n, operands[0]) if n.function in ("_[_]", "_[?_]") else None
        match = self.resolver.resolved(n.at, found[0], found[1], operands, member, field)
        if match is None:
            return ERROR
        row = match.rows[0]
        if row is not None and n.function not in ("_[_]", "_[?_]", "_?_:_"):
            self.calls[n.id] = row
        return match.result

    def _schema_index(self, n: Call, of: Type) -> Type | None:
        """What the schema says of ``of['name']`` or ``of[?'name']`` where it knows the fields of ``of``, else None."""
        lifted, inner = _unwrapped(of)
        if not isinstance(inner, Soft):
            return None
        name = n.args[1].value if isinstance(n.args[1], Literal) else None
        if not isinstance(name, str) or not isinstance(schema(inner), Object):
            return None
        t = schema(self._schema_field(n.args[1].at, schema(inner), name))
        return optional_of(t) if lifted or n.function == "_[?_]" else t

    def _quantities(self, n: Call, operands: Sequence[Type], member: bool) -> Type | None:
        """The type of a call that means quantities, None where it does not."""
        if self.env.strict:
            return None
        found = quantities.meant(n, operands, member)
        if found is None or found[0] not in self.index:
            return None
        name, result = found
        row = next((s.row for s in self.index[name] if len(s.params) == len(operands)), None)
        if row is None:
            return None
        self.calls[n.id] = row
        self.problems.append(
            Problem("quantity", quantities.told(name), n.at, "note", help="--cel-strict reads it as plain CEL does")
        )
        return result

    def _expect(self, n: Node, found: Type, wanted: Type) -> None:
        """Ask that a node is of a type; a schema that says otherwise gives a warning."""
        if not self.unify.assignable(wanted, hard(self._now(found))):
            message = f"expected type '{format_type(wanted)}' but found '{self.resolver.show(found)}'"
            self._error("type", n.at, message)
        elif has_soft(found) and not self.resolver.fits_schema(schema(found), wanted):
            self._warn("schema", n.at, f"the schema says {in_words(schema(found))} here, not {format_type(wanted)}")

    # Literals of lists, maps and messages.

    def _joined(self, before: Type | None, t: Type) -> Type:
        """The type of the elements so far and one more, ``dyn`` for elements of several types."""
        if before is None:
            return t
        if self.unify.assignable(hard(before), hard(t)):
            if has_soft(before) or has_soft(t):
                return self._joined_schema(before, t)
            return most_general(before, t)
        return DYN

    def _joined_schema(self, before: Type, t: Type) -> Type:
        plain = most_general(hard(before), hard(t))
        a, b = schema(before), schema(t)
        if a == b or b == QUANTITY_TEXT:
            return merged(plain, b)
        return merged(plain, a) if a == QUANTITY_TEXT and self.resolver.fits_schema(b, a) else plain

    def _element(self, n: Node, t: Type, optional: bool) -> Type:
        """The type of what an element ``?x`` holds."""
        if not optional:
            return t
        lifted, inner = _unwrapped(self._now(t))
        if not lifted and not is_dyn(hard(inner)) and not isinstance(inner, Param):
            shown = self.resolver.show(inner)
            self._error("type", n.at, f"expected type 'optional_type({shown})' but found '{shown}'")
        return inner

    def _list(self, n: ListLit) -> Type:
        item: Type | None = None
        for i, x in enumerate(n.items):
            item = self._joined(item, self._element(x, self.check(x), i in n.optional))
        return ListOf(self.unify.fresh() if item is None else self._now(item))

    def _map(self, n: MapLit) -> Type:
        key: Type | None = None
        value: Type | None = None
        for e in n.entries:
            key = self._joined(key, self.check(e.key))
            value = self._joined(value, self._element(e.value, self.check(e.value), e.optional))
        if key is None or value is None:
            return MapOf(self.unify.fresh(), self.unify.fresh())
        return self._now(MapOf(key, value))

    def _struct(self, n: StructLit) -> Type:
        found = self.known.message(n.name)
        if found is None:
            return self._undeclared(n.at, n.name, [*WELL_KNOWN, *self.env.messages])
        name, t = found
        self.structs[n.id] = name
        result: Type
        match t:
            case TypeOf(Message() as message):
                result = message
            case TypeOf(of) if of is not None and self.known.fields_named(name) is not None:
                result = of
            case TypeOf():
                result = self._error("type", n.at, f"'{name}' is not a message type")
            case _:
                result = self._error("type", n.at, f"'{self.resolver.show(t)}' is not a type")
        for f in n.fields:
            self._init(name, f, self.check(f.value))
        return result

    def _init(self, message: str, f: FieldInit, t: Type) -> None:
        t = self._element(f.value, t, f.optional)
        fields = self.known.fields_named(message)
        if fields is None:
            self._error("field", f.at, f"unexpected failed resolution of '{message}'")
            return
        wanted = fields.get(f.name)
        if wanted is None:
            self._error("field", f.at, f"undefined field '{f.name}'", help=nearest(f.name, fields))
        elif not self.unify.assignable(wanted, hard(t)):
            given = f"but provided type is '{self.resolver.show(t)}'"
            message = f"expected type of field '{f.name}' is '{self.resolver.show(wanted)}' {given}"
            self._error("type", f.at, message)

    # Macros.

    def _range(self, n: Loop) -> tuple[Type, Type]:
        """The types of the one variable, or of the first and the second."""
        of = self._now(self.check(n.over))
        soft, two = isinstance(of, Soft) and self._is_dynamic(of), n.var2 is not None
        said = schema(of) if soft else hard(of) if isinstance(of, Soft) else of
        pair: tuple[Type, Type]
        match said:
            case ListOf(item):
                # `schema` takes the softness of what is within away, which `softened` gives back.
                pair = (INT, item) if two else (item, DYN)
            case MapOf(key, value):
                pair = (key, value)
            case Object() if soft:
                return softened(DYN), DYN
            case Param():
                self.unify.assignable(DYN, said)
                return DYN, DYN
            case _ if is_dyn_or_error(said):
                return DYN, DYN
            case _ if soft:
                self._warn("schema", n.over.at, f"the schema says {in_words(said)} here, which has no elements")
                return DYN, DYN
            case _:
                message = f"expression of type '{self.resolver.show(of)}' cannot be range of a comprehension"
                self._error("type", n.over.at, f"{message} (must be list, map, or dynamic)")
                return ERROR, ERROR
        return (softened(pair[0]), softened(pair[1])) if soft else pair

    def _loop(self, n: Loop) -> Type:
        first, second = self._range(n)
        scope = {n.var: (first, LoopVar(n.id, 0))}
        if n.var2 is not None:
            scope[n.var2] = (second, LoopVar(n.id, 1))
        with self._scope(scope):
            where = None if n.where is None else self.check(n.where)
            then = None if n.then is None else self.check(n.then)
        if n.kind in ("all", "exists"):
            if n.where is not None and where is not None:
                self._expect(n.where, where, BOOL)
            return BOOL
        result = self._made(n, first, then)
        if n.where is not None and where is not None:
            self._chosen(n, where, INT if n.kind == "exists_one" else result)
        return BOOL if n.kind == "exists_one" else result

    def _made(self, n: Loop, first: Type, then: Type | None) -> Type:
        """The type of what a loop gathers."""
        then = DYN if then is None else self._now(then)
        match n.kind:
            case "filter":
                return ListOf(first)
            case "map" | "transform_list":
                return ListOf(then)
            case "transform_map":
                return MapOf(first, then)
            case "transform_map_entry":
                empty = MapOf(self.unify.fresh(), self.unify.fresh())
                match = self.resolver.resolved(n.at, "cel.@mapInsert", MAP_INSERT, [empty, then], False)
                return ERROR if match is None else match.result
            case _:
                return DYN

    def _chosen(self, n: Loop, where: Type, result: Type) -> None:
        """The condition of a loop that gathers, which is one of ``?:`` to cel-go."""
        where, said = self._now(where), n.where
        if said is None:
            return
        if not self.unify.assignable(hard(where), BOOL):
            applied = self.resolver.signature([hard(where), hard(result), hard(result)], False)
            self._error("overload", n.at, f"found no matching overload for '_?_:_' applied to '{applied}'")
        elif has_soft(where):
            self._expect(said, where, BOOL)

    def _bind(self, n: Bind) -> Type:
        t = self.check(n.value)
        with self._scope({n.var: (t, LoopVar(n.id, 0))}):
            return self.check(n.body)

    def _opt(self, n: Opt) -> Type:
        of = self._now(self.check(n.of))
        lifted, inner = _unwrapped(of)
        if not lifted:
            plain = hard(of)
            inner = DYN
            if isinstance(of, Param):
                inner = self.unify.fresh()
                self.unify.assignable(of, optional_of(inner))
            elif not is_dyn_or_error(plain):
                inner = ERROR
                for name in ("hasValue", "value"):
                    applied = self.resolver.signature([plain], True)
                    self._error("overload", n.at, f"found no matching overload for '{name}' applied to '{applied}'")
        with self._scope({n.var: (inner, LoopVar(n.id, 0))}):
            then = self._now(self.check(n.then))
        if not n.flat:
            return optional_of(then)
        none = optional_of(self.unify.fresh())
        match = self.resolver.resolved(n.at, "_?_:_", self.index["_?_:_"], [BOOL, then, none], False)
        return ERROR if match is None else match.result


def _unwrapped(t: Type) -> tuple[bool, Type]:
    """Whether a type is an optional, and the type of what it holds (or the type itself)."""
    match t:
        case Opaque(name, (of,)) if name == OPTIONAL:
            return True, of
        case Soft(Opaque(name, (of,))) if name == OPTIONAL:
            return True, softened(of)
        case _:
            return False, t
