"""Lowers a mutate rule with ``targets``, which changes other objects than the one that sets it off (semantics §17).

Called by :mod:`compiler.lower` after match and preconditions. :mod:`runtime.mutate_existing` runs the entry twice over:

* without ``$target`` in the root it answers, as the product of a pass, a list with a map for each of ``targets``:
  ``apiVersion``, ``kind``, ``name``, ``namespace``, ``uid``, ``selector`` as far as given, variables put in, or
  ``error`` with what is wrong;
* with the index of one of them under ``$target``, an object of it under ``target``, and ``$targetKind`` (group,
  version, kind, subresource) it changes that object, as a rule without targets changes that of the request.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from compiler.frontends.conditions import lower_preconditions
from compiler.frontends.context import made_map, register
from compiler.frontends.mutate import Subject, change
from compiler.frontends.rule import RuleFrame, concat
from compiler.frontends.template import lower_value
from compiler.ir.build import FunctionBuilder
from compiler.ir.ops import Call, Choose, Const, Expr, If, Invoke, Load, Op
from compiler.schema.model import Target

TARGET: Final = "target"
INDEX: Final = "$target"
KIND: Final = "$targetKind"

_FIELDS: Final = ("apiVersion", "kind", "name", "namespace", "uid", "selector")


def lower_targets(frame: RuleFrame) -> None:
    """Emits the body of a rule with targets up to its last return."""
    mutate = frame.rule.mutate
    if mutate is None:
        raise ValueError(f"rule {frame.name} does not mutate")
    b, at = frame.builder, frame.at("mutate", "targets")
    index = b.let(Load((INDEX,)), "V", "index", at)
    with b.nested() as asked:
        specs: Expr = Op("new_list")
        for i, target in enumerate(mutate.targets):
            specs = Op("append", (specs, _spec(frame, i, target)))
        b.ret(Op("o_patch", (specs, Const(""))), at)
    b.emit(If(Op("is_missing", (index,)), tuple(asked), (), at))
    for i, target in enumerate(mutate.targets):
        body = _body(frame, i, target)
        with b.nested() as chosen:
            b.ret(Call(body, ()), target.pointer)
        b.emit(If(Op("equal", (index, Const(i))), tuple(chosen), (), target.pointer))
    b.ret(Op("o_none"), at)


def _spec(frame: RuleFrame, number: int, target: Target) -> Expr:
    frame.places.add(target.pointer)
    given = {key: target.raw[key] for key in _FIELDS if target.raw.get(key)}
    roots = frame.scope.roots
    scope = frame.scope if roots is None else replace(frame.scope, roots=roots - {TARGET})
    lowered = lower_value(given, scope, target.pointer)
    if isinstance(lowered, Const):
        return lowered
    local = frame.builder.let(lowered, "V", "spec", target.pointer)
    words = f"failed to substitute variables in target[{number}]: "
    return Choose(
        Op("is_err", (local,)), made_map({"error": concat(Const(words), Invoke("pat.text", (local,)))}), local
    )


def _body(frame: RuleFrame, number: int, target: Target) -> str:
    """Makes the function that changes an object of a target, and answers its name."""
    name = f"{frame.builder.name}.t{number}"
    builder = FunctionBuilder(name, result="O", policy=frame.builder.policy)
    scope = frame.scope.inside(builder)
    roots = None if scope.roots is None else scope.roots | {TARGET}
    inside = RuleFrame(frame.policy, frame.rule, builder, replace(scope, roots=roots, here=TARGET), frame.places)
    register(inside, target.context)
    lower_preconditions(inside, target.preconditions, f"{target.pointer}/preconditions")
    change(inside, Subject(Load((TARGET,)), Load((KIND,))))
    frame.scope.functions.append(builder.function())
    return name
