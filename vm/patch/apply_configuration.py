"""Mutations of a MutatingAdmissionPolicy: an apply configuration merged into an object as server-side apply merges, and
a list of ``JSONPatch`` operations. Called by the ``patch`` intrinsics.

``shape`` says how the fields of the kind merge, as far as the expression reaches: ``{"fields": {name: shape}}`` for a
map, ``{"list": "atomic" | "set" | "map", "keys": […], "item": shape}`` for a list, ``{"atomic": true}`` for a map that
is replaced whole. What has no shape merges as a plain map, or is replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from vm.cel.native import native
from vm.cel.values import Record
from vm.fuel import measure
from vm.host import Meter
from vm.intrinsics.text import json_text
from vm.patch import json6902
from vm.values import MISSING, Err, Value, canonical_key, size

ROOT: Final = "Object"
_PATCH: Final = "JSONPatch"
_LITERAL: Final[dict[str, Any]] = {}
_DEFAULTS: Final = {"protocol": "TCP"}
"""Of the keys of Kubernetes' list maps the one that has a default."""


def apply_configuration(meter: Meter, resource: Value, configuration: Value, shape: Value) -> Value:
    """The object with the configuration merged in, or an ``Err`` in the API server's words. Neither is changed."""
    measure(configuration.fields if type(configuration) is Record else configuration, meter)
    if type(configuration) is Err:
        return configuration
    if type(configuration) is not Record or configuration.name != ROOT:
        return Err("patch", "type mismatch: ApplyConfiguration expression should evaluate to an Object")
    wrong = _misnamed(configuration, ROOT)
    if wrong is not None:
        return Err("patch", f"type mismatch: {wrong}")
    patch = native(configuration)
    if type(patch) is Err:
        return patch
    wrong = "\n  ".join(_unmergeable(patch, shape, ""))
    if wrong:
        text = "error applying patch: failed to convert patch object to typed object: "
        return Err("patch", text + (f"errors:\n  {wrong}" if "\n" in wrong else wrong))
    atomics = list(_atomics(patch, shape, ""))
    if atomics:
        listed = ", ".join(atomics)
        text = "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
        return Err("patch", text + listed)
    return _merge(resource, patch, shape)


