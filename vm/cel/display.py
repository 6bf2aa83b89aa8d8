"""Values in the words of error texts, as Go's ``%v`` prints them for cel-go: ``no such key: 1e+30``.

Called where an error names a key, an index or a value."""

from __future__ import annotations

from typing import Final

from vm.cel.values import CelMap, Duration, Optional, Timestamp, TypeValue, type_name
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
