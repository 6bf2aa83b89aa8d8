"""The public policy library as a realistic mix, where the conformance data lies: every policy of it that compiles, the
objects of its own tests, and sets of any size made of it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from bench.cel_corpus import conformance_folder
from bench.compiling import compiled

Policy = dict[str, Any]

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KINDS: Final = frozenset({"ClusterPolicy", "Policy", "ValidatingAdmissionPolicy"})


@cache
def library_policies() -> tuple[Policy, ...]:
    """The policies of the library in path order; without those that do not compile and those of a name that was there
    before. Empty where the data is not."""
    found: list[Policy] = []
    names: set[tuple[str, str]] = set()
    for path in _files():
        if path.parent.name.startswith("."):
            continue
        policies = [d for d in _documents(path) if d.get("kind") in _KINDS]
        if not policies or compiled(yaml.safe_dump_all(policies), path.name) is None:
            continue
        for policy in policies:
            key = (policy["kind"], policy["metadata"]["name"])
            if key not in names:
                names.add(key)
                found.append(policy)
    return tuple(found)


def library_like(count: int) -> list[Policy]:
    """``count`` policies: those of the library over and over, each time under other names and with messages of their
    own, so that equal code does not fold into one function."""
    library = library_policies()
    made: list[Policy] = []
    for number in range(count if library else 0):
        turn, which = divmod(number, len(library))
        policy = library[which]
        if turn:
            policy = copy.deepcopy(policy)
            policy["metadata"]["name"] += f"-{turn}"
            _say(policy, f" ({turn})")
        made.append(policy)
    return made


def library_objects() -> list[dict[str, Any]]:
    """The objects that the tests of the library apply its policies to, in path order, without doubles."""
    found: dict[str, dict[str, Any]] = {}
    for path in _files():
        if path.parent.name != ".kyverno-test" or "resource" not in path.name:
            continue
        for document in _documents(path):
            if isinstance(document.get("metadata"), dict) and isinstance(document.get("apiVersion"), str):
                found.setdefault(repr(document), document)
    return list(found.values())


def _files() -> Iterator[Path]:
    root = conformance_folder() / "policies"
    return (p for p in sorted(root.rglob("*.yaml")) if not p.name.startswith("kyverno-test"))


def _documents(path: Path) -> list[dict[str, Any]]:
    try:
        documents = list(yaml.load_all(path.read_text(encoding="utf-8"), _LOADER))
    except yaml.YAMLError:
        return []
    return [d for d in documents if isinstance(d, dict)]


def _say(value: Any, more: str) -> None:
    """Adds to every message below a value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "message" and isinstance(inner, str):
                value[key] = inner + more
            else:
                _say(inner, more)
    elif isinstance(value, list):
        for inner in value:
            _say(inner, more)
