"""``python -m tests.cluster.hostile --seconds 600``: hostile reviews against a whole installation, by hand.

A real control plane, Thesmos with every part, policies of every kind; bodies of fuzz target F14 are posted to all paths
of its webhook over TLS. No 5xx, no traceback in the log, memory that stays: the last line is ``ok`` or what did not
hold.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import ssl
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aiohttp import ClientSession, TCPConnector

from fuzz.targets.f14_webhook import PATHS, POLICIES, body, check
from tests.cluster.control_plane import ControlPlane
from tests.cluster.controlplane.build import build
from tests.cluster.load import rss
from tests.cluster.thesmos import Thesmos

OWN_PATHS: Final = ("/policyvalidate", "/exceptionvalidate", "/globalcontextvalidate", "/verifyttl")
AT_ONCE: Final = 16
BACKGROUND: Final = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: generates}
spec:
  rules:
    - name: generate
      match: {any: [{resources: {kinds: [Namespace, Pod]}}]}
      generate:
        {apiVersion: v1, kind: ConfigMap, name: "{{ request.object.metadata.name || 'x' }}", namespace: default,
         synchronize: true, data: {data: {of: "{{ request.object.metadata.labels.a || 'y' }}"}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: changes-others}
spec:
  rules:
    - name: change
      match: {any: [{resources: {kinds: [Service, Pod]}}]}
      mutate:
        targets: [{apiVersion: v1, kind: ConfigMap, name: "{{ request.object.metadata.name }}", namespace: default}]
        patchStrategicMerge: {metadata: {labels: {by: hostile}}}
"""
GROWTH: Final = 1.3
"""What memory may grow by after the first tenth of the time: caches fill until then."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.hostile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="thesmos-hostile-") as scratch:
        folder = Path(scratch)
        plane = ControlPlane(build(), folder)
        thesmos = Thesmos(plane, folder)
        try:
            plane.start()
            thesmos.start()
            done = plane.kubectl("apply", "-f", "-", stdin=f"{POLICIES}\n---\n{BACKGROUND}")
            if done.returncode:
                print(done.stderr)
                return 1
            time.sleep(3)
            problems = asyncio.run(attack(thesmos, args.seconds, random.Random(args.seed)))
            if problems:
                print(f"thesmos {'runs' if thesmos.running else 'has ended'}; its log ends with\n{thesmos.tail()}")
        finally:
            thesmos.stop()
            plane.stop()
        log = thesmos.log.read_text(errors="replace").splitlines()
        first = next((number for number, line in enumerate(log) if "Traceback" in line), None)
        if first is not None:
            problems += ["a traceback in the log:", *log[max(first - 2, 0) : first + 60]]
    print("\n".join(problems) or "ok")
    return 1 if problems else 0


async def attack(thesmos: Thesmos, seconds: float, rng: random.Random) -> list[str]:
    """Posts for a time; gives what did not hold, at most a few."""
    context = ssl.create_default_context(cafile=str(thesmos.ca))
    began, count, early, last = time.monotonic(), 0, 0.0, 0.0
    problems: list[str] = []
    async with ClientSession(connector=TCPConnector(ssl=context, limit=AT_ONCE)) as session:
        while (spent := time.monotonic() - began) < seconds and len(problems) < 5:
            bodies = [body(rng) for _ in range(AT_ONCE)]
            paths = [rng.choice((*PATHS, *OWN_PATHS)) for _ in bodies]
            answers = (check(session, thesmos.url + p, b) for p, b in zip(paths, bodies, strict=True))
            found = await asyncio.gather(*answers, return_exceptions=True)
            problems += [str(f) or repr(f) for f in found if f is not None]
            count += len(bodies)
            if spent > seconds / 10 and not early:
                early = rss(thesmos.pid)
            if spent - last > 60:
                last = spent
                print(f"{spent:.0f} s: {count} bodies, {rss(thesmos.pid):.0f} MiB", flush=True)
    end = rss(thesmos.pid)
    print(f"{count} bodies in {seconds:.0f} s; memory {early:.0f} MiB early, {end:.0f} MiB at the end")
    if end > early * GROWTH:
        problems.append(f"memory grew from {early:.0f} to {end:.0f} MiB")
    return problems


if __name__ == "__main__":
    sys.exit(main())
