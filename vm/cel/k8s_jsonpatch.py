"""``jsonpatch.escapeKey`` of the API server's mutations (RFC 6901 § 3)."""

from __future__ import annotations

from vm.cel.values import no_overload
from vm.patch.diff import escape
from vm.values import Value


def escape_key(key: Value) -> Value:
    """The key as one part of a JSON pointer."""
    if type(key) is str:
        return escape(key)
    return no_overload("jsonpatch.escapeKey", key)
