"""Options and fixtures that every test may use."""

from __future__ import annotations

import os

import pytest

from grammar.private import SWITCH
from tests.support.golden import Golden, make_golden

# No answer may come from what an earlier run has compiled; tests of what is kept say so themselves.
os.environ[SWITCH] = "1"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the answers of this run into tests/golden")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares an answer with the ``[out]`` of a golden case, or writes it under ``--update-golden``."""
    return make_golden(bool(request.config.getoption("--update-golden")))
