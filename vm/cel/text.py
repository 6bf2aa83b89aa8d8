"""The standard functions on texts: ``contains``, ``startsWith``, ``endsWith`` and ``matches`` (RE2).

Called as intrinsics; :func:`compiled` serves every library that works with expressions.
"""

from __future__ import annotations

import re
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
    expression = compiled(pattern)
    if type(expression) is Err:
        return expression
    # Bytes: given a text, the library counts characters up to each group (4.3 µs a call instead of 1.4).
    return expression.search(s.encode("utf-8", "replace")) is not None


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
