"""Which element of a pattern decided a walk: ``pat.walk`` once more, with the way into the pattern noted.

Called by ``runtime.explanation`` for a walk that a traced run has recorded; ordinary runs never come here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from vm.host import Imports, Meter
from vm.intrinsics.pattern_kyverno import KyvernoWalker
from vm.intrinsics.pattern_walk import End, Walker, parse_anchor
from vm.values import MISSING, Err, Value

_SKIPS: Final = ("conditional", "global")


@dataclass(frozen=True, slots=True)
class Decided:
    """``steps`` lead into the pattern (keys as written, anchors and all, and positions), ``path`` into the resource;
    ``anchor`` is the outermost anchored key that turned the mismatch into something else, empty for none."""

    steps: tuple[str, ...]
    path: str
    found: Value
    wanted: Value
    anchor: str
    code: str
    text: str


def decided(imports: Imports, resource: Value, pattern: Value, *, kyverno: bool = False) -> Decided | None:
    """What ended the walk of a pattern over a resource; None where the resource satisfies the pattern."""
    if type(pattern) is Err or type(resource) is Err:
        return None
    walker = (_NotingKyverno if kyverno else _Noting)(imports.pattern, Meter())
    end = walker.element(None if resource is MISSING else resource, pattern, "/", 0, False)
    return None if end is None else walker.decision(end)


class _Noting(Walker):
    """Notes for each end where in the pattern it came about."""

    def __init__(self, compile_pattern: Any, meter: Meter) -> None:
        super().__init__(compile_pattern, meter)
        self._steps: list[str] = []
        self._lists: list[list[Any]] = [[]]
        self._noted: dict[int, tuple[End, Decided]] = {}
        self._returned: End | None = None

    def decision(self, end: End) -> Decided | None:
        noted = self._noted.get(id(end))
        return noted[1] if noted is not None else None

    def element(self, resource: Value, pattern: Value, path: str, depth: int, equality: bool) -> End | None:
        at = _position(self._lists[-1], pattern)
        if at is not None:
            self._steps.append(str(at))
        self._lists.append([])
        begun = len(self._noted)
        end = super().element(resource, pattern, path, depth, equality)
        self._lists.pop()
        if end is not None:
            self._note(end, begun, resource, pattern, path)
        if at is not None:
            self._steps.pop()
        self._returned = end
        return end

    def _list(self, resource: list[Any], pattern: list[Any], path: str, depth: int, equality: bool) -> End | None:
        self._lists.append(pattern)
        begun = len(self._noted)
        end = super()._list(resource, pattern, path, depth, equality)
        self._lists.pop()
        if end is not None and pattern and type(pattern[0]) not in (dict, list):
            self._steps.append("0")
            self._note(end, begun, resource, pattern[0], path)
            self._steps.pop()
        return end

    def _exists(self, resource: Value, pattern: Value, path: str, depth: int) -> End | None:
        self._lists.append(pattern if type(pattern) is list else [])
        end = super()._exists(resource, pattern, path, depth)
        self._lists.pop()
        if end is not None:
            # None of the elements decides alone: it is the anchor that none of them satisfies.
            self._put(end, Decided(tuple(self._steps), path, resource, pattern, "", end.code, end.text))
        return end

    def _plain(self, key: str, value: Value, pattern: Value, path: str, depth: int) -> End | None:
        self._steps.append(key)
        begun = len(self._noted)
        end = super()._plain(key, value, pattern, path, depth)
        if end is not None:
            self._note(end, begun, value, pattern, f"{path}{key}/")
        self._steps.pop()
        return end

    def _anchored(
        self, modifier: str, key: str, resource: dict[str, Any], pattern: Value, path: str, depth: int
    ) -> End | None:
        anchor = f"{modifier}({key})"
        self._steps.append(anchor)
        self._returned = None
        end = super()._anchored(modifier, key, resource, pattern, path, depth)
        if end is not None and id(end) not in self._noted:
            inner = self.decision(self._returned) if self._returned is not None else None
            if inner is None:
                inner = Decided(
                    tuple(self._steps), f"{path}{key}/", resource.get(key, MISSING), pattern, "", end.code, end.text
                )
            self._put(end, replace(inner, anchor=anchor, code=end.code, text=end.text))
        self._steps.pop()
        return end

    def _note(self, end: End, begun: int, resource: Value, pattern: Value, path: str) -> None:
        """Notes an end that nobody below has noted: one gathered of skips is told by the first of these, any other came
        about here. ``begun`` is how many were noted before."""
        if id(end) in self._noted:
            return
        if end.code in _SKIPS:
            for known, inner in list(self._noted.values())[begun:]:
                if known.code in _SKIPS and end.text.startswith(known.text):
                    self._put(end, replace(inner, text=end.text))
                    return
        found = resource if resource is not None or end.code != "mismatch" else MISSING
        self._put(end, Decided(tuple(self._steps), path, found, pattern, "", end.code, end.text))

    def _put(self, end: End, what: Decided) -> None:
        # The end is kept beside its note, so that its id stays its own.
        self._noted[id(end)] = (end, what)


class _NotingKyverno(_Noting, KyvernoWalker):
    """The same over the walk with the reference's quirks."""


def _position(pattern: list[Any], element: Value) -> int | None:
    if type(element) not in (dict, list):
        return None
    return next((i for i, p in enumerate(pattern) if p is element), None)


def bare(step: str) -> str:
    """A key of a pattern without its anchor."""
    anchor = parse_anchor(step)
    return anchor[1] if anchor is not None else step
