"""The values of CEL's literal tokens; called by the parser. CEL spec § Syntax and § String and Bytes Values.

Messages are cel-go's; the offsets of a bad escape are those of the escape itself.
"""

from __future__ import annotations

import re
from typing import Final

from compiler.frontends.cel.ast import Span
from grammar.errors import SyntaxProblem
from vm.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt

_MOST_DIGITS: Final = 20
"""No number of 64 bits has more, leading zeros aside; Python refuses to read very long ones."""

_SIMPLE: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "?": "?",
    '"': '"',
    "'": "'",
    "`": "`",
}
_ESCAPE: Final = re.compile(
    r"\\(?:(?P<simple>[abfnrtv\\?\"'`])|[xX](?P<hex>[0-9A-Fa-f]{2})|(?P<octal>[0-3][0-7]{2})"
    r"|u(?P<short>[0-9A-Fa-f]{4})|U(?P<long>[0-9A-Fa-f]{8})|(?P<bad>(?s:.?)))"
)


def int_value(token: str, at: Span) -> int:
    """The value of ``12`` or ``0xff``, at most 2^63, which a minus sign has to stand before. Raises ``SyntaxProblem``
    beyond that."""
    n = _number(token)
    if n is None or n > -INT_MIN:
        raise int_problem(at, n)
    return n


def int_problem(at: Span, n: int | None) -> SyntaxProblem:
    """The problem of a number that is no int; None is one too long to be read."""
    hint = f"an int is from {INT_MIN} to {INT_MAX}"
    if n is not None and n <= UINT_MAX:
        hint += "; a uint has a 'u' behind it"
    return SyntaxProblem("literal", "invalid int literal", *at, hint=hint)


def uint_value(token: str, at: Span) -> UInt:
    """The value of ``12u`` or ``0xffU``. Raises ``SyntaxProblem`` beyond 64 bits."""
    n = _number(token[:-1])
    if n is None or n > UINT_MAX:
        raise SyntaxProblem("literal", "invalid uint literal", *at, hint=f"a uint is at most {UINT_MAX}")
    return UInt(n)


def double_value(token: str, at: Span) -> float:
    """The double nearest to what is written. Raises ``SyntaxProblem`` where that would be infinite."""
    value = float(token)
    if value == float("inf"):
        raise SyntaxProblem("literal", "invalid double literal", *at, hint="the number is too large for a double")
    return value


def _number(token: str) -> int | None:
    """The number, None when it has too many digits to be one of 64 bits."""
    digits, base = (token[2:], 16) if token.startswith("0x") else (token, 10)
    return int(digits, base) if len(digits.lstrip("0")) <= _MOST_DIGITS else None


def string_value(token: str, start: int) -> str:
    """The text of a string token that begins at an offset. Raises ``SyntaxProblem`` for an escape that is none."""
    body, first, raw = _body(token)
    return body if raw or "\\" not in body else _unescaped(body, start + first)


def bytes_value(token: str, start: int) -> bytes:
    """The octets of a bytes token: characters as UTF-8, ``\\x`` and octal escapes as octets."""
    body, first, raw = _body(token[1:])
    if raw or "\\" not in body:
        return body.encode("utf-8")
    out: list[bytes] = []
    last = 0
    for m in _ESCAPE.finditer(body):
        out.append(body[last : m.start()].encode("utf-8"))
        last = m.end()
        match m.lastgroup:
            case "simple":
                out.append(_SIMPLE[m["simple"]].encode())
            case "hex":
                out.append(bytes((int(m["hex"], 16),)))
            case "octal":
                out.append(bytes((int(m["octal"], 8),)))
            case "short" | "long":
                raise _bad(m, start + 1 + first, "unable to unescape string", "bytes have no \\u and \\U escapes")
            case _:
                raise _bad_escape(m, start + 1 + first)
    out.append(body[last:].encode("utf-8"))
    return b"".join(out)


def _body(token: str) -> tuple[str, int, bool]:
    """What stands between the quotes, how far into the token, and whether it is raw. All line ends become ``\\n``
    (as in cel-go): where one did, offsets behind it are too small by one each, which a caret can bear."""
    raw = token[0] in "rR"
    first = 1 if raw else 0
    width = 3 if len(token) >= 6 + first and token.startswith(('"""', "'''"), first) else 1
    body = token[first + width : -width]
    if "\r" in body:
        body = body.replace("\r\n", "\n").replace("\r", "\n")
    return body, first + width, raw


def _unescaped(body: str, start: int) -> str:
    out: list[str] = []
    last = 0
    for m in _ESCAPE.finditer(body):
        out.append(body[last : m.start()])
        last = m.end()
        kind = m.lastgroup
        if kind == "simple":
            out.append(_SIMPLE[m["simple"]])
            continue
        if kind == "bad" or kind is None:
            raise _bad_escape(m, start)
        code = int(m[kind], 8 if kind == "octal" else 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise _bad(m, start, "invalid unicode code point", "")
        out.append(chr(code))
    out.append(body[last:])
    return "".join(out)


def _bad_escape(m: re.Match[str], start: int) -> SyntaxProblem:
    after = m["bad"]
    if after in ("x", "X", "u", "U"):
        n = {"x": 2, "u": 4}.get(after.lower(), 8) if after != "U" else 8
        return _bad(m, start, "unable to unescape string", f"\\{after} is followed by {n} hexadecimal digits")
    if after and after in "0123":
        return _bad(m, start, "unable to unescape octal sequence in string", "an octal escape has three digits")
    return _bad(m, start, "unable to unescape string", f"write '\\\\{after}' for a backslash, or a raw string r'…'")


def _bad(m: re.Match[str], start: int, message: str, hint: str) -> SyntaxProblem:
    return SyntaxProblem("literal", message, start + m.start(), start + m.end(), hint=hint)
