"""The bytes of the well-known messages that ``google.protobuf.Any`` may hold, read without a schema compiler.

Called by ``vm.cel.messages``. Wire types are those of protocol buffers: 0 a number, 1 eight bytes, 2 a length and
bytes, 5 four bytes. Bytes come from expressions, so that nothing is trusted: every reader answers MISSING (or None)
for bytes that are not the message.
"""

from __future__ import annotations

import struct
from typing import Any, Final, TypeAlias

from vm.cel.values import UINT_MAX, UInt
from vm.values import MISSING, Value

Fields: TypeAlias = list[tuple[int, "int | bytes"]]

_DEEPEST: Final = 64


def fields_of(data: bytes) -> Fields | None:
    """(field number, number or bytes) of each field in the bytes of a message; None for bytes that are none."""
    out: Fields = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if at < 0 or tag < 8:
            return None
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, at = _varint(data, at)
            if at < 0:
                return None
            out.append((number, value))
            continue
        if wire_type == 2:
            length, at = _varint(data, at)
            if at < 0:
                return None
        elif wire_type in (1, 5):
            length = 8 if wire_type == 1 else 4
        else:
            return None
        if at + length > len(data):
            return None
        out.append((number, data[at : at + length]))
        at += length
    return out


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(number, offset behind it); the offset is -1 when the number is cut off or too long."""
    n = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            return n & UINT_MAX, at
        shift += 7
    return 0, -1


def _signed(n: int) -> int:
    return n - (1 << 64) if n >= 1 << 63 else n


def _signed32(n: int) -> int:
    return ((n + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def single(v: float) -> float:
    """A double rounded to single precision, infinite where it is too large."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", v))[0]
    except OverflowError:
        return float("inf") if v > 0 else float("-inf")
    return rounded


def _text(raw: Any) -> Value:
    if type(raw) is not bytes:
        return MISSING
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return MISSING


def _double(raw: Any, layout: str = "<d") -> Value:
    return struct.unpack(layout, raw)[0] if type(raw) is bytes and len(raw) == struct.calcsize(layout) else MISSING


def decode_wrapper(short: str, data: bytes) -> Value:
    """The value of a wrapper (``Int32Value`` …): the last of its field 1, or the default of its type."""
    found = fields_of(data)
    if found is None:
        return MISSING
    raw: Any = None
    for number, part in found:
        if number == 1:
            raw = part
    match short:
        case "BytesValue":
            return b"" if raw is None else raw if type(raw) is bytes else MISSING
        case "StringValue":
            return "" if raw is None else _text(raw)
        case "DoubleValue":
            return 0.0 if raw is None else _double(raw)
        case "FloatValue":
            return 0.0 if raw is None else _double(raw, "<f")
    n = 0 if raw is None else raw
    if type(n) is not int:
        return MISSING
    match short:
        case "BoolValue":
            return n != 0
        case "Int32Value":
            return _signed32(n)
        case "UInt32Value":
            return UInt(n & 0xFFFFFFFF)
        case "UInt64Value":
            return UInt(n)
    return _signed(n)


def decode_seconds(data: bytes) -> dict[str, int] | None:
    """``seconds`` and ``nanos`` of a ``Timestamp`` or ``Duration``."""
    found = fields_of(data)
    if found is None:
        return None
    parts = {"seconds": 0, "nanos": 0}
    for number, raw in found:
        if number in (1, 2):
            if type(raw) is not int:
                return None
            parts["seconds" if number == 1 else "nanos"] = _signed(raw) if number == 1 else _signed32(raw)
    return parts


def decode_json(short: str, data: Any, depth: int = 0) -> Value:
    """The JSON data in a ``Value``, ``Struct`` or ``ListValue``."""
    if type(data) is not bytes or depth > _DEEPEST:
        return MISSING
    found = fields_of(data)
    if found is None:
        return MISSING
    if short == "Struct":
        return _json_map(found, depth)
    if short == "ListValue":
        items = [decode_json("Value", raw, depth + 1) for number, raw in found if number == 1]
        return MISSING if any(x is MISSING for x in items) else items
    out: Value = None
    for number, raw in found:
        match number:
            case 1:
                out = None if type(raw) is int else MISSING
            case 2:
                out = _double(raw)
            case 3:
                out = _text(raw)
            case 4:
                out = raw != 0 if type(raw) is int else MISSING
            case 5 | 6:
                out = decode_json("Struct" if number == 5 else "ListValue", raw, depth + 1)
        if out is MISSING:
            return MISSING
    return out


def _json_map(found: Fields, depth: int) -> Value:
    out: dict[str, Value] = {}
    for number, raw in found:
        if number != 1:
            continue
        entry = fields_of(raw) if isinstance(raw, bytes) else None
        if entry is None:
            return MISSING
        key: Value = ""
        value: Value = None
        for part, inner in entry:
            if part == 1:
                key = _text(inner)
            elif part == 2:
                value = decode_json("Value", inner, depth + 1)
        if key is MISSING or value is MISSING:
            return MISSING
        out[key] = value
    return out
