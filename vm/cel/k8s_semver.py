"""Semantic versions as the API server's ``semver`` library reads and orders them (rules and words of blang/semver v4).

The build part is read and plays no part in any comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from vm.cel.go_quote import go_quote
from vm.cel.values import UINT_MAX, no_overload
from vm.values import Err, Value

_NUMBERS: Final = frozenset("0123456789")
_ALPHANUM: Final = _NUMBERS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")
_NUMERAL_DIGITS: Final = 20
"""The digits of the largest unsigned integer of 64 bits."""


@dataclass(frozen=True, slots=True)
class Semver:
    """``pre`` are the identifiers of the pre-release, numbers as ``int``."""

    CEL_TYPE: ClassVar[str] = "kubernetes.Semver"
    major: int
    minor: int
    patch: int
    pre: tuple[int | str, ...] = ()

    def compare(self, other: Semver) -> int:
        """-1, 0 or 1: a version with a pre-release comes before the one without, numbers before texts."""
        a, b = (self.major, self.minor, self.patch), (other.major, other.minor, other.patch)
        if a != b:
            return 1 if a > b else -1
        if not self.pre or not other.pre:
            return bool(other.pre) - bool(self.pre)
        for x, y in zip(self.pre, other.pre, strict=False):
            if x == y:
                continue
            if isinstance(x, int):
                return 1 if isinstance(y, int) and x > y else -1
            return -1 if isinstance(y, str) and x < y else 1
        return (len(self.pre) > len(other.pre)) - (len(self.pre) < len(other.pre))


def parse(text: str) -> Semver | Err:
    """The version that a text denotes: three numbers, then ``-`` and the pre-release, then ``+`` and the build."""
    if not text:
        return _bad("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        return _bad("No Major.Minor.Patch elements found")
    rest, plus, build = parts[2].partition("+")
    patch, dash, pre = rest.partition("-")
    numbers: list[int] = []
    for name, digits in (("Major", parts[0]), ("Minor", parts[1]), ("Patch", patch)):
        if not _NUMBERS.issuperset(digits):
            return _bad(f"Invalid character(s) found in {name.lower()} number {go_quote(digits)}")
        if len(digits) > 1 and digits[0] == "0":
            return _bad(f"{name} number must not contain leading zeroes {go_quote(digits)}")
        n = _uint(digits)
        if isinstance(n, Err):
            return n
        numbers.append(n)
    found: list[int | str] = []
    for part in pre.split(".") if dash else ():
        read = _identifier(part)
        if isinstance(read, Err):
            return read
        found.append(read)
    for part in build.split(".") if plus else ():
        if not part:
            return _bad("Build meta data is empty")
        if not _ALPHANUM.issuperset(part):
            return _bad(f"Invalid character(s) found in build meta data {go_quote(part)}")
    return Semver(numbers[0], numbers[1], numbers[2], tuple(found))


def _identifier(part: str) -> int | str | Err:
    if not part:
        return _bad("Prerelease is empty")
    if _NUMBERS.issuperset(part):
        if len(part) > 1 and part[0] == "0":
            return _bad(f"Numeric PreRelease version must not contain leading zeroes {go_quote(part)}")
        return _uint(part)
    if not _ALPHANUM.issuperset(part):
        return _bad(f"Invalid character(s) found in prerelease {go_quote(part)}")
    return part


def normalized(text: str) -> str | Err:
    """A text without a leading ``v`` and leading zeros of its numbers, and with the numbers that are left out as 0."""
    parts = text.removeprefix("v").split(".", 2)
    for i, part in enumerate(parts):
        if len(part) > 1:
            part = part.lstrip("0")
            parts[i] = part if part and part[0] in _NUMBERS else f"0{part}"
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            return _bad("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _uint(digits: str) -> int | Err:
    if not digits:
        return _bad('strconv.ParseUint: parsing "": invalid syntax')
    n = int(digits) if len(digits) <= _NUMERAL_DIGITS else UINT_MAX + 1
    return n if n <= UINT_MAX else _bad(f"strconv.ParseUint: parsing {go_quote(digits)}: value out of range")


def _bad(text: str) -> Err:
    return Err("argument", text)


def _read(text: str, normalize: bool) -> Semver | Err:
    found = normalized(text) if normalize else text
    return found if isinstance(found, Err) else parse(found)


def semver(text: Value) -> Value:
    """``semver(text)``."""
    return _read(text, False) if type(text) is str else no_overload("semver", text)


def semver_normalize(text: Value, normalize: Value) -> Value:
    """``semver(text, normalize)``."""
    if type(text) is str and type(normalize) is bool:
        return _read(text, normalize)
    return no_overload("semver", text, normalize)


def is_semver(text: Value) -> Value:
    """``isSemver(text)``."""
    return type(_read(text, False)) is Semver if type(text) is str else no_overload("isSemver", text)


def is_semver_normalize(text: Value, normalize: Value) -> Value:
    """``isSemver(text, normalize)``."""
    if type(text) is str and type(normalize) is bool:
        return type(_read(text, normalize)) is Semver
    return no_overload("isSemver", text, normalize)


def major(v: Value) -> Value:
    """``v.major()``. An unsigned number beyond 63 bits comes out negative, as in Kubernetes."""
    return _int(v.major) if type(v) is Semver else no_overload("major", v)


def minor(v: Value) -> Value:
    """``v.minor()``."""
    return _int(v.minor) if type(v) is Semver else no_overload("minor", v)


def patch(v: Value) -> Value:
    """``v.patch()``."""
    return _int(v.patch) if type(v) is Semver else no_overload("patch", v)


def _int(n: int) -> int:
    return n - (1 << 64) if n >> 63 else n
