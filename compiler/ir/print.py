"""The readable text of a module, for golden files, ``--print-after`` and people; :mod:`compiler.ir.parse` reads it
back.

::

    policy "require-labels" in null {"failureAction":"Enforce"}
      rule "check" validate p0.r0 {}
        key "" "*" "Pod" "" [CREATE, UPDATE]

    function p0.r0() -> O entry policy 0
      local spec: V
      spec = @$resource.spec  !"/spec/rules/0"
      if not(is_map(%spec))
        return o_none()
      each c, i in as_list(get["containers"](%spec))
        do append(%found, %c)
      return o_pass()

Locals are ``%name``, loads ``@a.b."c d"``, constants JSON; an instruction carries its constants in brackets, an
intrinsic has a dot in its name, ``call`` calls a function. Indentation by two spaces nests; ``!"…"`` is the policy
text a statement came from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from compiler.ir.ops import (
    And,
    Block,
    Break,
    Call,
    Choose,
    Const,
    Do,
    Each,
    EachPair,
    Exemption,
    Expr,
    Function,
    If,
    Invoke,
    Load,
    Local,
    MatchKey,
    Module,
    Next,
    Op,
    Or,
    Policy,
    Return,
    Set,
    Stmt,
)
from vm.constants import describe, holds_special
from vm.values import MISSING, Err

WORD: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$./-]*\Z")
"""A name that stands without quotes: of a function, a local or a step of a path (which holds no dot)."""


def print_module(m: Module) -> str:
    """The whole module as text, ending in a line feed."""
    parts = [*map(_policy, m.policies), *map(_exemption, m.exemptions), *map(print_function, m.functions)]
    if m.spans:
        parts.append("".join(f"span {key[0]} {_json(key[1])} {_json(list(at))}\n" for key, at in m.spans.items()))
    return "\n".join(parts)


def print_function(fn: Function) -> str:
    """One function as text."""
    params = ", ".join(f"{_name(p)}: {fn.locals[p]}" for p in fn.params)
    policy = f" policy {fn.policy}" if fn.policy is not None else ""
    lines = [f"function {_name(fn.name)}({params}) -> {fn.result} {fn.role}{policy}"]
    lines += [f"  local {_name(name)}: {kind}" for name, kind in fn.locals.items() if name not in fn.params]
    lines += _body(fn.body, "  ")
    return "\n".join(lines) + "\n"


def print_expr(expr: Expr, indent: str = "") -> str:
    """One expression as text; a block's statements go to lines of their own."""
    match expr:
        case Const():
            return _const(expr.value)
        case Local():
            return "%" + _name(expr.name)
        case Load():
            return "@" + ".".join(step if WORD.match(step) and "." not in step else _json(step) for step in expr.path)
        case Op():
            imm = f"[{', '.join(map(_const, expr.imm))}]" if expr.imm else ""
            return f"{expr.name}{imm}({_list(expr.args, indent)})"
        case Invoke():
            return f"{expr.name}({_list(expr.args, indent)})"
        case Call():
            return f"call {_name(expr.name)}({_list(expr.args, indent)})"
        case Choose():
            return f"choose({_list((expr.cond, expr.then, expr.other), indent)})"
        case And():
            return f"and({_list(expr.terms, indent)})"
        case Or():
            return f"or({_list(expr.terms, indent)})"
        case Block():
            inner = indent + "  "
            lines = ["block", *_body(expr.body, inner), f"{inner}=> {print_expr(expr.value, inner)}", f"{indent}end"]
            return "\n".join(lines)


def _list(args: tuple[Expr, ...], indent: str) -> str:
    return ", ".join(print_expr(arg, indent) for arg in args)


def _body(body: tuple[Stmt, ...], indent: str) -> Iterator[str]:
    for stmt in body:
        yield from _stmt(stmt, indent)


def _stmt(stmt: Stmt, indent: str) -> Iterator[str]:
    inner = indent + "  "
    match stmt:
        case Set():
            yield f"{indent}{_name(stmt.name)} = {print_expr(stmt.value, indent)}{_at(stmt.at)}"
        case Return():
            yield f"{indent}return {print_expr(stmt.value, indent)}{_at(stmt.at)}"
        case Do():
            yield f"{indent}do {print_expr(stmt.value, indent)}{_at(stmt.at)}"
        case Break():
            yield f"{indent}break"
        case Next():
            yield f"{indent}next"
        case If():
            yield f"{indent}if {print_expr(stmt.cond, indent)}{_at(stmt.at)}"
            yield from _body(stmt.then, inner)
            if stmt.other:
                yield f"{indent}else"
                yield from _body(stmt.other, inner)
        case Each():
            index = f", {_name(stmt.index)}" if stmt.index is not None else ""
            yield f"{indent}each {_name(stmt.item)}{index} in {print_expr(stmt.over, indent)}{_at(stmt.at)}"
            yield from _body(stmt.body, inner)
        case EachPair():
            over = print_expr(stmt.over, indent)
            yield f"{indent}pairs {_name(stmt.key)}, {_name(stmt.value)} in {over}{_at(stmt.at)}"
            yield from _body(stmt.body, inner)


def _at(at: str | None) -> str:
    return "" if at is None else f"  !{_json(at)}"


def _policy(policy: Policy) -> str:
    lines = [f"policy {_json(policy.name)} in {_json(policy.namespace)} {_json(policy.meta)}"]
    for rule in policy.rules:
        lines.append(f"  rule {_json(rule.name)} {rule.kind} {_name(rule.entry)} {_json(rule.meta)}")
        lines += [f"    key {_key(key)}" for key in rule.keys]
    return "\n".join(lines) + "\n"


def _key(key: MatchKey) -> str:
    kind = key.kind
    names = " ".join(map(_json, (kind.group, kind.version, kind.kind, kind.subresource)))
    return f"{names} [{', '.join(map(_json, key.operations))}]"


def _exemption(x: Exemption) -> str:
    rules = _json([list(pair) for pair in x.rules])
    return f"exemption {_json(x.name)} in {_json(x.namespace)} {_name(x.entry)} {rules} {_json(x.meta)}\n"


def _name(name: str) -> str:
    return name if WORD.match(name) else _json(name)


def _const(value: Any) -> str:
    if value is MISSING:
        return "#missing"
    if type(value) is Err:
        return f"#error{_json([value.code, value.text, value.path])}"
    return f"#cel{_json(describe(value))}" if holds_special(value) else _json(value)


def _json(value: Any) -> str:
    """Compact JSON on one line; maps keep their order, which a constant does not depend on but a reader does."""
    if isinstance(value, Mapping) and not isinstance(value, dict):
        value = dict(value)
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
