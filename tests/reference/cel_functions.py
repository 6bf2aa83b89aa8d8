"""The functions of the CEL reference evaluator, by name; methods take their receiver first.

Written from the specification and the extensions' documents, one small function a name. A value that no overload takes
raises ``CelError("overload")``.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

import re2

from tests.reference.cel_conversions import (
    INT,
    SECOND,
    UINT,
    bounded,
    kinds,
    moment,
    part,
    quotient,
    span,
    to_bool,
    to_bytes,
    to_double,
    to_duration,
    to_int,
    to_string,
    to_timestamp,
    to_uint,
)
from tests.reference.cel_quantities import QUANTITIES
from tests.reference.cel_values import NUMBERS, CelError, Unknown, V, compare, equal, find, no_overload, type_name

# operators


def unary_not(a: V) -> V:
    if a[0] != "bool":
        raise no_overload()
    return ("bool", not a[1])


def negate(a: V) -> V:
    if a[0] == "int":
        return bounded("int", -a[1])
    if a[0] == "double":
        return ("double", -a[1])
    if a[0] == "duration":
        return span(-a[1])
    raise no_overload()


def add(a: V, b: V) -> V:
    match kinds(a, b):
        case ("int", "int") | ("uint", "uint"):
            return bounded(a[0], a[1] + b[1])
        case ("double", "double") | ("string", "string") | ("bytes", "bytes") | ("list", "list"):
            return (a[0], a[1] + b[1])
        case ("duration", "duration"):
            return span(a[1] + b[1])
        case ("timestamp", "duration") | ("duration", "timestamp"):
            return moment(a[1] + b[1])
    raise no_overload()


def subtract(a: V, b: V) -> V:
    match kinds(a, b):
        case ("int", "int") | ("uint", "uint"):
            return bounded(a[0], a[1] - b[1])
        case ("double", "double"):
            return ("double", a[1] - b[1])
        case ("duration", "duration") | ("timestamp", "timestamp"):
            return span(a[1] - b[1])
        case ("timestamp", "duration"):
            return moment(a[1] - b[1])
    raise no_overload()


def multiply(a: V, b: V) -> V:
    match kinds(a, b):
        case ("int", "int") | ("uint", "uint"):
            return bounded(a[0], a[1] * b[1])
        case ("double", "double"):
            return ("double", a[1] * b[1])
    raise no_overload()


def divide(a: V, b: V) -> V:
    match kinds(a, b):
        case ("int", "int") | ("uint", "uint"):
            if b[1] == 0:
                raise CelError("divide")
            quotient = abs(a[1]) // abs(b[1])
            return bounded(a[0], quotient if (a[1] < 0) == (b[1] < 0) else -quotient)
        case ("double", "double"):
            if b[1] == 0:
                if a[1] == 0 or a[1] != a[1]:
                    return ("double", math.nan)
                return ("double", math.copysign(math.inf, a[1]) * math.copysign(1, b[1]))
            return ("double", a[1] / b[1])
    raise no_overload()


def modulo(a: V, b: V) -> V:
    if kinds(a, b) not in (("int", "int"), ("uint", "uint")):
        raise no_overload()
    if b[1] == 0:
        raise CelError("divide")
    if (a[1], b[1]) == (INT[0], -1):
        raise CelError("range")
    rest = abs(a[1]) % abs(b[1])
    return (a[0], -rest if a[1] < 0 else rest)


def order(holds: Callable[[int], bool]) -> Callable[[V, V], V]:
    def ordered(a: V, b: V) -> V:
        return ("bool", holds(compare(a, b)))

    return ordered


def member(a: V, b: V) -> V:
    if b[0] == "list":
        return ("bool", any(equal(a, x) for x in b[1]))
    if b[0] == "map":
        return ("bool", find(b, a) is not None)
    raise no_overload()


def index(of: V, key: V, *, optional: bool = False) -> V:
    """``of[key]``; with ``optional`` an optional instead of an error where there is nothing."""
    if of[0] != "list" and key[0] not in ("bool", "string", *NUMBERS):
        raise no_overload()
    if of[0] == "list":
        if key[0] not in NUMBERS:
            raise CelError("overload")
        at = key[1]
        if at != at or at in (math.inf, -math.inf) or at != int(at):
            raise CelError("index")
        there = 0 <= at < len(of[1])
        if optional:
            return ("optional", of[1][int(at)] if there else None)
        if not there:
            raise CelError("index")
        return of[1][int(at)]  # type: ignore[no-any-return]
    if of[0] == "map":
        found = find(of, key)
        if optional:
            return ("optional", found)
        if found is None:
            raise CelError("no_such_key")
        return found
    if optional:
        return ("optional", None)
    raise CelError("no_such_key")


def size(a: V) -> V:
    if a[0] not in ("string", "bytes", "list", "map"):
        raise no_overload()
    return ("int", len(a[1]))


# texts


def texts(*values: V) -> list[str]:
    if any(v[0] != "string" for v in values):
        raise no_overload()
    return [v[1] for v in values]


def on_texts(work: Callable[..., Any], kind: str) -> Callable[..., V]:
    return lambda *values: (kind, work(*texts(*values)))


def matches(a: V, b: V) -> V:
    text, pattern = texts(a, b)
    return ("bool", regex(pattern).search(text) is not None)


def regex(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        raise CelError("argument") from None


def char_at(a: V, b: V) -> V:
    if kinds(a, b) != ("string", "int"):
        raise no_overload()
    if not 0 <= b[1] <= len(a[1]):
        raise CelError("index")
    return ("string", a[1][b[1] : b[1] + 1])


def _searched(a: V, b: V, start: V | None, last: bool) -> V:
    if kinds(a, b) != ("string", "string") or (start is not None and start[0] != "int"):
        raise no_overload()
    text, wanted = a[1], b[1]
    if wanted == "":
        return ("int", start[1] if start is not None else len(text) if last else 0)
    if last:
        at = len(text) if start is None else start[1]
        if start is not None and not 0 <= at <= len(text):
            raise CelError("index")
        return ("int", text.rfind(wanted, 0, at + len(wanted)))
    at = 0 if start is None else start[1]
    if start is not None and not 0 <= at <= len(text):
        raise CelError("index")
    return ("int", text.find(wanted, at))


def index_of(a: V, b: V, start: V | None = None) -> V:
    if a[0] == "list" and start is None:
        return ("int", next((n for n, x in enumerate(a[1]) if equal(x, b)), -1))
    return _searched(a, b, start, last=False)


def last_index_of(a: V, b: V, start: V | None = None) -> V:
    if a[0] == "list" and start is None:
        return ("int", max((n for n, x in enumerate(a[1]) if equal(x, b)), default=-1))
    return _searched(a, b, start, last=True)


def join(a: V, separator: V = ("string", "")) -> V:
    if a[0] != "list" or separator[0] != "string":
        raise no_overload()
    # The overload is found by the first element alone (cel-go).
    if a[1] and a[1][0][0] != "string":
        raise no_overload()
    if any(x[0] != "string" for x in a[1]):
        raise CelError("argument")
    return ("string", separator[1].join(x[1] for x in a[1]))


def split(a: V, separator: V, limit: V = ("int", -1)) -> V:
    text, mark = texts(a, separator)
    if limit[0] != "int":
        raise no_overload()
    n = limit[1]
    if n == 0:
        return ("list", [])
    if mark == "":
        pieces = list(text) if n < 0 or n > len(text) else [*text[: n - 1], text[n - 1 :]]
    else:
        pieces = text.split(mark, -1 if n < 0 else n - 1)
    return ("list", [("string", p) for p in pieces])


def replace(a: V, old: V, new: V, limit: V = ("int", -1)) -> V:
    text, before, after = texts(a, old, new)
    if limit[0] != "int":
        raise no_overload()
    return ("string", text.replace(before, after, -1 if limit[1] < 0 else limit[1]))


def substring(a: V, start: V, end: V | None = None) -> V:
    if a[0] != "string" or start[0] != "int" or (end is not None and end[0] != "int"):
        raise no_overload()
    low, high = start[1], len(a[1]) if end is None else end[1]
    if not 0 <= low <= len(a[1]) or not 0 <= high <= len(a[1]):
        raise CelError("index")
    if high < low:
        raise CelError("index")
    return ("string", a[1][low:high])


_ASCII_LOWER = {n: n + 32 for n in range(65, 91)}
_ASCII_UPPER = {n: n - 32 for n in range(97, 123)}
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001"
_SPACE += "\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


def reverse(a: V) -> V:
    if a[0] not in ("string", "list"):
        raise no_overload()
    return (a[0], a[1][::-1])


# math


def extreme(wanted: int) -> Callable[..., V]:
    def pick(*values: V) -> V:
        items = list(values[0][1]) if len(values) == 1 and values[0][0] == "list" else list(values)
        if not items:
            raise CelError("argument")
        if any(v[0] not in NUMBERS for v in items):
            raise no_overload()
        best = items[0]
        for v in items[1:]:
            if compare(v, best) == wanted:
                best = v
        return best

    return pick


def on_double(work: Callable[[float], Any], kind: str) -> Callable[[V], V]:
    def call(a: V) -> V:
        if a[0] != "double":
            raise no_overload()
        return (kind, work(a[1]))

    return call


def whole(work: Callable[[float], int]) -> Callable[[float], float]:
    return lambda x: math.copysign(float(work(x)), x) if math.isfinite(x) else x


def round_away(x: float) -> int:
    exact = Fraction(x)
    n = math.floor(abs(exact) + Fraction(1, 2))
    return n if exact >= 0 else -n


def absolute(a: V) -> V:
    if a[0] == "int":
        return bounded("int", abs(a[1]))
    if a[0] in ("uint", "double"):
        return (a[0], abs(a[1]))
    raise no_overload()


def sign(a: V) -> V:
    if a[0] in ("int", "uint"):
        return (a[0], (a[1] > 0) - (a[1] < 0))
    if a[0] == "double":
        return a if a[1] != a[1] else ("double", float((a[1] > 0) - (a[1] < 0)))
    raise no_overload()


def root(a: V) -> V:
    if a[0] not in NUMBERS:
        raise no_overload()
    x = float(a[1])
    return ("double", math.sqrt(x) if x >= 0 else math.nan)


def bits(work: Callable[[int, int], int]) -> Callable[[V, V], V]:
    def call(a: V, b: V) -> V:
        if kinds(a, b) not in (("int", "int"), ("uint", "uint")):
            raise no_overload()
        return (a[0], work(a[1], b[1]))

    return call


def bit_not(a: V) -> V:
    if a[0] == "int":
        return ("int", ~a[1])
    if a[0] == "uint":
        return ("uint", UINT[1] ^ a[1])
    raise no_overload()


def shift(left: bool) -> Callable[[V, V], V]:
    def call(a: V, b: V) -> V:
        if a[0] not in ("int", "uint") or b[0] != "int":
            raise no_overload()
        if b[1] < 0:
            raise CelError("argument")
        value = a[1] & UINT[1]
        value = 0 if b[1] > 63 else (value << b[1]) & UINT[1] if left else value >> b[1]
        return (a[0], value - (1 << 64) if a[0] == "int" and value >> 63 else value)

    return call


# lists and sets


def items(a: V) -> list[V]:
    if a[0] != "list":
        raise no_overload()
    return list(a[1])


def cut(a: V, start: V, end: V) -> V:
    found = items(a)
    if kinds(start, end) != ("int", "int"):
        raise no_overload()
    if start[1] < 0 or end[1] < 0 or start[1] > end[1] or end[1] > len(found):
        raise CelError("index")
    return ("list", found[start[1] : end[1]])


def flatten(a: V, depth: V = ("int", 1)) -> V:
    if depth[0] != "int":
        raise no_overload()
    if depth[1] < 0:
        raise CelError("argument")
    found: list[V] = []
    for x in items(a):
        if x[0] == "list" and depth[1] > 0:
            found += flatten(x, ("int", depth[1] - 1))[1]
        else:
            found.append(x)
    return ("list", found)


def distinct(a: V) -> V:
    found: list[V] = []
    for x in items(a):
        if not any(equal(x, y) for y in found):
            found.append(x)
    return ("list", found)


def contains_all(a: V, b: V) -> V:
    here = items(a)
    return ("bool", all(any(equal(x, y) for y in here) for x in items(b)))


def equivalent(a: V, b: V) -> V:
    return ("bool", contains_all(a, b)[1] and contains_all(b, a)[1])


def intersects(a: V, b: V) -> V:
    there = items(b)
    return ("bool", any(equal(x, y) for x in items(a) for y in there))


def lists_range(a: V) -> V:
    """How long a list may be is left to who evaluates; beyond this size nobody is asked."""
    if a[0] != "int":
        raise no_overload()
    if a[1] > 1000:
        raise Unknown
    return ("list", [("int", n) for n in range(a[1])])


_ORDERED = frozenset({"int", "uint", "double", "bool", "string", "bytes", "timestamp", "duration"})


def is_sorted(a: V) -> V:
    """Whether no element is less than the one before it; what has no order among itself is not less (Kubernetes). What
    stands behind the first that is less is not looked at."""
    found = items(a)
    for i, x in enumerate(found):
        if x[0] not in _ORDERED:
            raise no_overload()
        if i and _less(x, found[i - 1]):
            return ("bool", False)
    return ("bool", True)


def _less(x: V, y: V) -> bool:
    try:
        return compare(x, y) < 0
    except CelError:
        return False


def sort_by(keyed: list[tuple[V, V]]) -> list[V]:
    """The second of each pair in the order of the first, which are of one type."""
    sortable = ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")
    if any(key[0] != keyed[0][0][0] or key[0] not in sortable for key, _ in keyed):
        raise CelError("argument")
    if any(key[1] != key[1] for key, _ in keyed):
        raise Unknown  # where NaN comes to stand is left open

    def order(a: tuple[V, V], b: tuple[V, V]) -> int:
        return compare(a[0], b[0])

    return [x for _, x in sorted(keyed, key=cmp_to_key(order))]


def total(a: V) -> V:
    found = items(a)
    if not found:
        raise Unknown  # nothing of which type is known to the checker alone
    result = found[0]
    if result[0] not in ("int", "uint", "double", "duration"):
        raise no_overload()
    for x in found[1:]:
        result = add(result, x)
    return result


def edge(wanted: int) -> Callable[[V], V]:
    """``min`` and ``max`` of the Kubernetes library: an element of another comparable type is passed over, one of a
    type without an order has no overload."""

    def pick(a: V) -> V:
        found = items(a)
        if not found:
            raise CelError("argument")
        if any(x[0] not in _ORDERED for x in found):
            raise no_overload()
        best = found[0]
        for x in found[1:]:
            try:
                better = compare(x, best) == wanted
            except CelError:
                continue
            best = x if better else best
        return best

    return pick


# optionals and encoders


_YEAR_ONE = -62135596800 * 10**9


def zero(a: V) -> bool:
    if a[0] == "timestamp":
        return bool(a[1] == _YEAR_ONE)
    return a[0] == "null" or (a[0] not in ("type", "optional") and not a[1])


def value_of(a: V) -> V:
    if a[0] != "optional":
        raise no_overload()
    if a[1] is None:
        raise CelError("argument")
    return a[1]  # type: ignore[no-any-return]


def has_value(a: V) -> V:
    if a[0] != "optional":
        raise no_overload()
    return ("bool", a[1] is not None)


def decode(a: V) -> V:
    (text,) = texts(a)
    text = text.replace("\r", "").replace("\n", "")
    try:
        # With all of its padding, or with none.
        padding = "" if "=" in text else "=" * (-len(text) % 4)
        return ("bytes", base64.b64decode(text + padding, validate=True))
    except ValueError:
        raise CelError("argument") from None


def encode(a: V) -> V:
    if a[0] != "bytes":
        raise no_overload()
    return ("string", base64.b64encode(a[1]).decode())


def construct(name: str, fields: dict[str, V]) -> V:
    """A well-known message as the value that it is."""
    kind = name.removeprefix("google.protobuf.")
    defaults = {"BoolValue": ("bool", False), "StringValue": ("string", ""), "BytesValue": ("bytes", b"")}
    defaults |= {"Int32Value": ("int", 0), "Int64Value": ("int", 0), "UInt32Value": ("uint", 0)}
    defaults |= {"UInt64Value": ("uint", 0), "FloatValue": ("double", 0.0), "DoubleValue": ("double", 0.0)}
    if kind in defaults:
        value = fields.get("value", defaults[kind])
        return ("double", struct.unpack("f", struct.pack("f", value[1]))[0]) if kind == "FloatValue" else value
    if kind == "Timestamp":
        return moment(fields.get("seconds", ("int", 0))[1] * SECOND + fields.get("nanos", ("int", 0))[1])
    if kind == "Duration":
        return span(fields.get("seconds", ("int", 0))[1] * SECOND + fields.get("nanos", ("int", 0))[1])
    if kind == "Struct":
        return fields.get("fields", ("map", []))
    raise Unknown


FUNCTIONS: dict[str, Callable[..., V]] = {
    "==": lambda a, b: ("bool", equal(a, b)),
    "!=": lambda a, b: ("bool", not equal(a, b)),
    "<": order(lambda s: s < 0),
    "<=": order(lambda s: s <= 0),
    ">": order(lambda s: s > 0),
    ">=": order(lambda s: s >= 0),
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": modulo,
    "neg": negate,
    "in": member,
    "size": size,
    "int": to_int,
    "uint": to_uint,
    "double": to_double,
    "string": to_string,
    "bytes": to_bytes,
    "bool": to_bool,
    "dyn": lambda a: a,
    "type": lambda a: ("type", type_name(a)),
    "timestamp": to_timestamp,
    "duration": to_duration,
    "getFullYear": part(lambda t, n: t.year),
    "getMonth": part(lambda t, n: t.month - 1),
    "getDate": part(lambda t, n: t.day),
    "getDayOfMonth": part(lambda t, n: t.day - 1),
    "getDayOfWeek": part(lambda t, n: t.isoweekday() % 7),
    "getDayOfYear": part(lambda t, n: t.timetuple().tm_yday - 1),
    "getHours": part(lambda t, n: t.hour, lambda d: quotient(d, 3600 * SECOND)),
    "getMinutes": part(lambda t, n: t.minute, lambda d: quotient(d, 60 * SECOND)),
    "getSeconds": part(lambda t, n: t.second, lambda d: quotient(d, SECOND)),
    "getMilliseconds": part(lambda t, n: n // 10**6, lambda d: quotient(d, 10**6)),
    "contains": on_texts(lambda a, b: b in a, "bool"),
    "startsWith": on_texts(lambda a, b: a.startswith(b), "bool"),
    "endsWith": on_texts(lambda a, b: a.endswith(b), "bool"),
    "matches": matches,
    "find": on_texts(lambda a, b: m[0] if (m := regex(b).search(a)) else "", "string"),
    "charAt": char_at,
    "indexOf": index_of,
    "lastIndexOf": last_index_of,
    "join": join,
    "split": split,
    "replace": replace,
    "substring": substring,
    "lowerAscii": on_texts(lambda a: a.translate(_ASCII_LOWER), "string"),
    "upperAscii": on_texts(lambda a: a.translate(_ASCII_UPPER), "string"),
    "trim": on_texts(lambda a: a.strip(_SPACE), "string"),
    "reverse": reverse,
    "math.greatest": extreme(1),
    "math.least": extreme(-1),
    "math.ceil": on_double(whole(math.ceil), "double"),
    "math.floor": on_double(whole(math.floor), "double"),
    "math.round": on_double(whole(round_away), "double"),
    "math.trunc": on_double(whole(math.trunc), "double"),
    "math.isInf": on_double(math.isinf, "bool"),
    "math.isNaN": on_double(math.isnan, "bool"),
    "math.isFinite": on_double(math.isfinite, "bool"),
    "math.abs": absolute,
    "math.sign": sign,
    "math.sqrt": root,
    "math.bitAnd": bits(lambda a, b: a & b),
    "math.bitOr": bits(lambda a, b: a | b),
    "math.bitXor": bits(lambda a, b: a ^ b),
    "math.bitNot": bit_not,
    "math.bitShiftLeft": shift(left=True),
    "math.bitShiftRight": shift(left=False),
    "slice": cut,
    "flatten": flatten,
    "distinct": distinct,
    "lists.range": lists_range,
    "sets.contains": contains_all,
    "sets.equivalent": equivalent,
    "sets.intersects": intersects,
    "isSorted": is_sorted,
    "sort": lambda a: ("list", sort_by([(x, x) for x in items(a)])),
    "sum": total,
    "min": edge(-1),
    "max": edge(1),
    "base64.encode": encode,
    "base64.decode": decode,
    "optional.of": lambda a: ("optional", a),
    "optional.none": lambda: ("optional", None),
    "optional.ofNonZeroValue": lambda a: ("optional", None if zero(a) else a),
    "value": value_of,
    "hasValue": has_value,
    **QUANTITIES,
}
