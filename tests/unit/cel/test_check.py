"""Types and errors of the checker, by plain CEL and by the environment of the API server."""

from __future__ import annotations

import pytest

from compiler.frontends.cel.ast import Call, Ident, ListLit, Literal, Node
from compiler.frontends.cel.check import check
from compiler.frontends.cel.checked import Checked, Constant, LoopVar, Variable
from compiler.frontends.cel.declarations import KUBERNETES_LIBRARIES, PLAIN_LIBRARIES
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.parse import parse
from compiler.frontends.cel.types import DYN, INT, STRING, MapOf, Type, format_type, parse_type
from vm.cel.values import TypeValue


def checked(text: str, variables: dict[str, Type] | None = None, container: str = "", plain: bool = True) -> Checked:
    libraries = PLAIN_LIBRARIES if plain else KUBERNETES_LIBRARIES
    return check(parse(text), Env(variables or {"x": DYN}, libraries, container, kubernetes=not plain))


def errors(found: Checked) -> list[str]:
    return [p.message for p in found.problems if p.level == "error"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[1, 'a']", "list(dyn)"),
        ("[[], [1]]", "list(list(int))"),
        ("[]", "list(dyn)"),
        ("{}", "map(dyn, dyn)"),
        ("x.a.b", "dyn"),
        ("-x", "dyn"),
        ("x.a + 'a'", "string"),
        ("x.map(a, a + 1)", "list(int)"),
        ("[[]].map(a, a + [1])", "list(list(int))"),
        ("cel.bind(a, [], a + [1])", "list(int)"),
        ("true ? {} : {'a': dyn(1)}", "map(string, dyn)"),
        ("type(type(1))", "type(type(int))"),
        ("google.protobuf.Int64Value{value: 1}", "wrapper(int)"),
        ("google.protobuf.Struct{fields: {'a': 1}}", "map(string, dyn)"),
        ("google.protobuf.Value{}", "dyn"),
        ("google.protobuf.Timestamp", "type(timestamp)"),
        ("{'a': {'b': 1}}.?a.?b", "optional_type(int)"),
        ("{'a': [1]}.?a[0]", "optional_type(int)"),
        ("optional.none().optMap(a, a + 1)", "optional_type(int)"),
        ("{1: 2}.transformMapEntry(k, v, {v: k})", "map(int, int)"),
        ("{1: 2}.transformMap(k, v, v > 0)", "map(int, bool)"),
        ("x[?'a'].orValue('')", "string"),
        ("math.greatest(1, 2.0)", "dyn"),
        ("{'a': 1, ?'b': optional.of(2)}", "map(string, int)"),
        ("[google.protobuf.Int32Value{}, 1]", "list(wrapper(int))"),
        ("[1, google.protobuf.Int32Value{}]", "list(wrapper(int))"),
        ("google.protobuf.NullValue.NULL_VALUE", "int"),
    ],
)
def test_types(text: str, wanted: str) -> None:
    found = checked(text)
    assert found.problems == ()
    assert format_type(found.type) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("foo", ["undeclared reference to 'foo' (in container '')"]),
        (".foo", ["undeclared reference to '.foo' (in container '')"]),
        ("'a'.foo()", ["undeclared reference to 'foo' (in container '')"]),
        ("1 + 'a'", ["found no matching overload for '_+_' applied to '(int, string)'"]),
        ("'a'.size(1)", ["found no matching overload for 'size' applied to 'string.(int)'"]),
        ("int + 1", ["found no matching overload for '_+_' applied to '(type(int), int)'"]),
        ("true ? null : 'a'", ["found no matching overload for '_?_:_' applied to '(bool, null, string)'"]),
        ("1 && true", ["expected type 'bool' but found 'int'"]),
        ("[1].all(a, a)", ["expected type 'bool' but found 'int'"]),
        ("[1].filter(a, a)", ["found no matching overload for '_?_:_' applied to '(int, list(int), list(int))'"]),
        ("[1].exists_one(a, a)", ["found no matching overload for '_?_:_' applied to '(int, int, int)'"]),
        (
            "1.all(a, a)",
            ["expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)"],
        ),
        ("has('a'.b)", ["type 'string' does not support field selection"]),
        ("[?1]", ["expected type 'optional_type(int)' but found 'int'"]),
        (
            "google.protobuf.Int64Value{value: 'a'}",
            ["expected type of field 'value' is 'int' but provided type is 'string'"],
        ),
        ("google.protobuf.Int64Value{valu: 1}", ["undefined field 'valu'"]),
        ("google.protobuf.Nothing{}", ["undeclared reference to 'google.protobuf.Nothing' (in container '')"]),
        ("x{a: 1}", ["'dyn' is not a type", "unexpected failed resolution of 'x'"]),
        ("string{a: 1}", ["'string' is not a message type", "unexpected failed resolution of 'string'"]),
        (
            "[1].transformMapEntry(i, v, v)",
            ["found no matching overload for 'cel.@mapInsert' applied to '(map(dyn, dyn), int)'"],
        ),
        (
            "'a'.optMap(a, a)",
            [f"found no matching overload for '{f}' applied to 'string.()'" for f in ("hasValue", "value")],
        ),
        ("a && b", [f"undeclared reference to '{n}' (in container '')" for n in "ab"]),
    ],
)
def test_errors_are_in_the_words_of_cel_go(text: str, wanted: list[str]) -> None:
    assert errors(checked(text)) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[1, 'a']", ["expected type 'int' but found 'string'"]),
        ("[x.a, 'a']", ["expected type 'dyn' but found 'string'"]),
        ("[dyn('a'), dyn(1)]", []),
        ("'%s %d'.format(['a', 1])", []),
        (
            "{1: 'a', 'b': 2}",
            ["expected type 'int' but found 'string'", "expected type 'string' but found 'int'"],
        ),
        ("duration('x') == null", ["invalid duration argument"]),
        ("timestamp('x') == null", ["invalid timestamp argument"]),
        ("x.matches('(')", ["invalid matches argument"]),
        ("x.matches('a')", []),
        ("quantity('1').foo", ["unexpected failed resolution of 'kubernetes.Quantity'"]),
        ("ip('::1').foo", ["type 'net.IP' does not support field selection"]),
    ],
)
def test_the_api_server_asks_for_more(text: str, wanted: list[str]) -> None:
    assert errors(checked(text, plain=False)) == wanted


