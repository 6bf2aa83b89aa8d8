"""CEL expressions on ``cel-expr-python``, a C++ CEL: an outside judge for fuzzing, a dependency of tests alone.

It runs in a process of its own (``cel_judge_worker``), since some expressions crash it: a crash is an answer here.
It tells less than the product: optionals not at all, keys of maps without their types, times in microseconds.
"""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.reference.cel_values import V
from vm.cel.values import Duration, Timestamp, UInt

GROUPS: Final = ("standard", "bindings", "math", "strings")
"""Parts of the language that the judge knows as the product does."""
_ROOT: Final = Path(__file__).parents[2]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WORD: Final = re.compile(r"[A-Za-z_]\w*")


class Missing(Exception):
    """The judge is not installed, or cannot be loaded on this platform."""


@dataclass(frozen=True, slots=True)
class Told:
    """A value."""

    value: V


@dataclass(frozen=True, slots=True)
class Raised:
    """An error of the evaluation, with the judge's text."""

    text: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The judge does not take the expression, or its value has no form to compare."""

    text: str


@dataclass(frozen=True, slots=True)
class Crashed:
    """The judge's process ended after a number of answers; ``status`` is its exit code, minus the signal where one
    ended it."""

    status: int
    answers: int


Answer = Told | Raised | Refused | Crashed


class Judge:
    """A judge to ask, as a context. Raises :class:`Missing` where there is none."""

    def __init__(self) -> None:
        self._process = self._started()
        self._answers = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended()

    def answer(self, text: str, values: Mapping[str, Any]) -> Answer:
        """What the judge says of an expression with these values of the product for its variables."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        request = pickle.dumps(_request(text, values))
        try:
            process.stdin.write(request)
            process.stdin.flush()
            kind, told = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            status = self._ended()
            answers, self._answers = self._answers, 0
            self._process = self._started()
            return Crashed(status, answers)
        self._answers += 1
        match kind:
            case "value":
                return Told(told)
            case "error":
                return Raised(told)
        return Refused(told)

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.support.cel_judge_worker"]
        # The library logs to stderr what an answer says anyway.
        process = subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        try:
            kind, text = pickle.load(process.stdout)
        except EOFError:
            kind, text = "missing", f"its process ends with {process.wait()} when it is loaded"
        if kind != "ready":
            process.communicate()
            raise Missing(f"no outside judge of CEL, cel-expr-python has no wheel for this platform or fails: {text}")
        return process

    def _ended(self) -> int:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.close()
        return process.wait()


def _request(text: str, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The expression and its variables as the judge takes them: a value that Python cannot hand over is written into
    the expression."""
    given: dict[str, Any] = {}
    for name in sorted(values.keys() & set(_WORD.findall(text))):
        value = values[name]
        match value:
            case Timestamp() if value.nanos % 1000 or not 0 <= value.nanos < 253_402_300_799 * 10**9:
                text = f"cel.bind({name}, timestamp('{_date(value.nanos)}'), {text})"
            case Timestamp():
                given[name] = _EPOCH + timedelta(microseconds=value.nanos // 1000)
            case Duration() if value.nanos % 1000 or abs(value.nanos) > 86_400 * 365 * 10**9:
                text = f"cel.bind({name}, duration('{value.nanos}ns'), {text})"
            case Duration():
                given[name] = timedelta(microseconds=value.nanos // 1000)
            case UInt() if name != "u":
                text = f"cel.bind({name}, dyn({int(value)}u), {text})"
            case UInt():
                given[name] = int(value)
            case _:
                given[name] = value
    return text, given


def _date(nanos: int) -> str:
    """RFC 3339 with nine digits."""
    seconds, rest = divmod(nanos, 10**9)
    return f"{(_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()}.{rest:09}Z"
