"""The conformance tests of the CEL specification: every expression through parser, checker, bytecode and a tier."""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from compiler.frontends.cel.check import check
from compiler.frontends.cel.checked import Problem
from compiler.frontends.cel.declarations import PLAIN_LIBRARIES
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.parse import parse
from compiler.frontends.cel.program import CelProgram, compile_program
from compiler.frontends.cel.types import DYN, Type, format_type, parse_type
from compiler.frontends.cel.unchecked import unchecked
from grammar.errors import SyntaxProblem
from tests.conformance.layout import Layout
from tests.conformance.tally import Result, Tally
from vm.cel.library import Function, Library, Overload
from vm.cel.values import CelMap, Duration, Optional, Timestamp, TypeValue, UInt, map_key, type_name
from vm.values import MISSING, Err, Value

Tier = Literal["1", "2"]

_PRIMITIVES: Final = {
    "BOOL": "bool",
    "INT64": "int",
    "UINT64": "uint",
    "DOUBLE": "double",
    "STRING": "string",
    "BYTES": "bytes",
}
_WRAPPERS: Final = {
    "google.protobuf.BoolValue": "wrapper(bool)",
    "google.protobuf.BytesValue": "wrapper(bytes)",
    "google.protobuf.DoubleValue": "wrapper(double)",
    "google.protobuf.FloatValue": "wrapper(double)",
    "google.protobuf.Int32Value": "wrapper(int)",
    "google.protobuf.Int64Value": "wrapper(int)",
    "google.protobuf.StringValue": "wrapper(string)",
    "google.protobuf.UInt32Value": "wrapper(uint)",
    "google.protobuf.UInt64Value": "wrapper(uint)",
    "google.protobuf.Any": "dyn",
    "google.protobuf.Value": "dyn",
    "google.protobuf.ListValue": "list(dyn)",
    "google.protobuf.Struct": "map(string, dyn)",
}
_WELL_KNOWN: Final = {
    "ANY": "dyn",
    "TIMESTAMP": "google.protobuf.Timestamp",
    "DURATION": "google.protobuf.Duration",
}


def run_cel_spec(layout: Layout, level: int = 2, tier: str = "1") -> Tally:
    """All tests but those that need messages of the specification's own, on a tier; with ``check`` on both, which must
    answer the same."""
    tally = Tally("cel-spec")
    folder = layout.root / "cel-spec"
    beyond = _out_of_scope(folder)
    for path in sorted(folder.glob("*.json")):
        for section in json.loads(path.read_text(encoding="utf-8")).get("section", ()):
            for test in section["test"]:
                if (path.name, section["name"], test["name"]) in beyond:
                    tally.out_of_scope += 1
                    continue
                case = f"{path.stem}/{section['name']}/{test['name']}"
                tiers: tuple[Tier, ...] = {"1": ("1",), "2": ("2",)}.get(tier, ("1", "2"))  # type: ignore[assignment]
                wanted, got = outcome(test, level, tiers[0])
                if len(tiers) > 1 and (other := outcome(test, level, tiers[1])[1]) != got:
                    got = f"{got}, but {other} on tier 2"
                tally.add(Result(case, test["expr"], wanted == got, wanted, got))
    return tally


def _out_of_scope(folder: Path) -> set[tuple[str, str, str]]:
    with (folder / "test_messages.tsv").open(newline="", encoding="utf-8") as file:
        return {(r["file"], r["section"], r["test"]) for r in csv.DictReader(file, delimiter="\t")}


def outcome(test: Mapping[str, Any], level: int, tier: Tier) -> tuple[str, str]:
    """What a test wants and what came, as texts that are equal when it passes."""
    env = _environment(test)
    if test.get("check_only"):
        return _wanted(test), _deduced(test["expr"], env)
    program = compile_program(
        test["expr"], env, level=level, tier=tier, block=True, checker=unchecked if test.get("disable_check") else check
    )
    got = _run(program, test)
    if "eval_error" in test:
        return "an error", "an error" if got.startswith("error: ") else got
    wanted = test["typed_result"]["result"] if "typed_result" in test else test.get("value", {"bool_value": True})
    text = shown(value_of(wanted))
    if "typed_result" in test and "deduced_type" in test["typed_result"] and not got.startswith("error: "):
        text += f" of {_wanted(test)}"
        got += f" of {_deduced(test['expr'], env)}"
    return text, got


def _run(program: CelProgram | tuple[Problem, ...], test: Mapping[str, Any]) -> str:
    if not isinstance(program, CelProgram):
        return f"error: {program[0].message}"
    bindings = {name: value_of(given["value"]) for name, given in test.get("bindings", {}).items()}
    return shown(program.run(bindings))


def _deduced(text: str, env: Env) -> str:
    try:
        checked = check(parse(text, block=True), env)
    except SyntaxProblem as problem:
        return f"error: {problem.message}"
    return format_type(checked.type) if checked.ok else f"error: {checked.problems[0].message}"


def _wanted(test: Mapping[str, Any]) -> str:
    """The type that the checker is to find."""
    return format_type(parse_type(_type(test["typed_result"]["deduced_type"])))


