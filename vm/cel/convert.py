"""The conversions of CEL: ``int(x)``, ``string(x)``, ``timestamp(x)`` …, with cel-go's ranges, texts and errors.

Called as intrinsics. A value of a library that ``string`` takes has a method ``cel_text() -> str``.
"""

from __future__ import annotations

import re
from math import isinf
from typing import Final

from vm.cel.arith import OVERFLOW, TIME_OVERFLOW, UINT_OVERFLOW
from vm.cel.time import duration_text, read_duration, read_timestamp, rfc3339
from vm.cel.values import (
    INT_MAX,
    INT_MIN,
    SECOND,
    TIME_MAX,
    TIME_MIN,
    UINT_MAX,
    Duration,
    Timestamp,
    TypeValue,
    UInt,
    no_overload,
    type_name,
)
from vm.intrinsics.text import go_float
from vm.values import Err, Value

_INT_TEXT: Final = re.compile(r"([+-]?)0*([0-9]{1,20})", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9][0-9_]*)?\.?(?:[0-9][0-9_]*)?(?:[eE][+-]?[0-9][0-9_]*)?", re.ASCII)
_HEX: Final = re.compile(r"[+-]?0[xX]_?[0-9a-fA-F_]*\.?[0-9a-fA-F_]*[pP][+-]?[0-9][0-9_]*", re.ASCII)
_SPECIAL: Final = re.compile(r"[+-]?inf(?:inity)?|nan", re.ASCII | re.IGNORECASE)
_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_TOP: Final = 2.0**63
_UINT_TOP: Final = 2.0**64


def _unreadable(to: str, source: str = "string") -> Err:
    return Err("conversion", f"type conversion error from '{source}' to '{to}'")


def to_int(v: Value) -> Value:
    """``int(x)``: of a number (cut towards zero), a decimal text, a timestamp (seconds) or a duration (nanoseconds)."""
    t = type(v)
    if t is int:
        return v
    if t is UInt:
        return int(v) if v <= INT_MAX else OVERFLOW
    if t is float:
        return int(v) if -_TOP < v < _TOP else OVERFLOW
    if t is str:
        found = _INT_TEXT.fullmatch(v)
        if found is not None:
            n = -int(found[2]) if found[1] == "-" else int(found[2])
            if INT_MIN <= n <= INT_MAX:
                return n
        return _unreadable("int")
    if t is Timestamp:
        return v.nanos // SECOND
    if t is Duration:
        return v.nanos
    return no_overload("int", v)


def to_uint(v: Value) -> Value:
    """``uint(x)``: of a number that is not negative (cut towards zero) or a text of digits."""
    t = type(v)
    if t is UInt:
        return v
    if t is int:
        return UInt(v) if 0 <= v <= UINT_MAX else UINT_OVERFLOW
    if t is float:
        return UInt(int(v)) if 0 <= v < _UINT_TOP else UINT_OVERFLOW
    if t is str:
        found = _INT_TEXT.fullmatch(v)
        if found is not None and not found[1] and int(found[2]) <= UINT_MAX:
            return UInt(found[2])
        return _unreadable("uint")
    return no_overload("uint", v)


def to_double(v: Value) -> Value:
    """``double(x)``: of a number or a text, decimal or hexadecimal as Go reads it."""
    t = type(v)
    if t is float:
        return v
    if t is int or t is UInt:
        return float(v)
    if t is str:
        n = _read_double(v)
        return _unreadable("double") if n is None else n
    return no_overload("double", v)


def _read_double(text: str) -> float | None:
    if _SPECIAL.fullmatch(text) is not None:
        return float(text)
    try:
        if _DECIMAL.fullmatch(text) is not None:
            n = float(text)
        elif _HEX.fullmatch(text) is not None and _parted(text):
            n = float.fromhex(text.replace("_", ""))
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return None if isinf(n) else n


def _parted(text: str) -> bool:
    """Whether every underscore of a hexadecimal number stands between digits or after the prefix."""
    return re.search(r"__|_[^0-9a-fA-F]|[^0-9a-fA-FxX]_|[pP][^_]*_$|_$", text) is None


def to_string(v: Value) -> Value:
    """``string(x)``: of a number, bool, text, UTF-8 bytes, timestamp or duration, or a library's value with a text."""
    match v:
        case str():
            return v
        case bool():
            return "true" if v else "false"
        case int():
            return format(v, "d")
        case float():
            return go_float(v)
        case bytes():
            try:
                return v.decode()
            except UnicodeDecodeError:
                return Err("conversion", "invalid UTF-8 in bytes, cannot convert to string")
        case Timestamp():
            return rfc3339(v)
        case Duration():
            return duration_text(v)
    text = getattr(v, "cel_text", None)
    return no_overload("string", v) if text is None else text()


def to_bytes(v: Value) -> Value:
    """``bytes(x)``: the UTF-8 of a text."""
    t = type(v)
    if t is str:
        return v.encode("utf-8", "replace")
    return v if t is bytes else no_overload("bytes", v)


def to_bool(v: Value) -> Value:
    """``bool(x)``: of a bool or one of the texts that Go takes (``1 t T true True TRUE`` and their opposites)."""
    t = type(v)
    if t is bool:
        return v
    if t is str:
        known = _BOOLS.get(v)
        return _unreadable("bool") if known is None else known
    return no_overload("bool", v)


def to_timestamp(v: Value) -> Value:
    """``timestamp(x)``: of a text in RFC 3339 or seconds since 1970."""
    t = type(v)
    if t is str:
        found = read_timestamp(v)
        return _unreadable(Timestamp.CEL_TYPE) if found is None else found
    if t is int:
        return Timestamp(v * SECOND) if TIME_MIN <= v * SECOND <= TIME_MAX else TIME_OVERFLOW
    return v if t is Timestamp else no_overload("timestamp", v)


def to_duration(v: Value) -> Value:
    """``duration(x)``: of a text in Go's form. cel-go declares it for an int and fails at it."""
    t = type(v)
    if t is str:
        found = read_duration(v)
        return _unreadable(Duration.CEL_TYPE) if found is None else found
    if t is int:
        return _unreadable(Duration.CEL_TYPE, "int")
    return v if t is Duration else no_overload("duration", v)


def to_type(v: Value) -> Value:
    """``type(x)``."""
    return v if type(v) is Err else TypeValue(type_name(v))


def to_dyn(v: Value) -> Value:
    """``dyn(x)``: the value as it is."""
    return v
