"""CEL instructions and calls of CEL functions as Python statements: what ``vm.translator`` writes in place of calls.

A call of a body costs 150 ns with its cost rule and more; most are of a text, a number or a short list, for which a
Python operator is the answer. A :class:`Way` answers for such operands alone and charges what the call would: whatever
does not pass its guard goes to the body as before, so that a way decides nothing that it cannot decide exactly. Tests
hold every way against the body and the cost rule that it stands for.

Optional values live for the length of a chain (``a.?b.?c.orValue(d)``): within one they are kept bare, as the value or
MISSING, and no object is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from vm.cel.costs import TEXT, actual
from vm.cel.values import NONE, Optional
from vm.fuel import CHUNK
from vm.values import MISSING, Err, Value

if TYPE_CHECKING:
    from vm.translator import Translator

FREE: Final = (1 << CHUNK) - 1
"""The length up to which an operand is not charged for."""
STEPS: Final = frozenset({"cel.select_optional.2", "cel.index_optional.2"})
_CONSTANTS: Final = frozenset({"const", "true", "false", "null"})


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand by its name in the source; ``value`` is MISSING where it is no constant."""

    name: str
    value: Value = MISSING

    @property
    def known(self) -> bool:
        return self.value is not MISSING

    def look(self, letter: str) -> str:
        """The name of what a call makes of this constant once and for all, see ``vm.names``."""
        return letter + self.name[1:]


@dataclass(frozen=True, slots=True)
class Way:
    """An answer for some operands. ``guard`` says whether it holds of them, ``value`` is the answer; ``cost`` what it
    costs in units of the expression where the rule of the function is asked, ``fuel`` what is charged before (both may
    be empty)."""

    guard: str
    value: str
    cost: str = ""
    fuel: tuple[str, ...] = ()


Bind = Callable[[str], str]
"""Binds a name that ``vm.names`` knows, and gives it back."""


def tenth(length: str) -> str:
    """A tenth of a length, rounded up. (0.1 as a double is too large by 2**-54 of itself, so that ``ceil(n * 0.1)``
    is this for every n.)"""
    return f"(({length} + 9) // 10)"


def by_length(x: Operand) -> tuple[str, ...]:
    """The fuel that a text or list owes for its length."""
    if x.known:
        owed = len(x.value) >> CHUNK
        return (f"meter.charge({owed})",) if owed else ()
    return (f"if len({x.name}) > {FREE}: meter.charge(len({x.name}) >> {CHUNK})",)


def is_a(t: type, *operands: Operand) -> str | None:
    """The guard that all operands are of a type, None where a constant is not."""
    if any(x.known and type(x.value) is not t for x in operands):
        return None
    return " and ".join(f"type({x.name}) is {t.__name__}" for x in operands if not x.known) or "True"


def _of_text(text: str) -> Callable[[Sequence[Operand], Bind], list[Way]]:
    """A function of two texts that costs by the first."""

    def ways(operands: Sequence[Operand], bind: Bind) -> list[Way]:
        s, part = operands
        guard = is_a(str, s, part)
        fuel = (*by_length(s), *by_length(part)) if guard else ()
        return [Way(guard, text.format(s.name, part.name), tenth(f"len({s.name})"), fuel)] if guard else []

    return ways


def _contains(operands: Sequence[Operand], bind: Bind) -> list[Way]:
    s, part = operands
    guard = is_a(str, s, part)
    if not guard:
        return []
    cost = f"{tenth(f'len({s.name})')} * {tenth(f'len({part.name})')}"
    if part.known:
        cost = f"{tenth(f'len({s.name})')} * {ceil(len(part.value) * TEXT)}"
    return [Way(guard, f"({part.name} in {s.name})", cost, (*by_length(s), *by_length(part)))]


