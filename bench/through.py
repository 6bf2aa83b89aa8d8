"""Part ``api``: dry-run creates of Pods through a real API server, with and without a webhook.

Four namespaces are told apart by who is asked about their Pods: nobody, a webhook that does nothing, Thesmos with 10
and Thesmos with 100 policies. All run at once and are asked in turns, so that each round sees one phase of the machine.
API server, etcd, webhooks and client share all cores.
"""

from __future__ import annotations

import base64
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench import measure
from bench.client import Answered, Job, ask
from bench.figures import Figure, figure
from bench.policies import Policy, generated_policies, reference_policies, to_text
from bench.requests import pods
from bench.server import do_nothing
from tests.cluster.control_plane import TOKEN, ControlPlane, StartProblem
from tests.cluster.controlplane.build import BuildProblem, build
from tests.cluster.thesmos import Thesmos

NONE: Final = "no-webhook"
NOTHING: Final = "do-nothing"
MODES: Final = {NONE: 0, NOTHING: 0, "thesmos-10": 10, "thesmos-100": 100}
"""Names of the namespaces, and how many policies are asked there."""
CLIENTS: Final = (1, 8)
ROUNDS: Final = 48
"""Many and short: a machine that others use has phases of some seconds."""
SHORTER: Final = 12
"""How many times shorter a round is than those of other parts."""
WARM_SECONDS: Final = 2.0
PATIENCE: Final = 20.0


@dataclass(slots=True)
class Rounds:
    """What one mode came to with so many clients, round by round."""

    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)

    def add(self, answered: Answered) -> None:
        self.p50.append(answered.milliseconds(0.5))
        self.p99.append(answered.milliseconds(0.99))
        self.rate.append(answered.rate)


