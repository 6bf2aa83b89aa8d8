"""What expressions answer: logic with errors, access, literals, binds. Expected texts are cel-go's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.cel_spec import shown
from tests.unit.cel.lowering import error, run
from vm.cel.values import NONE, CelMap, Optional, TypeValue


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("v.a && v.b", False),
        ("v.b && v.none", False),
        ("v.none && v.b", False),
        ("v.n && v.b", False),
        ("v.a || v.none", True),
        ("v.none || v.a", True),
        ("v.none || v.n || v.a", True),
        ("v.b || v.b", False),
        ("v.a ? 1 : v.none", 1),
        ("v.b ? v.none : 2", 2),
        ("!v.b", True),
        ("has(v.a) && has(v.m.x) && !has(v.m.y)", True),
        ("v.m['x']", 1),
        ("v.l[1]", 20),
        ("v.m.x == 1 && v['m']['x'] == 1.0", True),
    ],
)
def test_logic_and_access(text: str, wanted: Any) -> None:
    answer = run(text, v={"a": True, "b": False, "n": 1, "m": {"x": 1}, "l": [10, 20]})
    assert shown(answer) == shown(wanted)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("v.none && v.a", "no such key: none"),
        ("v.a && v.none", "no such key: none"),
        ("v.none && v.n", "no such key: none"),
        ("v.n && v.none", "no such overload"),
        ("v.n && v.a", "no such overload"),
        ("v.none || v.b", "no such key: none"),
        ("v.b || v.n", "no such overload"),
        ("v.n ? 1 : 2", "no such overload"),
        ("v.none ? 1 : 2", "no such key: none"),
        ("!v.n", "no such overload"),
        ("v.n.x", "no such key: x"),
        ("v.nil.x", "no such key: x"),
        # Generated code must not say None['x'] or True['x']: Python warns of that.
        ("dyn(null).x", "no such key: x"),
        ("dyn(true).x", "no such key: x"),
        ("v.l.x", "unsupported index type 'string' in list"),
        ("has(v.l.x)", "unsupported index type 'string' in list"),
        ("has(v.none.x)", "no such key: none"),
        ("v.l[5]", "index out of bounds: 5"),
        ("[1, v.none, v.other]", "no such key: none"),
        ("{'k': v.none}", "no such key: none"),
        ("{v.n: 1, v.n: 2}", "insert failed: key 1 already exists"),
        ("1 / (v.n - 1)", "division by zero"),
    ],
)
def test_errors(text: str, wanted: str) -> None:
    assert error(text, v={"a": True, "b": False, "n": 1, "l": [1], "nil": None}) == wanted


def test_what_has_no_fields_has_none() -> None:
    assert run("has(v.x)", v=None) is False
    assert run("has(v.x)", v="text") is False


def test_a_variable_without_a_value() -> None:
    from tests.unit.cel.lowering import program

    answer = program("v.a", {"v": None}).run({})
    assert answer.text == "no such attribute(s): v"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[]", []),
        ("[v, [v]]", [7, [7]]),
        ("{}", {}),
        ("{'a': v}.a", 7),
        ("{v: 'x'}[7.0]", "x"),
        ("{1: v, 2u: 3}[2]", 3),
        ("size({1: v, true: 2, 'c': 3})", 3),
        ("[?optional.of(v), ?optional.none(), 2]", [7, 2]),
        ("{?'a': optional.of(v), ?'b': optional.none()}", {"a": 7}),
        ("type(v)", TypeValue("int")),
        ("google.protobuf.Int32Value{value: v}", 7),
    ],
)
def test_literals(text: str, wanted: Any) -> None:
    assert shown(run(text, v=7)) == shown(wanted)


def test_a_map_with_keys_of_other_types() -> None:
    answer = run("{v: 1}", v=True)
    assert isinstance(answer, CelMap)
    assert list(answer.entries.values()) == [(True, 1)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("cel.bind(x, v.none, false && x)", False),
        ("cel.bind(x, v.n, x + x)", 4),
        ("cel.bind(x, v.n, v.b || x == 2)", True),
        ("cel.bind(x, v.n, [1, 2].map(y, v.b || x == y))", [False, True]),
        ("cel.bind(x, 1, cel.bind(y, x + 1, v.b ? x : y))", 2),
        ("cel.bind(x, [1, 2].map(a, a * 2), v.b || x[1] == 4)", True),
        ("v.?n", Optional(2)),
        ("v.?none", NONE),
        ("v.?none.deeper.still", NONE),
        ("v[?'n']", Optional(2)),
        ("v.?n.orValue(v.none)", 2),
        ("v.?none.orValue(v.n)", 2),
        ("v.?none.or(v.?n)", Optional(2)),
        ("v.?n.or(v.none.x)", Optional(2)),
        ("v.?n.optMap(x, x + 1)", Optional(3)),
        ("v.?none.optMap(x, x + 1)", NONE),
        ("v.?n.optFlatMap(x, v.?none)", NONE),
        ("has(v.?n.x)", False),
        ("optional.of({'a': 1}).a", Optional(1)),
    ],
)
def test_binds_and_optional_values(text: str, wanted: Any) -> None:
    assert shown(run(text, v={"n": 2, "b": False})) == shown(wanted)


def test_a_bind_is_an_error_where_it_is_needed() -> None:
    assert error("cel.bind(x, v.none, true && x)", v={}) == "no such key: none"
    assert error("v.?none.value()", v={}) == "optional.none() dereference"
    assert error("dyn(1).optMap(x, x)") == "no such overload: hasValue(int)"


def test_names_are_looked_up_as_wholes() -> None:
    from compiler.frontends.cel.env import Env
    from compiler.frontends.cel.program import CelProgram, compile_program
    from compiler.frontends.cel.types import DYN

    env = Env({"a.b": DYN, "a": DYN, "x.a.b": DYN}, container="")
    found = compile_program("a.b", env)
    assert isinstance(found, CelProgram)
    assert found.run({"a": {"b": 1}, "a.b": 2}) == 2
