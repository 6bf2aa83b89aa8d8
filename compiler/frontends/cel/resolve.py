"""What a name of an expression stands for (CEL spec § Name Resolution).

A name is looked up in the container first and then outwards; a leading dot asks for the root namespace alone. Variables
of an enclosing loop hide every name that begins with theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from compiler.frontends.cel.ast import Ident, Node, Select
from compiler.frontends.cel.checked import Constant, Variable
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.types import (
    BASIC,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    OPTIONAL,
    STRING,
    TIMESTAMP,
    UINT,
    WELL_KNOWN,
    ListOf,
    MapOf,
    Message,
    Object,
    Opaque,
    Prim,
    Type,
    TypeOf,
)
from vm.cel.values import TypeValue, UInt, type_name
from vm.values import Value

_ENUMS: Final[Mapping[str, int]] = {"google.protobuf.NullValue.NULL_VALUE": 0}

MESSAGE_FIELDS: Final[Mapping[str, Mapping[str, Type]]] = {
    "google.protobuf.Any": {"type_url": STRING, "value": BYTES},
    "google.protobuf.Timestamp": {"seconds": INT, "nanos": INT},
    "google.protobuf.Duration": {"seconds": INT, "nanos": INT},
    "google.protobuf.Struct": {"fields": MapOf(STRING, DYN)},
    "google.protobuf.ListValue": {"values": ListOf(DYN)},
    "google.protobuf.Value": {
        "null_value": INT,
        "number_value": DOUBLE,
        "string_value": STRING,
        "bool_value": BOOL,
        "struct_value": MapOf(STRING, DYN),
        "list_value": ListOf(DYN),
    },
    "google.protobuf.Empty": {},
    "google.protobuf.BoolValue": {"value": BOOL},
    "google.protobuf.BytesValue": {"value": BYTES},
    "google.protobuf.DoubleValue": {"value": DOUBLE},
    "google.protobuf.FloatValue": {"value": DOUBLE},
    "google.protobuf.Int32Value": {"value": INT},
    "google.protobuf.Int64Value": {"value": INT},
    "google.protobuf.StringValue": {"value": STRING},
    "google.protobuf.UInt32Value": {"value": UINT},
    "google.protobuf.UInt64Value": {"value": UINT},
}
"""The fields of the well-known messages (protobuf)."""

_VALUE_TYPES: Final[Mapping[str, Type]] = {
    t.name: t for t in (NULL, BOOL, INT, UINT, DOUBLE, STRING, BYTES, TIMESTAMP, DURATION)
}


def candidates(container: str, name: str) -> Iterator[str]:
    """The full names that a name may stand for, the innermost namespace first."""
    if name.startswith("."):
        yield name[1:]
        return
    while container:
        yield f"{container}.{name}"
        container = container.rpartition(".")[0]
    yield name


def qualified(node: Node) -> tuple[Ident, str] | None:
    """The ident that a chain of plain selects begins with and its whole name, None for what is no such chain."""
    names: list[str] = []
    while isinstance(node, Select):
        if node.test or node.optional:
            return None
        names.append(node.name)
        node = node.of
    if not isinstance(node, Ident):
        return None
    names.append(node.name.removeprefix("."))
    return node, ".".join(reversed(names))


def is_rooted(ident: Ident) -> bool:
    return ident.rooted or ident.name.startswith(".")


def value_type(v: Value) -> Type:
    """The static type of a constant."""
    if isinstance(v, UInt):
        return UINT
    if isinstance(v, TypeValue):
        return TypeOf(type_named(v.name) or Prim(v.name))
    name = type_name(v)
    return _VALUE_TYPES.get(name) or BASIC.get(name) or Prim(name)


def type_named(name: str) -> Type | None:
    """The type of a name that is known everywhere, None for any other."""
    return BASIC.get(name) or WELL_KNOWN.get(name)


class Names:
    """The names of one environment."""

    __slots__ = ("_constants", "_env", "_types")

    def __init__(self, env: Env) -> None:
        self._env = env
        self._constants: dict[str, Value] = {}
        self._types: dict[str, Type] = {}
        for library in env.libraries:
            self._constants.update(library.constants)
            for name in library.types:
                self._types[name] = Opaque(OPTIONAL) if name == OPTIONAL else type_named(name) or Prim(name)

    def lookup(self, name: str) -> tuple[Type, Variable | Constant] | None:
        """What a name that is no loop variable stands for, with its type."""
        for full in candidates(self._env.container, name):
            t = self._env.variables.get(full)
            if t is not None:
                return t, Variable(full)
            if full in self._constants:
                return value_type(self._constants[full]), Constant(self._constants[full])
            found = self.type_of_name(full)
            if found is not None:
                return TypeOf(found), Constant(TypeValue(_runtime_name(found, full)))
            if full in _ENUMS:
                return INT, Constant(_ENUMS[full])
        return None

    def type_of_name(self, full: str) -> Type | None:
        """The type with this full name."""
        t = type_named(full) or self._types.get(full)
        if t is None and self._env.messages.get(full) is not None:
            return Message(full)
        return t

    def message(self, name: str) -> tuple[str, Type] | None:
        """The full name and the type of a message as a struct literal writes it, also a type that is no message."""
        for full in candidates(self._env.container, name):
            if full in self._env.variables:
                return full, self._env.variables[full]
            t = self.type_of_name(full)
            if t is not None:
                return full, TypeOf(t)
        return None

    def fields(self, t: Type) -> Mapping[str, Type] | None:
        """The fields of a message or object, None for what has no fields that are known."""
        match t:
            case Message(name):
                found = MESSAGE_FIELDS.get(name)
                return found if found is not None else self._env.messages.get(name)
            case Object(name, fields):
                if fields is not None:
                    return fields
                return self._env.provider.fields(name) if self._env.provider is not None else None
            case _:
                return None

    def fields_named(self, name: str) -> Mapping[str, Type] | None:
        """The fields of the message with this full name."""
        found = MESSAGE_FIELDS.get(name)
        return found if found is not None else self._env.messages.get(name)

    def known(self) -> list[str]:
        """Every name of a variable, for suggestions."""
        return [*self._env.variables, *self._constants]


def _runtime_name(t: Type, full: str) -> str:
    """The name of a type's values at run time: wrappers and JSON messages are what they hold."""
    match t:
        case Prim(name):
            return name
        case ListOf():
            return "list"
        case MapOf():
            return "map"
        case TypeOf():
            return "type"
        case _:
            return full
