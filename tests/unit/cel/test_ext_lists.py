"""The lists and sets extensions, each row as cel-go answers."""

from __future__ import annotations

from math import nan
from typing import Any, Final

import pytest

from tests.unit.cel.calling import called, same
from vm.cel.values import Duration, Timestamp, TypeValue, UInt
from vm.values import Err

ROWS: Final[list[tuple[str, tuple[Any, ...], Any]]] = [
    ("distinct.1", (["a", "b", "a"],), ["a", "b"]),
    ("distinct.1", ([1, 1.0, UInt(1), "1"],), [1, "1"]),
    ("distinct.1", ([1, 2, 1, 3, 2],), [1, 2, 3]),
    ("distinct.1", ([[1], [1.0], [2]],), [[1], [2]]),
    ("distinct.1", ([],), []),
    ("distinct.1", ([nan, nan],), [nan, nan]),
    ("distinct.1", ([{"a": 1}, {"a": UInt(1)}],), [{"a": 1}]),
    ("flatten.1", (1,), Err("overload", "no such overload: int.flatten()")),
    ("flatten.1", ([1, 2],), [1, 2]),
    ("flatten.1", ([[1], [2, [3]], []],), [1, 2, [3]]),
    ("flatten.2", (1, 1), Err("overload", "no such overload: int.flatten(int)")),
    ("flatten.2", ([1, 2], 1), [1, 2]),
    ("flatten.2", ([1, [2, [3, [4]]]], 2), [1, 2, 3, [4]]),
    ("flatten.2", ([1, [2]], 0), [1, [2]]),
    ("flatten.2", ([[1], [2, [3]]], -1), Err("argument", "level must be non-negative")),
    ("lists.range.1", ("a",), Err("overload", "no such overload: lists.range(string)")),
    ("lists.range.1", (-5,), []),
    ("lists.range.1", (0,), []),
    ("lists.range.1", (3,), [0, 1, 2]),
    ("lists.range.1", (5,), [0, 1, 2, 3, 4]),
    ("reverse.1", ("ab",), "ba"),
    ("reverse.1", ("tähe",), "ehät"),
    ("reverse.1", (1,), Err("overload", "no such overload: reverse(int)")),
    ("reverse.1", ([1, 2, 3],), [3, 2, 1]),
    ("reverse.1", ([1, 2],), [2, 1]),
    ("reverse.list.1", ("ab",), Err("overload", "no such overload: reverse(string)")),
    ("reverse.list.1", (1,), Err("overload", "no such overload: reverse(int)")),
    ("reverse.list.1", ([1, 2, 3],), [3, 2, 1]),
    ("reverse.list.1", ([1, 2],), [2, 1]),
    ("slice.3", (1, 0, 1), Err("overload", "no such overload: slice(int, int, int)")),
    ("slice.3", ([1, 2, 3, 4], 1, 3), [2, 3]),
    ("slice.3", ([1, 2], -1, 1), Err("index", "cannot slice(-1, 1), negative indexes not supported")),
    ("slice.3", ([1, 2], 0, 1), [1]),
    ("slice.3", ([1, 2], 0, 3), Err("index", "cannot slice(0, 3), list is length 2")),
    (
        "slice.3",
        ([1, 2], 2, 1),
        Err("index", "cannot slice(2, 1), start index must be less than or equal to end index"),
    ),
    ("slice.3", ([1, 2], 2, 2), []),
    ("slice.3", ([1.0], 0, 1), [1.0]),
    ("sort.1", (1,), Err("overload", "no such overload: sort")),
    ("sort.1", (["b", "a", "ä"],), ["a", "b", "ä"]),
    ("sort.1", (["x", 1],), Err("argument", "list elements must have the same type")),
    ("sort.1", ([1, "a"],), Err("argument", "list elements must have the same type")),
    ("sort.1", ([1, 2.0],), Err("argument", "list elements must have the same type")),
    ("sort.1", ([1, UInt(2)],), Err("argument", "list elements must have the same type")),
    ("sort.1", ([1],), [1]),
    ("sort.1", ([2.5, -1.0],), [-1.0, 2.5]),
    ("sort.1", ([3, 1, 2],), [1, 2, 3]),
    ("sort.1", ([Duration(3600000000000), Duration(60000000000)],), [Duration(60000000000), Duration(3600000000000)]),
    ("sort.1", ([None, None],), Err("argument", "list elements must be comparable")),
    ("sort.1", ([None],), Err("argument", "list elements must be comparable")),
    (
        "sort.1",
        ([Timestamp(1577836800000000000), Timestamp(1546300800000000000)],),
        [Timestamp(1546300800000000000), Timestamp(1577836800000000000)],
    ),
    ("sort.1", ([True, False],), [False, True]),
    ("sort.1", ([TypeValue("int"), TypeValue("string")],), Err("argument", "list elements must be comparable")),
    ("sort.1", ([UInt(2), UInt(1)],), [UInt(1), UInt(2)]),
    ("sort.1", ([[1]],), Err("argument", "list elements must be comparable")),
    ("sort.1", ([b"b", b"a"],), [b"a", b"b"]),
    ("sort.1", ([{}],), Err("argument", "list elements must be comparable")),
    ("sortByAssociatedKeys.2", (["bb", "a", "ccc"], [2, 1, 3]), ["a", "bb", "ccc"]),
    ("sortByAssociatedKeys.2", ([1, 0], [1, 0]), [0, 1]),
    ("sortByAssociatedKeys.2", ([3, 1, 2], [-3, -1, -2]), [3, 2, 1]),
    ("sortByAssociatedKeys.2", ([3, 1, 2], [2, "a", 2]), Err("argument", "list elements must have the same type")),
    ("sortByAssociatedKeys.2", ([3, 1, 2], [[3], [1], [2]]), Err("argument", "list elements must be comparable")),
    ("sortByAssociatedKeys.2", ([], []), []),
    (
        "sortByAssociatedKeys.2",
        ([{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 0, "b": 3}], [1, 1, 0]),
        [{"a": 0, "b": 3}, {"a": 1, "b": 1}, {"a": 1, "b": 2}],
    ),
    ("sets.contains.2", (1, [1]), Err("overload", "no such overload: sets.contains(int, list)")),
    ("sets.contains.2", (["a", "b"], ["b"]), True),
    ("sets.contains.2", (["a"], ["b"]), False),
    ("sets.contains.2", ([1, UInt(2)], [2.0]), True),
    ("sets.contains.2", ([1.0, "a"], [UInt(1)]), True),
    ("sets.contains.2", ([1], []), True),
    ("sets.equivalent.2", ([1, 2], [2, 1, 1]), True),
    ("sets.equivalent.2", ([1, [1]], [[1.0], 1]), True),
    ("sets.equivalent.2", ([1], [1, 2]), False),
    ("sets.intersects.2", (["a"], ["b", "a"]), True),
    ("sets.intersects.2", (["a"], []), False),
    ("sets.intersects.2", ([1, 2], [3, UInt(2)]), True),
]


@pytest.mark.parametrize(("name", "operands", "result"), ROWS)
def test_rows(name: str, operands: tuple[Any, ...], result: Any) -> None:
    assert same(called(name, *operands), result)
