"""Both forms of the log, and what cannot forge a line."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from runtime.observe.logs import TIME_FORMATS, JsonFormatter, TextFormatter, fields, set_up_logs


def record(message: str = "told", **values: object) -> logging.LogRecord:
    made = logging.LogRecord("thesmos.decisions", logging.INFO, "x.py", 1, message, None, None)
    made.created = 1764700000.25
    made.__dict__.update(fields(**values))
    return made


def test_text_has_the_fields_in_quotes() -> None:
    line = TextFormatter().format(record(policy="labels", rules=["a", "b"], empty="", verdict="fail"))
    assert line == ('2025-12-02T18:26:40Z INFO    thesmos.decisions: told policy="labels" rules="a,b" verdict="fail"')


def test_json_has_stable_keys() -> None:
    entry = json.loads(JsonFormatter().format(record(policy="labels", rules=["a"])))
    assert entry == {
        "level": "info",
        "ts": "2025-12-02T18:26:40Z",
        "logger": "thesmos.decisions",
        "msg": "told",
        "policy": "labels",
        "rules": ["a"],
    }


@pytest.mark.parametrize("value", ['x"\n2025-01-01 INFO forged', "\ud800", 1 << 80])
def test_values_stay_on_one_line(value: object) -> None:
    assert "\n" not in TextFormatter().format(record(name_=value))
    assert "\n" not in JsonFormatter().format(record(name_=value))
    assert json.loads(JsonFormatter().format(record(name_=value)))["msg"] == "told"


def test_errors_carry_their_traceback() -> None:
    made = record()
    try:
        raise ValueError("broken")
    except ValueError:
        made.exc_info = sys.exc_info()
    assert "ValueError: broken" in json.loads(JsonFormatter().format(made))["error"]
    assert TextFormatter().format(made).endswith("ValueError: broken")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rfc3339nano", "2025-12-02T18:26:40.250000Z"),
        ("iso8601", "2025-12-02T18:26:40.250Z"),
        ("epoch", "1764700000.250000"),
        ("millis", "1764700000250.000"),
        ("nano", "1764700000250000000"),
    ],
)
def test_times(name: str, text: str) -> None:
    assert TIME_FORMATS[name](1764700000.25) == text


@pytest.mark.parametrize(
    ("verbosity", "decisions", "others"),
    [(1, logging.WARNING, logging.INFO), (2, logging.INFO, logging.INFO), (4, logging.DEBUG, logging.DEBUG)],
)
def test_verbosity(verbosity: int, decisions: int, others: int) -> None:
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    try:
        set_up_logs("text", verbosity)
        assert logging.getLogger("thesmos.decisions").getEffectiveLevel() == decisions
        assert logging.getLogger("thesmos.policies").getEffectiveLevel() == others
        assert logging.getLogger("aiohttp").getEffectiveLevel() == logging.WARNING
    finally:
        logging.captureWarnings(False)
        logging.logThreads = logging.logProcesses = logging.logMultiprocessing = True
        root.handlers[:], root.level = before
        for name in ("thesmos", "thesmos.decisions"):
            logging.getLogger(name).setLevel(logging.NOTSET)
