"""The bodies of cel-go's ``encoders`` extension: base64 as Go's ``encoding/base64`` reads and writes it."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from typing import Final

from vm.cel.limits import MAX_TEXT, TOO_LONG
from vm.cel.values import no_overload
from vm.values import Err, Value

_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_LINES: Final = b"\r\n"


def encode(v: Value) -> Value:
    """``base64.encode(v)`` of bytes, with padding."""
    if type(v) is bytes:
        return b2a_base64(v, newline=False).decode() if len(v) <= MAX_TEXT // 4 * 3 else TOO_LONG
    return no_overload("base64.encode", v)


def decode(v: Value) -> Value:
    """``base64.decode(v)`` of a text, with or without padding; line ends count for nothing."""
    if type(v) is not str:
        return no_overload("base64.decode", v)
    data = v.encode("utf-8", "replace")
    body = data.translate(None, _LINES)
    digits = body[:-2] + body[-2:].rstrip(b"=") if len(body) % 4 == 0 else body
    if digits.translate(None, _ALPHABET) or len(digits) % 4 == 1:
        return Err("argument", f"illegal base64 data at input byte {_bad(data)}")
    return a2b_base64(digits + b"=" * (-len(digits) % 4))


def _bad(data: bytes) -> int:
    """The byte at which reading without padding stops: the first that is no digit, or a digit that is left alone."""
    wrong = next((c for c in data if c not in _ALPHABET and c not in _LINES), None)
    return len(data) - 1 if wrong is None else data.index(wrong)
