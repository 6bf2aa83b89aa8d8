"""Two replicas on one address: one is killed, one ended, certificates and policies change, and nobody is let down."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.replicas import Fault, Load, Replicas, endure
from tests.cluster.thesmos import Thesmos

FAULTS: list[tuple[float, Fault]] = [
    (2.0, "edit"),
    (4.0, "kill"),
    (11.0, "edit"),
    (13.0, "term"),
    (20.0, "renew"),
    (22.0, "edit"),
    (25.0, "edit"),
]


@pytest.fixture
def replicas(control_plane: ControlPlane, thesmos: Thesmos, tmp_path: Path) -> Iterator[Replicas]:
    # That of the session would be one more, called by another address: it and these would write the webhook
    # configurations in turns, each its own, and the first policy of the test might wait long for its turn.
    assert thesmos.stop() == 0, thesmos.tail()
    found = Replicas(control_plane, tmp_path)
    try:
        found.start()
        yield found
    finally:
        control_plane.kubectl("delete", "clusterpolicies", "--all")
        found.stop()
        thesmos.start()


def test_faults_under_load_let_nobody_down(replicas: Replicas) -> None:
    load = Load(replicas.plane, rate=100.0)
    before = replicas.plane.kubectl("get", "secrets", "-n", "kyverno", "-o", "jsonpath={.items[*].data.tls\\.crt}")
    asyncio.run(endure(replicas, load, 32.0, FAULTS))
    assert not load.problems(), f"{load.problems()}\n{load.summary()}\n{replicas.tails()}"
    assert len(load.applied) == 5
    after = replicas.plane.kubectl("get", "secrets", "-n", "kyverno", "-o", "jsonpath={.items[*].data.tls\\.crt}")
    assert after.stdout != before.stdout
