"""Where the product and the outside CEL judge differ on purpose, each with the specification's paragraph.

The product follows cel-go wherever the specification leaves a choice, since the API server does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

_ANY: Final = re.compile("")


@dataclass(frozen=True, slots=True)
class Difference:
    """A case falls under it when all that is given is found: in the ``expression``, in the text of our ``error``, in
    the ``answers`` of both sides as text. ``paragraph`` is one of the specification (langdef.md)."""

    paragraph: str
    reason: str
    expression: re.Pattern[str] = _ANY
    error: re.Pattern[str] | None = None
    answers: re.Pattern[str] = _ANY


DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference(
        "§ Ordering Operators",
        "no order of NaN is defined: cel-go makes it an error, the judge answers false",
        error=re.compile(r"NaN values cannot be ordered"),
    ),
    Difference(
        "§ Timestamp and Duration, getMilliseconds",
        "of a duration cel-go counts all milliseconds, the judge those beyond the last whole second",
        expression=re.compile(r"getMilliseconds\("),
    ),
    Difference(
        "§ Type Conversions, string(double)",
        "the texts of NaN and infinities are not fixed: NaN and +Inf in cel-go, -nan and inf in the judge",
        expression=re.compile(r"string\(|format\("),
        answers=re.compile(r"nan|inf", re.IGNORECASE),
    ),
    Difference(
        "§ Type Conversions, string(double)",
        "the same, where a comparison or a size hides the text itself",
        expression=re.compile(r"string\([^()]*\bd\b"),
    ),
    Difference(
        "§ Field Selection",
        "has() of a field of a number, text or time: false in cel-go, an error in the judge",
        expression=re.compile(r"\bhas\("),
    ),
    Difference(
        "§ Macros",
        "the order in which the keys of a map are gone over is not defined: as written here and in JSON",
        expression=re.compile(r"\{.*:.*\}.*\.(map|filter)\(|\bms?\.(map|filter)\("),
    ),
    Difference(
        "strings extension, indexOf and lastIndexOf",
        "an empty text is found at any position in cel-go, also behind the end; an error in the judge",
        expression=re.compile(r"[iI]ndexOf\("),
    ),
    Difference(
        "§ Type Conversions, string(timestamp) and string(duration)",
        "RFC 3339 leaves the number of digits open: cel-go writes as few as will do, the judge 3, 6 or 9",
        expression=re.compile(r"string\(.*(timestamp|duration|when|wait)"),
    ),
    Difference(
        "strings extension, format",
        "the text of a double under %s: all its digits in cel-go, six in the judge",
        expression=re.compile(r"%[sef.0-9].*\.format\("),
    ),
)


def explained(text: str, error: str, ours: Any, theirs: Any) -> Difference | None:
    """The known difference that a case falls under; ``error`` is the text of our error, empty for a value."""
    answers = f"{ours} {theirs}"
    for known in DIFFERENCES:
        if known.error is not None and not known.error.search(error):
            continue
        if known.expression.search(text) and known.answers.search(answers):
            return known
    return None
