"""Load by hand: ``python -m tests.cluster.load admissions``, ``generate``, ``scan`` or ``replicas``.

``admissions`` sends creates, updates and deletes of a bounded number of objects through the real API server, past
policies that audit them, and tells how reports, memory and etcd grow. ``generate`` tells how long it takes until 200
namespaces made at once have what a rule generates, and until an edit of a source is in 200 copies. ``scan`` starts
Thesmos on a cluster that is full already, and tells how long it takes until it is ready and until every report is
written. ``replicas`` puts two replicas on one address to the test while they are killed, ended, edited and given new
certificates. One control plane each, ended afterwards; the last line is ``ok`` or what did not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from runtime.controllers.reports import CLUSTER_POLICY_REPORT, POLICY_REPORT
from runtime.k8s.client import HttpKubeClient, Resource, connect
from runtime.k8s.errors import ApiProblem
from runtime.k8s.resources import CLUSTER_POLICY, CONFIG_MAP, NAMESPACE
from tests.cluster import flood
from tests.cluster.control_plane import ControlPlane
from tests.cluster.controlplane.build import build
from tests.cluster.replicas import Fault, Load, Replicas, endure
from tests.cluster.thesmos import Thesmos

POD: Final = Resource("", "v1", "pods", "Pod")
SERVICE: Final = Resource("", "v1", "services", "Service")
KINDS: Final = ("ConfigMap", "Pod", "Service", "Secret")
CLIENTS: Final = 24
GENERATE_SECONDS: Final = 5.0
"""What generation for 200 triggers may take on two cores that do nothing else."""


def policy(number: int, kind: str, *, background: bool = True) -> dict[str, Any]:
    """A policy that audits a label; every fourth asks with a condition."""
    name = f"load-{number:04d}"
    rule: dict[str, Any] = {
        "name": "label",
        "match": {"any": [{"resources": {"kinds": [kind], "namespaces": ["load-*"]}}]},
        "validate": {"failureAction": "Audit", "message": "a label is missing"},
    }
    label = f"label-{number % 7}"
    if number % 4:
        rule["validate"]["pattern"] = {"metadata": {"labels": {label: "?*"}}}
    else:
        key = f"{{{{ request.object.metadata.labels.\"{label}\" || '' }}}}"
        rule["validate"]["deny"] = {"conditions": {"any": [{"key": key, "operator": "Equals", "value": ""}]}}
    return {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": name, "annotations": {"pod-policies.kyverno.io/autogen-controllers": "none"}},
        "spec": {"background": background, "rules": [rule]},
    }


def obj(resource: Resource, number: int, namespaces: int, turn: int = 0) -> dict[str, Any]:
    labels = {f"label-{i}": f"v{turn % 5}" for i in range(7) if (number + turn + i) % 3}
    metadata = {"name": f"load-{number}", "namespace": f"load-{number % namespaces}", "labels": labels}
    made: dict[str, Any] = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    if resource == POD:
        made["spec"] = {"containers": [{"name": "c", "image": f"registry.example/app:{number % 50}"}]}
    elif resource == SERVICE:
        made["spec"] = {"clusterIP": "None", "ports": [{"port": 80}], "selector": {"app": f"a{number}"}}
    else:
        made["data"] = {"key": "x" * 400}
    return made


async def fill(client: HttpKubeClient, policies: int, objects: int, namespaces: int, background: float) -> None:
    for number in range(namespaces):
        name = {"name": f"load-{number}"}
        await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": name})
    # As many policies a kind as there are kinds, and for kinds that there are no objects of too.
    jobs: list[tuple[Resource, dict[str, Any], str]] = [
        (CLUSTER_POLICY, policy(n, KINDS[n % len(KINDS)], background=(n % 100) / 100 < background), "")
        for n in range(policies)
    ]
    for number in range(objects):
        resource = (CONFIG_MAP, POD, SERVICE)[number % 3]
        made = obj(resource, number, namespaces)
        jobs.append((resource, made, made["metadata"]["namespace"]))
    iterator = iter(jobs)

    async def work() -> None:
        for resource, made, namespace in iterator:
            await client.create(resource, made, namespace)

    await asyncio.gather(*(work() for _ in range(CLIENTS)))


async def admissions(plane: ControlPlane, thesmos: Thesmos, args: argparse.Namespace) -> list[str]:
    """Sends the load; what of the promises did not hold."""
    client = await connect(str(plane.kubeconfig), lambda verb, resource, namespace: None)
    try:
        await fill(client, args.policies, 0, args.namespaces, 0.5)
        await ready(client, args.policies)
        before = storage(plane)
        live: set[int] = set()
        samples: list[tuple[int, float]] = []
        most = sent = refused = 0
        started = time.monotonic()
        turns = iter(range(args.admissions))

        async def work() -> None:
            nonlocal sent, refused
            for turn in turns:
                number = random.randrange(args.objects)
                made = obj(CONFIG_MAP, number, args.namespaces, turn)
                namespace, name = made["metadata"]["namespace"], made["metadata"]["name"]
                try:
                    if number not in live:
                        live.add(number)
                        await client.create(CONFIG_MAP, made, namespace)
                    elif turn % 5 == 0:
                        live.discard(number)
                        await client.delete(CONFIG_MAP, name, namespace)
                    else:
                        await client.replace(CONFIG_MAP, made, namespace)
                except ApiProblem as problem:
                    # Two workers at one object.
                    refused += problem.code not in (404, 409)
                sent += 1

        async def watch() -> None:
            nonlocal most
            while True:
                samples.append((sent, rss(thesmos.pid)))
                reports = await count(client, POLICY_REPORT)
                most = max(most, reports)
                seconds = time.monotonic() - started
                print(
                    f"{sent:7d} admissions, {sent / max(seconds, 1e-9):5.0f}/s, {len(live):5d} objects,"
                    f" {reports:5d} reports, RSS {samples[-1][1]:.1f} MiB",
                    flush=True,
                )
                await asyncio.sleep(args.every)

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(work() for _ in range(CLIENTS)))
        watching.cancel()
        await asyncio.sleep(15)
        objects, reports = await count(client, CONFIG_MAP, "load-"), await count(client, POLICY_REPORT)
        cluster_wide = await count(client, CLUSTER_POLICY_REPORT)
        last = [memory for at, memory in samples if at >= args.admissions / 2] or [samples[-1][1]]
        spread = (max(last) - min(last)) / min(last)
        print(f"objects {objects}, reports {reports} + {cluster_wide}, at most {most} at a time")
        print(f"memory over the last half: {min(last):.1f} to {max(last):.1f} MiB ({spread:.1%})")
        print(f"etcd: {before} -> {storage(plane)}")
        wrong = []
        if reports + cluster_wide > objects + args.namespaces:
            wrong.append(f"{reports} reports for {objects} objects")
        if most > args.objects + args.namespaces:
            wrong.append(f"{most} reports at a time for at most {args.objects} objects")
        if spread > 0.1:
            wrong.append(f"memory grew by {spread:.1%}")
        if refused:
            wrong.append(f"{refused} requests were refused")
        return wrong
    finally:
        await client.close()


async def generate(plane: ControlPlane, thesmos: Thesmos, args: argparse.Namespace) -> list[str]:
    """Measures what follows from 200 triggers, and from an edit of what was copied for them."""
    client = await connect(str(plane.kubeconfig), lambda verb, resource, namespace: None)
    wrong = []
    try:

        async def store(text: str) -> None:
            done = await asyncio.to_thread(plane.kubectl, "apply", "-f", "-", stdin=text)
            assert done.returncode == 0, done.stderr
            await ready(client, 1)

        async def measure(what: str, look: Callable[[], Awaitable[bool]]) -> None:
            used = cpu(thesmos.pid)
            seconds = await flood.wait_for(look)
            print(f"{what}: {seconds:.1f} s, CPU {cpu(thesmos.pid) - used:.1f} s, RSS {rss(thesmos.pid):.1f} MiB")
            if seconds > GENERATE_SECONDS:
                wrong.append(f"{what} took {seconds:.1f} s")

        await store(flood.MADE)
        await flood.make_namespaces(client, "flood-a")
        await measure(f"{flood.NUMBER} objects after the last trigger", lambda: flood.all_made(client, "flood-a"))
        await flood.wait_for(lambda: flood.idle(client))
        await client.delete(CLUSTER_POLICY, "flood")
        await store(f"{flood.source('one')}\n---\n{flood.COPIED}")
        await flood.make_namespaces(client, "flood-b")
        await flood.wait_for(lambda: flood.all_say(client, "flood-b", "one"))
        await flood.edit_source(client, "two")
        await measure(f"an edit in {flood.NUMBER} copies", lambda: flood.all_say(client, "flood-b", "two"))
        return wrong
    finally:
        await client.close()


async def scan(plane: ControlPlane, thesmos: Thesmos, args: argparse.Namespace) -> list[str]:
    """Starts Thesmos on a full cluster."""
    client = await connect(str(plane.kubeconfig), lambda verb, resource, namespace: None)
    try:
        thesmos.start()
        thesmos.stop()
        started = time.monotonic()
        await fill(client, args.policies, args.objects, args.namespaces, 1.0)
        print(f"filled in {time.monotonic() - started:.1f} s, etcd {storage(plane)}")
        for attempt in ("first start", "second start"):
            started = time.monotonic()
            thesmos.start(wait=False)
            wait_long(thesmos)
            ready_after = time.monotonic() - started
            reports = -1
            settled = time.monotonic()
            while time.monotonic() - settled < args.settle:
                now = await count(client, POLICY_REPORT)
                if now != reports:
                    reports, settled = now, time.monotonic()
                await asyncio.sleep(1)
            print(
                f"{attempt}: ready after {ready_after:.1f} s, {reports} reports after {settled - started:.1f} s, RSS"
                f" {rss(thesmos.pid):.1f} MiB, peak {peak(thesmos.pid):.1f} MiB, CPU {cpu(thesmos.pid):.1f} s",
                flush=True,
            )
            if attempt == "first start":
                thesmos.stop()
        print(f"etcd {storage(plane)}")
        memory = peak(thesmos.pid)
        return [f"peak of {memory:.1f} MiB"] if memory > 256 else []
    finally:
        await client.close()


def wait_long(thesmos: Thesmos) -> None:
    """Until it is ready, however busy the machine is."""
    for left in reversed(range(5)):
        try:
            thesmos.wait_ready()
            break
        except AssertionError:
            if not left or not Path(f"/proc/{thesmos.pid}/cmdline").read_bytes():
                raise


async def ready(client: HttpKubeClient, policies: int) -> None:
    """Until all policies say so."""
    while True:
        found = (await client.list(CLUSTER_POLICY))["items"]
        if sum(bool(p.get("status", {}).get("conditions")) for p in found) >= policies:
            return
        await asyncio.sleep(0.5)


async def count(client: HttpKubeClient, resource: Resource, prefix: str = "") -> int:
    total = 0
    async for page in client.pages(resource, metadata=True):
        total += sum(item["metadata"]["name"].startswith(prefix) for item in page["items"] or ())
    return total


def storage(plane: ControlPlane) -> str:
    size = sum(path.stat().st_size for path in plane.folder.rglob("*") if path.is_file() and "etcd" in str(path))
    return f"{size / 2**20:.1f} MiB"


def rss(pid: int) -> float:
    return _status(pid, "VmRSS")


def peak(pid: int) -> float:
    return _status(pid, "VmHWM")


def cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _status(pid: int, key: str) -> float:
    """MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) / 1024
    return 0.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.load", description=__doc__)
    parser.add_argument("what", choices=("admissions", "generate", "scan", "replicas"))
    parser.add_argument("--seconds", type=float, default=300.0, help="how long replicas are put to the test")
    parser.add_argument("--rate", type=float, default=300.0, help="creates a second for replicas")
    parser.add_argument("--edits", type=int, default=20, help="edits of a policy meanwhile")
    parser.add_argument("--admissions", type=int, default=100_000)
    parser.add_argument("--objects", type=int, help="at most at a time (1000), or to scan (5000)")
    parser.add_argument("--policies", type=int, help="20, or 500 to scan")
    parser.add_argument("--namespaces", type=int, default=20)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between lines")
    parser.add_argument("--settle", type=float, default=15.0, help="seconds without a new report that end a scan")
    parser.add_argument("--flags", default="", help="more flags for thesmos, in one text")
    args = parser.parse_args(argv)
    if args.what == "replicas":
        return replicas(args)
    scanning = args.what == "scan"
    args.objects = args.objects or (5000 if scanning else 1000)
    args.policies = args.policies or (500 if scanning else 20)
    with tempfile.TemporaryDirectory(prefix="thesmos-load-") as name:
        folder = Path(name)
        (folder / "plane").mkdir()
        plane = ControlPlane(build(), folder / "plane")
        thesmos = Thesmos(plane, folder, *args.flags.split())
        try:
            plane.start()
            if not scanning:
                thesmos.start()
            work = {"admissions": admissions, "generate": generate, "scan": scan}[args.what]
            wrong = asyncio.run(work(plane, thesmos, args))
        finally:
            thesmos.stop()
            print("\n".join(_last_warnings(thesmos.log)))
            plane.stop()
    print("; ".join(wrong) or "ok")
    return 1 if wrong else 0


