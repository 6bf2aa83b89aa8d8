"""Part ``webhook``: ``thesmos serve`` on one core, asked over TLS on kept connections from the other.

Full load (``wrk``) gives answers a second and processor time an answer; load at a pace (a client of our own) gives
latencies. All requests differ. One server a set of policies is up, and the webhook that does nothing beside them; each
round loads them in turn, so that what is compared saw the same phases of the machine. Processor time is that of the
server's processes alone, so that it says something also on a machine that has other things to do; answers a second are
what is left of one core.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import measure, wrk
from bench.client import ClientProblem, Job, ask
from bench.compiling import write_bundle
from bench.figures import Figure, figure
from bench.policies import Policy, generated_policies, policies_of_other_kinds, reference_policies
from bench.requests import reviews
from bench.server import Server, do_nothing, thesmos

CONNECTIONS: Final = 8
RATE: Final = 2000.0
TEN: Final = "10 reference"
WITH_OTHERS: Final = "10 reference and 900 of other kinds"
NOTHING: Final = "do-nothing"
RATES: Final = {TEN: 8000.0, "100 generated": 4000.0}
ALLOWED: Final = '"allowed":true'
ROUNDS: Final = 5
SERVER, CLIENT = 0, 1
"""Cores."""


@dataclass(frozen=True, slots=True)
class Full:
    """Full load of one round: answers a second, and µs of processor time an answer."""

    rate: float
    cpu: float


def measured(folder: Path, scratch: Path, seconds: float) -> Iterator[Figure]:
    """``folder`` holds the reference work."""
    if not wrk.there():
        print(wrk.NO_WRK)
    bodies = scratch / "reviews.jsonl"
    bodies.write_bytes(b"\n".join(reviews(folder)) + b"\n")
    reference = reference_policies(folder)
    sets: dict[str, list[Policy]] = {
        TEN: reference,
        "100 generated": generated_policies(100),
        WITH_OTHERS: [*reference, *policies_of_other_kinds(900)],
    }
    bundles = {name: write_bundle(scratch / f"set-{n}.thb", made) for n, (name, made) in enumerate(sets.items())}
    with contextlib.ExitStack() as stack:
        servers = {NOTHING: stack.enter_context(do_nothing(scratch, SERVER))[0]}
        for name, bundle in bundles.items():
            servers[name] = stack.enter_context(thesmos(bundle, SERVER))
            warm(servers[name], str(bodies), len(sets[name]))
        yield from _full(servers, str(bodies), seconds / 2)
        for name in sets:
            yield from _paced(name, servers[name], str(bodies), seconds / 2)
    yield from _workers(bundles[TEN], str(bodies), seconds / 2)


def _full(servers: dict[str, Server], bodies: str, seconds: float) -> Iterator[Figure]:
    rounds: dict[str, list[Full]] = {name: [] for name in servers}
    for _ in range(ROUNDS):
        for name, server in servers.items():
            rounds[name].append(full_load(server, bodies, seconds))
    spent = {name: [full.cpu for full in found] for name, found in rounds.items()}
    for name, found in rounds.items():
        rates = [full.rate for full in found]
        yield figure(f"webhook/{name}/answers a second", "1/s", rates, target=RATES.get(name), more=True)
        # The same target once more: other work on the machine takes from the rate, and hardly adds to this.
        most = 1e6 / RATES[name] if name in RATES else None
        yield figure(f"webhook/{name}/processor time an answer", "µs", spent[name], target=most)
        if name != NOTHING:
            over = [mine / plain for mine, plain in zip(spent[name], spent[NOTHING], strict=True)]
            yield figure(f"webhook/{name} over do-nothing, processor time", "ratio", over, comparable="ratio")
    over = [both / alone for both, alone in zip(spent[WITH_OTHERS], spent[TEN], strict=True)]
    name = "webhook/with 900 of other kinds over alone, processor time"
    yield figure(name, "ratio", over, comparable="ratio", target=1.05)


def warm(server: Server, bodies: str, policies: int) -> None:
    """Asks until code has been generated in the background: some hundred policies a second."""
    full_load(server, bodies, 1.0 + policies / 150)


def full_load(server: Server, bodies: str, seconds: float, *cores: int) -> Full:
    """Loads the server from the other core, or from ``cores``."""
    whole = max(1, round(seconds))
    before = measure.cpu_seconds(server.pid)
    answered = wrk.answers(server.url("/validate"), bodies, whole, CONNECTIONS, ALLOWED, *(cores or (CLIENT,)))
    spent = measure.cpu_seconds(server.pid) - before
    return Full(answered / whole, spent / answered * 1e6)


def _paced(name: str, server: Server, bodies: str, seconds: float) -> Iterator[Figure]:
    job = Job(server.url("/validate"), bodies, seconds, rate=RATE, expect=ALLOWED)
    try:
        runs = [ask(job, CLIENT) for _ in range(ROUNDS)]
    except ClientProblem as problem:
        print(f"{name} at {RATE:.0f} a second: {problem}")
        return
    for share, target in ((0.5, 0.5), (0.99, 3.0)):
        wanted = target if name == TEN else None
        values = [run.milliseconds(share) for run in runs]
        yield figure(f"webhook/{name}/p{share * 100:.0f} at {RATE:.0f} a second", "ms", values, target=wanted)


def _workers(bundle: Path, bodies: str, seconds: float) -> Iterator[Figure]:
    """Processor time an answer with two workers over that with one, in turns; client and server share all cores."""
    spent: dict[str, list[float]] = {"1": [], "2": []}
    rates: dict[str, list[float]] = {"1": [], "2": []}
    with (
        thesmos(bundle, SERVER, CLIENT, flags=["--workers", "1"]) as one,
        thesmos(bundle, SERVER, CLIENT, flags=["--workers", "2"]) as two,
    ):
        for server in (one, two):
            warm(server, bodies, 100)
        for _ in range(ROUNDS):
            for workers, server in (("1", one), ("2", two)):
                found = full_load(server, bodies, seconds, SERVER, CLIENT)
                spent[workers].append(found.cpu)
                rates[workers].append(found.rate)
    ratios = [two / one for one, two in zip(spent["1"], spent["2"], strict=True)]
    yield figure("webhook/two workers over one, processor time", "ratio", ratios, comparable="ratio", target=1.15)
    yield figure("webhook/two workers, both cores shared with the client", "1/s", rates["2"], more=True)
