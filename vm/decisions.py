"""The shape of what rules ask: checks, the trees from which they come, and what is known on the way through code.

``vm.following`` makes trees of verified code; :func:`as_checks` turns them into the checks of a rule, and
``vm.fused_source`` writes the checks of many rules as Python. A check has no effect, so that the checks of several
rules may be made in any order, each in the place where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from vm.expressions import Expr, Kinds
from vm.fuel import CHUNK
from vm.structure import LOOPS, Structure
from vm.verify import VerifiedFunction, VerifiedModule

ALLOWANCE: Final = 400
"""What one call may use: units of fuel, one for 64 items or characters, and units of cost of CEL."""
LONGEST: Final = ALLOWANCE << CHUNK
"""The length up to which what is paid for an operand keeps to the allowance."""


class Fail(NamedTuple):
    """The rule does not surely pass. Tuples without a field would all be equal, whatever their class."""

    end: str = "fail"


class Silent(NamedTuple):
    """The rule has no result."""

    end: str = "silent"


class If(NamedTuple):
    condition: Expr
    yes: tuple[Check, ...]
    no: tuple[Check, ...]


class Each(NamedTuple):
    """The checks for every element ``var`` of a list, or of the pairs of a map, and that it is no longer than fuel was
    added up for; of which there may be ``1 / share``, since code goes through several lists in one loop."""

    over: Expr
    how: str
    checks: tuple[Check, ...]
    share: int = 1


class Paid(NamedTuple):
    """What a value costs keeps within what was added up for it: a list, text or map has no more elements than ``most``,
    a call (``most`` is 0) keeps to its allowance. The exact code pays where it computes a value, used or not."""

    of: Expr
    most: int


Check: TypeAlias = Fail | Silent | If | Each | Paid
Checks: TypeAlias = tuple[Check, ...]
FAIL: Final = Fail()
SILENT: Final = Silent()
FAILED: Final[Checks] = (FAIL,)


@dataclass(frozen=True, slots=True)
class Frame:
    """A function that is followed, and what comes after its result."""

    m: VerifiedModule
    fn: VerifiedFunction
    struct: Structure
    result: Callable[[Expr, State], Tree]
    read: dict[int, int] = field(default_factory=dict)
    """The last instruction that reads each local."""

    @staticmethod
    def of(m: VerifiedModule, fn: VerifiedFunction, struct: Structure, result: Callable[[Expr, State], Tree]) -> Frame:
        read = {ins.a: i for i, ins in enumerate(struct.instrs) if ins.op.name in ("local", "local_get")}
        return Frame(m, fn, struct, result, read)

    def alive(self, state: State, end: int) -> State:
        """The state without locals that nothing reads any more. What a later round of a loop reads does not count: a
        round begins without knowing what it may write."""
        return state._replace(local={a: x for a, x in state.local.items() if self.read.get(a, -1) > end})


class State(NamedTuple):
    """What is known at a point: the stack, the locals, kinds of values, truths of conditions, lists under way,
    cells, and the lists over which loops go on."""

    stack: tuple[Expr, ...] = ()
    local: Mapping[int, Expr] = MappingProxyType({})
    kinds: Mapping[Expr, Kinds] = MappingProxyType({})
    truths: Mapping[Expr, bool] = MappingProxyType({})
    lists: Mapping[Expr, UnderWay] = MappingProxyType({})
    cells: Mapping[tuple[int, int], Expr] = MappingProxyType({})
    loops: tuple[Expr, ...] = ()
    open: int = 0
    """How many CEL expressions are under way: what they cost counts from 0 in each."""

    def values(self) -> tuple[Any, ...]:
        """What later code can tell apart, facts aside."""
        return self.stack, self.local, self.lists, self.cells, self.open

    def kinds_of(self, x: Expr) -> Kinds:
        return self.kinds.get(x, x.kinds)

    def assume(self, condition: Expr, truth: bool) -> State:
        """The state where a condition holds, or does not."""
        if condition.op == "test":
            x = condition.args[0]
            known = self.kinds_of(x)
            return self._replace(kinds={**self.kinds, x: known & condition.data if truth else known - condition.data})
        return self._replace(truths={**self.truths, condition: truth})


UnderWay: TypeAlias = "tuple[Expr | None, tuple[Expr, ...]]"
"""A list that code is putting together: what it began with (None: not known) and what was put behind that."""


class Leaf(NamedTuple):
    """An end of a tree: ``pass``, ``silent``, ``fail``, or of a block of ``frame`` ``fall`` (through its end) and
    ``next`` (round of the loop)."""

    end: str
    state: State
    frame: Frame | None = None


class Branch(NamedTuple):
    condition: Expr
    yes: Tree
    no: Tree


class After(NamedTuple):
    """Checks, and what comes after them."""

    checks: Checks
    then: Tree


Tree: TypeAlias = Leaf | Branch | After


class Fork(NamedTuple):
    """What a round of a loop adds to a list: by a condition one thing or another, at last a tuple of items."""

    condition: Expr
    yes: Any
    no: Any


@dataclass(slots=True)
class Facts:
    """What is taken for granted of a root: ``bound`` replaces expressions by what they are, ``kinds`` tell of values
    (generated code looks that this is so first). ``mapped`` and ``listed`` are values of which some rule wants fields
    or elements: what kind they are of is asked before anything else, so that rules ask the same questions in the same
    order. They grow while rules are followed, which is why rules are followed twice. ``texts``: a rule that passes
    with a message of its own passes all the same."""

    bound: Mapping[Expr, Expr] = field(default_factory=dict)
    kinds: Mapping[Expr, Kinds] = field(default_factory=dict)
    texts: bool = True
    mapped: set[Expr] = field(default_factory=set)
    listed: set[Expr] = field(default_factory=set)

    structures: dict[int, Structure] = field(default_factory=dict)
    """Of functions by their ids, read once: rules share functions, and each is read three times."""

    def structure(self, fn: VerifiedFunction) -> Structure:
        found = self.structures.get(id(fn))
        if found is None:
            found = self.structures[id(fn)] = fn.structure()
        return found

    @property
    def size(self) -> int:
        """How much is known of how values are used."""
        return len(self.mapped) + len(self.listed)


def as_checks(tree: Tree, ends: tuple[str, ...], frame: Frame | None) -> Checks:
    """The checks of a tree: where it ends in none of ``ends`` (of a frame), the rule fails."""
    match tree:
        case Leaf(end, _, of):
            if end in ends and of is frame:
                return ()
            return (SILENT,) if end == "silent" and "pass" in ends else FAILED
        case After(checks, then):
            rest = as_checks(then, ends, frame)
            return FAILED if FAIL in rest or FAIL in checks else (*checks, *rest)
    yes, no = as_checks(tree.yes, ends, frame), as_checks(tree.no, ends, frame)
    if yes == no:
        return yes
    # What is asked only where something else holds may be asked anyway, since the rule has failed by then: so rules
    # that ask it without that find it in one place, and go through a list together. But what looks into the very value
    # whose kind is asked stays inside.
    asked = tree.condition.args[0] if tree.condition.op == "test" else None
    if no == FAILED and yes:
        inside = tuple(check for check in yes if asked is not None and mentions(check, asked))
        return (If(tree.condition, inside, FAILED), *(check for check in yes if check not in inside))
    if yes == FAILED and no:
        inside = tuple(check for check in no if asked is not None and mentions(check, asked))
        return (If(tree.condition, FAILED, inside), *(check for check in no if check not in inside))
    return (If(tree.condition, yes, no),)


def mentions(check: Check, x: Expr) -> bool:
    """Whether a check depends on a value."""
    match check:
        case If(condition, yes, no):
            return _within(condition, x) or any(mentions(c, x) for c in (*yes, *no))
        case Each(over, _, checks):
            return _within(over, x) or any(mentions(c, x) for c in checks)
        case Paid(of):
            return _within(of, x)
    return False


def _within(of: Expr, x: Expr) -> bool:
    if of is x or any(_within(arg, x) for arg in of.args):
        return True
    return of.op == "collect" and any(_within(inner, x) for inner in expressions_of(of.data[1]))


def falling(tree: Tree, f: Frame) -> Iterable[State]:
    return (leaf.state for leaf in leaves(tree) if leaf.end == "fall" and leaf.frame is f)


def alike(states: list[State]) -> bool:
    first = states[0].values()
    return all(s.values() == first for s in states)


def leaves(tree: Tree) -> Iterable[Leaf]:
    while isinstance(tree, After):
        tree = tree.then
    if isinstance(tree, Leaf):
        yield tree
    else:
        yield from leaves(tree.yes)
        yield from leaves(tree.no)


def grown(tree: Tree, f: Frame, rest: Callable[[State], Tree]) -> Tree:
    """The tree with what comes next where it falls through."""
    match tree:
        case Leaf(end, state, frame):
            return rest(state) if end == "fall" and frame is f else tree
        case After(checks, then):
            return After(checks, grown(then, f, rest))
    return Branch(tree.condition, grown(tree.yes, f, rest), grown(tree.no, f, rest))


def common(states: list[State]) -> State:
    """What all of the states know."""
    first, *others = states
    kinds = {x: k for x, k in first.kinds.items() if all(s.kinds.get(x) == k for s in others)}
    truths = {x: k for x, k in first.truths.items() if all(s.truths.get(x) == k for s in others)}
    return first._replace(kinds=kinds, truths=truths)


def written_in(struct: Structure, start: int, end: int) -> set[int]:
    """The locals that a loop writes."""
    found: set[int] = set()
    for ins in struct.instrs[start : end + 1]:
        if ins.op.name in ("set", "tee", "each", "each_pair", "each_index"):
            found.add(ins.a)
        if ins.op.name in LOOPS and ins.op.name != "each":
            found.add(ins.b)
    return found


def collected(tree: Tree, x: Expr, f: Frame) -> Any:
    """What a round of a loop puts behind a list: a tuple of items, or a branch (condition, where it holds, where
    not)."""
    match tree:
        case Leaf(end, state, frame):
            return state.lists[x][1] if end in ("fall", "next") and frame is f else ()
        case After(_, then):
            return collected(then, x, f)
    yes, no = collected(tree.yes, x, f), collected(tree.no, x, f)
    return yes if yes == no else Fork(tree.condition, yes, no)


def expressions_of(shape: Any) -> Iterable[Expr]:
    """The expressions of a shape."""
    if isinstance(shape, Fork):
        yield shape.condition
        yield from expressions_of(shape.yes)
        yield from expressions_of(shape.no)
    else:
        yield from shape
