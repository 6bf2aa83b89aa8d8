"""Certificates made on the spot are taken by real TLS clients, renewed in time, and shared by replicas."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from pathlib import Path

import pytest

from runtime.config import Names, Settings
from runtime.controllers.certs import Certificates
from runtime.k8s.resources import NAMESPACE, SECRET
from runtime.webhook.tls import (
    CertificateProblem,
    Pair,
    Serving,
    client_context,
    covers,
    make_ca,
    make_serving,
    needs_renewal,
    read_pair,
    reload,
    server_context,
)
from tests.unit.runtime.fake_api import FakeApi

NAMES = Names()


def handshake(server: ssl.SSLContext, ca: bytes, host: str) -> bytes:
    """One TLS handshake in memory; gives the server's certificate (DER). Raises ``ssl.SSLError``."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(ca).wrap_bio(to_client, to_server, server_hostname=host)
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    done = False
    while not done:
        done = True
        for side in (client, serving):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                done = False
    found = client.getpeercert(binary_form=True)
    assert found is not None
    return found


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "kyverno-svc.kyverno.svc"])
def test_clients_that_trust_the_ca_connect(host: str) -> None:
    serving = make_serving(make_ca(), ["localhost", "127.0.0.1", "::1", NAMES.server_name])
    handshake(server_context(serving.pair), serving.ca, host)


def test_other_hosts_and_other_cas_are_refused() -> None:
    serving = make_serving(make_ca(), ["localhost"])
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server_context(serving.pair), serving.ca, "example.com")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(server_context(serving.pair), make_ca().cert, "localhost")


def test_a_reload_changes_new_connections() -> None:
    ca = make_ca()
    context = server_context(make_serving(ca, ["localhost"]).pair)
    before = handshake(context, ca.cert, "localhost")
    reload(context, make_serving(ca, ["localhost"]).pair)
    assert handshake(context, ca.cert, "localhost") != before


def test_a_pair_that_does_not_belong_together_is_told() -> None:
    one, other = make_serving(make_ca(), ["a"]), make_serving(make_ca(), ["a"])
    with pytest.raises(CertificateProblem, match="cannot be used"):
        server_context(Pair(one.pair.cert, other.pair.key))


def test_files(tmp_path: Path) -> None:
    with pytest.raises(CertificateProblem, match="no such file"):
        read_pair(tmp_path / "cert.pem", tmp_path / "key.pem")


def test_renewal_comes_fifteen_days_before_the_end() -> None:
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    cert = make_serving(make_ca(now=now), ["a"], now=now).pair.cert
    assert not needs_renewal(cert, now=now + datetime.timedelta(days=134))
    assert needs_renewal(cert, now=now + datetime.timedelta(days=136))
    assert needs_renewal(b"no certificate")


def test_a_long_host_name_is_no_obstacle() -> None:
    host = "a" * 60 + "." + "b" * 60 + ".example.com"
    assert covers(make_serving(make_ca(), [host]).pair.cert, [host])


def ensure(api: FakeApi, hosts: list[str] | None = None) -> Serving:
    return asyncio.run(Certificates(api, Settings(), hosts or [NAMES.server_name]).ensure())


def test_replicas_share_the_secrets() -> None:
    api = FakeApi()
    first = ensure(api)
    assert ("", "kyverno") in api.objects[NAMESPACE.plural]
    assert ensure(api) == first
    handshake(server_context(first.pair), first.ca, NAMES.server_name)


def test_another_host_makes_another_certificate_of_the_same_ca() -> None:
    api = FakeApi()
    first = ensure(api)
    second = ensure(api, ["192.0.2.7"])
    assert second.ca == first.ca
    handshake(server_context(second.pair), second.ca, "192.0.2.7")
    # Whoever is called by the first name finds it there too, and makes none of its own.
    assert ensure(api).pair == second.pair


def test_a_new_ca_joins_the_old_one() -> None:
    api = FakeApi()
    now = datetime.datetime.now(datetime.UTC)
    first = ensure(api)
    old = make_ca(now=now - datetime.timedelta(days=360))
    secret = api.objects[SECRET.plural]["kyverno", f"{NAMES.server_name}.kyverno-tls-ca"]
    import base64

    secret["data"] = {"tls.crt": base64.b64encode(old.cert).decode(), "tls.key": base64.b64encode(old.key).decode()}
    renewed = ensure(api)
    assert renewed.ca != first.ca
    assert renewed.ca.endswith(old.cert)
    assert renewed.ca.count(b"BEGIN CERTIFICATE") == 2
    handshake(server_context(renewed.pair), renewed.ca, NAMES.server_name)
    # A replica that still serves under the old CA is trusted too.
    handshake(server_context(make_serving(old, ["a"]).pair), renewed.ca, "a")
