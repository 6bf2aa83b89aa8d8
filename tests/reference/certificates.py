"""``x509_decode``: a certificate or a certificate request with the field names of Go (features table i)."""

from __future__ import annotations

from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.x509.oid import NameOID

from tests.reference.arithmetic import Refusal

_PARTS = {
    "Country": NameOID.COUNTRY_NAME,
    "Organization": NameOID.ORGANIZATION_NAME,
    "OrganizationalUnit": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "Locality": NameOID.LOCALITY_NAME,
    "Province": NameOID.STATE_OR_PROVINCE_NAME,
    "StreetAddress": NameOID.STREET_ADDRESS,
    "PostalCode": NameOID.POSTAL_CODE,
}


def decode(text: str) -> dict[str, Any]:
    """The fields that policies ask for; the whole set is the product's own test."""
    data = text.encode()
    try:
        if "CERTIFICATE REQUEST" in text:
            request = x509.load_pem_x509_csr(data)
            return {"Subject": _name(request.subject), "PublicKey": _key(request.public_key()), "Version": 0}
        found = x509.load_pem_x509_certificate(data)
    except ValueError as error:
        raise Refusal(f"no certificate: {error}") from None
    return {
        "Subject": _name(found.subject),
        "Issuer": _name(found.issuer),
        "PublicKey": _key(found.public_key()),
        "SerialNumber": found.serial_number,
        "NotBefore": found.not_valid_before_utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "NotAfter": found.not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "Version": found.version.value + 1,
    }


def _key(key: Any) -> dict[str, Any]:
    if not isinstance(key, RSAPublicKey):
        raise Refusal("the key is no RSA key")
    numbers = key.public_numbers()
    return {"E": numbers.e, "N": str(numbers.n)}


def _name(name: x509.Name) -> dict[str, Any]:
    def values(oid: x509.ObjectIdentifier) -> list[str]:
        return [str(a.value) for a in name.get_attributes_for_oid(oid)]

    common = values(NameOID.COMMON_NAME)
    serial = values(NameOID.SERIAL_NUMBER)
    return {
        **{part: values(oid) or None for part, oid in _PARTS.items()},
        "CommonName": common[-1] if common else "",
        "SerialNumber": serial[-1] if serial else "",
        "Names": [{"Type": [int(p) for p in a.oid.dotted_string.split(".")], "Value": a.value} for a in name],
        "ExtraNames": None,
    }
