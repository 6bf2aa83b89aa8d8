"""Where the product and the outside CEL judge differ on purpose, each with the specification's paragraph.

The product follows cel-go wherever the specification leaves a choice, since the API server does. A difference is
narrow: it names the error that one side gives, or it rewrites the expression to one that leaves out nothing but what
the two do not agree on, and holds only if they agree on that one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final, Protocol

from compiler.frontends.cel.ast import Call, Node
from compiler.frontends.cel.parse import parse
from compiler.frontends.cel.unparse import unparse

_TEXT: Final = r"'''(?:[^\\]|\\.)*?'''|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_TOKEN: Final = re.compile(rf"{_TEXT}|[\[\](){{}},]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Case:
    """An evaluation that differs: the expression, and of each side the value as text or the text of the error, the
    other one being empty."""

    expression: str
    ours: str
    our_error: str
    theirs: str
    their_error: str
    values: str
    """The bindings as text."""


Rewriting = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Difference:
    """A case falls under it when each pattern that is given is found, and when with ``instead`` the two sides agree on
    what it makes of the expression, with ``asked`` when only the judge is asked that. ``paragraph`` is one of the
    specification (langdef.md)."""

    paragraph: str
    reason: str
    expression: str = ""
    our_error: str = ""
    their_error: str = ""
    exact: bool = False
    """Whether the rewritten expression means on both sides what one makes of the expression as it is: an error on both
    sides is then one too."""
    turned: bool = False
    """Whether ``our_error`` may also be the error of another operand of ``&&`` or ``||``."""
    instead: Rewriting | None = None
    asked: Rewriting | None = None

    def covers(self, case: Case) -> bool:
        """Whether all patterns are found."""
        return all(
            not pattern or re.search(pattern, text)
            for pattern, text in (
                (self.expression, case.expression),
                (self.our_error, case.our_error),
                (self.their_error, case.their_error),
            )
        )

    def covers_turned(self, case: Case, sides: Sides) -> bool:
        """Whether the product's error is found with operands the other way round."""
        return bool(
            self.turned
            and case.our_error
            and re.search(r"&&|\|\|", case.expression)
            and any(
                re.search(self.our_error, sides.our_error(other)) for other in _with_operands_turned(case.expression)
            )
        )

    def __str__(self) -> str:
        return f"{self.paragraph}: {self.reason}"


def _calls(head: str, change: Callable[[str, list[str]], str]) -> Rewriting:
    """Rewrites each call whose text begins with ``head`` (a pattern that ends with the opening bracket): from that
    beginning and the rewritten arguments, with what stands for the call up to its closing bracket."""
    pattern = re.compile(rf"(?P<head>{head})|{_TEXT}", re.DOTALL)

    def rewrite(text: str) -> str:
        for found in pattern.finditer(text):
            if found["head"] is not None:
                arguments, end = _arguments(text, found.end())
                made = change(found["head"], [rewrite(a) for a in arguments])
                return text[: found.start()] + made + rewrite(text[end:])
        return text

    return rewrite


def _arguments(text: str, start: int) -> tuple[list[str], int]:
    """The arguments that begin at a place, and the place behind the closing bracket."""
    depth, at, arguments = 0, start, []
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        if depth == 0 and mark in (",", ")", "}"):
            arguments.append(text[at : token.start()].strip())
            at = token.end()
            if mark != ",":
                return [a for a in arguments if a], at
        depth += (mark in "([{") - (mark in ")]}") if len(mark) == 1 else 0
    raise ValueError(f"no closing bracket: {text[start:]}")


_FORMAT: Final = rf"(?:{_TEXT})\.format\("


def _respelled(text: str) -> str:
    """With the judge's texts of numbers and times spelled as cel-go does, by a function it is given."""
    for head in (r"\bstring\(", _FORMAT):
        text = _calls(head, lambda head, given: f"{head}{', '.join(given)}).respelled()")(text)
    return text


def _milliseconds_of_a_second(text: str) -> str:
    """With what getMilliseconds() answers taken modulo 1000."""
    call = ".getMilliseconds()"
    at = text.find(call)
    while at >= 0:
        start = _receiver(text, at)
        made = f"({text[start:at]}.getMilliseconds( ) % 1000)"
        text = text[:start] + made + text[at + len(call) :]
        at = text.find(call)
    return text


def _receiver(text: str, end: int) -> int:
    """Where the primary that ends at a place begins."""
    depth, at = 0, end
    while at > 0:
        c = text[at - 1]
        if depth == 0 and not (c.isalnum() or c in "_.)]}"):
            break
        if depth == 0 and c in ")]}" and at < end and (text[at].isalnum() or text[at] == "_"):
            break
        depth += (c in ")]}") - (c in "([{")
        at -= 1
    return at


def _with_single_entries(text: str) -> str:
    """With no map of more than one entry."""
    text = re.sub(r"\bobject\.metadata\.labels\b|\bms\b", "{'app': 'web'}", re.sub(r"\bm\b", "{'a': 1}", text))
    return _calls(r"\{", lambda head, given: f"{head}{', '.join(given[:1])}}}")(text)


def _without(kind: str) -> Rewriting:
    """With empty texts in place of what has this type among the arguments of format()."""
    return _calls(_FORMAT, lambda head, given: f"{head}{given[0]}.map(v9, type(v9) == {kind} ? dyn('') : dyn(v9)))")


def _trimmed(head: str, given: list[str]) -> str:
    argument = ", ".join(given)
    return f"{head}type({argument}) == string ? dyn(string({argument}).trim()) : dyn({argument}))"


