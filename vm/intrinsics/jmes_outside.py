"""Functions about names of the outside world: image references, addresses of URLs."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from vm.host import Imports
from vm.intrinsics.images import parse_image
from vm.intrinsics.jmes_errors import not_texts, wrong_value
from vm.values import Err, Value

_LOCAL = ("localhost",)


def image_normalize(reference: Value) -> Value:
    """``image_normalize``: an image reference with the usual registry and tag put in."""
    if type(reference) is not str:
        return not_texts("image_normalize", reference)
    info = parse_image(reference)
    if info is None:
        return wrong_value("image_normalize", f"bad image: {reference}")
    return info["reference"]


def is_external_url(imports: Imports, url: Value) -> Value:
    """``is_external_url``: whether the host of a URL lies outside. An address decides by itself, a name by all
    addresses that the embedding finds for it.

    Right here: link-local and unspecified addresses are not outside either (the reference knows loopback and private
    ones alone, so that a policy would let the metadata service of a cloud pass).
    """
    if type(url) is not str:
        return not_texts("is_external_url", url)
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return wrong_value("is_external_url", f"cannot parse {url!r}")
    if not host:
        return wrong_value("is_external_url", f"{url!r} has no host")
    if host in _LOCAL or host.endswith(".localhost"):
        return False
    found = [host] if _address(host) is not None else imports.resolve(host)
    if isinstance(found, Err):
        return Err(found.code, f"function is_external_url: {found.text}")
    addresses = [a for text in found if (a := _address(text)) is not None]
    if not addresses:
        return wrong_value("is_external_url", f"no address is known for {host}")
    return all(map(_outside, addresses))


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _outside(address: IPv4Address | IPv6Address) -> bool:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    at = mapped if mapped is not None else address
    return not (at.is_loopback or _private(at) or at.is_link_local or at.is_unspecified)


def _private(address: IPv4Address | IPv6Address) -> bool:
    """As Go has it: 10/8, 172.16/12, 192.168/16 and fc00::/7; Python counts documentation networks too."""
    if isinstance(address, IPv6Address):
        return address.packed[0] & 0xFE == 0xFC
    first, second = address.packed[:2]
    return first == 10 or (first == 172 and 16 <= second < 32) or (first == 192 and second == 168)
