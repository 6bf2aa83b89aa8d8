"""The stored table of kinds is what the API server says of itself."""

from __future__ import annotations

from tests.cluster.control_plane import ControlPlane
from tests.cluster.kinds import TARGET, make


def test_the_stored_table_is_what_the_api_server_says(control_plane: ControlPlane) -> None:
    made, stored = make(control_plane).splitlines(), TARGET.read_bytes().splitlines()
    assert made[0] == stored[0]
    assert set(made) ^ set(stored) == set(), "run: make kinds"
    assert made == stored
