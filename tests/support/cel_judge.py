"""CEL expressions on ``cel-expr-python``, a C++ CEL: an outside judge for fuzzing, a dependency of tests alone.

It tells less than the product: unsigned integers only at the top of a value, optionals not at all, errors by a text.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings

from fuzz.gen.cel import VARIABLES
from tests.reference.cel_values import CelError, V
from vm.cel.values import Duration, Timestamp, UInt

GROUPS: Final = ("standard", "bindings", "math", "strings")
"""Parts of the language that the judge knows as the product does."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TYPES: Final = {
    "bool": cel.Type.BOOL,
    "int": cel.Type.INT,
    "uint": cel.Type.UINT,
    "double": cel.Type.DOUBLE,
    "string": cel.Type.STRING,
    "bytes": cel.Type.BYTES,
    "dyn": cel.Type.DYN,
    "list(int)": cel.Type.List(cel.Type.INT),
    "list(string)": cel.Type.List(cel.Type.STRING),
    "map(string, int)": cel.Type.Map(cel.Type.STRING, cel.Type.INT),
    "map(string, string)": cel.Type.Map(cel.Type.STRING, cel.Type.STRING),
    "google.protobuf.Timestamp": cel.Type.TIMESTAMP,
    "google.protobuf.Duration": cel.Type.DURATION,
}


class NotAsked(Exception):
    """The judge does not take the expression, or its answer has no form to compare."""


@cache
def _environment() -> Any:
    extensions = [
        ext_math.ExtMath(),
        ext_strings.ExtStrings(),
        ext_optional.ExtOptional(),
        ext_encoders.ExtEncoders(),
        ext_bindings.ExtBindings(),
    ]
    return cel.NewEnv(variables={name: _TYPES[kind] for name, kind in VARIABLES.items()}, extensions=extensions)


def compiled(text: str) -> Any:
    """The judge's program. Raises :class:`NotAsked`."""
    try:
        return _environment().compile(text)
    except (RuntimeError, ValueError) as problem:
        raise NotAsked(str(problem)) from None


def judged(program: Any, bindings: dict[str, Any]) -> V:
    """The judge's value. Raises :class:`CelError` without a kind for an error, :class:`NotAsked`."""
    try:
        value = program.eval(data={name: _given(v, VARIABLES[name]) for name, v in bindings.items()})
        kind = value.type().name()
        if kind == "ERROR":
            raise CelError("")
        return _told(value.plain_value(), kind)
    except (RuntimeError, TypeError, ValueError, OverflowError) as problem:
        raise NotAsked(str(problem)) from None


def _given(value: Any, kind: str) -> Any:
    if isinstance(value, Timestamp):
        if value.nanos % 1000 or not 0 <= value.nanos < 253_402_300_799 * 10**9:
            raise NotAsked("a time that a Python datetime cannot hold")
        return _EPOCH + timedelta(microseconds=value.nanos // 1000)
    if isinstance(value, Duration):
        if value.nanos % 1000 or abs(value.nanos) > 86_400_000_000_000 * 365:
            raise NotAsked("a duration that a Python timedelta cannot hold")
        return timedelta(microseconds=value.nanos // 1000)
    if isinstance(value, UInt):
        if kind != "uint":
            raise NotAsked("an unsigned integer without a declared type")
        return int(value)
    return value


def _told(value: Any, kind: str = "") -> V:
    match value:
        case None:
            return ("null", None)
        case bool():
            return ("bool", value)
        case int():
            return ("uint" if kind == "UINT" else "int", value)
        case float():
            return ("double", value)
        case str():
            return ("string", value)
        case bytes() | bytearray():
            return ("bytes", bytes(value))
        case list():
            return ("list", [_told(x) for x in value])
        case dict():
            return ("map", [(_told(k), _told(v)) for k, v in value.items()])
        case datetime():
            return ("timestamp", (value.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1) * 1000)
        case timedelta():
            return ("duration", value // timedelta(microseconds=1) * 1000)
    raise NotAsked(f"a value of type {kind}")
