"""Reading hostile bytes ends in a bundle error, soon and in little memory; and the debug part changes no answer."""

from __future__ import annotations

import struct
from dataclasses import replace
from hashlib import sha256
from random import Random
from time import monotonic
from typing import Any, Final

import msgpack

from fuzz.gen import bytecode
from fuzz.targets.f06_tiers_agree import observed
from vm.bundle import MAGIC, BundleError, encode_module, read_bundle
from vm.code import CodeSpan, Debug, Module
from vm.interp import interpret
from vm.verify import VerifyError, verify

NAME: Final = "f13_hostile_bundles"
PROPERTY: Final = "∀ bytes b: read(b) is a module or a BundleError; run(strip(m)) = run(m)"

_DIGEST: Final = 32
_SLOW: Final = 2.0
"""Seconds after which reading a few kilobytes counts as hanging."""


def hostile(rng: Random, data: bytes) -> bytes:
    """Bytes that are nearly a bundle, most of them under a digest that fits, so that they get past it."""
    match rng.randrange(8):
        case 0:
            return rng.randbytes(rng.randrange(200))
        case 1:
            return data[: rng.randrange(len(data))]
        case 2:
            return data + rng.randbytes(rng.randrange(1, 120))
        case 3:
            out = bytearray(data)
            for _ in range(rng.randrange(1, 4)):
                out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
            return bytes(out)
    body = bytearray(data[:-_DIGEST])
    match rng.randrange(5):
        case 0:
            at = rng.randrange(len(MAGIC), len(body))
            body[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(4))
        case 1:
            at = rng.randrange(len(MAGIC), len(body))
            body[at:at] = _bomb(rng)
        case 2:
            body = bytearray(MAGIC + _bomb(rng))
        case _:
            frame = msgpack.unpackb(bytes(body[len(MAGIC) :]), raw=False)
            _disturb(rng, frame)
            body = bytearray(MAGIC + msgpack.packb(frame, use_bin_type=True))
    return bytes(body) + sha256(body).digest()


def _bomb(rng: Random) -> bytes:
    """Claims of more than there is: long arrays and maps, deep nesting, long texts, extensions."""
    size = rng.choice((0xFFFFFFFF, 0x7FFFFFFF, 0x00FFFFFF, 100_000))
    head = rng.choice((0xDD, 0xDF, 0xDB, 0xC6))
    return rng.choice(
        (
            bytes((head,)) + struct.pack(">I", size),
            b"\x91" * rng.choice((90, 300, 3_000)) + b"\x00",
            b"\x81\xa1a" * rng.choice((90, 300)) + b"\x00",
            bytes((head,)) + struct.pack(">I", size) * 40,
            b"\xd6\xff\x00\x00\x00\x01",
            b"\xc7\x05\x04" + rng.randbytes(5),
            b"\xcb" + struct.pack(">d", rng.choice((float("nan"), float("inf"), 1.0))),
            b"\xca" + struct.pack(">f", 1.5),
        )
    )


def _disturb(rng: Random, frame: list[Any]) -> None:
    """Well-formed content in the wrong place: a part of a section, or a section, is another value."""
    part = rng.randrange(len(frame))
    if part == 0:
        frame[0][rng.randrange(len(frame[0]))] = _thing(rng)
        return
    match rng.randrange(4):
        case 0:
            frame[part] = _thing(rng)
        case 1:
            frame[part][rng.randrange(3)] = _thing(rng)
        case 2:
            del frame[part]
        case _:
            content = msgpack.unpackb(frame[part][2], raw=False, ext_hook=msgpack.ExtType)
            place = content
            while type(place) is list and place and type(inner := rng.choice(place)) is list and rng.random() < 0.7:
                place = inner
            if type(place) is list and place:
                place[rng.randrange(len(place))] = _thing(rng)
            frame[part][2] = msgpack.packb(content, use_bin_type=True)


def _thing(rng: Random) -> Any:
    things = (None, True, -1, 0, 1, 2**40, 2**63, 1.5, "", "x", b"x", [], [[]], {}, {"a": 1}, [1, "a"], 99, "\0")
    return rng.choice(things)


def check_hostile(data: bytes) -> None:
    start = monotonic()
    try:
        read = read_bundle(data)
    except BundleError as problem:
        if not 0 <= problem.offset <= len(data):
            raise AssertionError(f"offset {problem.offset} lies outside: {data.hex()}") from problem
    except Exception as problem:
        raise AssertionError(f"{problem!r} on {data.hex()}") from problem
    else:
        try:
            verify(read, bytecode.lent())
        except VerifyError:
            pass
        except Exception as problem:
            raise AssertionError(f"the verifier raised {problem!r} on {data.hex()}") from problem
    assert monotonic() - start < _SLOW, f"took {monotonic() - start:.1f} s: {data.hex()}"


def check_strip(m: Module, rng: Random) -> None:
    """The same answers with the debug part, without it, and with one that makes no sense."""
    nonsense = Debug((), ((CodeSpan(999, 9, 0, 0),),) * rng.randrange(9))
    bundles = (
        encode_module(m),
        encode_module(m, strip=True),
        encode_module(replace(m, debug=nonsense)),
    )
    try:
        modules = [verify(read_bundle(b), bytecode.lent()) for b in bundles]
    except VerifyError:
        return
    root = bytecode.root(rng)
    for fn in modules[0].functions:
        if fn.params:
            continue
        answers = [observed(interpret(v), fn.number, root, 5_000, []) for v in modules]
        assert answers[0] == answers[1] == answers[2], f"debug part of function {fn.name} changes {answers!r}"


def run(seconds: float, seed: int) -> int:
    rng = Random(seed)
    end = monotonic() + seconds
    runs = 0
    while monotonic() < end:
        m = bytecode.module(rng) if rng.random() < 0.1 else bytecode.small_module(rng)
        data = encode_module(m)
        for _ in range(20):
            check_hostile(hostile(rng, data))
            runs += 1
        check_strip(m, rng)
    return runs
