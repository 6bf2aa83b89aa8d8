"""The tables of the API server's ``ip`` and ``cidr`` libraries (Kubernetes 1.30)."""

from __future__ import annotations

from typing import Final

from vm.cel.library import Function, Library, function, method

_IP: Final = "net.IP"
_CIDR: Final = "net.CIDR"
_B: Final = "vm.cel.k8s_addresses:"


def to_string(of: str) -> Function:
    """``string(x)`` of a type: the row shares its body with the standard function."""
    return Function(
        "string",
        (function(of, to="string"),),
        "vm.cel.convert:to_string",
        "the canonical text",
        sized=(0,),
        cost="converted",
    )


def of_address(name: str, body: str, doc: str) -> Function:
    """A property of an address."""
    return Function(name, (method(_IP, to="bool"),), _B + body, doc)


PROPERTIES: Final = (
    Function("family", (method(_IP, to="int"),), _B + "family", "4 or 6"),
    of_address("isUnspecified", "is_unspecified", "whether it is 0.0.0.0 or ::"),
    of_address("isLoopback", "is_loopback", "whether it is of 127.0.0.0/8, or ::1"),
    of_address("isLinkLocalMulticast", "is_link_local_multicast", "whether it is of 224.0.0.0/24 or ff02::/16"),
    of_address("isLinkLocalUnicast", "is_link_local_unicast", "whether it is of 169.254.0.0/16 or fe80::/10"),
    of_address(
        "isGlobalUnicast",
        "is_global_unicast",
        "whether it is one host beyond its link, private ones among them",
    ),
    to_string(_IP),
)

OF_NETWORKS: Final = (
    Function(
        "cidr",
        (function("string", to=_CIDR),),
        _B + "cidr",
        "the network that a text denotes (`10.0.0.0/8`), an error for none",
        fuel=4,
        sized=(0,),
        cost="parse",
    ),
    Function(
        "isCIDR",
        (function("string", to="bool"),),
        _B + "is_cidr",
        "whether a text denotes a network",
        fuel=4,
        sized=(0,),
        cost="parse",
    ),
    Function(
        "containsCIDR",
        (method(_CIDR, "string", to="bool"), method(_CIDR, _CIDR, to="bool")),
        _B + "contains_cidr",
        "whether a network, or the text of one, lies within",
        fuel=4,
        sized=(1,),
        cost="contains_cidr",
    ),
    Function("masked", (method(_CIDR, to=_CIDR),), _B + "masked", "the network without host bits"),
    Function("prefixLength", (method(_CIDR, to="int"),), _B + "prefix_length", "the bits of the prefix"),
    to_string(_CIDR),
)

IP: Final = Library(
    "kubernetes.ip",
    1,
    (
        Function(
            "ip",
            (function("string", to=_IP),),
            _B + "ip",
            "the address that a text denotes, an error for none, with a zone, and for IPv4 in the form of IPv6",
            fuel=4,
            sized=(0,),
            cost="ip",
        ),
        Function(
            "isIP",
            (function("string", to="bool"),),
            _B + "is_ip",
            "whether a text denotes an address",
            fuel=4,
            sized=(0,),
            cost="parse",
        ),
        Function(
            "ip.isCanonical",
            (function("string", to="bool"),),
            _B + "is_canonical",
            "whether the text is the canonical form of its address, an error for none",
            fuel=4,
            sized=(0,),
            cost="parse_twice",
        ),
        *PROPERTIES,
    ),
    "IP addresses; in Kubernetes since 1.30",
    types=(_IP,),
)

CIDR: Final = Library(
    "kubernetes.cidr",
    1,
    (
        *OF_NETWORKS,
        Function(
            "ip", (method(_CIDR, to=_IP),), _B + "ip", "the address with the host bits", fuel=4, sized=(0,), cost="ip"
        ),
        Function(
            "containsIP",
            (method(_CIDR, "string", to="bool"), method(_CIDR, _IP, to="bool")),
            _B + "contains_ip",
            "whether an address, or the text of one, lies within",
            fuel=4,
            sized=(1,),
            cost="contains_ip",
        ),
    ),
    "networks of IP addresses; in Kubernetes since 1.30",
    types=(_CIDR, _IP),
)
