"""Steps that go on at one another, made one that does the same where all is as it mostly is, and else goes on at the
steps it stands for.

A dispatch of tier 1 costs more than what most steps do. :func:`joined` looks along the ways that steps go, past jumps:
what belongs together is not always side by side, and a step may be part of several. None of the steps put together
charges fuel, but where the one made of them charges the same, so that a run that ends for want of fuel ends at the same
point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from vm import quads
from vm.quads import HELD_BY, ON_LOCALS, Step
from vm.semantics import SEMANTICS

_TESTS: Final = {
    SEMANTICS["is_absent"]: quads.IF_ABSENT,
    SEMANTICS["is_missing"]: quads.IF_MISSING,
    SEMANTICS["is_list"]: quads.IF_LIST,
    SEMANTICS["is_map"]: quads.IF_MAP,
    SEMANTICS["is_text"]: quads.IF_TEXT,
    SEMANTICS["is_null"]: quads.IF_NULL,
    SEMANTICS["is_empty"]: quads.IF_EMPTY,
    SEMANTICS["is_true"]: quads.IF_TRUE,
    SEMANTICS["is_false"]: quads.IF_FALSE,
    SEMANTICS["is_err"]: quads.IF_ERR,
}
_NOT: Final = SEMANTICS["not"]
_C_AND: Final = SEMANTICS["c_and"]
_NEW_LIST: Final = SEMANTICS["new_list"]
_TYPES: Final = frozenset().union(*HELD_BY.values())
_FAR: Final = 16
"""Steps that are looked through at most: a bound, as code may be one long row of them."""
_Item: TypeAlias = tuple[int, tuple[str, ...], Step]
"""A ``has()`` of CEL: what it is charged, the keys on the way down, and the step that does it in full."""


def joined(steps: list[Step]) -> list[Step]:
    """The steps of a function, made fewer; the first stays the first. Each does what it did for who goes to it: those
    in the middle are left to who comes from elsewhere."""
    found = list(steps)
    for step in reversed(steps):
        step.next, step.then, step.other = quads.landing(step.next), quads.landing(step.then), quads.landing(step.other)
        _decides(step)
        _pair(step, found)
    for step in found:
        step.then = quads.landing(step.then)  # the end of a loop goes back to steps that were not joined yet
    for joins in _JOINS:
        for step in reversed(found):
            join = joins.get(step.op)
            if join is not None:
                join(step)
    return found


def _become(step: Step, op: int, behind: Step) -> None:
    """``step`` is also the one behind it, whose ways are its own now."""
    step.op, step.next, step.then, step.other = op, behind.next, behind.then, behind.other


def _decides(step: Step) -> None:
    """Lets what decides an ``if`` go straight to its arms: ``is_text`` before ``if`` becomes one step, ``true`` before
    ``if`` a jump. From the end on, so that chains of conditions collapse."""
    at = step.next
    negated = False
    for _ in range(_FAR):
        if at.op == quads.JUMP:
            at = at.then
        elif at.op == quads.ONE and at.a is _NOT:
            negated = not negated
            at = at.next
        else:
            break
    if at.op != quads.IF or at.slot >= 0:
        return
    then, other = (at.other, at.then) if negated else (at.then, at.other)
    if step.op == quads.CONST and (step.a is True or step.a is False):
        step.op, step.then = quads.JUMP, then if step.a else other
    elif step.op == quads.ONE and step.a is _NOT:
        step.op, step.then, step.other = quads.IF, other, then
    elif step.op == quads.ONE:
        step.op, step.then, step.other = _TESTS.get(step.a, quads.IF_LEAF), then, other
    elif step.op == quads.EQUAL_TEXT:
        step.op, step.then, step.other = quads.IF_EQUAL_TEXT, then, other


_PAIRS: Final[dict[tuple[int, int], tuple[int, str, str]]] = {
    (quads.LOCAL, quads.IF_LEAF): (quads.IF_LOCAL_LEAF, "a", "a"),
    (quads.LOCAL, quads.SET): (quads.MOVE, "to", "slot"),
    (quads.LOCAL, quads.C_SELECT): (quads.LOCAL_SELECT, "key", "key"),
    (quads.LOCAL_GET, quads.SET): (quads.FIELD_SET, "to", "slot"),
    (quads.LOCAL_GET, quads.IF_LEAF): (quads.IF_FIELD_LEAF, "a", "a"),
    (quads.TEE, quads.IF_LEAF): (quads.SET_LEAF, "a", "a"),
    (quads.TEE, quads.POP): (quads.SET, "", ""),
    (quads.CONST, quads.RET): (quads.RET_CONST, "", ""),
    (quads.PATH, quads.SET): (quads.PATH_SET, "to", "slot"),
    (quads.PATH, quads.IF_EQUAL_TEXT): (quads.IF_PATH_TEXT, "key", "a"),
    (quads.AS_LIST, quads.EACH): (quads.EACH_LIST, "loop", "loop"),
    (quads.CHARGE, quads.POP): (quads.CHARGE_POP, "", ""),
    (quads.APPEND, quads.POP): (quads.APPEND_POP, "", ""),
}
"""What two steps, one behind the other, are as one; the part that is taken over, and what it is of the one behind."""


def _pair(step: Step, found: list[Step]) -> None:
    """One of a step and the one behind it. ``found`` gets those that are new."""
    behind = step.next
    made = _PAIRS.get((step.op, behind.op))
    if made is not None:
        op, part, of = made
        if part:
            setattr(step, part, getattr(behind, of))
        _become(step, op, behind)
        return
    on_stack = behind.op in ON_LOCALS and behind.slot < 0
    match step.op:
        case quads.LOCAL if on_stack:
            step.to, step.key, step.b, step.loop = behind.to, behind.key, behind.b, behind.loop
            _become(step, behind.op, behind)
        case quads.TEE if on_stack and behind.op == quads.IF:
            _become(step, quads.SET_IF, behind)
        case quads.TEE if on_stack:
            test = behind.twin()
            test.slot = step.slot
            step.op, step.next = quads.SET, test
            found.append(test)
        case quads.SET if behind.op == quads.IF and behind.slot == step.slot:
            _become(step, quads.SET_IF, behind)
        case quads.EQUAL_TEXT:
            negated = behind.op == quads.ONE and behind.a is _NOT
            kept = behind.next if negated else behind
            if kept.op == quads.SET_IF:
                step.key, step.b, step.to = step.a, negated, kept.slot
                _become(step, quads.EQUAL_SET_IF, kept)
        case quads.PATH if behind.op == quads.ABSENT_NULL:
            step.key, step.next = None, behind.next
        case quads.FUEL if behind.op == quads.PATH_SET and not behind.n:
            step.keys, step.to = behind.keys, behind.to
            _become(step, quads.PATH_SET, behind)
        case quads.CHARGE if on_stack and behind.op == quads.IF:
            _become(step, quads.CHARGE_IF, behind)


def _way_down(step: Step) -> tuple[tuple[str, ...], Step]:
    """The keys of ``local_get``, ``get``, …, and the step behind them."""
    keys = [step.key]
    behind = step.next
    while behind.op == quads.GET and len(keys) < _FAR:
        keys.append(behind.key)
        behind = behind.next
    return tuple(keys), behind


def _walked(step: Step) -> None:
    """Fields on the way down into a local."""
    keys, behind = _way_down(step)
    if behind.op == quads.SET:
        step.keys, step.to = keys, behind.slot
        _become(step, quads.WALK_SET, behind)


def _selected(step: Step) -> None:
    """``[a, b, c]`` of JMESPath: some fields of one value in a new list."""
    behind = step.next
    slot = behind.slot
    keys: list[str] = []
    while step.a is _NEW_LIST and behind.op == quads.LOCAL_GET and behind.slot == slot and len(keys) < _FAR:
        end = behind.next.next
        if behind.next.op != quads.ABSENT_NULL or end.op != quads.APPEND:
            break
        keys.append(behind.key)
        behind = end.next
    if keys:
        step.op, step.slot, step.keys, step.next = quads.SELECT, slot, tuple(keys), behind


def _missing(step: Step) -> None:
    """A field into a local, and whether it is there; where it is, whether it is a map."""
    test = step.next
    if test.op != quads.IF_MISSING or test.slot != step.to:
        return
    present = test.other
    step.op, step.then, step.other = quads.FIELD_MISSING, test.then, present
    if present.op == quads.IF_MAP and present.slot == step.to:
        step.op, step.next, step.other = quads.FIELD_MAP, present.other, present.then


def _row_of_has(step: Step) -> None:
    """``has(x.a) && has(x.a.b) && …``: true at once where all of it is there."""
    found = _has(step)
    if found is None:
        return
    item, left, of, to, last = found
    if of == to:
        return  # what is looked into is there until the answer takes its place
    items: tuple[_Item, ...] = (item,)
    also, behind = to, last.next
    if behind.op == quads.IF_FALSE and behind.slot == to:
        more = behind.other
        if more.op == quads.HAS_ROW and more.slot == more.to == to and more.n == of:
            items += more.b
            also, behind = more.a, more.next
    if left < 0 and len(items) == 1:
        return
    if also == to and behind.op == quads.MOVE and behind.slot == to:
        also, behind = behind.to, behind.next
        if behind.op == quads.IF_TRUE and behind.slot == also:
            behind = behind.then
    step.op, step.slot, step.n, step.to, step.a, step.b = quads.HAS_ROW, left, of, to, also, items
    step.next, step.other = behind, item[2]


def _has(step: Step) -> tuple[_Item, int, int, int, Step] | None:
    """One ``has()``, alone or with ``&&`` before it: what it is, the local that holds what stands before (-1: nothing
    does), the one looked into, the one that the answer goes to, and the last of its steps."""
    row = [step]
    while len(row) < _FAR and row[-1].op != quads.SET:
        row.append(row[-1].next)
    left, cost, whole = -1, 0, step.twin()
    if len(row) > 1 and step.op == quads.LOCAL and row[1].op in (quads.LOCAL, quads.LOCAL_SELECT, quads.CHARGE_POP):
        left = step.slot
        del row[0]
        if row[0].op == quads.CHARGE_POP:
            cost = row[0].n
            del row[0]
    ends = [quads.HAS, quads.SET] if left < 0 else [quads.HAS, quads.TWO, quads.SET]
    way, end = row[: -len(ends)], row[-len(ends) :]
    if not way or [s.op for s in end] != ends or (left >= 0 and end[1].a is not _C_AND):
        return None
    first, *others = way
    if first.op not in (quads.LOCAL, quads.LOCAL_SELECT) or any(s.op != quads.C_SELECT for s in others):
        return None
    selected = way if first.op == quads.LOCAL_SELECT else others
    item = (cost, (*(s.key for s in selected), end[0].key), whole)
    return item, left, first.slot, end[-1].slot, end[-1]


def _opened(step: Step) -> None:
    """A loop over a list that is there and holds something; anything else goes on where the list is looked at."""
    each = step.then
    if each.op == quads.IF_EMPTY and each.slot == step.slot:
        each = each.other
    if step.slot >= 0 and each.op == quads.EACH_LIST and each.slot == step.slot:
        whole = step.twin()
        step.op, step.loop, step.then, step.other = quads.LIST_EACH, each.loop, each.then, quads.made_ready(whole)


def _opened_field(step: Step) -> None:
    """The same of a field, which may be absent."""
    optional = step.op == quads.FIELD_MISSING
    each = step.other if optional else step.next
    if each.op == quads.LIST_EACH and each.slot == step.to:
        step.op, step.next = quads.FIELD_EACH, step.then if optional else each.other
        step.loop, step.then, step.other = each.loop, each.then, each.other


def _charged(step: Step) -> None:
    """A round of a macro of CEL, which is charged first."""
    test = step.then
    if test.op == quads.CHARGE_IF:
        step.a = test.n
        step.op, step.then, step.other = quads.NEXT_CHARGED, test.then, test.other


def _loop(step: Step) -> None:
    """What goes round a loop of few steps, done at once; an element that is not as most are goes through them. It is
    still there for them: verified code sets no local that a loop around it binds."""
    body = step.then
    if body.slot != step.slot:
        return
    if body.op == quads.IF_FIELD_LEAF and body.then is step:
        step.a, step.key = body.a, body.key
        step.op, step.other = quads.EVERY, body.other
    elif body.op == quads.IF_MAP and not _optional(step, body):
        step.op, step.other, step.then = quads.NEXT_MAP, body.other, body.then
    elif body.op in (quads.WALK_SET, quads.FIELD_SET):
        _leaves(step, body)


def _projected(step: Step) -> None:
    """``x[].a.b`` of JMESPath: what is there and not null of every element is put into a new list."""
    out = step.next
    each = out.next
    round_ = each.then
    body = round_.then
    if step.a is not _NEW_LIST or out.op != quads.SET:
        return
    if each.op != quads.EACH_LIST or each.slot < 0 or round_.op != quads.NEXT_ELEMENT or body.op != quads.LOCAL_GET:
        return
    keys, at = _way_down(body)
    to = at.next
    test = to.next
    if body.slot != round_.slot or at.op != quads.ABSENT_NULL or to.op != quads.SET:
        return
    into, value = test.other, test.other.next
    end = value.next
    if test.op != quads.IF_NULL or test.slot != to.slot or test.then is not round_ or end.next is not round_:
        return
    if [into.op, value.op, end.op] != [quads.LOCAL, quads.LOCAL, quads.APPEND_POP] or value.slot != to.slot:
        return
    if into.slot != out.slot or len({out.slot, each.slot, round_.slot, to.slot}) < 4:
        return
    step.a, step.b, step.key, step.n = out.slot, out.slot, each.slot, round_.n
    step.op, step.slot, step.to, step.keys, step.next = quads.PROJECT, round_.slot, to.slot, keys, round_.next
    if step.next.op == quads.MOVE and step.next.slot == step.a:
        step.b, step.next = step.next.to, step.next.next


def _optional(step: Step, body: Step) -> bool:
    """``=(a): {=(b): leaf}`` of every element."""
    outer = body.then
    inner = outer.other
    if outer.op != quads.FIELD_MAP or outer.slot != step.slot or outer.then is not step:
        return False
    leaf = inner.other
    if inner.op != quads.FIELD_MISSING or inner.slot != outer.to or inner.then is not step:
        return False
    if leaf.op != quads.IF_LOCAL_LEAF or leaf.slot != inner.to or leaf.then is not step:
        return False
    step.a, step.key, step.keys, step.to, step.b = leaf.a, outer.key, (inner.key,), outer.to, inner.to
    step.op, step.then, step.other = quads.EVERY_OPTIONAL, leaf.other, body
    return True


def _leaves(step: Step, body: Step) -> None:
    """``a: {b: {c: leaf, d: leaf}}`` of every element."""
    test = body.next
    if test.op != quads.IF_MAP or test.slot != body.to:
        return
    at = test.then
    leaves: list[tuple[str, Any, Step]] = []
    while at.op == quads.IF_FIELD_LEAF and at.slot == body.to and len(leaves) < _FAR:
        leaves.append((at.key, at.a, at.other))
        at = at.then
    if leaves and at is step:
        step.keys = body.keys if body.op == quads.WALK_SET else (body.key,)
        step.op, step.to, step.b, step.other = quads.EVERY_LEAVES, body.to, tuple(leaves), body


def _by_its_type(step: Step) -> None:
    """Tests in a row that the type of one value decides, or one behind what puts it there."""
    first = step.next if step.op == quads.SET else step
    if first.slot < 0 or first.slot != step.slot or not (first.op in HELD_BY or first.op == quads.SWITCH):
        return
    other = _way_of(first, None)
    ways = {kind: _way_of(first, kind) for kind in _TYPES}
    step.types = {kind: way for kind, way in ways.items() if way is not other}
    step.op, step.other = (quads.SWITCH if step is first else quads.SET_SWITCH), other


def _way_of(step: Step, kind: type | None) -> Step:
    """Where a value of a type goes on (None: one that no test asks for)."""
    slot = step.slot
    for _ in range(_FAR):
        if step.slot != slot:
            break
        if step.op == quads.SWITCH:
            step = step.other if kind is None else step.types.get(kind, step.other)
        elif step.op in HELD_BY:
            step = step.then if kind in HELD_BY[step.op] else step.other
        else:
            break
    return step


def _moved(step: Step) -> None:
    """A value from one local to another, and what its type decides."""
    behind = step.next
    if step.op == quads.LOCAL and behind.op == quads.SET_SWITCH:
        step.to = behind.slot
    elif step.op != quads.MOVE or behind.op != quads.SWITCH or behind.slot != step.to:
        return
    step.op, step.types, step.other = quads.MOVE_SWITCH, behind.types, behind.other


def _kept(step: Step) -> None:
    """A value that goes on being the operand, unless its type decides otherwise."""
    behind = step.other
    if behind.op == quads.LOCAL and behind.slot == step.slot:
        step.op, step.other = quads.TEE_SWITCH, behind.next


_JOINS: Final[tuple[dict[int, Callable[[Step], None]], ...]] = (
    {quads.LOCAL_GET: _walked, quads.ZERO: _selected, quads.FIELD_SET: _missing},
    {quads.LOCAL: _row_of_has, quads.LOCAL_SELECT: _row_of_has, quads.ZERO: _projected},
    {quads.IF_LIST: _opened, quads.FIELD_SET: _opened_field, quads.FIELD_MISSING: _opened_field},
    {quads.NEXT_ELEMENT: _loop, quads.NEXT_INDEX: _charged},
    dict.fromkeys((quads.SET, *HELD_BY), _by_its_type),
    {quads.LOCAL: _moved, quads.MOVE: _moved, quads.SET_SWITCH: _kept},
)
"""What each kind of step may be joined to, one round after the other: each finds what those before it have made."""
