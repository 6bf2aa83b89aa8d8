"""Fixtures: one control plane and one Thesmos for the whole session, a cluster without policies for each test,
and one without namespaces of others for each file.

Where a program is neither built nor can be the tests skip; with ``THESMOS_REQUIRE_CLUSTER=1`` they fail instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from tests.cluster import gotools
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.controlplane.build import Assets, BuildProblem, build
from tests.cluster.thesmos import Thesmos

T = TypeVar("T")

_SKIPPED: set[str] = set()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for all of them, where people look."""
    for reason in _SKIPPED:
        terminalreporter.write_line(
            f"the cluster tests were skipped: {reason} (THESMOS_REQUIRE_CLUSTER=1 makes them fail)"
        )


def built(make: Callable[[], T]) -> T:
    """What a build makes; a skip, or a failure, where it cannot."""
    try:
        return make()
    except BuildProblem as problem:
        if os.environ.get("THESMOS_REQUIRE_CLUSTER") == "1":
            pytest.fail(str(problem))
        _SKIPPED.add(str(problem))
        pytest.skip(str(problem))


@pytest.fixture(scope="session")
def assets() -> Assets:
    return built(build)


@pytest.fixture(scope="session")
def helm() -> str:
    """The program that renders the chart."""
    return built(gotools.helm)


@pytest.fixture(scope="session")
def alert_judge() -> str:
    """The program that evaluates alerts as Prometheus does."""
    return built(gotools.alert_judge)


@pytest.fixture(scope="session")
def pod_security_judge() -> str:
    """The program that judges Pods as Kubernetes does."""
    return built(gotools.pod_security_judge)


@pytest.fixture(scope="session")
def chainsaw() -> str:
    """The runner of the public cluster suites."""
    return built(gotools.chainsaw)


@pytest.fixture(scope="session")
def control_plane(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    plane = ControlPlane(assets, tmp_path_factory.mktemp("control-plane"))
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def thesmos(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Thesmos]:
    process = Thesmos(control_plane, tmp_path_factory.mktemp("thesmos"))
    try:
        process.start()
        yield process
    finally:
        process.stop()


@pytest.fixture(scope="module")
def _emptied(control_plane: ControlPlane, thesmos: Thesmos) -> Iterator[None]:
    """Not after every test: the end of a namespace takes five seconds."""
    yield
    Cluster(control_plane, thesmos).empty()


@pytest.fixture
def cluster(control_plane: ControlPlane, thesmos: Thesmos, _emptied: None) -> Iterator[Cluster]:
    found = Cluster(control_plane, thesmos)
    yield found
    found.clean()
