"""The flags of the log, of events and of collectors, under Kyverno's names and ours."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from runtime.config import Settings
from runtime.observe import flags
from runtime.webhook import serve
from runtime.webhook.serve import ServeProblem, settings_of


def settings(*given: str) -> Settings:
    parser = argparse.ArgumentParser(prog="thesmos serve")
    serve.add_arguments(parser)
    return settings_of(parser.parse_args(["--policies", ".", *given]))


def test_what_is_usual() -> None:
    found = settings()
    assert found == Settings(policies=(Path("."),), identity=found.identity, otel_collector=found.otel_collector)


def test_names_of_the_reference() -> None:
    found = settings(
        "--loggingFormat=json", "--v=4", "--loggingtsFormat=iso8601", "--dumpPayload", "--dumpPatches=true",
        "--disableLogColor", "--omitEvents=PolicyApplied,PolicySkipped", "--maxQueuedEvents=10",
        "--eventsRateLimitQPS=0.5", "--eventsRateLimitBurst=3", "--enableTracing", "--tracingAddress=collector",
        "--tracingPort=4000", "--otelConfig=grpc", "--otelCollector=other", "--metricsPort=8001",
    )  # fmt: skip
    assert (found.log_format, found.verbosity, found.log_times) == ("json", 4, "iso8601")
    assert (found.dump_payload, found.dump_patches) == (True, True)
    assert found.omit_events == frozenset({"PolicyApplied", "PolicySkipped"})
    assert (found.max_queued_events, found.events_per_second, found.events_burst) == (10, 0.5, 3)
    assert (found.tracing, found.tracing_address, found.tracing_port) == (True, "collector", 4000)
    assert (found.otel_config, found.otel_collector, found.metrics_port) == ("grpc", "other", 8001)


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        (
            "--omitEvents=PolicyAplied",
            "PolicyAplied is no reason of an event, there are PolicyViolation, ",
        ),
        ("--eventsRateLimitQPS=0", "'0' is no number above 0"),
        ("--eventsRateLimitQPS=fast", "'fast' is no number above 0"),
        ("--eventsRateLimitBurst=-1", "'-1' is no whole number above 0"),
        ("--loggingtsFormat=unix", "invalid choice: 'unix'"),
    ],
)
def test_wrong_values_are_told(flag: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        settings(flag)
    assert said in capsys.readouterr().err


def test_the_ca_of_a_collector_is_a_file(tmp_path: Path) -> None:
    with pytest.raises(ServeProblem, match=r"ca\.pem: no such file"):
        settings("--enableTracing", f"--tracingCreds={tmp_path / 'ca.pem'}")
    (tmp_path / "ca.pem").write_text("")
    assert flags.collector_problem(settings("--enableTracing", f"--tracingCreds={tmp_path / 'ca.pem'}")) == ""