def _matches(operands: Sequence[Operand], bind: Bind) -> list[Way]:
    """An expression that is a constant is compiled when the code is made."""
    from vm.cel.text import searcher  # here: most policies have no use for the library behind it

    s, pattern = operands
    if s.known or type(pattern.value) is not str:
        return []
    found = searcher(pattern.value)
    if isinstance(found, Err):
        return []
    factor = actual("matches")(("", pattern.value), False)  # of an empty text: one for it, times the expression
    fuel = (*by_length(s), *by_length(pattern))
    value = f"{bind(pattern.look('e'))}({s.name})"
    return [Way(f"type({s.name}) is str", value, f"(len({s.name}) + 10) // 10 * {factor}", fuel)]


def _equality(sign: str) -> Callable[[Sequence[Operand], Bind], list[Way]]:
    def ways(operands: Sequence[Operand], bind: Bind) -> list[Way]:
        a, b = operands
        if a.known and b.known:
            return []
        known = a if a.known else b if b.known else None
        if known is None:
            shorter = f"(len({a.name}) if len({a.name}) < len({b.name}) else len({b.name}))"
            texts = f"type({a.name}) is str and type({b.name}) is str"
            return [Way(texts, f"({a.name} {sign} {b.name})", tenth(shorter))]
        x = b if known is a else a
        value = f"({x.name} {sign} {known.name})"
        t = type(known.value)
        if t is str:
            n = len(known.value)
            cost = tenth(f"(len({x.name}) if len({x.name}) < {n} else {n})")
            if n <= 10:
                cost = f"(1 if {x.name} else 0)" if n else "0"
            return [Way(f"type({x.name}) is str", value, cost)]
        if t is bool:
            return [Way(f"type({x.name}) is bool", value, "1")]
        return [Way(f"type({x.name}) is int", value, "1")] if t is int else []

    return ways


def _order(sign: str) -> Callable[[Sequence[Operand], Bind], list[Way]]:
    def ways(operands: Sequence[Operand], bind: Bind) -> list[Way]:
        a, b = operands
        guard = is_a(int, a, b)
        return [Way(guard, f"({a.name} {sign} {b.name})", "1")] if guard else []

    return ways


def _within(operands: Sequence[Operand], bind: Bind) -> list[Way]:
    x, c = operands
    text = is_a(str, x)
    if text is None or type(c.value) is dict:
        return []
    value = f"({x.name} in {c.name})"
    if c.known:
        if type(c.value) is not list:
            return []
        if all(type(y) is str for y in c.value):
            value = f"({x.name} in {bind(c.look('w'))})"
        fuel = f"meter.charge({len(c.value) >> CHUNK})"
        return [Way(text, value, str(len(c.value)), (fuel,) if len(c.value) >> CHUNK else ())]
    both = "" if text == "True" else f"{text} and "
    return [
        Way(f"{both}type({c.name}) is list", value, f"len({c.name})", by_length(c)),
        Way(f"{both}type({c.name}) is dict", value, "1"),
    ]


def _index(operands: Sequence[Operand], bind: Bind) -> list[Way]:
    c, k = operands
    value = f"{c.name}[{k.name}]"
    ways = []
    if not c.known:
        key, position = is_a(str, k), is_a(int, k)
        if key:
            ways.append(
                Way(f"type({c.name}) is dict and {key} and {c.name}.get({k.name}, MISSING) is not MISSING", value)
            )
        if position:
            ways.append(Way(f"type({c.name}) is list and {position} and 0 <= {k.name} < len({c.name})", value))
    return ways


def _sum(operands: Sequence[Operand], bind: Bind) -> list[Way]:
    """Of short lists and texts: long ones are charged for together, and have a limit."""
    a, b = operands
    ways = []
    length = f"len({a.name}) + len({b.name})"
    for t, cost in ((list, "1"), (str, tenth(length))):
        guard = is_a(t, a, b)
        if guard and guard != "True":
            ways.append(Way(f"{guard} and {length} <= {FREE}", f"({a.name} + {b.name})", cost))
    return ways


