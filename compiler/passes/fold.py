"""Computes pure operations and intrinsics on constants, through the very functions the VM runs.

``concat[3]("a", "b", %x)`` becomes ``concat[2]("ab", %x)``, ``length([1, 2])`` becomes ``2``. An error that a
computation answers with is a constant as good as any; what needs fuel without bound, the host or the clock is left,
and so is a result too large to keep.
"""

from __future__ import annotations

from typing import Any, Final

from compiler.ir.ops import Const, Expr, Invoke, Module, Op
from compiler.ir.walk import map_functions, rewrite_function
from vm.cel.values import CelMap
from vm.constants import describe
from vm.functions import INTRINSICS, resolve
from vm.host import Meter, OutOfFuel
from vm.isa import BY_NAME, Effect
from vm.semantics import METERED, SEMANTICS
from vm.values import MISSING, Err

_FUEL: Final = 10_000
_MOST_TEXT: Final = 4096
"""Nodes and characters above which a result is left to be computed at run time."""
_KEPT: Final = frozenset({"new_list", "new_map", "path", "j_path", "c_path", "cell", "await"})
_CONSTANTS: Final = {"true": True, "false": False, "null": None, "missing": MISSING}
_GIVEN_UP: Final = object()


def fold(m: Module) -> Module:
    """The module with constant computations done."""
    return map_functions(m, lambda fn: rewrite_function(fn, fold_expr))


def fold_expr(e: Expr) -> Expr:
    """One expression whose operands are folded already."""
    match e:
        case Op(name):
            if name in _CONSTANTS:
                return Const(_CONSTANTS[name])
            if name == "concat":
                return _concat(e)
            args = _constants(e.args)
            if args is not None and args and name not in _KEPT:
                return _result(_operate(e, args), e)
        case Invoke(name):
            entry = INTRINSICS.get(name)
            args = _constants(e.args)
            if entry is None or args is None or not args or not entry.pure or entry.dynamic:
                return e
            call = resolve(name)
            try:
                value = call(Meter(_FUEL), *args) if entry.metered else call(*args)
            except OutOfFuel:
                return e
            if type(value) is Err and name.startswith("cel."):
                return e  # the place in the code says what failed
            return _result(value, e)
    return e


def _constants(args: tuple[Expr, ...]) -> list[Any] | None:
    found = []
    for arg in args:
        if not isinstance(arg, Const):
            return None
        found.append(arg.value)
    return found


def _operate(e: Op, args: list[Any]) -> Any:
    row = BY_NAME[e.name]
    if row.effect is not Effect.PURE or row.pushes == ("O",):
        return _GIVEN_UP
    if e.name in ("p_leaf", "p_scalar"):
        return _pattern(e, args[0])
    operands = [*args, *e.imm]
    try:
        if e.name in METERED:
            return SEMANTICS[e.name](*operands, Meter(_FUEL))
        return SEMANTICS[e.name](*operands)
    except OutOfFuel:
        return _GIVEN_UP


def _pattern(e: Op, value: Any) -> bool:
    from compiler.frontends.pattern import compile_scalar
    from vm.scalar import compile_matcher, leaf_matcher

    make = leaf_matcher if e.name == "p_leaf" else compile_matcher
    return make(compile_scalar(e.imm[0]))(value)


def _result(value: Any, e: Expr) -> Expr:
    if value is _GIVEN_UP or not _plain(value) or _measure(value) > _MOST_TEXT:
        return e
    return Const(value)


def _plain(value: Any) -> bool:
    """Whether a value may stand in the constants: what a bundle can hold, MISSING or an error alone."""
    if value is MISSING or type(value) is Err:
        return True
    try:
        describe(value)
    except ValueError:
        return False
    return True


def _measure(value: Any) -> int:
    if type(value) is str:
        return len(value)
    if type(value) is list:
        return 1 + sum(map(_measure, value))
    if type(value) is dict:
        return 1 + sum(len(k) + _measure(v) for k, v in value.items())
    if type(value) is CelMap:
        return 1 + sum(_measure(k) + _measure(v) for k, v in value.entries.values())
    return len(value) if type(value) is bytes else 1


def _concat(e: Op) -> Expr:
    """Joins constant texts that stand side by side."""
    parts: list[Expr] = []
    for arg in e.args:
        last = parts[-1] if parts else None
        if isinstance(arg, Const) and isinstance(last, Const):
            parts[-1] = Const(last.value + arg.value)
        elif not (isinstance(arg, Const) and arg.value == ""):
            parts.append(arg)
    if len(parts) == len(e.args) and len(parts) > 1:
        return e
    if not parts:
        return Const("")
    return parts[0] if len(parts) == 1 else Op("concat", tuple(parts), (len(parts),))
