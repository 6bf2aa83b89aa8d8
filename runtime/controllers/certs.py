"""The certificates of an installation, kept in two Secrets so that every replica serves under one CA.

Names and lifetimes are Kyverno's. A new CA joins the old one in the bundle that the webhook configurations carry, so
that no call fails while replicas move to it.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from typing import Any

from runtime.config import Names
from runtime.k8s.client import KubeClient, Object
from runtime.k8s.errors import ApiProblem
from runtime.k8s.resources import NAMESPACE, SECRET
from runtime.webhook.tls import Pair, Serving, covers, make_ca, make_serving, needs_renewal

log = logging.getLogger("thesmos.certs")

CHECK_SECONDS = 12 * 3600
"""How often a running server looks whether its certificates must be renewed."""

_BEGIN = b"-----BEGIN CERTIFICATE-----"


class Certificates:
    """Reads, makes and renews. ``hosts`` are the names and addresses that the API server calls."""

    def __init__(self, client: KubeClient, names: Names, hosts: Sequence[str]) -> None:
        self._client = client
        self._namespace = names.namespace
        self._ca_name = f"{names.server_name}.kyverno-tls-ca"
        self._pair_name = f"{names.server_name}.kyverno-tls-pair"
        self._hosts = tuple(hosts)

    async def ensure(self) -> Serving:
        """A serving pair that is good for a while yet, and the CA bundle. Raises the errors of the client."""
        await self._ensure_namespace()
        secret = await self._read(self._ca_name)
        ca = _pair(secret)
        if ca is None or needs_renewal(_first(ca.cert)):
            fresh = make_ca()
            # The new certificate comes first: it is the one whose key we hold.
            bundle = fresh.cert + (_still_good(ca.cert) if ca is not None else b"")
            log.info("made a new CA")
            ca = await self._write(self._ca_name, secret, Pair(bundle, fresh.key))
        secret = await self._read(self._pair_name)
        pair = _pair(secret)
        if pair is None or needs_renewal(pair.cert) or not covers(pair.cert, self._hosts) or not _signed(pair, ca):
            made = make_serving(Pair(_first(ca.cert), ca.key), self._hosts)
            log.info("made a new serving certificate")
            pair = await self._write(self._pair_name, secret, made.pair)
        return Serving(pair, ca.cert)

    async def _ensure_namespace(self) -> None:
        try:
            await self._client.get(NAMESPACE, self._namespace)
        except ApiProblem as problem:
            if not problem.missing:
                raise
            obj: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._namespace}}
            try:
                await self._client.create(NAMESPACE, obj)
            except ApiProblem as raced:
                if not raced.conflict:
                    raise

    async def _read(self, name: str) -> Object | None:
        try:
            return await self._client.get(SECRET, name, self._namespace)
        except ApiProblem as problem:
            if problem.missing:
                return None
            raise

    async def _write(self, name: str, current: Object | None, pair: Pair) -> Pair:
        """Writes a pair; when another replica was faster, its pair is the one that counts."""
        metadata: dict[str, Any] = {"name": name, "namespace": self._namespace}
        metadata["labels"] = {"cert.kyverno.io/managed-by": "kyverno"}
        data = {"tls.crt": base64.b64encode(pair.cert).decode(), "tls.key": base64.b64encode(pair.key).decode()}
        obj: Object = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata}
        obj["data"] = data
        try:
            if current is None:
                await self._client.create(SECRET, obj, self._namespace)
            else:
                metadata["resourceVersion"] = current["metadata"]["resourceVersion"]
                await self._client.replace(SECRET, obj, self._namespace)
        except ApiProblem as problem:
            if not problem.conflict:
                raise
            other = _pair(await self._read(name))
            if other is not None:
                return other
            raise
        return pair


def _pair(secret: Object | None) -> Pair | None:
    data = (secret or {}).get("data") or {}
    try:
        return Pair(base64.b64decode(data["tls.crt"]), base64.b64decode(data["tls.key"]))
    except (KeyError, ValueError):
        return None


def _certificates(bundle: bytes) -> list[bytes]:
    return [_BEGIN + part for part in bundle.split(_BEGIN)[1:]]


def _first(bundle: bytes) -> bytes:
    found = _certificates(bundle)
    return found[0] if found else b""


def _still_good(bundle: bytes) -> bytes:
    """What stays in the bundle beside a new CA: the one before it, which signs certificates still in use."""
    return b"".join(_certificates(bundle)[:1])


def _signed(pair: Pair, ca: Pair) -> bool:
    """Whether the CA signed the certificate of the pair."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    try:
        certificate = x509.load_pem_x509_certificate(pair.cert)
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(_first(ca.cert)))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
