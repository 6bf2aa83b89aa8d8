"""The bodies of cel-go's ``regex`` extension: RE2, whose time is linear in the text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from vm.cel.go_quote import go_quote
from vm.cel.limits import MAX_TEXT, TOO_LONG
from vm.cel.text import compiled
from vm.cel.values import NONE, Optional, no_overload
from vm.fuel import CHUNK
from vm.host import Meter
from vm.values import Err, Value

_DIGITS: Final = frozenset("0123456789")
_MOST: Final = (1 << 31) - 1
_FUEL: Final = 2
"""A match costs that much beside the text: it takes about 1 µs."""


def replace(meter: Meter, s: Value, pattern: Value, put: Value) -> Value:
    """``regex.replace(s, pattern, put)``: ``\\1`` to ``\\9`` in ``put`` stand for groups, ``\\0`` for the match."""
    if type(s) is str and type(pattern) is str and type(put) is str:
        return _replaced(meter, s, pattern, put, -1)
    return no_overload("regex.replace", s, pattern, put)


def replace_first(meter: Meter, s: Value, pattern: Value, put: Value, count: Value) -> Value:
    """``regex.replace(s, pattern, put, count)``: the first ``count`` matches, all when it is negative."""
    if type(s) is str and type(pattern) is str and type(put) is str and type(count) is int:
        if count == 0:
            return s
        return _replaced(meter, s, pattern, put, count) if count <= _MOST else Err("range", "integer overflow")
    return no_overload("regex.replace", s, pattern, put, count)


def _replaced(meter: Meter, s: str, pattern: str, put: str, count: int) -> Value:
    expression = compiled(pattern)
    if type(expression) is Err:
        return expression
    s = re2_text(s)
    template: list[str | int] | Err | None = None
    out: list[str] = []
    done = size = 0
    for found in all_matches(meter, expression, s):
        if count == 0:
            break
        count -= 1
        if template is None:
            template = _template(put, expression.groups)
        if isinstance(template, Err):
            return template
        out.append(s[done : found.start()])
        out.extend([part if isinstance(part, str) else found.group(part) or "" for part in template])
        size += sum(map(len, out[-len(template) - 1 :]))
        if size > MAX_TEXT:
            return TOO_LONG
        done = found.end()
    out.append(s[done:])
    meter.charge(size >> CHUNK)
    return "".join(out)


def _template(put: str, groups: int) -> list[str | int] | Err:
    """A replacement as texts and numbers of groups."""
    parts = put.split("\\")
    out: list[str | int] = [parts[0]]
    i = 1
    while i < len(parts):
        part = parts[i]
        if part:
            if part[0] not in _DIGITS:
                return Err("argument", f"invalid replacement string: '{put}' \\ must be followed by a digit or \\")
            group = int(part[0])
            if group > groups:
                return Err(
                    "argument",
                    f"replacement string references group {group} but regex has only {groups} group(s)",
                )
            out += [group, part[1:]]
        elif i + 1 < len(parts):
            i += 1
            out += ["\\", parts[i]]
        else:
            return Err("argument", f"invalid replacement string: '{put}' \\ not allowed at end")
        i += 1
    return out


def extract(meter: Meter, s: Value, pattern: Value) -> Value:
    """``regex.extract(s, pattern)``: the first match, or its group where the expression has one. None without a match
    and for a group that is empty."""
    if type(s) is not str or type(pattern) is not str:
        return no_overload("regex.extract", s, pattern)
    expression = _with_one_group(pattern)
    if type(expression) is Err:
        return expression
    meter.charge(_FUEL)
    found = expression.search(re2_text(s))
    if found is None:
        return NONE
    if expression.groups:
        return Optional(found.group(1)) if found.group(1) else NONE
    return Optional(found.group())


def extract_all(meter: Meter, s: Value, pattern: Value) -> Value:
    """``regex.extractAll(s, pattern)``: all matches, or their groups that are not empty."""
    if type(s) is not str or type(pattern) is not str:
        return no_overload("regex.extractAll", s, pattern)
    expression = _with_one_group(pattern)
    if type(expression) is Err:
        return expression
    found = all_matches(meter, expression, re2_text(s))
    if expression.groups:
        return [m.group(1) for m in found if m.group(1)]
    return [m.group() for m in found]


def _with_one_group(pattern: str) -> Any:
    expression = compiled(pattern)
    if type(expression) is Err:
        return Err(expression.code, f"given regex is invalid: {expression.text}")
    if expression.groups > 1:
        return Err("argument", f"regular expression has more than one capturing group: {go_quote(pattern)}")
    return expression


def all_matches(meter: Meter, expression: Any, s: str) -> Iterator[Any]:
    """The matches that Go finds: an empty one right after another counts for nothing."""
    last = -1
    for found in expression.finditer(s):
        start, end = found.span()
        if start == end == last:
            continue
        meter.charge(_FUEL)
        last = end
        yield found


def re2_text(s: str) -> str:
    """RE2 takes no lone surrogate."""
    return s if s.isascii() else s.encode("utf-8", "replace").decode()
