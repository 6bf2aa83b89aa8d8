"""Work that can wait: done in order on its own thread, whatever one job does."""

from __future__ import annotations

import logging
import threading

import pytest

from runtime.background import later
from runtime.engine import Engine
from runtime.policyset import PolicySet
from tests.unit.engine.support import create, pod, policy, policy_set


def test_jobs_run_in_order_and_a_failing_one_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []
    end = threading.Event()

    def fails() -> None:
        raise RuntimeError("no")

    with caplog.at_level(logging.ERROR):
        later(lambda: done.append(threading.current_thread().name))
        later(fails)
        later(lambda: done.append("after"))
        later(end.set)
        assert end.wait(10)
    assert done == ["thesmos-background", "after"]
    assert "work in the background failed" in caplog.text


def test_a_set_that_answers_at_once_answers_the_same_all_along() -> None:
    from compiler import compile_policies, load_documents
    from compiler.diagnostics import Reporter

    bundle = compile_policies(load_documents(policy(), "policy.yaml", Reporter())).bundle
    assert bundle is not None
    eager, patient = Engine(policy_set(policy())), Engine(PolicySet.load(bundle, at_once=True))
    for _ in range(3):
        for labels in ({}, {"app": "web"}):
            request = create(pod(**labels))
            answers = [e.evaluate(request, "validate", full=True).results for e in (eager, patient)]
            assert [(r.status, r.message) for r in answers[0]] == [(r.status, r.message) for r in answers[1]]
        ready = threading.Event()
        later(ready.set)
        assert ready.wait(10)
