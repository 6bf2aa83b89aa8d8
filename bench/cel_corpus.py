"""A corpus of CEL expressions from public policies, each with objects that it is asked of.

The expressions are read from the policy library of the conformance data where it lies: every fifth expression of
``validate.cel`` and ValidatingAdmissionPolicies in path order, without those that are a bare constant or that read more
than ``object`` and ``oldObject``. Variables of a policy are written out where they are used, so that every engine sees
one text that the API server takes. The objects come from the policy's own tests, and from them by seeded small changes.
``make bench`` times the corpus, the cluster tests judge it against the API server.
"""

from __future__ import annotations

import copy
import os
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

Json = Any

STEP: Final = 5
MOST: Final = 64
"""Samples of one expression at most."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXTS: Final = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")
_OTHERS: Final = re.compile(r"\b(params|namespaceObject|request|authorizer|variables)\b(?!\s*[:'\"])")
_PATHS: Final = re.compile(r"\bobject((?:\.\??[A-Za-z_]\w*\b(?!\()|\[\??'[^']*'\])+)")
_STEP: Final = re.compile(r"\.\??(\w+)|\[\??'([^']*)'\]")
_VALUES: Final[tuple[Json, ...]] = ("", "x", "default", 0, 1, -1, 3000, 1.5, True, False, None, [], {}, ["x"])


@dataclass(frozen=True, slots=True)
class Expression:
    """``text`` stands alone, over ``object`` and ``oldObject``; ``samples`` are objects of the policy's own tests that
    the expression may be asked of, in path order, without doubles."""

    policy: str
    text: str
    samples: tuple[Json, ...]


def conformance_folder() -> Path:
    """Where the conformance data lies: ``THESMOS_CONFORMANCE``, by default beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "conformance"
    return Path(os.environ.get("THESMOS_CONFORMANCE", beside))


def corpus(root: Path) -> list[Expression]:
    """The expressions of the library below ``root/policies``; empty when it is not there. An expression whose policy
    has no test objects gets those of other policies on its kinds."""
    found = [e for path in sorted((root / "policies").rglob("*.yaml")) for e in _of_file(path, root)]
    chosen = []
    for name, kinds, text, samples in found[::STEP]:
        if text in ("true", "false") or _OTHERS.search(text):
            continue
        near = samples or [x for _, others, _, xs in found if kinds & others for x in xs if x["kind"] in kinds]
        chosen.append(Expression(name, text, tuple(near[:MOST])))
    return chosen


def _of_file(path: Path, root: Path) -> Iterator[tuple[str, frozenset[str], str, list[Json]]]:
    if any(part.startswith(".") for part in path.relative_to(root).parts):
        return
    text = path.read_text(encoding="utf-8")
    if "expression" not in text:
        return
    name = str(path.relative_to(root))
    for document in yaml.load_all(text, _LOADER):
        if not isinstance(document, dict):
            continue
        for kinds, variables, validations in _parts(document):
            for validation in validations:
                text = _standing_alone(validation["expression"], variables)
                yield name, kinds, text, _samples(path.parent, kinds)


def _parts(document: dict[str, Json]) -> Iterator[tuple[frozenset[str], list[Json], list[Json]]]:
    """The kinds that are matched, the variables and the validations of each CEL rule of a policy document."""
    spec = document.get("spec") or {}
    if document.get("kind") in ("ClusterPolicy", "Policy"):
        for rule in spec.get("rules") or ():
            cel = (rule.get("validate") or {}).get("cel") or {}
            if cel.get("expressions"):
                yield frozenset(_kinds(rule.get("match"))), cel.get("variables") or [], cel["expressions"]
    elif document.get("kind") == "ValidatingAdmissionPolicy":
        yield frozenset(), spec.get("variables") or [], spec.get("validations") or []


def _kinds(match: Json) -> Iterator[str]:
    if isinstance(match, dict):
        for key, value in match.items():
            if key == "kinds":
                yield from (str(kind).rpartition("/")[2] for kind in value)
            else:
                yield from _kinds(value)
    elif isinstance(match, list):
        for value in match:
            yield from _kinds(value)


