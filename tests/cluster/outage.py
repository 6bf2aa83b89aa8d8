"""``python -m tests.cluster.outage``: the API server away for a minute under load, and its history gone, by hand.

Creates are sent past a policy while the API server is killed, etcd is compacted so that no watch can go on where it
was, and the API server comes back. Afterwards the verdicts are right, an edit is live within two seconds, and a
Namespace gets what a rule generates: the last line is ``ok`` or what did not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.cluster.control_plane import ControlPlane
from tests.cluster.controlplane.build import build
from tests.cluster.load import rss
from tests.cluster.replicas import Load
from tests.cluster.thesmos import Thesmos

POLICIES = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: replicas}
spec:
  background: false
  rules:
    - name: team
      match: {any: [{resources: {kinds: [ConfigMap], names: ["load-*"]}}]}
      validate: {failureAction: Enforce, message: "version=0;", pattern: {metadata: {labels: {LABEL: "?*"}}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: makes}
spec:
  rules:
    - name: limits
      match: {any: [{resources: {kinds: [Namespace]}}]}
      generate:
        apiVersion: v1
        kind: ConfigMap
        name: limits
        namespace: "{{ request.object.metadata.name }}"
        synchronize: true
        data: {data: {most: "1"}}
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.outage", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the API server is away")
    parser.add_argument("--rate", type=float, default=50.0, help="creates a second")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="thesmos-outage-") as scratch:
        folder = Path(scratch)
        plane = ControlPlane(build(), folder)
        thesmos = Thesmos(plane, folder)
        try:
            plane.start()
            thesmos.start()
            problems = endure(plane, thesmos, args.seconds, args.rate)
            if "Traceback" in thesmos.log.read_text(errors="replace"):
                problems.append(f"a traceback in the log:\n{thesmos.tail()}")
        finally:
            thesmos.stop()
            plane.stop()
    print("\n".join(problems) or "ok")
    return 1 if problems else 0


def endure(plane: ControlPlane, thesmos: Thesmos, seconds: float, rate: float) -> list[str]:
    """The whole of it; gives what did not hold."""
    problems: list[str] = []
    done = plane.kubectl("apply", "-f", "-", stdin=POLICIES.replace("LABEL", "team"))
    if done.returncode:
        return [done.stderr]
    time.sleep(3)
    load = Load(plane, rate)
    thread = threading.Thread(target=lambda: asyncio.run(load.run(seconds + 40)))
    thread.start()
    time.sleep(15)
    before = rss(thesmos.pid)
    plane.kill_api_server()
    gone = time.monotonic()
    print(f"compacted at revision {compact(plane)}", flush=True)
    while time.monotonic() < gone + seconds:
        if thesmos.get("/health/liveness") != "ok\n":
            problems.append("not alive while the API server was away")
        time.sleep(2)
    plane.start_api_server()
    back = time.monotonic()
    edited = POLICIES.replace("LABEL", "owner")
    wait(lambda: plane.kubectl("apply", "-f", "-", stdin=edited).returncode == 0, 30, "the edit is stored", problems)
    spent = wait(lambda: refused(plane, "team"), 10, "the edit is live", problems)
    print(f"an edit is live {spent:.1f} s after it is stored, {time.monotonic() - back:.1f} s after the return")
    plane.kubectl("create", "namespace", "fresh")
    made = lambda: plane.kubectl("get", "configmap", "limits", "-n", "fresh").returncode == 0  # noqa: E731
    print(f"generated after {wait(made, 10, 'a Namespace gets what is generated', problems):.1f} s")
    thread.join()
    words = Counter(answer.what for answer in load.answers if answer.sent < gone or answer.answered > back)
    print(f"answers before and after: {dict(words)}; memory {before:.0f} to {rss(thesmos.pid):.0f} MiB")
    wrong = [a for a in load.answers if a.sent < gone and a.what == ("refused" if a.good else "admitted")]
    wrong += [a for a in load.answers if a.what == "admitted" and not a.good]
    if wrong:
        problems.append(f"{len(wrong)} answers were wrong: {wrong[0]}")
    return problems


def refused(plane: ControlPlane, label: str) -> bool:
    obj: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "load-x"}}
    obj["metadata"]["labels"] = {label: "a"}
    return "version=0" in plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(obj)).stderr


def wait(look: Callable[[], bool], seconds: float, what: str, problems: list[str]) -> float:
    """Looks until something holds; gives the seconds it took."""
    began = time.monotonic()
    while not look():
        if time.monotonic() > began + seconds:
            problems.append(f"not within {seconds} s: {what}")
            break
        time.sleep(0.1)
    return time.monotonic() - began


def compact(plane: ControlPlane) -> int:
    """Throws the history of etcd away, up to now; gives the revision."""
    head = post(plane, "range", {"key": "AA=="})["header"]
    post(plane, "compaction", {"revision": head["revision"], "physical": True})
    return int(head["revision"])


def post(plane: ControlPlane, what: str, body: dict[str, Any]) -> Any:
    url = f"{plane.etcd_url}/v3/kv/{what}"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode()), timeout=30) as answer:
        return json.loads(answer.read())


if __name__ == "__main__":
    sys.exit(main())
