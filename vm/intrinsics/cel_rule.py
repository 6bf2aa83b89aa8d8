"""Texts of CEL rules in the words of the API server: errors of expressions, computed messages. Bodies of the family
``cel_rule``."""

from __future__ import annotations

from typing import Any, Final

from vm.values import Err, Value

MAX_MESSAGE: Final = 5 * 1024
"""Bytes of a computed message; a longer one is not used (Kubernetes)."""
SPENT: Final = "running out of cost budget"
"""The text of the error that ``c_close`` gives when the budget of all expressions together is spent."""
OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"

_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""White space as Go trims it, which is not quite Python's."""


def trim(text: str) -> str:
    """A text without white space around it."""
    return text.strip(_SPACE)


def error(value: Value, expression: str) -> str:
    """What is said of an expression that gave an error, or no boolean."""
    if type(value) is not Err:
        return f"expression '{expression}' resulted in error: no such overload"
    if value.code == "cost" and value.text == SPENT:
        return OUT_OF_BUDGET
    return f"expression '{expression}' resulted in error: {value.text}"


def errors(texts: list[Any]) -> str:
    """Several errors as one text: each once, in brackets when they differ."""
    once = list(dict.fromkeys(t for t in texts if type(t) is str))
    return once[0] if len(once) == 1 else f"[{', '.join(once)}]"


def message(value: Value) -> str:
    """The message that a message expression gave, empty when it gave none that can be shown: an error, no text, several
    lines, or a text that is too long."""
    if type(value) is not str:
        return ""
    text = trim(value)
    return "" if "\n" in text or len(text.encode("utf-8", "surrogatepass")) > MAX_MESSAGE else text


def variable(value: Value, name: str) -> Value:
    """The value of a variable; an error tells of the variable that it came from."""
    if type(value) is Err:
        return Err(value.code, f'composited variable "{name}" fails to evaluate: {value.text}')
    return value
