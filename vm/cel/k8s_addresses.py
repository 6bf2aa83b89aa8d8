"""IP addresses and networks: the API server's ``ip`` and ``cidr`` libraries, and CEL's ``network`` extension.

The two take other texts for addresses: Kubernetes refuses every IPv4 address in the IPv6 form of RFC 4291 § 2.5.5.2,
the extension reads ``::ffff:c0a8:1`` as 192.168.0.1 and refuses only the form with dots. Texts are read by
:mod:`ipaddress`; why one is none is said in the words of Go's ``net/netip``, which are part of the API server's errors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import ClassVar, Final

from vm.cel.go_quote import go_quote
from vm.cel.values import no_overload
from vm.values import Err, Value

_V4: Final = 32
_V6: Final = 128
_MAPPED: Final = 0xFFFF
_LONGEST: Final = 256
_BITS: Final = re.compile(r"0|[1-9][0-9]*")
_GROUP: Final = re.compile(r"[0-9a-fA-F]*")
_MISMATCH: Final = Err("overload", "no such overload")


@dataclass(frozen=True, slots=True)
class IP:
    """``number`` of ``width`` bits (32 or 128)."""

    CEL_TYPE: ClassVar[str] = "net.IP"
    number: int
    width: int

    @property
    def address(self) -> IPv4Address | IPv6Address:
        return IPv4Address(self.number) if self.width == _V4 else IPv6Address(self.number)

    def cel_text(self) -> str:
        """``string(ip)``: the canonical form."""
        return str(self.address)


@dataclass(frozen=True, slots=True)
class CIDR:
    """An address, host bits among it, and the length of the prefix."""

    CEL_TYPE: ClassVar[str] = "net.CIDR"
    ip: IP
    prefix: int

    def cel_text(self) -> str:
        """``string(cidr)``: ``10.1.2.3/8``, with the host bits."""
        return f"{self.ip.cel_text()}/{self.prefix}"

    def holds(self, ip: IP) -> bool:
        """Whether an address lies in the network; never one of the other family."""
        shift = self.ip.width - self.prefix
        return ip.width == self.ip.width and ip.number >> shift == self.ip.number >> shift


def _parsed(text: str) -> IP | str:
    """The address with its zone left out, or why netip takes the text for none."""
    if len(text) <= _LONGEST:
        try:
            found = ip_address(text)
        except ValueError:
            pass
        else:
            return IP(int(found), _V4 if found.version == 4 else _V6)
    return f"ParseAddr({go_quote(text)}): {_why(text)}"


def refusal(text: str) -> str:
    """Why netip takes a text for no address, empty when it is one."""
    found = _parsed(text)
    return found if isinstance(found, str) else ""


def _why(text: str) -> str:
    """Why a text that is no address is none, as ``netip.ParseAddr`` says it."""
    for c in text:
        if c == ".":
            return _why_v4(text)
        if c == ":":
            return _why_v6(text)
        if c == "%":
            return "missing IPv6 address"
    return "unable to parse IP"


def _why_v4(text: str) -> str:
    value = length = fields = 0
    for i, c in enumerate(text):
        if c in "0123456789":
            if length == 1 and value == 0:
                return "IPv4 field has octet with leading zero"
            value, length = value * 10 + int(c), length + 1
            if value > 255:
                return "IPv4 field has value >255"
        elif c == ".":
            if i == 0 or i == len(text) - 1 or text[i - 1] == ".":
                return _at("IPv4 field must have at least one digit", text[i:])
            if fields == 3:
                return "IPv4 address too long"
            fields, value, length = fields + 1, 0, 0
        else:
            return _at("unexpected character", text[i:])
    return "IPv4 address too short"


def _why_v6(text: str) -> str:
    s, percent, zone = text.partition("%")
    if percent and not zone:
        return "zone must be a non-empty string"
    ellipsis, taken = -1, 0
    if s.startswith("::"):
        ellipsis, s = 0, s[2:]
    while taken < 16:
        group = _GROUP.match(s)
        digits = group[0] if group else ""
        if not digits:
            return _at("each colon-separated field must have at least one digit", s)
        if len(digits) > 4:
            return _at("each group must have 4 or less digits", s)
        if s[len(digits) : len(digits) + 1] == ".":
            if ellipsis < 0 and taken != 12:
                return _at("embedded IPv4 address must replace the final 2 fields of the address", s)
            if taken > 12:
                return _at("too many hex fields to fit an embedded IPv4 at the end of the address", s)
            return _why_v4(s)
        taken += 2
        s = s[len(digits) :]
        if not s:
            break
        if s[0] != ":":
            return _at("unexpected character, want colon", s)
        if len(s) == 1:
            return _at("colon must be followed by more characters", s)
        s = s[1:]
        if s[0] == ":":
            if ellipsis >= 0:
                return _at("multiple :: in address", s)
            ellipsis, s = taken, s[1:]
            if not s:
                break
    if s:
        return _at("trailing garbage after address", s)
    return "address string too short" if ellipsis < 0 else "the :: must expand to at least one field of zeros"


def _at(words: str, rest: str) -> str:
    return f"{words} (at {go_quote(rest)})" if rest else words


def parse_ip(text: str) -> IP | Err:
    """The address that a text denotes in Kubernetes."""
    found = _parsed(text)
    if isinstance(found, str):
        return Err("argument", f"IP Address {go_quote(text)} parse error during conversion from string: {found}")
    if "%" in text:
        return Err("argument", f"IP address {go_quote(text)} with zone value is not allowed")
    if _is_mapped(found):
        return Err("argument", f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return found


def parse_ip_or_mapped(text: str) -> IP | Err:
    """The address that a text denotes in the ``network`` extension: as in Kubernetes, but an IPv4 address in the hex
    form of IPv6 is that address."""
    found = _parsed(text)
    if isinstance(found, IP) and _is_mapped(found) and "." not in text and "%" not in text:
        return IP(found.number & 0xFFFFFFFF, _V4)
    return parse_ip(text)


def _is_mapped(ip: IP) -> bool:
    return ip.width == _V6 and ip.number >> 32 == _MAPPED


def parse_cidr(text: str) -> CIDR | Err:
    """The network that a text denotes: an address without a zone, ``/`` and the length of the prefix."""
    found = _network(text)
    if isinstance(found, str):
        found = f"network address parse error during conversion from string: {found}"
    elif _is_mapped(found.ip):
        found = f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed"
    else:
        return found
    return Err("argument", f"network address parse error during conversion from string: {found}")


def _network(text: str) -> CIDR | str:
    where = f"netip.ParsePrefix({go_quote(text)}): "
    address, slash, bits = text.rpartition("/")
    if not slash:
        return f"{where}no '/'"
    ip = _parsed(address)
    if isinstance(ip, str):
        return where + ip
    if "%" in address:
        return f"{where}IPv6 zones cannot be present in a prefix"
    if _BITS.fullmatch(bits) is None or len(bits) > 18:
        return f"{where}bad bits after slash: {go_quote(bits)}"
    if int(bits) > ip.width:
        return f"{where}prefix length out of range"
    return CIDR(ip, int(bits))


def ip(x: Value) -> Value:
    """``ip(text)``, and ``cidr.ip()``: the address with the host bits."""
    if type(x) is str:
        return parse_ip(x)
    return x.ip if type(x) is CIDR else no_overload("ip", x)


def ip_or_mapped(x: Value) -> Value:
    """As :func:`ip`, with the texts of the ``network`` extension."""
    return parse_ip_or_mapped(x) if type(x) is str else ip(x)


def is_ip(text: Value) -> Value:
    """``isIP(text)``."""
    return type(parse_ip(text)) is IP if type(text) is str else no_overload("isIP", text)


def is_ip_or_mapped(text: Value) -> Value:
    """As :func:`is_ip`, with the texts of the ``network`` extension."""
    return type(parse_ip_or_mapped(text)) is IP if type(text) is str else no_overload("isIP", text)


def is_canonical(text: Value) -> Value:
    """``ip.isCanonical(text)``: whether the address is written in its canonical form; an error for no address."""
    return _canonical(text, parse_ip(text)) if type(text) is str else no_overload("ip.isCanonical", text)


def is_canonical_or_mapped(text: Value) -> Value:
    """As :func:`is_canonical`, with the texts of the ``network`` extension."""
    return _canonical(text, parse_ip_or_mapped(text)) if type(text) is str else no_overload("ip.isCanonical", text)


def _canonical(text: str, found: IP | Err) -> Value:
    return found if isinstance(found, Err) else found.cel_text() == text


def family(x: Value) -> Value:
    """``ip.family()``: 4 or 6."""
    return (4 if x.width == _V4 else 6) if type(x) is IP else no_overload("family", x)


def is_unspecified(x: Value) -> Value:
    """``ip.isUnspecified()``: 0.0.0.0 or ::."""
    return x.number == 0 if type(x) is IP else no_overload("isUnspecified", x)


def is_loopback(x: Value) -> Value:
    """``ip.isLoopback()``: of 127.0.0.0/8, or ::1."""
    return x.address.is_loopback if type(x) is IP else no_overload("isLoopback", x)


def is_link_local_multicast(x: Value) -> Value:
    """``ip.isLinkLocalMulticast()``: of 224.0.0.0/24 or ff02::/16 whatever its flags."""
    if type(x) is not IP:
        return no_overload("isLinkLocalMulticast", x)
    if x.width == _V4:
        return x.number >> 8 == 0xE00000
    return x.number >> 120 == 0xFF and x.number >> 112 & 0xF == 2


def is_link_local_unicast(x: Value) -> Value:
    """``ip.isLinkLocalUnicast()``: of 169.254.0.0/16 or fe80::/10."""
    if type(x) is not IP:
        return no_overload("isLinkLocalUnicast", x)
    return x.number >> 16 == 0xA9FE if x.width == _V4 else x.number >> 118 == 0xFE80 >> 6


def is_global_unicast(x: Value) -> Value:
    """``ip.isGlobalUnicast()``: an address of one host beyond its link, private ones among them; Go's
    ``IsGlobalUnicast``."""
    if type(x) is not IP:
        return no_overload("isGlobalUnicast", x)
    if x.width == _V4 and x.number in (0, 0xFFFFFFFF):
        return False
    multicast = x.number >> 28 == 0xE if x.width == _V4 else x.number >> 120 == 0xFF
    return x.number != 0 and not (is_loopback(x) or multicast or is_link_local_unicast(x))


def cidr(text: Value) -> Value:
    """``cidr(text)``."""
    return parse_cidr(text) if type(text) is str else no_overload("cidr", text)


def is_cidr(text: Value) -> Value:
    """``isCIDR(text)``."""
    return type(parse_cidr(text)) is CIDR if type(text) is str else no_overload("isCIDR", text)


def contains_ip(network: Value, x: Value) -> Value:
    """``cidr.containsIP(x)`` of an address or the text of one."""
    return _contains_ip(network, x, parse_ip(x) if type(x) is str else x)


def contains_ip_or_mapped(network: Value, x: Value) -> Value:
    """As :func:`contains_ip`, with the texts of the ``network`` extension."""
    return _contains_ip(network, x, parse_ip_or_mapped(x) if type(x) is str else x)


def _contains_ip(network: Value, x: Value, found: Value) -> Value:
    if type(network) is CIDR:
        if type(found) is IP:
            return network.holds(found)
        if type(x) is str:
            return _MISMATCH  # the API server says no more of a text that is no address
    return no_overload("containsIP", network, x)


def contains_cidr(network: Value, x: Value) -> Value:
    """``cidr.containsCIDR(x)`` of a network or the text of one."""
    if type(network) is CIDR:
        other = parse_cidr(x) if type(x) is str else x
        if type(other) is CIDR:
            return network.prefix <= other.prefix and network.holds(other.ip)
        if type(x) is str:
            return other
    return no_overload("containsCIDR", network, x)


def masked(network: Value) -> Value:
    """``cidr.masked()``: without the host bits."""
    if type(network) is not CIDR:
        return no_overload("masked", network)
    host = network.ip.width - network.prefix
    return CIDR(IP(network.ip.number >> host << host, network.ip.width), network.prefix)


def prefix_length(network: Value) -> Value:
    """``cidr.prefixLength()``."""
    return network.prefix if type(network) is CIDR else no_overload("prefixLength", network)
