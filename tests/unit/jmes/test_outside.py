"""Functions that draw, decode certificates, and look at image references and URLs."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from ipaddress import ip_address
from random import Random
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from compiler.dynamic import make_imports, search
from vm.host import Meter, OutOfFuel
from vm.intrinsics.jmes_outside import is_external_url
from vm.intrinsics.jmes_random import random
from vm.intrinsics.jmes_x509 import decode
from vm.values import Err

PATTERNS = [
    "[a-z0-9]{8}",
    r"[a-z]{3}-\d+x?",
    r"([A-F]|[^a-z\n]){4,6}\.(foo|bar)",
    r"^(?:ab|c(?P<n>[[:alpha:]]+?))*$",
    r"\Qa.b\E\t\x41\x{e9}\101[\]\-x-z]",
    "a{0,2}b{x}[]a][^[:^digit:]]",
    r"\D\W\S.",
    "ä[é-í]|",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_is_drawn_matches(pattern: str) -> None:
    import re2

    whole = re2.compile(f"^(?s:{pattern})$")
    meter = Meter(10_000_000)
    for seed in range(50):
        meter.dice = Random(seed)
        drawn = random(meter, pattern)
        assert type(drawn) is str
        assert whole.search(drawn), (pattern, drawn)


def test_a_seed_gives_the_same_text_again() -> None:
    first, second, other = Meter(), Meter(), Meter()
    first.dice, second.dice, other.dice = Random(7), Random(7), Random(8)
    texts = [[random(meter, "[a-z]{20}") for _ in range(3)] for meter in (first, second, other)]
    assert texts[0] == texts[1] != texts[2]
    assert random(Meter(), "[a-z]{30}") != random(Meter(), "[a-z]{30}")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "no pattern provided"),
        ("(", "cannot compile"),
        (r"\pL", "not supported"),
        ("(?i)a", "not supported"),
        (None, "argument 1 must be a string, got null"),
    ],
)
def test_what_cannot_be_drawn(pattern: Any, words: str) -> None:
    answer = random(Meter(), pattern)
    assert type(answer) is Err
    assert answer.text.startswith("function random: ")
    assert words in answer.text


def test_a_huge_text_ends_in_an_error_or_out_of_fuel() -> None:
    bomb = "(a{900}){1000}"  # RE2 refuses to compile it; one that it takes is bounded by fuel
    assert type(random(Meter(10_000_000), bomb)) is Err
    with pytest.raises(OutOfFuel):
        random(Meter(1_000), "(((a{10}){10}){10})")


def _subject(*more: x509.NameAttribute[str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "web.example.com"), *more])


def _certificate(key: Any, *extensions: tuple[x509.ExtensionType, bool]) -> str:
    organization = x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "Acme")
    builder = (
        x509.CertificateBuilder()
        .subject_name(_subject(organization))
        .issuer_name(_subject())
        .public_key(key.public_key())
        .serial_number(4711)
        .not_valid_before(datetime.datetime(2026, 1, 2, 3, 4, 5))
        .not_valid_after(datetime.datetime(2027, 1, 2, 3, 4, 5))
    )
    for value, critical in extensions:
        builder = builder.add_extension(value, critical)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def test_a_certificate(key: rsa.RSAPrivateKey) -> None:
    usage = x509.KeyUsage(True, False, True, False, False, True, False, False, False)
    names = x509.SubjectAlternativeName([x509.DNSName("web"), x509.IPAddress(ip_address("10.0.0.7"))])
    purposes = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH])
    pem = _certificate(
        key,
        (usage, True),
        (names, False),
        (purposes, False),
        (x509.BasicConstraints(ca=True, path_length=0), True),
    )
    found = decode(Meter(), "# a comment before\n" + pem)
    assert found["PublicKey"] == {"N": str(key.public_key().public_numbers().n), "E": 65537}
    assert (found["Version"], found["SerialNumber"]) == (3, 4711)
    assert (found["NotBefore"], found["NotAfter"]) == ("2026-01-02T03:04:05Z", "2027-01-02T03:04:05Z")
    assert found["Subject"]["CommonName"] == "web.example.com"
    assert found["Subject"]["Organization"] == ["Acme"]
    assert found["Issuer"]["Organization"] is None
    assert (found["DNSNames"], found["IPAddresses"], found["URIs"]) == (["web"], ["10.0.0.7"], None)
    assert (found["KeyUsage"], found["ExtKeyUsage"]) == (1 | 4 | 32, [1])
    assert (found["IsCA"], found["BasicConstraintsValid"], found["MaxPathLen"], found["MaxPathLenZero"]) == (
        True,
        True,
        0,
        True,
    )
    assert (found["SignatureAlgorithm"], found["PublicKeyAlgorithm"]) == (4, 1)


def test_a_request(key: rsa.RSAPrivateKey) -> None:
    request = x509.CertificateSigningRequestBuilder().subject_name(_subject()).sign(key, hashes.SHA384())
    pem = request.public_bytes(Encoding.PEM).decode()
    found = search("x509_decode(csr).[Subject.CommonName, PublicKey.E, Version, SignatureAlgorithm]", {"csr": pem})
    assert found == ["web.example.com", 65537, 0, 5]


def test_what_is_no_certificate(key: rsa.RSAPrivateKey) -> None:
    elliptic = _certificate(ec.generate_private_key(ec.SECP256R1()))
    good = _certificate(key)
    broken = good.replace("MII", "AAA", 1)
    for pem, words in [
        ("nothing", "failed to decode PEM block"),
        (good.replace("CERTIFICATE", "PUBLIC KEY"), "neither contains a CERTIFICATE"),
        (elliptic, "certificate should use rsa algorithm"),
        (broken, "cannot parse the certificate"),
        (good.replace("\n", "\n%", 1), "failed to decode PEM block"),
        ("x" * 300_000, "longer than"),
        ({}, "argument 1 must be a string, got object"),
    ]:
        answer = decode(Meter(), pem)
        assert type(answer) is Err
        assert answer.text.startswith("function x509_decode: ")
        assert words in answer.text


@pytest.mark.parametrize(
    ("reference", "normal"),
    [
        ("nginx", "docker.io/nginx:latest"),
        ("ghcr.io/a/b:1", "ghcr.io/a/b:1"),
        ("a/b@sha256:00", "docker.io/a/b@sha256:00"),
        ("localhost/x", "localhost/x:latest"),
    ],
)
def test_images(reference: str, normal: str) -> None:
    assert search("image_normalize(i)", {"i": reference}) == normal


def test_images_that_are_none() -> None:
    assert search("image_normalize(i)", {"i": ""}).text == "function image_normalize: bad image: "
    assert "argument 1 must be a string" in search("image_normalize(i)", {"i": 1}).text


@pytest.mark.parametrize(
    ("url", "outside"),
    [
        ("https://8.8.8.8/x", True),
        ("https://203.0.113.7", True),
        ("http://10.1.2.3:8080", False),
        ("http://172.31.0.1", False),
        ("http://172.32.0.1", True),
        ("http://192.168.0.1", False),
        ("http://127.0.0.1", False),
        ("http://[::1]:80/", False),
        ("http://[fd00::1]/", False),
        ("http://[2606:4700::1111]/", True),
        ("http://[::ffff:10.0.0.1]/", False),
        ("http://169.254.169.254/latest", False),
        ("http://localhost:1234/", False),
    ],
)
def test_urls(url: str, outside: bool) -> None:
    assert search("is_external_url(u)", {"u": url}) is outside


def test_urls_with_names_are_asked_of_the_embedding() -> None:
    known = {"in.example": ["10.0.0.1"], "out.example": ["8.8.8.8"], "both.example": ["8.8.8.8", "10.0.0.1"]}
    imports = replace(make_imports(), resolve=lambda host: known.get(host, Err("host", f"{host} is not known")))
    assert is_external_url(imports, "https://out.example/") is True
    assert is_external_url(imports, "https://in.example/") is False
    assert is_external_url(imports, "https://both.example/") is False
    for url, words in [
        ("https://other.example/", "other.example is not known"),
        ("example.com", "has no host"),
        ("http://[x", "cannot parse"),
        (None, "argument 1 must be a string, got null"),
    ]:
        answer = is_external_url(imports, url)
        assert type(answer) is Err
        assert answer.text.startswith("function is_external_url: ")
        assert words in answer.text
    assert "not resolved here" in search("is_external_url(u)", {"u": "https://example.com"}).text


def test_random_within_a_query() -> None:
    assert re.fullmatch("pod-[0-9]{4}", search("join('-', ['pod', random('[0-9]{4}')])", {}))
