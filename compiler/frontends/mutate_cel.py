"""Lowers the mutations of a MutatingAdmissionPolicy: each expression sees the object as the one before left it.

Called by :mod:`compiler.frontends.admission_policy`. The first expression finds the variables of the policy as every
rule has them; for the changed object those that an expression names are computed before it: an error is a value, and
shows only where the variable is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from compiler.frontends.cel.declarations import MUTATION_LIBRARIES
from compiler.frontends.cel.types import DYN, STRING, ListOf, Message, Type
from compiler.frontends.expressions import Expressions
from compiler.frontends.rule import RuleFrame
from compiler.frontends.validate_cel import Manner, lower_conditions, outcome
from compiler.ir.build import any_of
from compiler.ir.ops import Choose, Const, Expr, Invoke, Load, Op
from compiler.schema.kinds import Schemas
from compiler.schema.model import CelMutate, CelMutation, Filter, NamedExpression

APPLIED: Final = "mutation is successfully applied"
_PATCH_FIELDS: Final[Mapping[str, Type]] = {"op": STRING, "path": STRING, "from": STRING, "value": DYN}
_DEEPEST: Final = 24
_OBJECT: Final = Load(("$object",))
_WHOLE: Final = re.compile(r"\bvariables\b(?!\s*\.\s*\??\s*[A-Za-z_])")


def lower_mutations(
    frame: RuleFrame, expressions: Expressions, mutate: CelMutate, manner: Manner, schemas: Schemas
) -> None:
    """Emits the body of the rule: match conditions, then one mutation after the other."""
    b = frame.builder
    # On DELETE there is no object that could be changed.
    b.ret_if(Op("is_absent", (_OBJECT,)), Op("o_none"), frame.at("mutations"))
    first = expressions.about(expressions.reporter, expressions.env)
    for variable in mutate.variables:
        first.declare(variable)
    skip = Op("o_skip", (Const(manner.not_met),))
    broken = outcome(manner.condition_errors, skip)
    lower_conditions(b, first, frame.rule.cel_preconditions, skip, broken, frame.at("matchConditions"))
    current: Expr = _OBJECT
    for number, mutation in enumerate(mutate.mutations):
        own = first
        if number:
            # What is wrong with a variable was said of the first mutation.
            own = expressions.about(None, expressions.env, object=current)
            for variable in _needed(mutation.expression, mutate.variables):
                own.compute(variable, b)
            own = own.telling(expressions.reporter)
        frame.places.add(mutation.pointer)
        current = _mutated(frame, own, mutation, current, manner, _shape(frame, mutate, mutation, schemas))
    b.ret_if(Op("equal", (current, _OBJECT)), Op("o_pass"), frame.at("mutations"))
    b.ret(Op("o_patch", (current, Const(APPLIED))), frame.at("mutations"))


def _mutated(
    frame: RuleFrame, own: Expressions, mutation: CelMutation, current: Expr, manner: Manner, shape: dict[str, Any]
) -> Expr:
    """The object after a mutation, as a local. One that fails ends the rule; where failures are ignored the object
    stays as it was."""
    b, at = frame.builder, mutation.pointer
    env = replace(own.env, libraries=MUTATION_LIBRARIES, messages=MutationMessages())
    merges = mutation.patch_type == "ApplyConfiguration"
    wanted: Type = Message("Object") if merges else ListOf(Message("JSONPatch"))
    value = b.let(own.within(env).value(mutation.expression, at, b, wanted), "V", "mutation", at)
    patch = Invoke("patch.apply_configuration", (current, value, Const(shape))) if merges else None
    new = b.let(patch or Invoke("patch.cel_json", (current, value)), "V", "mutated", at)
    failed = any_of([Op("is_err", (value,)), Op("is_err", (new,))])
    if manner.expression_errors == "ignore":
        return b.let(Choose(failed, current, new), "V", "object", at)
    said = Invoke("cel_rule.error", (value, Const(mutation.expression)))
    b.ret_if(Op("is_err", (value,)), Op("o_error", (said,)), at)
    b.ret_if(Op("is_err", (new,)), Op("o_error", (Invoke("pat.text", (new,)),)), at)
    return new


def _needed(text: str, variables: tuple[NamedExpression, ...]) -> list[NamedExpression]:
    """The variables that an expression may read, those among them that others read too, in their order."""
    needed: list[NamedExpression] = []
    texts = [text]
    for variable in reversed(variables):
        name = re.compile(rf"\b{re.escape(variable.name)}\b")
        if any(name.search(t) or _WHOLE.search(t) for t in texts):
            needed.append(variable)
            texts.append(variable.expression)
    return needed[::-1]


def _shape(frame: RuleFrame, mutate: CelMutate, mutation: CelMutation, schemas: Schemas) -> dict[str, Any]:
    if mutation.patch_type != "ApplyConfiguration":
        return {}
    text = "\n".join([mutation.expression, *(v.expression for v in mutate.variables)])
    return merge_shape(frame.rule.match.filters, text, schemas)


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


def merge_shape(filters: tuple[Filter, ...], text: str, known: Schemas) -> dict[str, Any]:
    """How the fields merge that an expression may set (see :mod:`vm.patch.apply_configuration`): those of the kinds'
    schemas whose names stand in the text, all others have no say."""
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
