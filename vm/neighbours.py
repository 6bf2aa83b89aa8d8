"""Quadruples that often stand together, made into one that does the same: what a dispatch of tier 1 costs, about
0.1 µs, is more than what most of them do.

Called by ``vm.layout``, which knows where code may be jumped to. None of them charges fuel or can end a run but by what
it calls, so that their order among one another shows nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vm.quads import (
    ABSENT_NULL,
    APPEND,
    APPEND_LOCALS,
    APPEND_POP,
    AS_LIST,
    C_SELECT,
    CHARGE,
    CHARGE_IF,
    CHARGE_POP,
    CONST,
    EACH,
    EACH_LIST,
    FIELD_MISSING,
    FIELD_SET,
    GET,
    HAS,
    HAS_AND,
    IF,
    IF_EQUAL_TEXT,
    IF_FIELD_LEAF,
    IF_LEAF,
    IF_LOCAL_LEAF,
    IF_MISSING,
    IF_NULL,
    IF_PATH_TEXT,
    LOCAL,
    LOCAL_GET,
    LOCAL_SELECT,
    MOVE,
    ON_LOCALS,
    PATH,
    PATH_SET,
    POP,
    PROJECT,
    RET,
    RET_CONST,
    SET,
    TEE,
    TWO,
    WALK_SET,
    Quad,
)
from vm.semantics import SEMANTICS

MOST: Final = 10
"""The most neighbours that become one."""
_C_AND: Final = SEMANTICS["c_and"]


def pair(first: Quad, second: Quad) -> tuple[Quad, ...] | None:
    """What two neighbours become: one quadruple, two others, or None when they stay."""
    number, a, b, _ = first
    then = second[0]
    if number == LOCAL:
        if then in ON_LOCALS and second[1] == -1:
            return ((then, a, second[2], second[3]),)
        if then == IF_LEAF:
            return ((IF_LOCAL_LEAF, (second[1], a), second[2], second[3]),)
        if then == SET:
            return ((MOVE, a, second[1], None),)
        if then == C_SELECT:
            return ((LOCAL_SELECT, a, second[1], None),)
    elif number == LOCAL_GET:
        if then == SET:
            return ((FIELD_SET, a, b, second[1]),)
        if then == IF_LEAF:
            return ((IF_FIELD_LEAF, (second[1], a, b), second[2], second[3]),)
    elif number == TEE:
        if then in ON_LOCALS and second[1] == -1:
            return ((SET, a, None, None), (then, a, second[2], second[3]))
        if then == POP:
            return ((SET, a, None, None),)
    elif number == CONST and then == RET:
        return ((RET_CONST, a, None, None),)
    elif number == PATH:
        if then == SET:
            return ((PATH_SET, a, second[1], None),)
        if then == IF_EQUAL_TEXT:
            return ((IF_PATH_TEXT, (a, second[1]), second[2], second[3]),)
    elif number == AS_LIST and then == EACH:
        return ((EACH_LIST, -1, second[2], None),)
    elif number == CHARGE:
        if then == POP:
            return ((CHARGE_POP, a, None, None),)
        if then == IF and second[1] == -1:
            return ((CHARGE_IF, a, second[2], second[3]),)
    elif number == APPEND and then == POP:
        return ((APPEND_POP, None, None, None),)
    return None


def row(quads: Sequence[Quad]) -> tuple[Quad, int] | None:
    """What a row of neighbours begins with that is one quadruple, and how many of them it stands for. Nobody jumps into
    the row, but for its beginning."""
    match quads[0][0]:
        case n if n == LOCAL_GET:
            return _projected(quads)
        case n if n == LOCAL:
            return _appended(quads) or _also_has(quads)
        case n if n == FIELD_SET:
            return _missing(quads)
    return None


def _projected(quads: Sequence[Quad]) -> tuple[Quad, int] | None:
    """Some fields on the way down; where it is a projection of JMESPath, and whether null is there."""
    _, slot, key, _ = quads[0]
    keys = [key]
    at = 1
    while at < len(quads) and quads[at][0] == GET:
        keys.append(quads[at][1])
        at += 1
    if len(keys) > 1 and at < len(quads) and quads[at][0] == SET:
        return (WALK_SET, slot, tuple(keys), quads[at][1]), at + 1
    if [q[0] for q in quads[at : at + 3]] != [ABSENT_NULL, SET, IF_NULL]:
        return None
    to, test = quads[at + 1], quads[at + 2]
    if test[1] != to[1]:
        return None
    return (PROJECT, (slot, tuple(keys), to[1]), test[2], test[3]), at + 3


def _missing(quads: Sequence[Quad]) -> tuple[Quad, int] | None:
    (_, slot, key, to), *others = quads[:2]
    if not others or others[0][0] != IF_MISSING or others[0][1] != to:
        return None
    return (FIELD_MISSING, (slot, key, to), others[0][2], others[0][3]), 2


def _appended(quads: Sequence[Quad]) -> tuple[Quad, int] | None:
    if [q[0] for q in quads[:3]] != [LOCAL, LOCAL, APPEND_POP]:
        return None
    return (APPEND_LOCALS, quads[0][1], quads[1][1], None), 3


def _also_has(quads: Sequence[Quad]) -> tuple[Quad, int] | None:
    """``… && has(x.a.b)`` of CEL, after what stands before ``&&`` was not false."""
    at = 1
    cost = 0
    if at < len(quads) and quads[at][0] == CHARGE_POP:
        cost = quads[at][1]
        at += 1
    if at == len(quads) or quads[at][0] not in (LOCAL, LOCAL_SELECT):
        return None
    keys = [quads[at][2]] if quads[at][0] == LOCAL_SELECT else []
    of = quads[at][1]
    at += 1
    while at < len(quads) and quads[at][0] == C_SELECT:
        keys.append(quads[at][1])
        at += 1
    ends = quads[at : at + 3]
    if [q[0] for q in ends] != [HAS, TWO, SET] or ends[1][1] is not _C_AND:
        return None
    return (HAS_AND, (quads[0][1], ends[2][1], of, tuple(keys), ends[0][1]), cost, None), at + 3
