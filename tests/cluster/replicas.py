"""Two replicas of Thesmos behind one address, and a load of creates that tells whether any was answered wrongly.

``test_replicas.py`` runs it for half a minute; ``python -m tests.cluster.load replicas`` for as long as one likes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import aiohttp

from tests.cluster.control_plane import TOKEN, ControlPlane, free_port
from tests.cluster.thesmos import Thesmos

POLICY: Final = "replicas"
SECRETS: Final = ("kyverno-svc.kyverno.svc.kyverno-tls-ca", "kyverno-svc.kyverno.svc.kyverno-tls-pair")

MOST_AT_ONCE: Final = 200
KILL_SECONDS: Final = 0.3
"""Between the decision to kill a process and its end."""
READY_SECONDS: Final = 180.0
"""A machine that is busy with the load starts a replica slowly."""

Fault = Literal["edit", "kill", "term", "renew"]


class Replicas:
    """The replicas share the address of a relay. Each start has another name, as Pods of a Deployment do."""

    def __init__(self, plane: ControlPlane, folder: Path, *flags: str, count: int = 2) -> None:
        self.plane = plane
        self.port = free_port()
        self.members = []
        self._folder = folder
        self._relay: subprocess.Popen[bytes] | None = None
        self._started = 0
        for number in range(count):
            place = folder / f"replica-{number}"
            place.mkdir()
            shared = ("--server-ip", f"127.0.0.1:{self.port}", "--drain-seconds", "2", *flags)
            self.members.append(Thesmos(plane, place, *shared))

    def start(self) -> None:
        ports = [str(member.port) for member in self.members]
        command = [sys.executable, "-m", "tests.cluster.relay", str(self.port), *ports]
        with (self._folder / "relay.log").open("ab") as log:
            self._relay = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        for member in self.members:
            self.begin(member)
        for member in self.members:
            member.wait_ready()

    def begin(self, member: Thesmos) -> None:
        """Starts a member under a new name, without waiting."""
        self._started += 1
        member.environment["KYVERNO_POD_NAME"] = f"kyverno-{self._started}"
        member.start(wait=False)

    def leader(self) -> Thesmos | None:
        """The member that leads; None while nobody does."""
        done = self.plane.kubectl(
            "get", "lease", "kyverno-admission-0", "-n", "kyverno", "-o", "jsonpath={.spec.holderIdentity}"
        )
        return next((m for m in self.members if m.environment["KYVERNO_POD_NAME"] == done.stdout), None)

    def stop(self) -> None:
        for member in self.members:
            member.stop()
        if self._relay is not None:
            self._relay.terminate()
            self._relay.wait()

    def tails(self) -> str:
        return "\n---\n".join(member.tail() for member in self.members)


@dataclass(slots=True)
class Answer:
    """One create: when it was sent and answered, and what came of it: ``admitted``, ``refused`` with the version of the
    policy that did, or ``failed`` with the reason."""

    sent: float
    answered: float
    good: bool
    what: str
    version: int = -1
    reason: str = ""


@dataclass(slots=True)
class Load:
    """Sends dry-run creates, every second one against the policy, and keeps what was answered. ``applied`` is when each
    version of the policy was stored; ``killed`` when replicas were."""

    plane: ControlPlane
    rate: float
    answers: list[Answer] = field(default_factory=list)
    applied: list[float] = field(default_factory=list)
    killed: list[float] = field(default_factory=list)
    unsent: int = 0

    async def run(self, seconds: float) -> None:
        connector = aiohttp.TCPConnector(limit=0, ssl=False)
        async with aiohttp.ClientSession(connector=connector) as session:
            tasks: set[asyncio.Task[None]] = set()
            began = time.monotonic()
            number = 0
            while (now := time.monotonic()) < began + seconds:
                while number < (now - began) * self.rate:
                    if len(tasks) >= MOST_AT_ONCE:
                        # The machine is too slow for this rate: what is not sent is counted, and told.
                        self.unsent += 1
                        number += 1
                        continue
                    task = asyncio.create_task(self._create(session, number))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                    number += 1
                await asyncio.sleep(0.002)
            await asyncio.gather(*tasks)

    async def _create(self, session: aiohttp.ClientSession, number: int) -> None:
        good = number % 2 == 0
        labels = {"team": "one"} if good else {}
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"load-{number}", "labels": labels}}
        sent = time.monotonic()
        url = f"{self.plane.url}/api/v1/namespaces/default/configmaps?dryRun=All"
        try:
            async with session.post(url, json=obj, headers={"Authorization": f"Bearer {TOKEN}"}) as response:
                answer = await response.json()
        except (aiohttp.ClientError, TimeoutError) as error:
            self.answers.append(Answer(sent, time.monotonic(), good, "failed", reason=f"client: {error}"))
            return
        message = str(answer.get("message") or "")
        now = time.monotonic()
        if response.status == 201:
            self.answers.append(Answer(sent, now, good, "admitted"))
        elif "version=" in message:
            version = int(message.partition("version=")[2].partition(";")[0])
            self.answers.append(Answer(sent, now, good, "refused", version))
        else:
            self.answers.append(Answer(sent, now, good, "failed", reason=message))

    def problems(self, *, lag: float = 2.0, lost: int = 10) -> list[str]:
        """What was promised and did not hold: a line each. ``lag`` is how long the version before may answer, ``lost``
        how many requests a kill may take with it."""
        found = []
        wrong = [a for a in self.answers if a.what != "failed" and a.good != (a.what == "admitted")]
        start = self.answers[0].sent if self.answers else 0.0
        found += [
            f"a {'good' if a.good else 'bad'} object was {a.what} {a.sent - start:.2f} s after the start ({len(wrong)})"
            for a in (*wrong[:3], *wrong[-3:])
        ]
        for answer in self.answers:
            if answer.what != "refused":
                continue
            later = self.applied[answer.version + 1] if answer.version + 1 < len(self.applied) else answer.sent
            if answer.sent - later > lag:
                found.append(f"version {answer.version} answered {answer.sent - later:.1f} s after the next was stored")
        failed = [a for a in self.answers if a.what == "failed"]
        for at in self.killed:
            # Under way at that moment; a machine that is slow for the rate has many under way.
            under_way = sum(a.sent <= at <= a.answered for a in self.answers)
            of_kill = [a for a in failed if a.sent <= at + KILL_SECONDS and a.answered >= at]
            failed = [a for a in failed if a not in of_kill]
            if len(of_kill) > max(lost, under_way):
                found.append(f"a kill took {len(of_kill)} requests with it, {under_way} were under way")
        found += [f"failed {a.answered - start:.1f} s after the start: {a.reason}" for a in failed[:5]]
        return found

    def summary(self) -> str:
        counted = Counter(f"{a.what} {'good' if a.good else 'bad'}" for a in self.answers)
        times = sorted(a.answered - a.sent for a in self.answers)
        slow = f"p50 {times[len(times) // 2] * 1e3:.0f} ms, p99 {times[len(times) * 99 // 100] * 1e3:.0f} ms"
        kinds = ", ".join(f"{n} {what}" for what, n in sorted(counted.items()))
        faults = f"{len(self.applied)} versions, {len(self.killed)} kills"
        return f"{len(self.answers)} creates: {kinds}; {self.unsent} not sent; {slow}; {faults}"


def policy(version: int) -> str:
    """A policy whose refusals name its version."""
    return json.dumps(
        {
            "apiVersion": "kyverno.io/v1",
            "kind": "ClusterPolicy",
            "metadata": {"name": POLICY},
            "spec": {
                "background": False,
                "rules": [
                    {
                        "name": "team",
                        "match": {"any": [{"resources": {"kinds": ["ConfigMap"], "namespaces": ["default"]}}]},
                        "validate": {
                            "failureAction": "Enforce",
                            "message": f"version={version};",
                            "pattern": {"metadata": {"labels": {"team": "?*"}}},
                        },
                    }
                ],
            },
        }
    )


class Ordeal:
    """Carries out a list of faults, each at its second, while the load runs."""

    def __init__(self, replicas: Replicas, load: Load, log: Any = None) -> None:
        self._replicas = replicas
        self._load = load
        self._log = log

    async def begin(self) -> None:
        """The first version of the policy, live on every replica: once it is ready the webhooks ask about it, and those
        that do not lead are no more than a moment behind."""
        await self._edit()
        plane, ready = self._replicas.plane, f"--for=condition=Ready clusterpolicy/{POLICY} --timeout=50s"
        done = await asyncio.to_thread(plane.kubectl, "wait", *ready.split())
        assert done.returncode == 0, done.stderr
        await asyncio.sleep(2.0)

    async def run(self, faults: list[tuple[float, Fault]]) -> None:
        began = time.monotonic()
        for at, fault in sorted(faults):
            await asyncio.sleep(max(0.0, began + at - time.monotonic()))
            if self._log is not None:
                self._log(f"{time.monotonic() - began:6.1f} s  {fault}")
            match fault:
                case "edit":
                    await self._edit()
                case "kill":
                    await self._kill()
                case "term":
                    await self._term()
                case "renew":
                    await asyncio.to_thread(self._replicas.plane.kubectl, "delete", "secret", *SECRETS, "-n", "kyverno")

    async def _edit(self) -> None:
        text = policy(len(self._load.applied))
        for _ in range(20):
            done = await asyncio.to_thread(self._replicas.plane.kubectl, "apply", "-f", "-", stdin=text)
            if done.returncode == 0:
                self._load.applied.append(time.monotonic())
                return
            # The replica that was asked has just been killed.
            await asyncio.sleep(0.2)
        raise AssertionError(f"the policy was not stored: {done.stderr}")

    async def _kill(self) -> None:
        """The leader, so that it changes; another comes in its place two seconds later."""
        member = await asyncio.to_thread(self._replicas.leader) or self._replicas.members[0]
        self._load.killed.append(time.monotonic())
        await asyncio.to_thread(member.stop, signal.SIGKILL)
        await asyncio.sleep(2.0)
        await self._again(member)

    async def _term(self) -> None:
        leader = await asyncio.to_thread(self._replicas.leader)
        member = next(m for m in self._replicas.members if m is not leader)
        code = await asyncio.to_thread(member.stop)
        assert code == 0, member.tail()
        await self._again(member)

    async def _again(self, member: Thesmos) -> None:
        await asyncio.to_thread(self._replicas.begin, member)
        await asyncio.to_thread(member.wait_ready, READY_SECONDS)


async def endure(
    replicas: Replicas, load: Load, seconds: float, faults: list[tuple[float, Fault]], log: Any = None
) -> None:
    """The faults under the load; returns when both are over."""
    ordeal = Ordeal(replicas, load, log)
    await ordeal.begin()
    running = asyncio.create_task(load.run(seconds))
    try:
        await ordeal.run(faults)
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            await running
