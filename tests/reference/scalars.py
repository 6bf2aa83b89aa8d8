"""Wildcards and scalar patterns (semantics §1 and §2), with the durations and quantities they compare."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from typing import Any

_DURATION_UNITS = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_QUANTITY_UNITS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_ENDPOINT = r"[-+|]?\d+(?:\.\d+)?[A-Za-z]*"
_IN_RANGE = re.compile(f"({_ENDPOINT})-({_ENDPOINT})", re.ASCII)
_OUT_OF_RANGE = re.compile(f"({_ENDPOINT})!-({_ENDPOINT})", re.ASCII)


def wildcard(pattern: str, text: str) -> bool:
    parts = [".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern]
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def has_wildcard(text: str) -> bool:
    return "*" in text or "?" in text


def duration(text: str) -> int | None:
    """Nanoseconds of a Go duration."""
    found = re.fullmatch(r"([-+]?)(0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", text, re.ASCII)
    if not found:
        return None
    sign = -1 if found[1] == "-" else 1
    if found[2] == "0":
        return 0
    total = 0
    for number, unit in re.findall(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", found[2]):
        total += int(Fraction(number.rstrip(".") or "0") * _DURATION_UNITS[unit])
    return sign * total if total < 2**63 else None


def quantity(text: str) -> Fraction | None:
    """The exact value of a Kubernetes quantity, which may do without digits: ``.``, ``-`` and ``Ki`` are 0."""
    found = re.fullmatch(r"([-+]?)(\d*\.?\d*)([A-Za-z]{0,2}|[eE][-+]?\d+)", text, re.ASCII)
    if not found or not text:
        return None
    value = Fraction(found[2].rstrip(".") or "0")
    suffix = found[3]
    if re.fullmatch(r"[eE][-+]?\d+", suffix):
        if abs(int(suffix[1:])) > 400:
            return None
        value *= Fraction(10) ** int(suffix[1:])
    elif suffix in _QUANTITY_UNITS:
        value *= _QUANTITY_UNITS[suffix]
        if suffix.endswith("i"):
            value = min(value, Fraction(2**63 - 1))  # binary suffixes saturate
    else:
        return None
    nano = value * 10**9
    value = Fraction(math.ceil(nano), 10**9)  # finer than a nano: away from zero
    return -value if found[1] == "-" else value


def integer(text: str) -> int | None:
    """A base-10 64-bit integer as Go parses it."""
    if not re.fullmatch(r"[-+]?\d+", text, re.ASCII):
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def floating(text: str) -> float | None:
    if re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text, re.ASCII):
        return float(text)
    if re.fullmatch(r"[-+]?(inf|infinity)", text, re.IGNORECASE):
        return float(text)
    return None


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def match_scalar(value: Any, pattern: Any) -> bool:
    """``value ~ pattern`` of §2, by the type of the pattern."""
    if isinstance(pattern, bool):
        return isinstance(value, bool) and value == pattern
    if isinstance(pattern, int):
        if isinstance(value, bool):
            return False
        if isinstance(value, int):
            return value == pattern
        if isinstance(value, float):
            return value == math.trunc(value) and int(value) == pattern
        return isinstance(value, str) and integer(value) == pattern
    if isinstance(pattern, float):
        if isinstance(value, bool):
            return False
        if isinstance(value, int):
            return pattern == math.trunc(pattern) and value == int(pattern)
        if isinstance(value, float):
            return value == pattern
        return isinstance(value, str) and floating(value) == pattern
    if pattern is None:
        if isinstance(value, bool):
            return not value
        return value is None or value == "" or (is_number(value) and value == 0)
    if isinstance(pattern, dict):
        return isinstance(value, dict)
    if isinstance(pattern, list):
        return False
    return match_text(value, pattern)


def match_text(value: Any, pattern: str) -> bool:
    """String patterns, §2.1."""
    if isinstance(value, str) and value == pattern:
        return True
    return any(
        all(_term(value, term.strip(" ")) for term in alternative.strip(" ").split("&"))
        for alternative in pattern.split("|")
    )


def _term(value: Any, term: str) -> bool:
    if len(term) < 2:
        return _compare(value, "=", term)
    for operator in (">=", "<=", ">", "<", "!"):
        if term.startswith(operator):
            return _compare(value, operator, term[len(operator) :].strip())
    if found := _OUT_OF_RANGE.fullmatch(term):
        return _compare(value, "<", found[1]) or _compare(value, ">", found[2])
    return in_range(value, term) if _IN_RANGE.fullmatch(term) else _compare(value, "=", term)


def is_range(text: str) -> bool:
    return _IN_RANGE.fullmatch(text) is not None


def in_range(value: Any, text: str) -> bool:
    found = _IN_RANGE.fullmatch(text)
    return found is not None and _compare(value, ">=", found[1]) and _compare(value, "<=", found[2])


def _compare(value: Any, operator: str, operand: str) -> bool:
    number_text = _number_text(value)
    if number_text is not None:
        for parse in (duration, quantity):
            left, right = parse(number_text), parse(operand)
            if left is not None and right is not None:
                return {
                    ">=": left >= right,
                    "<=": left <= right,
                    ">": left > right,
                    "<": left < right,
                    "!": left != right,
                    "=": left == right,
                }[operator]
    if operator not in ("=", "!"):
        return False
    if isinstance(value, (dict, list)):
        return operator == "=" and operand == "?*"  # right here: a field that is there exists
    text = _plain_text(value)
    if text is None:
        return False
    return wildcard(operand, text) == (operator == "=")


def _number_text(value: Any) -> str | None:
    if value is None:
        return "0"
    if isinstance(value, (bool, dict, list)):
        return None
    if isinstance(value, float):
        return f"{value:.6f}"
    return str(value)


def _plain_text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return scientific(value)
    return str(value)


def scientific(value: float) -> str:
    """Go's shortest ``E`` form: ``1E+00``, ``1.5E+03``."""
    digits, exponent = _digits(value)
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{'-' if value < 0 else ''}{mantissa}E{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _digits(value: float) -> tuple[str, int]:
    """The shortest digits that read back, and the exponent of the first of them."""
    plain, _, shift = repr(abs(value)).partition("e")
    whole, _, part = plain.partition(".")
    digits = whole + part
    leading = len(digits) - len(digits.lstrip("0"))
    exponent = len(whole) - 1 - leading + int(shift or 0)
    return digits.strip("0") or "0", exponent if value else 0


def json_text(value: Any) -> str:
    """Compact JSON with sorted keys, numbers as Go writes them."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(k)}:{json_text(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        for c in ("<", ">", "&", "\u2028", "\u2029", "\x7f"):
            if c != "\x7f":
                text = text.replace(c, f"\\u{ord(c):04x}")
        return text
    return json.dumps(value)


def json_number(value: float) -> str:
    if value == int(value) and abs(value) < 1e21:
        return str(int(value)) if value != 0 or math.copysign(1, value) > 0 else "-0"
    if 1e-6 <= abs(value) < 1e21:
        digits, exponent = _digits(value)
        sign = "-" if value < 0 else ""
        if exponent < 0:
            return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
        whole = digits[: exponent + 1].ljust(exponent + 1, "0")
        rest = digits[exponent + 1 :]
        return f"{sign}{whole}{'.' + rest if rest else ''}"
    text = scientific(value).replace("E", "e")
    return re.sub(r"e([-+])0(\d)$", r"e\1\2", text)


def go_value(value: Any) -> str:
    """Go's ``%v``."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if value == 0:
            return "-0" if math.copysign(1, value) < 0 else "0"
        _, exponent = _digits(value)
        if exponent < -4 or exponent >= 6:
            return scientific(value).replace("E", "e")
        return json_number(value)
    if isinstance(value, dict):
        return "map[" + " ".join(f"{k}:{go_value(value[k])}" for k in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_value, value)) + "]"
    return str(value)


def go_type(value: Any) -> str:
    """Go's ``%T`` of a decoded JSON value."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "bool"
    for kind, name in ((int, "int64"), (float, "float64"), (str, "string"), (list, "[]interface {}")):
        if isinstance(value, kind):
            return name
    return "map[string]interface {}"
