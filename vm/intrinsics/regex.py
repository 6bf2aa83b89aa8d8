"""Regular expressions with RE2, as Go has them: linear time, ``$1`` in replacements."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import re2

from vm.intrinsics.jmes_errors import is_number, wrong_type, wrong_value
from vm.intrinsics.text import go_float
from vm.values import Err, Value

_REFERENCE: Final = re.compile(r"\$(?:\$|\{([A-Za-z0-9_]+)\}|([A-Za-z0-9_]+))", re.ASCII)
LONGEST_KEPT: Final = 1024
"""Characters of an expression up to which it is kept compiled."""
_MAX_OUTPUT: Final = 4 * 1024 * 1024


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.never_nl = False
    return options


def compiled(pattern: str) -> Any:
    """The compiled expression, or the words of what is wrong with it. Long ones are not kept: they may come from the
    objects of strangers."""
    return _short(pattern) if len(pattern) <= LONGEST_KEPT else _short.__wrapped__(pattern)


def uncaptured(pattern: str) -> tuple[Callable[[Any, bytes, int, int], Any], Any]:
    """How the library itself searches bytes for an expression that compiles, and its word for anywhere; the spans
    that it answers are of the whole match alone, ``(-1, -1)`` for none."""
    options = _options()
    options.never_capture = True
    return re2.compile(pattern, options)._regexp.Match, re2._Anchor.UNANCHORED


@lru_cache(maxsize=256)
def _short(pattern: str) -> Any:
    try:
        return re2.compile(pattern, _options())
    except re2.error as e:
        cause = e.args[0] if e.args else ""
        return f"cannot compile {pattern!r}: {cause.decode() if isinstance(cause, bytes) else cause}"
    except UnicodeError:
        return f"cannot compile {pattern!r}: not valid text"


def what_is_wrong(pattern: str) -> str:
    """The words of what is wrong with an expression, empty for one that compiles."""
    expression = compiled(pattern)
    return expression if isinstance(expression, str) else ""


def _text(function: str, position: int, v: Value) -> str | Err:
    """A text or number as text; numbers in plain decimal form."""
    if type(v) is str:
        return v.encode("utf-8", "replace").decode() if not v.isascii() else v
    if is_number(v):
        return go_float(v, "f") if type(v) is float else str(v)
    return wrong_type(function, position, v, "a string or a number")


def match(pattern: Value, source: Value) -> Value:
    """``regex_match``: whether the expression is found anywhere in the text."""
    if type(pattern) is not str:
        return wrong_type("regex_match", 1, pattern, "a string")
    text = _text("regex_match", 2, source)
    if isinstance(text, Err):
        return text
    expression = compiled(pattern)
    if isinstance(expression, str):
        return wrong_value("regex_match", expression)
    return expression.search(text) is not None


def replace_all(pattern: Value, source: Value, replacement: Value) -> Value:
    """``regex_replace_all``: ``$1``, ``${name}`` stand for groups, unknown ones for nothing, ``$$`` for a dollar."""
    return _replaced("regex_replace_all", pattern, source, replacement, _expander)


def replace_all_literal(pattern: Value, source: Value, replacement: Value) -> Value:
    """``regex_replace_all_literal``: the replacement as it stands."""
    return _replaced("regex_replace_all_literal", pattern, source, replacement, lambda text: lambda _: text)


def _replaced(
    function: str,
    pattern: Value,
    source: Value,
    replacement: Value,
    expander: Callable[[str], Callable[[Any], str]],
) -> Value:
    if type(pattern) is not str:
        return wrong_type(function, 1, pattern, "a string")
    text, put = _text(function, 2, source), _text(function, 3, replacement)
    for part in (text, put):
        if isinstance(part, Err):
            return part
    assert isinstance(text, str)
    assert isinstance(put, str)
    expression = compiled(pattern)
    if isinstance(expression, str):
        return wrong_value(function, expression)
    expand = expander(put)
    out: list[str] = []
    done, size = 0, 0
    last = -1
    for found in expression.finditer(text):
        start, end = found.span()
        if start == end == last:  # an empty match right after another match counts for nothing
            continue
        piece = text[done:start] + expand(found)
        size += len(piece)
        if size > _MAX_OUTPUT:
            return wrong_value(function, "the result is too long")
        out.append(piece)
        done = last = end
    out.append(text[done:])
    return "".join(out)


def _expander(template: str) -> Callable[[Any], str]:
    def expand(found: Any) -> str:
        def one(reference: re.Match[str]) -> str:
            name = reference[1] or reference[2]
            if name is None:
                return "$"
            try:
                return found.group(int(name) if name.isdigit() else name) or ""
            except (IndexError, KeyError, re2.error):
                return ""

        return _REFERENCE.sub(one, template)

    return expand
