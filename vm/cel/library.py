"""The form of a CEL function library: one table that the checker, the VM, the cost model and the documentation share.

A :class:`Function` row is one callable of the VM: all overloads of a name with one number of operands, told apart by
the types of the operands at run time. ``vm.functions`` makes an intrinsic of each row. Types stand as CEL writes them:
``int``, ``list(A)``, ``map(K, V)``, ``optional_type(A)``, ``type(A)``, ``google.protobuf.Timestamp``,
``kubernetes.Quantity``; a single capital letter is a type parameter, ``dyn`` any type.
"""

from __future__ import annotations

from dataclasses import dataclass

from vm.values import Value


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature. ``params`` hold the receiver first where ``member`` says that it is called as a method."""

    params: tuple[str, ...]
    result: str
    member: bool = False


def function(*params: str, to: str) -> Overload:
    """``f(params) -> to``."""
    return Overload(params, to)


def method(receiver: str, *params: str, to: str) -> Overload:
    """``receiver.f(params) -> to``."""
    return Overload((receiver, *params), to, member=True)


@dataclass(frozen=True, slots=True)
class Function:
    """A function as expressions call it, with one number of operands (the receiver counts).

    ``name`` is the name in the tree: ``contains``, ``math.@max``, operators as cel-go names them (``_+_``, ``@in``).
    ``body`` is ``module:function``, a total function on values: it takes the operands, an ``Err`` among them too, and
    answers a value or an ``Err``; it never raises. What no overload covers ends in
    :func:`vm.cel.values.no_overload`, which answers the first operand that is an error. Where libraries share a name
    and number of operands (``indexOf`` of texts and of lists), their rows share symbol and body, and the body takes the
    operands of all: which overload a ``dyn`` operand needs is known at run time alone. ``symbol`` names the intrinsic
    where ``name`` is no word (``add`` for ``_+_``, ``math.max`` for ``math.@max``). ``fuel``, ``sized`` and ``metered``
    are those of :class:`vm.catalogue.Intrinsic`: work that grows with the operands is ``sized`` or ``metered``.
    ``cost`` names a rule of ``vm.cel.costs`` for the API server's units (``one``: one unit a call). ``pure`` is False
    where equal operands may give other answers; ``since`` is the version of the library that brought the function,
    ``until`` the one that put another in its place (0: none). ``wraps`` is True where the result may hold an operand
    as a whole (an optional value, a list made of operands); ``changes`` True where the body changes its first operand
    and answers it, which only code that made the operand itself may call.
    """

    name: str
    overloads: tuple[Overload, ...]
    body: str
    doc: str
    symbol: str = ""
    fuel: int = 2
    sized: tuple[int, ...] = ()
    metered: bool = False
    cost: str = "one"
    pure: bool = True
    wraps: bool = False
    changes: bool = False
    since: int = 0
    until: int = 0

    @property
    def operands(self) -> int:
        return len(self.overloads[0].params)

    @property
    def intrinsic(self) -> str:
        """The name in ``vm.functions.INTRINSICS``: ``cel.contains.2``."""
        return f"cel.{self.symbol or self.name}.{self.operands}"


@dataclass(frozen=True, slots=True)
class Library:
    """Functions that come together. ``version`` is the version of the extension (cel-go's numbering, or 1);
    ``constants`` are names with their values, ``types`` the names of types that the library brings."""

    name: str
    version: int
    functions: tuple[Function, ...]
    doc: str
    types: tuple[str, ...] = ()
    constants: tuple[tuple[str, Value], ...] = ()


def released(functions: tuple[Function, ...], version: int) -> tuple[Function, ...]:
    """The functions that a version of a library has."""
    return tuple(f for f in functions if f.since <= version and (not f.until or version < f.until))
