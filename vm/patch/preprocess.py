"""Resolves the anchors of a strategic merge patch against the resource it is meant for (semantics §16.2). Called by
:mod:`vm.patch.strategic`, before the merge.

``+(k)`` stays as ``k`` where the resource has no ``k``; ``(k)`` and ``<(k)`` are tested and taken out; an element
with anchors in a list of maps becomes one :class:`At` for each element of the resource that satisfies it. So the
merge changes elements where they stand: nothing is lost and nothing changes place, whatever other elements do
(Kyverno writes elements by name and keeps one of two that meet).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from vm.values import MISSING, Err, Missing, Value, is_list, is_map

Match: TypeAlias = Callable[[Value, Value], Err | None]
"""Tests a resource value against a pattern under the validate rules; an ``Err`` says that it does not hold."""

Charge: TypeAlias = Callable[[int], object]

_ANCHOR: Final = re.compile(r"\s*([+<=X^]?)\((.+)\)\s*", re.DOTALL)


_ITSELF: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.:/-]*")
"""Patterns that match the same text alone: no number, range, quantity or duration begins with a letter. A loop tests
each element of a list for each, so that names are worth it."""
_LOOKED_AT: Final = 16
"""Elements whose name is looked at for a unit of fuel: about a microsecond."""


@dataclass(frozen=True, slots=True)
class At:
    """A patch for the element that the resource's list has at ``index``."""

    index: int
    patch: dict[str, Any]


class _Gone:
    __slots__ = ()


GONE: Final = _Gone()  # a part of the patch that was only tests


def free(fuel: int) -> None:
    """Charges nobody."""


def anchor(key: str) -> tuple[str, str] | None:
    """Splits a whole-key anchor in its sign (empty for a conditional) and name; None for a plain key."""
    found = _ANCHOR.fullmatch(key)
    return (found[1], found[2]) if found else None


def preprocess(resource: Value, patch: Value, match: Match, charge: Charge = free) -> Value:
    """The patch with its anchors resolved; lists may hold :class:`At`. ``charge`` takes the fuel for what ``match``
    does not see.

    Answers ``Err("conditional", …)`` or ``Err("global", …)`` when an anchor says that the rule does nothing, and
    ``Err("patch", …)`` when the patch does not fit the resource.
    """
    done = Walk(match, charge).value(resource, patch)
    return {} if done is GONE else done


def _is_test(key: str) -> bool:
    a = anchor(key)
    return a is not None and a[0] in ("", "<")


def has_anchor(value: Value, signs: tuple[str, ...]) -> bool:
    """Whether a key anywhere below is an anchor of one of the signs."""
    if is_map(value):
        return any(((a := anchor(k)) is not None and a[0] in signs) or has_anchor(v, signs) for k, v in value.items())
    return is_list(value) and any(has_anchor(v, signs) for v in value)


