"""Runs cases of :mod:`fuzz.gen.rules` through the product and the reference, and tells where they differ.

Used by the fuzz target of contexts and loops and by ``python -m fuzz.long``.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from compiler import CompileResult
from fuzz.gen.rules import CALLS, GLOBAL, OBJECTS, Case
from runtime.cli.offline import Offline
from runtime.context.global_entries import GlobalEntries, GlobalEntry
from runtime.context.objects import Objects
from runtime.context.outside import Outside, Response
from runtime.engine import Engine
from runtime.generate import LABELS, MANAGED_BY, generate
from runtime.host import KEY as HOST
from runtime.host import Host
from runtime.mutate_existing import mutate_existing
from runtime.policyset import PolicySet
from runtime.request import Request, UserInfo
from tests.cases.engines import compiled
from tests.reference import evaluate
from tests.reference.evaluate import Prepared, Result, prepared
from tests.reference.query import equal
from tests.reference.world import World

WORLD: Final = World(objects=OBJECTS, calls=CALLS, global_entries=GLOBAL)
OUTSIDE: Final = Outside(
    responses=tuple(
        Response(c["urlPath"], c.get("method", "GET"), c["response"].get("statusCode", 200), c["response"]["body"])
        for c in CALLS
    ),
    entries=GlobalEntries({"allowed": GlobalEntry(GLOBAL["allowed"], {"first": "[0]"})}),
    objects=Objects(OBJECTS),
)
ENGINES: Final = ("O0", "O1", "O2", "tier 2")


@dataclass(frozen=True)
class Ready:
    """A case compiled for every engine, and prepared for the reference."""

    sets: dict[str, PolicySet]
    reference: Prepared


@dataclass(frozen=True)
class Difference:
    """One pair for which an engine does not answer as the reference does."""

    case: Case
    engine: str
    want: list[Result]
    got: list[Result]


def ready(case: Case, engines: tuple[str, ...] = ENGINES) -> Ready | None:
    """None when the compiler refuses the policy."""
    sets: dict[str, PolicySet] = {}
    bundles: dict[int, bytes] = {}
    for name in engines:
        level = int(name[1]) if name[0] == "O" else 2
        if level not in bundles:
            result: CompileResult = compiled(case.documents, level)
            if result.bundle is None:
                return None
            bundles[level] = result.bundle
        sets[name] = PolicySet.load(bundles[level], tier="1" if name[0] == "O" else "2")
    return Ready(sets, prepared(case.documents))


def by_product(policies: PolicySet, case: Case, at: int, host: Host | None = None) -> list[Result]:
    """The product's results: mutations, then what validates and works on other objects after them."""
    engine = Engine(policies)
    old = case.olds[at] if case.olds else None
    request = Request.from_resource(case.resources[at], case.operation, old, user=user_of(case), namespace_labels={})
    request.root[HOST] = host or Offline((), OUTSIDE)
    mutated = engine.evaluate(request, "mutate", full=True)
    if mutated.patched is not None:
        request = request.patched(mutated.patched)
    results = [*mutated.results, *engine.evaluate(request, "validate", full=True).results]
    made: dict[int, list[dict[str, Any]]] = {}
    for result in engine.evaluate(request, "background").results:
        if result.kind == "mutateExisting" and result.product is not None:
            results += [changed.result for changed in mutate_existing(result, request, engine.meter)]
        elif result.kind == "generate" and result.product is not None:
            generation = generate(result, request)
            made[len(results)] = [_unlabelled(m.object) for m in generation.made]
            results.append(generation.result)
        else:
            results.append(result)
    return [Result(r.policy, r.rule, r.status, r.message, r.patched, made.get(i)) for i, r in enumerate(results)]


def user_of(case: Case) -> UserInfo | None:
    if case.user is None:
        return None
    info = case.user["userInfo"]
    return UserInfo(
        username=info["username"],
        groups=tuple(info["groups"]),
        roles=tuple(case.user["roles"]),
        cluster_roles=tuple(case.user["clusterRoles"]),
    )


