"""YAML scalars to JSON values as the Kubernetes YAML library reads them; called by :mod:`compiler.source` for each one.

The library (``sigs.k8s.io/yaml``) reads YAML 1.1 and goes through JSON, which fixes what is easily got wrong: ``yes``,
``on``, ``y`` and their like are booleans, ``017`` and ``0o17`` are octal, ``1_000`` is a number, ``1.0`` becomes ``1``
(Go writes it so in JSON), whole numbers beyond 64 bits are floats, dates and ``=`` and ``1:30`` are texts.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from typing import Any, Final

YAML_TAG: Final = "tag:yaml.org,2002:"

CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
"""Plain scalars that are booleans or null."""

_NOT_JSON: Final = frozenset(
    (".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF")
)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_INT = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]([0-7]+)|0([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_STARTS: Final = frozenset("0123456789+-.")
_MIN_INT, _MAX_INT = -(2**63), 2**63 - 1
_MAX_DIGITS = 400
"""Longer digit strings are beyond any float, and Python's own conversion would refuse or be slow on them."""


class ScalarError(ValueError):
    """A scalar that does not fit its tag or has no JSON form; the text says why."""


def resolve_plain(text: str) -> Any:
    """The value of an unquoted scalar without a tag. Raises ``ScalarError`` for infinities and NaN."""
    if text in CONSTANTS:
        return CONSTANTS[text]
    if text[0] not in _STARTS:
        return text
    if text in _NOT_JSON:
        raise ScalarError(f"{text} has no JSON form")
    value = _number(text)
    return text if value is None else value


def resolve_tagged(tag: str, text: str) -> Any:
    """The value of a scalar with an explicit tag in its long form; unknown tags leave the text, as the library does."""
    if not tag.startswith(YAML_TAG):
        return text
    name = tag[len(YAML_TAG) :]
    if name == "str":
        return text
    if name == "binary":
        return _binary(text)
    if name not in ("bool", "int", "float", "null", "timestamp"):
        return text
    value = resolve_plain(text)
    kind = {bool: "bool", int: "int", float: "float", type(None): "null"}.get(type(value), "text")
    if name == kind or (name == "float" and kind == "int"):
        return value
    if name == "timestamp" and kind == "text" and re.match(r"[0-9]{4}-", text):
        return text
    raise ScalarError(f'"{text}" is no {name}')


def key_text(value: Any) -> str | None:
    """The JSON key that a scalar key makes (``on:`` gives ``true``, ``1:`` gives ``1``); None when it cannot be one."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value)
        case _:
            return None


def _number(text: str) -> int | float | None:
    if text[0] == ".":
        return _float(text) if _FLOAT.fullmatch(text) else None
    plain = text.replace("_", "")
    if m := _INT.fullmatch(plain):
        sign, hexa, binary, octal, old_octal, decimal = m.groups()
        digits, base = next(
            (d, b) for d, b in ((hexa, 16), (binary, 2), (octal, 8), (old_octal, 8), (decimal, 10)) if d is not None
        )
        if len(digits) > _MAX_DIGITS:
            return None
        n = int(digits, base)
        n = -n if sign == "-" else n
        return n if _MIN_INT <= n <= _MAX_INT else _finite(float(n) if abs(n) < 2**1023 else math.inf)
    return _float(plain) if _FLOAT.fullmatch(plain) else None


def _float(text: str) -> int | float | None:
    return _finite(float(text))


def _finite(value: float) -> int | float | None:
    """A float as it comes out of JSON again: whole numbers of fewer than 22 digits are written without a fraction."""
    if math.isinf(value):
        return None
    if value.is_integer() and abs(value) < 1e21 and _MIN_INT <= value <= _MAX_INT:
        return int(value)
    return value


def _binary(text: str) -> str:
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode("utf-8")
    except (binascii.Error, ValueError) as e:
        raise ScalarError("the value is no base64 of a UTF-8 text") from e
