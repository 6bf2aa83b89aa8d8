"""What a value costs by its size: the same wherever its parts are met again, and paid before it takes memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from vm.cel.values import CelMap, Optional
from vm.fuel import CHUNK, MAX_LEVELS, measure, settle
from vm.host import Meter, OutOfFuel
from vm.values import Err, Value

ELEMENT: dict[str, Value] = {
    "name": "a" * 70,
    "ports": [{"containerPort": 80}, {"containerPort": 443, "names": ["x", "y" * 30]}],
    "raw": b"z" * 90,
    "wrapped": Optional(["w" * 40]),
    "by": CelMap({("string", "k"): ("k", ["v" * 50, None])}),
    "limits": {"cpu": 1.5, "memory": None},
}
SCOPE: dict[str, Value] = {"element": ELEMENT, "element0": ELEMENT, "elementIndex": 3, "$scoped": True}


def counted(v: Value) -> int:
    """Nodes and characters, one by one; an entry of a map is one more."""
    match v:
        case str() | bytes():
            return 1 + len(v)
        case list():
            return 1 + sum(map(counted, v))
        case dict():
            return 1 + len(v) + sum(map(counted, v.values()))
        case CelMap():
            return 1 + len(v.entries) + sum(counted(y) for _, y in v.entries.values())
        case Optional():
            return 1 + counted(v.value)
    return 1


@pytest.mark.parametrize(
    "value",
    [SCOPE, ELEMENT, [ELEMENT, ELEMENT], {"a": [SCOPE] * 9, "b": "t" * 63}, Optional(SCOPE), [], {}],
    ids=["scope", "element", "twice", "nested", "optional", "no list", "no map"],
)
def test_every_node_and_character_is_paid(value: Value) -> None:
    meter = Meter(10_000)
    for times in range(1, 4):
        measure(value, meter)
        assert 10_000 - meter.left == times * (counted(value) >> CHUNK)
    settle(value, meter)
    assert 10_000 - meter.left == 4 * (counted(value) >> CHUNK)


def test_a_part_that_goes_is_not_taken_for_the_next() -> None:
    meter = Meter(10_000)
    for n in range(50):
        before = meter.left
        scope = {"element": {"items": ["x" * 64] * n}}
        measure(scope, meter)
        assert before - meter.left == counted(scope) >> CHUNK
        del scope


@pytest.mark.parametrize("charge", [measure, settle])
def test_what_is_too_large_is_not_gathered_first(charge: Callable[[Value, Meter], object]) -> None:
    large: list[Value] = [[0] for _ in range(20_000)]
    value: Value = [large] * 500  # ten million lists
    meter = Meter(5_000)
    tracemalloc.start()
    try:
        with pytest.raises(OutOfFuel):
            charge(value, meter)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 << 20


def test_a_value_of_a_scope_may_be_nested_so_deep() -> None:
    value: Value = []
    for _ in range(MAX_LEVELS - 1):
        value = [value]
    assert settle(value, Meter()) is value
    assert isinstance(settle([value], Meter()), Err)
    measure([value], Meter())  # what a program builds is bounded by the verifier
