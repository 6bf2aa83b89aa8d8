"""URL paths of the Kubernetes API, taken apart: which resource, which object, which query.

Used to decide what a policy may ask (:mod:`runtime.context.tenancy`) and to answer from given objects
(:mod:`runtime.context.objects`). A path is read the way an API server reads it, once percent escapes are undone; one
that could be read in two ways is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote

_BAD: Final = re.compile(r"[\x00-\x20\x7f\\#]")
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")


class PathError(Exception):
    """A path that cannot be used; ``str`` says why."""


@dataclass(frozen=True, slots=True)
class ApiPath:
    """``/apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE?QUERY``, parts that are not there empty.

    ``plain`` is for paths of nothing of the kind (``/version``): all other fields are empty then. A Namespace itself
    has plural ``namespaces``, its name, and no namespace.
    """

    group: str = ""
    version: str = ""
    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    plain: str = ""


def parse(url: str) -> ApiPath:
    """Takes a path with its query apart. Raises :class:`PathError`."""
    steps, query = split(url)
    head = steps[:1]
    if head == ["api"] and len(steps) > 2:
        group, version, rest = "", steps[1], steps[2:]
    elif head == ["apis"] and len(steps) > 3:
        group, version, rest = steps[1], steps[2], steps[3:]
    else:
        return ApiPath(query=query, plain="/" + "/".join(steps))
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    return ApiPath(group, version, namespace, rest[0], name, "/".join(rest[2:]), query)


def split(url: str) -> tuple[list[str], dict[str, str]]:
    """The steps of a path, escapes undone, and its query.

    Raises :class:`PathError` where two readers might not see the same steps: empty ones, ``.`` and ``..``, a slash or
    a percent sign that is escaped, blanks and control characters.
    """
    path, _, text = url.strip().partition("?")
    if not path.startswith("/"):
        raise PathError("it does not begin with a slash")
    if _BAD.search(path):
        raise PathError("it holds a blank, a backslash or a control character")
    steps = []
    for step in path.removesuffix("/").split("/")[1:]:
        plain = unquote(step, errors="strict") if _ESCAPE.search(step) else step
        if plain in ("", ".", ".."):
            raise PathError(f"it has a step {plain!r}")
        if "/" in plain or _ESCAPE.search(plain) or _BAD.search(plain):
            raise PathError("it holds an escaped slash, percent sign, blank or control character")
        steps.append(plain)
    return steps, dict(parse_qsl(text, keep_blank_values=True))
