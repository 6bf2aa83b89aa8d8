"""Sets up logging once, as text for people or as one JSON object a line (``--loggingFormat=json``).

Whoever logs more than a sentence adds :func:`fields`: both formats show them under stable keys, so that ``grep`` and
log collectors find a policy, a verdict or an object by name.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson

DEBUG_FROM: Final = 4
"""``--v=4`` and more is debug, as users of Kyverno expect: requests that are let through are logged from here on."""
DECISIONS_FROM: Final = 2
"""``--v=2``, the default, and more tells of refusals and violations."""

TIME_FORMATS: Final[Mapping[str, Callable[[float], str]]] = {
    "default": lambda at: _utc(at).strftime("%Y-%m-%dT%H:%M:%SZ"),
    "rfc3339": lambda at: _utc(at).strftime("%Y-%m-%dT%H:%M:%SZ"),
    "rfc3339nano": lambda at: _utc(at).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    "iso8601": lambda at: _utc(at).strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(at * 1e3) % 1000:03d}Z",
    "epoch": lambda at: f"{at:.6f}",
    "millis": lambda at: f"{at * 1e3:.3f}",
    # A float does not hold nanoseconds of today.
    "nano": lambda at: f"{at:.6f}".replace(".", "") + "000",
}
"""``--loggingtsFormat``: how the time of a line is written."""


def fields(**values: object) -> dict[str, Any]:
    """The ``extra`` of a log call: named values, those that are empty left out."""
    return {"fields": {name: value for name, value in values.items() if value not in ("", None, ())}}


class JsonFormatter(logging.Formatter):
    """One line of JSON a record: ``level``, ``ts``, ``logger``, ``msg``, the fields, and ``error`` with a traceback."""

    def __init__(self, time_format: str = "default") -> None:
        super().__init__()
        self._time = TIME_FORMATS[time_format]

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "level": record.levelname.lower(),
            "ts": self._time(record.created),
            "logger": record.name,
            "msg": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        try:
            return orjson.dumps(entry, default=str).decode()
        except orjson.JSONEncodeError:
            # A lone surrogate or a whole number of more than 64 bits, out of an object.
            return json.dumps(entry, default=str)


class TextFormatter(logging.Formatter):
    """One line a record, the fields behind the message as ``key="value"``."""

    def __init__(self, time_format: str = "default") -> None:
        super().__init__()
        self._time = TIME_FORMATS[time_format]

    def format(self, record: logging.LogRecord) -> str:
        line = f"{self._time(record.created)} {record.levelname:<7} {record.name}: {record.getMessage()}"
        for name, value in getattr(record, "fields", {}).items():
            line += f" {name}={_quoted(value)}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _quoted(value: object) -> str:
    """In quotes and on one line: names and messages come from requests, and none may forge a line of its own."""
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return orjson.dumps(text.encode(errors="replace").decode()).decode()


def set_up_logs(log_format: str, verbosity: int, time_format: str = "default") -> None:
    """Replaces the handlers of the root logger. Foreign libraries stay at warnings unless asked for more."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(time_format) if log_format == "json" else TextFormatter(time_format))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    # Nothing of this is shown, and asking for it costs a part of the time of a line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    # Else Python writes them past the handler, and a collector of JSON lines stumbles.
    logging.captureWarnings(True)
    logging.getLogger("thesmos").setLevel(logging.DEBUG if verbosity >= DEBUG_FROM else logging.INFO)
    # Everything else is told as before.
    quiet = logging.WARNING if verbosity < DECISIONS_FROM else logging.NOTSET
    logging.getLogger("thesmos.decisions").setLevel(quiet)


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
