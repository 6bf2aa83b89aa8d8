"""CEL values to JSON values, for what leaves an expression as data: patches and apply configurations."""

from __future__ import annotations

import base64
from math import isfinite

from vm.cel.convert import to_string
from vm.cel.values import CelMap, Duration, Record, Timestamp, UInt, type_name
from vm.values import Err, Value

MAX_DEPTH = 128


def native(value: Value, depth: int = MAX_DEPTH) -> Value:
    """The JSON form of a value (CEL spec § JSON Data Conversion): bytes as base64, times as text, records as maps; an
    ``Err`` for a value that has none."""
    if depth == 0:
        return Err("conversion", "the value is nested too deeply")
    match value:
        case None | bool() | str():
            return value
        case UInt():
            return int(value)
        case int():
            return value
        case float():
            return value if isfinite(value) else Err("conversion", "the number has no JSON form")
        case bytes():
            return base64.b64encode(value).decode()
        case Timestamp() | Duration():
            return to_string(value)
        case list():
            items = [native(x, depth - 1) for x in value]
            return next((x for x in items if type(x) is Err), items)
        case dict():
            return _fields(value, depth)
        case Record():
            return _fields(value.fields, depth)
        case CelMap():
            texts = {_key(k): v for k, v in value.entries.values()}
            return _fields(texts, depth)
        case Err():
            return value
    return Err("conversion", f"a value of type {type_name(value)} has no JSON form")


def _fields(fields: dict[str, Value], depth: int) -> Value:
    found = {k: native(v, depth - 1) for k, v in fields.items()}
    return next((x for x in found.values() if type(x) is Err), found)


def _key(key: Value) -> str:
    if type(key) is bool:
        return "true" if key else "false"
    return str(key)
