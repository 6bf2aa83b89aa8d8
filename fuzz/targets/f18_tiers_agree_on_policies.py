"""Policies of every kind of rule on both tiers, as they are made and bent: the quick form of :mod:`fuzz.tiers`."""

from __future__ import annotations

from time import monotonic
from typing import Final

from fuzz.tiers import run_seed

NAME: Final = "f18_tiers_agree_on_policies"
PROPERTY: Final = "tier2(p, o, fuel) ≡ tier1(p, o, fuel) and engine2(p, o) ≡ engine1(p, o), p and o typed or bent"


def run(seconds: float, seed: int) -> int:
    end = monotonic() + seconds
    number = seed * 1_000_003
    runs = 0
    while not runs or monotonic() < end:
        for odd in (False, True):
            tally = run_seed(number, 8, odd=odd)
            assert not tally.found, tally.found[0]
            runs += tally.runs
        number += 1
    return runs
