"""Constants that JSON has no form for: one byte string each in bundles, and texts that read back."""

from __future__ import annotations

import json
import random
from itertools import combinations
from typing import Any, Final

import msgpack
import pytest

from compiler.ir import ops as ir
from compiler.ir.parse import parse_module
from compiler.ir.print import print_module
from vm.asm import assemble
from vm.bundle import BundleError, encode_module, read_bundle
from vm.cel.values import (
    INT_MIN,
    NONE,
    TIME_MAX,
    UINT_MAX,
    CelMap,
    Duration,
    Optional,
    Record,
    Timestamp,
    TypeValue,
    UInt,
)
from vm.code import Module, const_kind
from vm.constants import describe, described, holds_special
from vm.disasm import disassemble
from vm.packing import Held, PackError, pack, unpack
from vm.values import Err, canonical_key

KEYS: Final = CelMap({1: (UInt(1), "a"), ("bool", True): (True, [b"x"]), "a": ("a", None), -3: (-3, {})})
SPECIAL: Final[tuple[Any, ...]] = (
    UInt(0),
    UInt(1),
    UInt(UINT_MAX),
    b"",
    b"\x00\xff",
    float("nan"),
    float("inf"),
    float("-inf"),
    Timestamp(0),
    Timestamp(0, 7200),
    Timestamp(TIME_MAX, -3600),
    Duration(0),
    Duration(INT_MIN),
    TypeValue("int"),
    TypeValue("list"),
    KEYS,
    CelMap({}),
    CelMap({1: (1, 1)}),
    CelMap({1: (UInt(1), 1)}),
    CelMap({1: (1, UInt(1))}),
    NONE,
    Optional(None),
    Optional([1]),
    Optional(Optional(1.0)),
    Record("Object", {}),
    Record("Object", {"a": UInt(2)}),
    [UInt(1)],
    {"a": [Timestamp(5)], "b": 1},
)
PLAIN: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    1,
    1.0,
    "",
    "a",
    1 << 70,
    [],
    {},
    [1, {"a": None}],
    Err("a", "b"),
)


def refusal(content: bytes) -> str:
    with pytest.raises(PackError) as caught:
        unpack(content, max_depth=20, also=frozenset({Err, Held}))
    return caught.value.code


def extension(form: Any) -> bytes:
    packed: bytes = msgpack.packb([msgpack.ExtType(6, msgpack.packb(form))])
    return packed


@pytest.mark.parametrize("value", SPECIAL + PLAIN, ids=repr)
def test_bundles_give_back_what_they_were_given(value: Any) -> None:
    data = encode_module(Module(constants=(value, [value], {"k": value})))
    found = read_bundle(data).module.constants
    assert [canonical_key(x) for x in found] == [canonical_key(x) for x in (value, [value], {"k": value})]
    assert encode_module(Module(constants=found)) == data


@pytest.mark.parametrize("value", SPECIAL, ids=repr)
def test_texts_of_code_read_back(value: Any) -> None:
    assert holds_special(value)
    data = encode_module(Module(constants=(value, 1)))
    assert encode_module(assemble(disassemble(read_bundle(data).module))) == data
    function = ir.Function("f", (), {}, (ir.Return(ir.Const(value)),), "V")
    text = print_module(ir.Module((function,), ()))
    assert print_module(parse_module(text)) == text


def test_constants_of_different_values_never_meet() -> None:
    for a, b in combinations(SPECIAL + PLAIN, 2):
        assert canonical_key(a) != canonical_key(b)
        assert pack([a], max_depth=20, constants=True) != pack([b], max_depth=20, constants=True)


def test_what_is_equal_in_another_order_is_one_constant() -> None:
    other = CelMap(dict(reversed(KEYS.entries.items())))
    assert canonical_key(other) == canonical_key(KEYS)
    assert pack(other, max_depth=20) == pack(KEYS, max_depth=20)
    assert pack(-float("nan"), max_depth=20) == pack(float("nan"), max_depth=20)


@pytest.mark.parametrize("value", SPECIAL[:-2], ids=repr)
def test_kinds_are_those_of_any_value(value: Any) -> None:
    assert const_kind(value) == "V"


@pytest.mark.parametrize(
    "form",
    [
        *(None, 1, "a", {}, [], ["list"], ["map", {}], ["nothing"], ["uint"], ["uint", -1], ["uint", 1 << 63, 1]),
        *(["uint", 1.0], ["uint", True], ["double", "NaN"], ["double", 1.5], ["bytes", "F"], ["bytes", "FF"]),
        *(["bytes", "zz"], ["bytes", "f f"], ["timestamp", 0], ["timestamp", "0", 0], ["timestamp", 0, 1 << 40]),
        *(["duration", 1 << 63], ["duration", "1"], ["type", 1], ["optional", 1, 2], ["optional", []]),
        *(["record", "a"], ["record", "a", []], ["record", 1, {}], ["entries", 1], ["entries", [1]]),
        *(["entries", [1.5, 1]], ["entries", [None, 1]], ["entries", [1, 1], [["uint", 1], 2]]),
    ],
    ids=json.dumps,
)
def test_descriptions_of_nothing_are_refused(form: Any) -> None:
    assert refusal(extension(form)) == "malformed"


def test_another_order_or_form_is_refused() -> None:
    assert refusal(extension(["entries", ["a", 1], [1, 1]])) == "not_canonical"
    assert refusal(b"\x91" + msgpack.packb(msgpack.ExtType(6, b"\x92\xa4uint\xcc\x01"))) == "not_canonical"
    assert refusal(b"\x91" + msgpack.packb(1.0).replace(b"\x3f\xf0", b"\x7f\xf0")) == "malformed"
    assert refusal(b"\x91\xc4\x01x") == "malformed"


def test_nesting_is_bounded() -> None:
    deep: Any = NONE
    for _ in range(300):
        deep = Optional(deep)
    with pytest.raises(BundleError) as caught:
        encode_module(Module(constants=(deep,)))
    assert caught.value.code == "limit"
    content = msgpack.packb(["optional"])
    for _ in range(5000):
        content = b"\x92" + msgpack.packb("optional") + content
    assert refusal(b"\x91" + msgpack.packb(msgpack.ExtType(6, content))) in ("limit", "malformed")


def test_changed_bytes_raise_nothing_else() -> None:
    pick = random.Random(3)
    data = pack(list(SPECIAL), max_depth=20, constants=True)
    for _ in range(3000):
        changed = bytearray(data)
        for _ in range(pick.randint(1, 3)):
            changed[pick.randrange(len(changed))] = pick.randrange(256)
        try:
            found = unpack(bytes(changed), max_depth=20, also=frozenset({Err, Held}))
        except PackError:
            continue
        assert pack(found, max_depth=20, constants=True) == changed


@pytest.mark.parametrize("value", SPECIAL, ids=repr)
def test_descriptions_are_json(value: Any) -> None:
    form = describe(value)
    assert canonical_key(described(json.loads(json.dumps(form)))) == canonical_key(value)
