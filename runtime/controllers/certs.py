"""The certificates of an installation, kept in two Secrets so that every replica serves under one CA.

Names and lifetimes are Kyverno's. ``runtime.controllers.cluster`` asks :meth:`Certificates.ensure` at start, whenever a
Secret changes and every twelve hours, and serves what it answers.

No call may fail while certificates change. A new CA joins the one before it in the bundle that the webhook
configurations carry, and a certificate under it is served only some seconds after the configurations have it
(:meth:`published`): until then the old one goes on. So it does not matter which replica renews, nor whether somebody
deletes the Secrets. Secrets without Kyverno's label are those of others (cert-manager): they are read and followed, and
never written.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from runtime.config import Settings
from runtime.k8s.client import ApiMissing, KubeClient, Object
from runtime.k8s.errors import ApiProblem
from runtime.k8s.resources import NAMESPACE, SECRET
from runtime.webhook.tls import (
    Pair,
    Serving,
    age,
    covers,
    expires,
    hosts_of,
    is_authority,
    issued_by,
    make_ca,
    make_serving,
    needs_renewal,
    valid,
)

log = logging.getLogger("thesmos.certs")

CHECK_SECONDS: Final = 12 * 3600.0
"""How often a running server looks whether its certificates must be renewed."""

SETTLE_SECONDS: Final = 10.0
"""How long after the configurations carry a new CA its certificates are served: API servers learn of a change by their
watches, and each builds new connections with it."""

OVERLAP: Final = datetime.timedelta(days=1)
"""How long a CA that has been replaced is trusted beside the new one."""

MOST_CAS: Final = 3
MOST_HOSTS: Final = 20
MANAGED_LABEL: Final = "cert.kyverno.io/managed-by"
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_END: Final = b"-----END CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class _Stored:
    """What a Secret holds. ``ours``: we made it, and may renew it."""

    secret: Object | None
    pair: Pair | None
    ca: bytes
    ours: bool


class Certificates:
    """Reads, makes and renews. ``hosts`` are the names and addresses that the API server calls."""

    def __init__(
        self, client: KubeClient, settings: Settings, hosts: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        names = settings.names
        self.ca_name = settings.ca_secret or f"{names.server_name}.kyverno-tls-ca"
        self.pair_name = settings.tls_secret or f"{names.server_name}.kyverno-tls-pair"
        self.again = CHECK_SECONDS
        """Seconds after which :meth:`ensure` wants to be asked again."""
        self._client = client
        self._namespace = names.namespace
        self._hosts = tuple(hosts)
        self._own = settings.own_certificates
        self._algorithm = settings.key_algorithm
        self._before = datetime.timedelta(seconds=settings.renew_before)
        self._clock = clock
        self.serving: Serving | None = None
        """What was answered last."""
        self._published: dict[bytes, float] = {}

    async def ensure(self) -> Serving:
        """The pair to serve, good for a while yet, and the bundle to trust. Raises the errors of the client, also for a
        Secret that others have not made yet."""
        await self._ensure_namespace()
        ca, pair = await self._read(self.ca_name), await self._read(self.pair_name)
        bundle = ca.ca or pair.ca
        if ca.ours and self._own:
            ca = await self._renewed_ca(ca)
            bundle = ca.ca
        if pair.ours and self._own and ca.pair is not None and not self._good(pair.pair, bundle):
            pair = await self._renewed_pair(pair, ca)
        if pair.pair is None or not bundle:
            missing = self.pair_name if pair.pair is None else self.ca_name
            raise ApiMissing(404, "NotFound", f"the secret {missing} is not there yet, or holds no certificate")
        return self._choose(pair.pair, bundle)

    def published(self, bundle: bytes) -> None:
        """The webhook configurations carry this bundle now."""
        now = self._clock()
        self._published = {ca: self._published.get(ca, now) for ca in _certificates(bundle)}

    def expiry(self) -> dict[str, datetime.datetime]:
        """When what is served ends, by the name of its Secret."""
        if self.serving is None:
            return {}
        found = {self.pair_name: expires(self.serving.pair.cert), self.ca_name: expires(_first(self.serving.ca))}
        return {name: end for name, end in found.items() if end is not None}

    def expiring(self) -> list[str]:
        """The Secrets whose certificates should have been renewed by now: those of others, or ours that could not be
        written."""
        now = datetime.datetime.now(datetime.UTC)
        return [name for name, end in self.expiry().items() if end - now < self._before]

    def _choose(self, pair: Pair, bundle: bytes) -> Serving:
        """What to serve: the newest pair, or the one before it while the CA of the newest is not known everywhere."""
        before, self.again = self.serving, CHECK_SECONDS
        if before is not None:
            # Others may exchange a CA as a whole: what is served now stays trusted until nobody serves it.
            bundle = _joined(bundle, [ca for ca in _certificates(before.ca) if issued_by(before.pair.cert, ca)])
            issuer = next((ca for ca in _certificates(bundle) if issued_by(pair.cert, ca)), b"")
            since = self._published.get(issuer)
            settled = since is not None and self._clock() - since >= SETTLE_SECONDS
            if pair != before.pair and not settled and valid(before.pair.cert):
                pair, self.again = before.pair, 2.0
        self.serving = Serving(pair, bundle)
        return self.serving

    def _good(self, pair: Pair | None, bundle: bytes) -> bool:
        """Whether a pair may stay: not near its end, for all hosts, and under the newest CA."""
        return (
            pair is not None
            and not needs_renewal(pair.cert, before=self._before)
            and covers(pair.cert, self._hosts)
            and issued_by(pair.cert, _first(bundle))
        )

    async def _renewed_ca(self, ca: _Stored) -> _Stored:
        old = ca.ca or (self.serving.ca if self.serving is not None else b"")
        if ca.pair is None or needs_renewal(_first(ca.pair.cert), before=self._before):
            fresh = await asyncio.to_thread(make_ca, algorithm=self._algorithm)
            log.info("made a new CA")
            return await self._write(self.ca_name, ca, Pair(_joined(fresh.cert, _certificates(old)), fresh.key))
        newest = _first(ca.ca)
        if len(_certificates(ca.ca)) > 1 and age(newest) > OVERLAP:
            return await self._write(self.ca_name, ca, Pair(newest, ca.pair.key))
        return ca

    async def _renewed_pair(self, pair: _Stored, ca: _Stored) -> _Stored:
        assert ca.pair is not None
        signer = Pair(_first(ca.ca), ca.pair.key)
        hosts = self._hosts
        if pair.pair is not None and not needs_renewal(pair.pair.cert, before=self._before):
            # Replicas that are called by other addresses would else take turns for ever.
            hosts = tuple(dict.fromkeys([*hosts, *hosts_of(pair.pair.cert)]))[:MOST_HOSTS]
        serving = await asyncio.to_thread(make_serving, signer, hosts, algorithm=self._algorithm)
        log.info("made a new serving certificate")
        return await self._write(self.pair_name, pair, serving.pair)

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

    async def _read(self, name: str) -> _Stored:
        try:
            return _stored(await self._client.get(SECRET, name, self._namespace))
        except ApiProblem as problem:
            if not problem.missing:
                raise
        return _Stored(None, None, b"", True)

    async def _write(self, name: str, current: _Stored, pair: Pair) -> _Stored:
        """Writes a pair; when another replica was faster, its pair is the one that counts."""
        metadata: dict[str, Any] = {"name": name, "namespace": self._namespace}
        metadata["labels"] = {MANAGED_LABEL: "kyverno"}
        data = {"tls.crt": base64.b64encode(pair.cert).decode(), "tls.key": base64.b64encode(pair.key).decode()}
        obj: Object = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata}
        obj["data"] = data
        try:
            if current.secret is None:
                return _stored(await self._client.create(SECRET, obj, self._namespace))
            metadata["resourceVersion"] = current.secret["metadata"]["resourceVersion"]
            return _stored(await self._client.replace(SECRET, obj, self._namespace))
        except ApiProblem as problem:
            if not problem.conflict:
                raise
            other = await self._read(name)
            if other.pair is None:
                raise
            return other


def _stored(secret: Object) -> _Stored:
    data = secret.get("data") or {}
    labels = (secret.get("metadata") or {}).get("labels") or {}
    cert, key, ca = (_decoded(data.get(k)) for k in ("tls.crt", "tls.key", "ca.crt"))
    pair = Pair(cert, key) if _certificates(cert) and key else None
    # cert-manager puts the CA of a certificate beside it; a Secret of a CA alone holds it as its certificate.
    ours = labels.get(MANAGED_LABEL) == "kyverno" or not data
    return _Stored(secret, pair, ca or (cert if is_authority(cert) else b""), ours)


def _decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except (TypeError, ValueError):
        return b""


def _certificates(bundle: bytes) -> list[bytes]:
    """The certificates of a PEM text, each as one of its own, what is between them left out."""
    return [_BEGIN + part.partition(_END)[0] + _END + b"\n" for part in bundle.split(_BEGIN)[1:]]


def _first(bundle: bytes) -> bytes:
    found = _certificates(bundle)
    return found[0] if found else b""


def _joined(bundle: bytes, others: Sequence[bytes]) -> bytes:
    """A bundle with other certificates behind its own, without those that have ended, and not too many."""
    own = _certificates(bundle)
    more = [ca for ca in dict.fromkeys(others) if ca not in own and valid(ca)]
    return b"".join([*own, *more][:MOST_CAS])
