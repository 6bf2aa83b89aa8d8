"""Error values of the JMESPath functions, with the words a policy author reads."""

from __future__ import annotations

from vm.values import MISSING, Err, Value


def kind_name(v: Value) -> str:
    """The JMESPath name of a value's type."""
    t = type(v)
    if v is None or v is MISSING:
        return "null"
    if t is bool:
        return "boolean"
    if t is str:
        return "string"
    if t is list:
        return "array"
    if t is dict:
        return "object"
    return "number"


def wrong_type(function: str, position: int, got: Value, want: str) -> Err:
    """The error of an argument (counted from 1) that is not what the function takes; an argument that is an error
    itself is passed on."""
    if type(got) is Err:
        return got
    return Err("type", f"function {function}: argument {position} must be {want}, got {kind_name(got)}")


def wrong_value(function: str, what: str) -> Err:
    """The error of an argument of the right type that the function cannot use."""
    return Err("value", f"function {function}: {what}")


def not_texts(function: str, *args: Value) -> Err:
    """The error of the first argument that is no text, where all must be."""
    for i, a in enumerate(args, 1):
        if type(a) is Err:
            return a
        if type(a) is not str:
            return wrong_type(function, i, a, "a string")
    raise AssertionError("every argument is a text")


def is_number(v: Value) -> bool:
    return type(v) is int or type(v) is float
