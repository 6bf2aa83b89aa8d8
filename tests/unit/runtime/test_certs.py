"""Certificates change without a failed call: whatever is served at any time is trusted by what the webhooks carry."""

from __future__ import annotations

import asyncio
import base64
import datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from runtime.config import Names, Settings
from runtime.controllers import certs
from runtime.controllers.certs import CHECK_SECONDS, SETTLE_SECONDS, Certificates
from runtime.k8s.errors import ApiProblem
from runtime.k8s.resources import SECRET
from runtime.webhook.tls import Pair, Serving, issued_by, make_ca, make_serving
from tests.unit.runtime.fake_api import FakeApi

NAMES = Names()
CA, PAIR = f"{NAMES.server_name}.kyverno-tls-ca", f"{NAMES.server_name}.kyverno-tls-pair"
HOSTS = [NAMES.server_name]


class Replica:
    def __init__(self, api: FakeApi, settings: Settings | None = None) -> None:
        self.now = 0.0
        self.certificates = Certificates(api, settings or Settings(), HOSTS, clock=lambda: self.now)

    async def ensure(self) -> Serving:
        serving = await self.certificates.ensure()
        # What is served is always under a CA of the bundle.
        assert any(issued_by(serving.pair.cert, ca) for ca in certs._certificates(serving.ca))
        return serving


def secret(name: str, pair: Pair, ca: bytes = b"", *, label: bool = False) -> dict[str, Any]:
    data = {"tls.crt": pair.cert, "tls.key": pair.key, **({"ca.crt": ca} if ca else {})}
    metadata: dict[str, Any] = {"name": name, "namespace": "kyverno"}
    if label:
        metadata["labels"] = {"cert.kyverno.io/managed-by": "kyverno"}
    return {"metadata": metadata, "data": {k: base64.b64encode(v).decode() for k, v in data.items()}}


def test_a_new_ca_is_served_under_only_when_it_is_known() -> None:
    async def main() -> None:
        api = FakeApi()
        one, two = Replica(api), Replica(api)
        first = await one.ensure()
        one.certificates.published(first.ca)
        two.certificates.published((await two.ensure()).ca)
        one.now = two.now = 100.0
        for name in (CA, PAIR):
            api.remove(SECRET, name, "kyverno")
        for replica in (one, two):
            waiting = await replica.ensure()
            assert waiting.pair == first.pair
            assert waiting.ca.count(b"BEGIN") == 2
            assert waiting.ca.endswith(first.ca)
            assert replica.certificates.again < 10
            replica.certificates.published(waiting.ca)
            # Known, but not yet for long enough.
            assert (await replica.ensure()).pair == first.pair
        one.now = 100.0 + SETTLE_SECONDS
        renewed = await one.ensure()
        assert renewed.pair != first.pair
        assert one.certificates.again == CHECK_SECONDS
        # The other is a little behind: both are trusted.
        assert renewed.ca == (await two.ensure()).ca
        # One that starts now serves the new one at once: the configurations know it.
        assert (await Replica(api).ensure()).pair == renewed.pair

    asyncio.run(main())


def test_an_old_ca_is_dropped_after_the_overlap() -> None:
    async def main() -> None:
        api = FakeApi()
        now = datetime.datetime.now(datetime.UTC)
        new, old = make_ca(now=now - datetime.timedelta(days=2)), make_ca(now=now - datetime.timedelta(days=355))
        api.put(SECRET, secret(CA, Pair(new.cert + old.cert, new.key), label=True))
        serving = await Replica(api).ensure()
        assert serving.ca == new.cert

    asyncio.run(main())


def test_secrets_of_others_are_followed_and_never_written() -> None:
    async def main() -> None:
        api = FakeApi()
        theirs = make_ca("theirs")
        pair = make_serving(theirs, HOSTS).pair
        api.put(SECRET, secret(PAIR, pair, theirs.cert))
        replica = Replica(api, Settings(own_certificates=False))
        serving = await replica.ensure()
        assert serving == Serving(pair, theirs.cert)
        replica.certificates.published(serving.ca)
        # They exchange CA and certificate at once.
        other = make_ca("other")
        fresh = make_serving(other, HOSTS).pair
        api.put(SECRET, secret(PAIR, fresh, other.cert))
        waiting = await replica.ensure()
        assert waiting.pair == pair
        assert waiting.ca == other.cert + theirs.cert
        replica.certificates.published(waiting.ca)
        replica.now += SETTLE_SECONDS
        assert (await replica.ensure()).pair == fresh
        assert not {verb for verb, plural, _ in api.calls if plural == "secrets"} - {"get"}

    asyncio.run(main())


def test_a_certificate_of_others_near_its_end_is_told_and_not_renewed() -> None:
    async def main() -> None:
        api = FakeApi()
        past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=140)
        theirs = make_ca("theirs")
        pair = make_serving(theirs, HOSTS, now=past).pair
        api.put(SECRET, secret(CA, theirs))
        api.put(SECRET, secret(PAIR, pair))
        replica = Replica(api)
        assert (await replica.ensure()).pair == pair
        assert replica.certificates.expiring() == [PAIR]
        assert set(replica.certificates.expiry()) == {CA, PAIR}

    asyncio.run(main())


def test_secrets_that_others_have_not_made_yet_are_waited_for() -> None:
    with pytest.raises(ApiProblem, match="is not there yet"):
        asyncio.run(Replica(FakeApi(), Settings(own_certificates=False)).ensure())


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [("RSA", rsa.RSAPrivateKey), ("ECDSA", ec.EllipticCurvePrivateKey), ("Ed25519", ed25519.Ed25519PrivateKey)],
)
def test_key_algorithms(algorithm: str, kind: type) -> None:
    serving = asyncio.run(Replica(FakeApi(), Settings(key_algorithm=algorithm)).ensure())
    assert isinstance(load_pem_private_key(serving.pair.key, None), kind)
    assert issued_by(serving.pair.cert, serving.ca)


def test_other_names_of_the_secrets() -> None:
    async def main() -> None:
        api = FakeApi()
        await Replica(api, Settings(ca_secret="my-ca", tls_secret="my-pair")).ensure()
        assert {name for _, name in api.objects[SECRET.plural]} == {"my-ca", "my-pair"}

    asyncio.run(main())
