"""Lowers the body of a validate rule: ``pattern``, ``anyPattern``, ``deny`` or ``foreach``, and the texts of their
results (semantics §4, §5).

Called by :mod:`compiler.lower` after match and preconditions. The code of a message stands where the rule has failed,
so that a rule that passes pays nothing for it.
"""

from __future__ import annotations

from typing import Any

from compiler.frontends.conditions import Verdict, joined, lower_conditions
from compiler.frontends.foreach import SCOPED, ElementFrame, lower_foreach
from compiler.frontends.pod_security import lower_pod_security
from compiler.frontends.rule import OPERATION, RESOURCE, RuleFrame, as_text, concat
from compiler.frontends.template import has_variables, lower_text, lower_value, put_in_again
from compiler.ir.build import all_of, any_of, negate
from compiler.ir.ops import Choose, Const, Do, Expr, If, Invoke, Local, Op, Stmt
from compiler.schema.model import ForEach

NOT_A_TEXT = "the produced message didn't resolve to a string, check your policy definition."


def lower_validate(frame: RuleFrame) -> None:
    """Emits the body of a validate rule up to its last return."""
    validate = frame.rule.validate
    if validate is None:
        raise ValueError(f"rule {frame.name} does not validate")
    if validate.pod_security is not None:
        lower_pod_security(frame)
    elif validate.deny is not None:
        _deny(frame, validate.deny.conditions, frame.at("validate", "deny"))
    elif validate.pattern is not None:
        _pattern(frame, validate.pattern, frame.at("validate", "pattern"))
    elif validate.any_pattern is not None:
        _any_pattern(frame, validate.any_pattern, frame.at("validate", "anyPattern"))
    elif validate.foreach:
        lower_foreach(frame, validate.foreach, _element, frame.at("validate", "foreach"))
    else:
        frame.builder.ret(Op("o_none"))


def _element(frame: ElementFrame, entry: ForEach) -> None:
    """What an entry of ``foreach`` asks of an element, up to the last return."""
    parts = {"deny": entry.deny, "pattern": entry.pattern, "anyPattern": entry.any_pattern, "foreach": entry.foreach}
    frame.places.update(f"{entry.pointer}/{part}" for part, value in parts.items() if value not in (None, ()))
    if entry.deny is not None:
        _deny(frame, entry.deny.conditions, f"{entry.pointer}/deny")
    elif entry.pattern is not None:
        _pattern(frame, entry.pattern, f"{entry.pointer}/pattern")
    elif entry.any_pattern is not None:
        _any_pattern(frame, entry.any_pattern, f"{entry.pointer}/anyPattern")
    elif entry.foreach:
        lower_foreach(frame, entry.foreach, _element, f"{entry.pointer}/foreach")
    else:
        frame.builder.ret(Op("o_none"))


# pattern


def _pattern(frame: RuleFrame, pattern: Any, at: str) -> None:
    b = frame.builder
    wanted = _substituted(frame, pattern, at)
    _not_on_delete(frame, at)
    end = b.let(Invoke("pat.walk", (RESOURCE, wanted)), "V", "end", at)
    b.ret_if(Op("is_null", (end,)), Op("o_pass"), at)
    text = b.let(Invoke("pat.text", (end,)), "S", "text")
    b.ret_if(_skips(end), Op("o_skip", (text,)), at)
    path = b.let(Invoke("pat.path", (end,)), "S", "path")
    message = _begun_message(frame, text, path)
    no_path = Op("is_empty", (path,))
    b.ret_if(no_path, Op("o_error", (concat(message, Const(f"rule {frame.name} execution error: "), text),)), at)
    b.ret(Op("o_fail", (concat(message, Const(f"rule {frame.name} failed at path "), path),)), at)


def _any_pattern(frame: RuleFrame, patterns: list[Any], at: str) -> None:
    b = frame.builder
    whole = _substituted(frame, patterns, at)
    _not_on_delete(frame, at)
    ends: list[Local] = []
    for i, pattern in enumerate(patterns):
        wanted = Op("index", (whole, Const(i))) if has_variables(pattern) else Const(pattern)
        here = f"{at}/{i}"
        frame.places.add(here)
        end = b.let(Invoke("pat.walk", (RESOURCE, wanted)), "V", f"end{i}", here)
        passed = f"validation rule '{frame.name}' anyPattern[{i}] passed."
        b.ret_if(Op("is_null", (end,)), Op("o_pass_text", (Const(passed),)), here)
        ends.append(end)
    if not ends:
        b.ret(Op("o_pass"), at)
        return
    failed = b.let(Op("new_list"), "L", "failed")
    skipped = b.let(Op("new_list"), "L", "skipped")
    for i, end in enumerate(ends):
        b.emit(_entry(frame, f"rule {frame.name}[{i}]", end, failed, skipped))
    space = Const(" ")
    only_skips = Op("is_empty", (failed,))
    b.ret_if(only_skips, Op("o_skip", (Invoke("pat.join", (skipped, space)),)), at)
    b.ret(Op("o_fail", (concat(_any_message(frame), Invoke("pat.join", (failed, space))),)), at)


