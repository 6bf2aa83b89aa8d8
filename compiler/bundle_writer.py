"""Emitted modules to bundle bytes: what goes into the header, and the key a bundle may be signed with.

The layout of the bytes is owned by ``vm.bundle``. The same sources and options give the same bytes: the header holds
digests, no times and no names of machines. Called by the facade and by ``thesmos compile``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import orjson

from vm.bundle import OBJECTS, Ed25519Signer, Signer, encode_module
from vm.code import Header, Module

COMPILER = "thesmos 0.1.0"
"""What the header says of the compiler."""


class KeyProblem(Exception):
    """A file that is no private key to sign with."""


def write_bundle(m: Module, *, sign: Signer | None = None, strip: bool = False) -> bytes:
    """The bytes of a module, signed when a signer is given; ``strip`` leaves out the debug section, which changes no
    answer.

    Raises :class:`vm.bundle.BundleError` for a module beyond the limits of the format.
    """
    return encode_module(m, sign=sign, strip=strip)


def with_objects(m: Module, objects: Sequence[Mapping[str, Any]]) -> Module:
    """The module with the policies and exceptions as they were written: what a cluster shows and follows of a policy
    (kinds of its webhooks, its generated objects, events) is in no code."""
    return replace(m, extra=(*m.extra, (OBJECTS, orjson.dumps(list(objects), option=orjson.OPT_SORT_KEYS))))


def header(sources: Iterable[tuple[str, str]], options: str) -> Header:
    """The header for source texts, given as (file name, text), and the fingerprint of the compiler's options."""
    digests = {(name, sha256(text.encode("utf-8", "surrogatepass")).hexdigest()) for name, text in sources}
    return Header(compiler=COMPILER, sources=tuple(sorted(digests)), options=options)


def signer_from_pem(pem: bytes, key_id: str) -> Signer:
    """A signer from an ed25519 private key in PEM form without a password. Raises :class:`KeyProblem`."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyProblem("the key is no private key in PEM form without a password") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyProblem("the key is no ed25519 key")
    return Ed25519Signer(key_id, key.private_bytes_raw())
