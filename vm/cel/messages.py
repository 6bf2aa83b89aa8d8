"""Well-known messages as values: ``google.protobuf.Int32Value{value: 1}`` is ``1``, ``Struct{…}`` a map.

Called as the intrinsic that the lowering makes of a message literal. Wrappers are their value, ``Value``, ``Struct``
and ``ListValue`` hold JSON (CEL spec § JSON Data Conversion), ``Any`` is what it holds, read from its bytes. Error
texts are cel-go's.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from vm.cel.arith import OVERFLOW, TIME_OVERFLOW, UINT_OVERFLOW, duration
from vm.cel.display import display
from vm.cel.time import duration_text, rfc3339
from vm.cel.values import (
    INT_MAX,
    INT_MIN,
    SECOND,
    TIME_MAX,
    TIME_MIN,
    UINT_MAX,
    CelMap,
    Duration,
    Record,
    Timestamp,
    UInt,
    first_error,
    mismatch,
    type_name,
)
from vm.cel.wire import decode_json, decode_seconds, decode_wrapper, single
from vm.fuel import measure
from vm.host import Meter
from vm.values import MISSING, Err, Value

_PREFIX: Final = "google.protobuf."
_SAFE: Final = (1 << 53) - 1
"""The largest integer that JSON holds as a number: beyond it the text of the number stands."""
_DEEPEST: Final = 64

_WRAPPERS: Final[dict[str, tuple[type, Value, str]]] = {
    "BoolValue": (bool, False, "bool"),
    "BytesValue": (bytes, b"", "[]uint8"),
    "DoubleValue": (float, 0.0, "float64"),
    "FloatValue": (float, 0.0, "float32"),
    "Int32Value": (int, 0, "int32"),
    "Int64Value": (int, 0, "int64"),
    "StringValue": (str, "", "string"),
    "UInt32Value": (UInt, UInt(0), "uint32"),
    "UInt64Value": (UInt, UInt(0), "uint64"),
}
_RANGES: Final = {
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (INT_MIN, INT_MAX),
    "uint32": (0, (1 << 32) - 1),
    "uint64": (0, UINT_MAX),
}
_WORDS: Final[dict[type, str]] = {
    bool: "type conversion error from bool to '{}'",
    int: "unsupported type conversion from 'int' to {}",
    UInt: "unsupported type conversion from 'uint' to {}",
    float: "type conversion error from Double to '{}'",
    str: "unsupported native conversion from string to '{}'",
    bytes: "type conversion error from Bytes to '{}'",
}

MESSAGES: Final = (*_WRAPPERS, "Any", "Duration", "Empty", "ListValue", "Struct", "Timestamp", "Value")
"""The messages that :func:`build` knows, without ``google.protobuf.``."""


def build(meter: Meter, name: Value, fields: Value) -> Value:
    """The value of a message. ``name`` is its full name, ``fields`` those that the literal sets."""
    if type(name) is not str or type(fields) is not dict:
        return mismatch(name, fields)
    failed = first_error(*fields.values())
    if failed is not None:
        return failed
    measure(fields, meter)
    if not name.startswith(_PREFIX):
        return _mutation(name, fields)
    short = name.removeprefix(_PREFIX)
    if short in _WRAPPERS:
        return _wrapper(name, short, fields)
    match short:
        case "Value":
            return _value(name, fields)
        case "Struct":
            return _json_field(name, "fields", fields, (dict, CelMap), {})
        case "ListValue":
            return _json_field(name, "values", fields, (list,), [])
        case "Timestamp":
            return _seconds(name, fields, Timestamp.CEL_TYPE)
        case "Duration":
            return _seconds(name, fields, Duration.CEL_TYPE)
        case "Any":
            return _any(fields)
        case "Empty":
            return Record(name, {})
    return Err("argument", f"unknown type: {name}")


def _mutation(name: str, fields: dict[str, Value]) -> Value:
    """A message of mutations: ``JSONPatch``, or ``Object…`` with whatever fields."""
    if name == "JSONPatch":
        for field in ("op", "path", "from"):
            if field in fields and type(fields[field]) is not str:
                word = type_name(fields[field])
                return Err("argument", f"unexpected type {word} for JSONPatchType '{field}' field")
        return Record(name, fields)
    if name == "Object" or name.startswith("Object."):
        return Record(name, fields)
    return Err("argument", f"unknown type: {name}")


def _field_error(name: str, field: str, cause: str) -> Err:
    return Err("conversion", f"field type conversion error for {name}.{field} value type: {cause}")


def _native(name: str, field: str, value: Value, kind: type, native: str) -> Value:
    """A field's value in the range of its type, or the error for another type."""
    if type(value) is not kind:
        words = _WORDS.get(type(value), f"type conversion error from '{type_name(value)}' to '{{}}'")
        return _field_error(name, field, words.format(native))
    v: Any = value
    if native in _RANGES:
        low, high = _RANGES[native]
        if not low <= v <= high:
            return _field_error(name, field, (UINT_OVERFLOW if kind is UInt else OVERFLOW).text)
    return single(v) if native == "float32" else v


