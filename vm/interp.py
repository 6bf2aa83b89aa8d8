"""Tier 1: the exact stack machine. Runs verified modules instruction by instruction, and owns what an instruction
means in time.

:func:`interpret` lays out each function once as a list of triples ``(number, a, b)``: jumps resolved, ``end`` of an
``if`` gone, immediates replaced by what they stand for, conditions going straight to the arm they decide for. One
generator runs them all, with frames of its own for calls, so that an ``await`` anywhere suspends the whole run by one
``yield``. ``runtime.policyset`` and the tests call it.

The loop is long and flat on purpose: a call or an attribute for each instruction would cost more than the instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from vm.fuel import SIZED, charge_operands, exhausted, measure, pairs
from vm.functions import resolve
from vm.host import HOST_CALLS, NOTHING, PASSED, Execution, HostCall, Meter, OutOfFuel
from vm.semantics import METERED, SEMANTICS
from vm.structure import LOOPS
from vm.values import MISSING, Value
from vm.verify import VerifiedFunction, VerifiedModule


class Program(Protocol):
    """A module ready to run; both tiers are one."""

    def start(self, fn: int, root: dict[str, Any], meter: Meter) -> Execution:
        """Runs a function without parameters as a generator of host calls; its value is the function's."""

    def run(self, fn: int, root: dict[str, Any], meter: Meter) -> Any:
        """Runs a function that cannot suspend. ``ValueError`` for one that may."""


# Numbers of the laid-out code, the commonest first: the loop finds them in this order. An if, alone or fused with the
# test before it, has both its targets.
_LOCAL_GET, _LOCAL, _SET, _IF, _PATH, _IF_LEAF, _JUMP, _GET = range(8)
_IF_ABSENT, _IF_MISSING, _IF_LIST, _IF_MAP, _IF_TEXT, _IF_TRUE, _IF_EMPTY, _NEXT_ELEMENT, _RET, _CONST = range(8, 18)
_ONE, _TEE, _INVOKE_1, _INVOKE_2, _INVOKE, _CALL, _TWO, _ONE_IMM, _POP, _ZERO, _LEAF = range(18, 29)
_NEXT_INDEX, _EACH_INDEX, _NEXT_PAIR, _EACH_PAIR, _BREAK, _APPEND, _PUT, _PUT_KEY, _EACH = range(29, 38)
_TWO_METER, _ONE_METER, _CONCAT, _CELL, _AWAIT, _DROP_JUMP, _J_PATH = range(38, 45)

_UNSET: Final = object()
"""A cell that has not run yet. No value of a program is this object."""
_DONE: Final = object()
_LOOK_AHEAD: Final = 8
"""Negations and jumps that threading looks through: a bound, as code may be one long row of them."""

_FUSED: Final = {
    "is_absent": _IF_ABSENT,
    "is_missing": _IF_MISSING,
    "is_list": _IF_LIST,
    "is_map": _IF_MAP,
    "is_text": _IF_TEXT,
    "is_true": _IF_TRUE,
    "is_empty": _IF_EMPTY,
}
_TESTS: Final = {SEMANTICS[name]: number for name, number in _FUSED.items()}
_NOT: Final = SEMANTICS["not"]
_CONSTANTS: Final[dict[str, Value]] = {
    "true": True,
    "false": False,
    "null": None,
    "missing": MISSING,
    "o_pass": PASSED,
    "o_none": NOTHING,
}
_LOOP_STARTS: Final = {
    "each": (_EACH, _NEXT_ELEMENT),
    "each_index": (_EACH_INDEX, _NEXT_INDEX),
    "each_pair": (_EACH_PAIR, _NEXT_PAIR),
}

Code = list[tuple[int, Any, Any]]


class _Function:
    __slots__ = ("code", "cost", "locals", "may_suspend", "params", "result", "scope")

    def __init__(self, fn: VerifiedFunction) -> None:
        self.code: Code = []
        self.cost = fn.cost
        self.params = fn.params
        self.locals = [None] * (len(fn.locals) - fn.params)
        self.result = fn.result
        self.may_suspend = fn.may_suspend
        self.scope = fn.scope


def interpret(m: VerifiedModule) -> Program:
    """The program of a module on tier 1."""
    return _Interpreter(m)


