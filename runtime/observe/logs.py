"""Sets up logging once, as text for people or as one JSON object a line (``--loggingFormat=json``)."""

from __future__ import annotations

import logging
import sys
from typing import Final

import orjson

DEBUG_FROM: Final = 4
"""``--v=4`` and more is debug, as users of Kyverno expect."""


class JsonFormatter(logging.Formatter):
    """One line of JSON a record, with the keys that log collectors look for."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "level": record.levelname.lower(),
            "ts": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return orjson.dumps(entry).decode()


def set_up_logs(log_format: str, verbosity: int) -> None:
    """Replaces the handlers of the root logger. Foreign libraries stay at warnings unless asked for more."""
    handler = logging.StreamHandler(sys.stderr)
    if log_format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("thesmos").setLevel(logging.DEBUG if verbosity >= DEBUG_FROM else logging.INFO)