def _wrapper(name: str, short: str, fields: Mapping[str, Value]) -> Value:
    kind, default, native = _WRAPPERS[short]
    if "value" not in fields:
        return default
    return _native(name, "value", fields["value"], kind, native)


def _value(name: str, fields: Mapping[str, Value]) -> Value:
    """A ``Value``: the last field set counts, none is null."""
    out: Value = None
    for field, v in fields.items():
        match field:
            case "null_value":
                out = None if v is None or type(v) is int else _native(name, field, v, int, "int32")
            case "number_value":
                out = _native(name, field, v, float, "float64")
            case "string_value":
                out = _native(name, field, v, str, "string")
            case "bool_value":
                out = _native(name, field, v, bool, "bool")
            case "struct_value":
                out = _json_field(name, field, fields, (dict, CelMap), {})
            case "list_value":
                out = _json_field(name, field, fields, (list,), [])
            case _:
                return Err("argument", f"no such field '{field}'")
        if type(out) is Err:
            return out
    return out


def _json_field(name: str, field: str, fields: Mapping[str, Value], kinds: tuple[type, ...], default: Value) -> Value:
    if field not in fields:
        return default
    v = fields[field]
    if type(v) not in kinds:
        return Err("conversion", f"unsupported field type for {name}.{field}: {type_name(v)}")
    found = to_json(v)
    return _field_error(name, field, found.text) if type(found) is Err else found


def to_json(v: Value, depth: int = 0) -> Value:
    """A value as JSON data: integers become doubles, or texts beyond 2**53, bytes base64, times their text."""
    if depth > _DEEPEST:
        return Err("argument", "the value is nested too deeply")
    match v:
        case None | bool() | str() | float():
            return v
        case int():
            return float(v) if -_SAFE <= v <= _SAFE else format(v, "d")
        case bytes():
            return b64encode(v).decode()
        case Timestamp():
            return rfc3339(v)
        case Duration():
            return duration_text(v)
        case list():
            items = [to_json(x, depth + 1) for x in v]
            return first_error(*items) or items
        case dict():
            found = {k: to_json(x, depth + 1) for k, x in v.items()}
            return first_error(*found.values()) or found
        case CelMap(entries=entries):
            for k, _ in entries.values():
                if type(k) is not str:
                    words = _WORDS.get(type(k), f"type conversion error from '{type_name(k)}' to {{}}")
                    return Err("conversion", words.format("string"))
            return to_json(dict(entries.values()), depth + 1)
    if type(v) is Err:
        return v
    return Err("conversion", f"type conversion not supported for '{type_name(v)}'")


def _seconds(name: str, fields: Mapping[str, Value], kind: str) -> Value:
    seconds, nanos = fields.get("seconds", 0), fields.get("nanos", 0)
    for field, v, native in (("seconds", seconds, "int64"), ("nanos", nanos, "int32")):
        checked = _native(name, field, v, int, native)
        if type(checked) is Err:
            return checked
    total = seconds * SECOND + nanos
    if kind == Duration.CEL_TYPE:
        return duration(total)
    return Timestamp(total) if TIME_MIN <= total <= TIME_MAX else TIME_OVERFLOW


def _any(fields: Mapping[str, Value]) -> Value:
    url, data = fields.get("type_url", ""), fields.get("value", b"")
    for field, v, kind, native in (("type_url", url, str, "string"), ("value", data, bytes, "[]uint8")):
        checked = _native(f"{_PREFIX}Any", field, v, kind, native)
        if type(checked) is Err:
            return checked
    _, slash, name = url.rpartition("/")
    found = _decoded(name.removeprefix(_PREFIX), data) if slash and name.startswith(_PREFIX) else MISSING
    if found is MISSING:
        return Err("conversion", f"unsupported conversion to ref.Val: type_url:{display(url)}")
    return found


def _decoded(short: str, data: bytes) -> Value:
    """The value in the bytes of a message; MISSING for bytes or messages that are not known."""
    if short in _WRAPPERS:
        return decode_wrapper(short, data)
    match short:
        case "Value" | "Struct" | "ListValue":
            return decode_json(short, data)
        case "Timestamp" | "Duration":
            parts = decode_seconds(data)
            return MISSING if parts is None else _seconds(_PREFIX + short, parts, _PREFIX + short)
        case "Empty":
            return Record(_PREFIX + short, {})
    return MISSING