def measured(folder: Path, scratch: Path, seconds: float) -> Iterator[Figure]:
    """``folder`` holds the reference work. Nothing where there is no control plane and none can be built."""
    try:
        assets = build()
    except BuildProblem as problem:
        print(problem)
        return
    with contextlib.ExitStack() as stack:
        plane = ControlPlane(assets, scratch)
        stack.callback(plane.stop)
        try:
            plane.start()
        except StartProblem as problem:
            print(problem)
            return
        for name in MODES:
            _apply(plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        stack.enter_context(_do_nothing(plane, scratch))
        for name, policies in (("thesmos-10", reference_policies(folder)), ("thesmos-100", generated_policies(100))):
            stack.enter_context(_thesmos(plane, name, _bundle(scratch / name, policies)))
        _wait_judged(plane, folder)
        found = _in_turns({name: _job(plane, folder, scratch, name, seconds / SHORTER) for name in MODES})
    yield from _figures(found)


def _bundle(path: Path, policies: list[Policy]) -> Path:
    """A bundle that holds its policies as objects beside the code, as an installation asks for."""
    text, bundle = path.with_suffix(".yaml"), path.with_suffix(".thb")
    text.write_text(to_text(policies), encoding="utf-8")
    command = [measure.python(), "-m", "runtime.cli.main", "compile", "--with-objects", "-o", str(bundle), str(text)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return bundle


def _in_turns(jobs: dict[str, Job]) -> dict[tuple[str, int], Rounds]:
    found = {(name, clients): Rounds() for clients in CLIENTS for name in jobs}
    for job in jobs.values():
        ask(_changed(job, 4, WARM_SECONDS))
    for turn in range(ROUNDS):
        # Nobody is always asked after the same other.
        names = list(jobs)[turn % len(jobs) :] + list(jobs)[: turn % len(jobs)]
        for clients in CLIENTS:
            for name in names:
                found[name, clients].add(ask(_changed(jobs[name], clients, jobs[name].seconds)))
        print(f"  round {turn + 1} of {ROUNDS}", file=sys.stderr, flush=True)
    return found


def _figures(found: dict[tuple[str, int], Rounds]) -> Iterator[Figure]:
    for (name, clients), rounds in found.items():
        with_clients = f"{clients} client{'s' if clients > 1 else ''}"
        yield figure(f"api/{with_clients}/{name}/p50", "ms", rounds.p50)
        yield figure(f"api/{with_clients}/{name}/p99", "ms", rounds.p99)
        yield figure(f"api/{with_clients}/{name}/rate", "1/s", rounds.rate, more=True)
        if name == NONE:
            continue
        added = _added(found, name, clients)
        yield figure(f"api/{with_clients}/{name}/added p50", "ms", added)
        if name == NOTHING:
            continue
        nothing, plain = found[NOTHING, clients], statistics.median(_added(found, NOTHING, clients))
        if plain > 0:
            target = 1.1 if clients == 1 else None
            name_of = f"api/{with_clients}/{name} over do-nothing, added p50"
            # From the differences within a round: what the two add to no webhook at all varies by far more.
            more = [t - n for t, n in zip(rounds.p50, nothing.p50, strict=True)]
            yield figure(name_of, "ratio", [(plain + m) / plain for m in more], target=target)
        shares = [r / n for r, n in zip(rounds.rate, nothing.rate, strict=True)]
        target = 0.9 if clients == 8 else None
        yield figure(f"api/{with_clients}/{name} over do-nothing, rate", "ratio", shares, target=target, more=True)


def _added(found: dict[tuple[str, int], Rounds], name: str, clients: int) -> list[float]:
    """What a mode adds to the time without a webhook, in ms, round by round."""
    return [p - w for p, w in zip(found[name, clients].p50, found[NONE, clients].p50, strict=True)]


def _job(plane: ControlPlane, folder: Path, scratch: Path, namespace: str, seconds: float) -> Job:
    bodies = scratch / f"pods-{namespace}.jsonl"
    made = pods(folder)
    for pod in made:
        pod["metadata"]["namespace"] = namespace
    bodies.write_text("\n".join(json.dumps(pod) for pod in made), encoding="utf-8")
    url = f"{plane.url}/api/v1/namespaces/{namespace}/pods?dryRun=All"
    return Job(url, str(bodies), seconds, expect='"kind":"Pod"', headers={"authorization": f"Bearer {TOKEN}"})


def _changed(job: Job, clients: int, seconds: float) -> Job:
    return Job(job.url, job.bodies, seconds, clients, expect=job.expect, headers=job.headers)


@contextlib.contextmanager
def _do_nothing(plane: ControlPlane, scratch: Path) -> Iterator[None]:
    with do_nothing(scratch) as (server, ca):
        webhook = {
            "name": "do-nothing.example.com",
            "clientConfig": {"url": server.url("/validate"), "caBundle": base64.b64encode(ca).decode()},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": _only(NOTHING),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        _apply(plane, {**kind, "metadata": {"name": "do-nothing"}, "webhooks": [webhook]})
        yield


@contextlib.contextmanager
def _thesmos(plane: ControlPlane, name: str, bundle: Path) -> Iterator[None]:
    """An installation of its own, that is asked about the Pods of one namespace alone."""
    # Not in the namespace that is asked about: that of an installation is left out.
    home = f"{name}-home"
    _apply(plane, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}})
    install = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": home}}
    _apply(plane, {**install, "data": {"webhooks": json.dumps([{"namespaceSelector": _only(name)}])}})
    folder = plane.folder / name
    folder.mkdir()
    flags = ["--name", name, "--namespace", home, "--bundle-source", f"file:{bundle}", "--unsigned-bundles"]
    server = Thesmos(plane, folder, *flags, "--background-scan", "false")
    try:
        server.start()
        yield
    finally:
        server.stop()


def _wait_judged(plane: ControlPlane, folder: Path) -> None:
    """Until a Pod that breaks rules is refused where policies are asked and nowhere else. Ends the run when it never is
    so: what is measured then would not be what the figures are said to be of."""
    pod = json.loads((folder / "pod-fail.json").read_text(encoding="utf-8"))
    wanted = {name for name, policies in MODES.items() if policies}
    deadline = time.monotonic() + PATIENCE
    refused: set[str] = set()
    while time.monotonic() < deadline:
        refused = {name for name in MODES if not _admitted(plane, pod, name)}
        if refused == wanted:
            return
        # The API server hears of webhook configurations a moment after they are written.
        time.sleep(0.5)
    raise SystemExit(f"a Pod that breaks rules is refused in {sorted(refused)} instead of {sorted(wanted)}")


def _admitted(plane: ControlPlane, pod: dict[str, Any], namespace: str) -> bool:
    pod["metadata"]["namespace"] = namespace
    return plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod)).returncode == 0


def _only(namespace: str) -> dict[str, Any]:
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}


def _apply(plane: ControlPlane, document: dict[str, Any]) -> None:
    done = plane.kubectl("apply", "-f", "-", stdin=json.dumps(document))
    if done.returncode != 0:
        raise SystemExit(done.stderr)
