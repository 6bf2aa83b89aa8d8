"""The standard functions on texts: ``contains``, ``startsWith``, ``endsWith`` and ``matches`` (RE2).

Called as intrinsics; :func:`compiled` serves every library that works with expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from vm.cel.values import mismatch
from vm.intrinsics import regex
from vm.values import Err, Value

_GO_WORDS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "pattern too large - compile failed": "expression too large",
}
"""What Go's ``regexp`` says where the RE2 library says the key."""
_LONGEST: Final = 256
_NOWHERE: Final = (-1, -1)
"""The span of what is not found."""
_AT_START: Final = re.compile(r"(?:\^|\\b|\\[sSdDwW][*+]?|\.[*+]?)*([A-Za-z0-9/_-]{2,})(?![A-Za-z0-9/_*?{-])")
_ANY_BYTE: Final = re.compile(r"(?:^|[^\\])(?:\\\\)*\\C")
"""``\\C``, one byte: RE2 has it, Go has not."""
_NO_ANY_BYTE: Final = Err("argument", "error parsing regexp: invalid escape sequence: `\\C`")


def contains(s: Value, part: Value) -> Value:
    """``s.contains(part)``."""
    return part in s if type(s) is str and type(part) is str else mismatch(s, part)


def starts_with(s: Value, prefix: Value) -> Value:
    """``s.startsWith(prefix)``."""
    return s.startswith(prefix) if type(s) is str and type(prefix) is str else mismatch(s, prefix)


def ends_with(s: Value, suffix: Value) -> Value:
    """``s.endsWith(suffix)``."""
    return s.endswith(suffix) if type(s) is str and type(suffix) is str else mismatch(s, suffix)


def matches(s: Value, pattern: Value) -> Value:
    """``s.matches(pattern)``: whether the expression is found anywhere in the text."""
    if type(s) is not str or type(pattern) is not str:
        return mismatch(s, pattern)
    found = searcher(pattern)
    return found if isinstance(found, Err) else found(s)


def searcher(pattern: str) -> Callable[[str], bool] | Err:
    """What says whether an expression is found anywhere in a text, or the error of one that is none. Long ones are not
    kept: they may come from the objects of strangers."""
    return _searcher(pattern) if len(pattern) <= regex.LONGEST_KEPT else _searcher.__wrapped__(pattern)


@lru_cache(maxsize=256)
def _searcher(pattern: str) -> Callable[[str], bool] | Err:
    """Groups are not captured, as nobody asks for them (0.6 µs instead of 1 µs for one of five groups), and the text
    is given as bytes to the library itself, past what makes an object of the match and counts the characters before it
    (0.4 to 3 µs a call)."""
    expression = compiled(pattern)
    if type(expression) is Err:
        return expression
    match, anywhere = regex.uncaptured(pattern)
    literal = needed_literal(pattern)

    def found(s: str) -> bool:
        if literal not in s:
            return False
        text = s.encode("utf-8", "replace")
        return bool(match(anywhere, text, 0, len(text))[0] != _NOWHERE)

    return found


def needed_literal(pattern: str) -> str:
    """A text that is in every text in which the expression is found; empty where none is certain. Most texts lack it,
    and looking for it costs a tenth of a search. Only plain characters at the start of an expression count, with
    nothing before them but anchors and any characters, and only where the expression has no alternatives and no
    flags."""
    if "|" in pattern or "(?" in pattern:
        return ""
    found = _AT_START.match(pattern)
    return found[1] if found is not None else ""


def compiled(pattern: str) -> Any:
    """The compiled expression, from the cache of all expressions, or an error in the words of Go's ``regexp``."""
    found = regex.compiled(pattern)
    if not isinstance(found, str):
        return found if "\\C" not in pattern or not _ANY_BYTE.search(pattern) else _NO_ANY_BYTE
    cause = found.removeprefix(f"cannot compile {pattern!r}: ")
    words, _, part = cause.partition(": ")
    if not part and words != "trailing \\":  # Go shows no part there
        part = pattern
    return Err("argument", f"error parsing regexp: {_GO_WORDS.get(words, words)}: `{part[:_LONGEST]}`")
