"""Strategic merge: a patch shaped like the resource, with anchors and directives, laid over it (semantics §16.2 and
§16.3). Called by the ``patch.strategic`` intrinsic.

Copies only what changes; where nothing changes the very same object comes back, so that a caller sees a merge without
effect by identity. Lists of maps merge by the keys of :mod:`vm.patch.merge_keys`: elements that the patch
names go in front, in its order, known ones too (Kyverno's choice, on which its reversed foreach rests); only elements
that an anchor has found change where they stand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from vm.host import Imports, Meter
from vm.patch.merge_keys import ASSOCIATIVE_KEYS, KEY_DEFAULTS, PLAIN, ListOf, MapOf, schema_of
from vm.patch.preprocess import At, Charge, Match, preprocess
from vm.values import MISSING, Err, Value, is_list, is_map, json_equal

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_SET_ORDER: Final = "$setElementOrder/"
_PLACES_A_UNIT: Final = 16
"""Elements of a list looked at for a unit of fuel: about a microsecond."""


class _Refused(Exception):
    """Carries a failed merge out of the recursion; never leaves this module."""


def strategic(imports: Imports, meter: Meter, resource: Value, patch: Value, kind: Value) -> Value:
    """Body of ``patch.strategic``: ``kind`` is the list group, version, kind, subresource.

    Answers the new resource (the same object when nothing changes), ``Err("conditional" | "global")`` when an anchor
    says that the rule does nothing, and ``Err("patch")`` when the patch does not fit.
    """
    return _laid(preprocess, imports, meter, resource, patch, kind)


def strategic_kyverno(imports: Imports, meter: Meter, resource: Value, patch: Value, kind: Value) -> Value:
    """Body of ``patch.strategic_kyverno``: anchors in lists as the reference resolves them."""
    from vm.patch import preprocess_kyverno

    return _laid(preprocess_kyverno.preprocess, imports, meter, resource, patch, kind)


def _laid(
    resolve: Callable[[Value, Value, Match, Charge], Value],
    imports: Imports,
    meter: Meter,
    resource: Value,
    patch: Value,
    kind: Value,
) -> Value:
    from vm.intrinsics.pattern_walk import walk

    def match(value: Value, pattern: Value) -> Err | None:
        found: Err | None = walk(imports, meter, value, pattern)
        return found

    ready = resolve(resource, patch, match, meter.charge)
    if type(ready) is Err:
        return ready
    group, name = (kind[0], kind[2]) if is_list(kind) and len(kind) >= 3 else ("", "")
    if type(group) is not str or type(name) is not str:
        return Err("patch", "a kind is made of texts")
    return merge(resource, ready, (group, name), meter)


def merge(resource: Value, patch: Value, kind: tuple[str, str], meter: Meter | None = None) -> Value:
    """Lays a preprocessed patch over the resource of a kind (group, kind); ``Err("patch")`` when they do not fit
    together.
    """
    if not is_map(patch):
        return Err("patch", "a strategic merge patch must be a map")
    if not is_map(resource):
        return Err("patch", "a strategic merge needs a resource that is a map")
    schema = schema_of(*kind)
    merger = _Merger(meter or Meter(), schema.infer)
    try:
        done = merger.mapping(resource, patch, schema, "")
    except _Refused as refused:
        return Err("patch", str(refused))
    return {} if done is MISSING else done


@dataclass(frozen=True, slots=True)
class _Merger:
    meter: Meter
    infer: bool

    def value(self, old: Value, new: Value, schema: MapOf | ListOf, path: str) -> Value:
        """The merged value, ``MISSING`` when it goes."""
        self.meter.charge(1)
        if new is None:
            return MISSING
        if old is MISSING or old is None:
            return self.fresh(new, schema)
        if is_map(old) and is_map(new):
            return self.mapping(old, new, schema if isinstance(schema, MapOf) else PLAIN, path)
        if is_list(old) and is_list(new):
            return self.sequence(old, new, schema, path)
        if type(old) in (dict, list) or type(new) in (dict, list):
            raise _Refused(f"wrong node kind at {path}: the resource has {_word(old)}, the patch {_word(new)}")
        return old if json_equal(old, new) and type(old) is type(new) else new

    def mapping(self, old: dict[str, Any], new: dict[str, Any], schema: MapOf, path: str) -> Value:
        self.meter.charge(1 + len(old) // 64)
        directive = new.get(_DIRECTIVE)
        if directive == "delete":
            return MISSING
        if directive == "replace":
            return self.fresh(new, schema)
        result = dict(old)
        changed = False
        for key, part in new.items():
            if key.startswith("$"):
                if key.startswith(_DELETE_FROM):
                    changed |= _delete_from(result, key[len(_DELETE_FROM) :], part)
                if key in (_DIRECTIVE, _RETAIN) or key.startswith((_DELETE_FROM, _SET_ORDER)):
                    continue
            before = result.get(key, MISSING)
            after = self.value(before, part, schema.fields.get(key, PLAIN), f"{path}/{key}")
            if after is before:
                continue
            changed = True
            if after is MISSING:
                del result[key]
            else:
                result[key] = after
        retain = new.get(_RETAIN)
        if is_list(retain):
            for key in [k for k in result if k not in retain]:
                changed = True
                del result[key]
        return result if changed else old

    def sequence(self, old: list[Any], new: list[Any], schema: MapOf | ListOf, path: str) -> Value:
        self.meter.charge(1 + len(old) // 64)
        item = schema.item if isinstance(schema, ListOf) else PLAIN
        result: Any = list(old)
        changed = False
        rest: list[Any] = []
        for part in new:
            if type(part) is not At:
                rest.append(part)
                continue
            after = self.value(result[part.index], part.patch, item, f"{path}/{part.index}")
            changed |= after is not result[part.index]
            result[part.index] = after
        result = [e for e in result if e is not MISSING]
        if rest or not new:
            after = self.rest(result, rest, schema, path, in_place=len(rest) < len(new))
            changed |= after is not result
            result = after
        if result is MISSING:
            return MISSING
        return result if changed else old

    def rest(self, old: list[Any], new: list[Any], schema: MapOf | ListOf, path: str, *, in_place: bool) -> Value:
        """Merges the elements that have no place of their own yet."""
        match [e.get(_DIRECTIVE) for e in new if is_map(e) and len(e) == 1 and _DIRECTIVE in e]:
            case ["replace", *_]:
                return self.fresh([e for e in new if e != {_DIRECTIVE: "replace"}], schema)
            case ["delete", *_]:
                return MISSING
        if isinstance(schema, ListOf) and not schema.keys:
            added = [e for i, e in enumerate(new) if not _holds(old, e) and not _holds(new[:i], e)]
            return [*added, *old] if added else old
        keys = schema.keys if isinstance(schema, ListOf) else self.inferred(old, new)
        if keys is not None:
            return self.by_keys(old, new, keys, schema.item if isinstance(schema, ListOf) else PLAIN, path)
        made = self.fresh(new, schema)
        if in_place:  # some elements of this list are patched where they stand: none may be lost
            return [*made, *old]
        return old if json_equal(old, made) else made

    def inferred(self, old: list[Any], new: list[Any]) -> tuple[str, ...] | None:
        if not self.infer or not new:
            return None
        both = [*old, *new]
        for key in ASSOCIATIVE_KEYS:
            if all(is_map(e) and key in e for e in both):
                return (key,)
        return None

    def by_keys(self, old: list[Any], new: list[Any], keys: tuple[str, ...], item: MapOf, path: str) -> list[Any]:
        """Elements that the patch names come first, in the patch's order, also those that were there (Kyverno; public
        cluster tests assert it)."""
        rest = list(old)
        named: list[Any] = []
        for part in new:
            self.meter.charge(1 + len(rest) // _PLACES_A_UNIT)
            place = _place(rest, part, keys)
            if place is not None:
                named.append(self.value(rest.pop(place), part, item, f"{path}/{place}"))
                continue
            place = _place(named, part, keys)
            if place is not None:
                named[place] = self.value(named[place], part, item, f"{path}/{place}")
            else:
                named.append(self.fresh(part, item))
        merged = [*(e for e in named if e is not MISSING), *rest]
        return old if len(merged) == len(old) and all(a is b for a, b in zip(merged, old, strict=True)) else merged

    def fresh(self, new: Value, schema: MapOf | ListOf) -> Value:
        """A value the resource did not have: without the nulls and directives that only make sense in a merge."""
        self.meter.charge(1)
        if is_map(new):
            if new.get(_DIRECTIVE) == "delete":
                return MISSING
            fields = schema.fields if isinstance(schema, MapOf) else {}
            made = {
                k: v
                for k, part in new.items()
                if part is not None
                and not (k in (_DIRECTIVE, _RETAIN) or k.startswith((_DELETE_FROM, _SET_ORDER)))
                and (v := self.fresh(part, fields.get(k, PLAIN))) is not MISSING
            }
            return new if len(made) == len(new) and all(made[k] is new[k] for k in new) else made
        if is_list(new):
            item = schema.item if isinstance(schema, ListOf) else PLAIN
            items = [v for e in new if (v := self.fresh(e, item)) is not MISSING]
            return new if len(items) == len(new) and all(x is y for x, y in zip(items, new, strict=True)) else items
        return new


def _place(elements: list[Any], part: Value, keys: tuple[str, ...]) -> int | None:
    """Where the element is that a patch element names; secondary keys count only when the patch element has them."""
    if not is_map(part) or part.get(keys[0]) is None:
        return None
    first, *others = [(k, part[k], KEY_DEFAULTS.get(k)) for k in keys if k in part]
    key, wanted, default = first
    plain = type(wanted) is str  # == does: a loop over thousands of elements comes here for each
    for i, e in enumerate(elements):
        if not is_map(e):
            continue
        found = e.get(key, default)
        if (found == wanted if plain else json_equal(found, wanted)) and all(
            json_equal(e.get(k, d), w) for k, w, d in others
        ):
            return i
    return None


def _holds(elements: list[Any], value: Value) -> bool:
    return any(json_equal(e, value) for e in elements)


def _delete_from(result: dict[str, Any], field: str, values: Value) -> bool:
    old = result.get(field)
    if not is_list(old) or not is_list(values):
        return False
    left = [e for e in old if not _holds(values, e)]
    if len(left) == len(old):
        return False
    result[field] = left
    return True


def _word(value: Value) -> str:
    return "a map" if is_map(value) else "a list" if is_list(value) else "a scalar"
