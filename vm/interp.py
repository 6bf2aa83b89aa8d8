"""Tier 1: the exact stack machine. Runs verified modules step by step, and owns what an instruction means in time.

``vm.layout`` and ``vm.joins`` make each function ready on its first run. One loop runs them all, with frames of its
own for calls, so that an ``await`` anywhere hands out the registers of the whole run, to go on with when the host has
answered. ``runtime.policyset`` and the tests call :func:`interpret`.

The loop is long and flat on purpose: a call or an attribute for each instruction would cost more than the instruction.
``fields = v`` tells mypyc that a value is a dict, whose ``get`` it then calls straight (``make compiled``).
Its numbers are those of ``vm.quads``, written out since a name costs a lookup; the comment beside each is its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from vm.fuel import CHUNK, SIZED, charge_operands, exhausted, measure, pairs, settle
from vm.host import Execution, HostCall, Meter, OutOfFuel, Program
from vm.layout import frames_of
from vm.quads import SETTLED, Frame, Step
from vm.semantics import c_has, c_select, concat
from vm.values import MISSING, Value
from vm.verify import VerifiedModule

_UNSET: Final = object()
"""A cell that has not run yet: no value of a program."""
_DONE: Final = object()
_MISSING: Final = MISSING
_NEXT: Final[Any] = next
_ENUMERATE: Final[Any] = enumerate
"""As names of this module: machine code need not look them up."""
_LOW: Final[list[Any]] = [None] * 4
"""What lies below every stack: a list that is emptied gives its memory back, and takes it anew for the next value."""


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
        # Those of runs that have ended: to make one costs as much as a few steps. Four, for the reason of _LOW.
        self._stacks: list[list[Value]] = [_LOW.copy() for _ in range(4)]

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
        cells: dict[int, Any] | None
        frames: list[tuple[Step, list[Value], list[Value], int, dict[str, Any]]] | None
        frame: Frame
        q: Step
        local: list[Value]
        stack: list[Value]
        loop: list[Value]
        args: list[Value]
        missing = _MISSING
        sized = SIZED
        done = _DONE
        following = _NEXT
        stacks = self._stacks
        v: Any
        k: str
        n: int
        op: int
        fields: dict[str, Any]
        pair: tuple[Value, Value]
        leaves: tuple[tuple[str, Any, Step], ...]
        row: tuple[tuple[int, tuple[str, ...], Step], ...]
        try:
            if registers is None:
                cells = None
                frames = None
                q = fn.first or fn.lay_out()
                local = fn.locals.copy()
                try:
                    stack = stacks.pop()
                except IndexError:  # runs inside one another or in threads, and those that had a fault
                    stack = _LOW.copy()
                cell = -1
                meter.left -= fn.cost
                if meter.left < 0:
                    raise OutOfFuel
            else:
                q, local, stack, cell, root, frames, cells = registers
                measure(reply, meter)
                stack.append(reply)
            while True:
                op = q.op
                if op < 4:
                    if op == 0:  # local
                        stack.append(local[q.slot])
                        q = q.next
                    elif op == 1:  # const
                        stack.append(q.a)
                        q = q.next
                    elif op == 2:  # local_get, set, is_missing, if, is_list, if, is_empty, if, as_list, each
                        v = local[q.slot]
                        if type(v) is dict:
                            fields = v
                            v = fields.get(q.key, missing)
                        else:
                            v = missing
                        local[q.to] = v
                        if type(v) is list and v:
                            local[q.loop] = iter(v)
                            q = q.then
                        else:
                            q = q.next if v is missing else q.other
                    else:  # const, ret
                        v = q.a
                        if not frames:
                            if len(stack) == 4:  # as _LOW is
                                stacks.append(stack)
                            return v
                        if cell >= 0 and cells is not None:
                            cells[cell] = v
                        elif cell == SETTLED:
                            v = settle(v, meter)
                        q, local, stack, cell, root = frames.pop()
                        stack.append(v)
                elif op < 8:
                    if op == 4:  # path, const, equal, if
                        v = root
                        for k in q.keys:
                            if type(v) is not dict:
                                v = missing
                                break
                            fields = v
                            v = fields.get(k, missing)
                        q = q.then if v == q.key else q.other
                    elif op == 5:  # set, what its type decides
                        v = stack.pop()
                        local[q.slot] = v
                        q = q.types.get(type(v), q.other)
                    elif op == 6:  # cost, path, set
                        meter.left -= q.n
                        if meter.left < 0:
                            raise OutOfFuel
                        v = root
                        for k in q.keys:
                            if type(v) is not dict:
                                v = missing
                                break
                            fields = v
                            v = fields.get(k, missing)
                        local[q.to] = v
                        q = q.next
                    else:  # local, set, what its type decides
                        v = local[q.slot]
                        local[q.to] = v
                        q = q.types.get(type(v), q.other)
                elif op < 12:
                    if op == 8:  # end of each, is_map, if
                        v = following(local[q.loop], done)
                        if v is done:
                            q = q.next
                        else:
                            local[q.slot] = v
                            meter.left -= q.n
                            q = q.then if type(v) is dict else q.other
                            if meter.left < 0:
                                raise OutOfFuel
                    elif op == 9:  # invoke of one operand, with the meter
                        stack.append(q.a(meter, stack.pop()))
                        q = q.next
                    elif op == 10:  # invoke
                        n = q.n
                        args = []
                        if n == 2:
                            v = stack.pop()
                            args = [stack.pop(), v]
                        elif n:
                            args = stack[-n:]
                            del stack[-n:]
                        if q.b is not None:
                            charge_operands(q.b[0], q.b[1], args, meter)
                        if n == 2:
                            stack.append(q.a(meter, args[0], args[1]) if q.key else q.a(args[0], args[1]))
                        else:
                            stack.append(q.a(meter, *args) if q.key else q.a(*args))
                        q = q.next
                    else:  # path, path and absent_null
                        absent = q.key
                        v = root
                        for k in q.keys:
                            if type(v) is not dict:
                                v = absent
                                break
                            fields = v
                            v = fields.get(k, absent)
                        stack.append(v)
                        q = q.next
                elif op < 16:
                    if op == 12:  # local_get, set, is_missing, if
                        v = local[q.slot]
                        if type(v) is dict:
                            fields = v
                            v = fields.get(q.key, missing)
                        else:
                            v = missing
                        local[q.to] = v
                        q = q.then if v is missing else q.other
                    elif op == 13:  # one operand
                        stack.append(q.a(stack.pop()))
                        q = q.next
                    elif op == 14:  # what the type of a local decides
                        q = q.types.get(type(local[q.slot]), q.other)
                    else:  # set
                        local[q.slot] = stack.pop()
                        q = q.next
                elif op < 20:
                    if op == 16:  # c_path, j_path, j_root
                        stack.append(q.a(root, q.keys))
                        q = q.next
                    elif op == 17:  # end of each, local_get, p_leaf or p_scalar, if
                        for v in local[q.loop]:
                            local[q.slot] = v
                            meter.left -= q.n
                            if meter.left < 0:
                                raise OutOfFuel
                            if type(v) is dict:
                                fields = v
                                v = fields.get(q.key, missing)
                            else:
                                v = missing
                            if not q.a(v):
                                q = q.other
                                break
                        else:
                            q = q.next
                    elif op == 18:  # tee, p_leaf, p_scalar or another of one operand, if
                        v = stack.pop()
                        local[q.slot] = v
                        q = q.then if q.a(v) else q.other
                    else:  # local_get
                        v = local[q.slot]
                        if type(v) is dict:
                            fields = v
                            stack.append(fields.get(q.key, missing))
                        else:
                            stack.append(missing)
                        q = q.next
                elif op < 48:
                    if op < 28:
                        if op == 20:  # put
                            v = stack.pop()
                            stack[-1][q.key] = v
                            q = q.next
                        elif op == 21:  # is_list, if, is_empty, if, as_list, each
                            v = local[q.slot]
                            if type(v) is list and v:
                                local[q.loop] = iter(v)
                                q = q.then
                            else:
                                q = q.other
                        elif op == 22:  # new_list, set, as_list, each, and what is there on the way down appended
                            args = []
                            local[q.a] = args
                            v = local[q.key]
                            loop = v if type(v) is list else []
                            for v in loop:
                                local[q.slot] = v
                                meter.left -= q.n
                                if meter.left < 0:
                                    raise OutOfFuel
                                for k in q.keys:
                                    if type(v) is not dict:
                                        v = None
                                        break
                                    fields = v
                                    v = fields.get(k)
                                local[q.to] = v
                                if v is not None:
                                    args.append(v)
                            local[q.b] = args
                            q = q.next
                        elif op == 23:  # ret
                            v = stack.pop()
                            if not frames:
                                if len(stack) == 4:
                                    stacks.append(stack)
                                return v
                            if cell >= 0 and cells is not None:
                                cells[cell] = v
                            elif cell == SETTLED:
                                v = settle(v, meter)
                            q, local, stack, cell, root = frames.pop()
                            stack.append(v)
                        elif op == 24:  # end of each, is_map, if, and on two fields down a leaf that may be absent
                            for v in local[q.loop]:
                                local[q.slot] = v
                                meter.left -= q.n
                                if meter.left < 0:
                                    raise OutOfFuel
                                if type(v) is dict:
                                    fields = v
                                    v = fields.get(q.key, missing)
                                    local[q.to] = v
                                    if v is missing:
                                        continue
                                    if type(v) is dict:
                                        fields = v
                                        v = fields.get(q.keys[0], missing)
                                        local[q.b] = v
                                        if v is missing or q.a(v):
                                            continue
                                        q = q.then
                                        break
                                q = q.other
                                break
                            else:
                                q = q.next
                        elif op == 25:  # local_get, set, is_missing, if, is_map, if
                            v = local[q.slot]
                            if type(v) is dict:
                                fields = v
                                v = fields.get(q.key, missing)
                            else:
                                v = missing
                            local[q.to] = v
                            q = q.other if type(v) is dict else q.then if v is missing else q.next
                        elif op == 26:  # if
                            q = q.then if (local[q.slot] if q.slot >= 0 else stack.pop()) else q.other
                        else:  # end of each_index, c_charge, if
                            v = following(local[q.loop], done)
                            if v is done:
                                q = q.next
                            else:
                                pair = v
                                local[q.to], local[q.slot] = pair
                                meter.left -= q.n
                                if meter.left < 0:
                                    raise OutOfFuel
                                meter.cost += q.a
                                q = q.then if meter.cost > meter.cost_limit else q.other
                    elif op < 36:
                        if op == 28:  # set, if
                            v = stack.pop()
                            local[q.slot] = v
                            q = q.then if v else q.other
                        elif op == 29:  # is_empty, if
                            v = local[q.slot] if q.slot >= 0 else stack.pop()
                            q = q.then if type(v) in sized and not v else q.other
                        elif op == 30:  # local, p_leaf or p_scalar, if
                            q = q.then if q.a(local[q.slot]) else q.other
                        elif op == 31:  # const, equal, not, set, if
                            v = local[q.slot] if q.slot >= 0 else stack.pop()
                            v = (v == q.key) is not q.b
                            local[q.to] = v
                            q = q.then if v else q.other
                        elif op == 32:  # tee, what the type of a value decides
                            v = stack[-1]
                            local[q.slot] = v
                            if type(v) in q.types:
                                stack.pop()
                            q = q.types.get(type(v), q.other)
                        elif op == 33:  # what the type of a value decides
                            q = q.types.get(type(stack.pop()), q.other)
                        elif op == 34:  # has(…) && …, where all of it is there
                            if q.slot >= 0 and local[q.slot] is not True:
                                q = q.other
                                continue
                            local[q.to] = True
                            n = q.n
                            row = q.b
                            for k_cost, k_path, whole in row:
                                v = local[n]
                                for k in k_path:
                                    if type(v) is not dict:
                                        v = missing
                                        break
                                    fields = v
                                    v = fields.get(k, missing)
                                    if v is missing:
                                        break
                                if v is missing:
                                    q = whole
                                    break
                                meter.cost += k_cost
                            else:
                                local[q.a] = True
                                q = q.next
                        else:  # invoke of two operands, with the meter
                            v = stack.pop()
                            stack.append(q.a(meter, stack.pop(), v))
                            q = q.next
                    elif op < 44:
                        if op == 36:  # local_get, set
                            v = local[q.slot]
                            if type(v) is dict:
                                fields = v
                                local[q.to] = fields.get(q.key, missing)
                            else:
                                local[q.to] = missing
                            q = q.next
                        elif op == 37:  # two operands and the meter
                            v = stack.pop()
                            stack.append(q.a(stack.pop(), v, meter))
                            q = q.next
                        elif op == 38:  # one operand and an immediate
                            stack.append(q.a(stack.pop(), q.b))
                            q = q.next
                        elif op == 39:  # tee
                            local[q.slot] = stack[-1]
                            q = q.next
                        elif op == 40:  # p_leaf, p_scalar or another of one operand, if
                            q = q.then if q.a(stack.pop()) else q.other
                        elif op == 41:  # get
                            v = stack.pop()
                            stack.append(v.get(q.key, missing) if type(v) is dict else missing)
                            q = q.next
                        elif op == 42:  # new_list, and local_get, absent_null, append …
                            args = []
                            v = local[q.slot]
                            for k in q.keys:
                                if type(v) is dict:
                                    fields = v
                                    args.append(fields.get(k))
                                else:
                                    args.append(None)
                            stack.append(args)
                            q = q.next
                        else:  # each_index
                            local[q.loop] = _ENUMERATE(stack.pop())
                            q = q.then
                    else:
                        if op == 44:  # pop
                            stack.pop()
                            q = q.next
                        elif op == 45:  # end of each, local_get, get …, set, is_map, if, and local_get, leaf, if …
                            for v in local[q.loop]:
                                local[q.slot] = v
                                meter.left -= q.n
                                if meter.left < 0:
                                    raise OutOfFuel
                                for k in q.keys:
                                    if type(v) is not dict:
                                        v = missing
                                        break
                                    fields = v
                                    v = fields.get(k, missing)
                                local[q.to] = v
                                if type(v) is not dict:
                                    q = q.other
                                    break
                                fields = v
                                leaves = q.b
                                for k, v, way in leaves:
                                    if not v(fields.get(k, missing)):
                                        q = way
                                        break
                                else:
                                    continue
                                break
                            else:
                                q = q.next
                        elif op == 46:  # concat
                            args = stack[-q.n :] if q.n else []
                            if q.n:
                                del stack[-q.n :]
                            stack.append(concat(*args, meter))
                            q = q.next
                        else:  # local, set
                            local[q.to] = local[q.slot]
                            q = q.next
                else:
                    if op < 56:
                        if op == 48:  # no operand
                            stack.append(q.a())
                            q = q.next
                        elif op == 49:  # end of each
                            v = following(local[q.loop], done)
                            if v is done:
                                q = q.next
                            else:
                                local[q.slot] = v
                                meter.left -= q.n
                                q = q.then
                                if meter.left < 0:
                                    raise OutOfFuel
                        elif op == 50:  # is_true, if
                            q = q.then if (local[q.slot] if q.slot >= 0 else stack.pop()) is True else q.other
                        elif op == 51:  # c_charge, pop
                            meter.cost += q.n
                            q = q.next
                        elif op == 52:  # as_list
                            if type(stack[-1]) is not list:
                                stack[-1] = []
                            q = q.next
                        elif op == 53:  # no operand, with the meter
                            stack.append(q.a(meter))
                            q = q.next
                        elif op == 54:  # the cost of a function in the place of its call
                            meter.left -= q.n
                            if meter.left < 0:
                                raise OutOfFuel
                            q = q.next
                        else:  # end of each_index
                            v = following(local[q.loop], done)
                            if v is done:
                                q = q.next
                            else:
                                pair = v
                                local[q.to], local[q.slot] = pair
                                meter.left -= q.n
                                q = q.then
                                if meter.left < 0:
                                    raise OutOfFuel
                    elif op < 64:
                        if op == 56:  # scoped, o_scoped
                            v = stack.pop()
                            if q.b:
                                measure(v, meter)
                            meter.charge((len(root) + len(v)) >> CHUNK)
                            frames = frames or []
                            frames.append((q.next, local, stack, cell, root))
                            frame = q.a
                            cell = q.n
                            q = frame.first or frame.lay_out()
                            local = frame.locals.copy()
                            root = {**root, **v}
                            stack = _LOW.copy()
                            meter.left -= frame.cost
                            if meter.left < 0:
                                raise OutOfFuel
                        elif op == 57:  # cell
                            cells = cells or {}
                            v = cells.get(q.n, _UNSET)
                            if v is not _UNSET:
                                stack.append(v)
                                q = q.next
                            else:
                                frames = frames or []
                                frames.append((q.next, local, stack, cell, root))
                                frame = q.a
                                cell = q.n
                                q = frame.first or frame.lay_out()
                                local = frame.locals.copy()
                                stack = _LOW.copy()
                                meter.left -= frame.cost
                                if meter.left < 0:
                                    raise OutOfFuel
                        elif op == 58:  # two operands
                            v = stack.pop()
                            stack.append(q.a(stack.pop(), v))
                            q = q.next
                        elif op == 59:  # c_charge
                            meter.cost += q.n
                            stack.append(meter.cost > meter.cost_limit)
                            q = q.next
                        elif op == 60:  # await
                            registers = q.next, local, stack, cell, root, frames, cells
                            return _Suspended(HostCall(q.a, stack.pop(), fn.scope), registers)
                        elif op == 61:  # append, pop
                            v = stack.pop()
                            stack.pop().append(v)
                            q = q.next
                        elif op == 62:  # reset
                            stack.append(cells is not None and cells.pop(q.n, _UNSET) is not _UNSET)
                            q = q.next
                        else:  # break or next, with values to drop
                            del stack[-q.n :]
                            q = q.then
                    elif op < 72:
                        if op == 64:  # append
                            v = stack.pop()
                            stack[-1].append(v)
                            q = q.next
                        elif op == 65:  # as_list, each
                            v = local[q.slot] if q.slot >= 0 else stack.pop()
                            local[q.loop] = iter(v if type(v) is list else ())
                            q = q.then
                        elif op == 66:  # absent_null
                            if stack[-1] is missing:
                                stack[-1] = None
                            q = q.next
                        elif op == 67:  # one operand and the meter
                            stack.append(q.a(stack.pop(), meter))
                            q = q.next
                        elif op == 68:  # call
                            frames = frames or []
                            frames.append((q.next, local, stack, cell, root))
                            frame = q.a
                            cell = q.n
                            q = frame.first or frame.lay_out()
                            n = frame.params
                            if n:
                                args = stack[-n:]
                                del stack[-n:]
                                local = args + frame.locals
                            else:
                                local = frame.locals.copy()
                            stack = _LOW.copy()
                            meter.left -= frame.cost
                            if meter.left < 0:
                                raise OutOfFuel
                        elif op == 69:  # each
                            local[q.loop] = iter(stack.pop())
                            q = q.then
                        elif op == 70:  # end of each_pair
                            v = following(local[q.loop], done)
                            if v is done:
                                q = q.next
                            else:
                                pair = v
                                local[q.slot], local[q.to] = pair
                                meter.left -= q.n
                                q = q.then
                                if meter.left < 0:
                                    raise OutOfFuel
                        else:  # each_pair
                            local[q.loop] = iter(pairs(stack.pop(), meter))
                            q = q.then
                    elif op < 80:
                        if op == 72:  # const, equal, if
                            q = q.then if stack.pop() == q.a else q.other
                        elif op == 73:  # local_get, p_leaf or p_scalar, if
                            v = local[q.slot]
                            if type(v) is dict:
                                fields = v
                                v = fields.get(q.key, missing)
                            else:
                                v = missing
                            q = q.then if q.a(v) else q.other
                        elif op == 74:  # local_get, get …, set
                            v = local[q.slot]
                            for k in q.keys:
                                if type(v) is not dict:
                                    v = missing
                                    break
                                fields = v
                                v = fields.get(k, missing)
                            local[q.to] = v
                            q = q.next
                        elif op == 75:  # const, equal
                            stack.append(stack.pop() == q.a)
                            q = q.next
                        elif op == 76:  # is_false, if
                            q = q.then if (local[q.slot] if q.slot >= 0 else stack.pop()) is False else q.other
                        elif op == 77:  # c_has
                            v = stack.pop()
                            stack.append(q.key in v if type(v) is dict else c_has(v, q.key))
                            q = q.next
                        elif op == 78:  # c_charge, if
                            meter.cost += q.n
                            q = q.then if meter.cost > meter.cost_limit else q.other
                        else:  # local, c_select
                            v = local[q.slot]
                            k = q.key
                            stack.append(v[k] if type(v) is dict and k in v else c_select(v, k))
                            q = q.next
                    else:
                        if op == 80:  # c_select
                            v = stack.pop()
                            k = q.key
                            stack.append(v[k] if type(v) is dict and k in v else c_select(v, k))
                            q = q.next
                        else:  # put_key
                            v = stack.pop()
                            key = stack.pop()
                            stack[-1][key] = v
                            q = q.next
        except OutOfFuel:
            return exhausted(fn.result, meter)