@dataclass(frozen=True, slots=True)
class Walk:
    """Goes down a patch and the resource together. A part of the patch that was only tests becomes ``GONE``."""

    match: Match
    charge: Charge = free

    def value(self, resource: Value, patch: Value) -> Value:
        if is_map(patch):
            return self.mapping(resource, patch)
        if is_list(patch) and patch and is_map(patch[0]):
            return self.sequence(resource, patch)
        return patch

    def mapping(self, resource: Value, patch: dict[str, Any]) -> Value:
        if not patch:
            return patch
        entries = with_additions(resource, patch)
        additions: dict[str, Any] = {}
        for sign, code, word in (("<", "global", "global condition"), ("", "conditional", "condition")):
            for key, want in entries.items():
                a = anchor(key)
                if a is None or a[0] != sign:
                    continue
                outcome = self.condition(resource, a[1], want)
                if type(outcome) is Err:
                    return outcome if outcome.code == "patch" else Err(code, f"{word} failed: {outcome.text}")
                if outcome is not GONE:
                    additions[a[1]] = outcome
        result: dict[str, Any] = {}
        for key, part in entries.items():
            if _is_test(key):
                name = anchor(key)[1]  # type: ignore[index]
                if name in additions and name not in entries:
                    result[name] = additions[name]
                continue
            done = self.value(_field(resource, key), part)
            if type(done) is Err:
                return done
            if done is not GONE:
                result[key] = done
        return result or GONE

    def condition(self, resource: Value, name: str, want: Value) -> Value:
        """``GONE`` when it holds and leaves nothing, what it adds when it holds additions, else an ``Err``."""
        found = _field(resource, name)
        if found is MISSING:
            return Err("mismatch", f'could not found "{name}" key in the resource')
        additions: dict[str, Any] = {}
        if is_map(want):
            additions = {k: v for k, v in want.items() if (a := anchor(k)) is not None and a[0] == "+"}
        if additions:
            tests = {k: v for k, v in want.items() if k not in additions}
            added = with_additions(found, additions)
            if tests and (error := self.match(_texted(found), tests)) is not None:
                return error
            return added or GONE
        have = _texted(found)
        if type(want) is str and type(have) is str and _ITSELF.fullmatch(want):
            return GONE if have == want else Err("mismatch", f"{name} is not {want}")
        error = self.match(have, _texted(want))
        return GONE if error is None else error

    def sequence(self, resource: Value, patch: list[Any]) -> Value:
        elements: list[Any]
        if resource is MISSING or resource is None:
            elements = []
        elif is_list(resource):
            elements = resource
        else:
            return Err("patch", "wrong node kind: the patch has a list where the resource has none")
        result: list[Any] = []
        for part in patch:
            if not has_anchor(part, ("", "<", "+")):
                result.append(part)
                continue
            made = self.tested(elements, part) if has_anchor(part, ("<",)) else self.element(elements, part)
            if type(made) is Err:
                return made
            result.extend(made)
        return result or GONE

    def tested(self, elements: list[Any], part: dict[str, Any]) -> Value:
        """An element with global conditions adds nothing; it stops the rule unless some element passes."""
        failed: Err | None = None
        for candidate in elements or [MISSING]:
            done = self.value(candidate, part)
            if type(done) is not Err:
                return []
            if done.code == "patch":
                return done
            if done.code == "global":
                failed = done
        return [] if failed is None else failed

    def element(self, elements: list[Any], part: dict[str, Any]) -> Value:
        wanted, tested = part.get("name"), part.get("(name)")
        only = wanted if type(wanted) is str else tested if type(tested) is str and _ITSELF.fullmatch(tested) else None
        self.charge(1 + len(elements) // _LOOKED_AT)
        chosen = [
            (i, e)
            for i, e in enumerate(elements)
            if is_map(e) and e.get("name") not in (None, "") and (only is None or e["name"] == only)
        ]
        self.charge(4 * len(chosen))
        if not chosen and type(wanted) is str and not has_anchor(part, ("",)):
            done = self.value(MISSING, part)  # it names an element that is not there: all its additions are due
            return done if type(done) is Err else [done]
        made: list[At] = []
        for i, e in chosen:
            done = self.value(e, part)
            if type(done) is Err:
                if done.code != "conditional":
                    return done
            elif is_map(done):
                made.append(At(i, done))
        return made


def _field(resource: Value, key: str) -> Value:
    return resource.get(key, MISSING) if is_map(resource) else MISSING


def with_additions(resource: Value, patch: dict[str, Any]) -> dict[str, Any]:
    """The map with each ``+(k)`` renamed to ``k``, or left out where the resource has ``k``, even null."""
    result: dict[str, Any] = {}
    for key, part in patch.items():
        a = anchor(key)
        if a is None or a[0] != "+":
            result[key] = part
        elif _field(resource, a[1]) is MISSING:
            result[a[1]] = part
    return result


def _texted(value: Value | Missing) -> Value:
    """Scalars are compared as text here (Kyverno works on YAML nodes in this step)."""
    match value:
        case str() | dict() | list():
            return value
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case _:
            from vm.intrinsics.text import json_text

            return json_text(value)
