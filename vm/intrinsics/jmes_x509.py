"""``x509_decode``: a certificate or certificate request in PEM form as JSON, in the names and numbers of Go's
``crypto/x509``, which is what policies are written against.

The library is loaded at the first call: few policies look into certificates.
"""

from __future__ import annotations

import base64
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from vm.host import Meter
from vm.intrinsics.jmes_errors import not_texts, wrong_value
from vm.values import Value

if TYPE_CHECKING:
    from cryptography import x509

_NAME: Final = "x509_decode"
_PEM: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----[ \t]*\r?\n(.*?)-----END \1-----", re.DOTALL)
_HEADER: Final = re.compile(r"^[^\n:]+:[^\n]*\n", re.MULTILINE)
_LONGEST: Final = 256 * 1024
_RSA: Final = 1

_SIGNATURES: Final = {
    "1.2.840.113549.1.1.2": 1,
    "1.2.840.113549.1.1.4": 2,
    "1.2.840.113549.1.1.5": 3,
    "1.2.840.113549.1.1.11": 4,
    "1.2.840.113549.1.1.12": 5,
    "1.2.840.113549.1.1.13": 6,
    "1.2.840.10040.4.3": 7,
    "2.16.840.1.101.3.4.3.2": 8,
    "1.2.840.10045.4.1": 9,
    "1.2.840.10045.4.3.2": 10,
    "1.2.840.10045.4.3.3": 11,
    "1.2.840.10045.4.3.4": 12,
    "1.3.101.112": 16,
}
_PSS: Final = {"sha256": 13, "sha384": 14, "sha512": 15}
_NAMES: Final = {
    "2.5.4.6": "Country",
    "2.5.4.10": "Organization",
    "2.5.4.11": "OrganizationalUnit",
    "2.5.4.7": "Locality",
    "2.5.4.8": "Province",
    "2.5.4.9": "StreetAddress",
    "2.5.4.17": "PostalCode",
}
_SINGLE: Final = {"2.5.4.5": "SerialNumber", "2.5.4.3": "CommonName"}
_KEY_USAGES: Final = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)
_PURPOSES: Final = {
    "2.5.29.37.0": 0,
    "1.3.6.1.5.5.7.3.1": 1,
    "1.3.6.1.5.5.7.3.2": 2,
    "1.3.6.1.5.5.7.3.3": 3,
    "1.3.6.1.5.5.7.3.4": 4,
    "1.3.6.1.5.5.7.3.5": 5,
    "1.3.6.1.5.5.7.3.6": 6,
    "1.3.6.1.5.5.7.3.7": 7,
    "1.3.6.1.5.5.7.3.8": 8,
    "1.3.6.1.5.5.7.3.9": 9,
}
_EMPTY: Final = (
    "ExtraExtensions",
    "UnhandledCriticalExtensions",
    "PermittedDNSDomains",
    "ExcludedDNSDomains",
    "PermittedIPRanges",
    "ExcludedIPRanges",
    "PermittedEmailAddresses",
    "ExcludedEmailAddresses",
    "PermittedURIDomains",
    "ExcludedURIDomains",
    "PolicyMappings",
)
"""Fields of a certificate that are null here: name constraints and policies of authorities, which no policy reads."""


