"""What the checker makes of a schema: warnings, better types, and quantities."""

from __future__ import annotations

import pytest

from compiler.frontends.cel.check import check
from compiler.frontends.cel.checked import Checked
from compiler.frontends.cel.declarations import KUBERNETES_LIBRARIES
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.parse import parse
from compiler.frontends.cel.soft import hard, merged, schema
from compiler.frontends.cel.types import (
    BOOL,
    DYN,
    INT,
    INT_OR_STRING,
    QUANTITY_TEXT,
    STRING,
    ListOf,
    MapOf,
    Object,
    Soft,
)

CONTAINER = Object("v1.Container", {"name": STRING, "cpu": QUANTITY_TEXT, "limits": MapOf(STRING, QUANTITY_TEXT)})
POD = Object(
    "v1.Pod",
    {
        "name": STRING,
        "priority": INT,
        "host": BOOL,
        "port": INT_OR_STRING,
        "labels": MapOf(STRING, STRING),
        "containers": ListOf(CONTAINER),
        "any": Object("v1.Any", {"a": INT}, open=True),
        "cpu": QUANTITY_TEXT,
    },
)


def checked(text: str, strict: bool = False) -> Checked:
    env = Env({"object": Soft(POD), "dynamic": DYN}, KUBERNETES_LIBRARIES, strict=strict, kubernetes=True)
    return check(parse(text), env)


def told(found: Checked) -> list[tuple[str, str]]:
    return [(p.level, p.kind) for p in found.problems]


@pytest.mark.parametrize(
    "text",
    [
        "object.name == 'a' && object.priority > 1 && object.host",
        "object.name == null || object.priority == 1.0 || object.priority == 1u",
        "object.port == 80 || object.port == 'http'",
        "'a' in object.labels && 'name' in object && object.labels.a == object.labels['b']",
        "object.labels.exists(k, object.labels[k] == '') || object.containers.exists(c, c.name == '')",
        "object.containers.map(c, c.name) == ['a'] && object.containers == []",
        "object.any.whatever.there == 1",
        "object.?name.orValue('a') == 'b' && object[?'name'].orValue('a') == 'b'",
        "(object.host ? object.priority : object.name) == 1",
        "timestamp(object.name) < timestamp('2020-01-01T00:00:00Z')",
        "dyn(object).nothing.there",
        "object.containers.all(c, has(c.limits) && c.limits.cpu.startsWith('1'))",
        "size(object.labels) + object.containers.size() + size(object.name) > 0",
        "object.cpu == dynamic.cpu",
    ],
)
def test_what_fits_the_schema_is_not_mentioned(text: str) -> None:
    found = checked(text)
    assert found.problems == ()
    assert found.ok


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("object.nam == 'a'", "schema"),
        ("has(object.nam)", "schema"),
        ("object['nam'] == 'a'", "schema"),
        ("object.?nam.hasValue()", "schema"),
        ("object[?'nam'].hasValue()", "schema"),
        ("object.?any['a'].?b.hasValue()", "schema"),
        ("object.name.first == 'a'", "schema"),
        ("object.containers.all(c, c.image == 'a')", "schema"),
        ("object.priority + 'a' == 'b'", "schema"),
        ("object.priority.startsWith('a')", "schema"),
        ("object.name || object.host", "schema"),
        ("object.name ? true : false", "schema"),
        ("object.priority.all(x, x > 1)", "schema"),
        ("object.containers.filter(c, c.name).size() > 0", "schema"),
        ("object.host == 'true'", "always_false"),
        ("object.labels.a != 1", "always_false"),
        ("object.name in [1, 2]", "always_false"),
        ("1 in object.labels", "always_false"),
        ("object.containers.exists(c, c.name == 1)", "always_false"),
    ],
)
def test_what_does_not_fit_is_a_warning_and_nothing_more(text: str, kind: str) -> None:
    found = checked(text)
    assert told(found) == [("warning", kind)]


def test_a_field_that_is_near() -> None:
    assert [p.help for p in checked("object.containrs.size() > 0").problems] == ["did you mean 'containers'?"]


def test_errors_of_plain_cel_stay_errors() -> None:
    assert told(checked("[object.name] + 1")) == [("error", "overload")]
    assert told(checked("object.name + 'a' == 1")) == [("error", "overload")]