def _standing_alone(expression: str, variables: list[Json]) -> str:
    """The expression with the variables it needs written out, the last first: one may use those before it."""
    text = expression.strip()
    for variable in reversed(variables):
        used = re.compile(rf"\bvariables\.{re.escape(variable['name'])}\b")
        text = f"({variable['expression'].strip()})".join(used.split(text))
    return text


@cache
def _samples(folder: Path, kinds: frozenset[str]) -> list[Json]:
    found: list[Json] = []
    for path in sorted(folder.rglob("*.yaml")):
        if path.parent == folder:
            continue
        try:
            documents = list(yaml.load_all(path.read_text(encoding="utf-8"), _LOADER))
        except yaml.YAMLError:
            continue
        for document in documents:
            if isinstance(document, dict) and isinstance(document.get("metadata"), dict):
                of_kind = "*" in kinds or document.get("kind") in kinds
                if of_kind and document not in found:
                    found.append(document)
    return found


def objects(expression: Expression, count: int, seed: int = 5) -> list[Json]:
    """``count`` objects to ask an expression of: its samples, then seeded changes of them (a field taken away, another
    value put in its place, most of them texts that the expression names, or a value at a path that it reads)."""
    rng = random.Random(f"{seed} {expression.policy}")
    texts = [a or b for a, b in _TEXTS.findall(expression.text)]
    paths = [[a or b for a, b in _STEP.findall(found)] for found in _PATHS.findall(expression.text)]
    start = list(expression.samples) or [{"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": {}}]
    made = start[:count]
    while len(made) < count:
        changed = copy.deepcopy(rng.choice(start))
        for _ in range(rng.randint(1, 3)):
            _change(changed, texts, paths, rng)
        if texts and rng.random() < 0.2:
            _fill(changed, texts)
        made.append(changed)
    return made


def _change(document: Json, texts: list[str], paths: list[list[str]], rng: random.Random) -> None:
    chosen = copy.deepcopy(rng.choice(texts) if texts and rng.random() < 0.6 else rng.choice(_VALUES))
    if paths and rng.random() < 0.4:
        path = rng.choice(paths)
        _put(document, [*path, rng.choice(texts)] if texts and rng.random() < 0.2 else path, chosen)
        return
    places = [p for p in _places(document) if p[1] not in ("apiVersion", "kind", "metadata", "name")]
    if not places:
        return
    holder, key = rng.choice(places)
    if rng.random() < 0.4:
        del holder[key]
    else:
        holder[key] = chosen


def _fill(document: Json, texts: list[str]) -> None:
    """Makes every list of texts one of the expression's texts: what is looked for in several lists is then there."""
    for holder, key in _places(document):
        found = holder[key]
        if isinstance(found, list) and found and all(isinstance(x, str) for x in found):
            holder[key] = list(texts)


def _put(document: Json, path: list[str], value: Json) -> None:
    """Sets the value at a path, through the maps that are there or new ones."""
    for step in path[:-1]:
        inner = document.get(step)
        if not isinstance(inner, dict):
            inner = document[step] = {}
        document = inner
    document[path[-1]] = value


def _places(value: Json) -> list[tuple[Json, Json]]:
    found: list[tuple[Json, Json]] = []
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        found.append((value, key))
        found += _places(inner)
    return found


def pair(
    expression: Expression, ask: Callable[[str, Json, Json], Json], tries: int = 400
) -> tuple[tuple[Json, Json], tuple[Json, Json]] | None:
    """An (object, oldObject) of which the expression is true and one of which it is false, the nearest to the policy's
    own samples; None when no try gives both. ``ask`` evaluates a text on an object and an old one."""
    found: dict[bool, tuple[Json, Json]] = {}
    made = objects(expression, tries)
    for i, new in enumerate(made):
        old = made[i // 2] if "oldObject" in expression.text else None
        value = ask(expression.text, new, old)
        if isinstance(value, bool):
            found.setdefault(value, (new, old))
        if len(found) == 2:
            return found[True], found[False]
    return None