def _entry(frame: RuleFrame, label: str, end: Local, failed: Local, skipped: Local) -> Stmt:
    """Puts what became of one pattern into the list it belongs to."""
    text, path = Invoke("pat.text", (end,)), Invoke("pat.path", (end,))
    skip = Do(Op("append", (skipped, concat(Const(f"{label} skipped: "), text))))
    error = Do(Op("append", (failed, concat(Const(f"{label} failed: "), text))))
    fail = Do(Op("append", (failed, concat(Const(f"{label} failed at path "), path))))
    return If(_skips(end), (skip,), (If(Op("is_empty", (path,)), (error,), (fail,)),))


def _skips(end: Expr) -> Expr:
    return any_of([Op("err_code", (end,), ("conditional",)), Op("err_code", (end,), ("global",))])


def _substituted(frame: RuleFrame, pattern: Any, at: str) -> Expr:
    """The pattern with its variables put in; when that fails the rule is an error."""
    lowered = lower_value(pattern, frame.scope, at)
    if isinstance(lowered, Const):
        return lowered
    local = frame.builder.let(lowered, "V", "pattern", at)
    frame.fail_with_error(local, "variable substitution failed: ", at)
    return local


def _not_on_delete(frame: RuleFrame, at: str) -> None:
    """A pattern has nothing to say of an object that goes away, but of an element of it that a loop looks at."""
    deleted: Expr = Op("equal", (OPERATION, Const("DELETE")))
    if isinstance(frame, ElementFrame):
        deleted = all_of([deleted, Op("is_missing", (SCOPED,))])
    frame.builder.ret_if(deleted, Op("o_none"), at)


def _begun_message(frame: RuleFrame, error: Expr, path: Expr) -> Expr:
    """``validation error: M. ``, or without a message ``validation error: ``. When a variable of the message fails, the
    rule ends here with the standing text for that, as failed or as an error like the mismatch itself."""
    message = frame.rule.validate.message if frame.rule.validate else None
    if not message:
        return Const("validation error: ")
    at = frame.at("validate", "message")
    lowered = lower_text(message, frame.scope, at)
    if isinstance(lowered, Const) and type(lowered.value) is str:
        text = lowered.value
        return Const(f"validation error: {text if text.endswith('.') else text + '.'} ")
    b = frame.builder
    value = b.let(lowered, "V", "message", at)
    fallback = concat(
        Const(f"validation error: variables substitution error in rule {frame.name} execution error: "), error
    )
    with b.nested() as broken:
        b.ret_if(Op("is_empty", (path,)), Op("o_error", (fallback,)), at)
        b.ret(Op("o_fail", (fallback,)), at)
    b.emit(If(Op("is_err", (value,)), tuple(broken), (), at))
    return concat(Const("validation error: "), Invoke("pat.sentence", (as_text(value),)), Const(" "))


def _any_message(frame: RuleFrame) -> Expr:
    """Kyverno puts the message of ``anyPattern`` in as it is written, variables included."""
    message = frame.rule.validate.message if frame.rule.validate else None
    if not message:
        return Const("validation error: ")
    return Const(f"validation error: {message if message.endswith('.') else message + '.'} ")


# deny


def _deny(frame: RuleFrame, conditions: Any, at: str) -> None:
    b = frame.builder
    where = f"{at}/conditions"
    verdict = lower_conditions(frame, conditions, where, "failed to check deny conditions: ")
    b.ret_if(negate(verdict.holds), Op("o_pass"), at)
    _deny_message(frame, verdict, at)


def _deny_message(frame: RuleFrame, verdict: Verdict, at: str) -> None:
    b = frame.builder
    message = (frame.rule.validate.message if frame.rule.validate else None) or ""
    nothing = Const(f"validation error: rule {frame.name} failed")
    if verdict.true_messages is None:
        if not message:
            b.ret(Op("o_fail", (nothing,)), at)
            return
        lowered = lower_text(message, frame.scope, frame.at("validate", "message"))
        if isinstance(lowered, Const) and type(lowered.value) is str:
            b.ret(Op("o_fail", (lowered,)), at)
            return
        value = b.let(lowered, "V", "message")
        b.ret_if(Op("is_err", (value,)), Op("o_fail", (Const(""),)), at)
        b.ret_if(Op("is_text", (value,)), Op("o_fail", (Op("as_text", (value,)),)), at)
        b.ret(Op("o_fail", (Const(NOT_A_TEXT),)), at)
        return
    raw = b.let(joined(verdict.true_messages, verdict.separator), "S", "reasons")
    written = concat(Const(f"{message}; "), raw) if message else raw
    empty = Op("is_empty", (raw,))
    if not message:
        b.ret_if(empty, Op("o_fail", (nothing,)), at)
    whole = b.let(Choose(empty, Const(message), written), "S", "written") if message else raw
    if has_variables(message) or any(map(has_variables, verdict.messages)):
        value = b.let(put_in_again(whole, frame.scope), "V", "message")
        b.ret_if(Op("is_err", (value,)), Op("o_fail", (raw,)), at)
        b.ret_if(negate(Op("is_text", (value,))), Op("o_fail", (Const(NOT_A_TEXT),)), at)
        b.ret(Op("o_fail", (Op("as_text", (value,)),)), at)
        return
    b.ret(Op("o_fail", (whole,)), at)
