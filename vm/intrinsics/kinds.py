"""Whether the kind of a request is one that a rule selects (semantics §11). Called by the match code of compiled rules.

A selector is a list of four texts: group, version, kind and subresource, each of which may hold wildcards.
"""

from __future__ import annotations

from typing import Final

from vm.intrinsics.wildcard import match
from vm.values import Value

_POD: Final = ["", "v1", "Pod"]


def matches_any(kind: Value, selectors: Value) -> bool:
    """Whether ``[group, version, kind, subresource]`` matches one of the selectors.

    A selector without a subresource means the object itself; of Pods also ``pods/ephemeralcontainers``, through which a
    running Pod gets containers.
    """
    if type(kind) is not list or type(selectors) is not list or len(kind) != 4:
        return False
    return any(_matches(kind, selector) for selector in selectors)


def _matches(kind: list[str], selector: Value) -> bool:
    if type(selector) is not list or len(selector) != 4:
        return False
    wanted, subresource = selector[:3], kind[3]
    if not all(w in ("*", have) or match(w, have) for w, have in zip(wanted, kind, strict=False)):
        return False
    if match(selector[3], subresource):
        return True
    return subresource == "ephemeralcontainers" and kind[:3] == _POD