def decode(meter: Meter, pem: Value) -> Value:
    """The certificate or request of the first PEM block. Only RSA keys, as in the reference."""
    if type(pem) is not str:
        return not_texts(_NAME, pem)
    meter.charge(len(pem) // 8)
    if len(pem) > _LONGEST:
        return wrong_value(_NAME, f"the text is longer than {_LONGEST} bytes")
    found = _PEM.search(pem)
    der = _decoded(found.group(2)) if found is not None else None
    if found is None or der is None:
        return wrong_value(_NAME, "failed to decode PEM block")
    kind = found.group(1)
    if kind not in ("CERTIFICATE", "CERTIFICATE REQUEST"):
        return wrong_value(_NAME, "PEM block neither contains a CERTIFICATE or CERTIFICATE REQUEST")
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    try:
        if kind == "CERTIFICATE":
            certificate = x509.load_der_x509_certificate(der)
            key = certificate.public_key()
            if not isinstance(key, RSAPublicKey):
                return wrong_value(_NAME, "certificate should use rsa algorithm")
            return {**_common(certificate, key), **_certificate(certificate)}
        request = x509.load_der_x509_csr(der)
        key = request.public_key()
        if not isinstance(key, RSAPublicKey):
            return wrong_value(_NAME, "certificate should use rsa algorithm")
        return {**_common(request, key), **_request(request)}
    except Exception as problem:  # the library raises many kinds of errors for bytes that are no certificate
        return wrong_value(_NAME, f"cannot parse the {kind.lower()}: {str(problem).partition(chr(10))[0]}")


def _decoded(body: str) -> bytes | None:
    try:
        return base64.b64decode("".join(_HEADER.sub("", body).split()), validate=True)
    except ValueError:
        return None


def _common(of: x509.Certificate | x509.CertificateSigningRequest, key: Any) -> dict[str, Any]:
    """What certificates and requests share."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    numbers = key.public_numbers()
    names: list[x509.GeneralName] = []
    for extension in of.extensions:
        if isinstance(extension.value, x509.SubjectAlternativeName):
            names = list(extension.value)
    algorithm = of.signature_algorithm_oid.dotted_string
    signature = _SIGNATURES.get(algorithm, 0)
    if algorithm == "1.2.840.113549.1.1.10" and of.signature_hash_algorithm is not None:
        signature = _PSS.get(of.signature_hash_algorithm.name, 0)
    return {
        "Raw": _base64(of.public_bytes(Encoding.DER)),
        "RawSubjectPublicKeyInfo": _base64(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)),
        "RawSubject": _base64(of.subject.public_bytes()),
        "Signature": _base64(of.signature),
        "SignatureAlgorithm": signature,
        "PublicKeyAlgorithm": _RSA,
        "PublicKey": {"N": str(numbers.n), "E": numbers.e},
        "Subject": _name(of.subject),
        "Extensions": [
            {
                "Id": _oid(e.oid.dotted_string),
                "Critical": e.critical,
                "Value": _base64(e.value.public_bytes()),
            }
            for e in of.extensions
        ]
        or None,
        "ExtraExtensions": None,
        "DNSNames": [n.value for n in names if isinstance(n, x509.DNSName)] or None,
        "EmailAddresses": [n.value for n in names if isinstance(n, x509.RFC822Name)] or None,
        "IPAddresses": [str(n.value) for n in names if isinstance(n, x509.IPAddress)] or None,
        "URIs": [_url(n.value) for n in names if isinstance(n, x509.UniformResourceIdentifier)] or None,
    }


def _certificate(of: x509.Certificate) -> dict[str, Any]:
    from cryptography import x509

    made: dict[str, Any] = {
        **dict.fromkeys(_EMPTY),
        "RawTBSCertificate": _base64(of.tbs_certificate_bytes),
        "RawIssuer": _base64(of.issuer.public_bytes()),
        "Version": of.version.value + 1,
        "SerialNumber": of.serial_number if of.serial_number < 1 << 63 else float(of.serial_number),
        "Issuer": _name(of.issuer),
        "NotBefore": _time(of.not_valid_before_utc),
        "NotAfter": _time(of.not_valid_after_utc),
        "KeyUsage": 0,
        "ExtKeyUsage": None,
        "UnknownExtKeyUsage": None,
        "BasicConstraintsValid": False,
        "IsCA": False,
        "MaxPathLen": 0,
        "MaxPathLenZero": False,
        "SubjectKeyId": None,
        "AuthorityKeyId": None,
        "OCSPServer": None,
        "IssuingCertificateURL": None,
        "PermittedDNSDomainsCritical": False,
        "CRLDistributionPoints": None,
        "PolicyIdentifiers": None,
    }
    for extension in of.extensions:
        match extension.value:
            case x509.KeyUsage() as usage:
                made["KeyUsage"] = sum(1 << i for i, name in enumerate(_KEY_USAGES) if _has(usage, name))
            case x509.ExtendedKeyUsage() as purposes:
                oids = [p.dotted_string for p in purposes]
                made["ExtKeyUsage"] = [_PURPOSES[o] for o in oids if o in _PURPOSES] or None
                made["UnknownExtKeyUsage"] = [_oid(o) for o in oids if o not in _PURPOSES] or None
            case x509.BasicConstraints(ca=authority, path_length=length):
                made["BasicConstraintsValid"], made["IsCA"] = True, authority
                made["MaxPathLen"] = -1 if length is None else length
                made["MaxPathLenZero"] = length == 0
            case x509.SubjectKeyIdentifier(digest=digest):
                made["SubjectKeyId"] = _base64(digest)
            case x509.AuthorityKeyIdentifier(key_identifier=bytes() as identifier):
                made["AuthorityKeyId"] = _base64(identifier)
            case x509.AuthorityInformationAccess() as access:
                for field, method in (("OCSPServer", "1.3.6.1.5.5.7.48.1"), ("IssuingCertificateURL", _ISSUERS)):
                    found = [d.access_location.value for d in access if d.access_method.dotted_string == method]
                    made[field] = found or None
            case x509.CRLDistributionPoints() as points:
                made["CRLDistributionPoints"] = [n.value for p in points for n in p.full_name or ()] or None
            case x509.CertificatePolicies() as policies:
                made["PolicyIdentifiers"] = [_oid(p.policy_identifier.dotted_string) for p in policies]
    return made


_ISSUERS: Final = "1.3.6.1.5.5.7.48.2"


def _request(of: x509.CertificateSigningRequest) -> dict[str, Any]:
    return {
        "RawTBSCertificateRequest": _base64(of.tbs_certrequest_bytes),
        "Version": 0,
        "Attributes": None,
    }


def _has(usage: x509.KeyUsage, name: str) -> bool:
    # Two of the bits may only be asked for where a third is set.
    return bool(getattr(usage, f"_{name}", False))


def _name(name: x509.Name) -> dict[str, Any]:
    made: dict[str, Any] = {**dict.fromkeys(_NAMES.values()), "SerialNumber": "", "CommonName": ""}
    names: list[dict[str, Any]] = []
    for attribute in name:
        oid, value = attribute.oid.dotted_string, attribute.value
        text = value if isinstance(value, str) else _base64(value)
        names.append({"Type": _oid(oid), "Value": text})
        if oid in _NAMES:
            made[_NAMES[oid]] = [*(made[_NAMES[oid]] or ()), text]
        elif oid in _SINGLE:
            made[_SINGLE[oid]] = text
    return {**made, "Names": names or None, "ExtraNames": None}


def _url(text: str) -> dict[str, Any]:
    """A URL as the fields of Go's ``url.URL``."""
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(text)
    return {
        "Scheme": parts.scheme,
        "Opaque": "" if parts.netloc or parts.path.startswith("/") else parts.path,
        "User": None,
        "Host": parts.netloc.rpartition("@")[2],
        "Path": unquote(parts.path) if parts.netloc or parts.path.startswith("/") else "",
        "RawPath": "",
        "OmitHost": False,
        "ForceQuery": False,
        "RawQuery": parts.query,
        "Fragment": unquote(parts.fragment),
        "RawFragment": "",
    }


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _oid(dotted: str) -> list[int]:
    return [int(part) for part in dotted.split(".")]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
