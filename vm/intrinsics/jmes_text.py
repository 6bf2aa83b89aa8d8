"""Text functions of the policy dialect: case, cutting, replacing, encodings, digests, versions."""

from __future__ import annotations

import base64
import binascii
import hashlib
import posixpath
import re
from functools import lru_cache
from typing import Final

from vm.intrinsics.jmes_errors import is_number, not_texts, wrong_type, wrong_value
from vm.intrinsics.text import go_float
from vm.intrinsics.wildcard import match as wildcard_match
from vm.values import Value

_MAX_OUTPUT: Final = 4 * 1024 * 1024


def compare(a: Value, b: Value) -> Value:
    if type(a) is str and type(b) is str:
        return (a > b) - (a < b)
    return not_texts("compare", a, b)


def equal_fold(a: Value, b: Value) -> Value:
    if type(a) is str and type(b) is str:
        return a == b or (len(a) == len(b) and _folded(a) == _folded(b))
    return not_texts("equal_fold", a, b)


def _folded(s: str) -> str:
    """Letters by simple case folding, one to one, as Go compares them."""
    return _lower(_upper(s))


def _upper(s: str) -> str:
    """Capital letters, one for one: Go keeps a letter whose capital form is several."""
    return s.upper() if s.isascii() else "".join(u if len(u := c.upper()) == 1 else c for c in s)


def _lower(s: str) -> str:
    return s.lower() if s.isascii() else "".join(u if len(u := c.lower()) == 1 else c for c in s)


def to_upper(s: Value) -> Value:
    return _upper(s) if type(s) is str else not_texts("to_upper", s)


def to_lower(s: Value) -> Value:
    return _lower(s) if type(s) is str else not_texts("to_lower", s)


def trim(s: Value, cut: Value) -> Value:
    if type(s) is str and type(cut) is str:
        return s.strip(cut)
    return not_texts("trim", s, cut)


def trim_prefix(s: Value, prefix: Value) -> Value:
    if type(s) is str and type(prefix) is str:
        return s.removeprefix(prefix)
    return not_texts("trim_prefix", s, prefix)


def split(s: Value, separator: Value) -> Value:
    if type(s) is str and type(separator) is str:
        return s.split(separator) if separator else list(s)
    return not_texts("split", s, separator)


def replace(s: Value, old: Value, new: Value, n: Value) -> Value:
    if type(s) is str and type(old) is str and type(new) is str:
        if not is_number(n):
            return wrong_type("replace", 4, n, "a number")
        return _replaced("replace", s, old, new, -1 if n < 0 else int(min(n, 2**31)))
    return not_texts("replace", s, old, new)


def replace_all(s: Value, old: Value, new: Value) -> Value:
    if type(s) is str and type(old) is str and type(new) is str:
        return _replaced("replace_all", s, old, new, -1)
    return not_texts("replace_all", s, old, new)


def _replaced(function: str, s: str, old: str, new: str, n: int) -> Value:
    if (s.count(old) if old else len(s) + 1) * len(new) > _MAX_OUTPUT:
        return wrong_value(function, "the result is too long")
    return s.replace(old, new, n)


def truncate(s: Value, n: Value) -> Value:
    if type(s) is not str:
        return wrong_type("truncate", 1, s, "a string")
    return s[: int(max(0, min(n, len(s))))] if is_number(n) else wrong_type("truncate", 2, n, "a number")


def to_boolean(s: Value) -> Value:
    if type(s) is not str:
        return wrong_type("to_boolean", 1, s, "a string")
    found = {"true": True, "false": False}.get(s.lower())
    return found if found is not None else wrong_value("to_boolean", f"must be 'true' or 'false', got {s!r}")


def pattern_match(pattern: Value, s: Value) -> Value:
    if type(pattern) is not str:
        return wrong_type("pattern_match", 1, pattern, "a string")
    if type(s) is str:
        return wildcard_match(pattern, s)
    if is_number(s):
        return wildcard_match(pattern, go_float(s, "f") if type(s) is float else str(s))
    return wrong_type("pattern_match", 2, s, "a string or a number")


def base64_encode(s: Value) -> Value:
    if type(s) is not str:
        return wrong_type("base64_encode", 1, s, "a string")
    return base64.b64encode(s.encode("utf-8", "replace")).decode()


def base64_decode(s: Value) -> Value:
    """Standard alphabet with padding; line breaks are left out, as Go does; bytes that are no text become U+FFFD."""
    if type(s) is not str:
        return wrong_type("base64_decode", 1, s, "a string")
    try:
        return base64.b64decode(s.replace("\n", "").replace("\r", "").encode(), validate=True).decode(
            "utf-8", "replace"
        )
    except (binascii.Error, ValueError):
        return wrong_value("base64_decode", "not standard base64")