def _environment(test: Mapping[str, Any]) -> Env:
    variables: dict[str, Type] = dict.fromkeys(test.get("bindings", {}), DYN)
    functions: list[Function] = []
    for entry in test.get("type_env", ()):
        if "ident" in entry:
            variables[entry["name"]] = parse_type(_type(entry["ident"]["type"]))
        else:
            functions += _declared(entry["name"], entry["function"]["overloads"])
    own = (Library("test", 1, tuple(functions), ""),) if functions else ()
    return Env(variables, (*PLAIN_LIBRARIES, *own), test.get("container", ""))


def _declared(name: str, overloads: Iterable[Mapping[str, Any]]) -> Iterable[Function]:
    for o in overloads:
        signature = Overload(
            tuple(map(_type, o["params"])), _type(o["result_type"]), bool(o.get("is_instance_function"))
        )
        yield Function(name, (signature,), "", "declared by a test that is only checked")


def _type(form: Mapping[str, Any]) -> str:
    """A type of the checker's protobuf form, as function tables write it."""
    ((kind, inner),) = form.items()
    match kind:
        case "primitive":
            return _PRIMITIVES[inner]
        case "wrapper":
            return f"wrapper({_PRIMITIVES[inner]})"
        case "well_known":
            return _WELL_KNOWN[inner]
        case "list_type":
            return f"list({_type(inner['elem_type'])})"
        case "map_type":
            return f"map({_type(inner['key_type'])}, {_type(inner['value_type'])})"
        case "message_type":
            return _WRAPPERS.get(inner, str(inner))
        case "type":
            return f"type({_type(inner)})" if inner else "type"
        case "type_param":
            return str(inner)
        case "abstract_type":
            params = ", ".join(map(_type, inner.get("parameter_types", ())))
            return f"{inner['name']}({params})" if params else str(inner["name"])
        case "null":
            return "null_type"
        case _:
            return "dyn"


def value_of(form: Mapping[str, Any]) -> Value:
    """A value of the specification's JSON form."""
    ((kind, inner),) = form.items()
    match kind:
        case "null_value":
            return None
        case "bool_value" | "string_value":
            return inner
        case "int64_value":
            return int(inner)
        case "uint64_value":
            return UInt(int(inner))
        case "double_value":
            return float(inner)
        case "bytes_value":
            return base64.b64decode(inner)
        case "type_value":
            return TypeValue(inner)
        case "list_value":
            return [value_of(x) for x in inner.get("values", ())]
        case "map_value":
            return _map((value_of(e["key"]), value_of(e["value"])) for e in inner.get("entries", ()))
        case "object_value":
            return _message(inner)
        case _:
            raise ValueError(f"a value of kind {kind}")


def _map(pairs: Iterable[tuple[Value, Value]]) -> Value:
    found = list(pairs)
    if all(type(k) is str for k, _ in found):
        return dict(found)
    return CelMap({map_key(k): (k, v) for k, v in found})


def _message(form: Mapping[str, Any]) -> Value:
    """A well-known message in its JSON form."""
    name = form["@type"].rpartition("/")[2]
    value = form.get("value")
    match name.rpartition(".")[2]:
        case "Value":
            return _json(value)
        case "Struct" | "ListValue":
            return _json(value)
        case "Duration":
            seconds, _, fraction = str(value).removesuffix("s").partition(".")
            return Duration(int(seconds) * 10**9 + int(fraction.ljust(9, "0")))
        case "Int32Value" | "Int64Value":
            return int(str(value))
        case "UInt32Value" | "UInt64Value":
            return UInt(int(str(value)))
        case "FloatValue" | "DoubleValue":
            return float(str(value))
        case "BytesValue":
            return base64.b64decode(str(value))
        case "BoolValue" | "StringValue":
            return value
    raise ValueError(f"a message {name}")


def _json(value: Any) -> Value:
    """JSON as CEL sees it: every number is a double."""
    match value:
        case bool():
            return value
        case int() | float():
            return float(value)
        case list():
            return [_json(x) for x in value]
        case dict():
            return {k: _json(v) for k, v in value.items()}
    return value


def shown(value: Value) -> str:
    """A value as a text that is equal exactly for equal values of one type; maps without regard to order."""
    match value:
        case Err():
            return f"error: {value.text}"
        case list():
            return f"[{', '.join(map(shown, value))}]"
        case dict():
            return "{" + ", ".join(sorted(f"{shown(k)}: {shown(v)}" for k, v in value.items())) + "}"
        case CelMap(entries=entries):
            return "{" + ", ".join(sorted(f"{shown(k)}: {shown(v)}" for k, v in entries.values())) + "}"
        case Timestamp(nanos) | Duration(nanos):
            return f"{type_name(value)}({nanos})"
        case Optional(inner):
            return "optional.none()" if inner is MISSING else f"optional({shown(inner)})"
        case TypeValue(name):
            return f"type({name})"
        case bytes():
            return f"b{value.hex()}"
        case float():
            return f"double {value + 0.0!r}"  # -0.0 is 0.0
    return f"{type_name(value)} {json.dumps(int(value) if isinstance(value, UInt) else value)}"
