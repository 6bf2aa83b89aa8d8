"""The anchors of a strategic merge patch resolved as the reference does it (``--quirks=kyverno``; semantics §16.2),
where :mod:`vm.patch.preprocess` does better.

An element with anchors is written by name, so that what it changes moves to the front. ``+(k)`` is decided for all
elements of the resource by the first of them. Of several elements with anchors in one list some are lost: the
reference takes them out by positions that it counted before.
"""

from __future__ import annotations

from typing import Any

from vm.patch.preprocess import GONE, Charge, Match, Walk, anchor, free, has_anchor, with_additions
from vm.values import Err, Value, is_list, is_map


def preprocess(resource: Value, patch: Value, match: Match, charge: Charge = free) -> Value:
    """As :func:`vm.patch.preprocess.preprocess`, with the answers of the reference."""
    done = _Walk(match, charge).value(resource, patch)
    return {} if done is GONE else done


class _Walk(Walk):
    __slots__ = ()

    def sequence(self, resource: Value, patch: list[Any]) -> Value:
        if resource is None or not is_list(resource):
            return super().sequence(resource, patch)
        written: list[Any] = []
        anchored = [has_anchor(part, ("", "<", "+")) for part in patch]
        for part, odd in zip(patch, anchored, strict=True):
            if odd:
                made = self.tested(resource, part) if has_anchor(part, ("<",)) else self.element(resource, part)
                if type(made) is Err:
                    return made
                written.extend(made)
        content = [*patch, *written]
        for i, odd in enumerate(anchored):
            if odd and i < len(content):
                del content[i]
        return [part for part in content if not has_anchor(part, ("", "<", "+"))] or GONE

    def element(self, elements: list[Any], part: dict[str, Any]) -> Value:
        made: list[Any] = []
        for e in elements:
            part = with_additions(e, part)
            done = self.value(e, part)
            if type(done) is Err:
                if done.code != "conditional":
                    return done
                continue
            part = _decided(e, part)
            if is_map(done) and is_map(e) and e.get("name") not in (None, ""):
                made.append({**done, "name": e["name"]})
        return made


def _decided(resource: Value, patch: Value) -> Value:
    """The patch with the additions below plain keys decided by a resource."""
    if not is_map(patch):
        return patch
    known = resource if is_map(resource) else {}
    decided = with_additions(resource, patch)
    return {k: v if anchor(k) is not None else _decided(known.get(k), v) for k, v in decided.items()}
