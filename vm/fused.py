"""Many rules at once: the checks of ``vm.decisions`` as one Python function that says which rules do not surely pass.

:func:`fuse` puts the checks of all rules of one kind and operation together: what several rules ask is asked once, each
list is gone through once for all of them, and a field is read once. The answer are two numbers whose bits are rules:
those that do not surely pass, which the exact code then runs, and those that surely have no result. ``runtime.fusing``
calls it.

A function can be kept beside its bundle: :attr:`Fused.kept` holds its code object and, by name, recipes of plain data
for all that it mentions, which ``marshal`` takes. :func:`name_of` says as what, :func:`bind` makes it run again.

Nothing in the function charges fuel. Instead it only answers where a bound is known that the exact run cannot exceed:
each list is at most as long as the limit by which the fuel of the rule was added up, and each call of an intrinsic gets
the allowance that was added up for it. Beyond that a rule is not sure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

from vm.cel.costs import PER_EXPRESSION
from vm.decisions import ALLOWANCE, FAIL, Checks, Each, Facts, If, Paid, Silent
from vm.expressions import Expr, Table, TooMuch, of_value
from vm.following import questions
from vm.fuel import CHUNK
from vm.fused_names import Recipe, made
from vm.fused_scopes import Scope
from vm.fused_source import Writer
from vm.host import Meter, OutOfFuel
from vm.isa import Effect
from vm.semantics import METERED
from vm.structure import LOOPS
from vm.translator import GLOBALS
from vm.values import MISSING, Err
from vm.verify import VerifiedFunction, VerifiedModule

_LIMITS: Final = ((512, 64, 16), (256, 32, 8), (128, 16, 4), (64, 8, 2))
"""How long lists may be, by how many loops go on around: the first row with which a rule keeps to its fuel counts."""

_NUMBERS: Final = frozenset((int, float))
_JSON: Final = frozenset((dict, list, str, int, float, bool, type(None), type(MISSING), Err))

_MAP: Final = of_value({})


def _joined(*lists: Any) -> list[Any]:
    """Lists, one behind the other; what is none has failed its rule before."""
    return [x for items in lists if type(items) is list for x in items]


_GLOBALS: Final = {**GLOBALS, "NUMBERS": _NUMBERS, "JSON": _JSON, "joined": _joined, "tuple": tuple}


class Rule(NamedTuple):
    """A rule to be fused: its module, the number of its function there, and how many times the fuel of others it
    has."""

    module: VerifiedModule
    entry: int
    times: int = 1


@dataclass(frozen=True, slots=True)
class Kept:
    """What can be kept of a fused function, to be bound again where the same rules are asked: ``sure`` has a bit for
    each rule that it can answer for; ``recipes`` are plain data."""

    sure: int
    code: CodeType
    recipes: dict[str, Recipe]


@dataclass(frozen=True, slots=True)
class Fused:
    """The function of some rules. ``source`` is for people, empty of one that was kept."""

    kept: Kept
    source: str = field(repr=False)
    _run: Callable[[dict[str, Any], Meter], tuple[int, int]] = field(repr=False)

    @property
    def sure(self) -> int:
        return self.kept.sure

    def run(self, root: dict[str, Any], meter: Meter) -> tuple[int, int]:
        """(rules that do not surely pass, rules that surely have no result)"""
        try:
            return self._run(root, meter)
        except OutOfFuel:
            return self.kept.sure, 0


def fuse(rules: Sequence[Rule], operation: str, fuel: int, *, texts: bool = True) -> Fused | None:
    """The fused function of rules for requests of an operation, each of which may use ``fuel``; None where nothing is
    sure of any. Without ``texts`` a rule that passes with a message of its own counts as not sure."""
    table = Table()
    facts = Facts(texts=texts)
    guards = _guards(table, facts, operation)
    maps = tuple(facts.kinds)
    found = _followed(table, facts, rules, fuel)
    if not found:
        return None
    scope, sure = Scope(), 0
    for i, (checks, limits) in found.items():
        add(scope, checks, 1 << i, limits, 0)
        sure |= 1 << i
    writer = Writer(table, {id(rule.module.lent): i for i, rule in enumerate(rules)})
    source = writer.function(scope, maps, guards, sure)
    code = compile(source, "<thesmos:fused>", "exec", dont_inherit=True, optimize=2)
    (body,) = (c for c in code.co_consts if isinstance(c, CodeType))
    return bind(Kept(sure, body, writer.recipes), rules, source)


def bind(kept: Kept, rules: Sequence[Rule], source: str = "") -> Fused:
    """The function of rules from what was kept of it."""
    names = {**_GLOBALS, **made(kept.recipes, [rule.module.lent for rule in rules])}
    return Fused(kept, source, FunctionType(kept.code, names, "fused"))


def name_of(rules: Sequence[Rule], operation: str, fuel: int, *, texts: bool = True) -> str:
    """A name for what :func:`fuse` makes of rules: the same for rules of equal bundles."""
    of = [(rule.module.digest, rule.entry, rule.times) for rule in rules]
    return f"fused.{sha256(repr((operation, fuel, texts, of)).encode()).hexdigest()}"


def _followed(
    table: Table, facts: Facts, rules: Sequence[Rule], fuel: int
) -> dict[int, tuple[Checks, tuple[int, ...]]]:
    """The checks of rules of which something is sure, with their limits, by number."""
    found: dict[int, tuple[Checks, tuple[int, ...]]] = {}
    todo = [(i, limits) for i, rule in enumerate(rules) if (limits := _limits(rule, facts, fuel))]
    # Which values rules want fields or elements of is known when all have been followed once; most rules that come
    # late find all of it known.
    for _ in range(2):
        again = []
        for i, limits in todo:
            before = facts.size
            try:
                checks = questions(table, rules[i].module, rules[i].entry, facts)
            except (TooMuch, RecursionError):
                checks = (FAIL,)
            found.pop(i, None)
            if FAIL not in checks:
                found[i] = checks, limits
            again.append((i, limits, before))
        todo = [(i, limits) for i, limits, before in again if before != facts.size]
    return dict(sorted(found.items()))


def _guards(t: Table, facts: Facts, operation: str) -> list[tuple[Expr, Expr]]:
    """What is taken for granted of a root, for generated code to see to: the operation, that the request and its object
    are maps, and that the names of the object are names of one object."""
    resource = t.get(t.root, "$resource")
    request = t.get(t.root, "request")
    word = t.const(operation)
    guards = [(t.get(t.root, "$operation"), word), (t.get(request, "operation"), word)]
    if operation in ("CREATE", "UPDATE"):
        guards += [(t.get(t.root, "$object"), resource), (t.get(request, "object"), resource)]
    facts.bound = dict(guards)
    facts.kinds = {request: _MAP, resource: _MAP}
    return guards


def add(scope: Scope, checks: Checks, rule: int, limits: tuple[int, ...], depth: int) -> None:
    """Puts the checks of a rule among those of others; ``rule`` is its bit."""
    for check in checks:
        match check:
            case If(condition, yes, no):
                arms = scope.ifs.get(condition)
                if arms is None:
                    arms = scope.ifs[condition] = (Scope(), Scope())
                add(arms[0], yes, rule, limits, depth)
                add(arms[1], no, rule, limits, depth)
            case Paid(of, most):
                at_most, others = scope.paid.get(of, (most, 0))
                scope.paid[of] = (min(at_most, most), others | rule)
            case Each(over, how, inner, share):
                limit = limits[min(depth, len(limits) - 1)] // share
                known = scope.each.get((over, how))
                if known is None:
                    known = scope.each[over, how] = Scope(limit=limit)
                known.limit = min(known.limit, limit)
                add(known, inner, rule, limits, depth + 1)
            case Silent():
                scope.silent |= rule
            case _:
                scope.fail |= rule
    scope.rules |= rule


def _limits(rule: Rule, facts: Facts, fuel: int) -> tuple[int, ...]:
    """The limits of lists with which a rule keeps to its fuel, whatever it is given; empty when there are none."""
    fn = rule.module.functions[rule.entry]
    for limits in _LIMITS:
        used, cost = _Bound(rule.module, facts, limits).of(fn)
        if used <= fuel * rule.times and cost <= PER_EXPRESSION:
            return limits
    return ()


class _Bound:
    """The most that functions of a module can use, in fuel and in cost of all CEL expressions together, where no list
    is longer than its limit and no call exceeds its allowance."""

    def __init__(self, m: VerifiedModule, facts: Facts, limits: tuple[int, ...]) -> None:
        self._m = m
        self._facts = facts
        self._limits = limits
        self._known: dict[tuple[int, int], tuple[int, int]] = {}

    def of(self, fn: VerifiedFunction, depth: int = 0) -> tuple[int, int]:
        """``depth`` is how many loops go on around the call. Each function is looked at once: a chain of functions
        that call the one before twice would else take as long as running it."""
        key = fn.number, min(depth, len(self._limits) - 1)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._of(fn, key[1])
        return found

    def _of(self, fn: VerifiedFunction, depth: int) -> tuple[int, int]:
        m, limits = self._m, self._limits
        struct = self._facts.structure(fn)
        rounds = [1]
        total, cost = fn.cost, 0
        for i, (_, op, a, _) in enumerate(struct.instrs):
            here = rounds[-1]
            name = op.name
            if name in LOOPS:
                limit = limits[min(depth + len(rounds) - 1, len(limits) - 1)]
                total += here * (limit * fn.loops[i] + (limit >> CHUNK))
                rounds.append(here * limit)
            elif name == "end" and struct.instrs[struct.partner[i]].op.name in LOOPS:
                rounds.pop()
            elif name in ("call", "cell"):
                fuel, more = self.of(m.functions[a if name == "call" else m.cells[a]], depth + len(rounds) - 1)
                total += here * fuel
                cost += here * more
            elif name == "c_charge":
                cost += here * a
            elif name == "invoke" or name in METERED or op.effect is Effect.METERS:
                total += here * ALLOWANCE
                cost += here * ALLOWANCE if name == "invoke" and m.intrinsics[a].cost else 0
        return total, cost


def covered(sure: int) -> Iterable[int]:
    """The numbers of the rules whose bits are set."""
    return (i for i in range(sure.bit_length()) if sure >> i & 1)
