"""Variables and references in policy texts (semantics §6)."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.dynamic import make_imports
from compiler.frontends.template import Scope, has_variables, lower_text, lower_value
from compiler.frontends.template.lower import here
from compiler.frontends.template.split import split
from compiler.ir import ops as ir
from compiler.ir.build import FunctionBuilder
from tests.unit.jmes.support import substitute
from vm.host import Meter, OutOfFuel
from vm.values import Err, canonical_key

CONTEXT: dict[str, Any] = {
    "a": "{{ X {{Y}} }}",
    "foo": "bar",
    "n": "{{foo2}}",
    "foo2": "bar2",
    "list": ["a", "b"],
    "nul": None,
    "n5": 5,
    "half": 1.5,
    "one": 1.0,
    "yes": True,
    "map": {"z": 1, "a": "<b>"},
    "inner": {"k": "{{foo}}", "{{foo}}": ["{{n5}}", "x{{n5}}"]},
    "name": "foo",
    "self": "x{{self}}",
    "round": {"again": "{{round}}"},
    "request": {
        "operation": "CREATE",
        "object": {"metadata": {"name": "web", "annotations": {"target": "t"}}, "spec": {"kind": "k"}},
    },
}


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{- a }} {{foo}} {{n}}", "{{ X {{Y}} }} bar bar2"),
        ("{{foo}} {{- a }} {{n}}", "bar {{ X {{Y}} }} bar2"),
        ("{{ list }}", ["a", "b"]),
        ("x {{ list }}", 'x ["a","b"]'),
        ("{{ nul }}", None),
        ("x {{ nul }}", "x null"),
        ("{{ n5 }}", 5),
        ("v{{ n5 }}", "v5"),
        ("{{half}}{{one}}", "1.51"),
        ("{{one}} ", "1 "),
        ("{{ yes }}!", "true!"),
        ("m={{ map }}", 'm={"a":"\\u003cb\\u003e","z":1}'),
        (" {{ foo }}", " bar"),
        ("{{ foo }}", "bar"),
        ("{{foo}}{{foo2}}", "barbar2"),
        ("{{ {{ name }} }}", "bar"),
        ("{{ n5 || {{name}} }}", 5),
        ("{{ n }}", "{{foo2}}"),
        ("x{{ n }}", "xbar2"),
        ("{{ inner }}", {"k": "bar", "bar": [5, "x5"]}),
        ("{{- inner }}", {"k": "bar", "bar": [5, "x5"]}),
        ("{{- n }}", "{{foo2}}"),
        (r"\{{ foo }}", "{{ foo }}"),
        (r"\{{ foo }} {{ foo }}", "{{ foo }} bar"),
        (r"\{{request.object.metadata.annotations.{{ name }}}}", "{{request.object.metadata.annotations.foo}}"),
        ("{{ foo.x }}", None),
        ("{{ list[7] }}", None),
        ("{{ missing || 'd' }}", "d"),
        ("{{ {a: foo, b: n5} }}", {"a": "bar", "b": 5}),
        ('{{ `{"a": "b"}` }}', {"a": "b"}),
        ("{{ request.object.metadata.labels.\"app.kubernetes.io/name\" || '' }}", ""),
        ("plain { text }", "plain { text }"),
        ("{{ not closed", "{{ not closed"),
        ({"{{foo}}": {"x": ["{{n5}}", "c"]}, "k": 1}, {"bar": {"x": [5, "c"]}, "k": 1}),
        (["{{nul}}", 1, None], [None, 1, None]),
    ],
)
def test_value(template: Any, value: Any) -> None:
    assert canonical_key(substitute(template, CONTEXT)) == canonical_key(value)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ gone }}", 'failed to resolve gone at path : JMESPath query failed: Unknown key "gone" in path'),
        (
            {"a": [{"b/c": "x {{ request.object.spec.gone.more }}"}]},
            "failed to resolve request.object.spec.gone.more at path /a/0/b\\/c: "
            'JMESPath query failed: Unknown key "gone" in path',
        ),
        (
            "{{- a {{foo}} {{n}} }}",
            "failed to resolve a bar bar2 at path : incorrect query a bar bar2: unexpected 'bar'",
        ),
        ({"{{nul}}": 1}, 'expected string after substituting variables in key "{{nul}}"'),
        ({"{{n5}}": 1}, 'expected string after substituting variables in key "{{n5}}"'),
        ("x {{- n5 }}", "a shallow variable in a text must be a string, got 5"),
        (
            "{{ to_upper(n5) }}",
            "failed to resolve to_upper(n5) at path : JMESPath query failed: "
            "function to_upper: argument 1 must be a string, got number",
        ),
        ("a {{self}}", "variables lead back to themselves or are nested too deeply"),
        ("{{round}}", "variables lead back to themselves or are nested too deeply"),
    ],
)
def test_error(template: Any, text: str) -> None:
    got = substitute(template, CONTEXT)
    assert isinstance(got, Err)
    assert text in got.text


def test_first_error_in_document_order() -> None:
    got = substitute({"b": "{{ gone1 }}", "a": ["{{ gone2 }}"]}, CONTEXT)
    assert isinstance(got, Err)
    assert "gone1" in got.text


def test_delete_names_the_old_object() -> None:
    root = {"request": {"operation": "DELETE", "object": {}}, "$operation": "DELETE"}
    got = substitute("{{ request.object.x }}", root)
    assert isinstance(got, Err)
    assert got.text.startswith("failed to resolve request.oldObject.x at path ")


def test_engine_keys_are_hidden() -> None:
    root = {"$resource": {"secret": 1}, "a": 1}
    assert substitute("{{ @ | keys(@) }}", root) == ["a"]
    assert isinstance(substitute('{{ "$resource".secret }}', root), Err)


@pytest.mark.parametrize(
    ("document", "value"),
    [
        ({"x": "$(./../y)", "y": "v"}, {"x": "v", "y": "v"}),
        (
            {"resources": {"requests": {"memory": "$(<=./../../limits/memory)"}, "limits": {"memory": "1Gi"}}},
            {"resources": {"requests": {"memory": "<=1Gi"}, "limits": {"memory": "1Gi"}}},
        ),
        ({"=(a)": {"b": "v"}, "c": "$(/a/b)"}, {"=(a)": {"b": "v"}, "c": "v"}),
        ({"a": 2, "b": "$(>=/a)"}, {"a": 2, "b": ">=2"}),
        ({"a": 2.5, "b": "$(>/a)"}, {"a": 2.5, "b": ">2.500000"}),
        ({"a": "v", "b": "x$(/a)y"}, {"a": "v", "b": "xvy"}),
        ({"a": r"\$(b)"}, {"a": "$(b)"}),
        ({"a": "{{foo}}", "b": "$(/a)!"}, {"a": "bar", "b": "bar!"}),
        ({"a": "cost $(5)", "5": "x"}, None),
    ],
)
def test_references(document: Any, value: Any) -> None:
    faults: list[str] = []
    b = FunctionBuilder("f", result="V")

    class Told:
        def error(self, code: str, span: object, message: str, **_: str) -> None:
            assert code == "T1106"
            faults.append(message)

        def warning(self, *_: object, **__: str) -> None: ...

    scope = Scope(b, reporter=Told())  # type: ignore[arg-type]
    lower_value(document, scope, "")
    if value is None:
        assert len(faults) == 1
    else:
        assert faults == []
        assert substitute(document, CONTEXT) == value


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"a": "$(/a)"}, "leads back to itself"),
        ({"a": "$(/b)", "b": "$(/a)"}, "leads back to itself"),
        ({"a": "$(/gone)"}, "names nothing"),
        ({"a": None, "b": "$(/a)"}, "names nothing"),
        ({"a": 1, "b": "$(/a)"}, "no text"),
        ({"a": True, "b": "$(<=/a)"}, "no text"),
    ],
)
def test_bad_references(document: Any, words: str) -> None:
    found: list[tuple[str, str]] = []

    class Told:
        def error(self, code: str, span: object, message: str, **_: str) -> None:
            found.append((code, message))

    lower_value(document, Scope(FunctionBuilder("f"), reporter=Told()), "")  # type: ignore[arg-type]
    assert found
    assert all(code == "T1106" and words in message for code, message in found)


def test_reports_place_of_a_bad_query() -> None:
    told: list[tuple[str, Any, str, str]] = []

    class Told:
        def error(self, code: str, span: object, message: str, expected: str = "", help: str = "") -> None:
            told.append((code, span, message, help))

        def warning(self, code: str, span: object, message: str, expected: str = "", help: str = "") -> None:
            told.append((code, span, message, help))

    class Spans:
        def span(self, pointer: str) -> tuple[str, None, None]:
            return (pointer, None, None)

        def text_span(self, pointer: str, start: int, end: int) -> tuple[str, int, int]:
            return (pointer, start, end)

    b = FunctionBuilder("f")
    scope = Scope(b, reporter=Told(), spans=Spans(), roots=frozenset({"request"}))  # type: ignore[arg-type]
    text = "ab {{ request.x }} {{ request..y }} {{ requst.z }} {{ lenght(request) }} {{ abs() }} {{ abs('a') }} {{"
    lower_text(text, scope, "/message")
    codes = [t[0] for t in told]
    assert codes == ["T1107", "T1101", "T1104", "T1102", "T1103", "T1105"]
    pieces = [text[t[1][1] : t[1][2]] for t in told]
    assert pieces == ["{{", ".", "requst", "lenght", "abs", "'a'"]
    assert "did you mean request?" in told[2][3]
    assert "did you mean length?" in told[3][3]


def test_constant_values_stay_constant() -> None:
    scope = Scope(FunctionBuilder("f"))
    value = {"a": ["b", 1, None, r"\{{ x }}"]}
    assert lower_value(value, scope, "") == ir.Const({"a": ["b", 1, None, "{{ x }}"]})
    assert not has_variables({"a": ["b", 1]})
    assert has_variables(value)
    assert has_variables({"{{ k }}": 1})
    assert has_variables(["$(/a)"])


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/mutate/patchStrategicMerge/spec/kind", "request.object.spec.kind"),
        ("/mutate/patchStrategicMerge/spec/containers/0/image", "request.object.spec.containers[0].image"),
        ("/mutate/foreach/0/patchStrategicMerge/data/a.b", 'request.object.data."a.b"'),
        ("/spec", "request.object"),
        ("/m/p/metadata/annotations/a\\/b", 'request.object.metadata.annotations."a/b"'),
    ],
)
def test_here(path: str, query: str) -> None:
    assert here(path) == query


def test_here_in_a_rule() -> None:
    rule = {"mutate": {"patchStrategicMerge": {"spec": {"kind": "{{@}}"}}}}
    assert substitute(rule, CONTEXT)["mutate"]["patchStrategicMerge"]["spec"]["kind"] == "k"


def test_split_keeps_the_text() -> None:
    for text in ("a{{b}}c", "{{ {{x}} }}", "}}{{{{a}}", r"\{{{x}}", "{{- {a: b} }}", "{{{a}}}"):
        assert "".join(p if isinstance(p, str) else p.raw for p in split(text)) == text


def test_a_long_chain_of_passes_costs_fuel() -> None:
    root: dict[str, Any] = {f"v{i}": f"{{{{ v{i + 1} }}}} " for i in range(200)}
    imports = make_imports()
    with pytest.raises(OutOfFuel):
        imports.substitute("{{ v0 }} ", root, Meter(2000))
    got = imports.substitute("{{ v0 }} ", root, Meter(10_000_000))
    assert isinstance(got, Err)


def test_deep_documents_do_not_overflow() -> None:
    value: Any = "{{foo}}"
    for _ in range(900):
        value = [value]
    got = make_imports().substitute("{{ deep }}", {"deep": value, "foo": 1}, Meter())
    assert isinstance(got, Err)


def test_imports_answer_errors_for_bad_texts() -> None:
    imports = make_imports()
    assert imports.yaml("a: [1, 2]") == {"a": [1, 2]}
    assert isinstance(imports.yaml("a: [1"), Err)
    assert imports.yaml("") is None
    assert imports.pattern(">1 & <3") is not None