@pytest.mark.parametrize(
    ("text", "functions"),
    [
        ("object.cpu > '100m'", ["gt"]),
        ("'100m' <= object.cpu", ["le"]),
        ("object.cpu == 2 && object.cpu != 0.5", ["eq", "ne"]),
        ("object.containers.all(c, c.limits.cpu <= '4' && c.limits['memory'] < '1Gi')", ["le", "lt"]),
        ("object.containers.all(c, 2 * c.cpu - 1 <= object.cpu)", ["mul", "sub", "le"]),
        ("-object.cpu < 0", ["neg", "lt"]),
        ("object.containers.map(c, c.cpu).sum() < '4'", ["sum", "lt"]),
        ("object.containers.map(c, c.cpu).max() < object.cpu", ["max", "lt"]),
        ("object.containers.map(c, c.limits).all(l, l.cpu < '1')", ["lt"]),
        ("object.containers.filter(c, has(c.cpu))[0].cpu < '1'", ["lt"]),
        ("object.containers.all(c, c.?limits.?cpu.orValue('0') < '1')", ["lt"]),
        ("object.containers.all(c, (has(c.cpu) ? c.cpu : '0') < '1')", ["lt"]),
        ("object.containers.all(c, c.limits.all(k, v, v < '1'))", ["lt"]),
        ("cel.bind(x, object.cpu, x >= '1')", ["ge"]),
        ("object.containers.all(c, c.?limits[?'cpu'].orValue('0') < 1)", ["lt"]),
        ("object[?'containers'].orValue([]).all(c, c['limits']['cpu'] < '1')", ["lt"]),
        ("object[?'containers'].orValue([]).all(c, c['limits']['a'] < '1' && c.limits.b > '2')", ["lt", "gt"]),
        ("object.?cpu.optMap(x, x < '1').orValue(true)", ["lt"]),
        ("quantity('1') < object.cpu", ["lt"]),
        ("[object.cpu, object.cpu].min() < '1'", ["min", "lt"]),
    ],
)
def test_quantities_are_meant(text: str, functions: list[str]) -> None:
    found = checked(text)
    assert told(found) == [("note", "quantity")] * len(functions)
    rows = [f.name for f in found.calls.values() if f.name.startswith("thesmos.quantity.")]
    assert sorted(rows) == sorted(f"thesmos.quantity.{name}" for name in functions)


@pytest.mark.parametrize(
    "text",
    [
        "object.cpu == 'none'",
        "object.cpu == ''",
        "object.cpu == null",
        "object.cpu == dynamic",
        "object.cpu + 'm' == '1m'",
        "object.cpu in ['1']",
        "object.name < '1'",
    ],
)
def test_plain_cel_is_meant(text: str) -> None:
    assert checked(text).problems == ()


@pytest.mark.parametrize(
    "text",
    [
        "object.?labels[?'a'].orValue('') == 3",
        "object.?labels[?'a'].orValue('').foo",
        "object.?name['a'] + 1",
        "object.?name.all(c, true)",
        "[object.name, 1]",
        "{'a': object.name, 'b': 'c'}",
        "object.name.nothing(1)",
    ],
)
def test_a_schema_neither_adds_errors_nor_takes_them_away(text: str) -> None:
    plain = check(parse(text), Env({"object": DYN}, KUBERNETES_LIBRARIES, kubernetes=True))
    assert [p for p in checked(text).problems if p.level == "error"] == list(plain.problems)
    assert plain.problems


def test_strict_is_plain_cel() -> None:
    found = checked("object.cpu > '100m'", strict=True)
    assert found.problems == ()
    assert found.calls[found.root.id].name == "_>_"
    assert told(checked("2 * object.cpu > 1", strict=True)) == []


def test_the_two_readings_of_a_type() -> None:
    t = ListOf(Soft(MapOf(STRING, QUANTITY_TEXT)))
    assert hard(t) == ListOf(DYN)
    assert schema(t) == ListOf(MapOf(STRING, QUANTITY_TEXT))
    assert merged(ListOf(DYN), schema(t)) == t
    assert merged(ListOf(INT), schema(t)) == ListOf(INT)
