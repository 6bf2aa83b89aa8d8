"""The value model shared by the VM, the generated code and the compiler's constant folding.

Values are JSON values as orjson decodes them (``None``, ``bool``, ``int``, ``float``, ``str``, ``list``, ``dict``),
plus two that never leave the engine: ``MISSING`` (a key that is not there) and ``Err`` (a failed computation carried
as a value). They never meet Python's ``==`` outside this module: ``True == 1 == 1.0`` there, and a policy must tell
them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeGuard

Value: TypeAlias = Any
"""A JSON value, ``MISSING`` or an ``Err``. An alias: mypy cannot follow recursive JSON through generated code."""


class Missing:
    """The type of ``MISSING``: a key that is not there, which is not the same as ``null``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


@dataclass(frozen=True, slots=True)
class Err:
    """A failed computation as a value.

    ``code`` is a stable word of :data:`ERR_CODES`; ``text`` is what a person reads (the reference's words where users
    see them); ``path`` is the place in the resource for pattern errors (``/spec/containers/0/image/``), else empty.
    """

    code: str
    text: str
    path: str = ""


ERR_CODES: Final = {
    "not_found": "a key that a query names is not there",
    "type": "a function or operator got a value of the wrong type",
    "value": "a function got a value it cannot use",
    "arity": "a function got a wrong number of arguments",
    "unknown_function": "a query calls a function that is not there",
    "syntax": "a text formed at run time is no query, pattern or document",
    "substitution": "a variable or reference could not be resolved",
    "context": "a context entry could not be loaded",
    "later": "the host has not answered a call yet: what an evaluation comes to is of no use",
    "unsupplied": "offline, nobody supplied what a context entry asks for",
    "pending": "a text formed at run time names a context entry that has not been loaded yet",
    "condition": "a condition could not be evaluated",
    "mismatch": "a pattern does not match at a path",
    "conditional": "a conditional anchor does not hold: the element or rule is skipped",
    "global": "a global anchor does not hold: the rule is skipped",
    "negation": "a negated key is there",
    "pattern": "a pattern that cannot be applied",
    "loop": "a list or an element of a loop could not be worked on",
    "patch": "a patch that cannot be applied",
    "fuel": "the evaluation used up its fuel",
    "deadline": "the evaluation ran past its deadline",
    "host": "the host could not answer a call",
    "overload": "a CEL function or operator has no overload for these values",
    "no_such_key": "a CEL expression names a key or field that is not there",
    "index": "a CEL index lies outside a list",
    "range": "a CEL result lies outside its type",
    "divide": "a CEL division by zero",
    "duplicate_key": "a CEL map literal gives one key twice",
    "conversion": "a CEL conversion of a value that does not allow it",
    "argument": "a CEL function got a value it cannot use",
    "cost": "a CEL expression cost more than its limit",
    "no_such_attribute": "a CEL variable has no value",
}


def is_map(v: Value) -> TypeGuard[dict[str, Any]]:
    return type(v) is dict


def is_list(v: Value) -> TypeGuard[list[Any]]:
    return type(v) is list


def json_equal(a: Value, b: Value) -> bool:
    """Deep equality of JSON values: numbers compare by value across int and float, never with booleans."""
    if a is b:
        return True
    ta, tb = type(a), type(b)
    if ta is dict:
        if tb is not dict or len(a) != len(b):
            return False
        return all(k in b and json_equal(v, b[k]) for k, v in a.items())
    if ta is list:
        return tb is list and len(a) == len(b) and all(map(json_equal, a, b))
    if ta is bool or tb is bool:
        return False
    if ta in (int, float) and tb in (int, float):
        return bool(a == b)
    return ta is tb and bool(a == b)


def canonical_key(v: Value) -> Any:
    """A hashable key under which only equal constants of one kind meet (``1``, ``1.0`` and ``True`` stay apart)."""
    t = type(v)
    if t is dict:
        return ("m", tuple((k, canonical_key(v[k])) for k in sorted(v)))
    if t is list:
        return ("l", tuple(canonical_key(x) for x in v))
    if t is float:
        return ("f", v.hex())
    if v is MISSING:
        return ("missing",)
    if t is Err:
        return ("e", v.code, v.text, v.path)
    fields = getattr(v, "__dataclass_fields__", None)
    if fields is not None:
        return (t.__name__, *(_field_key(getattr(v, name)) for name in fields))
    return (t.__name__, v)


def _field_key(v: Value) -> Any:
    """The key of a field of a CEL value: the entries of its maps have keys and values of every kind."""
    t = type(v)
    if t is dict:
        return ("m", frozenset((k, _field_key(x)) for k, x in v.items()))
    return tuple(map(_field_key, v)) if t is tuple else canonical_key(v)


def size(v: Value) -> int:
    """Length of a text, list or map, 1 for anything else: the measure by which bulk work is charged."""
    return len(v) if type(v) in (str, list, dict) else 1
