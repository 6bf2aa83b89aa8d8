"""Certificates of the webhook: a CA and a serving certificate made on the spot, and a context that follows renewals.

Used by ``runtime.webhook.serve`` when no files are given, by the demo and the tests. In a cluster the pair is kept in
Secrets (``runtime.controllers.certs``) so that every replica serves under the same CA.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_DAYS: Final = 365
SERVING_DAYS: Final = 150
RENEW_BEFORE_DAYS: Final = 15
"""Lifetimes and renewal as Kyverno has them."""

ALGORITHMS: Final = ("RSA", "ECDSA", "Ed25519")
PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey

_SKEW: Final = datetime.timedelta(minutes=5)
"""Clocks of API server and webhook differ: a certificate is valid a little before it was made."""


class CertificateProblem(Exception):
    """A certificate or key that cannot be used; the text names the file and the reason."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    cert: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Serving:
    """What the server needs: its pair, and the CA bundle (PEM) that callers trust."""

    pair: Pair
    ca: bytes


def make_ca(
    common_name: str = "*.kyverno.svc", *, now: datetime.datetime | None = None, algorithm: str = "ECDSA"
) -> Pair:
    """A fresh self-signed CA. ``algorithm`` is one of :data:`ALGORITHMS`."""
    key = _new_key(algorithm)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    start = now or _now()
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - _SKEW)
        .not_valid_after(start + datetime.timedelta(days=CA_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(sign_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return Pair(_pem(builder.sign(key, _digest(key))), _key_pem(key))


def make_serving(
    ca: Pair, hosts: Iterable[str], *, now: datetime.datetime | None = None, algorithm: str = "ECDSA"
) -> Serving:
    """A serving certificate for host names and addresses, signed by the CA."""
    authority = x509.load_pem_x509_certificate(ca.cert)
    authority_key = serialization.load_pem_private_key(ca.key, password=None)
    if not isinstance(authority_key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey):
        raise CertificateProblem("the key of the CA is neither RSA, ECDSA nor Ed25519")
    names = list(dict.fromkeys(hosts))
    key = _new_key(algorithm)
    start = now or _now()
    builder = (
        x509.CertificateBuilder()
        # The common name is only for people and holds at most 64 characters; clients read the alternative names.
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - _SKEW)
        .not_valid_after(start + datetime.timedelta(days=SERVING_DAYS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(n) for n in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    )
    return Serving(Pair(_pem(builder.sign(authority_key, _digest(authority_key))), _key_pem(key)), ca.cert)


def needs_renewal(
    cert: bytes,
    *,
    now: datetime.datetime | None = None,
    before: datetime.timedelta = datetime.timedelta(days=RENEW_BEFORE_DAYS),
) -> bool:
    """Whether a certificate ends within a time (by default :data:`RENEW_BEFORE_DAYS`), or is none."""
    end = expires(cert)
    return end is None or end - (now or _now()) < before


def expires(cert: bytes) -> datetime.datetime | None:
    """When the first certificate of a PEM text ends; None where there is none."""
    try:
        return x509.load_pem_x509_certificate(cert).not_valid_after_utc
    except ValueError:
        return None


def valid(cert: bytes) -> bool:
    """Whether a certificate has not ended."""
    end = expires(cert)
    return end is not None and end > _now()


def age(cert: bytes) -> datetime.timedelta:
    """How long ago a certificate was made here; nothing where there is none."""
    try:
        return _now() - x509.load_pem_x509_certificate(cert).not_valid_before_utc - _SKEW
    except ValueError:
        return datetime.timedelta()


def is_authority(cert: bytes) -> bool:
    """Whether the first certificate of a PEM text may sign others."""
    try:
        found = x509.load_pem_x509_certificate(cert).extensions.get_extension_for_class(x509.BasicConstraints)
    except (ValueError, x509.ExtensionNotFound):
        return False
    return found.value.ca


def issued_by(cert: bytes, ca: bytes) -> bool:
    """Whether a CA signed a certificate."""
    try:
        authority = x509.load_pem_x509_certificate(ca)
        x509.load_pem_x509_certificate(cert).verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def hosts_of(cert: bytes) -> tuple[str, ...]:
    """The host names and addresses that a certificate names."""
    try:
        found = x509.load_pem_x509_certificate(cert).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (ValueError, x509.ExtensionNotFound):
        return ()
    return tuple(str(n.value) for n in found.value)


def covers(cert: bytes, hosts: Iterable[str]) -> bool:
    """Whether a certificate names every host."""
    named = set(hosts_of(cert))
    return bool(named) and all(h in named for h in hosts)


def read_pair(cert: Path, key: Path) -> Pair:
    """A pair from files. Raises :class:`CertificateProblem`."""
    parts = []
    for path in (cert, key):
        try:
            parts.append(path.read_bytes())
        except OSError as error:
            raise CertificateProblem(f"{path}: {(error.strerror or str(error)).lower()}") from None
    return Pair(*parts)


def server_context(pair: Pair) -> ssl.SSLContext:
    """A context for serving; :func:`reload` renews it in place. Raises :class:`CertificateProblem`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # No HTTP/2: aiohttp speaks HTTP/1.1, and a client offered h2 would wait for frames.
    context.set_alpn_protocols(["http/1.1"])
    reload(context, pair)
    return context


def reload(context: ssl.SSLContext, pair: Pair) -> None:
    """Puts another pair into a context: connections made from now on see it, open ones stay."""
    # The ssl module reads files only; the key's file is for the owner alone and gone at once.
    descriptor, name = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pair.key.rstrip() + b"\n" + pair.cert)
        context.load_cert_chain(name)
    except ssl.SSLError as error:
        raise CertificateProblem(f"the certificate and its key cannot be used: {error.reason or error}") from None
    finally:
        os.unlink(name)


def client_context(ca: bytes) -> ssl.SSLContext:
    """A context for calling a server whose certificate the CA signed."""
    return ssl.create_default_context(cadata=ca.decode("ascii"))


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(cert: x509.Certificate) -> bytes:
    return cert.public_bytes(serialization.Encoding.PEM)


def _new_key(algorithm: str) -> PrivateKey:
    match algorithm:
        case "RSA":
            return rsa.generate_private_key(public_exponent=65537, key_size=2048)
        case "Ed25519":
            return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key(ec.SECP256R1())


def _digest(key: PrivateKey) -> hashes.SHA256 | None:
    return None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()


def _key_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
