"""The bodies of cel-go's ``strings`` extension, but ``format`` (``vm.cel.format``). Positions count code points."""

from __future__ import annotations

from typing import Final

from vm.cel.display import display
from vm.cel.equality import equal
from vm.cel.limits import MAX_TEXT, TOO_LONG
from vm.cel.values import no_overload
from vm.fuel import CHUNK
from vm.host import Meter
from vm.values import Err, Value

_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
"""White space as Unicode and Go have it; Python would take the separators U+001C to U+001F too."""
_LOWER: Final = {c: c + 32 for c in range(65, 91)}
_UPPER: Final = {c: c - 32 for c in range(97, 123)}
_QUOTED: Final = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)
_SMALL: Final = 1 << 16


def _outside(position: int) -> Err:
    return Err("index", f"index out of range: {position}")


def char_at(s: Value, i: Value) -> Value:
    """``s.charAt(i)``; the empty text right behind the end."""
    if type(s) is str and type(i) is int:
        return s[i : i + 1] if 0 <= i <= len(s) else _outside(i)
    return no_overload("charAt", s, i)


def index_of(meter: Meter, s: Value, part: Value) -> Value:
    """``s.indexOf(part)`` of a text, or of a list the position of the first element that is equal; -1 without one."""
    if type(s) is str and type(part) is str:
        return s.find(part)
    if type(s) is list and type(part) is not Err:
        meter.charge(len(s))
        return next((i for i, x in enumerate(s) if equal(x, part, meter)), -1)
    return no_overload("indexOf", s, part)


def index_of_from(s: Value, part: Value, start: Value) -> Value:
    """``s.indexOf(part, start)``. An empty part is found at ``start``, wherever that is: cel-go."""
    if type(s) is str and type(part) is str and type(start) is int:
        if not part:
            return start
        if start < 0:
            return _outside(start)
        return s.find(part, start) if start < len(s) else -1
    return no_overload("indexOf", s, part, start)


def last_index_of(meter: Meter, s: Value, part: Value) -> Value:
    """``s.lastIndexOf(part)`` of a text or, by equality, of a list; -1 without one."""
    if type(s) is str and type(part) is str:
        return _rfind(s, part, len(s))
    if type(s) is list and type(part) is not Err:
        meter.charge(len(s))
        return next((i for i in range(len(s) - 1, -1, -1) if equal(s[i], part, meter)), -1)
    return no_overload("lastIndexOf", s, part)


def last_index_of_from(s: Value, part: Value, start: Value) -> Value:
    """``s.lastIndexOf(part, start)``: the last position that is at most ``start``. -1 from a start behind the end."""
    if type(s) is str and type(part) is str and type(start) is int:
        if not part:
            return start
        if start < 0:
            return _outside(start)
        return _rfind(s, part, start) if start < len(s) else -1
    return no_overload("lastIndexOf", s, part, start)


def index_of_within(s: Value, part: Value, start: Value) -> Value:
    """``s.indexOf(part, start)`` of the CEL specification: a start behind the end is an error."""
    if type(s) is str and type(part) is str and type(start) is int and part and start > len(s):
        return _outside(start)
    return index_of_from(s, part, start)


def last_index_of_within(s: Value, part: Value, start: Value) -> Value:
    """``s.lastIndexOf(part, start)`` of the CEL specification: a start behind the end is an error."""
    if type(s) is str and type(part) is str and type(start) is int and part and start > len(s):
        return _outside(start)
    return last_index_of_from(s, part, start)


def _rfind(s: str, part: str, start: int) -> int:
    """``str.rfind`` compares part and text anew at each position (8 s for 200,000 characters of one kind); ``find`` is
    linear, so that long texts are searched backwards by it."""
    if len(s) * len(part) <= _SMALL:
        return s.rfind(part, 0, start + len(part))
    found = s[start + len(part) - 1 :: -1].find(part[::-1]) if start + len(part) <= len(s) else s[::-1].find(part[::-1])
    return -1 if found < 0 else min(start + len(part), len(s)) - found - len(part)


def lower_ascii(s: Value) -> Value:
    """``s.lowerAscii()``: A to Z alone."""
    if type(s) is str:
        return s.lower() if s.isascii() else s.translate(_LOWER)
    return no_overload("lowerAscii", s)


def upper_ascii(s: Value) -> Value:
    """``s.upperAscii()``: a to z alone."""
    if type(s) is str:
        return s.upper() if s.isascii() else s.translate(_UPPER)
    return no_overload("upperAscii", s)


