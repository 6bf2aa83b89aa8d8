"""``make cluster-up`` and ``make cluster-down``: a real API server with Thesmos installed, left up for trying by hand.

State (data, logs, process numbers) is kept in ``$THESMOS_CACHE/cluster``; one such cluster at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.cluster.control_plane import ControlPlane, StartProblem
from tests.cluster.controlplane.build import BuildProblem, build, cache_folder
from tests.cluster.thesmos import Thesmos

PIDS: Final = "pids.json"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.up", description=__doc__)
    parser.add_argument("--down", action="store_true", help="end the cluster that is up and remove its data")
    args = parser.parse_args(argv)
    folder = cache_folder() / "cluster"
    if args.down:
        return down(folder)
    try:
        return up(folder)
    except (BuildProblem, StartProblem, AssertionError) as problem:
        print(problem, file=sys.stderr)
        down(folder)
        return 1


def up(folder: Path) -> int:
    """Starts everything and leaves it running."""
    if any(_alive(pid) for pid in _pids(folder).values()):
        print(f"a cluster is up already, end it with: make cluster-down\n{_lines(folder)}")
        return 0
    assets = build()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    plane = ControlPlane(assets, folder)
    pids: dict[str, int] = {}
    try:
        plane.start()
        pids.update(plane.pids)
        thesmos = Thesmos(plane, folder)
        thesmos.start()
        pids["thesmos"] = thesmos.pid
    finally:
        (folder / PIDS).write_text(json.dumps({**plane.pids, **pids}))
    print(f"An API server is up at {plane.url}, with Thesmos installed.\n{_lines(folder)}")
    return 0


def down(folder: Path) -> int:
    """Ends what :func:`up` started: Thesmos first, politely, so that its webhooks go."""
    pids = _pids(folder)
    for name in ("thesmos", "kube-controller-manager", "kube-apiserver", "etcd"):
        pid = pids.get(name)
        if pid is not None and _alive(pid):
            _end(pid)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _lines(folder: Path) -> str:
    kubectl = build(log=False).program("kubectl")
    return (
        f"\n  export KUBECONFIG={folder / 'kubeconfig'}\n"
        f"  {kubectl} apply -f examples/policies\n"
        f"  {kubectl} create -f examples/resources/pod-bad.yaml\n"
        f"  {kubectl} get clusterpolicies\n"
        f"  tail -f {folder / 'thesmos.log'}\n"
    )


def _pids(folder: Path) -> dict[str, int]:
    try:
        return {str(k): int(v) for k, v in json.loads((folder / PIDS).read_text()).items()}
    except (OSError, ValueError):
        return {}


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # Where nobody collects ended processes (a container without an init) they stay as zombies.
        stat = Path(f"/proc/{pid}/stat")
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _end(pid: int, seconds: float = 20.0) -> None:
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    if _alive(pid):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    raise SystemExit(main())
