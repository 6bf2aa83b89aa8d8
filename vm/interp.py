"""Tier 1: the exact stack machine. Runs verified modules instruction by instruction, and owns what an instruction means
in time.

``vm.layout`` lays out each function on its first run. One loop runs them all, with frames of its own for calls, so
that an ``await`` anywhere hands out the registers of the whole run, to go on with when the host has answered.
``runtime.policyset`` and the tests call :func:`interpret`.

The loop is long and flat on purpose: a call or an attribute for each instruction would cost more than the instruction.
``fields = v`` tells mypyc that a value is a dict, whose ``get`` it then calls straight (``make compiled``).
Its numbers are those of ``vm.quads``, written out since a name costs a lookup; the comment beside each is its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from vm.fuel import CHUNK, SIZED, charge_operands, exhausted, measure, pairs, settle
from vm.host import Execution, HostCall, Meter, OutOfFuel
from vm.layout import Frame, frames_of
from vm.quads import SETTLED, Code
from vm.semantics import c_and, c_has, c_select
from vm.values import MISSING, Err, Value
from vm.verify import VerifiedModule


class Program(Protocol):
    """A module ready to run; both tiers are one."""

    def start(self, fn: int, root: dict[str, Any], meter: Meter) -> Execution:
        """Runs a function without parameters as a generator of host calls; its value is the function's."""

    def run(self, fn: int, root: dict[str, Any], meter: Meter) -> Any:
        """Runs a function that cannot suspend. ``ValueError`` for one that may."""


_UNSET: Final = object()
"""A cell that has not run yet. No value of a program is this object."""
_DONE: Final = object()


def interpret(m: VerifiedModule, frames: list[Frame] | None = None) -> Program:
    """The program of a module on tier 1. ``frames`` are its functions where they are laid out in another way."""
    return _Interpreter(m, frames)


@dataclass(slots=True)
class _Suspended:
    """A run that waits for the host: its question, and the registers to go on with."""

    call: HostCall
    registers: tuple[Any, ...]