def trim(s: Value) -> Value:
    """``s.trim()``: without the white space of Unicode at both ends."""
    if type(s) is str:
        return s.strip(_SPACE)
    return no_overload("trim", s)


def quote(s: Value) -> Value:
    """``strings.quote(s)``: between double quotes, with the escapes that CEL has a letter for."""
    if type(s) is str:
        return f'"{s.translate(_QUOTED)}"' if len(s) <= MAX_TEXT >> 1 else TOO_LONG
    return no_overload("strings.quote", s)


def replace(meter: Meter, s: Value, old: Value, new: Value) -> Value:
    """``s.replace(old, new)``: each occurrence; the empty text occurs before each character and at the end."""
    if type(s) is str and type(old) is str and type(new) is str:
        return _replaced(meter, s, old, new, -1)
    return no_overload("replace", s, old, new)


def replace_first(meter: Meter, s: Value, old: Value, new: Value, count: Value) -> Value:
    """``s.replace(old, new, count)``: the first ``count`` occurrences, all when it is negative."""
    if type(s) is str and type(old) is str and type(new) is str and type(count) is int:
        return _replaced(meter, s, old, new, count)
    return no_overload("replace", s, old, new, count)


def _replaced(meter: Meter, s: str, old: str, new: str, count: int) -> Value:
    found = s.count(old)
    if 0 <= count < found:
        found = count
    size = len(s) + found * (len(new) - len(old))
    if size > MAX_TEXT:
        return TOO_LONG
    meter.charge(size >> CHUNK)
    return s.replace(old, new, found)


def split(meter: Meter, s: Value, separator: Value) -> Value:
    """``s.split(separator)``; between the characters when it is empty."""
    if type(s) is str and type(separator) is str:
        return _split(meter, s, separator, -1)
    return no_overload("split", s, separator)


def split_most(meter: Meter, s: Value, separator: Value, count: Value) -> Value:
    """``s.split(separator, count)``: at most ``count`` parts, the last with what is left; all when it is negative."""
    if type(s) is str and type(separator) is str and type(count) is int:
        return _split(meter, s, separator, count)
    return no_overload("split", s, separator, count)


def _split(meter: Meter, s: str, separator: str, count: int) -> list[str]:
    if count == 0:
        return []
    if separator:
        parts = s.split(separator) if count < 0 else s.split(separator, count - 1)
    elif count < 0 or count >= len(s):
        parts = list(s)
    else:
        parts = [*s[: count - 1], s[count - 1 :]]
    meter.charge(len(parts) >> 2)
    return parts


def substring(s: Value, start: Value) -> Value:
    """``s.substring(start)``."""
    if type(s) is str and type(start) is int:
        return s[start:] if 0 <= start <= len(s) else _outside(start)
    return no_overload("substring", s, start)


def substring_to(s: Value, start: Value, end: Value) -> Value:
    """``s.substring(start, end)``, ``end`` not included."""
    if type(s) is str and type(start) is int and type(end) is int:
        if start > end:
            return Err("index", f"invalid substring range. start: {start}, end: {end}")
        if not 0 <= start <= len(s):
            return _outside(start)
        return s[start:end] if end <= len(s) else _outside(end)
    return no_overload("substring", s, start, end)


def join(meter: Meter, items: Value) -> Value:
    """``items.join()``."""
    if type(items) is list and _texts(items):
        return _joined(meter, items, "")
    return no_overload("join", items)


def join_with(meter: Meter, items: Value, separator: Value) -> Value:
    """``items.join(separator)``."""
    if type(items) is list and type(separator) is str and _texts(items):
        return _joined(meter, items, separator)
    return no_overload("join", items, separator)


def _texts(items: list[Value]) -> bool:
    """Whether cel-go takes a list for one of texts: it looks at the first element."""
    return not items or type(items[0]) is str


def _joined(meter: Meter, items: list[Value], separator: str) -> Value:
    size = len(separator) * (len(items) - 1) if items else 0
    for x in items:
        if type(x) is not str:
            return Err("argument", f"join: invalid input: {display(x)}")
        size += len(x)
    if size > MAX_TEXT:
        return TOO_LONG
    meter.charge(size + len(items) >> CHUNK)
    return separator.join(items)


def reverse(s: Value) -> Value:
    """``s.reverse()`` of a text (strings, version 3) or a list (lists, version 2)."""
    if type(s) is str or type(s) is list:
        return s[::-1]
    return no_overload("reverse", s)
