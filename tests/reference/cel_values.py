"""The values of the CEL reference evaluator: pairs of a type's name and a payload, their equality, order and JSON.

``("int", 3)``, ``("uint", 3)``, ``("list", [values])``, ``("map", [(key, value), …])``, ``("timestamp", nanoseconds)``,
``("duration", nanoseconds)``, ``("type", name)``, ``("optional", value or None)``, ``("quantity", Fraction)``,
``("ip", …)``, ``("cidr", …)``. Nothing is implicit, which is slow and easy to check against the specification.
"""

from __future__ import annotations

from typing import Any

V = tuple[str, Any]


class CelError(Exception):
    """An evaluation that failed; ``code`` is the kind of failure, the same word as the product's."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Unknown(Exception):
    """A function or type that this evaluator does not know: not an error of the expression, and so never absorbed."""


NUMBERS = ("int", "uint", "double")
NAMES = {
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "optional": "optional_type",
    "quantity": "kubernetes.Quantity",
    "ip": "net.IP",
    "cidr": "net.CIDR",
}
SAME = ("bool", "string", "bytes", "timestamp", "duration", "type", "quantity", "ip", "cidr")


def no_overload() -> CelError:
    return CelError("overload")


def numbers(a: V, b: V) -> tuple[int | float, int | float]:
    """Two numbers as they are compared: with a double among them both as doubles, beyond int64 and uint64 too (the
    specification's conformance tests call these comparisons lossy)."""
    if "double" in (a[0], b[0]):
        return float(a[1]), float(b[1])
    return int(a[1]), int(b[1])


def equal(a: V, b: V) -> bool:
    """Heterogeneous equality: values of different types are not equal, numbers compare by value (§ Equality)."""
    if a[0] in NUMBERS and b[0] in NUMBERS:
        x, y = numbers(a, b)
        return x == y
    if a[0] != b[0]:
        return False
    match a[0]:
        case "null":
            return True
        case "list":
            return len(a[1]) == len(b[1]) and all(equal(x, y) for x, y in zip(a[1], b[1], strict=True))
        case "map":
            if len(a[1]) != len(b[1]):
                return False
            for key, value in a[1]:
                other = find(b, key)
                if other is None or not equal(value, other):
                    return False
            return True
        case "optional":
            if a[1] is None or b[1] is None:
                return a[1] is b[1]
            return equal(a[1], b[1])
    return bool(a[1] == b[1])


def find(m: V, key: V) -> V | None:
    """The value under a key of a map, None without one."""
    for k, v in m[1]:
        if equal(k, key):
            return v  # type: ignore[no-any-return]
    return None


def compare(a: V, b: V) -> int:
    """-1, 0 or 1. Raises for values without an order; NaN is one of them, as cel-go has it (the specification leaves
    it open)."""
    if a[0] in NUMBERS and b[0] in NUMBERS:
        x, y = numbers(a, b)
        if x != x or y != y:
            raise CelError("argument")
        return (x > y) - (x < y)
    if a[0] != b[0] or a[0] not in ("bool", "string", "bytes", "timestamp", "duration"):
        raise no_overload()
    return int(a[1] > b[1]) - int(a[1] < b[1])


def from_json(x: Any) -> V:
    """A JSON value as the API server hands objects to CEL."""
    match x:
        case None:
            return ("null", None)
        case bool():
            return ("bool", x)
        case int():
            return ("int", x)
        case float():
            return ("double", x)
        case str():
            return ("string", x)
        case list():
            return ("list", [from_json(i) for i in x])
        case dict():
            return ("map", [(("string", k), from_json(v)) for k, v in x.items()])
    raise TypeError(type(x))


def type_name(v: V) -> str:
    return NAMES.get(v[0], v[0])


def plain(v: V) -> Any:
    """A form to compare results by: types apart, maps without order, NaN equal to itself."""
    match v[0]:
        case "double":
            return ("double", "nan" if v[1] != v[1] else v[1].hex())
        case "list":
            return ("list", tuple(plain(x) for x in v[1]))
        case "map":
            return ("map", frozenset((plain(k), plain(x)) for k, x in v[1]))
        case "optional":
            return ("optional", None if v[1] is None else plain(v[1]))
    return v
