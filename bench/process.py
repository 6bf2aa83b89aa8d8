"""Part ``process``: whole processes. A server with 1,000 policies, ``apply``, and a background scan."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench import measure
from bench.compiling import write_bundle
from bench.figures import Figure, figure
from bench.library import library_like
from bench.policies import generated_policies, reference_policies
from bench.requests import pods
from bench.server import thesmos

POLICIES: Final = 1000
PODS: Final = 1000
SCANNED: Final = 10_000
STARTS: Final = 3


def measured(folder: Path, scratch: Path) -> Iterator[Figure]:
    """``folder`` holds the reference work."""
    library = library_like(POLICIES)
    if not library:
        print("no conformance data: the server's 1,000 policies are generated ones")
    bundle = write_bundle(scratch / "thousand.thb", library or generated_policies(POLICIES))
    yield from _server("1000 library-like" if library else "1000 generated", bundle)
    yield from _server("10 reference", write_bundle(scratch / "ten.thb", reference_policies(folder)))
    yield from _apply(folder, scratch)
    yield from _scan(folder, scratch)


def _server(name: str, bundle: Path) -> Iterator[Figure]:
    ready, cpu, memory = [], [], []
    for _ in range(STARTS + 1):
        with thesmos(bundle, 0) as server:
            ready.append(server.ready)
            cpu.append(server.ready_cpu)
            _settle(server.pid)
            memory.append(measure.resident_mb(server.pid))
    large = name.startswith("1000 l")
    # The first start leaves beside the bundle what the others find: findings of the verifier, and code.
    yield figure(f"process/serve {name}, for the first time/exec to ready", "s", ready[:1])
    yield figure(f"process/serve {name}, for the first time/processor time to ready", "s", cpu[:1])
    yield figure(f"process/serve {name}/exec to ready", "s", ready[1:], target=1.0 if large else None)
    yield figure(f"process/serve {name}/processor time to ready", "s", cpu[1:])
    yield figure(
        f"process/serve {name}/resident memory", "MB", memory, comparable="count", target=120.0 if large else None
    )


def _settle(pid: int) -> None:
    """Waits until a server has done what it does in the background after it is ready."""
    deadline = time.monotonic() + 30
    before = measure.cpu_seconds(pid)
    while time.monotonic() < deadline:
        time.sleep(0.5)
        now = measure.cpu_seconds(pid)
        if now - before < 0.02:
            return
        before = now


def _apply(folder: Path, scratch: Path) -> Iterator[Figure]:
    """Command lines one after the other, and such as compile all anew: with nothing kept, and with parsers' tables."""
    policies = scratch / "ten.yaml"
    many = scratch / "pods.yaml"
    many.write_text("\n---\n".join(json.dumps(pod) for pod in pods(folder, PODS)), encoding="utf-8")
    one = folder / "pod-pass.json"
    kept = {"XDG_CACHE_HOME": str(scratch / "kept"), "THESMOS_NO_CACHE": ""}
    for name, resources, more, seconds, memory in (
        ("10 policies, 1 Pod", one, kept, 0.25, 60.0),
        ("10 policies, 1 Pod, compiled anew", one, {**kept, "THESMOS_NO_CACHE": "1"}, None, 60.0),
        ("10 policies, 1 Pod, no cache folder", one, {"XDG_CACHE_HOME": "/dev/null"}, None, 60.0),
        (f"10 policies, {PODS:,} Pods", many, kept, 2.0, None),
    ):
        runs = measure.commands("runtime.cli.main", ["apply", str(policies), "-r", str(resources)], more=more)
        if any(run.code for run in runs):
            raise SystemExit(f"apply of {name} ends with code {runs[0].code}")
        yield figure(f"process/apply {name}/wall", "s", [r.wall for r in runs], target=seconds)
        yield figure(f"process/apply {name}/processor time", "s", [r.cpu for r in runs])
        figures_of = [r.memory for r in runs]
        yield figure(f"process/apply {name}/peak memory", "MB", figures_of, comparable="count", target=memory)


def _scan(folder: Path, scratch: Path) -> Iterator[Figure]:
    """A background scan of Pods in pages, by the code that the controllers use, on one core."""
    bundle = write_bundle(scratch / "hundred.thb", generated_policies(100))
    objects = scratch / "scanned.jsonl"
    objects.write_text("\n".join(json.dumps(pod) for pod in pods(folder, 512)), encoding="utf-8")
    command = [
        *measure.pinned(0),
        measure.python(),
        "-m",
        "bench.scan_child",
        str(bundle.with_suffix(".yaml")),
        str(objects),
        str(SCANNED),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit("the scan could not be measured")
    found = json.loads(done.stdout)
    yield figure(f"process/scan {SCANNED:,} Pods × 100 policies/processor time", "s", [found["cpu"]], target=10.0)
    yield figure(f"process/scan {SCANNED:,} Pods × 100 policies/peak memory", "MB", [found["memory"]])
