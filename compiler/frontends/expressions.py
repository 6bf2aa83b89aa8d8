"""The CEL expressions of one rule on their way to IR: parsed, checked against the rule's environment, lowered, with the
rule's own variables as cells.

Shared by the front ends of ``validate.cel`` and of admission policies. What is wrong with a text is reported at its
place in the document; of a rule that autogen made nothing is reported, since the rule as written tells the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, TypeAlias

from compiler.diagnostics import Reporter
from compiler.frontends.admission_env import declared
from compiler.frontends.cel.checked import Checked, Problem, Variable
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.expression import CelFrame, checked_expression, lower_expression
from compiler.frontends.cel.types import BOOL, DYN, NULL, STRING, Object, Soft, Type, format_type
from compiler.frontends.cost import Costs
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
_AUTHORIZER: Final = ir.Invoke("cel.authz.authorizer.1", (ir.Load(("$request", "userInfo")),))
AUTHORIZERS: Final[Mapping[str, ir.Expr]] = {
    "authorizer": _AUTHORIZER,
    "authorizer.requestResource": ir.Invoke("cel.authz.requestResource.2", (_AUTHORIZER, ir.Load(("$request",)))),
}
"""The values that ask whether the user may do something."""

_VARIABLES: Final = "variables"
_VARIABLES_TYPE: Final = "kubernetes.variables"


@dataclass(slots=True)
class Expressions:
    """``functions`` receives what is made on the way; names of functions begin with ``name``.

    ``places`` say where the variables of the environment lie. ``reporter`` None: nothing is reported, and an expression
    that is wrong is an error when it is evaluated. ``costs`` are those of the rule: what is told of is counted."""

    name: str
    policy: int
    functions: list[ir.Function]
    env: Env
    places: Mapping[str, Path | ir.Expr]
    reporter: Reporter | None
    spans: SourceMap
    costs: Costs = field(default_factory=Costs)
    _known: dict[str, Path | ir.Expr] = field(init=False)
    _fields: dict[str, Type] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self._known = dict(self.places)

    def declare(self, variable: NamedExpression) -> None:
        """Adds a variable of the policy: expressions from now on see it as ``variables.NAME``. It is computed when it
        is first asked for, at most once in an evaluation."""
        builder = FunctionBuilder(f"{self.name}.v.{variable.name}", result="V", policy=self.policy, role="cell")
        checked, value = self._lowered(variable.expression, variable.pointer, builder, (), variable.name)
        builder.ret(ir.Invoke("cel_rule.variable", (value, ir.Const(variable.name))), variable.pointer)
        self.functions.append(builder.function())
        self._declared(variable, checked, ir.Op("cell", (), (builder.name,)))

    def compute(self, variable: NamedExpression, builder: FunctionBuilder) -> None:
        """As :meth:`declare`, but the variable is computed here and now: for expressions about an object that is a
        local. An error is its value."""
        checked, value = self._lowered(variable.expression, variable.pointer, builder, (), variable.name)
        said = ir.Invoke("cel_rule.variable", (value, ir.Const(variable.name)))
        self._declared(variable, checked, builder.let(said, "V", "variable", variable.pointer))

    def _declared(self, variable: NamedExpression, checked: Checked | None, value: ir.Expr) -> None:
        self._fields[variable.name] = declared(checked.type) if checked is not None else DYN
        self._known[f"{_VARIABLES}.{variable.name}"] = value
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
        return self.within(replace(self.env, variables={n: t for n, t in self.env.variables.items() if n not in names}))

    def within(self, env: Env) -> Expressions:
        """The same in another environment; what one of the two declares later the other does not know."""
        other = replace(self, env=env, _fields=dict(self._fields))
        other._known = dict(self._known)
        return other

    def telling(self, reporter: Reporter | None) -> Expressions:
        """The same with another reporter."""
        other = self.within(self.env)
        other.reporter = reporter
        return other

    def about(self, reporter: Reporter | None, env: Env, **places: ir.Expr) -> Expressions:
        """The same about another object, before any variable is declared."""
        return replace(self, env=env, reporter=reporter, places={**self.places, **places}, _fields={})

    def _lowered(
        self, text: str, at: str, builder: FunctionBuilder, wanted: tuple[Type, ...], variable: str = ""
    ) -> tuple[Checked | None, ir.Expr]:
        found = checked_expression(text, self.env)
        checked = found if isinstance(found, Checked) else None
        problems = found.problems if isinstance(found, Checked) else (found,)
        self._report(problems, at, text)
        failed = next((p for p in problems if p.level == "error"), None)
        if checked is None or failed is not None:
            detail = failed.message if failed is not None else "no expression"
            return None, ir.Const(Err("argument", f"compilation error: compilation failed: {detail}"))
        if wanted and checked.type not in wanted:
            problem = _mistyped(checked.type, wanted)
            self._mistyped(problem, at, text)
            return checked, ir.Const(Err("argument", f"compilation error: {problem}"))
        if self.reporter is not None:
            shape = self.costs.add(checked, self.env, self.reporter, self.spans, at, text)
            if variable:
                self.costs.variables[f"{_VARIABLES}.{variable}"] = shape
        known: dict[str, Path | ir.Expr] = dict(self._known)
        if Variable(_VARIABLES) in checked.names.values():
            known[_VARIABLES] = self._all_variables(builder)
        frame = CelFrame(builder, known, self.functions, f"{builder.name}.e{next(self._numbers)}")
        return checked, lower_expression(checked, frame)

    def _all_variables(self, builder: FunctionBuilder) -> ir.Expr:
        """The variables as a map; one that fails is an error inside it, met when it is taken. Those that are computed
        when they are first asked for are so only where the map is used."""
        values = {name: self._value(name) for name in self._fields}
        late = all(isinstance(value, ir.Op) for value in values.values())
        inner = builder
        if late:
            inner = FunctionBuilder(f"{self.name}.vs{next(self._numbers)}", result="V", policy=self.policy)
        whole = inner.let(ir.Op("new_map"), "M", "whole")
        for name, value in values.items():
            inner.emit(ir.Do(ir.Op("put", (whole, value), (name,))))
        if not late:
            return whole
        inner.ret(whole)
        self.functions.append(inner.function())
        return ir.Call(inner.name, ())

    def _value(self, name: str) -> ir.Expr:
        found = self._known[f"{_VARIABLES}.{name}"]
        assert not isinstance(found, tuple)
        return found

    def _report(self, problems: tuple[Problem, ...], at: str, text: str) -> None:
        if self.reporter is not None and problems:
            from compiler.frontends.cel.report import report

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
