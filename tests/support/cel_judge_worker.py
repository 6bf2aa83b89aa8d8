"""The process in which ``cel-expr-python`` runs, apart from the tests since some expressions crash it.

``tests.support.cel_judge`` starts it. A request is a pickled ``(expression, values of its variables)``, and each gets
one pickled answer: ``("value", V)``, ``("error", text)`` or ``("refused", text)``. The first answer, before any
request, is ``("ready", "")``, or ``("missing", text)`` where the library cannot be loaded.
"""

from __future__ import annotations

import pickle
import re
import signal
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from fuzz.gen.cel_templates import VARIABLES

try:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings
except ImportError as problem:
    MISSING: str = str(problem)
else:
    MISSING = ""

SECONDS: Final = 20
"""How long an answer may take: after that the alarm ends the process, which counts as a crash."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS: Final = {
    "BOOL": "bool",
    "INT": "int",
    "UINT": "uint",
    "DOUBLE": "double",
    "STRING": "string",
    "BYTES": "bytes",
}
_TYPES: Final = {
    **_KINDS,
    "NULL": "null_type",
    "TIMESTAMP": "google.protobuf.Timestamp",
    "DURATION": "google.protobuf.Duration",
    "TYPE": "type",
    "LIST": "list",
    "MAP": "map",
}


class Untold(Exception):
    """A value that the library does not tell, or one without a form to compare."""


def environment() -> Any:
    extensions = [
        ext_math.ExtMath(),
        ext_strings.ExtStrings(),
        ext_optional.ExtOptional(),
        ext_encoders.ExtEncoders(),
        ext_bindings.ExtBindings(),
    ]
    text, place = cel.Type.STRING, cel.Type.INT
    spelling = cel.Overload("respelled", text, [text], is_member=True, impl=respelled)
    seeking = cel.Overload("sought", place, [text, text, place], is_member=True, impl=sought)
    return cel.NewEnv(
        variables={name: _type(kind) for name, kind in VARIABLES.items()},
        extensions=extensions,
        functions=[cel.FunctionDecl("respelled", [spelling]), cel.FunctionDecl("sought", [seeking])],
    )


def sought(text: str, part: str, start: int) -> int:
    """``indexOf`` of cel-go."""
    if part and start < 0:
        raise ValueError(f"index out of range: {start}")
    return text.find(part, start) if part else start


def respelled(text: str) -> str:
    """A text of a number or time, or one with them in it, as cel-go spells it: NaN and infinities with capitals, no
    zeros at the end of a second, a duration as seconds that are a double."""
    if text in ("inf", "-inf"):
        return "+Inf" if text == "inf" else "-Inf"
    text = re.sub(r"-?\bnan\b", "NaN", text)
    text = re.sub(r"\binf\b", "Infinity", text)
    text = re.sub(r"(?<![\w.-])\d{1,3}(?=-\d\d-\d\dT)", lambda m: m[0].zfill(4), text)
    text = re.sub(r"(:\d\d)\.(\d*?)0*(z)\b", lambda m: f"{m[1]}.{m[2]}{m[3]}".replace(".z", "z"), text, flags=re.I)
    return re.sub(r"(?<![\w.])(-?\d+\.\d+)s\b", lambda m: f"{Decimal(repr(float(m[1]))):f}s".replace(".0s", "s"), text)


def _type(text: str) -> Any:
    """A type as CEL writes it."""
    head, _, rest = text.removesuffix(")").partition("(")
    parts = [_type(part) for part in rest.split(", ")] if rest else []
    match head:
        case "list":
            return cel.Type.List(*parts)
        case "map":
            return cel.Type.Map(*parts)
    return getattr(cel.Type, head.removeprefix("google.protobuf.").upper())


def answer(env: Any, text: str, values: Mapping[str, Any]) -> tuple[str, Any]:
    try:
        program = _compiled(env, text)
    except (RuntimeError, ValueError) as problem:
        return "refused", str(problem)
    try:
        value = program.eval(data=values)
        if value.type().name() == "ERROR":
            return "error", str(value.value())
        return "value", told(value)
    except (RuntimeError, TypeError, ValueError, OverflowError, Untold) as problem:
        return "refused", str(problem)


@lru_cache(maxsize=16)
def _compiled(env: Any, text: str) -> Any:
    return env.compile(text)


def told(value: Any) -> tuple[str, Any]:
    """A value as the reference evaluator writes it; keys of maps are told without their types, times in microseconds.

    Raises :class:`Untold`.
    """
    kind = value.type().name().partition("<")[0]
    if kind == "NULL":
        # Each null that value() hands out takes a reference to None away: after some 60,000 Python aborts.
        return ("null", None)
    inner = value.value()
    match kind:
        case "LIST":
            return ("list", [told(x) for x in inner])
        case "MAP":
            return ("map", [(_key(k), told(v)) for k, v in inner.items()])
        case "TIMESTAMP":
            return ("timestamp", (inner.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1) * 1000)
        case "DURATION":
            return ("duration", inner // timedelta(microseconds=1) * 1000)
        case "TYPE" if inner.name().partition("<")[0] in _TYPES:
            return ("type", _TYPES[inner.name().partition("<")[0]])
        case "BYTES":
            return ("bytes", bytes(inner))
        case _ if kind in _KINDS:
            return (_KINDS[kind], inner)
    raise Untold(f"a value of type {kind}")


def _key(key: Any) -> tuple[str, Any]:
    match key:
        case bool():
            return ("bool", key)
        case int():
            return ("int", key)
        case str():
            return ("string", key)
    raise Untold("a key of another type")


def main() -> None:
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    pickle.dump(("missing", MISSING) if MISSING else ("ready", ""), answers)
    answers.flush()
    if MISSING:
        return
    env = environment()
    while True:
        try:
            text, values = pickle.load(requests)
        except EOFError:
            return
        signal.alarm(SECONDS)
        pickle.dump(answer(env, text, values), answers)
        answers.flush()
        signal.alarm(0)


if __name__ == "__main__":
    main()
