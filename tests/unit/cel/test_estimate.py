"""What expressions may cost: cel-go's own numbers where all sizes are known, the assumption where they are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compiler.frontends.cel.check import check
from compiler.frontends.cel.declarations import KUBERNETES_LIBRARIES
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.estimate import Estimate, estimate
from compiler.frontends.cel.parse import parse
from compiler.frontends.cel.program import CelProgram, compile_program
from compiler.frontends.cel.sizes import CHARACTERS, ITEMS, Bounds, Shape, sized
from compiler.frontends.cel.types import DYN, INT, STRING, ListOf, MapOf, Object, Prim, Soft, Type
from vm.cel.costs import CHECK, PER_EXPRESSION, UNBOUNDED
from vm.host import Meter

FACTS: list[tuple[str, int, int]] = [
    ("1", 0, 0),
    ("[1, 2, 3]", 10, 10),
    ("{'a': 1}", 30, 30),
    ("1 + 2", 1, 1),
    ("'a' + 'bc' == 'abc'", 2, 2),
    ("'' == ''", 0, 0),
    ("[1] + [2, 3]", 21, 21),
    ("true || 1 > 2", 0, 1),
    ("1 > 2 ? [1] : [1, 2]", 11, 11),
    ("1 in [1, 2, 3]", 13, 13),
    ("'a' in {'a': 1}", 31, 31),
    ("[1, 2, 3].all(x, x > 1)", 20, 26),
    ("[1, 2].exists(x, [3, 4].exists(y, y == x))", 19, 69),
    ("[1, 2, 3].exists_one(x, x == 1)", 21, 24),
    ("[1].filter(x, x > 0).map(y, y)", 48, 60),
    ("[1, 2].map(x, x > 1, x * 2)", 27, 53),
    ("{'a': 1}.all(k, k == 'a')", 34, 36),
    ("['a', 'b'].map(x, x + 'cccccccccccccccccccccccccc').all(y, y == 'hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh')", 60, 68),
    ("[1, 2, 3].transformList(i, v, i + v)", 66, 66),
    ("{'a': 1}.transformMap(k, v, v + 1)", 66, 66),
    ("{'a': 1}.transformMapEntry(k, v, {k: v})", 95, 95),
    ("[1, 2, 3].all(i, v, i < v)", 20, 29),
    ("[1, 2, 3].exists(i, v, i < v)", 23, 32),
    ("lists.range(1000).map(x, x).size() > 3", 14_024, 14_024),
    ("lists.range(1000000).size() > 3", 1_000_013, 1_000_013),
    ("'abc'.replace('a', 'b')", 1, 1),
    ("'abcdefghijk'.replace('a', 'bbbbbbbbbbbbbbbb').replace('b', 'cccccccccccccccccc')", 6, 39),
    ("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.contains('bbbbbbbbbbbbbbbbbbbbbbbbbbb')", 15, 15),
    ("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.matches('^[a-z]+$')", 8, 8),
    ("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.find('[a-z]+')", 8, 8),
    ("'a,b,c'.split(',').all(x, x == 'a')", 2, 27),
    ("'a,b,c'.split(',', 2).all(x, x == 'a')", 2, 12),
    ("'AAAAAAAAAAAAAAA'.lowerAscii() == 'aaaaaaaaaaaaaaa'", 3, 4),
    ("[1, 2, 3].isSorted()", 13, 13),
    ("'aaaaaaaaaaaaaaaaaaaaaa'.indexOf('a')", 3, 3),
    ("quantity('100Mi').isGreaterThan(quantity('1'))", 3, 3),
    ("url('https://example.com:80/').getHost()", 4, 4),
    ("ip('192.168.0.1').family()", 3, 3),
    ("ip.isCanonical('192.168.0.1')", 3, 3),
    ("cidr('192.168.0.0/24').containsIP('192.168.0.1')", 5, 8),
    ("cidr('192.168.0.0/24').containsIP(ip('192.168.0.1'))", 5, 8),
    ("cidr('192.168.0.0/24').containsCIDR('192.168.0.0/25')", 7, 11),
    ("format.dns1123Label().validate('abc')", 33, 33),
    ("string(b'abcdefabcdefabcdef')", 2, 2),
    ("bytes('abcdefabcdefabcdef')", 2, 2),
    ("dyn([1, 2]).all(x, x == 1)", 18, 22),
    ("sets.contains([1, 2, 3], [1, 2])", 27, 27),
    ("sets.equivalent([1, 2, 3], [1, 2])", 33, 33),
    ("optional.of([1]).optMap(x, x + [1])", 13, 47),
    ("optional.of([1]).optFlatMap(x, optional.of(1))", 13, 35),
    ("[1, 2, 3].reverse()", 24, 24),
    ("[[1], [2]].flatten()", 43, 43),
    ("[1, 2, 2].distinct()", 39, 39),
    ("[1, 2, 3].slice(0, 2)", 23, 23),
]
"""What cel-go's checker answers with Kubernetes' ``CostEstimator``."""

POD = Object(
    "v1.Pod",
    {
        "names": Soft(ListOf(Soft(STRING))),
        "ports": Soft(ListOf(Soft(INT))),
        "labels": Soft(MapOf(STRING, Soft(STRING))),
    },
)


class Fields:
    """A provider that bounds ``names`` and ``title``."""

    def fields(self, name: str) -> Any:
        return POD.fields if name == POD.name else None

    def list_bound(self, definition: str, name: str) -> int | None:
        return {"names": 4}.get(name)

    def text_bound(self, definition: str, name: str) -> int | None:
        return {"title": 10}.get(name)


def found(text: str, t: Type = DYN, bounds: Bounds | None = None, **variables: Type) -> Estimate:
    env = Env({"object": t, **variables}, KUBERNETES_LIBRARIES, provider=Fields(), kubernetes=True)
    checked = check(parse(text), env)
    assert checked.ok, checked.problems
    return estimate(checked, bounds or Bounds())


@pytest.mark.parametrize(("text", "low", "high"), FACTS, ids=[text for text, _, _ in FACTS])
def test_what_is_known_is_what_cel_go_says(text: str, low: int, high: int) -> None:
    e = found(text)
    assert (e.low, e.high) == (low, high)


@pytest.mark.parametrize("text", [text for text, _, _ in FACTS if "1000000" not in text])
def test_no_run_costs_more_than_the_estimate(text: str) -> None:
    program = compile_program(text, Env({}, KUBERNETES_LIBRARIES, kubernetes=True))
    assert isinstance(program, CelProgram)
    meter = Meter(1_000_000)
    program.run({}, meter=meter)
    assert meter.spent <= found(text).high


def test_no_run_costs_more_than_the_estimate_for_values_of_the_assumed_size() -> None:
    checked = 0
    for line in (Path(__file__).parent / "k8s_costs.jsonl").read_text().splitlines():
        text, variables, cost = json.loads(line)
        # The expression of this format is longer than the 128 characters that Kubernetes estimates any format with.
        if "format.uri" in text or any(isinstance(v, str) and len(v) > CHARACTERS for v in variables.values()):
            continue
        env = Env(dict.fromkeys(variables, DYN), KUBERNETES_LIBRARIES, kubernetes=True)
        tree = check(parse(text), env)
        assert tree.ok, text
        assert cost <= estimate(tree, Bounds()).high, text
        checked += 1
    assert checked > 50


def test_lists_without_bound_count_as_assumed() -> None:
    e = found("object.a.all(x, true)")
    # The list: two names; the loop's end one; each round three.
    assert (e.low, e.high) == (2 + 1, 2 + 1 + 3 * ITEMS)
    (culprit,) = e.culprits
    assert (culprit.path, culprit.at, culprit.rounds, culprit.guessed) == ("object.a", (0, 8), ITEMS, True)


def test_texts_without_bound_count_as_assumed() -> None:
    assert found("object.a.contains(object.b)").high == 4 + (-(-CHARACTERS // 10)) ** 2


def test_the_schema_bounds_lists() -> None:
    bounds = Bounds(Fields())
    e = found("object.names.all(x, true)", Soft(POD), bounds)
    assert e.high == 2 + 1 + 3 * 4
    assert not e.culprits[0].guessed
    e = found("object.ports.all(x, true)", Soft(POD), bounds)
    assert (e.high, e.culprits[0].guessed) == (2 + 1 + 3 * ITEMS, True)


def test_numbers_of_a_schema_are_no_texts() -> None:
    # Rounds of 3 with two names and a comparison that is one unit.
    assert found("object.ports.all(x, x == x)", Soft(POD)).high == 3 + ITEMS * 6
    assert found("object.names.all(x, x == x)", Soft(POD)).high == 3 + ITEMS * (5 + -(-CHARACTERS // 10))


def test_keys_of_maps_are_texts() -> None:
    e = found("object.labels.all(k, object.labels[k] == k)", Soft(POD))
    assert e.high == 3 + ITEMS * (3 + 2 + 1 + 1 + 1 + -(-CHARACTERS // 10))
    assert e.culprits[0].path == "object.labels"


def test_variables_have_the_size_of_what_they_were_made_of() -> None:
    ports = Bounds(None, {"variables.ports": sized((3, 3))})
    env = Env({"variables.ports": ListOf(INT)}, KUBERNETES_LIBRARIES, kubernetes=True)
    checked = check(parse("variables.ports.all(x, true)"), env)
    e = estimate(checked, ports)
    assert (e.low, e.high) == (2 + 1 + 3 * 3, 2 + 1 + 3 * 3)


def test_culprits_are_the_dearest_chain_with_the_paths_of_what_loops_go_over() -> None:
    text = "[1].all(a, true) && object.spec.containers.all(c, c.env.exists(e, e.name == 'a') && c.ports.all(p, p > 1))"
    e = found(text)
    assert [c.path for c in e.culprits] == ["object.spec.containers", "object.spec.containers[].env"]
    assert [text[slice(*c.at)] for c in e.culprits] == ["object.spec.containers", "c.env"]


def test_paths_go_through_optional_fields_filters_and_binds() -> None:
    e = found("object.?spec.?tls.orValue([]).filter(t, has(t.hosts)).all(t, t.hosts.all(h, h == 'a'))")
    assert [c.path for c in e.culprits] == ["object.spec.tls", "object.spec.tls[].hosts"]


def test_joined_lists_count_together() -> None:
    e = found("(object.a + object.b + [1]).all(x, true)")
    assert e.culprits[0].rounds == 2 * ITEMS + 1


def test_parts_of_a_text_without_bound_count_as_a_list() -> None:
    assert found("object.a.split('/').all(x, true)").culprits[0].rounds == ITEMS
    assert found("'a/b/c'.split('/').all(x, true)").culprits[0].rounds == 5


ORDINARY = [
    "object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))",
    "object.spec.containers.all(c, c.env.all(e, e.name.matches('^[A-Z_]+$') && !e.name.contains('PASSWORD')))",
    "object.a.all(x, object.b.exists(y, object.c.exists(z, x.name == y.name && y.name == z.name)))",
    "object.a.all(x, object.b.exists(y, x == y) && object.c.exists(z, x == z))",
    "object.metadata.labels.all(k, object.metadata.labels[k].size() < 63)",
    "object.spec.containers.map(c, c.args.join(' ')).join(',').contains('privileged')",
]

BOMBS = [
    "object.a.all(x, object.b.all(y, object.c.all(z, object.d.all(w, true))))",
    "object.a.map(x, object.b.map(y, object.c.map(z, object.d.map(w, 1)))).size() > 0",
    "object.a.all(x, object.b.all(y, object.c.all(z, (x + y).matches(z))))",
    "lists.range(1000000).all(x, x > 0)",
    "lists.range(1000000).map(x, lists.range(1000000).map(y, x * y)).size() > 0",
    "lists.range(1000).all(x, lists.range(1000).all(y, x != y))",
    "lists.range(1000 * 1000 * 10).size() > 0",
    "lists.range([1000000, 2][0] > 1 ? 2000000 : 1).size() > 0",
    "object.a" + ".replace('', 'aaaaaaaaaaaaaaaa')" * 6 + ".size() > 0",
    "'aaaaaaaaaaaaaaaa'" + ".replace('a', 'aaaaaaaaaaaaaaaa')" * 6 + " == 'a'",
    "object.a.map(x, object.a.map(y, object.a.join(x)).join(',')).join('').contains(object.b)",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_what_policies_ask_is_within_the_limit(text: str) -> None:
    assert found(text).high <= PER_EXPRESSION


@pytest.mark.parametrize("text", BOMBS)
def test_what_only_burns_time_is_not(text: str) -> None:
    assert found(text).high > PER_EXPRESSION


@pytest.mark.parametrize("depth", [2, 3, 4, 5, 12])
def test_each_loop_multiplies(depth: int) -> None:
    text = "true"
    for n in range(depth):
        text = f"object.a{n}.all(x{n}, {text})"
    e = found(text)
    assert (e.high > PER_EXPRESSION) == (depth > 3)
    assert len(e.culprits) == depth


def test_questions_to_the_authorizer_count_once_for_lists_without_bound() -> None:
    authorizer = Prim("kubernetes.authorization.Authorizer")
    asked = "authorizer.group('').resource(x).check('get').allowed()"
    e = found(f"object.a.all(x, {asked})", authorizer=authorizer)
    assert CHECK < e.high < CHECK + 1_000
    assert found(f"['a', 'b', 'c'].all(x, {asked})", authorizer=authorizer).high > 3 * CHECK
    assert found(f"object.a.all(x, {asked}) && object.b.all(x, {asked})", authorizer=authorizer).high > 2 * CHECK


def test_costs_saturate() -> None:
    text = "x0"
    for n in range(6):
        text = f"lists.range(1000000000).map(x{n}, {text})"
    e = found(text)
    assert e.high == e.low == UNBOUNDED


def test_texts_grow_with_each_replacement() -> None:
    e = found("'aa'.replace('a', 'bbb').replace('b', 'cccc')")
    # Six characters, then six times four; as short as before if nothing is found.
    assert e.shape == Shape((2, 24), (2, 24))