def json_patches(meter: Meter, resource: Value, operations: Value) -> Value:
    """The object after all operations; as it was where a ``test`` among them does not hold (the API server's rule)."""
    if type(operations) is Err:
        return operations
    if type(operations) is not list:
        return Err("patch", "type mismatch: JSONPatchType.expression should evaluate to array")
    steps: list[dict[str, Any]] = []
    meter.charge(len(operations) * (1 + size(resource) // 64))
    for operation in operations:
        if type(operation) is not Record or operation.name != _PATCH:
            return Err("patch", "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")
        value = operation.fields.get("value")
        if type(value) is Record and (wrong := _misnamed(value, value.name)) is not None:
            return Err("patch", f"type mismatch: {wrong}")
        step = native(operation)
        if type(step) is Err:
            return step
        steps.append(step)
    for n, step in enumerate(steps):
        if step.get("op") == "test":
            before = json6902.apply(resource, steps[:n])
            if type(before) is not Err and type(json6902.apply(before, [step])) is Err:
                return resource
    patched = json6902.apply(resource, steps)
    return Err("patch", f"JSON Patch: {patched.text}") if type(patched) is Err else patched


def _misnamed(value: Value, expected: str) -> str | None:
    """What is wrong with a record whose type is not named as the path of fields that leads to it."""
    if type(value) is Record:
        if value.name != expected:
            return (
                f'unexpected type name "{value.name}", expected "{expected}", which matches field name path from root'
                " Object type"
            )
        inner = [(v, f"{expected}.{k}") for k, v in value.fields.items()]
    elif type(value) is list:
        inner = [(v, expected) for v in value]
    elif type(value) is dict:
        inner = [(v, expected) for v in value.values()]
    else:
        return None
    return next((wrong for v, name in inner if (wrong := _misnamed(v, name)) is not None), None)


def _inner(shape: Value, key: str) -> Value:
    fields = shape.get("fields")
    return fields.get(key, _LITERAL) if type(fields) is dict else _LITERAL


def _atomics(patch: Value, shape: Value, path: str) -> Iterator[str]:
    """The paths of what a configuration may not set, since it would replace the whole."""
    if type(patch) is dict:
        if shape.get("atomic") is True:
            yield path
        for key, value in patch.items():
            yield from _atomics(value, _inner(shape, key), f"{path}.{key}")
    elif type(patch) is list:
        if shape.get("list") == "atomic":
            yield path
        for i, value in enumerate(patch):
            yield from _atomics(value, shape.get("item", _LITERAL), f"{path}[{i}]")


def _unmergeable(patch: Value, shape: Value, path: str) -> Iterator[str]:
    """What makes lists of a configuration unfit to be merged: elements without keys, or with the same keys twice."""
    if type(patch) is dict:
        for key, value in patch.items():
            yield from _unmergeable(value, _inner(shape, key), f"{path}.{key}")
    elif type(patch) is list and shape.get("list") in ("set", "map"):
        keys = shape.get("keys") or []
        seen: set[Any] = set()
        for i, element in enumerate(patch):
            if element is None:
                without = "associative list without keys has an element that's an explicit null"
                with_keys = "associative list with keys may not have a null element"
                yield f"{path}: element {i}: {with_keys if keys else without}"
            elif keys and type(element) is not dict:
                yield f"{path}: element {i}: associative list with keys may not have non-map elements"
            elif keys and not any(k in element or k in _DEFAULTS for k in keys):
                named = " ".join(map(json_text, keys))
                yield (
                    f"{path}: element {i}: associative list with keys has an element that omits all key fields "
                    f"[{named}] (and doesn't have default values for any key fields)"
                )
            elif (identity := _identity(element, shape)) in seen:
                yield f"{path}: duplicate entries for key {_shown(element, keys)}"
            else:
                seen.add(identity)
                yield from _unmergeable(element, shape.get("item", _LITERAL), path + _shown(element, keys))


def _shown(element: Value, keys: list[str]) -> str:
    """An element of a list as paths name it: ``[name="a"]``, of a set ``[="a"]``."""
    if not keys:
        return f"[={json_text(element)}]"
    given = ((k, element.get(k, _DEFAULTS.get(k))) for k in sorted(keys))
    return f"[{','.join(f'{k}={json_text(v)}' for k, v in given if v is not None)}]"


def _merge(live: Value, patch: Value, shape: Value) -> Value:
    if type(live) is dict and type(patch) is dict and shape.get("atomic") is not True:
        merged = dict(live)
        for key, value in patch.items():
            merged[key] = _merge(live[key], value, _inner(shape, key)) if key in live else value
        return merged
    if type(live) is list and shape.get("list") in ("set", "map"):
        if type(patch) is list:
            return _merge_list(live, patch, shape)
        # A null says nothing about a list that merges.
        return live if patch is None else patch
    return patch


def _merge_list(live: list[Value], patch: list[Value], shape: Value) -> list[Value]:
    """Elements by identity (a set: the value, a map: its keys), in an order that keeps that of both lists where they
    agree, and the patch's where they do not.

    An element of the object alone stays before whatever comes next. One that both have waits for its turn in the
    patch. Elements that the object has twice are not merged: the patch's takes their place (server-side apply).
    """
    item = shape.get("item", _LITERAL)
    ours = [_identity(x, shape) for x in live]
    theirs = [_identity(x, shape) for x in patch]
    wanted = set(theirs)
    out: list[Value] = []
    there: dict[Any, Value] = {}
    for identity, element in zip(ours, live, strict=True):
        there[identity] = MISSING if identity in there else element
    turns = [identity for identity in theirs if identity in there]
    turn = done = 0
    for identity, element in zip(ours, live, strict=True):
        until = done
        if identity not in wanted:
            out.append(element)
        elif turn < len(turns) and turns[turn] == identity:
            until = theirs.index(identity, done) + 1
            turn += 1
        elif turn == len(turns) and done < len(patch):
            # The second of two that the patch has replaced lets the next of the patch pass (structured-merge-diff).
            until = done + 1
        out += [_laid(there, theirs[n], patch[n], item) for n in range(done, until)]
        done = until
    out += [_laid(there, theirs[n], patch[n], item) for n in range(done, len(patch))]
    return out


def _laid(there: dict[Any, Value], identity: Any, element: Value, item: Value) -> Value:
    old = there.get(identity, MISSING)
    return element if old is MISSING else _merge(old, element, item)


def _identity(element: Value, shape: Value) -> Any:
    keys = shape.get("keys")
    if keys and type(element) is dict:
        return tuple(canonical_key(element.get(k, _DEFAULTS.get(k))) for k in keys)
    return canonical_key(element)