def replicas(args: argparse.Namespace) -> int:
    """Two replicas on one address under load: two are killed, two are ended, certificates are renewed, a policy is
    edited."""
    seconds: float = args.seconds
    faults: list[tuple[float, Fault]] = [
        (seconds * (number + 0.7) / (args.edits + 1), "edit") for number in range(args.edits)
    ]
    faults += [(seconds * part, "kill") for part in (0.15, 0.6)]
    faults += [(seconds * part, "term") for part in (0.35, 0.8)]
    faults.append((seconds * 0.5, "renew"))
    with tempfile.TemporaryDirectory(prefix="thesmos-load-") as name:
        folder = Path(name)
        (folder / "plane").mkdir()
        plane = ControlPlane(build(), folder / "plane")
        found = Replicas(plane, folder, *args.flags.split())
        load = Load(plane, args.rate)
        try:
            plane.start()
            found.start()
            asyncio.run(endure(found, load, seconds, faults, lambda line: print(line, flush=True)))
        finally:
            found.stop()
            plane.stop()
        for member in found.members:
            print("\n".join(_last_warnings(member.log)))
    wrong = load.problems()
    print(load.summary())
    print("; ".join(wrong) or "ok")
    return 1 if wrong else 0


def _last_warnings(log: Path) -> Iterator[str]:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    yield from [line for line in lines if "WARNING" in line or "ERROR" in line or "Traceback" in line][-10:]


if __name__ == "__main__":
    sys.exit(main())
