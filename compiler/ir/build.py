"""Small conveniences for front ends that make IR: fresh locals, nested bodies, common shapes.

Called by the front ends and by passes that write new functions; what comes out is plain :mod:`compiler.ir.ops`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from compiler.ir.ops import And, Const, Expr, Function, If, Local, Op, Or, Return, Set, Stmt

TRUE = Const(True)
FALSE = Const(False)


class FunctionBuilder:
    """Gathers the statements and locals of one function.

    ``params`` are pairs of name and kind. Statements go to the innermost open body: the function's, or that of the
    :meth:`nested` block one is in::

        b = FunctionBuilder("p0.r0", result="O", policy=0, role="entry")
        spec = b.let(Load(("$resource", "spec")), "V", "spec")
        with b.nested() as no_map:
            b.emit(Return(Op("o_none")))
        b.emit(If(negate(Op("is_map", (spec,))), tuple(no_map)))
    """

    def __init__(
        self,
        name: str,
        *,
        params: Sequence[tuple[str, str]] = (),
        result: str = "O",
        policy: int | None = None,
        role: str = "helper",
    ) -> None:
        self.name = name
        self.params = tuple(p for p, _ in params)
        self.result = result
        self.policy = policy
        self.role = role
        self.locals: dict[str, str] = dict(params)
        self._counts: dict[str, int] = {}
        self._bodies: list[list[Stmt]] = [[]]

    def fresh(self, kind: str = "V", hint: str = "t") -> str:
        """Declares a local of this kind under a name that is not in use yet, ``hint`` with a number when taken."""
        name = hint
        while name in self.locals:
            n = self._counts.get(hint, 0) + 1
            self._counts[hint] = n
            name = f"{hint}_{n}"
        self.locals[name] = kind
        return name

    def emit(self, *stmts: Stmt) -> None:
        """Adds statements to the innermost open body."""
        self._bodies[-1].extend(stmts)

    def let(self, value: Expr, kind: str = "V", hint: str = "t", at: str | None = None) -> Local:
        """Stores a value in a fresh local and answers the read of it."""
        name = self.fresh(kind, hint)
        self.emit(Set(name, value, at))
        return Local(name)

    @contextmanager
    def nested(self) -> Iterator[list[Stmt]]:
        """Opens a body (of an ``If``, a loop, a ``Block``); what is emitted inside goes to the list it yields."""
        body: list[Stmt] = []
        self._bodies.append(body)
        try:
            yield body
        finally:
            self._bodies.pop()

    def ret(self, value: Expr, at: str | None = None) -> None:
        """Emits a return."""
        self.emit(Return(value, at))

    def ret_if(self, cond: Expr, value: Expr, at: str | None = None) -> None:
        """Emits ``if cond: return value``."""
        self.emit(If(cond, (Return(value, at),), (), at))

    def function(self, *body: Stmt) -> Function:
        """The function: everything emitted, then ``body``."""
        self.emit(*body)
        return Function(
            self.name, self.params, dict(self.locals), tuple(self._bodies[0]), self.result, self.policy, self.role
        )


def negate(cond: Expr) -> Expr:
    """The opposite of a condition of kind B, with double negation and constants taken away."""
    match cond:
        case Op("not", (inner,)):
            return inner
        case Const(bool() as value):
            return Const(not value)
    return Op("not", (cond,))


def all_of(terms: Sequence[Expr]) -> Expr:
    """The conjunction of any number of terms; true for none."""
    if len(terms) == 1:
        return terms[0]
    return And(tuple(terms)) if terms else TRUE


def any_of(terms: Sequence[Expr]) -> Expr:
    """The disjunction of any number of terms; false for none."""
    if len(terms) == 1:
        return terms[0]
    return Or(tuple(terms)) if terms else FALSE
