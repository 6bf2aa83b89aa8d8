"""Runs policies through the product in the terms of the reference: compiled, bundled, verified, then run on a tier."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Literal

from compiler import CompileResult, Options, compile_policies, load_documents
from compiler.diagnostics import Reporter
from runtime.cleanup import removal
from runtime.cli.offline import Offline
from runtime.context.global_entries import GlobalEntries, GlobalEntry
from runtime.context.objects import Objects
from runtime.context.outside import Outside, Response
from runtime.engine import Engine
from runtime.generate import LABELS, MANAGED_BY, generate
from runtime.host import KEY as HOST
from runtime.mutate_existing import mutate_existing
from runtime.policyset import PolicySet
from runtime.request import Request, UserInfo
from tests.reference import Result

Tier = Literal["1", "2", "check"]


class Refused(Exception):
    """The compiler does not accept the policies."""


def compiled(policies: list[dict[str, Any]], level: int = 2, quirks: str = "") -> CompileResult:
    """Documents through YAML text, as a user would give them."""
    text = "\n---\n".join(json.dumps(p) for p in policies)
    reporter = Reporter()
    documents = load_documents(text, "case.yaml", reporter)
    return compile_policies(documents, options=Options(level=level, quirks=quirks))


@lru_cache(maxsize=64)
def _bundle(text: str, level: int, quirks: str) -> bytes:
    result = compiled(json.loads(text), level, quirks)
    if result.bundle is None:
        raise Refused("; ".join(f"{d.code} {d.message}" for d in result.diagnostics))
    return result.bundle


@lru_cache(maxsize=64)
def _loaded(text: str, level: int, tier: Tier, quirks: str = "") -> PolicySet:
    return PolicySet.load(_bundle(text, level, quirks), tier=tier)


def run_product(
    policies: list[dict[str, Any]],
    resource: dict[str, Any],
    *,
    level: int = 2,
    tier: Tier = "1",
    operation: str = "CREATE",
    old: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    namespace_labels: dict[str, str] | None = None,
    values: dict[str, Any] | None = None,
    params: tuple[dict[str, Any], ...] = (),
    namespace_object: dict[str, Any] | None = None,
    quirks: str = "",
    world: dict[str, Any] | None = None,
) -> list[Result]:
    """Mutations, then validations of what they made. Raises :class:`Refused`."""
    engine = Engine(_loaded(json.dumps(policies), level, tier, quirks))
    request = Request.from_resource(
        resource,
        operation,
        old,
        user=None if user is None else _user(user),
        namespace_labels=namespace_labels,
        namespace_object=namespace_object,
        values=values,
    )
    request.root[HOST] = Offline(params, *_outside(world or {}))
    mutated = engine.evaluate(request, "mutate", full=True)
    if mutated.patched is not None:
        request = request.patched(mutated.patched)
    validated = engine.evaluate(request, "validate", full=True)
    results = [*mutated.results, *validated.results]
    made: dict[str, list[dict[str, Any]]] = {}
    for result in engine.evaluate(request, "background").results:
        if result.kind == "mutateExisting" and result.product is not None:
            results += [changed.result for changed in mutate_existing(result, request, engine.meter)]
        elif result.kind == "generate":
            generation = generate(result, request)
            results.append(generation.result)
            made[result.rule] = [_without_origin(m.object) for m in generation.made]
        elif result.kind != "cleanup":
            results.append(result)
    gone = [removal(engine, plan, request) for plan in engine.policies.rules if plan.kind == "cleanup"]
    results += [one.result for one in gone if one is not None]
    return [Result(r.policy, r.rule, r.status, r.message, r.patched, made.get(r.rule)) for r in results]


def _without_origin(made: dict[str, Any]) -> dict[str, Any]:
    """An object without the labels that say where it comes from."""
    labels = {k: v for k, v in made["metadata"]["labels"].items() if k != MANAGED_BY and not k.startswith(LABELS)}
    metadata = {k: v for k, v in made["metadata"].items() if k != "labels"}
    return {**made, "metadata": {**metadata, "labels": labels} if labels else metadata}


def _outside(world: dict[str, Any]) -> tuple[Outside, dict[str, dict[str, list[Any]]]]:
    """What a case says of the world outside, as the product takes it."""
    responses = tuple(
        Response(
            call.get("urlPath") or call["url"],
            call.get("method", "GET"),
            call["response"].get("statusCode", 200),
            call["response"].get("body"),
        )
        for call in world.get("calls", ())
    )
    entries = {name: GlobalEntry(data) for name, data in world.get("globalEntries", {}).items()}
    outside = Outside(
        responses,
        GlobalEntries(entries) if entries else None,
        Objects(world["objects"]) if "objects" in world else None,
        world.get("images"),
    )
    return outside, {"r": world["foreachValues"]} if "foreachValues" in world else {}


def _user(user: dict[str, Any]) -> UserInfo:
    info = user.get("userInfo") or {}
    return UserInfo(
        username=info.get("username", ""),
        groups=tuple(info.get("groups") or ()),
        roles=tuple(user.get("roles") or ()),
        cluster_roles=tuple(user.get("clusterRoles") or ()),
    )