def _size(operands: Sequence[Operand], bind: Bind) -> list[Way]:
    (x,) = operands
    return [Way(f"type({x.name}) in SIZED", f"len({x.name})")]


def _range(operands: Sequence[Operand], bind: Bind) -> list[Way]:
    (x,) = operands
    guard = is_a(list, x)
    return [Way(guard, x.name, "", by_length(x))] if guard else []


_WAYS: Final[dict[str, Callable[[Sequence[Operand], Bind], list[Way]]]] = {
    "cel.startsWith.2": _of_text("{0}.startswith({1})"),
    "cel.endsWith.2": _of_text("{0}.endswith({1})"),
    "cel.contains.2": _contains,
    "cel.matches.2": _matches,
    "cel.eq.2": _equality("=="),
    "cel.ne.2": _equality("!="),
    "cel.lt.2": _order("<"),
    "cel.le.2": _order("<="),
    "cel.gt.2": _order(">"),
    "cel.ge.2": _order(">="),
    "cel.in.2": _within,
    "cel.index.2": _index,
    "cel.add.2": _sum,
    "cel.size.1": _size,
    "cel.build.range.1": _range,
}


def has_ways(name: str) -> bool:
    """Whether an intrinsic has ways at all; its operands need names then."""
    return name.removesuffix(".plain") in _WAYS


def ways(name: str, cost: str, operands: Sequence[Operand], bind: Bind) -> list[Way]:
    """The ways of an intrinsic on these operands. ``cost`` is the cost rule of its entry, empty where calls add
    nothing."""
    found = _WAYS[name.removesuffix(".plain")](operands, bind)
    return found if cost else [Way(w.guard, w.value, "", w.fuel) for w in found]


def bare(v: Value) -> Value:
    """What an optional value holds, MISSING for none; an error as it is."""
    return v.value if type(v) is Optional else v


def optional_step(t: Translator, i: int, name: str, callee: str, x: str, key: str) -> None:
    """``x.?key``, with ``x`` bare when it is a step of the same chain."""
    inner, outer = x in t.bare, chained(t, i)
    t.line(f"if type({x}) is dict:")
    t.line(f" {name} = {x}.get({key}, MISSING)")
    if outer:
        t.line(f" if {name} is not MISSING: meter.cost += 1")
    else:
        t.line(f" if {name} is MISSING: {name} = NONE")
        t.line(" else:")
        t.line(f"  if type({name}) is not Err: {name} = Optional({name})")
        t.line("  meter.cost += 1")
    if inner:
        t.line(f"elif {x} is MISSING: {name} = {'MISSING' if outer else 'NONE'}")
        x = f"({x} if type({x}) is Err else Optional({x}))"
    call = f"{callee}(meter, {x}, {key})"
    t.line(f"else: {name} = {f'bare({call})' if outer else call}")
    if outer:
        t.bare.add(name)


def chained(t: Translator, i: int) -> bool:
    """Whether the next instruction on the value of this one takes it bare."""
    instrs, at = t.instrs, i + 1
    if instrs[at].op.name in _CONSTANTS:
        at += 1
        wanted = STEPS | {"cel.orValue.2"}
    else:
        wanted = frozenset({"cel.hasValue.1"})
    if instrs[at].op.name != "invoke" or at in t.fn.measured:
        return False
    name = t.m.intrinsics[instrs[at].a].name
    if name not in STEPS:
        return name in wanted
    key = instrs[at - 1]
    return name in wanted and key.op.name == "const" and type(t.m.constants[key.a]) is str


def of_bare(name: str, x: str, other: str = "") -> str:
    """What ``orValue`` and ``hasValue`` answer of a bare optional value."""
    if name == "cel.orValue.2":
        return f"({other} if {x} is MISSING else {x})"
    return f"({x} if type({x}) is Err else {x} is not MISSING)"


GLOBALS: Final[dict[str, Any]] = {"NONE": NONE, "Optional": Optional, "bare": bare, "int": int, "bool": bool}
