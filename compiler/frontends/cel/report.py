"""The problems of an expression as diagnostics with a place in the policy's text.

Called by the front ends that hold CEL, with the pointer of the scalar that the expression was read from. The caret
stands under the characters meant, whatever style the scalar is written in (:mod:`compiler.textmap`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from compiler.diagnostics import Reporter
from compiler.frontends.cel.checked import Problem
from compiler.source import SourceMap

_ERRORS: Final = {
    "undeclared": "T1211",
    "overload": "T1212",
    "field": "T1213",
    "type": "T1214",
    "literal": "T1215",
    "depth": "T1216",
    "length": "T1216",
}
_SYNTAX: Final = "T1210"
_WARNINGS: Final = {"always_false": "T1218"}
_MISFIT: Final = "T1217"
_QUANTITY: Final = "T1219"


def report(problems: Iterable[Problem], reporter: Reporter, spans: SourceMap, pointer: str, text: str) -> None:
    """Tell the reporter of each problem of the expression ``text`` that stands at ``pointer``."""
    last = len(text.rstrip())
    for p in problems:
        # What is missing at the end is missed behind the last character that can be seen.
        start = min(p.at[0], last)
        span = spans.text_span(pointer, start, max(min(p.at[1], last), start + 1))
        match p.level:
            case "error":
                reporter.error(_ERRORS.get(p.kind, _SYNTAX), span, p.message, p.expected, p.help)
            case "warning":
                reporter.warning(_WARNINGS.get(p.kind, _MISFIT), span, p.message, p.expected, p.help)
            case "note":
                reporter.note(_QUANTITY, span, p.message, p.expected, p.help)
