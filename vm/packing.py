"""The canonical msgpack of bundles: shortest integers, map keys sorted and once, no NaN, bounded depth.

The stock reader takes more than that (long integers, duplicate keys, any order, hundreds of levels), so :func:`unpack`
checks the value, encodes it again and compares: there is one byte string for each value. ``vm.bundle`` is the only
caller."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, Final

import msgpack

from vm.constants import describe, described, is_special
from vm.values import Err, Value

_BIG: Final = 4
"""Extension type of integers beyond 64 bits: two's complement, big-endian, shortest."""
_ERR: Final = 5
"""Extension type of an error value: [code, text, path]."""
_SPECIAL: Final = 6
"""Extension type of a constant that JSON has no form for: its description (``vm.constants``)."""
_MAX_BIG: Final = 127
"""Bytes of the longest integer: every one has a float near it, so that arithmetic on constants cannot fail."""
_MAX_ITEMS: Final = 1 << 20
_INT_LOW: Final = -(1 << 63)
_INT_HIGH: Final = 1 << 64


class Held:
    """A constant that JSON has no form for, between its bytes and its value: so that bytes and non-finite numbers count
    as constants only where they stand in an extension value."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


class PackError(ValueError):
    """A value that has no canonical form, or bytes that are none; ``code`` as in ``vm.bundle.BundleError``."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def pack(value: Value, *, max_depth: int, constants: bool = False) -> bytes:
    """Takes JSON values, ``Err``, bytes and constants of every kind; among ``constants`` bytes are one of them. Raises
    :class:`PackError` for any other value."""
    try:
        return _pack(_sorted(value, max_depth, constants))
    except (TypeError, ValueError, OverflowError, UnicodeEncodeError) as problem:
        if isinstance(problem, PackError):
            raise
        raise PackError("malformed", "the value has no form in a bundle") from None


def unpack(data: bytes, *, max_depth: int, also: frozenset[type] = frozenset()) -> Value:
    """``also`` are types allowed beside JSON ones: bytes, ``Err``, :class:`Held` for constants of every kind. Raises
    :class:`PackError` ``malformed``, ``limit`` or ``not_canonical``, and nothing else."""
    held = False

    def extension(code: int, content: bytes) -> Any:
        nonlocal held
        if code != _SPECIAL:
            return _extension(code, content)
        held = True
        return _held(content, max_depth)

    value = _decoded(data, extension)
    _check(value, max_depth, _JSON | also)
    try:
        same = _pack(value) == data
    except (ValueError, TypeError, OverflowError):
        same = False
    if not same:
        raise PackError("not_canonical", "the bytes are not the canonical form of what they hold")
    return _opened(value) if held else value


def _decoded(data: bytes, extension: Callable[[int, bytes], Any]) -> Any:
    limit = min(len(data), _MAX_ITEMS)
    try:
        return msgpack.unpackb(
            data,
            raw=False,
            strict_map_key=True,
            ext_hook=extension,
            max_str_len=len(data),
            max_bin_len=len(data),
            max_array_len=limit,
            max_map_len=limit,
            max_ext_len=len(data),
        )
    except PackError:
        raise
    except (ValueError, TypeError, OverflowError, MemoryError, RecursionError, msgpack.UnpackException):
        raise PackError("malformed", "the bytes are not well formed") from None


def _held(content: bytes, max_depth: int) -> Held:
    form = _decoded(content, _extension)
    _check(form, max_depth, _JSON)
    try:
        value = described(form)
    except ValueError as problem:
        raise PackError("malformed", str(problem)) from None
    if not is_special(value):
        raise PackError("malformed", "an extension value is not one of the bundle format")
    return Held(value)


def _opened(value: Value) -> Value:
    """The value with its constants in place. Its depth was checked."""
    t = type(value)
    if t is Held:
        return value.value
    if t is list:
        return [_opened(x) for x in value]
    if t is dict:
        return {k: _opened(x) for k, x in value.items()}
    return value


