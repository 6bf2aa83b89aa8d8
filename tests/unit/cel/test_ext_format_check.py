"""Constant formats are held against the types of their operands at compile time, in the words of cel-go."""

from __future__ import annotations

import pytest

from compiler.frontends.cel.check import check
from compiler.frontends.cel.declarations import KUBERNETES_LIBRARIES, PLAIN_LIBRARIES
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.parse import parse
from compiler.frontends.cel.types import DYN

PLAIN = Env({"m": DYN}, PLAIN_LIBRARIES)
KUBERNETES = Env({"m": DYN}, KUBERNETES_LIBRARIES, kubernetes=True)
STRING = (
    "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
    "types, durations, and timestamps, was given optional_type"
)


def found(text: str, env: Env) -> list[tuple[str, str]]:
    """The messages, each with the part of the text that it is about."""
    return [(p.message, text[p.at[0] : p.at[1]]) for p in check(parse(text), env).problems]


@pytest.mark.parametrize(
    "text",
    [
        "'%s %s %s %s %s'.format([int, null, b'', 1u, true])",
        "'%d %s'.format([m.a, m])",
        "'%d'.format(['a'] + [])",
        "m.format([1, 2])",
        "'%%'.format([])",
        "[1].map(x, '%d'.format([x]))",
        "'%.3f %e'.format([1.5, 2.5])",
        "'%x %X'.format(['a', b'b'])",
    ],
)
@pytest.mark.parametrize("env", [PLAIN, KUBERNETES])
def test_fits(text: str, env: Env) -> None:
    assert found(text, env) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("'%s'.format([[[optional.none()]]])", STRING),
        ("'%s'.format([{'a': 1, 'b': [optional.of(1)]}])", STRING),
        ("'%z %d'.format([1, 's'])", 'could not parse formatting clause: unrecognized formatting clause "z"'),
        ("'%s %s'.format([1])", "index 1 out of range"),
        ("'%'.format([])", "unexpected end of string"),
        ("'%s'.format([1, 2])", "too many arguments supplied to string.format (expected 1, got 2)"),
    ],
)
@pytest.mark.parametrize("env", [PLAIN, KUBERNETES])
def test_misfits(text: str, message: str, env: Env) -> None:
    assert [m for m, _ in found(text, env)] == [message]


def test_the_operand_is_shown() -> None:
    words = "error during formatting: decimal clause can only be used on ints, uints, and doubles, was given string"
    assert found("'%d %d'.format([1, 'one'])", PLAIN) == [(words, "'one'")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("'%d'.format([1.5])", "decimal clause can only be used on integers, was given double"),
        ("'%f'.format([1])", "fixed-point clause can only be used on doubles, was given int"),
        ("'%e'.format([1u])", "scientific clause can only be used on doubles, was given uint"),
        ("'%x'.format([1.5])", "only integers, byte buffers, and strings can be formatted as hex, was given double"),
    ],
)
def test_kubernetes_takes_less(text: str, message: str) -> None:
    assert [m for m, _ in found(text, KUBERNETES)] == [f"error during formatting: {message}"]


def test_numbers_of_any_type_fit_version_4() -> None:
    assert found("'%d %f %e'.format([1.5, 1, 1u])", PLAIN) == []
