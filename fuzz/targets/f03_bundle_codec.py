"""Bundles hold modules without loss, and each module has one form: bytes that are read are what the module is written
as."""

from __future__ import annotations

from random import Random
from time import monotonic
from typing import Any, Final

import msgpack

from fuzz.gen import bytecode
from vm.bundle import MAGIC, BundleError, encode_module, read_bundle
from vm.code import Module
from vm.disasm import disassemble
from vm.values import canonical_key

NAME: Final = "f03_bundle_codec"
PROPERTY: Final = "read ∘ encode = id on modules; encode ∘ read = id on accepted bytes; encode is a function"

_DIGEST: Final = 32


def check(m: Module, rng: Random) -> None:
    data = encode_module(m)
    assert encode_module(m) == data, "the same module gave other bytes"
    back = read_bundle(data).module
    assert _same(back, m), f"read back as another module:\n{disassemble(m)}"
    assert encode_module(back) == data
    sloppy = loosen(rng, data)
    try:
        found = read_bundle(sloppy).module
    except BundleError:
        return
    assert encode_module(found) == sloppy, "bytes in a form that is not canonical were accepted"


def _same(a: Module, b: Module) -> bool:
    """Equality that tells ``1``, ``1.0`` and ``true`` apart in constants."""
    return a == b and [canonical_key(c) for c in a.constants] == [canonical_key(c) for c in b.constants]


def loosen(rng: Random, data: bytes) -> bytes:
    """The same content written in another way here and there, under a digest that fits."""
    from hashlib import sha256

    frame = msgpack.unpackb(data[len(MAGIC) : -_DIGEST], raw=False)
    part = rng.randrange(1, len(frame))
    frame[part][2] = _rewritten(rng, frame[part][2])
    body = MAGIC + msgpack.packb(frame, use_bin_type=True)
    return body + sha256(body).digest()


def _rewritten(rng: Random, section: bytes) -> bytes:
    out = bytearray(section)
    at = rng.randrange(len(out))
    byte = out[at]
    if byte < 0x80:  # a small integer, or a letter: as a longer integer
        out[at : at + 1] = bytes((0xCC, byte))
    elif 0x90 <= byte < 0xA0:
        out[at : at + 1] = bytes((0xDC, 0, byte & 0x0F))
    elif 0xA0 <= byte < 0xC0:
        out[at : at + 1] = bytes((0xD9, byte & 0x1F))
    elif 0x80 <= byte < 0x90:
        out[at : at + 1] = bytes((0xDE, 0, byte & 0x0F))
    else:
        out[at] ^= 1 << rng.randrange(8)
    return bytes(out)


def run(seconds: float, seed: int) -> int:
    rng = Random(seed)
    end = monotonic() + seconds
    runs = 0
    while monotonic() < end:
        m: Any = bytecode.module(rng) if rng.random() < 0.3 else bytecode.small_module(rng)
        check(m, rng)
        runs += 1
    return runs
