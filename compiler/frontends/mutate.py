"""Lowers the body of a mutate rule: substitute the rule, patch the resource, say what came of it (semantics §16).

Called by :mod:`compiler.lower` after match and preconditions, and for each target by
:mod:`compiler.frontends.mutate_targets`. The whole rule counts as one document when variables are put in, so that a
variable that fails anywhere in it makes the rule an error, also outside the patch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from compiler.frontends.rule import OPERATION, RESOURCE, RuleFrame, concat
from compiler.frontends.template import has_variables, lower_value
from compiler.ir.build import any_of
from compiler.ir.ops import Choose, Const, Expr, Invoke, Load, Local, Op
from compiler.source import load_values

UNCHANGED: Final = "no patches applied"
KIND: Final = Load(("$kind",))
FAILED: Final = "failed to patch resource: "

_SUBSTITUTION: Final = "variable substitution failed: "


@dataclass(frozen=True, slots=True)
class Subject:
    """What is patched: the object, and its kind as a list of group, version, kind and subresource."""

    resource: Expr = RESOURCE
    kind: Expr = KIND


@dataclass(frozen=True, slots=True)
class Patches:
    """What a rule or an element of a loop lays over its subject, one of ``strategic`` and ``operations``.

    ``pointer`` is the place of what holds them, ``path`` their place in ``document``, which is substituted at once.
    """

    strategic: Any
    operations: str | None
    pointer: str
    path: str
    document: Any


def lower_mutate(frame: RuleFrame) -> None:
    """Emits the body of a mutate rule up to its last return."""
    mutate = frame.rule.mutate
    if mutate is None:
        raise ValueError(f"rule {frame.name} does not mutate")
    frame.builder.ret_if(Op("equal", (OPERATION, Const("DELETE"))), Op("o_none"))
    change(frame, Subject())


def change(frame: RuleFrame, subject: Subject) -> None:
    """Emits the change of a subject as the rule says, up to the last return."""
    mutate = frame.rule.mutate
    if mutate is None:
        raise ValueError(f"rule {frame.name} does not mutate")
    if mutate.foreach:
        from compiler.frontends.mutate_foreach import UNCHANGED as NO_ELEMENT
        from compiler.frontends.mutate_foreach import lower_loops

        at = frame.at("mutate", "foreach")
        made = lower_loops(frame, mutate.foreach, subject)
        frame.fail_with_error(made, "", at)
        finish(frame, made, subject, at, NO_ELEMENT)
        return
    _rest_of_rule(frame)
    patches = Patches(
        mutate.patch_strategic_merge, mutate.patches_json6902, frame.at("mutate"), "/mutate", frame.rule.raw
    )
    new = lay(frame, patches, subject)
    b, at = frame.builder, patches.pointer
    b.ret_if(nothing_to_do(new), Op("o_skip", (Const(UNCHANGED),)), at)
    frame.fail_with_error(new, FAILED, at)
    finish(frame, new, subject, at)


def finish(frame: RuleFrame, new: Expr, subject: Subject, at: str, unchanged: str = UNCHANGED) -> None:
    """Emits the outcome of a rule that has made ``new`` of its subject."""
    b = frame.builder
    b.ret_if(Op("equal", (new, subject.resource)), Op("o_skip", (Const(unchanged),)), at)
    b.ret(Op("o_patch", (new, concat(Const("mutated "), Invoke("match.describe", (new,))))), at)


def lay(frame: RuleFrame, patches: Patches, subject: Subject) -> Local:
    """Emits the patch of a subject. The value is the new object, or an ``Err`` that :func:`nothing_to_do` tells from a
    failure; a variable that fails stops the frame's function."""
    if patches.strategic is not None:
        at = f"{patches.pointer}/patchStrategicMerge"
        wanted = _substituted(frame, patches.strategic, at, patches, "patchStrategicMerge")
        return frame.builder.let(
            Invoke("patch.strategic", (subject.resource, wanted, subject.kind)), "V", "patched", at
        )
    at = f"{patches.pointer}/patchesJson6902"
    wanted = _substituted(frame, patches.operations, at, patches, "patchesJson6902")
    if isinstance(wanted, Const):
        operations = load_values(wanted.value) if type(wanted.value) is str else [wanted.value]
        wanted = Const(operations[0] if operations else [])
    else:
        written = Invoke("pat.document", (Op("as_text", (wanted,)),))
        wanted = frame.builder.let(Choose(Op("is_text", (wanted,)), written, wanted), "V", "operations", at)
        frame.fail_with_error(wanted, FAILED, at)
    return frame.builder.let(Invoke("patch.json6902", (subject.resource, wanted)), "V", "patched", at)


def nothing_to_do(patched: Local) -> Expr:
    """Whether an anchor has said that there is nothing to do."""
    return any_of([Op("err_code", (patched,), ("conditional",)), Op("err_code", (patched,), ("global",))])


def _rest_of_rule(frame: RuleFrame) -> None:
    """Variables of the rule outside the patch can only fail: nothing reads their values."""
    rest = {k: v for k, v in frame.rule.raw.items() if k not in ("mutate", "match", "exclude", "name")}
    if not has_variables(rest):
        return
    at = frame.at()
    lowered = lower_value(rest, frame.scope, at)
    if not isinstance(lowered, Const):
        local = frame.builder.let(lowered, "V", "rest", at)
        frame.fail_with_error(local, _SUBSTITUTION, at)


def _substituted(frame: RuleFrame, value: Any, at: str, patches: Patches, key: str) -> Expr:
    frame.places.add(at)
    lowered = lower_value(value, frame.scope, at, document=patches.document, path=f"{patches.path}/{key}")
    if isinstance(lowered, Const):
        return lowered
    local = frame.builder.let(lowered, "V", "patch", at)
    frame.fail_with_error(local, _SUBSTITUTION, at)
    return local
