"""The standard library against the answers of cel-go 0.26, each expression compiled and run the whole way.

``core.txt`` holds one ``expression  =>  answer`` a line; an error is ``! text``. Each runs twice: as it is compiled for
use, where the passes work out what is constant, and without passes, where the VM does.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compiler.frontends.cel.declarations import PLAIN_LIBRARIES
from compiler.frontends.cel.env import Env
from compiler.frontends.cel.program import compile_program
from vm.cel.time import rfc3339
from vm.cel.values import CelMap, Duration, Optional, Timestamp, TypeValue, UInt
from vm.intrinsics.duration import format_duration
from vm.values import MISSING, Err, Value

ENV = Env({}, PLAIN_LIBRARIES)
LINES = Path(__file__).with_name("core.txt").read_text().splitlines()
CASES = [tuple(line.rsplit("  =>  ", 1)) for line in LINES]

SPECIFICATION = (
    # CEL spec § Aggregate Values: keys are int, uint, bool or string, and stand once. cel-go takes any and the last.
    ("{'a':1, 'a':2}", "! insert failed: key a already exists"),
    ("{dyn(1):1, dyn(1u):2}", "! insert failed: key 1 already exists"),
    ("{dyn(1.0):1}", "! unsupported key type: double"),
    ("{dyn(null):1}", "! unsupported key type: null_type"),
    ("{dyn(b'a'):1}", "! unsupported key type: bytes"),
    ("{dyn([1]):1}", "! unsupported key type: list"),
    ("{dyn(timestamp(0)):1}", "! unsupported key type: google.protobuf.Timestamp"),
    # CEL spec § Timestamps: the years 1 to 9999, also where a message gives the seconds.
    ("google.protobuf.Timestamp{seconds: 253402300800}", "! timestamp overflow"),
    ("google.protobuf.Duration{seconds: 10000000000}", "! integer overflow"),
    ("google.protobuf.Empty{} == google.protobuf.Empty{}", "true"),
    ("google.protobuf.Any{}", "! unsupported conversion to ref.Val: type_url:"),
    ("google.protobuf.Any{type_url: 'type.googleapis.com/google.protobuf.StringValue', value: b'\\x0a\\x01a'}", '"a"'),
    ("google.protobuf.Any{type_url: 'type.googleapis.com/google.protobuf.StringValue', value: b'\\x0a'}", "!"),
    (
        "google.protobuf.Any{type_url: 'x/google.protobuf.Struct', value: b'\\n\\x07\\x0a\\x01a\\x12\\x02\\x20\\x01'}",
        '{"a": true}',
    ),
    ("google.protobuf.Any{type_url: 'x/google.protobuf.Value', value: b'\\x32\\x04\\x0a\\x02\\x08\\x00'}", "[null]"),
)


def written(v: Value) -> str:
    """A value as ``core.txt`` writes it: types stay apart, maps are sorted."""
    match v:
        case None:
            return "null"
        case bool():
            return "true" if v else "false"
        case UInt():
            return f"{int(v)}u"
        case int():
            return str(v)
        case float():
            return repr(v)
        case str():
            return json.dumps(v, ensure_ascii=False)
        case bytes():
            return f"b:{v.hex()}"
        case list():
            return f"[{', '.join(map(written, v))}]"
        case dict():
            return f"{{{', '.join(sorted(f'{written(k)}: {written(x)}' for k, x in v.items()))}}}"
        case CelMap():
            return f"{{{', '.join(sorted(f'{written(k)}: {written(x)}' for k, x in v.entries.values()))}}}"
        case Duration():
            return f"duration {format_duration(v.nanos)}"
        case Timestamp():
            return rfc3339(Timestamp(v.nanos))
        case TypeValue():
            return f"type {v.name}"
        case Optional():
            return "none" if v.value is MISSING else f"optional {written(v.value)}"
        case Err():
            return f"! {v.text}"
    raise AssertionError(v)


def answer(text: str, level: int) -> str:
    program = compile_program(text, ENV, level=level)
    assert not isinstance(program, tuple), program
    return written(program.run({}))


@pytest.mark.parametrize(("text", "wanted"), CASES, ids=[case[0] for case in CASES])
def test_answers_are_those_of_cel_go(text: str, wanted: str) -> None:
    assert answer(text, 2) == wanted
    assert answer(text, 0) == wanted


@pytest.mark.parametrize(("text", "wanted"), SPECIFICATION, ids=[case[0] for case in SPECIFICATION])
def test_the_specification_decides(text: str, wanted: str) -> None:
    for level in (0, 2):
        found = answer(text, level)
        assert found.startswith("!") if wanted == "!" else found == wanted