def _with_operands_turned(text: str) -> list[str]:
    """With another operand of each ``&&`` and ``||`` in front, and so another one's error: the last one, the second."""
    tree = parse(text)
    return [unparse(_turned(tree, order)) for order in (lambda args: args[::-1], lambda args: args[1:] + args[:1])]


def _turned(node: Any, order: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Any:
    if isinstance(node, tuple):
        return tuple(_turned(n, order) for n in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    if isinstance(node, Call) and node.function in ("_&&_", "_||_"):
        return replace(node, args=order(_turned(_operands(node, node.function), order)))
    return replace(node, **{f.name: _turned(getattr(node, f.name), order) for f in fields(node)})


def _operands(node: Node, function: str) -> tuple[Node, ...]:
    if isinstance(node, Call) and node.function == function:
        return tuple(operand for n in node.args for operand in _operands(n, function))
    return (node,)


DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference(
        "§ Equality and Ordering",
        "no order of NaN is defined: cel-go makes it an error, the judge answers false",
        our_error=r"NaN values cannot be ordered",
        turned=True,
    ),
    Difference(
        "§ Field Selection",
        "has() of a field of a number, text or type: an error there as in the judge, false in cel-go",
        expression=r"\bhas\(",
        exact=True,
        instead=_calls(
            r"\bhas\(", lambda head, given: f"(type({given[0].rpartition('.')[0]}) == map && {head}{given[0]}))"
        ),
    ),
    Difference(
        "§ List of Standard Definitions, getMilliseconds",
        "of a duration cel-go counts all milliseconds, the judge those beyond the last whole second",
        expression=r"getMilliseconds\(",
        exact=True,
        instead=_milliseconds_of_a_second,
    ),
    Difference(
        "§ List of Standard Definitions, string",
        "texts of NaN, infinities, fractions of a second and durations, which are seconds as a double in cel-go: +Inf, "
        "NaN, 1.5s there; inf, -nan, 1.500s in the judge",
        expression=r"\bstring\(|\.format\(",
        exact=True,
        asked=_respelled,
    ),
    Difference(
        "§ Macros",
        "in which order map() and filter() go over the keys of a map is not defined: as written in the product, as in "
        "cel-go; any in the judge",
        expression=r"\.(map|filter)\(",
        instead=_with_single_entries,
    ),
    Difference(
        "bindings extension, cel.bind",
        "after a macro that ends early the judge binds the element where it ended instead of the value",
        expression=r"\.(all|exists)\(.*cel\.bind\(",
        exact=True,
        asked=_calls(r"cel\.bind\(", lambda head, given: f"[{given[1]}].map({given[0]}, {given[2]})[0]"),
    ),
    Difference(
        "strings extension, format",
        "the text of a double under %s: all its digits in cel-go, six in the judge",
        expression=r"%s.*\.format\(",
        instead=_without("double"),
    ),
    Difference(
        "§ Values",
        "bytes under %s that are not UTF-8: strings are code points, so these are U+FFFD in the product; cel-go and "
        "the judge hand the bytes on",
        expression=r"%s.*\.format\(",
        instead=_without("bytes"),
    ),
    Difference(
        "§ List of Standard Definitions, int, uint and double of a string",
        "space around a number: an error in cel-go, left out in the judge",
        our_error=r"type conversion error from 'string' to '(int|uint|double)'",
        instead=_calls(r"\b(?:u?int|double)\(", _trimmed),
    ),
    Difference(
        "§ List of Standard Definitions, int",
        "of a duration: nanoseconds in cel-go, not known to the judge, as there",
        expression=r"\bint\(",
        their_error=r"No matching overloads found : int\(duration\)",
    ),
    Difference(
        "strings extension, split",
        "an empty text split at the empty text: no parts in cel-go, one in the judge",
        expression=r"\.split\(",
        instead=_calls(r"\.split\(", lambda head, given: f"{head}({given[0]}) == '' ? '\\a' : {', '.join(given)})"),
    ),
    Difference(
        "strings extension, indexOf",
        "from a place behind the end: not found, and the empty text at any place, in cel-go; an error in the judge",
        expression=r"\.indexOf\(",
        their_error=r"index out of range: ",
        exact=True,
        asked=_calls(
            r"\.indexOf\(",
            lambda head, given: f"{'.sought(' if len(given) == 2 else head}{', '.join(given)})",
        ),
    ),
    Difference(
        "strings extension, substring",
        "an end that is the size of the text: allowed there as in cel-go, an error in the judge",
        expression=r"\.substring\(",
        their_error=r"<start> or <end> is greater than <string>\.size\(\)",
        instead=_calls(r"\.substring\(", lambda head, given: f"{head}{given[0]})"),
    ),
)


class Sides(Protocol):
    """The product and the judge with the bindings of a case."""

    def agree(self, here: str, there: str, exact: bool) -> bool:
        """Whether both have a value for the expressions of each, the same one, or with ``exact`` both an error."""

    def our_error(self, text: str) -> str:
        """The error of the product for an expression, empty for a value."""


def explained(case: Case, sides: Sides) -> str | None:
    """The known differences that a case falls under."""
    covering = [known for known in DIFFERENCES if known.covers(case) or known.covers_turned(case, sides)]
    for known in covering:
        if (known.instead is known.asked is None) or sides.agree(*_rewritten(case.expression, [known]), known.exact):
            return str(known)
    if sides.agree(*_rewritten(case.expression, covering), any(known.exact for known in covering)):
        return "several of them at once"
    return None


def _rewritten(text: str, differences: list[Difference]) -> tuple[str, str]:
    """The expression without these differences, and what the judge is asked."""
    for known in differences:
        text = known.instead(text) if known.instead is not None else text
    asked = text
    for known in differences:
        asked = known.asked(asked) if known.asked is not None else asked
    return text, asked
