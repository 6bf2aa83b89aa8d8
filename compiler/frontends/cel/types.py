"""The static types of CEL, and their text form.

Frozen records; ``parse_type`` reads the form that function tables use (``map(string, list(A))``), ``format_type``
writes the form cel-go prints in errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Prim:
    """``bool``, ``int``, ``uint``, ``double``, ``string``, ``bytes``, ``null_type``, ``dyn``, ``error``; the well-known
    ``google.protobuf.Timestamp`` and ``google.protobuf.Duration``; and opaque types without parameters
    (``kubernetes.Quantity``)."""

    name: str


@dataclass(frozen=True, slots=True)
class ListOf:
    item: Type


@dataclass(frozen=True, slots=True)
class MapOf:
    key: Type
    value: Type


@dataclass(frozen=True, slots=True)
class TypeOf:
    """The type of a type value; ``None`` is the type ``type`` itself."""

    of: Type | None = None


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A wrapper message: the primitive or null (``google.protobuf.Int64Value`` is ``wrapper(int)``)."""

    of: Prim


@dataclass(frozen=True, slots=True)
class Opaque:
    """A type with parameters that is no list and no map: ``optional_type(A)``, ``kubernetes.NamedFormat``."""

    name: str
    params: tuple[Type, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """A message by its full name: ``google.protobuf.Struct``, ``Object.spec`` of a mutation, one of a provider."""

    name: str


@dataclass(frozen=True, slots=True)
class Param:
    """A type parameter of a signature."""

    name: str


@dataclass(frozen=True, slots=True)
class Soft:
    """What a schema says a value is. The API server itself checks such values as ``dyn``: where an expression does not
    fit the schema that is a warning, and the value is ``dyn`` from there on. Never stands inside another type but a
    ``Soft`` list or map's element. ``plain`` is what the API server sees where that is not ``dyn``: a type variable
    that is still free, or the type of ``''`` in ``quantity.orValue('')``."""

    of: Type
    plain: Type | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Object:
    """An object of a schema. ``name`` finds its fields at the schema provider; ``fields`` are given instead for one
    that has no name (``variables``, ``request``). ``open``: other fields may be there and are ``dyn``."""

    name: str
    fields: Mapping[str, Type] | None = field(default=None, compare=False)
    open: bool = False


Type: TypeAlias = Prim | ListOf | MapOf | TypeOf | Wrapper | Opaque | Message | Param | Soft | Object

BOOL: Final = Prim("bool")
INT: Final = Prim("int")
UINT: Final = Prim("uint")
DOUBLE: Final = Prim("double")
STRING: Final = Prim("string")
BYTES: Final = Prim("bytes")
NULL: Final = Prim("null_type")
DYN: Final = Prim("dyn")
ERROR: Final = Prim("error")
TIMESTAMP: Final = Prim("google.protobuf.Timestamp")
DURATION: Final = Prim("google.protobuf.Duration")
QUANTITY_TEXT: Final = Prim("quantity-text")
"""A text (or number) of the schema that is a quantity: decision 6. It is ``string`` or ``dyn`` anywhere else."""
INT_OR_STRING: Final = Prim("int-or-string")
"""A schema's ``x-kubernetes-int-or-string``: ``dyn`` in every check."""
ANY: Final = Prim("google.protobuf.Any")
OPTIONAL: Final = "optional_type"

WELL_KNOWN: Final[Mapping[str, Type]] = {
    "google.protobuf.Any": ANY,
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.Duration": DURATION,
    "google.protobuf.Value": DYN,
    "google.protobuf.Struct": MapOf(STRING, DYN),
    "google.protobuf.ListValue": ListOf(DYN),
    "google.protobuf.BoolValue": Wrapper(BOOL),
    "google.protobuf.BytesValue": Wrapper(BYTES),
    "google.protobuf.DoubleValue": Wrapper(DOUBLE),
    "google.protobuf.FloatValue": Wrapper(DOUBLE),
    "google.protobuf.Int32Value": Wrapper(INT),
    "google.protobuf.Int64Value": Wrapper(INT),
    "google.protobuf.StringValue": Wrapper(STRING),
    "google.protobuf.UInt32Value": Wrapper(UINT),
    "google.protobuf.UInt64Value": Wrapper(UINT),
    "google.protobuf.Empty": Message("google.protobuf.Empty"),
}
"""The messages that every CEL knows, with the types they have in it (CEL spec § Dynamic Values)."""

BASIC: Final[Mapping[str, Type]] = {
    **{t.name: t for t in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL)},
    "list": ListOf(DYN),
    "map": MapOf(DYN, DYN),
    "type": TypeOf(),
}
"""The names of types that are values in every environment."""


@lru_cache(maxsize=1024)
def parse_type(text: str) -> Type:
    """The type that a function table writes as ``text``; a single capital letter is a parameter, a name without
    parameters that is not known an opaque type. Raises ValueError for what is no type: tables are the project's own."""
    t, end = _parse(text, 0)
    if text[end:].strip():
        raise ValueError(f"not a type: {text}")
    return t


def _parse(text: str, at: int) -> tuple[Type, int]:
    end = at
    while end < len(text) and text[end] not in "(,)":
        end += 1
    name = text[at:end].strip()
    params: list[Type] = []
    if end < len(text) and text[end] == "(":
        end += 1
        while True:
            param, end = _parse(text, end)
            params.append(param)
            if end >= len(text):
                raise ValueError(f"not a type: {text}")
            end += 1
            if text[end - 1] == ")":
                break
        while end < len(text) and text[end] == " ":
            end += 1
    return _named(name, tuple(params)), end


def _named(name: str, params: tuple[Type, ...]) -> Type:
    if not name:
        raise ValueError("a type has no name")
    match name, params:
        case "list", (item,):
            return ListOf(item)
        case "map", (key, value):
            return MapOf(key, value)
        case "type", (of,):
            return TypeOf(of)
        case "wrapper", (Prim() as of,):
            return Wrapper(of)
        case _, ():
            if len(name) == 1 and name.isupper():
                return Param(name)
            return WELL_KNOWN.get(name) or BASIC.get(name) or Prim(name)
        case _:
            return Opaque(name, params)


def optional_of(t: Type) -> Opaque:
    return Opaque(OPTIONAL, (t,))


_SHORT: Final = {
    "null_type": "null",
    "error": "!error!",
    TIMESTAMP.name: "timestamp",
    DURATION.name: "duration",
    ANY.name: "any",
}


def format_type(t: Type) -> str:
    """A type as cel-go prints it in errors: ``map(string, list(int))``, ``timestamp``, ``null``."""
    match t:
        case Prim(name):
            return _SHORT.get(name, name)
        case ListOf(item):
            return f"list({format_type(item)})"
        case MapOf(key, value):
            return f"map({format_type(key)}, {format_type(value)})"
        case TypeOf(None):
            return "type"
        case TypeOf(of):
            return f"type({format_type(of)})" if of is not None else "type"
        case Wrapper(of):
            return f"wrapper({format_type(of)})"
        case Opaque(name, ()):
            return name
        case Opaque(name, params):
            return f"{name}({', '.join(map(format_type, params))})"
        case Soft(of):
            return format_type(of)
        case Message(name) | Param(name) | Object(name):
            return name
