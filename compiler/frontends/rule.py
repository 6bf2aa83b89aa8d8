"""What the front ends of one rule share while its entry function is made: the rule, the builder, the scope, small
shapes.

Made by :mod:`compiler.lower` for each computed rule, used by the front ends for match, conditions, validate and mutate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from compiler.diagnostics import Reporter
from compiler.frontends.template import PLAIN_ROOTS, Scope
from compiler.ir.build import FunctionBuilder
from compiler.ir.ops import Const, Expr, If, Invoke, Load, Op, Return, Stmt
from compiler.schema.model import Policy, Rule

RESOURCE = Load(("$resource",))
OPERATION = Load(("$operation",))


class Frame(Protocol):
    """What conditions need of the function that they become part of: that of a rule, or of an exception."""

    builder: FunctionBuilder
    scope: Scope
    places: set[str]

    def stop(self, text: Expr, at: str) -> Stmt:
        """The end of the function because something cannot be evaluated; the text says what."""
        ...

    def fail_with_error(self, value: Expr, prefix: str, at: str) -> None:
        """Emits: when the value is an error, the function stops with the prefix and the error's text."""
        ...


@dataclass(slots=True)
class RuleFrame:
    """One computed rule on its way to an entry function.

    ``places`` gathers the pointers that statements carry, for the debug section of the bundle.
    """

    policy: Policy
    rule: Rule
    builder: FunctionBuilder
    scope: Scope
    places: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return self.rule.name

    def at(self, *steps: str | int) -> str:
        """The pointer of a part of the rule; it counts as a place of code from now on."""
        pointer = "/".join([self.rule.pointer, *map(str, steps)])
        self.places.add(pointer)
        return pointer

    def stop(self, text: Expr, at: str) -> Stmt:
        """The rule is an error with this text."""
        return Return(Op("o_error", (text,)), at)

    def fail_with_error(self, value: Expr, prefix: str, at: str) -> None:
        """Emits: when the value is an error, the rule is an error with the prefix and the error's text."""
        if not isinstance(value, Const):
            text = concat(Const(prefix), Invoke("pat.text", (value,)))
            self.builder.emit(If(Op("is_err", (value,)), (self.stop(text, at),), (), at))


def frame_of(policy: Policy, index: int, rule: Rule, name: str, reporter: Reporter | None) -> RuleFrame:
    """A frame for the entry function ``name`` of a rule of the policy with this index."""
    builder = FunctionBuilder(name, result="O", policy=index, role="entry")
    scope = Scope(builder, reporter=reporter, spans=policy.doc.spans, roots=PLAIN_ROOTS)
    return RuleFrame(policy, rule, builder, scope)


def concat(*parts: Expr) -> Expr:
    """The texts joined; neighbouring constants become one."""
    joined: list[Expr] = []
    for part in parts:
        if isinstance(part, Const) and joined and isinstance(last := joined[-1], Const):
            joined[-1] = Const(last.value + part.value)
        elif not (isinstance(part, Const) and part.value == ""):
            joined.append(part)
    if not joined:
        return Const("")
    return joined[0] if len(joined) == 1 else Op("concat", tuple(joined), (len(joined),))


def as_text(value: Expr) -> Expr:
    """A value as kind S: a text as it is, anything else as JSON."""
    if isinstance(value, Const) and type(value.value) is str:
        return value
    return Op("to_text", (value,))
