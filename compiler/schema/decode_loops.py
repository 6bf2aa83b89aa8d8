"""Normalised JSON of ``context`` and ``foreach`` to the model; called by ``compiler.schema.decode`` for rules of every
kind.

Expects what the structural check has passed; it reports nothing.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from compiler.schema.model import ContextEntry, ContextKind, Deny, ForEach, GenerateTarget, Target

Json: TypeAlias = Any

CONTEXT_KINDS: Final[tuple[ContextKind, ...]] = (
    "variable",
    "configMap",
    "apiCall",
    "globalReference",
    "imageRegistry",
)


def decode_context(entries: list[dict[str, Json]] | None, at: str) -> tuple[ContextEntry, ...]:
    """The entries of a ``context`` list; one of no known kind is left out (the check has refused it)."""
    found = []
    for i, entry in enumerate(entries or ()):
        kind = next((k for k in CONTEXT_KINDS if entry.get(k) is not None), None)
        if kind is not None:
            found.append(ContextEntry(entry["name"], kind, entry[kind], f"{at}/{i}"))
    return tuple(found)


def decode_foreach(entries: list[dict[str, Json]] | None, at: str) -> tuple[ForEach, ...]:
    """The entries of a ``foreach`` list of a validate, mutate or generate rule."""
    return tuple(_foreach(entry, f"{at}/{i}") for i, entry in enumerate(entries or ()))


def decode_generate_target(value: dict[str, Json], at: str) -> GenerateTarget:
    """What a generate rule, or an entry of its ``foreach``, makes."""
    return GenerateTarget(
        api_version=value.get("apiVersion") or "",
        kind=value.get("kind") or "",
        name=value.get("name") or "",
        namespace=value.get("namespace") or "",
        data=value.get("data"),
        clone=value.get("clone"),
        clone_list=value.get("cloneList"),
        pointer=at,
    )


def decode_targets(entries: list[dict[str, Json]] | None, at: str) -> tuple[Target, ...]:
    """The entries of ``mutate.targets``."""
    return tuple(
        Target(
            api_version=value.get("apiVersion") or "",
            kind=value.get("kind") or "",
            name=value.get("name") or "",
            namespace=value.get("namespace") or "",
            uid=value.get("uid") or "",
            selector=value.get("selector"),
            context=decode_context(value.get("context"), f"{at}/{i}/context"),
            preconditions=value.get("preconditions"),
            raw=value,
            pointer=f"{at}/{i}",
        )
        for i, value in enumerate(entries or ())
    )


def _foreach(value: dict[str, Json], at: str) -> ForEach:
    deny = value.get("deny")
    generates = any(value.get(key) is not None for key in ("data", "clone", "cloneList"))
    return ForEach(
        query=value.get("list") or "",
        raw=value,
        context=decode_context(value.get("context"), f"{at}/context"),
        preconditions=value.get("preconditions"),
        foreach=decode_foreach(value.get("foreach"), f"{at}/foreach"),
        element_scope=value.get("elementScope"),
        pattern=value.get("pattern"),
        any_pattern=value.get("anyPattern"),
        deny=Deny(deny.get("conditions")) if deny is not None else None,
        order=value.get("order"),
        patch_strategic_merge=value.get("patchStrategicMerge"),
        patches_json6902=value.get("patchesJson6902"),
        generate=decode_generate_target(value, at) if generates else None,
        pointer=at,
    )
