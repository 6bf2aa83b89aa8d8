"""The CEL reference evaluator: a tree in, a value out or :class:`CelError`; slow, and close to the specification.

Macros are evaluated where they stand, with the rules of the comprehensions they stand for: ``all`` and ``exists``
absorb errors as ``&&`` and ``||`` do, the others do not (CEL spec § Macros).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from tests.reference.cel_functions import FUNCTIONS, construct, index, sort_by, unary_not
from tests.reference.cel_parse import Node, parse, qualified
from tests.reference.cel_values import CelError, Unknown, V, find, no_overload

_TYPES = {
    "bool": "bool",
    "int": "int",
    "uint": "uint",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
    "list": "list",
    "map": "map",
    "null_type": "null_type",
    "type": "type",
    "dyn": "dyn",
    "google.protobuf.Timestamp": "google.protobuf.Timestamp",
    "google.protobuf.Duration": "google.protobuf.Duration",
    "optional_type": "optional_type",
}
_NAMESPACES = ("cel", "math", "strings", "lists", "sets", "base64", "regex", "optional", "format", "jsonpatch", "ip")


class Names:
    """Variables in scope. One bound with ``later`` is computed when it is first asked for: an unused one may fail."""

    def __init__(self, values: Mapping[str, V], outer: Names | None = None) -> None:
        self.values = dict(values)
        self.outer = outer
        self.later: dict[str, tuple[Node, Names]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.values or name in self.later or (self.outer is not None and name in self.outer)

    def __getitem__(self, name: str) -> V:
        if name in self.later and name not in self.values:
            node, names = self.later[name]
            self.values[name] = run(node, names)
        if name in self.values:
            return self.values[name]
        if self.outer is None:
            raise CelError("no_such_attribute")
        return self.outer[name]

    def root(self) -> Names:
        return self if self.outer is None else self.outer.root()

    def nearest(self, name: str) -> Names:
        """The innermost scope that knows a name; the root where none does. A variable of a macro hides longer names."""
        if self.outer is None or name in self.values or name in self.later:
            return self
        return self.outer.nearest(name)

    def bind(self, **values: V) -> Names:
        return Names(values, self)

    def bind_later(self, name: str, node: Node) -> Names:
        inner = Names({}, self)
        inner.later[name] = (node, self)
        return inner


def evaluate(text: str, bindings: Mapping[str, V]) -> V:
    """The value of an expression. Raises :class:`CelError`, or ``BadSyntax`` for a text that is none."""
    return run(parse(text), Names(bindings))


def run(node: Node, names: Names) -> V:
    match node[0]:
        case "lit":
            return node[1]  # type: ignore[no-any-return]
        case "group":
            return run(node[1], names)
        case "ident" | "select":
            return _name(node, names)
        case "optselect":
            return _optional(run(node[1], names), lambda v: _field(v, node[2], optional=True))
        case "index":
            return _index(run(node[1], names), run(node[2], names))
        case "optindex":
            of, key = run(node[1], names), run(node[2], names)
            return _optional(of, lambda v: index(v, key, optional=True))
        case "cond":
            cond = run(node[1], names)
            if cond[0] != "bool":
                raise no_overload()
            return run(node[2] if cond[1] else node[3], names)
        case "and":
            return _joined(node, names, decides=False)
        case "or":
            return _joined(node, names, decides=True)
        case "list":
            return _list(node[1], names)
        case "map":
            return _map(node[1], names)
        case "struct":
            return construct(node[1], _fields(node[2], names))
        case "call":
            return _call(node, names)
    raise AssertionError(node[0])


def _name(node: Node, names: Names) -> V:
    full = qualified(node)
    if full is not None:
        if full.startswith("."):
            full, names = full[1:], names.root()
        parts = full.split(".")
        near = names.nearest(parts[0])
        for n in range(len(parts) if near.outer is None else 1, 0, -1):
            name = ".".join(parts[:n])
            if name in near:
                value = near[name]
                for part in parts[n:]:
                    value = _field(value, part)
                return value
        if full in _TYPES:
            return ("type", _TYPES[full])
        raise CelError("no_such_attribute")
    return _field(run(node[1], names), node[2])


def _field(of: V, name: str, *, optional: bool = False) -> V:
    """``of.name``; with ``optional`` an optional, none where the key is not there."""
    if of[0] == "optional" and not optional:
        return of if of[1] is None else _field(of[1], name, optional=True)
    if of[0] == "list":
        raise CelError("overload")
    value = find(of, ("string", name)) if of[0] == "map" else None
    if optional:
        return ("optional", value)
    if value is None:
        raise CelError("no_such_key")
    return value


def _index(of: V, key: V) -> V:
    if of[0] == "optional":
        return of if of[1] is None else index(of[1], key, optional=True)
    return index(of, key)


def _optional(of: V, step: Callable[[V], V]) -> V:
    if of[0] == "optional":
        return of if of[1] is None else step(of[1])
    return step(of)


def _joined(node: Node, names: Names, *, decides: bool) -> V:
    """``&&`` and ``||``: a side that decides wins over an error of the other (§ Logical Operators)."""
    results: list[V | CelError] = []
    for side in (node[1], node[2]):
        try:
            value = run(side, names)
        except CelError as e:
            results.append(e)
            continue
        if value == ("bool", decides):
            return value
        results.append(value if value[0] == "bool" else no_overload())
    for result in results:
        if isinstance(result, CelError):
            raise result
    return ("bool", not decides)


def _list(items: list[tuple[bool, Node]], names: Names) -> V:
    found: list[V] = []
    for optional, item in items:
        value = run(item, names)
        if optional:
            if value[0] != "optional":
                raise CelError("argument")
            if value[1] is None:
                continue
            value = value[1]
        found.append(value)
    return ("list", found)


def _map(entries: list[tuple[bool, Node, Node]], names: Names) -> V:
    found: list[tuple[V, V]] = []
    for optional, key_node, value_node in entries:
        key, value = run(key_node, names), run(value_node, names)
        if optional:
            if value[0] != "optional":
                raise CelError("argument")
            if value[1] is None:
                continue
            value = value[1]
        _put(found, key, value)
    return ("map", found)


def _put(found: list[tuple[V, V]], key: V, value: V) -> None:
    if key[0] not in ("bool", "int", "uint", "string"):
        raise CelError("argument")
    if find(("map", found), key) is not None:
        raise CelError("duplicate_key")
    found.append((key, value))


def _fields(fields: list[tuple[bool, str, Node]], names: Names) -> dict[str, V]:
    found: dict[str, V] = {}
    for optional, name, node in fields:
        value = run(node, names)
        if optional:
            if value[1] is None:
                continue
            value = value[1]
        found[name] = value
    return found


# calls and macros


def _call(node: Node, names: Names) -> V:
    _, function, target, args = node
    macro = _MACROS.get((function, target is not None, len(args)))
    if macro is not None and (made := macro(target, args, names)) is not None:
        return made
    if target is not None and (space := qualified(target)) is not None and space.split(".")[0] not in names:
        name = f"{space}.{function}"
        if name in FUNCTIONS:
            return _apply(name, [run(a, names) for a in args])
        if space in _NAMESPACES:
            raise Unknown
    if target is not None and function in ("or", "orValue"):
        return _or(function, run(target, names), args[0], names)
    operands = [run(n, names) for n in ([target] if target is not None else []) + args]
    if function == "!":
        return unary_not(operands[0])
    if function not in FUNCTIONS:
        raise Unknown
    return _apply(function, operands)


def _apply(name: str, operands: list[V]) -> V:
    function = FUNCTIONS[name]
    try:
        signature(function).bind(*operands)
    except TypeError:
        raise no_overload() from None
    return function(*operands)


def _or(function: str, of: V, other: Node, names: Names) -> V:
    """The other side of ``or`` and ``orValue`` is evaluated only when it is needed."""
    if of[0] != "optional":
        return of
    if of[1] is not None:
        return of if function == "or" else of[1]
    return run(other, names)


def _elements(over: V) -> list[V]:
    match over[0]:
        case "list":
            return list(over[1])
        case "map":
            return [k for k, _ in over[1]]
    raise CelError("overload")


def _pairs(over: V) -> list[tuple[V, V]]:
    match over[0]:
        case "list":
            return [(("int", i), v) for i, v in enumerate(over[1])]
        case "map":
            return list(over[1])
    raise CelError("overload")


def _rounds(target: Node, variables: list[Node], names: Names) -> list[Names] | None:
    """The names of each round of a macro over ``target``; None when its variables are none."""
    if not all(v[0] == "ident" for v in variables):
        return None
    over = run(target, names)
    if len(variables) == 1:
        return [names.bind(**{variables[0][1]: x}) for x in _elements(over)]
    first, second = (v[1] for v in variables)
    return [names.bind(**{first: k, second: v}) for k, v in _pairs(over)]


def _quantifier(stops: bool) -> Callable[..., V | None]:
    """``exists`` (stops at true) and ``all`` (stops at false)."""

    def macro(target: Node, args: list[Node], names: Names) -> V | None:
        rounds = _rounds(target, args[:-1], names)
        if rounds is None:
            return None
        failure: CelError | None = None
        for inner in rounds:
            try:
                value = run(args[-1], inner)
            except CelError as e:
                failure = failure or e
                continue
            if value[0] != "bool":
                failure = failure or no_overload()
            elif value[1] is stops:
                return value
        if failure is not None:
            raise failure
        return ("bool", not stops)

    return macro


def _truth(node: Node, names: Names) -> bool:
    value = run(node, names)
    if value[0] != "bool":
        raise no_overload()
    return bool(value[1])


def _each(keep: Callable[[list[Any], Node, Names, list[Node]], None], variables: int, predicate: bool) -> Any:
    """A macro that gathers: ``keep`` adds what a round gives. The comprehension goes on after an error, and one of the
    predicate in a later round takes the place of those before."""

    def macro(target: Node, args: list[Node], names: Names) -> list[Any] | None:
        rounds = _rounds(target, args[:variables], names)
        if rounds is None:
            return None
        found: list[Any] = []
        failure: CelError | None = None
        for inner in rounds:
            if predicate:
                try:
                    holds = _truth(args[variables], inner)
                except CelError as e:
                    failure = e
                    continue
                if not holds:
                    continue
            try:
                keep(found, args[-1], inner, args)
            except CelError as e:
                failure = failure or e
        if failure is not None:
            raise failure
        return found

    return macro


def _keep_value(found: list[Any], node: Node, inner: Names, args: list[Node]) -> None:
    found.append(run(node, inner))


def _keep_element(found: list[Any], node: Node, inner: Names, args: list[Node]) -> None:
    found.append(inner[args[0][1]])


def _keep_entry(found: list[Any], node: Node, inner: Names, args: list[Node]) -> None:
    found.append((inner[args[0][1]], run(node, inner)))


def _keep_map(found: list[Any], node: Node, inner: Names, args: list[Node]) -> None:
    entry = run(node, inner)
    if entry[0] != "map":
        raise no_overload()
    for key, value in entry[1]:
        _put(found, key, value)


def _as(kind: str, macro: Any) -> Callable[..., V | None]:
    def made(target: Node, args: list[Node], names: Names) -> V | None:
        found = macro(target, args, names)
        return None if found is None else (kind, found)

    return made


def _one(variables: int) -> Callable[..., V | None]:
    count = _each(_keep_element, variables, predicate=True)

    def macro(target: Node, args: list[Node], names: Names) -> V | None:
        found = count(target, args, names)
        return None if found is None else ("bool", len(found) == 1)

    return macro


def _has(target: None, args: list[Node], names: Names) -> V | None:
    node = args[0]
    if node[0] not in ("select", "optselect"):
        return None
    full = qualified(node)
    if full is not None and full in names:
        return ("bool", True)
    of = run(node[1], names)
    if of[0] == "optional":
        if of[1] is None:
            return ("bool", False)
        of = of[1]
    if of[0] == "list":
        raise CelError("overload")
    return ("bool", of[0] == "map" and find(of, ("string", node[2])) is not None)


def _bind(target: Node, args: list[Node], names: Names) -> V | None:
    if target != ("ident", "cel") or args[0][0] != "ident":
        return None
    return run(args[2], names.bind_later(args[0][1], args[1]))


def _opt(flat: bool) -> Callable[..., V | None]:
    def macro(target: Node, args: list[Node], names: Names) -> V | None:
        if args[0][0] != "ident":
            return None
        of = run(target, names)
        if of[0] != "optional":
            raise no_overload()
        if of[1] is None:
            return of
        value = run(args[1], names.bind(**{args[0][1]: of[1]}))
        return value if flat else ("optional", value)

    return macro


def _sort_by(target: Node, args: list[Node], names: Names) -> V | None:
    rounds = _rounds(target, args[:1], names)
    if rounds is None:
        return None
    # The keys come first: what is wrong with one of them is told before what is sorted turns out to be a map.
    keyed = [(run(args[1], inner), inner[args[0][1]]) for inner in rounds]
    if run(target, names)[0] != "list":
        raise no_overload()
    return ("list", sort_by(keyed))


def _extreme(function: str) -> Callable[..., V | None]:
    def macro(target: Node, args: list[Node], names: Names) -> V | None:
        if target != ("ident", "math"):
            return None
        return _apply(function, [run(a, names) for a in args])

    return macro


_MACROS: dict[tuple[str, bool, int], Callable[..., V | None]] = {
    ("has", False, 1): _has,
    ("bind", True, 3): _bind,
    ("all", True, 2): _quantifier(False),
    ("all", True, 3): _quantifier(False),
    ("exists", True, 2): _quantifier(True),
    ("exists", True, 3): _quantifier(True),
    ("exists_one", True, 2): _one(1),
    ("existsOne", True, 2): _one(1),
    ("exists_one", True, 3): _one(2),
    ("existsOne", True, 3): _one(2),
    ("filter", True, 2): _as("list", _each(_keep_element, 1, predicate=True)),
    ("map", True, 2): _as("list", _each(_keep_value, 1, predicate=False)),
    ("map", True, 3): _as("list", _each(_keep_value, 1, predicate=True)),
    ("transformList", True, 3): _as("list", _each(_keep_value, 2, predicate=False)),
    ("transformList", True, 4): _as("list", _each(_keep_value, 2, predicate=True)),
    ("transformMap", True, 3): _as("map", _each(_keep_entry, 2, predicate=False)),
    ("transformMap", True, 4): _as("map", _each(_keep_entry, 2, predicate=True)),
    ("transformMapEntry", True, 3): _as("map", _each(_keep_map, 2, predicate=False)),
    ("transformMapEntry", True, 4): _as("map", _each(_keep_map, 2, predicate=True)),
    ("sortBy", True, 2): _sort_by,
    ("optMap", True, 2): _opt(flat=False),
    ("optFlatMap", True, 2): _opt(flat=True),
    **{("greatest", True, n): _extreme("math.greatest") for n in range(1, 12)},
    **{("least", True, n): _extreme("math.least") for n in range(1, 12)},
}
