"""Where calls of services may go: an allow-list of URLs, a block-list of hosts and networks, and networks that nobody
may reach through a policy.

Pure decisions, used by :mod:`runtime.context.services` before a name is resolved (:meth:`Egress.refusal`) and for every
address that it resolves to (:meth:`Egress.blocked`), so that a name which changes its mind gains nothing.
"""

from __future__ import annotations

import ipaddress
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

NEVER: Final[tuple[Network, ...]] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local, and the metadata services of clouds
        "100.100.100.200/32",
        "192.0.0.192/32",
        "224.0.0.0/3",
        "::/128",
        "::1/128",
        "fe80::/10",
        "fd00:ec2::254/128",
        "fd20:ce::254/128",
        "ff00::/8",
    )
)
"""Loopback, link-local, metadata services, multicast and the unspecified address. An allow-list entry does not open
them; ``--httpAllowLocal`` does, for tests."""

_NAT64: Final = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
_COMPATIBLE: Final = ipaddress.ip_network("::/96")
_PORTS: Final = {"http": 80, "https": 443}


class EgressError(Exception):
    """A list that cannot be read; ``str`` says why."""


@dataclass(frozen=True, slots=True)
class Egress:
    """``allowed`` are URL prefixes (none: every URL that is not blocked), ``hosts`` and ``networks`` are blocked."""

    allowed: tuple[SplitResult, ...] = ()
    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = NEVER

    @classmethod
    def of(cls, allow: Iterable[str] = (), block: Iterable[str] = (), *, local: bool = False) -> Egress:
        """From the texts of flags. ``local`` opens what nobody may reach otherwise. Raises :class:`EgressError`."""
        allowed = []
        for entry in _texts(allow):
            url = urlsplit(entry)
            if url.scheme not in _PORTS or not url.hostname:
                raise EgressError(f"{entry!r} must be a URL with scheme and host, as https://api.example.com")
            allowed.append(url)
        hosts, networks = set(), list(() if local else NEVER)
        for entry in _texts(block):
            if "/" not in entry:
                address = literal_address(entry)
                if address is None:
                    hosts.add(_host(entry))
                else:  # a name that resolves to it is blocked too
                    networks.append(ipaddress.ip_network(address))
                continue
            try:
                networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                raise EgressError(f"{entry!r} is no network such as 10.0.0.0/8, and no host name") from None
        return cls(tuple(allowed), frozenset(hosts), tuple(networks))

    def refusal(self, url: SplitResult) -> str | None:
        """Why a URL may not be called, None when it may as far as its text goes."""
        host = _host(url.hostname or "")
        if url.scheme not in _PORTS or not host:
            return "it must be a URL with scheme and host"
        if url.username is not None or url.password is not None:
            return "it holds credentials"
        if self.allowed and not any(self._within(url, entry) for entry in self.allowed):
            return "no entry of the allow-list matches it"
        if host in self.hosts:
            return f"{host} is on the block-list"
        literal = literal_address(host)
        if literal is not None and self.blocked(literal):
            return f"{host} lies in a network that may not be called"
        return None

    def blocked(self, address: Address) -> bool:
        """Whether an address may not be reached, an IPv4 address that an IPv6 one carries included."""
        return any(form in network for form in forms(address) for network in self.networks)

    def _within(self, url: SplitResult, entry: SplitResult) -> bool:
        try:
            same = (url.scheme, _host(url.hostname or ""), url.port or _PORTS[url.scheme]) == (
                entry.scheme,
                _host(entry.hostname or ""),
                entry.port or _PORTS[entry.scheme],
            )
        except ValueError:  # a port that is none
            return False
        return same and _below(url.path, entry.path)


def _below(path: str, prefix: str) -> bool:
    if prefix in ("", "/"):
        return True
    plain, start = (posixpath.normpath("/" + text.lstrip("/")) for text in (unquote(path), prefix))
    return plain == start or plain.startswith(start + "/")


def _texts(given: Iterable[str]) -> Iterator[str]:
    for text in given:
        yield from (part.strip() for part in text.split(",") if part.strip())


def _host(name: str) -> str:
    return name.rstrip(".").lower()


def literal_address(host: str) -> Address | None:
    """The address that a host is written as, None for a name."""
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def forms(address: Address) -> Iterator[Address]:
    """An address, and the IPv4 addresses that it stands for: mapped, compatible, NAT64, 6to4 and Teredo."""
    yield address
    if not isinstance(address, ipaddress.IPv6Address):
        return
    low = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address in _COMPATIBLE or any(address in network for network in _NAT64):
        yield low
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if (int(address) >> 32) & 0xFDFFFFFF == 0x00005EFE:  # ISATAP
        yield low
