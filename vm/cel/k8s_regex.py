"""``find`` and ``findAll`` of the API server's ``regex`` library: RE2, as Go finds matches."""

from __future__ import annotations

from vm.cel.regex import all_matches, re2_text
from vm.cel.text import compiled
from vm.cel.values import mismatch, no_overload
from vm.host import Meter
from vm.values import Err, Value


def find(s: Value, pattern: Value) -> Value:
    """``s.find(pattern)``: the first match, empty without one."""
    if type(s) is not str or type(pattern) is not str:
        return mismatch(s, pattern)
    expression = _expression(pattern)
    if type(expression) is Err:
        return expression
    found = expression.search(re2_text(s))
    return found.group() if found is not None else ""


def find_all(meter: Meter, s: Value, pattern: Value) -> Value:
    """``s.findAll(pattern)``: all matches."""
    if type(s) is str and type(pattern) is str:
        return _found(meter, s, pattern, -1)
    return no_overload("findAll", s, pattern)


def find_first(meter: Meter, s: Value, pattern: Value, count: Value) -> Value:
    """``s.findAll(pattern, count)``: the first ``count`` matches, all when it is negative."""
    if type(s) is str and type(pattern) is str and type(count) is int:
        return _found(meter, s, pattern, count)
    return no_overload("findAll", s, pattern, count)


def _found(meter: Meter, s: str, pattern: str, count: int) -> Value:
    expression = _expression(pattern)
    if type(expression) is Err:
        return expression
    out: list[Value] = []
    if count == 0:
        return out
    for m in all_matches(meter, expression, re2_text(s)):
        out.append(m.group())
        if len(out) == count:
            break
    return out


def _expression(pattern: str) -> Value:
    found = compiled(pattern)
    return Err(found.code, f"Illegal regex: {found.text}") if type(found) is Err else found
