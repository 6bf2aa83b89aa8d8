"""Lowers the mutations of a MutatingAdmissionPolicy: each expression sees the object as the one before left it.

Called by :mod:`compiler.frontends.mutate`. Variables of the policy are computed before each expression, anew for the
changed object: an error is a value, and shows only where the variable is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from compiler.diagnostics import Reporter
from compiler.frontends.cel.types import DYN, STRING, Type
from compiler.frontends.rule import RESOURCE, RuleFrame
from compiler.ir.ops import Const, Expr, Invoke, Local, Op
from compiler.schema.kinds import Schemas, provider
from compiler.schema.model import CelMutation, Filter

APPLIED: Final = "mutation is successfully applied"
_PATCH_FIELDS: Final[Mapping[str, Type]] = {"op": STRING, "path": STRING, "from": STRING, "value": DYN}
_DEEPEST: Final = 24


class AnyField(Mapping[str, Type]):
    """The fields of an ``Object…`` type: any name, any value; the API server finds out when it applies them."""

    def __getitem__(self, name: str) -> Type:
        return DYN

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __contains__(self, name: object) -> bool:
        return True


class MutationMessages(Mapping[str, Mapping[str, Type]]):
    """The message types that expressions of mutations may construct: ``JSONPatch``, ``Object`` and ``Object.spec.…``
    after the path of fields that leads there."""

    def __getitem__(self, name: str) -> Mapping[str, Type]:
        if name == "JSONPatch":
            return _PATCH_FIELDS
        if name == "Object" or name.startswith("Object."):
            return AnyField()
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(("JSONPatch", "Object"))

    def __len__(self) -> int:
        return 2


def merge_shape(filters: tuple[Filter, ...], text: str, schemas: Schemas | None = None) -> dict[str, Any]:
    """How the fields merge that an expression may set (see :mod:`vm.patch.apply_configuration`): those of the kinds'
    schemas whose names stand in the text, all others have no say."""
    known = schemas or provider()
    objects = [o for f in filters for kind in f.kinds for o in known.select(kind) or ()]
    shape: dict[str, Any] = {}
    for definition in dict.fromkeys(o.name for o in objects):
        _join(shape, _fields(known, definition, text, _DEEPEST))
    return shape


def _join(shape: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(shape.get(key), dict):
            _join(shape[key], value)
        else:
            shape.setdefault(key, value)


def _fields(schemas: Schemas, definition: str, text: str, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in schemas.fields(definition) or ():
        if name not in text or depth == 0:
            continue
        inner = schemas.element(definition, name)
        shape: dict[str, Any] = _fields(schemas, inner, text, depth - 1) if inner is not None else {}
        info = schemas.list_info(definition, name)
        if info is not None:
            shape = {"list": info.type, "keys": list(info.keys), "item": shape}
        elif schemas.atomic(definition, name):
            shape = {"atomic": True, **shape}
        if shape:
            found[name] = shape
    return {"fields": found} if found else {}
