"""The static types of CEL, and their text form.

Frozen records; ``parse_type`` reads the form that function tables use (``map(string, list(A))``), ``str`` writes the
form cel-go prints in errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    ``Soft`` list or map's element."""

    of: Type


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
