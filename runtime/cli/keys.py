"""Reads the ed25519 keys that sign bundles and check signatures, from PEM files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.bundles import reason
from runtime.cli.problem import Problem

if TYPE_CHECKING:
    from vm.bundle import Signer, Trust


def load_signer(path: str) -> Signer:
    """A signer from a PEM private key; its key id is the start of the public key's digest."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    from vm.bundle import Ed25519Signer

    try:
        key = load_pem_private_key(_read(path), password=None)
    except (ValueError, TypeError):
        raise Problem(f"{path}: is no PEM private key without a passphrase") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise Problem(f"{path}: is no ed25519 key (make one with: openssl genpkey -algorithm ed25519)")
    return Ed25519Signer(key_id(key.public_key().public_bytes_raw()), key.private_bytes_raw())


def load_trust(paths: list[str]) -> Trust | None:
    """The keys that may have signed a bundle, from PEM public keys; None when no file is given."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    from vm.bundle import Trust

    keys: dict[str, bytes] = {}
    for path in paths:
        try:
            key = load_pem_public_key(_read(path))
        except ValueError:
            raise Problem(f"{path}: is no PEM public key") from None
        if not isinstance(key, Ed25519PublicKey):
            raise Problem(f"{path}: is no ed25519 key")
        raw = key.public_bytes_raw()
        keys[key_id(raw)] = raw
    return Trust(keys) if keys else None


def key_id(public: bytes) -> str:
    """How a signature names its key: 16 hexadecimal digits of the key's SHA-256."""
    return hashlib.sha256(public).hexdigest()[:16]


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Problem(f"{path}: {reason(error)}") from None
