"""Puts the values of ``$( )`` references into a document (semantics §6.6).

References are resolved over the document as written, before any variable, so all of it happens at compile time.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Any, Final

from compiler.source import pointer as pointer_of
from vm.intrinsics.text import go_float

_REFERENCE: Final = re.compile(r"^\$\(.[^ ]*\)|[^\\]\$\(.[^ ]*\)")
_ESCAPED: Final = re.compile(r"\\(\$\(.[^ ]*\))")
_OPERATOR: Final = re.compile(r">=|<=|>|<|!")
_ANCHOR: Final = re.compile(r"[+<=X^]?\((.+)\)\Z")


class BadReference(Exception):
    """A reference that names nothing, no text, or itself; ``str`` says which."""


def resolve(value: Any, document: Any, path: str, report: Callable[[str, str], None]) -> Any:
    """The value with its references resolved against ``document``, in which it stands at ``path``.

    ``report`` gets the place of each bad reference within the value (a pointer) and what is wrong; its text stays.
    """
    if not _any(value):
        return value
    return _Resolver(document, report).value(value, path, "")


def _any(value: Any) -> bool:
    stack = [value]
    while stack:
        x = stack.pop()
        if isinstance(x, str):
            if "$(" in x:
                return True
        elif isinstance(x, dict):
            stack.extend(x)
            stack.extend(x.values())
        elif isinstance(x, list):
            stack.extend(x)
    return False


class _Resolver:
    def __init__(self, document: Any, report: Callable[[str, str], None]) -> None:
        self._report = report
        self._leaves: dict[str, tuple[str, Any]] = {}
        self._gather(document)

    def _gather(self, document: Any) -> None:
        """All leaves by their paths without anchors, with the paths they really have."""
        stack: list[tuple[str, Any]] = [("", document)]
        while stack:
            path, x = stack.pop()
            if isinstance(x, dict):
                stack.extend((f"{path}/{escape_key(k)}", y) for k, y in x.items())
            elif isinstance(x, list):
                stack.extend((f"{path}/{i}", y) for i, y in enumerate(x))
            else:
                self._leaves[_plain(path)] = (path, x)

    def value(self, value: Any, path: str, pointer: str) -> Any:
        if isinstance(value, dict):
            return {
                self._text(k, path, pointer): self.value(x, f"{path}/{escape_key(k)}", f"{pointer}{pointer_of(k)}")
                for k, x in value.items()
            }
        if isinstance(value, list):
            return [self.value(x, f"{path}/{i}", f"{pointer}/{i}") for i, x in enumerate(value)]
        return self._text(value, path, pointer) if isinstance(value, str) else value

    def _text(self, text: str, path: str, pointer: str) -> str:
        if "$(" not in text:
            return text
        out = text
        for found in _REFERENCE.findall(text):
            lead = "" if found.startswith("$(") else found[0]
            try:
                out = out.replace(found, lead + self._resolved(found[len(lead) :], path, (path,)), 1)
            except BadReference as bad:
                self._report(pointer, str(bad))
                return text
        return _ESCAPED.sub(r"\1", out)

    def _resolved(self, reference: str, path: str, seen: tuple[str, ...]) -> str:
        inner = reference.strip("$()")
        operator = m[0] if (m := _OPERATOR.match(inner)) else ""
        target = inner[len(operator) :]
        if not target:
            raise BadReference("the reference is empty")
        wanted = target if target.startswith("/") else posixpath.normpath(posixpath.join(path or "/", target))
        found = self._leaves.get(_plain(wanted))
        if found is None or found[1] is None:
            raise BadReference(f"{reference} names nothing: there is no value at {wanted}")
        at, value = found
        if at in seen:
            raise BadReference(f"{reference} leads back to itself")
        if isinstance(value, str):
            for inner_reference in _REFERENCE.findall(value):
                lead = 0 if inner_reference.startswith("$(") else 1
                self._resolved(inner_reference[lead:], at, (*seen, at))
            return operator + value
        if operator and isinstance(value, (int, float)) and not isinstance(value, bool):
            return operator + (go_float(value, "f6") if isinstance(value, float) else str(value))
        raise BadReference(f"{reference} names a value that is no text")


def escape_key(key: str) -> str:
    """A key as a part of a document path."""
    return key.replace("/", "\\/")


def _plain(path: str) -> str:
    """A path without anchors."""
    if "(" not in path:
        return path
    return "/".join(m[1] if (m := _ANCHOR.match(part.strip())) else part for part in path.split("/"))
