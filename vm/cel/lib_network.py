"""The table of CEL's ``network`` extension: the API server's addresses and networks, but for the texts it takes."""

from __future__ import annotations

from typing import Final

from vm.cel.lib_k8s_addresses import OF_NETWORKS, PROPERTIES
from vm.cel.library import Function, Library, function, method

_IP: Final = "net.IP"
_CIDR: Final = "net.CIDR"
_B: Final = "vm.cel.k8s_addresses:"

LIBRARY: Final = Library(
    "network",
    1,
    (
        Function(
            "ip",
            (function("string", to=_IP), method(_CIDR, to=_IP)),
            _B + "ip_or_mapped",
            "the address that a text denotes (`::ffff:c0a8:1` that of IPv4), or the one of a network",
            "network.ip",
            fuel=4,
            sized=(0,),
            cost="ip",
        ),
        Function(
            "isIP",
            (function("string", to="bool"),),
            _B + "is_ip_or_mapped",
            "whether a text denotes an address",
            "network.isIP",
            fuel=4,
            sized=(0,),
            cost="parse",
        ),
        Function(
            "ip.isCanonical",
            (function("string", to="bool"),),
            _B + "is_canonical_or_mapped",
            "whether the text is the canonical form of its address, an error for none",
            "network.isCanonical",
            fuel=4,
            sized=(0,),
            cost="parse_twice",
        ),
        Function(
            "containsIP",
            (method(_CIDR, "string", to="bool"), method(_CIDR, _IP, to="bool")),
            _B + "contains_ip_or_mapped",
            "whether an address, or the text of one, lies within",
            "network.containsIP",
            fuel=4,
            sized=(1,),
            cost="contains_ip",
        ),
        *PROPERTIES,
        *OF_NETWORKS,
    ),
    "IP addresses and networks, as the tests of the CEL specification have them",
    types=(_IP, _CIDR),
)
