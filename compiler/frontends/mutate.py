"""Lowers the body of a mutate rule: substitute the rule, patch the resource, say what came of it (semantics §16).

Called by :mod:`compiler.lower` after match and preconditions. The whole rule counts as one document when variables
are put in, so that a variable that fails anywhere in it makes the rule an error, also outside the patch.
"""

from __future__ import annotations

from typing import Any

from compiler.frontends.rule import OPERATION, RESOURCE, RuleFrame, concat
from compiler.frontends.template import has_variables, lower_value
from compiler.ir.build import any_of
from compiler.ir.ops import Choose, Const, Expr, Invoke, Load, Op
from compiler.source import load_values

UNCHANGED = "no patches applied"

_FAILED = "variable substitution failed: "


def lower_mutate(frame: RuleFrame) -> None:
    """Emits the body of a mutate rule up to its last return."""
    mutate = frame.rule.mutate
    if mutate is None:
        raise ValueError(f"rule {frame.name} does not mutate")
    frame.builder.ret_if(Op("equal", (OPERATION, Const("DELETE"))), Op("o_none"))
    _rest_of_rule(frame)
    if mutate.patches_json6902 is not None:
        _json_patch(frame, mutate.patches_json6902)
    else:
        _strategic(frame, mutate.patch_strategic_merge)


def _rest_of_rule(frame: RuleFrame) -> None:
    """Variables of the rule outside the patch can only fail: nothing reads their values."""
    rest = {k: v for k, v in frame.rule.raw.items() if k not in ("mutate", "match", "exclude", "name")}
    if not has_variables(rest):
        return
    at = frame.at()
    lowered = lower_value(rest, frame.scope, at)
    if not isinstance(lowered, Const):
        local = frame.builder.let(lowered, "V", "rest", at)
        frame.fail_with_error(local, _FAILED, at)


def _strategic(frame: RuleFrame, patch: Any) -> None:
    at = frame.at("mutate", "patchStrategicMerge")
    wanted = _substituted(frame, patch, at, "/mutate/patchStrategicMerge")
    _finish(frame, Invoke("patch.strategic", (RESOURCE, wanted, Load(("$kind",)))), at)


def _json_patch(frame: RuleFrame, text: str) -> None:
    at = frame.at("mutate", "patchesJson6902")
    wanted = _substituted(frame, text, at, "/mutate/patchesJson6902")
    if isinstance(wanted, Const):
        operations = load_values(wanted.value) if type(wanted.value) is str else [wanted.value]
        wanted = Const(operations[0] if operations else [])
    else:
        written = Invoke("pat.document", (Op("as_text", (wanted,)),))
        wanted = frame.builder.let(Choose(Op("is_text", (wanted,)), written, wanted), "V", "operations", at)
        frame.fail_with_error(wanted, "failed to patch resource: ", at)
    _finish(frame, Invoke("patch.json6902", (RESOURCE, wanted)), at)


def _finish(frame: RuleFrame, patched: Expr, at: str) -> None:
    b = frame.builder
    new = b.let(patched, "V", "patched", at)
    stopped = any_of([Op("err_code", (new,), ("conditional",)), Op("err_code", (new,), ("global",))])
    b.ret_if(stopped, Op("o_skip", (Const(UNCHANGED),)), at)
    frame.fail_with_error(new, "failed to patch resource: ", at)
    b.ret_if(Op("equal", (new, RESOURCE)), Op("o_skip", (Const(UNCHANGED),)), at)
    b.ret(Op("o_patch", (new, concat(Const("mutated "), Invoke("match.describe", (new,))))), at)


def _substituted(frame: RuleFrame, value: Any, at: str, path: str) -> Expr:
    lowered = lower_value(value, frame.scope, at, document=frame.rule.raw, path=path)
    if isinstance(lowered, Const):
        return lowered
    local = frame.builder.let(lowered, "V", "patch", at)
    frame.fail_with_error(local, _FAILED, at)
    return local