def _unlabelled(made: dict[str, Any]) -> dict[str, Any]:
    """Without the labels that say where a generated object comes from."""
    metadata = made["metadata"]
    kept = {k: v for k, v in (metadata.get("labels") or {}).items() if not k.startswith(LABELS) and k != MANAGED_BY}
    metadata = {k: v for k, v in metadata.items() if k != "labels"} | ({"labels": kept} if kept else {})
    return {**made, "metadata": metadata}


def by_reference(policies: Prepared, case: Case, at: int) -> list[Result]:
    return evaluate(
        policies,
        case.resources[at],
        operation=case.operation,
        old=case.olds[at] if case.olds else None,
        user=case.user,
        namespace_labels={},
        world=WORLD,
    )


def differences(case: Case, made: Ready, statuses: dict[str, int] | None = None) -> Iterator[Difference]:
    """Every pair of the case with every engine that answers otherwise. Counts the statuses where it is told where."""
    for at in range(len(case.resources)):
        want = by_reference(made.reference, case, at)
        if statuses is not None:
            for result in want:
                statuses[result.status] = statuses.get(result.status, 0) + 1
        one = replace(case, resources=[case.resources[at]], olds=case.olds[at : at + 1])
        for name, policies in made.sets.items():
            got = by_product(policies, case, at)
            if not same(got, want):
                yield Difference(one, name, want, got)


def same(got: list[Result], want: list[Result]) -> bool:
    """Statuses, messages of all but errors, and what was made of the object."""
    if len(got) != len(want):
        return False
    return all(
        (g.rule, g.status) == (w.rule, w.status)
        and (g.status == "error" or g.message == w.message)
        and equal(g.patched, w.patched)
        and (
            g.status == "error" or equal([*map(_unlabelled, g.generated or [])], [*map(_unlabelled, w.generated or [])])
        )
        for g, w in zip(got, want, strict=True)
    )


def reduced(found: Difference, seconds: float = 20.0) -> Difference:
    """The difference with everything taken away that it can do without."""
    from time import monotonic

    end = monotonic() + seconds

    def still(case: Case) -> Difference | None:
        try:
            made = ready(case, (found.engine,))
            return None if made is None else next(differences(case, made), None)
        except Exception:
            return None

    smaller = True
    while smaller and monotonic() < end:
        smaller = False
        for candidate in _smaller(found.case):
            if monotonic() > end:
                break
            again = still(candidate)
            if again is not None and again.engine == found.engine:
                found, smaller = again, True
                break
    return found


def _smaller(case: Case) -> Iterator[Case]:
    whole = {"documents": case.documents, "resources": case.resources, "olds": case.olds}
    for path in _paths(whole):
        if path[:2] == ("documents", 0) and path[2:] in (("kind",), ("apiVersion",), ("metadata",), ("spec",)):
            continue
        if path in (("documents",), ("resources",), ("resources", 0), ("documents", 0), ("olds",), ("olds", 0)):
            continue
        made = copy.deepcopy(whole)
        holder: Any = made
        for step in path[:-1]:
            holder = holder[step]
        del holder[path[-1]]
        yield replace(case, documents=made["documents"], resources=made["resources"], olds=made["olds"])


def _paths(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of the parts of a value, the big ones first."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    for key in keys:
        yield (*prefix, key)
    for key in keys:
        yield from _paths(value[key], (*prefix, key))


def told(found: Difference) -> str:
    """The difference for a person."""
    case = found.case
    lines = [json.dumps(d) for d in case.documents]
    if case.user is not None:
        lines.append(f"user: {json.dumps(case.user)}")
    lines.append(f"{case.operation} {json.dumps(case.resources[0])}")
    if case.olds:
        lines.append(f"old: {json.dumps(case.olds[0])}")
    lines += [f"reference: {found.want}", f"{found.engine}: {found.got}"]
    return "\n".join(lines)
