"""Values in the words of error texts, as Go's ``%v`` prints them for cel-go (``no such key: 1e+30``), and as JSON data.

Called where an error names a key, an index or a value, and where a value of CEL is written as JSON text."""

from __future__ import annotations

from base64 import b64encode
from typing import Final

from vm.cel.values import CelMap, Duration, Optional, Record, Timestamp, TypeValue, UInt, type_name
from vm.intrinsics.duration import format_duration
from vm.intrinsics.text import go_float
from vm.values import MISSING, Value

_LONGEST: Final = 1024
"""An error text repeats no more of a value than this many characters: a request may choose the value."""
_MOST: Final = 256
_DEEPEST: Final = 16


def display(v: Value) -> str:
    """The text of a value, cut at 1,024 characters."""
    text = _shown(v, 0)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _shown(v: Value, depth: int) -> str:
    if depth > _DEEPEST:
        return "…"
    match v:
        case str():
            return v[: _LONGEST + 1]
        case None:
            return "0"
        case bool():
            return "true" if v else "false"
        case int():
            return format(v, "d") if v.bit_length() < 1024 else "…"
        case float():
            return go_float(v)
        case bytes():
            return f"[{' '.join(map(str, v[:_MOST]))}]"
        case list():
            return f"[{', '.join(_shown(x, depth + 1) for x in v[:_MOST])}]"
        case dict():
            return _map(list(v.items())[:_MOST], depth)
        case CelMap(entries=entries):
            return _map(list(entries.values())[:_MOST], depth)
        case Duration(nanos=n):
            return format_duration(n)
        case Timestamp():
            from vm.cel.time import rfc3339

            return rfc3339(v)
        case Optional(value=inner):
            return "optional.none()" if inner is MISSING else f"optional({_shown(inner, depth + 1)})"
        case TypeValue(name=name):
            return name
    return type_name(v)


def _map(pairs: list[tuple[Value, Value]], depth: int) -> str:
    return f"{{{', '.join(f'{_shown(k, depth + 1)}: {_shown(x, depth + 1)}' for k, x in pairs)}}}"


def json_form(v: Value) -> Value:
    """The JSON data of a value that JSON has not, one layer of it: bytes as base64, times as text, maps with texts as
    keys, an optional value as what it holds or null, a value of a library as its text."""
    match v:
        case UInt():
            return int(v)
        case bytes():
            return b64encode(v).decode()
        case Timestamp():
            from vm.cel.time import rfc3339

            return rfc3339(v)
        case Duration():
            from vm.cel.time import duration_text

            return duration_text(v)
        case CelMap(entries=entries):
            return {k if type(k) is str else display(k): x for k, x in entries.values()}
        case Optional(value=inner):
            return None if inner is MISSING else inner
        case Record(fields=fields):
            return fields
        case TypeValue(name=name):
            return name
    text = getattr(v, "cel_text", None)
    return type_name(v) if text is None else text()
