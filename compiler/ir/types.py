"""Static kind of an expression, and the operands each node asks for.

Everything follows from the tables: ``vm.isa`` for instructions, ``vm.functions.INTRINSICS`` for intrinsics and the
functions of the module for calls. Used by the checker, by passes that need a kind, and by front ends that make locals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from compiler.ir.ops import (
    And,
    Block,
    Call,
    Choose,
    Const,
    Expr,
    Function,
    Invoke,
    Load,
    Local,
    Op,
    Or,
)
from vm.code import const_kind
from vm.functions import INTRINSICS
from vm.isa import BY_NAME, Effect, Imm, kind_join

NOT_IN_IR: Final = frozenset(
    {"const", "local", "set", "tee", "pop", "nop", "path", "local_get", "true", "false", "invoke"}
)
"""Instructions that only the emitter makes: the IR has nodes of its own for them (``get`` of a ``Local`` is
``local_get``)."""


class KindError(Exception):
    """An expression without a kind: an unknown name, or arms whose kinds do not meet. ``str`` says what is wrong."""


def ir_op(name: str) -> bool:
    """Whether ``Op`` may apply the instruction of this name."""
    row = BY_NAME.get(name)
    return row is not None and row.effect is not Effect.CONTROL and name not in NOT_IN_IR


def operand_kinds(name: str, imm: tuple[object, ...]) -> tuple[str, ...]:
    """Kinds that instruction ``name`` pops; ``concat`` takes as many texts as its number says."""
    if name == "concat":
        count = imm[0] if imm else 0
        return ("S",) * count if isinstance(count, int) else ()
    return BY_NAME[name].pops


def parameter_kinds(name: str, count: int) -> tuple[str, ...]:
    """Kinds of the ``count`` operands of an intrinsic. Raises :class:`KindError` when it does not take that many."""
    entry = INTRINSICS.get(name)
    if entry is None:
        raise KindError(f"no intrinsic is called {name}")
    params = entry.params
    if params and params[-1] == "*":
        fixed = params[:-1]
        if count < len(fixed) - 1:
            raise KindError(f"{name} takes at least {len(fixed) - 1} operands, not {count}")
        return fixed[:-1] + (fixed[-1],) * (count - len(fixed) + 1)
    if count != len(params):
        raise KindError(f"{name} takes {len(params)} operands, not {count}")
    return params


def kind_of(expr: Expr, local_kinds: Mapping[str, str], functions: Mapping[str, Function]) -> str:
    """The static kind of an expression: one letter of ``vm.isa.KINDS``. Raises :class:`KindError` when it has none."""
    match expr:
        case Const():
            return const_kind(expr.value)
        case Local():
            if expr.name not in local_kinds:
                raise KindError(f"local {expr.name} is not declared")
            return local_kinds[expr.name]
        case Load():
            return "V"
        case Op():
            if not ir_op(expr.name):
                raise KindError(f"no operation is called {expr.name}")
            return BY_NAME[expr.name].pushes[0]
        case Invoke():
            if expr.name not in INTRINSICS:
                raise KindError(f"no intrinsic is called {expr.name}")
            return INTRINSICS[expr.name].result
        case Call():
            if expr.name not in functions:
                raise KindError(f"no function is called {expr.name}")
            return functions[expr.name].result
        case Choose():
            then = kind_of(expr.then, local_kinds, functions)
            other = kind_of(expr.other, local_kinds, functions)
            kind = kind_join(then, other)
            if kind is None:
                raise KindError(f"the arms of a choice have kinds {then} and {other}")
            return kind
        case And() | Or():
            return "B"
        case Block():
            return kind_of(expr.value, local_kinds, functions)


def is_pure(expr: Expr) -> bool:
    """Whether an expression may be dropped, doubled or moved: it changes nothing and does not suspend.

    A ``Block`` counts as impure, since it sets locals; a ``Call`` does too, since its callee is not looked into.
    """
    match expr:
        case Const() | Local() | Load():
            return True
        case Op():
            effect = BY_NAME[expr.name].effect
            return effect is Effect.PURE and expr.name != "cell" and all(map(is_pure, expr.args))
        case Invoke():
            return expr.name in INTRINSICS and INTRINSICS[expr.name].pure and all(map(is_pure, expr.args))
        case Choose():
            return is_pure(expr.cond) and is_pure(expr.then) and is_pure(expr.other)
        case And() | Or():
            return all(map(is_pure, expr.terms))
        case Call() | Block():
            return False


def pattern_immediate(name: str) -> bool:
    """Whether the first immediate of an instruction is a scalar pattern."""
    return Imm.PATTERN in BY_NAME[name].imm