def frame_end(data: bytes, start: int) -> int:
    """Where the msgpack value that starts at ``start`` ends. Raises :class:`PackError` ``truncated`` or
    ``malformed``."""
    limit = min(len(data), _MAX_ITEMS)
    unpacker = msgpack.Unpacker(
        raw=False, max_buffer_size=len(data), max_array_len=limit, max_map_len=limit, max_ext_len=len(data)
    )
    try:
        unpacker.feed(memoryview(data)[start:])
        unpacker.skip()
    except msgpack.OutOfData:
        raise PackError("truncated", "the bundle ends in the middle") from None
    except (ValueError, TypeError, OverflowError, MemoryError, RecursionError, msgpack.UnpackException):
        raise PackError("malformed", "the bytes are not well formed") from None
    return start + int(unpacker.tell())


def _pack(value: Value) -> bytes:
    packed: bytes = msgpack.packb(value, use_bin_type=True, strict_types=True, default=_encode_special)
    return packed


def _encode_special(value: Any) -> Any:
    if type(value) is int:
        return msgpack.ExtType(_BIG, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    if type(value) is Err:
        return msgpack.ExtType(_ERR, _pack([value.code, value.text, value.path]))
    if type(value) is Held:
        return msgpack.ExtType(_SPECIAL, _pack(describe(value.value)))
    raise TypeError("no form in a bundle")


def _extension(code: int, data: bytes) -> Any:
    if code == _BIG and 0 < len(data) <= _MAX_BIG:
        n = int.from_bytes(data, "big", signed=True)
        if not _INT_LOW <= n < _INT_HIGH:
            return n
    elif code == _ERR:
        fields = msgpack.unpackb(data, raw=False)
        if type(fields) is list and len(fields) == 3 and all(type(f) is str for f in fields):
            return Err(*fields)
    raise PackError("malformed", "an extension value is not one of the bundle format")


def _sorted(value: Value, depth: int, constants: bool) -> Value:
    """The value with its map keys in sorted order, as it goes into a bundle."""
    t = type(value)
    if t is dict:
        if depth <= 0:
            raise PackError("limit", "the value is nested too deeply")
        if not all(type(k) is str for k in value):
            raise PackError("malformed", "a map has a key that is no text")
        return {k: _sorted(value[k], depth - 1, constants) for k in sorted(value)}
    if t is list or t is tuple:
        if depth <= 0:
            raise PackError("limit", "the value is nested too deeply")
        return [_sorted(x, depth - 1, constants) for x in value]
    if is_special(value) and (constants or t is not bytes):
        _sorted(describe(value), depth, constants)
        return Held(value)
    _leaf(value)
    return value


def _leaf(value: Value) -> None:
    t = type(value)
    if t is int:
        if value.bit_length() > 8 * _MAX_BIG - 1:
            raise PackError("limit", "an integer is too long")
    elif t not in _WRITTEN:
        raise PackError("malformed", "a value is of a type that bundles do not hold")


_JSON: Final[frozenset[type]] = frozenset({str, bool, int, float, list, dict, type(None)})
_WRITTEN: Final = _JSON | {bytes, Err}


def _check(value: Value, max_depth: int, allowed: frozenset[type]) -> None:
    """Types, depth and key order of a decoded value, level by level, without recursion. The length of integers was
    checked when they were decoded."""
    level = [value]
    depth = 0
    while level:
        types = set(map(type, level))
        if not types <= allowed:
            raise PackError("malformed", "a value is of a type that bundles do not hold")
        if float in types and not all(isfinite(x) for x in level if type(x) is float):
            raise PackError("malformed", "a number is not finite")
        if list not in types and dict not in types:
            return
        if depth >= max_depth:
            raise PackError("limit", "the value is nested too deeply")
        depth += 1
        inner: list[Value] = []
        for x in level:
            t = type(x)
            if t is list:
                inner += x
            elif t is dict:
                keys = list(x)
                if not all(type(k) is str for k in keys):
                    raise PackError("malformed", "a map has a key that is no text")
                if keys != sorted(keys):
                    raise PackError("not_canonical", "the keys of a map are not in order")
                inner.extend(x.values())
        level = inner