@pytest.mark.parametrize(
    ("text", "variables", "container", "wanted"),
    [
        ("y", {"a.b.y": INT, "a.y": STRING, "y": STRING}, "a.b", Variable("a.b.y")),
        ("y", {"a.y": INT, "y": STRING}, "a.b", Variable("a.y")),
        (".y", {"a.y": INT, "y": STRING}, "a", Variable("y")),
        ("x.y", {"x.y": INT, "x": MapOf(STRING, INT)}, "", Variable("x.y")),
        ("int", {}, "", Constant(TypeValue("int"))),
    ],
)
def test_names(text: str, variables: dict[str, Type], container: str, wanted: object) -> None:
    found = checked(text, variables, container)
    assert found.names[found.root.id] == wanted


def test_a_loop_variable_hides_longer_names() -> None:
    found = checked("[{'z': 0}].exists(y, y.z == 0 && .y.z == 'a')", {"c.y.z": STRING, "y.z": STRING}, "c")
    assert found.problems == ()
    assert set(found.names.values()) == {LoopVar(found.root.id), Variable("y.z")}


def test_a_namespace_is_no_operand() -> None:
    found = checked("math.abs(1)")
    assert found.namespaced == {found.root.id}
    assert found.calls[found.root.id].name == "math.abs"


@pytest.mark.parametrize(
    ("text", "help"),
    [
        ("'a'.startsWit('b')", "did you mean 'startsWith'?"),
        ("1 + 'a' == 2", "int(x) converts a value of type string"),
        ("quantity('1') < quantity('2')", "of values made with quantity(x)"),
        ("math.abs(1)", "the API server does not have the library 'math' of CEL, where this function is"),
    ],
)
def test_help(text: str, help: str) -> None:
    assert help in [p.help for p in checked(text, plain=False).problems]


def test_problems_come_in_the_order_of_the_text() -> None:
    found = checked("a(b) + c")
    assert [p.at for p in found.problems] == sorted(p.at for p in found.problems)


def test_types_that_double_with_every_binding_stay_small() -> None:
    text = "[]"
    for i in range(60):
        text = (
            f"cel.bind(a{i}, {{'k': [[1]]}}, {text})" if i == 59 else f"cel.bind(a{i}, {{a{i + 1}: a{i + 1}}}, {text})"
        )
    found = checked(text)
    assert max(len(format_type(t)) for t in found.types.values()) < 20_000


def test_a_deep_tree_is_checked() -> None:
    node: Node = Literal(1, id=1)
    for i in range(2, 250):
        node = ListLit((node,), id=i)
    found = check(node, Env(libraries=PLAIN_LIBRARIES))
    assert format_type(found.type).count("list") == 248
    sum_: Node = Ident("x", id=1)
    for i in range(2, 500, 2):
        sum_ = Call("_+_", (sum_, Literal(1, id=i)), id=i + 1)
    assert check(sum_, Env({"x": DYN}, PLAIN_LIBRARIES)).type == INT


@pytest.mark.parametrize(
    "text",
    [
        "map(string, list(int))",
        "optional_type(dyn)",
        "type(int)",
        "wrapper(uint)",
        "tuple(A, B)",
        "kubernetes.Quantity",
    ],
)
def test_types_read_as_they_are_written(text: str) -> None:
    assert format_type(parse_type(text)) == text


@pytest.mark.parametrize("text", ["", "list(", "list(int", "list(int))", "map(,)"])
def test_what_is_no_type(text: str) -> None:
    with pytest.raises(ValueError, match="type"):
        parse_type(text)
