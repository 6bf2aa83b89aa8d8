"""The standard JMESPath functions. Strictly typed: an argument of the wrong type gives ``Err type``, an error among the
arguments is the result."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

from vm.intrinsics.jmes_errors import is_number, kind_name, not_texts, wrong_type
from vm.intrinsics.text import json_text
from vm.values import MISSING, Err, Value, json_equal

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(\.[0-9]*)?|(\.[0-9]+))([eE][+-]?[0-9]+)?\Z")
_MAX_OUTPUT: Final = 4 * 1024 * 1024
_SORTED_KINDS: Final = "an array of numbers or of strings"


def absolute(v: Value) -> Value:
    return abs(v) if is_number(v) else wrong_type("abs", 1, v, "a number")


def ceil(v: Value) -> Value:
    return _whole(math.ceil, v) if is_number(v) else wrong_type("ceil", 1, v, "a number")


def floor(v: Value) -> Value:
    return _whole(math.floor, v) if is_number(v) else wrong_type("floor", 1, v, "a number")


def _whole(f: Callable[[float], int], v: Any) -> Value:
    return f(v) if math.isfinite(v) else v


def avg(v: Value) -> Value:
    bad = _not_numbers("avg", v)
    if bad is not None:
        return bad
    return _total(v) / len(v) if v else None


def plain_sum(v: Value) -> Value:
    """The sum of standard JMESPath: 0 for an empty list."""
    bad = _not_numbers("sum", v)
    return _total(v) if bad is None else bad


def _total(numbers: list[Any]) -> Any:
    return sum(numbers)


def _not_numbers(function: str, v: Value) -> Err | None:
    if type(v) is not list:
        return wrong_type(function, 1, v, "an array of numbers")
    for x in v:
        if not is_number(x):
            return Err("type", f"function {function}: argument 1 must be an array of numbers, it holds {kind_name(x)}")
    return None


def contains(where: Value, what: Value) -> Value:
    if type(what) is Err and type(where) is not Err:
        return what
    if type(where) is str:
        return type(what) is str and what in where
    if type(where) is list:
        return any(json_equal(x, what) for x in where)
    return wrong_type("contains", 1, where, "an array or a string")


def starts_with(text: Value, prefix: Value) -> Value:
    if type(text) is str and type(prefix) is str:
        return text.startswith(prefix)
    return not_texts("starts_with", text, prefix)


def ends_with(text: Value, suffix: Value) -> Value:
    if type(text) is str and type(suffix) is str:
        return text.endswith(suffix)
    return not_texts("ends_with", text, suffix)


def join(separator: Value, parts: Value) -> Value:
    if type(separator) is not str:
        return wrong_type("join", 1, separator, "a string")
    if type(parts) is not list:
        return wrong_type("join", 2, parts, "an array of strings")
    for x in parts:
        if type(x) is not str:
            return Err("type", f"function join: argument 2 must be an array of strings, it holds {kind_name(x)}")
    if len(separator) * len(parts) + sum(map(len, parts)) > _MAX_OUTPUT:
        return Err("value", "function join: the result is too long")
    return separator.join(parts)


def keys(v: Value) -> Value:
    return sorted(v) if type(v) is dict else wrong_type("keys", 1, v, "an object")


def values(v: Value) -> Value:
    return [v[k] for k in sorted(v)] if type(v) is dict else wrong_type("values", 1, v, "an object")


def length(v: Value) -> Value:
    return len(v) if type(v) in (str, list, dict) else wrong_type("length", 1, v, "a string, an array or an object")


def mapped(v: Value, results: list[Value]) -> Value:
    """``map``: ``results`` are those of the expression for each element."""
    return results if type(v) is list else wrong_type("map", 2, v, "an array")


def merge(maps: list[Value]) -> Value:
    out: dict[str, Value] = {}
    for i, m in enumerate(maps, 1):
        if type(m) is not dict:
            return wrong_type("merge", i, m, "an object")
        out.update(m)
    return out


def maximum(v: Value) -> Value:
    bad = _unordered("max", v)
    return bad if bad is not None else max(v) if v else None


def minimum(v: Value) -> Value:
    bad = _unordered("min", v)
    return bad if bad is not None else min(v) if v else None


def sort(v: Value) -> Value:
    bad = _unordered("sort", v)
    return sorted(v) if bad is None else bad


def _unordered(function: str, v: Value) -> Err | None:
    """The error of a value that is no list of numbers or of texts."""
    if type(v) is not list:
        return wrong_type(function, 1, v, _SORTED_KINDS)
    return None if _alike(v) else Err("type", f"function {function}: argument 1 must be {_SORTED_KINDS}")


def _alike(items: list[Value]) -> bool:
    return all(map(is_number, items)) or all(type(x) is str for x in items)


def _by(function: str, v: Value, by: list[Value]) -> Err | None:
    if type(v) is not list:
        return wrong_type(function, 1, v, "an array")
    if len(by) != len(v):
        return Err("value", f"function {function}: there must be one key for each element")
    if _alike(by):
        return None
    return Err("type", f"function {function}: the keys must all be numbers or all strings")


def max_by(v: Value, by: list[Value]) -> Value:
    """``by`` are the keys of the elements; of several largest the first."""
    bad = _by("max_by", v, by)
    if bad is not None:
        return bad
    return v[max(range(len(v)), key=by.__getitem__)] if v else None


def min_by(v: Value, by: list[Value]) -> Value:
    bad = _by("min_by", v, by)
    if bad is not None:
        return bad
    return v[min(range(len(v)), key=by.__getitem__)] if v else None


def sort_by(v: Value, by: list[Value]) -> Value:
    bad = _by("sort_by", v, by)
    return [v[i] for i in sorted(range(len(v)), key=by.__getitem__)] if bad is None else bad


def not_null(args: list[Value]) -> Value:
    return next((a for a in args if a is not None and a is not MISSING), None)


def reverse(v: Value) -> Value:
    return v[::-1] if type(v) in (str, list) else wrong_type("reverse", 1, v, "an array or a string")


def to_array(v: Value) -> Value:
    return v if type(v) in (list, Err) else [v]


def to_number(v: Value) -> Value:
    if is_number(v) or type(v) is Err:
        return v
    if type(v) is not str or len(v) > 400:
        return None
    shape = _NUMBER.match(v)
    if shape is None:
        return None
    number = float(v) if any(shape.groups()) else int(v)
    return number if math.isfinite(number) else None


def to_string(v: Value) -> Value:
    return v if type(v) in (str, Err) else json_text(v)


def type_name(v: Value) -> Value:
    return v if type(v) is Err else kind_name(v)