class _Interpreter:
    def __init__(self, m: VerifiedModule) -> None:
        self._functions = [_Function(fn) for fn in m.functions]
        self._cells = m.cells
        for fn, target in zip(m.functions, self._functions, strict=True):
            target.code = _Layout(m, fn, self._functions).code()

    def run(self, fn: int, root: dict[str, Any], meter: Meter) -> Any:
        if self._functions[fn].may_suspend:
            raise ValueError(f"function {fn} may suspend")
        try:
            next(self._execute(self._functions[fn], root, meter))
        except StopIteration as stop:
            return stop.value
        raise AssertionError("a function that cannot suspend did")

    def start(self, fn: int, root: dict[str, Any], meter: Meter) -> Execution:
        return self._execute(self._functions[fn], root, meter)

    def _execute(self, fn: _Function, root: dict[str, Any], meter: Meter) -> Execution:
        if fn.params:
            raise ValueError("a function with parameters is not started from outside")
        result_kind = fn.result
        scope = fn.scope
        cells: list[Any] = [_UNSET] * len(self._cells)
        frames: list[tuple[Code, int, list[Value], list[Value], list[Any], int]] = []
        code = fn.code
        pc = 0
        local = fn.locals.copy()
        stack: list[Value] = []
        push = stack.append
        pop = stack.pop
        loops: list[Any] = []
        cell = -1
        missing = MISSING
        v: Any
        try:
            meter.left -= fn.cost
            if meter.left < 0:
                raise OutOfFuel
            while True:
                op, a, b = code[pc]
                pc += 1
                if op == 0:  # local_get
                    v = local[a]
                    push(v.get(b, missing) if type(v) is dict else missing)
                elif op == 1:  # local
                    push(local[a])
                elif op == 2:  # set
                    local[a] = pop()
                elif op == 3:  # if
                    pc = a if pop() else b
                elif op == 4:  # path
                    v = root
                    for k in a:
                        if type(v) is not dict:
                            v = missing
                            break
                        v = v.get(k, missing)
                    push(v)
                elif op == 5:  # p_leaf or p_scalar, if
                    holds, then = a
                    pc = then if holds(pop()) else b
                elif op == 6:  # else, next
                    pc = b
                elif op == 7:  # get
                    v = pop()
                    push(v.get(a, missing) if type(v) is dict else missing)
                elif op < 18:
                    if op == 8:  # is_absent, if
                        v = pop()
                        pc = a if v is None or v is missing else b
                    elif op == 9:  # is_missing, if
                        pc = a if pop() is missing else b
                    elif op == 10:  # is_list, if
                        pc = a if type(pop()) is list else b
                    elif op == 11:  # is_map, if
                        pc = a if type(pop()) is dict else b
                    elif op == 12:  # is_text, if
                        pc = a if type(pop()) is str else b
                    elif op == 13:  # is_true, if
                        pc = a if pop() is True else b
                    elif op == 14:  # is_empty, if
                        v = pop()
                        pc = a if type(v) in SIZED and not v else b
                    elif op == 15:  # end of each
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
                    elif op == 16:  # ret
                        v = pop()
                        if not frames:
                            return v
                        if cell >= 0:
                            cells[cell] = v
                        code, pc, local, stack, loops, cell = frames.pop()
                        push = stack.append
                        pop = stack.pop
                        push(v)
                    else:  # const
                        push(a)
                elif op < 29:
                    if op == 18:  # one operand, no immediate
                        push(a(pop()))
                    elif op == 19:  # tee
                        local[a] = stack[-1]
                    elif op == 20:  # invoke of one operand
                        push(a(pop()))
                    elif op == 21:  # invoke of two
                        v = pop()
                        push(a(pop(), v))
                    elif op == 22:  # invoke
                        body, n, sized, measured, metered = a
                        args = stack[-n:] if n else []
                        if n:
                            del stack[-n:]
                        if sized or measured:
                            charge_operands(sized, measured, args, meter)
                        push(body(meter, *args) if metered else body(*args))
                    elif op == 23:  # call
                        frames.append((code, pc, local, stack, loops, cell))
                        n = a.params
                        local = stack[-n:] + a.locals if n else a.locals.copy()
                        if n:
                            del stack[-n:]
                        code = a.code
                        pc = 0
                        stack = []
                        push = stack.append
                        pop = stack.pop
                        loops = []
                        cell = b
                        meter.left -= a.cost
                        if meter.left < 0:
                            raise OutOfFuel
                    elif op == 24:  # two operands, no immediate
                        v = pop()
                        push(a(pop(), v))
                    elif op == 25:  # one operand and an immediate
                        push(a(pop(), b))
                    elif op == 26:  # pop
                        pop()
                    elif op == 27:  # no operand
                        push(a())
                    else:  # p_leaf, p_scalar
                        push(a(pop()))
                elif op < 38:
                    if op == 29:  # end of each_index
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
                    elif op == 30:  # each_index
                        loops.append(enumerate(pop()))
                        pc = b
                    elif op == 31:  # end of each_pair
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
                    elif op == 32:  # each_pair
                        loops.append(iter(pairs(pop(), meter)))
                        pc = b
                    elif op == 33:  # break
                        loops.pop()
                        if a:
                            del stack[-a:]
                        pc = b
                    elif op == 34:  # append
                        v = pop()
                        stack[-1].append(v)
                    elif op == 35:  # put
                        v = pop()
                        stack[-1][a] = v
                    elif op == 36:  # put_key
                        v = pop()
                        key = pop()
                        stack[-1][key] = v
                    else:  # each
                        loops.append(iter(pop()))
                        pc = b
                elif op == 38:  # two operands and the meter
                    v = pop()
                    push(a(pop(), v, meter))
                elif op == 39:  # one operand and the meter
                    push(a(pop(), meter))
                elif op == 40:  # concat
                    args = stack[-a:] if a else []
                    if a:
                        del stack[-a:]
                    push(b(*args, meter))
                elif op == 41:  # cell
                    v = cells[a]
                    if v is not _UNSET:
                        push(v)
                    else:
                        frames.append((code, pc, local, stack, loops, cell))
                        code = b.code
                        pc = 0
                        local = b.locals.copy()
                        stack = []
                        push = stack.append
                        pop = stack.pop
                        loops = []
                        cell = a
                        meter.left -= b.cost
                        if meter.left < 0:
                            raise OutOfFuel
                elif op == 42:  # await
                    v = yield HostCall(a, pop(), scope)
                    measure(v, meter)
                    push(v)
                elif op == 43:  # next, with values to drop
                    del stack[-a:]
                    pc = b
                elif op == 44:  # j_path
                    push(b(root, a))
        except OutOfFuel:
            return exhausted(result_kind, meter)


