"""The CEL expressions of one rule on their way to IR: parsed, checked against the rule's environment, lowered, with the
rule's own variables as cells.

Shared by the front ends of ``validate.cel`` and of admission policies. What is wrong with a text is reported at its
place in the document; of a rule that autogen made nothing is reported, since the rule as written tells the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.frontends.admission_env import declared
from compiler.frontends.cel.checked import Checked, Problem, Variable
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.expression import CelFrame, checked_expression, lower_expression
from compiler.frontends.cel.report import report
from compiler.frontends.cel.types import BOOL, DYN, NULL, STRING, Object, Soft, Type, format_type
from compiler.ir import ops as ir
from compiler.ir.build import FunctionBuilder
from compiler.schema.model import NamedExpression
from compiler.source import SourceMap
from vm.values import Err

Path: TypeAlias = tuple[str, ...]

ROOTS: Final[Mapping[str, Path]] = {
    "object": ("$object",),
    "oldObject": ("$oldObject",),
    "request": ("$request",),
    "namespaceObject": ("$namespaceObject",),
    "params": ("$params",),
}
"""Where the variables of an admission rule lie in the root."""
AUTHORIZERS: Final[Mapping[str, ir.Expr]] = {}
"""The values that ask whether the user may do something."""

_VARIABLES: Final = "variables"
_VARIABLES_TYPE: Final = "kubernetes.variables"


@dataclass(slots=True)
class Expressions:
    """``functions`` receives what is made on the way; names of functions begin with ``name``.

    ``places`` say where the variables of the environment lie. ``reporter`` None: nothing is reported, and an expression
    that is wrong is an error when it is evaluated."""

    name: str
    policy: int
    functions: list[ir.Function]
    env: Env
    places: Mapping[str, Path | ir.Expr]
    reporter: Reporter | None
    spans: SourceMap
    _known: dict[str, Path | ir.Expr] = field(init=False)
    _fields: dict[str, Type] = field(default_factory=dict)
    _count: int = 0

    def __post_init__(self) -> None:
        self._known = dict(self.places)

    def declare(self, variable: NamedExpression) -> None:
        """Adds a variable of the policy: expressions from now on see it as ``variables.NAME``. It is computed when it
        is first asked for, at most once in an evaluation."""
        builder = FunctionBuilder(f"{self.name}.v.{variable.name}", result="V", policy=self.policy, role="cell")
        checked, value = self._lowered(variable.expression, variable.pointer, builder, ())
        builder.ret(ir.Invoke("cel_rule.variable", (value, ir.Const(variable.name))), variable.pointer)
        self.functions.append(builder.function())
        self._fields[variable.name] = declared(checked.type) if checked is not None else DYN
        self._known[f"{_VARIABLES}.{variable.name}"] = ir.Op("cell", (), (builder.name,))
        # By their full names they resolve first; the object is for has(variables.x) and for what is not there.
        named = {f"{_VARIABLES}.{n}": t for n, t in self._fields.items()}
        whole = {_VARIABLES: Object(_VARIABLES_TYPE, dict(self._fields))}
        self.env = replace(self.env, variables={**self.env.variables, **named, **whole})

    def boolean(self, text: str, at: str, builder: FunctionBuilder) -> ir.Expr:
        """The value of an expression that must give a boolean."""
        return self._lowered(text, at, builder, (BOOL,))[1]

    def text(self, text: str, at: str, builder: FunctionBuilder, *, or_null: bool = False) -> ir.Expr:
        """The value of an expression that must give a text."""
        return self._lowered(text, at, builder, (STRING, NULL) if or_null else (STRING,))[1]

    def value(self, text: str, at: str, builder: FunctionBuilder, *wanted: Type) -> ir.Expr:
        """The value of an expression of one of the types, of any type when none is given."""
        return self._lowered(text, at, builder, wanted)[1]

    def without(self, *names: str) -> Expressions:
        """The same where some variables are not declared (the authorizer in messages)."""
        variables = {n: t for n, t in self.env.variables.items() if n not in names}
        other = replace(self, env=replace(self.env, variables=variables))
        other._known, other._fields, other._count = self._known, self._fields, self._count
        return other

    def _lowered(
        self, text: str, at: str, builder: FunctionBuilder, wanted: tuple[Type, ...]
    ) -> tuple[Checked | None, ir.Expr]:
        found = checked_expression(text, self.env)
        checked = found if isinstance(found, Checked) else None
        problems = checked.problems if checked is not None else (found,)
        self._report(problems, at, text)
        failed = next((p for p in problems if p.level == "error"), None)
        if checked is None or failed is not None:
            detail = failed.message if failed is not None else "no expression"
            return None, ir.Const(Err("argument", f"compilation error: compilation failed: {detail}"))
        if wanted and checked.type not in wanted:
            problem = _mistyped(checked.type, wanted)
            self._mistyped(problem, at, text)
            return checked, ir.Const(Err("argument", f"compilation error: {problem}"))
        known: dict[str, Path | ir.Expr] = dict(self._known)
        if Variable(_VARIABLES) in checked.names.values():
            known[_VARIABLES] = ir.Call(self._all_variables(), ())
        self._count += 1
        frame = CelFrame(builder, known, self.functions, f"{builder.name}.e{self._count}")
        return checked, lower_expression(checked, frame)

    def _all_variables(self) -> str:
        """A function that gives the variables as a map; one that fails is an error inside it, met when it is taken."""
        self._count += 1
        builder = FunctionBuilder(f"{self.name}.vs{self._count}", result="V", policy=self.policy)
        whole = builder.let(ir.Op("new_map"), "M", "whole")
        for name in self._fields:
            builder.emit(ir.Do(ir.Op("put", (whole, self._cell(name)), (name,))))
        builder.ret(whole)
        self.functions.append(builder.function())
        return builder.name

    def _cell(self, name: str) -> ir.Expr:
        found = self._known[f"{_VARIABLES}.{name}"]
        assert not isinstance(found, tuple)
        return found

    def _report(self, problems: tuple[Problem, ...], at: str, text: str) -> None:
        if self.reporter is not None and problems:
            report(problems, self.reporter, self.spans, at, text)

    def _mistyped(self, problem: str, at: str, text: str) -> None:
        if self.reporter is not None:
            self.reporter.error("T1249", self.spans.span(at), f"the expression {problem}")


def _mistyped(found: Type, wanted: tuple[Type, ...]) -> str:
    """In the words of the API server."""
    shown = "dyn" if isinstance(found, Soft) else format_type(found)
    names = [format_type(t) for t in wanted]
    asked = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
    return f"must evaluate to {asked} but got {shown}"
