"""The alerts fire on what the process really tells, evaluated by Prometheus' own engine; the board asks for it too.

The judge is a small Go program over the packages of Prometheus, built like the other tools of the tests.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from runtime.observe.metric_rows import METRICS
from runtime.observe.metrics import Metrics
from tests.integration.server import Client, review, webhook

MONITORING: Final = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"
RULES: Final = yaml.safe_load((MONITORING / "rules.yaml").read_text())["spec"]
BOARD: Final = json.loads((MONITORING / "board.json").read_text())
MINUTE: Final = 60

POLICY: Final = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: require-team}
spec:
  rules:
    - name: team-label
      match: {any: [{resources: {kinds: [Pod]}}]}
      validate:
        failureAction: Enforce
        pattern: {metadata: {labels: {team: "?*"}}}
"""
POD: Final = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": {}}


def firing(judge: str, scrapes: list[str]) -> dict[str, list[dict[str, str]]]:
    """The alerts that fire after scrapes one minute apart."""
    asked = {
        "rules": yaml.safe_dump(RULES),
        "scrapes": [{"at": n * MINUTE, "text": text} for n, text in enumerate(scrapes)],
    }
    done = subprocess.run([judge], input=json.dumps(asked), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[dict[str, str]]] = json.loads(done.stdout)
    return {name: alerts for name, alerts in found.items() if alerts}


def ask(client: Client, seconds: float) -> None:
    """One review whose body takes so long to come in: to the webhook a slow request."""
    body = json.dumps(review(POD)).encode()
    connection: http.client.HTTPConnection = client._connection

    def parts() -> Iterator[bytes]:
        yield body[:10]
        time.sleep(seconds)
        yield body[10:]

    headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    connection.request("POST", "/validate/fail", parts(), headers)
    assert connection.getresponse().read()


@pytest.mark.parametrize(("seconds", "fires"), [(1.2, True), (0.0, False)])
def test_the_alert_on_latency_fires_on_slow_requests_and_on_no_others(
    alert_judge: str, seconds: float, fires: bool
) -> None:
    with webhook(POLICY) as client:
        # The first value of a counter is no increase to Prometheus: nothing was there to compare it with.
        ask(client, 0)
        scrapes = [client.get("/metrics").text]
        for minute in range(1, 8):
            if minute in (1, 4):
                ask(client, seconds)
            scrapes.append(client.get("/metrics").text)
    latency = firing(alert_judge, scrapes).get("KyvernoWebhookLatencyHigh", [])
    assert len(latency) == fires, latency


def told(*changes: Any) -> list[str]:
    """What ``/metrics`` says at first, and again after each change."""
    metrics = Metrics()
    metrics.set("kyverno_info", 1, "0")
    texts = [metrics.exposition().decode()]
    for change in changes:
        change(metrics)
        texts.append(metrics.exposition().decode())
    return texts


def nothing(metrics: Metrics) -> None:
    pass


def rule_error(metrics: Metrics) -> None:
    labels = ("enforce", "cluster", "true", "-", "p", "Pod", "default", "create", "r", "error", "validate")
    metrics.count("kyverno_policy_results_total", *labels, "admission_request")


def not_ready(metrics: Metrics) -> None:
    metrics.set("kyverno_policy_rule_info_total", 1, "enforce", "cluster", "true", "-", "p", "r", "validate", "false")


def requeued(metrics: Metrics) -> None:
    metrics.count("kyverno_controller_requeue_total", "webhook", "1", by=3)


def waiting(metrics: Metrics) -> None:
    metrics.set("kyverno_updaterequest_total", 800, "kyverno")


def refused(metrics: Metrics) -> None:
    metrics.count("thesmos_bundle_loads_total", "file:/p.thb", "refused")


def loaded(metrics: Metrics) -> None:
    metrics.count("thesmos_bundle_loads_total", "file:/p.thb", "loaded")


@pytest.mark.parametrize(
    ("alert", "change", "minutes"),
    [
        ("KyvernoPolicyErrors", rule_error, 10),
        ("KyvernoPolicyNotReady", not_ready, 10),
        ("KyvernoControllerFailing", requeued, 20),
        ("KyvernoUpdateRequestsPileUp", waiting, 20),
        ("KyvernoBundleRefused", refused, 3),
    ],
)
def test_each_alert_fires_when_its_trouble_lasts(alert_judge: str, alert: str, change: Any, minutes: int) -> None:
    assert firing(alert_judge, told(*[change] * minutes)).keys() == {alert}


def test_a_process_without_trouble_sets_off_nothing(alert_judge: str) -> None:
    assert firing(alert_judge, told(*[loaded] * 20)) == {}


def test_the_alert_on_no_replica_fires_when_none_can_be_scraped(alert_judge: str) -> None:
    assert firing(alert_judge, [*told(nothing), "", "", "", "", "", "", "", "", ""]).keys() == {"KyvernoDown"}


NAMES: Final = {
    name: metric
    for metric in METRICS
    for name in ((f"{metric.name}_bucket",) if metric.kind == "histogram" else (metric.name,))
}


def expressions() -> list[tuple[str, str]]:
    rules = [(rule["alert"], rule["expr"]) for group in RULES["groups"] for rule in group["rules"]]
    return rules + [(panel["title"], target["expr"]) for panel in BOARD["panels"] for target in panel["targets"]]


@pytest.mark.parametrize(("where", "expression"), expressions(), ids=lambda value: value[:40])
def test_rules_and_board_ask_for_metrics_and_labels_that_there_are(where: str, expression: str) -> None:
    asked = re.findall(r"\b(?:kyverno|thesmos)_\w+", expression)
    assert asked, where
    labels: set[str] = set()
    for name in asked:
        assert name in NAMES, f"{where}: {name}"
        labels |= set(NAMES[name].labels) | {"le"}
    named = re.findall(r"by \(([^)]*)\)", expression) + re.findall(r"(\w+)=", expression)
    for label in (part.strip() for group in named for part in group.split(",")):
        assert label in labels, f"{where}: {label}"
