"""Which function libraries an environment has.

``KUBERNETES_LIBRARIES`` are those of the API server 1.36 for admission policies, in the order and the versions it has
them (apiserver, ``pkg/cel/environment``), with the quantities of the schema behind them. ``MUTATION_LIBRARIES`` has
what the API server adds for mutations. ``PLAIN_LIBRARIES`` are those of plain CEL with every extension, as the
conformance tests of the specification ask for.
"""

from __future__ import annotations

from typing import Final

from vm.cel.libraries import LIBRARIES
from vm.cel.library import Library


def _named(*names: str) -> tuple[Library, ...]:
    return tuple(LIBRARIES[name] for name in names)


PLAIN_LIBRARIES: Final = _named(
    "standard", "optional", "strings", "math", "lists", "sets", "encoders", "regex", "network"
)

KUBERNETES_LIBRARIES: Final = _named(
    "standard",
    "kubernetes.url",
    "kubernetes.regex",
    "kubernetes.lists",
    "kubernetes.authz",
    "optional",
    "kubernetes.quantity",
    "strings.kubernetes",
    "sets",
    "kubernetes.ip",
    "kubernetes.cidr",
    "kubernetes.format",
    "kubernetes.semver",
    "lists.kubernetes",
    "thesmos.quantities",
)

MUTATION_LIBRARIES: Final = (*KUBERNETES_LIBRARIES, *_named("jsonpatch"))