class _Interpreter:
    def __init__(self, m: VerifiedModule, frames: list[Frame] | None) -> None:
        self._functions = frames_of(m) if frames is None else frames

    def run(self, fn: int, root: dict[str, Any], meter: Meter) -> Any:
        frame = self._functions[fn]
        if frame.may_suspend:
            raise ValueError(f"function {fn} may suspend")
        return self._execute(frame, root, meter)

    def start(self, fn: int, root: dict[str, Any], meter: Meter) -> Execution:
        frame = self._functions[fn]
        answer = self._execute(frame, root, meter)
        while type(answer) is _Suspended:
            reply = yield answer.call
            answer = self._execute(frame, root, meter, answer.registers, reply)
        return answer

    def _execute(
        self,
        fn: Frame,
        root: dict[str, Any],
        meter: Meter,
        registers: tuple[Any, ...] | None = None,
        reply: Value = None,
    ) -> Any:
        """Runs until the function returns or asks the host. ``registers`` and ``reply`` go on with a run that asked."""
        if fn.params:
            raise ValueError("a function with parameters is not started from outside")
        cells: dict[int, Any]
        frames: list[tuple[Code, int, list[Value], list[Value], list[Any], int, dict[str, Any]]]
        code: Code
        local: list[Value]
        stack: list[Value]
        loops: list[Any]
        missing = MISSING
        v: Any
        k: str
        key: Any
        holds: Any
        fields: dict[str, Any]
        keys: tuple[str, ...]
        jump: tuple[int, int]
        field: tuple[int, str, int]
        leaf: tuple[Any, int, str]
        walk: tuple[int, tuple[str, ...], int]
        place: tuple[tuple[str, ...], Any]
        test: tuple[Any, int]
        terms: tuple[int, int, int, tuple[str, ...], str]
        try:
            if registers is None:
                cells = {}
                frames = []
                code = fn.code or fn.lay_out()
                pc = 0
                local = fn.locals.copy()
                stack = []
                loops = []
                cell = -1
                meter.left -= fn.cost
                if meter.left < 0:
                    raise OutOfFuel
            else:
                code, pc, local, stack, loops, cell, root, frames, cells = registers
                measure(reply, meter)
                stack.append(reply)
            while True:
                op, a, b, c = code[pc]
                pc += 1
                if op < 4:
                    if op == 0:  # end of each
                        v = next(loops[-1], _DONE)
                        if v is _DONE:
                            loops.pop()
                        else:
                            jump = a
                            slot, cost = jump
                            local[slot] = v
                            pc = b
                            meter.left -= cost
                            if meter.left < 0:
                                raise OutOfFuel
                    elif op == 1:  # is_map, if
                        pc = b if type(local[a] if a >= 0 else stack.pop()) is dict else c
                    elif op == 2:  # local_get, set, is_missing, if
                        field = a
                        slot, key, to = field
                        v = local[slot]
                        if type(v) is dict:
                            fields = v
                            v = fields.get(key, missing)
                        else:
                            v = missing
                        local[to] = v
                        pc = b if v is missing else c
                    else:  # local_get, p_leaf or p_scalar, if
                        leaf = a
                        holds, slot, key = leaf
                        v = local[slot]
                        if type(v) is dict:
                            fields = v
                            pc = b if holds(fields.get(key, missing)) else c
                        else:
                            pc = b if holds(missing) else c
                elif op < 8:
                    if op == 4:  # local
                        stack.append(local[a])
                    elif op == 5:  # set
                        local[a] = stack.pop()
                    elif op == 6:  # local_get, get …, absent_null, set, is_null, if
                        walk = a
                        slot, keys, to = walk
                        v = local[slot]
                        for k in keys:
                            if type(v) is not dict:
                                v = None
                                break
                            fields = v
                            v = fields.get(k)
                        local[to] = v
                        pc = b if v is None else c
                    else:  # const, ret
                        if not frames:
                            return a
                        v = a
                        if cell >= 0:
                            cells[cell] = v
                        elif cell == SETTLED:
                            v = settle(v, meter)
                        code, pc, local, stack, loops, cell, root = frames.pop()
                        stack.append(v)
                elif op < 12:
                    if op == 8:  # is_list, if
                        pc = b if type(local[a] if a >= 0 else stack.pop()) is list else c
                    elif op == 9:  # as_list, each
                        v = local[a] if a >= 0 else stack.pop()
                        loops.append(iter(v if type(v) is list else ()))
                        pc = b
                    elif op == 10:  # path, const, equal, if
                        place = a
                        keys, key = place
                        v = root
                        for k in keys:
                            if type(v) is not dict:
                                v = missing
                                break
                            fields = v
                            v = fields.get(k, missing)
                        pc = b if v == key else c
                    else:  # call
                        frames.append((code, pc, local, stack, loops, cell, root))
                        n = a.params
                        local = stack[-n:] + a.locals if n else a.locals.copy()
                        if n:
                            del stack[-n:]
                        code = a.code or a.lay_out()
                        pc = 0
                        stack = []
                        loops = []
                        cell = b
                        meter.left -= a.cost
                        if meter.left < 0:
                            raise OutOfFuel
                elif op < 16:
                    if op == 12:  # path, set
                        keys = a
                        v = root
                        for k in keys:
                            if type(v) is not dict:
                                v = missing
                                break
                            fields = v
                            v = fields.get(k, missing)
                        local[b] = v
                    elif op == 13:  # if
                        pc = b if (local[a] if a >= 0 else stack.pop()) else c
                    elif op == 14:  # is_missing, if
                        pc = b if (local[a] if a >= 0 else stack.pop()) is missing else c
                    else:  # local, p_leaf or p_scalar, if
                        test = a
                        holds, slot = test
                        pc = b if holds(local[slot]) else c
                elif op < 20:
                    if op == 16:  # local_get, set
                        v = local[a]
                        if type(v) is dict:
                            fields = v
                            local[c] = fields.get(b, missing)
                        else:
                            local[c] = missing
                    elif op == 17:  # is_false, if
                        pc = b if (local[a] if a >= 0 else stack.pop()) is False else c
                    elif op == 18:  # is_true, if
                        pc = b if (local[a] if a >= 0 else stack.pop()) is True else c
                    else:  # local, c_charge, pop, c_select …, c_has, c_and, set
                        terms = a
                        slot, to, at, keys, key = terms
                        meter.cost += b
                        v = local[at]
                        for k in keys:
                            v = v[k] if type(v) is dict and k in v else c_select(v, k)
                        if type(v) is dict and local[slot] is True:
                            fields = v
                            local[to] = key in fields
                        else:
                            local[to] = c_and(local[slot], c_has(v, key))
                elif op < 24:
                    if op == 20:  # local_get
                        v = local[a]
                        if type(v) is dict:
                            fields = v
                            stack.append(fields.get(b, missing))
                        else:
                            stack.append(missing)
                    elif op == 21:  # const
                        stack.append(a)
                    elif op == 22:  # tee
                        local[a] = stack[-1]
                    else:  # is_empty, if
                        v = local[a] if a >= 0 else stack.pop()
                        pc = b if type(v) in SIZED and not v else c
                elif op < 28:
                    if op == 24:  # is_null, if
                        pc = b if (local[a] if a >= 0 else stack.pop()) is None else c
                    elif op == 25:  # is_err, if
                        pc = b if type(local[a] if a >= 0 else stack.pop()) is Err else c
                    elif op == 26:  # else, next
                        pc = b
                    else:  # local, local, append, pop
                        local[a].append(local[b])
                elif op < 32:
                    if op == 28:  # path
                        keys = a
                        v = root
                        for k in keys:
                            if type(v) is not dict:
                                v = missing
                                break
                            fields = v
                            v = fields.get(k, missing)
                        stack.append(v)
                    elif op == 29:  # get
                        v = stack.pop()
                        stack.append(v.get(a, missing) if type(v) is dict else missing)
                    elif op == 30:  # absent_null
                        if stack[-1] is missing:
                            stack[-1] = None
                    else:  # append
                        v = stack.pop()
                        stack[-1].append(v)
                elif op < 40:
                    if op == 32:  # j_truthy, if
                        pc = b if a(stack.pop()) else c
                    elif op == 33:  # invoke of one operand, with the meter
                        stack.append(a(meter, stack.pop()))
                    elif op == 34:  # invoke of two operands, with the meter
                        v = stack.pop()
                        stack.append(a(meter, stack.pop(), v))
                    elif op == 35:  # is_text, if
                        pc = b if type(local[a] if a >= 0 else stack.pop()) is str else c
                    elif op == 36:  # c_has
                        v = stack.pop()
                        stack.append(a in v if type(v) is dict else c_has(v, a))
                    elif op == 37:  # local, c_select
                        v = local[a]
                        stack.append(v[b] if type(v) is dict and b in v else c(v, b))
                    elif op == 38:  # c_select
                        v = stack.pop()
                        stack.append(v[a] if type(v) is dict and a in v else b(v, a))
                    else:  # c_charge, if
                        meter.cost += a
                        pc = b if meter.cost > meter.cost_limit else c
                elif op < 48:
                    if op == 40:  # c_charge, pop
                        meter.cost += a
                    elif op == 41:  # end of each_index
                        v = next(loops[-1], _DONE)
                        if v is _DONE:
                            loops.pop()
                        else:
                            item, at, cost = a
                            local[at], local[item] = v
                            pc = b
                            meter.left -= cost
                            if meter.left < 0:
                                raise OutOfFuel
                    elif op == 42:  # local, set
                        local[b] = local[a]
                    elif op == 43:  # one operand, no immediate
                        stack.append(a(stack.pop()))
                    elif op == 44:  # p_leaf or p_scalar, if
                        pc = b if a(stack.pop()) else c
                    elif op == 45:  # is_absent, if
                        v = local[a] if a >= 0 else stack.pop()
                        pc = b if v is None or v is missing else c
                    elif op == 46:  # ret
                        v = stack.pop()
                        if not frames:
                            return v
                        if cell >= 0:
                            cells[cell] = v
                        elif cell == SETTLED:
                            v = settle(v, meter)
                        code, pc, local, stack, loops, cell, root = frames.pop()
                        stack.append(v)
                    else:  # each
                        loops.append(iter(stack.pop()))
                        pc = b
                elif op < 56:
                    if op == 48:  # invoke
                        body, n, sized, measured, metered = a
                        args = stack[-n:] if n else []
                        if n:
                            del stack[-n:]
                        if sized or measured:
                            charge_operands(sized, measured, args, meter)
                        stack.append(body(meter, *args) if metered else body(*args))
                    elif op == 49:  # invoke of one operand, without the meter
                        stack.append(a(stack.pop()))
                    elif op == 50:  # invoke of two operands, without the meter
                        v = stack.pop()
                        stack.append(a(stack.pop(), v))
                    elif op == 51:  # const, equal, if
                        pc = b if stack.pop() == a else c
                    elif op == 52:  # append, pop
                        v = stack.pop()
                        stack.pop().append(v)
                    elif op == 53:  # pop
                        stack.pop()
                    elif op == 54:  # p_leaf, p_scalar
                        stack.append(a(stack.pop()))
                    else:  # const, equal
                        stack.append(stack.pop() == a)
                elif op < 64:
                    if op == 56:  # two operands, no immediate
                        v = stack.pop()
                        stack.append(a(stack.pop(), v))
                    elif op == 57:  # one operand and an immediate
                        stack.append(a(stack.pop(), b))
                    elif op == 58:  # no operand
                        stack.append(a())
                    elif op == 59:  # put
                        v = stack.pop()
                        stack[-1][a] = v
                    elif op == 60:  # put_key
                        v = stack.pop()
                        key = stack.pop()
                        stack[-1][key] = v
                    elif op == 61:  # as_list
                        if type(stack[-1]) is not list:
                            stack[-1] = []
                    elif op == 62:  # two operands and the meter
                        v = stack.pop()
                        stack.append(a(stack.pop(), v, meter))
                    else:  # one operand and the meter
                        stack.append(a(stack.pop(), meter))
                elif op < 72:
                    if op == 64:  # each_index
                        loops.append(enumerate(stack.pop()))
                        pc = b
                    elif op == 65:  # end of each_pair
                        v = next(loops[-1], _DONE)
                        if v is _DONE:
                            loops.pop()
                        else:
                            key, at, cost = a
                            local[key], local[at] = v
                            pc = b
                            meter.left -= cost
                            if meter.left < 0:
                                raise OutOfFuel
                    elif op == 66:  # each_pair
                        loops.append(iter(pairs(stack.pop(), meter)))
                        pc = b
                    elif op == 67:  # break
                        loops.pop()
                        if a:
                            del stack[-a:]
                        pc = b
                    elif op == 68:  # next, with values to drop
                        del stack[-a:]
                        pc = b
                    elif op == 69:  # concat
                        args = stack[-a:] if a else []
                        if a:
                            del stack[-a:]
                        stack.append(b(*args, meter))
                    elif op == 70:  # cell
                        v = cells.get(a, _UNSET)
                        if v is not _UNSET:
                            stack.append(v)
                        else:
                            frames.append((code, pc, local, stack, loops, cell, root))
                            code = b.code or b.lay_out()
                            pc = 0
                            local = b.locals.copy()
                            stack = []
                            loops = []
                            cell = a
                            meter.left -= b.cost
                            if meter.left < 0:
                                raise OutOfFuel
                    else:  # c_path, j_path, j_root
                        stack.append(b(root, a))
                else:
                    if op == 72:  # c_charge
                        meter.cost += a
                        stack.append(meter.cost > meter.cost_limit)
                    elif op == 73:  # no operand, with the meter
                        stack.append(a(meter))
                    elif op == 74:  # scoped, o_scoped
                        v = stack.pop()
                        if b:
                            measure(v, meter)
                        meter.charge((len(root) + len(v)) >> CHUNK)
                        frames.append((code, pc, local, stack, loops, cell, root))
                        root = {**root, **v}
                        code = a.code or a.lay_out()
                        pc = 0
                        local = a.locals.copy()
                        stack = []
                        loops = []
                        cell = c
                        meter.left -= a.cost
                        if meter.left < 0:
                            raise OutOfFuel
                    elif op == 75:  # reset
                        stack.append(cells.pop(a, _UNSET) is not _UNSET)
                    else:  # await
                        registers = code, pc, local, stack, loops, cell, root, frames, cells
                        return _Suspended(HostCall(a, stack.pop(), fn.scope), registers)
        except OutOfFuel:
            return exhausted(fn.result, meter)
