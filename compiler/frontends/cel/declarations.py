"""Which function libraries an environment has.

``KUBERNETES_LIBRARIES`` are those of the API server 1.36 for admission policies, in the versions it has;
``PLAIN_LIBRARIES`` those of plain CEL with every extension, as the conformance tests of the specification ask for.
"""

from __future__ import annotations

from typing import Final

from vm.cel.libraries import LIBRARIES
from vm.cel.library import Library

PLAIN_LIBRARIES: Final[tuple[Library, ...]] = tuple(
    LIBRARIES[name]
    for name in ("standard", "optional", "strings", "math", "lists", "sets", "encoders", "regex", "network")
    if name in LIBRARIES
)

KUBERNETES_LIBRARIES: Final[tuple[Library, ...]] = tuple(
    library
    for name, library in LIBRARIES.items()
    if name in ("standard", "optional", "strings.kubernetes", "sets", "lists.kubernetes")
    or name.startswith(("k8s", "kubernetes", "thesmos"))
)