class _Layout:
    """Lays out one function; ``at`` maps its instructions to places in the code made."""

    def __init__(self, m: VerifiedModule, fn: VerifiedFunction, functions: list[_Function]) -> None:
        self.m = m
        self.fn = fn
        self.functions = functions
        self.out: Code = []
        self.fixes: list[tuple[int, int]] = []
        self.at: list[int] = []

    def emit(self, number: int, a: Any = None, b: Any = None, *, to: int | None = None) -> None:
        """``to`` is the instruction that the place ``b`` of this one jumps to, filled in at the end."""
        if to is not None:
            self.fixes.append((len(self.out), to))
        self.out.append((number, a, b))

    def code(self) -> Code:
        for i in range(len(self.fn.instrs)):
            self.at.append(len(self.out))
            self.one(i)
        self.at.append(len(self.out))
        for place, to in self.fixes:
            number, a, _ = self.out[place]
            self.out[place] = (number, a, self.at[to])
        for place in range(len(self.out) - 1, -1, -1):
            self.thread(place)
        return self.out

    def thread(self, place: int) -> None:
        """Lets what decides an ``if`` go straight to its arms. Works from the end, so that chains of conditions
        collapse: ``is_text`` before ``if`` becomes one instruction, ``true`` before ``if`` a jump."""
        out = self.out
        number, a, _ = out[place]
        at = place + 1
        negated = False
        for _ in range(_LOOK_AHEAD):
            if at >= len(out):
                return
            if out[at][0] == _JUMP:
                at = out[at][2]
            elif out[at][0] == _ONE and out[at][1] is _NOT:
                negated = not negated
                at += 1
            else:
                break
        if number == _JUMP:
            at = out[place][2]
            while at < len(out) and out[at][0] == _JUMP:
                at = out[at][2]
            out[place] = (_JUMP, None, at)
            return
        if at >= len(out) or out[at][0] != _IF:
            return
        _, then, other = out[at]
        if negated:
            then, other = other, then
        if number == _CONST and (a is True or a is False):
            out[place] = (_JUMP, None, then if a else other)
        elif number == _ONE and a in _TESTS:
            out[place] = (_TESTS[a], then, other)
        elif number == _LEAF:
            out[place] = (_IF_LEAF, (a, then), other)
        elif number == _ONE and a is _NOT:
            out[place] = (_IF, other, then)

    def one(self, i: int) -> None:
        m, fn = self.m, self.fn
        _, op, a, b = fn.instrs[i]
        name = op.name
        if name in _CONSTANTS:
            self.emit(_CONST, _CONSTANTS[name])
            return
        if name in LOOPS:
            self.emit(_LOOP_STARTS[name][0], to=fn.partner[i])
            return
        match name:
            case "nop":
                pass
            case "const":
                self.emit(_CONST, m.constants[a])
            case "local":
                self.emit(_LOCAL, a)
            case "local_get":
                self.emit(_LOCAL_GET, a, m.constants[b])
            case "set":
                self.emit(_SET, a)
            case "tee":
                self.emit(_TEE, a)
            case "pop":
                self.emit(_POP)
            case "path":
                self.emit(_PATH, m.paths[a])
            case "j_root":
                self.emit(_PATH, ())
            case "j_path":
                self.emit(_J_PATH, m.paths[a], SEMANTICS["j_path"])
            case "get":
                self.emit(_GET, m.constants[a])
            case "if":
                self.emit(_IF, len(self.out) + 1, to=fn.partner[i] + 1)
            case "else":
                self.emit(_JUMP, to=fn.partner[i] + 1)
            case "end":
                self.end(i)
            case "break":
                self.emit(_BREAK, fn.drops[i], to=fn.partner[fn.partner[i]] + 1)
            case "next":
                self.emit(_DROP_JUMP if fn.drops[i] else _JUMP, fn.drops[i], to=fn.partner[fn.partner[i]])
            case "ret":
                self.emit(_RET)
            case "call":
                self.emit(_CALL, self.functions[a], -1)
            case "cell":
                self.emit(_CELL, a, self.functions[m.cells[a]])
            case "invoke":
                self.invoke(i)
            case "await":
                self.emit(_AWAIT, HOST_CALLS[a])
            case "append":
                self.emit(_APPEND)
            case "put":
                self.emit(_PUT, m.constants[a])
            case "put_key":
                self.emit(_PUT_KEY)
            case "concat":
                self.emit(_CONCAT, a, SEMANTICS["concat"])
            case "p_leaf":
                self.emit(_LEAF, m.leaf(a))
            case "p_scalar":
                self.emit(_LEAF, m.scalar(a))
            case _:
                self.computing(i)

    def end(self, i: int) -> None:
        opener = self.fn.partner[i]
        ins = self.fn.instrs[opener]
        if ins.op.name in LOOPS:
            cost = self.fn.loops[opener]
            a = (ins.a, cost) if ins.op.name == "each" else (ins.a, ins.b, cost)
            self.emit(_LOOP_STARTS[ins.op.name][1], a, to=opener + 1)

    def computing(self, i: int) -> None:
        """An instruction that its function in ``vm.semantics`` does."""
        _, op, a, _ = self.fn.instrs[i]
        body = SEMANTICS[op.name]
        metered = op.name in METERED
        imm = self.m.constants[a] if op.imm else None
        match len(op.pops), bool(op.imm), metered:
            case 0, False, False:
                self.emit(_ZERO, body)
            case 1, False, False:
                self.emit(_ONE, body)
            case 1, True, False:
                self.emit(_ONE_IMM, body, imm)
            case 2, False, False:
                self.emit(_TWO, body)
            case 1, False, True:
                self.emit(_ONE_METER, body)
            case 2, False, True:
                self.emit(_TWO_METER, body)
            case _:
                raise AssertionError(f"{op.name} has a shape that tier 1 does not know")

    def invoke(self, i: int) -> None:
        entry = self.m.intrinsics[self.fn.instrs[i].a]
        body: Callable[..., Any] = resolve(entry.name)
        if entry.dynamic:
            body = partial(body, self.m.lent)
        n = len(entry.params)
        measured = self.fn.measured.get(i, ())
        if n in (1, 2) and not (entry.sized or measured or entry.metered):
            self.emit(_INVOKE_1 if n == 1 else _INVOKE_2, body)
        else:
            self.emit(_INVOKE, (body, n, entry.sized, measured, entry.metered))
