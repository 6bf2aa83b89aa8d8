"""Tier 1: the exact stack machine. Runs verified modules instruction by instruction, and owns what an instruction means
in time.

``vm.layout`` lays out each function on its first run. One loop runs them all, with frames of its own for calls, so
that an ``await`` anywhere hands out the registers of the whole run, to go on with when the host has answered.
``runtime.policyset`` and the tests call :func:`interpret`.

The loop is long and flat on purpose: a call or an attribute for each instruction would cost more than the instruction.
``fields = v`` tells mypyc that a value is a dict, whose ``get`` it then calls straight (``make compiled``).
Its numbers are those of ``vm.layout``, written out since a name costs a lookup; the comment beside each is its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from vm.fuel import CHUNK, SIZED, charge_operands, exhausted, measure, pairs, settle
from vm.host import Execution, HostCall, Meter, OutOfFuel
from vm.layout import SETTLED, Code, Frame, frames_of
from vm.values import MISSING, Value
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
        fields: dict[str, Any]
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
                if op < 8:
                    if op == 0:  # local_get
                        v = local[a]
                        if type(v) is dict:
                            fields = v
                            stack.append(fields.get(b, missing))
                        else:
                            stack.append(missing)
                    elif op == 1:  # local
                        stack.append(local[a])
                    elif op == 2:  # local_get, set
                        v = local[a]
                        if type(v) is dict:
                            fields = v
                            local[c] = fields.get(b, missing)
                        else:
                            local[c] = missing
                    elif op == 3:  # is_missing, if
                        pc = b if (local[a] if a >= 0 else stack.pop()) is missing else c
                    elif op == 4:  # end of each
                        v = next(loops[-1], _DONE)
                        if v is _DONE:
                            loops.pop()
                        else:
                            slot, cost = a
                            local[slot] = v
                            pc = b
                            meter.left -= cost
                            if meter.left < 0:
                                raise OutOfFuel
                    elif op == 5:  # is_map, if
                        pc = b if type(local[a] if a >= 0 else stack.pop()) is dict else c
                    elif op == 6:  # local_get, p_leaf or p_scalar, if
                        holds, slot, key = a
                        v = local[slot]
                        pc = b if holds(v.get(key, missing) if type(v) is dict else missing) else c
                    else:  # if
                        pc = b if (local[a] if a >= 0 else stack.pop()) else c
                elif op < 16:
                    if op == 8:  # path
                        v = root
                        for k in a:
                            if type(v) is not dict:
                                v = missing
                                break
                            fields = v
                            v = fields.get(k, missing)
                        stack.append(v)
                    elif op == 9:  # set
                        local[a] = stack.pop()
                    elif op == 10:  # is_list, if
                        pc = b if type(local[a] if a >= 0 else stack.pop()) is list else c
                    elif op == 11:  # const, ret
                        if not frames:
                            return a
                        v = a
                        if cell >= 0:
                            cells[cell] = v
                        elif cell == SETTLED:
                            v = settle(v, meter)
                        code, pc, local, stack, loops, cell, root = frames.pop()
                        stack.append(v)
                    elif op == 12:  # const
                        stack.append(a)
                    elif op == 13:  # tee
                        local[a] = stack[-1]
                    elif op == 14:  # one operand, no immediate
                        stack.append(a(stack.pop()))
                    else:  # is_true, is_false, is_err, j_truthy, if
                        pc = b if a(stack.pop()) else c
                elif op < 24:
                    if op == 16:  # p_leaf or p_scalar, if
                        pc = b if a(stack.pop()) else c
                    elif op == 17:  # local, p_leaf or p_scalar, if
                        holds, slot = a
                        pc = b if holds(local[slot]) else c
                    elif op == 18:  # is_absent, if
                        v = local[a] if a >= 0 else stack.pop()
                        pc = b if v is None or v is missing else c
                    elif op == 19:  # is_null, if
                        pc = b if (local[a] if a >= 0 else stack.pop()) is None else c
                    elif op == 20:  # is_empty, if
                        v = local[a] if a >= 0 else stack.pop()
                        pc = b if type(v) in SIZED and not v else c
                    elif op == 21:  # is_text, if
                        pc = b if type(local[a] if a >= 0 else stack.pop()) is str else c
                    elif op == 22:  # get
                        v = stack.pop()
                        stack.append(v.get(a, missing) if type(v) is dict else missing)
                    else:  # else, next
                        pc = b
                elif op < 32:
                    if op == 24:  # ret
                        v = stack.pop()
                        if not frames:
                            return v
                        if cell >= 0:
                            cells[cell] = v
                        elif cell == SETTLED:
                            v = settle(v, meter)
                        code, pc, local, stack, loops, cell, root = frames.pop()
                        stack.append(v)
                    elif op == 25:  # each
                        loops.append(iter(stack.pop()))
                        pc = b
                    elif op == 26:  # as_list, each
                        v = local[a] if a >= 0 else stack.pop()
                        loops.append(iter(v if type(v) is list else ()))
                        pc = b
                    elif op == 27:  # call
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
                    elif op == 28:  # invoke
                        body, n, sized, measured, metered = a
                        args = stack[-n:] if n else []
                        if n:
                            del stack[-n:]
                        if sized or measured:
                            charge_operands(sized, measured, args, meter)
                        stack.append(body(meter, *args) if metered else body(*args))
                    elif op == 29:  # invoke of one operand
                        stack.append(a(stack.pop()))
                    elif op == 30:  # invoke of two
                        v = stack.pop()
                        stack.append(a(stack.pop(), v))
                    else:  # const, equal, if
                        pc = b if stack.pop() == a else c
                elif op < 40:
                    if op == 32:  # absent_null
                        if stack[-1] is missing:
                            stack[-1] = None
                    elif op == 33:  # path, set
                        v = root
                        for k in a:
                            if type(v) is not dict:
                                v = missing
                                break
                            fields = v
                            v = fields.get(k, missing)
                        local[b] = v
                    elif op == 34:  # local, set
                        local[b] = local[a]
                    elif op == 35:  # append
                        v = stack.pop()
                        stack[-1].append(v)
                    elif op == 36:  # append, pop
                        v = stack.pop()
                        stack.pop().append(v)
                    elif op == 37:  # pop
                        stack.pop()
                    elif op == 38:  # p_leaf, p_scalar
                        stack.append(a(stack.pop()))
                    else:  # const, equal
                        stack.append(stack.pop() == a)
                elif op < 48:
                    if op == 40:  # two operands, no immediate
                        v = stack.pop()
                        stack.append(a(stack.pop(), v))
                    elif op == 41:  # one operand and an immediate
                        stack.append(a(stack.pop(), b))
                    elif op == 42:  # no operand
                        stack.append(a())
                    elif op == 43:  # put
                        v = stack.pop()
                        stack[-1][a] = v
                    elif op == 44:  # put_key
                        v = stack.pop()
                        key = stack.pop()
                        stack[-1][key] = v
                    elif op == 45:  # as_list
                        if type(stack[-1]) is not list:
                            stack[-1] = []
                    elif op == 46:  # two operands and the meter
                        v = stack.pop()
                        stack.append(a(stack.pop(), v, meter))
                    else:  # one operand and the meter
                        stack.append(a(stack.pop(), meter))
                elif op < 56:
                    if op == 48:  # end of each_index
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
                    elif op == 49:  # each_index
                        loops.append(enumerate(stack.pop()))
                        pc = b
                    elif op == 50:  # end of each_pair
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
                    elif op == 51:  # each_pair
                        loops.append(iter(pairs(stack.pop(), meter)))
                        pc = b
                    elif op == 52:  # break
                        loops.pop()
                        if a:
                            del stack[-a:]
                        pc = b
                    elif op == 53:  # next, with values to drop
                        del stack[-a:]
                        pc = b
                    elif op == 54:  # concat
                        args = stack[-a:] if a else []
                        if a:
                            del stack[-a:]
                        stack.append(b(*args, meter))
                    else:  # cell
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
                elif op == 58 or op == 57:  # c_path, j_path, j_root
                    stack.append(b(root, a))
                elif op == 59:  # c_select
                    v = stack.pop()
                    stack.append(v[a] if type(v) is dict and a in v else b(v, a))
                elif op == 60:  # local, c_select
                    v = local[a]
                    stack.append(v[b] if type(v) is dict and b in v else c(v, b))
                elif op == 61:  # c_charge
                    meter.cost += a
                    stack.append(meter.cost > meter.cost_limit)
                elif op == 62:  # c_charge, pop
                    meter.cost += a
                elif op == 63:  # no operand, with the meter
                    stack.append(a(meter))
                elif op == 64:  # scoped, o_scoped
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
                elif op == 65:  # reset
                    stack.append(cells.pop(a, _UNSET) is not _UNSET)
                else:  # await
                    registers = code, pc, local, stack, loops, cell, root, frames, cells
                    return _Suspended(HostCall(a, stack.pop(), fn.scope), registers)
        except OutOfFuel:
            return exhausted(fn.result, meter)
