"""The values of CEL that JSON has not, and what all bodies of CEL functions share.

``None``, ``bool``, ``int`` (64 bits, checked by the arithmetic), ``float``, ``str``, ``bytes``, ``list`` and ``dict``
stand for themselves; a ``dict`` is a map all of whose keys are texts (an object of JSON, or a map literal), any other
map is a :class:`CelMap`. Wrapper messages (``google.protobuf.Int32Value`` …) are their value or ``None``, ``Struct``,
``Value`` and ``ListValue`` are maps and lists, ``Any`` is what it holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

from vm.values import MISSING, Err, Value

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1
UINT_MAX: Final = (1 << 64) - 1
SECOND: Final = 1_000_000_000
TIME_MIN: Final = -62_135_596_800 * SECOND
"""0001-01-01T00:00:00Z in nanoseconds."""
TIME_MAX: Final = 253_402_300_800 * SECOND - 1
"""9999-12-31T23:59:59.999999999Z in nanoseconds."""


class UInt(int):
    """An unsigned integer of 64 bits. A class of its own: ``type(v) is int`` never holds of it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A point in time: nanoseconds since 1970-01-01T00:00:00Z, of the years 1 to 9999. ``offset`` are the seconds east
    of UTC of the text it was read from: cel-go prints it so, nothing else depends on it."""

    CEL_TYPE: ClassVar[str] = "google.protobuf.Timestamp"
    nanos: int
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Duration:
    """A span of time in nanoseconds, 64 bits as cel-go keeps it."""

    CEL_TYPE: ClassVar[str] = "google.protobuf.Duration"
    nanos: int


@dataclass(frozen=True, slots=True)
class Optional:
    """``optional.of(value)``, or with MISSING ``optional.none()``."""

    CEL_TYPE: ClassVar[str] = "optional_type"
    value: Value = MISSING


NONE: Final = Optional()


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: what ``type(x)`` gives."""

    CEL_TYPE: ClassVar[str] = "type"
    name: str


MapKey: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class CelMap:
    """A map with a key that is no text. ``entries`` go from :func:`map_key` of a key to the key and its value."""

    CEL_TYPE: ClassVar[str] = "map"
    entries: dict[MapKey, tuple[Value, Value]]


@dataclass(frozen=True, slots=True)
class Record:
    """A message that stays one: ``Object{…}`` and ``JSONPatch{…}`` of mutations. ``fields`` are those that were set."""

    name: str
    fields: dict[str, Value]

    @property
    def CEL_TYPE(self) -> str:
        return self.name


def map_key(key: Value) -> MapKey:
    """What a key is found by: numbers meet by value whatever their type (CEL spec § Equality), booleans and texts stay
    apart from them. MISSING for a value that can be no key."""
    t = type(key)
    if t is str:
        return key
    if t is bool:
        return ("bool", key)
    if t is int or t is UInt:
        return int(key)
    if t is float and key.is_integer():
        return int(key)
    return MISSING


_NAMES: Final[dict[type, str]] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
}


def type_name(v: Value) -> str:
    """The name of a value's type as CEL prints it: ``int``, ``map``, ``google.protobuf.Timestamp``."""
    name = _NAMES.get(type(v))
    return name if name is not None else str(getattr(v, "CEL_TYPE", "dyn"))


_DISPATCHING: Final = frozenset({int, UInt, float, str, bytes, list, Timestamp, Duration})


def no_operator(name: str, *operands: Value) -> Err:
    """As :func:`mismatch` for an operator that looks at its first operand: cel-go names the operator
    (``no such overload: _+_``) where a value of that type has no operators at all."""
    for x in operands:
        if type(x) is Err:
            return x
    return Err("overload", "no such overload" if type(operands[0]) in _DISPATCHING else f"no such overload: {name}")


def no_overload(name: str, *operands: Value) -> Err:
    """The first operand that is an error; without one the error that no overload takes these operands, in cel-go's
    words."""
    for x in operands:
        if type(x) is Err:
            return x
    return Err("overload", f"no such overload: {name}({', '.join(map(type_name, operands))})")


def mismatch(*operands: Value) -> Err:
    """As :func:`no_overload`, in the words of cel-go's operators: ``no such overload``."""
    for x in operands:
        if type(x) is Err:
            return x
    return Err("overload", "no such overload")


def first_error(*operands: Value) -> Err | None:
    """The first operand that is an error."""
    for x in operands:
        if type(x) is Err:
            return x
    return None
