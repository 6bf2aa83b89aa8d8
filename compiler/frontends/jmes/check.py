"""Looks over a query before it is lowered: calls of functions that are not there, wrong numbers of arguments, an
``&`` where none may stand; and the names of the root it starts from."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from compiler.frontends.jmes.ast import (
    Call,
    Current,
    Each,
    Field,
    Filter,
    Flatten,
    Literal,
    MultiHash,
    MultiList,
    Node,
    Pipe,
    Reference,
    Slice,
    Span,
    Values,
    children,
)
from compiler.frontends.jmes.functions import ANY, FUNCTIONS, Function
from grammar.errors import SyntaxProblem
from vm.intrinsics.jmes_errors import kind_name
from vm.intrinsics.regex import what_is_wrong


def check(node: Node) -> None:
    """Raises ``SyntaxProblem`` (``name``, ``arity``, ``type``) for the first call, in the order of the text, that
    cannot work."""
    stack = [node]
    while stack:
        at = stack.pop()
        if isinstance(at, Call):
            _call(at)
        stack.extend(reversed(list(children(at))))


def _call(call: Call) -> None:
    f = FUNCTIONS.get(call.name)
    if f is None:
        near = get_close_matches(call.name, FUNCTIONS, 1)
        hint = f"did you mean {near[0]}?" if near else ""
        raise SyntaxProblem("name", f"unknown function {call.name}", *call.at, hint=hint)
    given = len(call.args)
    if given < f.low or (f.high is not None and given > f.high):
        want = f"{f.low}" if f.high == f.low else f"at least {f.low}"
        plural = "" if f.low == 1 else "s"
        raise SyntaxProblem(
            "arity", f"function {f.name} takes {want} argument{plural}, not {given}", *call.at, hint=f.signature
        )
    for i, arg in enumerate(call.args):
        if isinstance(arg, Reference) != (i == f.reference):
            what = "an expression (&…)" if i == f.reference else f.params[min(i, f.low - 1)]
            got = "an expression" if isinstance(arg, Reference) else "a value"
            raise SyntaxProblem(
                "type", f"argument {i + 1} of {f.name} must be {what}, not {got}", *arg.at, hint=f.signature
            )


def constant_problems(node: Node) -> Iterator[SyntaxProblem]:
    """What is wrong with constant arguments: types that the function does not take, regular expressions that are none.

    Apart from :func:`check`, since a call that fails is an error only where it is evaluated.
    """
    stack = [node]
    while stack:
        at = stack.pop()
        if isinstance(at, Call) and (f := FUNCTIONS.get(at.name)) is not None:
            for i, arg in enumerate(at.args):
                if isinstance(arg, Literal):
                    yield from _constant(f, i, arg)
        stack.extend(children(at))


def _constant(f: Function, position: int, arg: Literal) -> Iterator[SyntaxProblem]:
    wanted = f.params[min(position, f.low - 1)]
    got = kind_name(arg.value)
    if wanted != ANY and got not in (w.partition("[")[0] for w in wanted.split("|")):
        message = f"argument {position + 1} of {f.name} must be {wanted}, not {got}"
        yield SyntaxProblem("type", message, *arg.at, hint=f.signature)
    elif f.name.startswith("regex_") and position == 0 and (wrong := what_is_wrong(arg.value)):
        yield SyntaxProblem("type", wrong, *arg.at, hint="regular expressions are those of RE2")


def root_names(node: Node) -> Iterator[tuple[str, Span]]:
    """The fields that a query reads from the very value it is applied to, with their places."""
    stack = [node]
    while stack:
        at = stack.pop()
        match at:
            case Field(Current(), name):
                yield name, at.at
            case Slice(of=of) | Each(of) | Values(of) | Flatten(of) | Filter(of):
                stack.append(of)
            case Pipe(stages):
                stack.append(stages[0])
            case Call(of, _, args):
                if isinstance(of, Current):
                    stack.extend(a for a in args if not isinstance(a, Reference))
                else:
                    stack.append(of)
            case MultiList(of) | MultiHash(of) if not isinstance(of, Current):
                stack.append(of)
            case _:
                stack.extend(children(at))
