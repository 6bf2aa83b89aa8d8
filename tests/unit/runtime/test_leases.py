"""Shards are held by one replica at a time, shared out evenly, taken over from who is gone, given back at the end."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from runtime.config import Names
from runtime.controllers.leases import BEAT, SHARDS, ShardLeases, Shards
from runtime.controllers.replicas import DEAD, HOLD
from runtime.k8s.errors import Unreachable
from runtime.k8s.resources import LEASE
from tests.unit.runtime.fake_api import FakeApi

NAMES = Names()
ALL = frozenset(range(SHARDS))


class Clock:
    """A clock of one machine: the time that has passed, at its own speed and from its own beginning."""

    def __init__(self, speed: float = 1.0, began: float = 0.0) -> None:
        self.speed = speed
        self.began = began
        self.now = 0.0

    def __call__(self) -> float:
        return self.began + self.now * self.speed


class Replica:
    def __init__(self, api: FakeApi, identity: str, clock: Clock, parts: tuple[str, ...] = ("background",)) -> None:
        self.clock = clock
        self.shards = Shards(clock)
        self.leases = ShardLeases(api, NAMES, identity, parts, self.shards, clock=clock)

    @property
    def held(self) -> frozenset[int]:
        return self.shards.held("background")


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def started() -> None:
        await main()

    asyncio.run(started())


def replicas(api: FakeApi, *names: str) -> list[Replica]:
    clock = Clock()
    return [Replica(api, name, clock) for name in names]


def test_without_leases_everything_may_be_held() -> None:
    shards = Shards()
    assert not shards.leads("reports")
    shards.hold_all("reports")
    assert shards.leads("reports")
    assert shards.holds("reports", "any key")


def test_a_single_replica_holds_all_after_one_beat() -> None:
    async def main() -> None:
        api = FakeApi()
        (one,) = replicas(api, "a")
        assert not one.held
        await one.leases.beat()
        assert one.held == ALL
        names = {name for _, name in api.objects[LEASE.plural]}
        assert names == {"kyverno-replica-a", *(f"kyverno-background-{n}" for n in range(SHARDS))}

    run(main)


@pytest.mark.parametrize(("count", "shares"), [(2, [2, 2]), (3, [2, 1, 1]), (6, [1, 1, 1, 1, 0, 0])])
def test_replicas_share_evenly(count: int, shares: list[int]) -> None:
    async def main() -> None:
        api = FakeApi()
        members = replicas(api, *(f"r{n}" for n in range(count)))
        for _ in range(3):
            for member in members:
                await member.leases.beat()
                assert sum(len(m.held) for m in members) == len(frozenset().union(*(m.held for m in members)))
        assert [len(m.held) for m in members] == shares
        # The first one keeps what is done by one alone: it gives away the last of its shards.
        assert members[0].shards.leads("background")

    run(main)


def test_a_killed_replica_is_followed_when_it_has_been_silent_and_no_sooner() -> None:
    async def main() -> None:
        api = FakeApi()
        one, two = replicas(api, "a", "b")
        for _ in range(2):
            await one.leases.beat()
            await two.leases.beat()
        assert (len(one.held), len(two.held)) == (2, 2)
        seconds = 0.0
        while two.held != ALL:
            two.clock.now += BEAT
            seconds += BEAT
            assert not (seconds <= HOLD * BEAT and len(two.held) > 2)
            await two.leases.beat()
        assert DEAD * BEAT <= seconds <= 13
        # It was only slow: what it held is not its own any more, and it says so at once.
        assert not one.held
        await one.leases.beat()
        assert not one.held & two.held

    run(main)


def test_what_is_given_back_is_taken_at_once() -> None:
    async def main() -> None:
        api = FakeApi()
        one, two = replicas(api, "a", "b")
        for _ in range(2):
            await one.leases.beat()
            await two.leases.beat()
        assert not await one.leases.leave()
        assert not one.held
        await two.leases.beat()
        assert two.held == ALL
        assert await two.leases.leave()
        assert {name for _, name in api.objects[LEASE.plural]} == {f"kyverno-background-{n}" for n in range(SHARDS)}

    run(main)


def test_who_starts_again_in_the_same_place_goes_on_at_once() -> None:
    async def main() -> None:
        api = FakeApi()
        (one,) = replicas(api, "a")
        await one.leases.beat()
        again = Replica(api, "a", Clock(began=7000.0))
        await again.leases.beat()
        assert again.held == ALL

    run(main)


def test_another_in_its_place_waits_until_it_is_surely_gone() -> None:
    async def main() -> None:
        api = FakeApi()
        (one,) = replicas(api, "a")
        await one.leases.beat()
        # Even without a Lease of its own: somebody may have removed it.
        api.remove(LEASE, "kyverno-replica-a", NAMES.namespace)
        two = Replica(api, "b", Clock())
        await two.leases.beat()
        assert not two.held
        two.clock.now += DEAD * BEAT
        await two.leases.beat()
        assert two.held == ALL

    run(main)


def test_an_api_server_that_is_away_costs_what_was_held() -> None:
    async def main() -> None:
        api = FakeApi()
        (one,) = replicas(api, "a")
        told: list[bool] = []
        one.shards.listen(lambda: told.append(one.shards.leads("background")))
        await one.leases.beat()
        assert told == [True]
        one.clock.now += HOLD * BEAT
        assert not one.shards.leads("background")
        api.fail_next = [Unreachable("away")]
        with pytest.raises(Unreachable):
            await one.leases.beat()
        await one.leases.beat()
        assert told == [True, False, True]
        assert one.held == ALL

    run(main)


def test_a_lease_that_somebody_touches_stays_ours() -> None:
    async def main() -> None:
        api = FakeApi()
        (one,) = replicas(api, "a")
        await one.leases.beat()
        touched = await api.get(LEASE, "kyverno-replica-a", NAMES.namespace)
        touched["metadata"]["annotations"]["note"] = "theirs"
        api.put(LEASE, touched)
        await one.leases.beat()
        assert one.held == ALL
        # Removed, it is made again, and what was held is won again.
        api.remove(LEASE, "kyverno-replica-a", NAMES.namespace)
        await one.leases.beat()
        assert one.held == ALL

    run(main)


def test_parts_are_shared_among_those_that_run_them() -> None:
    async def main() -> None:
        api = FakeApi()
        clock = Clock()
        one = Replica(api, "a", clock, ("admission", "background"))
        two = Replica(api, "b", clock, ("background", "reports"))
        for _ in range(2):
            await one.leases.beat()
            await two.leases.beat()
        assert one.shards.held("admission") == ALL
        assert two.shards.held("reports") == ALL
        assert len(one.held) == len(two.held) == 2

    run(main)


@pytest.mark.parametrize("seed", range(20))
def test_never_two_whatever_fails_and_however_clocks_differ(seed: int) -> None:
    """Replicas with clocks of their own, that stand still, lose their connection and come back, at random."""
    chance = random.Random(seed)

    async def main() -> None:
        api = FakeApi()
        clocks = [Clock(chance.uniform(0.9, 1.1), chance.uniform(-1e6, 1e6)) for _ in range(3)]
        members = [Replica(api, f"r{n}", clock) for n, clock in enumerate(clocks)]
        paused = [0.0] * 3
        held = 0
        for step in range(400):
            for clock in clocks:
                clock.now += 0.5
            for n, member in enumerate(members):
                paused[n] = max(0.0, paused[n] - 0.5)
                if paused[n] or chance.random() < 0.5:
                    continue
                if chance.random() < 0.03:
                    paused[n] = chance.uniform(1.0, 25.0)
                    continue
                if chance.random() < 0.1:
                    api.fail_next = [Unreachable("away")]
                with contextlib.suppress(Unreachable):
                    await member.leases.beat()
                api.fail_next = []
            sets: list[Any] = [m.held for m in members]
            assert sum(map(len, sets)) == len(frozenset().union(*sets)), f"two holders at step {step}"
            held += sum(map(len, sets))
        assert held > 400 * SHARDS / 2

    run(main)


def test_nothing_is_held_before_the_first_beat() -> None:
    shards = Shards()
    ShardLeases(FakeApi(), NAMES, "a", ["background"], shards)
    assert shards.until == -math.inf
