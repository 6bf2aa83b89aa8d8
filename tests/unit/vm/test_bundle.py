"""Bundles: round trips, one error for each kind of bad input, signatures, limits."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from random import Random
from typing import Any

import msgpack
import pytest

from fuzz.gen import bytecode
from vm.bundle import (
    BUNDLE_ERRORS,
    CODE,
    CONST,
    DEBUG,
    MAGIC,
    BundleError,
    Ed25519Signer,
    ReadLimits,
    Trust,
    encode_module,
    read_bundle,
)
from vm.code import Debug, Header, Module, SourceFile
from vm.values import Err

MODULE = bytecode.module(Random(7))
DATA = encode_module(MODULE)


def framed(frame: Any) -> bytes:
    body = MAGIC + msgpack.packb(frame, use_bin_type=True)
    return bytes(body + sha256(body).digest())


def frame_of(data: bytes = DATA) -> Any:
    return msgpack.unpackb(data[4:-32], raw=False)


def with_section(number: int, content: Any) -> bytes:
    frame = frame_of()
    for part in frame[1:]:
        if part[0] == number:
            part[2] = content if isinstance(content, bytes) else msgpack.packb(content, use_bin_type=True)
    return framed(frame)


def refusal(data: bytes, **options: Any) -> BundleError:
    with pytest.raises(BundleError) as caught:
        read_bundle(data, **options)
    assert caught.value.code in BUNDLE_ERRORS
    assert 0 <= caught.value.offset <= max(len(data), caught.value.offset if caught.value.code == "too_large" else 0)
    return caught.value


def test_what_is_written_is_read_back() -> None:
    found = read_bundle(DATA)
    assert found.module == MODULE
    assert found.digest == DATA[-32:]
    assert found.key_id is None


def test_the_same_module_gives_the_same_bytes() -> None:
    assert encode_module(bytecode.module(Random(7))) == DATA


def test_constants_keep_their_kind_and_maps_are_sorted() -> None:
    values = (1, 1.0, True, 2**100, -(2**70), -0.0, "é", {"b": 1, "a": [None]}, Err("value", "x", "/p/"))
    back = read_bundle(encode_module(Module(constants=values))).module.constants
    assert [(type(v), v) for v in back] == [(type(v), v) for v in values]
    assert list(back[7]) == ["a", "b"]


@pytest.mark.parametrize("cut", [0, 3, 4, 5, 50, len(DATA) // 2, len(DATA) - 33, len(DATA) - 32, len(DATA) - 1])
def test_a_truncated_bundle_is_named_as_such(cut: int) -> None:
    assert refusal(DATA[:cut]).code in ("truncated", "malformed")


def test_an_altered_bundle_fails_by_its_digest() -> None:
    broken = bytearray(DATA)
    broken[len(DATA) // 2] ^= 1
    assert refusal(bytes(broken)).code in ("digest", "truncated", "malformed", "trailing")
    assert refusal(DATA[:-1] + bytes([DATA[-1] ^ 1])).code == "digest"


@pytest.mark.parametrize("data", [b"PK\x03\x04 a zip file", b"apiVersion: v1", b"\x00" * 100])
def test_a_foreign_file_is_named_as_such(data: bytes) -> None:
    assert refusal(data).code == "foreign"


def test_a_newer_format_is_named_by_version() -> None:
    assert "THB2" in str(refusal(b"THB2" + DATA[4:]))
    newer = encode_module(replace(MODULE, header=Header(format=3, language=9)))
    assert refusal(newer).code == "too_new"
    assert "format 3" in str(refusal(newer))
    newer = encode_module(replace(MODULE, header=Header(min_vm=2)))
    assert refusal(newer).code == "too_new"
    newer = encode_module(replace(MODULE, header=Header(features=("cel",))))
    assert "cel" in str(refusal(newer))


def test_what_follows_the_digest_must_be_a_signature() -> None:
    assert refusal(DATA + b"x").code in ("trailing", "malformed")
    assert refusal(DATA + msgpack.packb(["key", b"short"])).code == "trailing"


def test_sections_are_known_once_and_in_order() -> None:
    frame = frame_of()
    assert refusal(framed([frame[0], *frame[2:]])).code == "section"
    assert refusal(framed([*frame[:2], *frame[1:]])).code == "section"
    assert refusal(framed([frame[0], frame[2], frame[1], *frame[3:]])).code == "section"
    assert refusal(framed([*frame, [40, 0, b""]])).code == "section"
    assert "40" in str(refusal(framed([*frame, [40, 0, b""]])))
    frame[1][1] = 1
    assert refusal(framed(frame)).code == "section"


def test_an_unknown_optional_section_is_kept_unread() -> None:
    data = framed([*frame_of(), [40, 1, b"later"]])
    found = read_bundle(data).module
    assert found.extra == ((40, b"later"),)
    assert encode_module(found) == data


@pytest.mark.parametrize(
    "content",
    [
        msgpack.packb([1])[:-1] + b"\xcc\x01",  # an integer in two bytes where one will do
        b"\x91\x82\xa1b\x01\xa1a\x02",  # keys out of order
        b"\x91\x82\xa1a\x01\xa1a\x02",  # a key twice
        b"\xdc\x00\x01\x01",  # a long form of a short list
        b"\x91\xca\x3f\x80\x00\x00",  # a short float
    ],
)
def test_bytes_in_another_than_the_canonical_form_are_refused(content: bytes) -> None:
    assert refusal(with_section(CONST, content)).code == "not_canonical"


@pytest.mark.parametrize(
    "content",
    [
        b"\x91\xc1",
        b"\x91\xc4\x01x",  # bytes are no JSON value
        b"\x91\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",  # not a number
        b"\x91\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00",  # infinity
        b"\x91\x81\x01\x01",  # a key that is no text
        b"\x91\xa1\xff",  # no UTF-8
        b"\x91\xd6\xff\x00\x00\x00\x01",  # a timestamp
        b"\x91\xd4\x04\x01",  # a big integer that is not big
        b"\x91\xd4\x05\x01",  # an error that is none
        b"\xdd\xff\xff\xff\xff",  # a list of four thousand million
        b"\x01",
    ],
)
def test_malformed_constants_are_refused(content: bytes) -> None:
    assert refusal(with_section(CONST, content)).code == "malformed"


def test_nesting_is_bounded() -> None:
    assert refusal(with_section(CONST, b"\x91" * 101 + b"\x01")).code == "limit"
    assert refusal(with_section(CONST, b"\x91" * 100_000 + b"\x01")).code in ("limit", "malformed")
    deep: Any = 1
    for _ in range(150):
        deep = [deep]
    with pytest.raises(BundleError) as caught:
        encode_module(Module(constants=(deep,)))
    assert caught.value.code == "limit"


def test_size_is_bounded() -> None:
    assert refusal(DATA, limits=ReadLimits(max_bytes=len(DATA) - 1)).code == "too_large"
    with pytest.raises(BundleError):
        encode_module(MODULE, limits=ReadLimits(max_bytes=10))


@pytest.mark.parametrize(
    "content",
    [
        [[], [-1]],
        [[], [2**33]],
        [[], ["x"]],
        [[["f", 0, "", "V", 9, 0, 1, b""]], []],
        [[["f", 0, "", "V", 0, 9, 1, b""]], []],
        [[["f", 0, "", "V", 0, 0, 1, "text"]], []],
        [[["f", True, "", "V", 0, 0, 1, b""]], []],
        [[["f"]], []],
        [[]],
        {},
    ],
)
def test_functions_have_their_shape(content: Any) -> None:
    assert refusal(with_section(CODE, content)).code == "malformed"


def test_debug_spans_come_in_fours() -> None:
    assert refusal(with_section(DEBUG, [[], [[1, 2, 3]]])).code == "malformed"


@pytest.mark.parametrize("value", [2**2000, "\ud800", {1: 2}, object(), (1j,)])
def test_what_no_bundle_can_hold_is_refused_on_writing(value: Any) -> None:
    with pytest.raises(BundleError):
        encode_module(Module(constants=(value,)))


def test_strip_leaves_out_the_debug_part_only() -> None:
    assert MODULE.debug is not None
    stripped = read_bundle(encode_module(MODULE, strip=True)).module
    assert stripped == replace(MODULE, debug=None)
    other = replace(MODULE, debug=Debug((SourceFile("x.yaml"),), ()))
    assert encode_module(other, strip=True) == encode_module(MODULE, strip=True)


def test_signatures() -> None:
    ours, theirs = Ed25519Signer("ours", b"1" * 32), Ed25519Signer("theirs", b"2" * 32)
    trust = Trust({"ours": ours.public_key()})
    signed = encode_module(MODULE, sign=ours)
    assert read_bundle(signed, trust=trust).key_id == "ours"
    assert read_bundle(signed).key_id is None
    assert refusal(DATA, trust=trust).code == "untrusted"
    assert refusal(encode_module(MODULE, sign=theirs), trust=trust).code == "untrusted"
    forged = Ed25519Signer("ours", b"2" * 32)
    assert refusal(encode_module(MODULE, sign=forged), trust=trust).code == "signature"
    moved = encode_module(replace(MODULE, debug=None), sign=ours)[-80:]
    assert refusal(signed[:-80] + moved, trust=trust).code in ("signature", "malformed", "trailing", "digest")
    assert refusal(signed, trust=Trust({"ours": b"no key"})).code == "signature"


def test_the_message_says_where() -> None:
    problem = refusal(DATA[:-5])
    assert str(problem) == f"the bundle ends before its digest does (at byte {len(DATA) - 5})"
