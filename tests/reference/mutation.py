"""Mutation: JSON patches and strategic merges (semantics §16)."""

from __future__ import annotations

import copy
import itertools
from typing import Any

from tests.reference.query import equal
from tests.reference.scalars import json_text
from tests.reference.walk import anchor, match_pattern


class MutationError(Exception):
    """A patch that cannot be applied."""


class NothingToDo(Exception):
    """An anchor says that the rule does nothing. ``kind``: conditional or global."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


# --- JSON patch, §16.1 ---------------------------------------------------------------------------------------------


def json_patch(document: Any, operations: list[dict[str, Any]]) -> Any:
    document = copy.deepcopy(document)
    for operation in operations:
        steps = _steps(operation["path"])
        match operation["op"]:
            case "add":
                document = _json_add(document, steps, copy.deepcopy(operation.get("value")))
            case "remove":
                if _json_has(document, steps) and steps:
                    _json_delete(document, steps)
            case "replace":
                if not _json_has(document, steps):
                    raise MutationError(f"replace of {operation['path']}: nothing is there")
                document = _json_set(document, steps, copy.deepcopy(operation.get("value")))
            case "test":
                there = _json_has(document, steps)
                wanted = operation.get("value")
                if not (equal(_json_get(document, steps), wanted) if there else wanted is None):
                    raise MutationError(f"test of {operation['path']} fails")
            case "copy" | "move":
                source = _steps(operation["from"])
                if not _json_has(document, source):
                    raise MutationError(f"{operation['op']} from {operation['from']}: nothing is there")
                value = copy.deepcopy(_json_get(document, source))
                if operation["op"] == "move":
                    _json_delete(document, source)
                document = _json_add(document, steps, value)
            case other:
                raise MutationError(f"operation {other}")
    return document


def _steps(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise MutationError(f"path {pointer}")
    return [s.replace("~1", "/").replace("~0", "~") for s in pointer.split("/")[1:]]


def _place(items: list[Any], step: str) -> int | None:
    try:
        i = int(step)
    except ValueError:
        return None
    i = i + len(items) if i < 0 else i
    return i if 0 <= i < len(items) else None


def _json_has(document: Any, steps: list[str]) -> bool:
    for step in steps:
        if isinstance(document, dict) and step in document:
            document = document[step]
        elif isinstance(document, list) and _place(document, step) is not None:
            document = document[_place(document, step)]  # type: ignore[index]
        else:
            return False
    return True


def _json_get(document: Any, steps: list[str]) -> Any:
    for step in steps:
        document = document[step] if isinstance(document, dict) else document[_place(document, step)]
    return document


def _json_delete(document: Any, steps: list[str]) -> None:
    holder = _json_get(document, steps[:-1])
    del holder[steps[-1] if isinstance(holder, dict) else _place(holder, steps[-1])]


def _json_set(document: Any, steps: list[str], value: Any) -> Any:
    if not steps:
        return value
    holder = _json_get(document, steps[:-1])
    holder[steps[-1] if isinstance(holder, dict) else _place(holder, steps[-1])] = value
    return document


def _is_index(step: str) -> bool:
    return step.lstrip("-").isdigit()


def _json_add(document: Any, steps: list[str], value: Any) -> Any:
    if not steps:
        return value
    here = document
    for step, following in itertools.pairwise(steps):
        if _json_has(here, [step]) and _json_get(here, [step]) is not None:
            here = _json_get(here, [step])
            continue
        fresh: Any = {}
        if following == "-" or _is_index(following):
            fresh = [None] * max(0, int(following) if following != "-" else 0)
        if isinstance(here, dict):
            here[step] = fresh
        elif isinstance(here, list) and _place(here, step) is not None:
            here[_place(here, step)] = fresh  # type: ignore[index]
        elif isinstance(here, list) and (step in ("-", "-1") or (_is_index(step) and int(step) >= 0)):
            if step not in ("-", "-1"):
                here.extend([None] * (int(step) - len(here)))
            here.append(fresh)
        else:
            raise MutationError(f"add below {step}: no map or list is there")
        here = fresh
    last = steps[-1]
    if isinstance(here, dict):
        here[last] = value
    elif isinstance(here, list) and (last == "-" or _is_index(last)):
        i = len(here) if last == "-" else int(last)
        i = i + len(here) + 1 if i < 0 else i
        if not 0 <= i <= len(here):
            raise MutationError(f"index {last} is beyond the list")
        here.insert(i, value)
    else:
        raise MutationError(f"add of {last}: no map or list is there")
    return document


# --- strategic merge, §16.2 and §16.3 ------------------------------------------------------------------------------

_ABSENT: Any = object()
_EMPTY: Any = object()  # a part of the patch of which nothing is left

LIST_KEYS = {
    "containers": ["name"],
    "initContainers": ["name"],
    "ephemeralContainers": ["name"],
    "volumes": ["name"],
    "env": ["name"],
    "imagePullSecrets": ["name"],
    "volumeMounts": ["mountPath"],
    "volumeDevices": ["devicePath"],
    "hostAliases": ["ip"],
    "topologySpreadConstraints": ["topologyKey", "whenUnsatisfiable"],
}
PORT_KEYS = {"Service": ["port", "protocol"]}
ASSOCIATIVE = ["mountPath", "devicePath", "ip", "type", "topologyKey", "name", "containerPort"]
BUILT_IN_GROUPS = ("", "apps", "batch", "policy", "autoscaling", "extensions")


def strategic_merge(resource: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """The merged resource. Raises :class:`NothingToDo` and :class:`MutationError`."""
    resource = copy.deepcopy(resource)
    ready = _resolve(resource, copy.deepcopy(patch))
    if ready is _EMPTY:
        return resource
    group = str(resource.get("apiVersion", "")).rpartition("/")[0]
    known = group in BUILT_IN_GROUPS or group.endswith(".k8s.io")
    merged = _merge(resource, ready, "", str(resource.get("kind")) if known else None)
    return merged if merged is not _ABSENT else {}


def _sign(key: str) -> str | None:
    a = anchor(key)
    return a[0] if a and a[0] in ("", "<", "+") else None


def _has(value: Any, signs: str) -> bool:
    """Whether an anchor of one of the signs (``(`` for a conditional) is a key anywhere below."""
    if isinstance(value, dict):
        return any((_sign(k) is not None and (_sign(k) or "(") in signs) or _has(v, signs) for k, v in value.items())
    return isinstance(value, list) and any(_has(v, signs) for v in value)


def _resolve(resource: Any, patch: Any) -> Any:
    """The patch without anchors, ``_EMPTY`` when nothing but tests was in it."""
    if isinstance(patch, dict):
        return _resolve_map(resource, patch)
    if isinstance(patch, list) and patch and isinstance(patch[0], dict):
        return _resolve_list(resource, patch)
    return patch


def _resolve_map(resource: Any, patch: dict[str, Any]) -> Any:
    if not patch:
        return patch
    fields = resource if isinstance(resource, dict) else {}
    result: dict[str, Any] = {}
    for key, value in patch.items():
        if _sign(key) == "+":
            name = anchor(key)[1]  # type: ignore[index]
            if name not in fields:
                result[name] = value
        else:
            result[key] = value
    added: dict[str, Any] = {}
    for sign, kind in (("<", "global"), ("", "conditional")):
        for key in [k for k in result if _sign(k) == sign]:
            name = anchor(key)[1]  # type: ignore[index]
            additions = _test(fields, name, result[key], kind)
            if additions:
                added[key] = additions
    final: dict[str, Any] = {}
    for key, value in result.items():
        if _sign(key) is not None:
            name = anchor(key)[1]  # type: ignore[index]
            if key in added and name not in result:
                final[name] = added[key]
            continue
        done = _resolve(fields.get(key, _ABSENT), value)
        if done is not _EMPTY:
            final[key] = done
    return final if final else _EMPTY


def _test(fields: dict[str, Any], name: str, wanted: Any, kind: str) -> dict[str, Any]:
    """What a condition adds when it holds. Raises :class:`NothingToDo` when it does not."""
    if name not in fields:
        raise NothingToDo(kind)
    actual = fields[name]
    additions = {k: v for k, v in wanted.items() if _sign(k) == "+"} if isinstance(wanted, dict) else {}
    if additions:
        inside = actual if isinstance(actual, dict) else {}
        tests = {k: v for k, v in wanted.items() if k not in additions}
        if tests and match_pattern(actual, tests) is not None:
            raise NothingToDo(kind)
        names = {anchor(k)[1]: v for k, v in additions.items()}  # type: ignore[index]
        return {k: v for k, v in names.items() if k not in inside}
    if match_pattern(_as_text(actual), _as_text(wanted)) is not None:
        raise NothingToDo(kind)
    return {}


def _as_text(value: Any) -> Any:
    return value if isinstance(value, (str, dict, list)) else json_text(value)


class _At(dict[str, Any]):
    """A patch for one element of the resource's list, by position."""

    position: int = 0


def _resolve_list(resource: Any, patch: list[Any]) -> Any:
    if resource is _ABSENT or resource is None:
        elements: list[Any] = []
    elif isinstance(resource, list):
        elements = resource
    else:
        raise MutationError("a list of maps meets something that is no list")
    result: list[Any] = []
    for part in patch:
        if not _has(part, "(<+"):
            result.append(part)
        elif _has(part, "<"):
            _test_elements(elements, part)
        else:
            result += _element_patches(elements, part)
    return result if result else _EMPTY


def _test_elements(elements: list[Any], part: dict[str, Any]) -> None:
    failed = False
    for element in elements or [_ABSENT]:
        try:
            _resolve(element, copy.deepcopy(part))
            return
        except NothingToDo as nothing:
            failed = failed or nothing.kind == "global"
    if failed:
        raise NothingToDo("global")


def _element_patches(elements: list[Any], part: dict[str, Any]) -> list[Any]:
    wanted = part.get("name")
    made: list[Any] = []
    named = False
    for position, element in enumerate(elements):
        if not isinstance(element, dict) or not element.get("name"):
            continue
        if isinstance(wanted, str) and element["name"] != wanted:
            continue
        named = True
        try:
            done = _resolve(element, copy.deepcopy(part))
        except NothingToDo as nothing:
            if nothing.kind == "global":
                raise
            continue
        if done is not _EMPTY:
            at = _At(done)
            at.position = position
            made.append(at)
    if not named and isinstance(wanted, str) and not _has(part, "("):
        made.append(_resolve(_ABSENT, part))
    return made


def _merge(old: Any, new: Any, field: str, kind: str | None) -> Any:
    """``kind`` is None for a kind without a schema. ``_ABSENT``: the field goes."""
    if new is None:
        return _ABSENT
    if old is _ABSENT or old is None:
        return _cleaned(new)
    if isinstance(old, dict) and isinstance(new, dict):
        return _merge_maps(old, new, kind)
    if isinstance(old, list) and isinstance(new, list):
        return _merge_lists(old, new, field, kind)
    if isinstance(old, (dict, list)) or isinstance(new, (dict, list)):
        raise MutationError(f"{field}: the resource and the patch are of different kinds")
    return new


def _merge_maps(old: dict[str, Any], new: dict[str, Any], kind: str | None) -> Any:
    if new.get("$patch") == "delete":
        return _ABSENT
    if new.get("$patch") == "replace":
        return _cleaned(new)
    result = dict(old)
    for key, value in new.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.split("/", 1)[1]
            result[name] = [e for e in result.get(name, []) if e not in value]
        if key.startswith("$"):
            continue
        merged = _merge(result.get(key, _ABSENT), value, key, kind)
        if merged is _ABSENT:
            result.pop(key, None)
        else:
            result[key] = merged
    if "$retainKeys" in new:
        result = {k: v for k, v in result.items() if k in new["$retainKeys"]}
    return result


def _merge_lists(old: list[Any], new: list[Any], field: str, kind: str | None) -> Any:
    result = list(old)
    rest = []
    for part in new:
        if isinstance(part, _At):
            result[part.position] = _merge(result[part.position], dict(part), field, kind)
        else:
            rest.append(part)
    result = [e for e in result if e is not _ABSENT]
    if not rest and new:
        return result
    if {"$patch": "replace"} in rest:
        return _cleaned([e for e in rest if e != {"$patch": "replace"}])
    if field == "finalizers":
        return [e for e in rest if e not in result] + result
    keys = _keys(field, kind, result, rest)
    if keys is None:
        return _cleaned(rest) + result if len(rest) < len(new) else _cleaned(rest)
    front: list[Any] = []  # what the patch names comes first, in its order, whether it was there or not
    for part in rest:
        there = next((i for i, e in enumerate(result) if _same(e, part, keys)), None)
        if there is not None:
            front.append(_merge(result.pop(there), part, field, kind))
            continue
        again = next((i for i, e in enumerate(front) if _same(e, part, keys)), None)
        if again is not None:
            front[again] = _merge(front[again], part, field, kind)
        else:
            front.append(_cleaned(part))
    return [e for e in front if e is not _ABSENT] + result


def _same(element: Any, part: Any, keys: list[str]) -> bool:
    if not isinstance(element, dict) or not isinstance(part, dict) or part.get(keys[0]) is None:
        return False
    default = {"protocol": "TCP"}
    return all(equal(element.get(k, default.get(k)), part[k]) for k in keys if k in part)


def _keys(field: str, kind: str | None, old: list[Any], new: list[Any]) -> list[str] | None:
    if kind is not None:
        if field == "ports":
            return PORT_KEYS.get(kind, ["containerPort", "protocol"])
        return LIST_KEYS.get(field)
    if field == "ownerReferences":
        return ["uid"]
    for key in ASSOCIATIVE:
        if new and all(isinstance(e, dict) and key in e for e in [*old, *new]):
            return [key]
    return None


def _cleaned(value: Any) -> Any:
    """A new value: nulls and directives mean nothing in it."""
    if isinstance(value, dict):
        if value.get("$patch") == "delete":
            return _ABSENT
        made = {k: _cleaned(v) for k, v in value.items() if v is not None and not k.startswith("$")}
        return {k: v for k, v in made.items() if v is not _ABSENT}
    if isinstance(value, list):
        return [v for v in map(_cleaned, value) if v is not _ABSENT]
    return value