def md5(s: Value) -> Value:
    return _digest("md5", s)


def sha1(s: Value) -> Value:
    return _digest("sha1", s)


def sha256(s: Value) -> Value:
    return _digest("sha256", s)


def _digest(name: str, s: Value) -> Value:
    if type(s) is not str:
        return wrong_type(name, 1, s, "a string")
    return hashlib.new(name, s.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()


def path_canonicalize(s: Value) -> Value:
    if type(s) is not str:
        return wrong_type("path_canonicalize", 1, s, "a string")
    if not s:
        return ""
    clean = posixpath.normpath(s)
    return "/" + clean.lstrip("/") if clean.startswith("/") else clean


# Versions

_SEMVER: Final = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)
_CONDITION: Final = re.compile(r"(>=|<=|!=|==|=|>|<|!|)\s*v?([0-9xX*][0-9A-Za-z.+*-]*)", re.ASCII)
_Version = tuple[int, int, int, tuple[tuple[int, int, str], ...]]


def _version(text: str) -> _Version | None:
    """A key that orders versions; a pre-release comes before its release."""
    shape = _SEMVER.fullmatch(text) if len(text) <= 200 else None
    if shape is None:
        return None
    parts: list[tuple[int, int, str]] = []
    for p in (shape[4] or "").split(".") if shape[4] else []:
        if not p:
            return None
        parts.append((0, int(p), "") if p.isdigit() else (1, 0, p))
    end = ((2, 0, ""),) if not parts else tuple(parts)
    return int(shape[1]), int(shape[2]), int(shape[3]), end


def semver_compare(version: Value, wanted: Value) -> Value:
    """Whether a version is in a range: ``>=1.0.0 <2.0.0 || !3.0.0``. A text that is no full version is an error, where
    the reference takes it for 0.0.0 (decision 4)."""
    if type(version) is not str or type(wanted) is not str:
        return not_texts("semver_compare", version, wanted)
    terms = _range(wanted)
    if terms is None:
        return wrong_value("semver_compare", f"{wanted!r} is no range of versions")
    v = _version(version)
    if v is None:
        return wrong_value("semver_compare", f"{version!r} is no full version")
    return any(all(_holds(v, op, w) for op, w in term) for term in terms)


def semver_compare_kyverno(version: Value, wanted: Value) -> Value:
    """:func:`semver_compare` as the reference has it: a text that is no full version counts as 0.0.0."""
    if type(version) is str and _version(version) is None:
        version = "0.0.0"
    return semver_compare(version, wanted)


@lru_cache(maxsize=256)
def _range(text: str) -> tuple[tuple[tuple[str, _Version], ...], ...] | None:
    out: list[tuple[tuple[str, _Version], ...]] = []
    for alternative in text.split("||"):
        term: list[tuple[str, _Version]] = []
        rest = alternative.strip()
        if not rest:
            return None
        while rest:
            shape = _CONDITION.match(rest)
            bounds = None if shape is None else _bounds(shape[1], shape[2])
            if shape is None or bounds is None:
                return None
            term.extend(bounds)
            rest = rest[shape.end() :].strip()
        out.append(tuple(term))
    return tuple(out)


def _bounds(op: str, text: str) -> list[tuple[str, _Version]] | None:
    """A condition as plain ones: ``1.2.x`` stands for all versions from 1.2.0 to below 1.3.0."""
    parts = text.split(".")
    wild = next((i for i, p in enumerate(parts) if p in ("x", "X", "*")), None)
    if wild is None:
        v = _version(text)
        return None if v is None else [(op, v)]
    if wild == 0 or wild > 2 or not all(p.isdigit() for p in parts[:wild]):
        return None
    numbers = [int(p) for p in parts[:wild]]
    low = _version(".".join(map(str, [*numbers, 0, 0][:3])))
    numbers[-1] += 1
    high = _version(".".join(map(str, [*numbers, 0, 0][:3])))
    if low is None or high is None:
        return None
    match op:
        case "" | "=" | "==":
            return [(">=", low), ("<", high)]
        case ">":
            return [(">=", high)]
        case ">=":
            return [(">=", low)]
        case "<":
            return [("<", low)]
        case "<=":
            return [("<", high)]
    return None


def _holds(v: _Version, op: str, w: _Version) -> bool:
    match op:
        case ">=":
            return v >= w
        case "<=":
            return v <= w
        case ">":
            return v > w
        case "<":
            return v < w
        case "!" | "!=":
            return v != w
    return v == w
