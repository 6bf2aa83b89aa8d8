"""What each instruction computes: one function an opcode, for all that are neither control nor access to locals and
cells.

A function takes the operands in stack order, then the immediates resolved (key text, path, predicate, number). Those
of :data:`METERED` take the meter last and charge for the size of their data. Tier 1 writes the hot ones out in its
loop, tier 2 uses the templates of the table; tests hold both against these. The compiler folds constants with the same
functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from vm.cel.values import NONE, CelMap, Optional, Record
from vm.fuel import CHUNK, SIZED, measure
from vm.host import NOTHING, PASSED, Meter, Outcome, Status
from vm.intrinsics.text import json_text
from vm.isa import OPS, Effect
from vm.values import MISSING, Err, Value, json_equal

METERED: Final = frozenset({"equal", "concat", "to_text", "c_charge", "c_open", "c_close"})

# Reading a member through its enum class costs about 0.1 µs in Python 3.11.
_PASS: Final = Status.PASS
_FAIL: Final = Status.FAIL
_SKIP: Final = Status.SKIP
_ERROR: Final = Status.ERROR


def equal(a: Value, b: Value, meter: Meter) -> bool:
    """Deep JSON equality, without recursion: charges for the nodes it looks at."""
    t = type(a)
    if t is not list and t is not dict:
        return json_equal(a, b)
    pairs = [(a, b)]
    seen = 0
    while pairs:
        x, y = pairs.pop()
        if x is y:
            continue
        t = type(x)
        if t is dict:
            if type(y) is not dict or len(x) != len(y):
                return False
            for k, v in x.items():
                w = y.get(k, pairs)
                if w is pairs:
                    return False
                pairs.append((v, w))
            seen += len(x)
        elif t is list:
            if type(y) is not list or len(x) != len(y):
                return False
            pairs.extend(zip(x, y, strict=True))
            seen += len(x)
        elif not json_equal(x, y):
            return False
        if seen >> CHUNK:
            meter.charge(seen >> CHUNK)
            seen &= (1 << CHUNK) - 1
    return True


def to_text(v: Value, meter: Meter) -> str:
    if type(v) is str:
        return v
    measure(v, meter)
    return json_text(v)


def concat(*parts: Any) -> str:
    """The texts, then the meter: charges for the length of the result before it makes it."""
    *texts, meter = parts
    meter.charge(sum(map(len, texts)) >> CHUNK)
    return "".join(texts)


def true() -> bool:
    return True


def false() -> bool:
    return False


def null() -> None:
    return None


def missing() -> Value:
    return MISSING


def path(root: dict[str, Value], keys: tuple[str, ...]) -> Value:
    """Takes the root as its operand."""
    v: Value = root
    for k in keys:
        if type(v) is not dict:
            return MISSING
        v = v.get(k, MISSING)
    return v


def get(v: Value, key: str) -> Value:
    return v.get(key, MISSING) if type(v) is dict else MISSING


def index(v: Value, i: int) -> Value:
    return v[i] if type(v) is list and -len(v) <= i < len(v) else MISSING


def as_list(v: Value) -> list[Value]:
    return v if type(v) is list else []


def as_map(v: Value) -> dict[str, Value]:
    return v if type(v) is dict else {}


def absent_null(v: Value) -> Value:
    return None if v is MISSING else v


def as_text(v: Value) -> str:
    return v if type(v) is str else ""


def is_true(v: Value) -> bool:
    return v is True


def is_false(v: Value) -> bool:
    return v is False


def is_missing(v: Value) -> bool:
    return v is MISSING


def is_null(v: Value) -> bool:
    return v is None


def is_absent(v: Value) -> bool:
    return v is None or v is MISSING


def is_err(v: Value) -> bool:
    return type(v) is Err


def is_list(v: Value) -> bool:
    return type(v) is list


def is_map(v: Value) -> bool:
    return type(v) is dict


def is_text(v: Value) -> bool:
    return type(v) is str


def not_(v: bool) -> bool:
    return not v


def is_empty(v: Value) -> bool:
    return type(v) in SIZED and not v


def less(a: int, b: int) -> bool:
    return a < b


def length(v: Value) -> int:
    return len(v) if type(v) in SIZED else 0


def err_code(v: Value, code: str) -> bool:
    return type(v) is Err and v.code == code


_ABSENT: Final = "no_such_key"


def c_path(root: dict[str, Value], keys: tuple[str, ...]) -> Value:
    """Takes the root as its operand. Its own keys are the variables, engine keys without their mark."""
    v: Value = root.get(keys[0], MISSING)
    if v is MISSING:
        return Err("no_such_attribute", f"no such attribute(s): {keys[0].removeprefix('$')}")
    for key in keys[1:]:
        v = c_select(v, key)
        if type(v) is Err:
            return v
    return v


def c_select(v: Value, key: str) -> Value:
    """What cel-go's string qualifier does: of null, texts and numbers the field is not there, a list takes no text."""
    found: Value = MISSING
    match v:
        case dict():
            found = v.get(key, MISSING)
        case Err():
            return v
        case CelMap():
            found = v.entries.get(key, (None, MISSING))[1]
        case Record():
            found = v.fields.get(key, MISSING)
        case Optional():
            inner = v.value if v.value is MISSING else c_select(v.value, key)
            if inner is MISSING or (type(inner) is Err and inner.code == _ABSENT):
                return NONE
            return inner if type(inner) is Err else Optional(inner)
        case list():
            return Err("overload", "unsupported index type 'string' in list")
    return Err(_ABSENT, f"no such key: {key}") if found is MISSING else found


