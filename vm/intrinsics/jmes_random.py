"""``random``: a text that a regular expression matches, drawn at random.

The expression is checked by RE2, so that the reader here may take it as well-formed. What an expression leaves open is
kept small: a repetition without end goes at most :data:`_OPEN` beyond its least, and ``.`` and negated classes draw
printable ASCII where they can.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from vm.host import Meter
from vm.intrinsics.jmes_errors import not_texts, wrong_value
from vm.values import Value

_OPEN: Final = 32
_LONGEST: Final = 64 * 1024
_DEEPEST: Final = 100

_DIGITS: Final = frozenset("0123456789")
_LOWER: Final = frozenset("abcdefghijklmnopqrstuvwxyz")
_UPPER: Final = frozenset(c.upper() for c in _LOWER)
_WORD: Final = _DIGITS | _LOWER | _UPPER | {"_"}
_SPACE: Final = frozenset("\t\n\f\r ")
_PRINTABLE: Final = frozenset(map(chr, range(32, 127)))
_CLASSES: Final = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_NAMED: Final = {
    "alnum": _DIGITS | _LOWER | _UPPER,
    "alpha": _LOWER | _UPPER,
    "ascii": frozenset(map(chr, range(128))),
    "blank": frozenset("\t "),
    "cntrl": frozenset(map(chr, (*range(32), 127))),
    "digit": _DIGITS,
    "graph": _PRINTABLE - {" "},
    "lower": _LOWER,
    "print": _PRINTABLE,
    "punct": _PRINTABLE - _WORD - {" "} | {"_"},
    "space": _SPACE | {"\v"},
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": _DIGITS | frozenset("abcdefABCDEF"),
}
_ESCAPES: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_NOWHERE: Final = frozenset("AzZbB")
"""Escapes that match no character."""


@dataclass(frozen=True, slots=True)
class _Any:
    """One character of several, in order."""

    characters: str


@dataclass(frozen=True, slots=True)
class _Repeat:
    part: _Node
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class _Choice:
    """One of several sequences."""

    options: tuple[tuple[_Node, ...], ...]


_Node: TypeAlias = _Any | _Repeat | _Choice


class _Unreadable(Exception):
    """A construct that RE2 knows and nothing can be drawn from here."""


def random(meter: Meter, pattern: Value) -> Value:
    """A text that the expression matches. The meter's dice decide, the system's where it has none."""
    from vm.intrinsics.regex import what_is_wrong

    if type(pattern) is not str:
        return not_texts("random", pattern)
    if not pattern:
        return wrong_value("random", "no pattern provided")
    if wrong := what_is_wrong(pattern):
        return wrong_value("random", wrong)
    meter.charge(len(pattern) * 4)
    try:
        node = _read(pattern) if len(pattern) <= 1024 else _read.__wrapped__(pattern)
    except _Unreadable as problem:
        return wrong_value("random", f"cannot make a text for {pattern!r}: {problem}")
    drawn: list[str] = []
    return "".join(drawn) if _draw(node, meter, drawn) else wrong_value("random", "the text would be too long")


def dice(meter: Meter) -> Any:
    """What draws: the meter's own, made of the system's randomness at the first call."""
    if meter.dice is None:
        from random import SystemRandom

        meter.dice = SystemRandom()
    return meter.dice


def _draw(node: _Node, meter: Meter, drawn: list[str]) -> bool:
    """Appends a text for a part; false when the whole is too long."""
    meter.charge(1)
    match node:
        case _Any(characters):
            drawn.append(dice(meter).choice(characters))
        case _Repeat(part, least, most):
            for _ in range(dice(meter).randint(least, most)):
                if not _draw(part, meter, drawn):
                    return False
        case _Choice(options):
            chosen = options[0] if len(options) == 1 else dice(meter).choice(options)
            for part in chosen:
                if not _draw(part, meter, drawn):
                    return False
    return len(drawn) <= _LONGEST


@lru_cache(maxsize=128)
def _read(pattern: str) -> _Node:
    return _Reader(pattern).choice(0)


class _Reader:
    """Recursive descent over an expression that RE2 has accepted."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def choice(self, depth: int) -> _Node:
        if depth > _DEEPEST:
            raise _Unreadable("groups are nested too deeply")
        options: list[tuple[_Node, ...]] = []
        parts: list[_Node] = []
        while self.at < len(self.text) and self.text[self.at] != ")":
            if self.text[self.at] == "|":
                self.at += 1
                options.append(tuple(parts))
                parts = []
                continue
            part = self.part(depth)
            if part is not None:
                parts.append(self.repeated(part))
        return _Choice((*options, tuple(parts)))

    def part(self, depth: int) -> _Node | None:
        """The next part without what repeats it; None for one that matches no character."""
        c = self.text[self.at]
        self.at += 1
        match c:
            case "(":
                return self.group(depth)
            case "[":
                return self.bracket()
            case ".":
                return _of(_PRINTABLE)
            case "^" | "$":
                return None
            case "\\":
                if self.text.startswith("Q", self.at):
                    return self.quoted()
                found = self.escape()
                return None if found is None else _of(found)
        return _Any(c)

    def group(self, depth: int) -> _Node | None:
        if self.text.startswith("?", self.at):
            end = self.at + 1
            if self.text.startswith(("?P<", "?<"), self.at):
                self.at = self.text.index(">", self.at) + 1
            else:
                while self.text[end] not in ":)":
                    end += 1
                if "i" in self.text[self.at : end].partition("-")[0] or self.text[end] == ")":
                    raise _Unreadable("flags are not supported")
                self.at = end + 1
        inner = self.choice(depth + 1)
        self.at += 1
        return inner

    def quoted(self) -> _Node:
        end = self.text.find("\\E", self.at)
        end = len(self.text) if end < 0 else end
        literal = self.text[self.at + 1 : end]
        self.at = min(end + 2, len(self.text))
        return _Choice((tuple(_Any(c) for c in literal),))

    def repeated(self, part: _Node) -> _Node:
        while self.at < len(self.text):
            c = self.text[self.at]
            if c in "?*+":
                least, most = (1 if c == "+" else 0), (1 if c == "?" else None)
                self.at += 1
            elif c == "{" and (found := self.counts()) is not None:
                least, most = found
            else:
                return part
            if self.text.startswith("?", self.at):
                self.at += 1
            part = _Repeat(part, least, least + _OPEN if most is None else most)
        return part

    def counts(self) -> tuple[int, int | None] | None:
        end = self.text.find("}", self.at)
        first, comma, second = self.text[self.at + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not first.isdecimal() or (second and not second.isdecimal()):
            return None  # a brace that stands for itself
        self.at = end + 1
        return int(first), int(second) if second else None if comma else int(first)

    def bracket(self) -> _Node:
        negated = self.text.startswith("^", self.at)
        self.at += negated
        found: set[str] = set()
        start = self.at
        while self.text[self.at] != "]" or self.at == start:
            if self.text.startswith("[:", self.at):
                end = self.text.index(":]", self.at)
                name = self.text[self.at + 2 : end]
                found.update(_PRINTABLE - _NAMED[name[1:]] if name.startswith("^") else _NAMED[name])
                self.at = end + 2
                continue
            low = self.member()
            if len(low) == 1 and self.text.startswith("-", self.at) and self.text[self.at + 1] != "]":
                self.at += 1
                high = self.member()
                first, last = ord(next(iter(low))), ord(next(iter(high)))
                found.update(map(chr, range(first, min(last, first + 0x10000) + 1)))
            else:
                found |= low
        self.at += 1
        if negated:
            found = set(_PRINTABLE - found) or {next(c for c in map(chr, range(160, 0x110000)) if c not in found)}
        return _of(frozenset(found))

    def member(self) -> frozenset[str]:
        c = self.text[self.at]
        self.at += 1
        return frozenset(c) if c != "\\" else self.escape() or frozenset()

    def escape(self) -> frozenset[str] | None:
        """What stands behind a backslash; None where it matches no character."""
        c = self.text[self.at]
        self.at += 1
        if c.lower() in _CLASSES:
            return _CLASSES[c] if c in _CLASSES else _PRINTABLE - _CLASSES[c.lower()]
        if c in _NOWHERE:
            return None
        if c in "pPCQE":
            raise _Unreadable(f"\\{c} is not supported")
        if c == "x":
            return frozenset(chr(int(self.digits(), 16)))
        if c in "01234567":
            end = self.at
            while end < self.at + 2 and end < len(self.text) and self.text[end] in "01234567":
                end += 1
            octal, self.at = self.text[self.at - 1 : end], end
            return frozenset(chr(int(octal, 8)))
        return frozenset(_ESCAPES.get(c, c))

    def digits(self) -> str:
        if self.text.startswith("{", self.at):
            end = self.text.index("}", self.at)
            found, self.at = self.text[self.at + 1 : end], end + 1
        else:
            found, self.at = self.text[self.at : self.at + 2], self.at + 2
        return found


def _of(characters: frozenset[str]) -> _Node:
    """One of some characters, sorted so that a seed gives the same text everywhere."""
    return _Any("".join(sorted(characters)))
