"""The numbers of what tier 1 runs: quadruples ``(number, a, b, c)``, which ``vm.layout`` makes of instructions,
``vm.neighbours`` makes fewer of, and the loop of ``vm.interp`` runs.

The commonest come first, in groups of four and then of eight, since the loop looks for them in this order."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

Quad: TypeAlias = tuple[int, Any, Any, Any]
Code: TypeAlias = list[Quad]

NEXT_ELEMENT, IF_MAP, FIELD_MISSING, IF_FIELD_LEAF = range(4)
LOCAL, SET, PROJECT, RET_CONST = range(4, 8)
IF_LIST, EACH_LIST, IF_PATH_TEXT, CALL = range(8, 12)
PATH_SET, IF, IF_MISSING, IF_LOCAL_LEAF = range(12, 16)
FIELD_SET, IF_FALSE, IF_TRUE, HAS_AND = range(16, 20)
LOCAL_GET, CONST, TEE, IF_EMPTY = range(20, 24)
IF_NULL, IF_ERR, JUMP, APPEND_LOCALS = range(24, 28)
PATH, GET, ABSENT_NULL, APPEND = range(28, 32)
IF_TEST, INVOKE_METER, INVOKE_2_METER, IF_TEXT, HAS, LOCAL_SELECT, C_SELECT, CHARGE_IF = range(32, 40)
CHARGE_POP, NEXT_INDEX, MOVE, ONE, IF_LEAF, IF_ABSENT, RET, EACH = range(40, 48)
INVOKE, INVOKE_1, INVOKE_2, IF_EQUAL_TEXT, APPEND_POP, POP, LEAF, EQUAL_TEXT = range(48, 56)
TWO, ONE_IMM, ZERO, PUT, PUT_KEY, AS_LIST, TWO_METER, ONE_METER = range(56, 64)
EACH_INDEX, NEXT_PAIR, EACH_PAIR, BREAK, DROP_JUMP, CONCAT, CELL, ROOT_PATH = range(64, 72)
CHARGE, ZERO_METER, SCOPED, RESET, AWAIT = range(72, 77)

SETTLED: Final = -2
"""In place of the number of a cell: the value of the function goes through ``vm.fuel.settle``; -1: it does not."""

ON_LOCALS: Final = frozenset(
    {IF_MISSING, IF_MAP, IF_LIST, IF_ABSENT, IF_NULL, IF_EMPTY, IF_TEXT, IF_TRUE, IF_FALSE, IF_ERR, IF, EACH_LIST}
)
"""Take their operand from local ``a``, or off the stack when ``a`` is -1."""
ARMS: Final = frozenset(
    {IF_TEST, IF_LEAF, IF_LOCAL_LEAF, IF_FIELD_LEAF, IF_EQUAL_TEXT, IF_PATH_TEXT, FIELD_MISSING, PROJECT, CHARGE_IF}
    | (ON_LOCALS - {EACH_LIST})
)
"""Go on at ``b`` or at ``c``."""
GOES_TO: Final = frozenset({JUMP, EACH, EACH_LIST, EACH_INDEX, EACH_PAIR, BREAK, DROP_JUMP})
"""Go on at ``b``."""
MAY_GO_TO: Final = frozenset({NEXT_ELEMENT, NEXT_INDEX, NEXT_PAIR})
"""Go on at ``b`` or behind."""
ENDS: Final = frozenset({RET, RET_CONST})