def c_has(v: Value, key: str) -> Value:
    match v:
        case dict():
            return key in v
        case Err():
            return v
        case CelMap():
            return key in v.entries
        case Record():
            return key in v.fields
        case Optional():
            return v.value is not MISSING and c_has(v.value, key)
        case list():
            return Err("overload", "unsupported index type 'string' in list")
    return False


def c_and(a: Value, b: Value) -> Value:
    """CEL spec § Logical Operators: an error waits for a term that decides; else the first one is the result."""
    if b is False:
        return False
    if a is not True:
        return c_cond(a)
    return True if b is True else c_cond(b)


def c_or(a: Value, b: Value) -> Value:
    if b is True:
        return True
    if a is not False:
        return c_cond(a)
    return False if b is False else c_cond(b)


def c_cond(v: Value) -> Err:
    return v if type(v) is Err else Err("overload", "no such overload")


def c_not(v: Value) -> Value:
    return not v if v is True or v is False else c_cond(v)


def c_whole(v: Value) -> Value:
    """The code that fills the container is as long as it is, so that what this looks through is paid for."""
    for x in v.values() if type(v) is dict else v if type(v) is list else ():
        if type(x) is Err:
            return x
    return v


def c_is_text(v: Value, key: str) -> Value:
    return v if type(v) is Err else type(v) is str and v == key


def c_more(v: Value, i: int) -> bool:
    return type(v) is list and i + 1 < len(v)


def c_charge(n: int, meter: Meter) -> bool:
    meter.cost += n
    return meter.cost > meter.cost_limit


def c_open(meter: Meter) -> int:
    outer = meter.cost
    meter.cost = 0
    return outer


def c_close(v: Value, outer: int, meter: Meter) -> Value:
    cost = meter.cost
    meter.cost = outer
    meter.spent += cost
    if cost > meter.cost_limit:
        return Err("cost", "operation cancelled: actual cost limit exceeded")
    if meter.spent > meter.budget:
        return Err("cost", "running out of cost budget")
    return v


def unknown_key(key: str) -> Err:
    """The error of a query that names a key which is not there, in the reference's words."""
    return Err("not_found", f'Unknown key "{key}" in path')


def j_field(v: Value, key: str) -> Value:
    if type(v) is dict:
        found = v.get(key, MISSING)
        return unknown_key(key) if found is MISSING else found
    return v if type(v) is Err else None


def j_index(v: Value, i: int) -> Value:
    if type(v) is list:
        return v[i] if -len(v) <= i < len(v) else None
    return v if type(v) is Err else None


def j_found(v: Value) -> Value:
    return None if v is MISSING or (type(v) is Err and v.code == "not_found") else v


def j_truthy(v: Value) -> bool:
    return v is not False and v is not None and v is not MISSING and not (type(v) in SIZED and not v)


def j_path(root: dict[str, Value], keys: tuple[str, ...]) -> Value:
    """Takes the root as its operand."""
    v: Value = root
    for k in keys:
        if type(v) is not dict:
            return v if type(v) is Err else None
        v = v.get(k, MISSING)
        if v is MISSING:
            return unknown_key(k)
    return v


def j_root(root: dict[str, Value]) -> Value:
    """Takes the root as its operand."""
    return root


def p_leaf(v: Value, holds: Callable[[Value], bool]) -> bool:
    return holds(v)


def p_scalar(v: Value, holds: Callable[[Value], bool]) -> bool:
    return holds(v)


def new_list() -> list[Value]:
    return []


def new_map() -> dict[str, Value]:
    return {}


def append(items: list[Value], v: Value) -> list[Value]:
    items.append(v)
    return items


def put(m: dict[str, Value], v: Value, key: str) -> dict[str, Value]:
    m[key] = v
    return m


def put_key(m: dict[str, Value], key: str, v: Value) -> dict[str, Value]:
    m[key] = v
    return m


def o_pass() -> Outcome:
    return PASSED


def o_none() -> Outcome:
    return NOTHING


def o_fail(message: str) -> Outcome:
    return Outcome(_FAIL, message)


def o_skip(message: str) -> Outcome:
    return Outcome(_SKIP, message)


def o_error(message: str) -> Outcome:
    return Outcome(_ERROR, message)


def o_patch(resource: Value, message: str) -> Outcome:
    return Outcome(_PASS, message, resource)


def o_pass_text(message: str) -> Outcome:
    return Outcome(_PASS, message)


def o_status(outcome: Outcome) -> int:
    return outcome.status.value


def o_prefixed(text: str, outcome: Outcome) -> Outcome:
    return Outcome(outcome.status, text + (outcome.message or ""), outcome.patched)


STRUCTURAL: Final = frozenset({"nop", "const", "pop", "local", "local_get", "invoke", "cell"})
"""Instructions besides control that have no function here: they move values, or need the frame."""

_NAMES: Final = {"not": "not_"}
SEMANTICS: Final[dict[str, Callable[..., Any]]] = {
    op.name: globals()[_NAMES.get(op.name, op.name)]
    for op in OPS
    if op.effect in (Effect.PURE, Effect.MUTATES, Effect.METERS) and op.name not in STRUCTURAL
}
"""The function of every computing instruction, by name."""
