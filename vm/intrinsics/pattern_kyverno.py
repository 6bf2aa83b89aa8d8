"""``pat.walk_kyverno``: the walk of a pattern as the reference does it where :mod:`vm.intrinsics.pattern_walk` differs
from it (``--quirks=kyverno``; semantics §2.1, §3).

An empty list satisfies every list pattern, of several maps in a list pattern the first alone counts, and ``?*`` accepts
no map and no list. The pass ``kyverno`` puts it in the place of ``pat.walk``.
"""

from __future__ import annotations

from typing import Any

from vm.host import Imports, Meter
from vm.intrinsics.pattern_walk import End, Walker, finished, unequal
from vm.values import Value


def walk(imports: Imports, meter: Meter, resource: Value, pattern: Value) -> Value:
    """As :func:`vm.intrinsics.pattern_walk.walk`, with the answers of the reference."""
    return finished(KyvernoWalker(imports.pattern, meter), resource, pattern)


class KyvernoWalker(Walker):
    """One walk in the way of the reference."""

    __slots__ = ()

    def _leaf(self, resource: Value, pattern: Value, path: str, equality: bool) -> End | None:
        holds = self._predicate(pattern)
        values = resource if type(resource) is list else [resource]
        self._meter.charge(len(values))
        if all(type(value) not in (dict, list) and holds(value) for value in values):
            return None
        return unequal(resource, pattern, path)

    def _list(self, resource: list[Any], pattern: list[Any], path: str, depth: int, equality: bool) -> End | None:
        if pattern and type(pattern[0]) is dict:
            return self._each_map(resource, pattern[:1], path, depth)
        return super()._list(resource, pattern, path, depth, equality)
