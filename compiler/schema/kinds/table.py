"""The stored table of the kinds that Kubernetes itself serves: ``kubernetes.jsonl``, read lazily.

The file is JSON, a line a record, so that a new version of Kubernetes shows as a readable difference: a header, the
resources (:meth:`Table.resources`), then a line for each definition (:mod:`compiler.schema.kinds.records`).
``make kinds`` remakes it. A definition's line is parsed when it is first asked for: opening the table takes a
millisecond, parsing all of it four.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import resources as package_files
from typing import Any, Final

import orjson

from compiler.schema.kinds.records import Definition

FILE: Final = "kubernetes.jsonl"


class Table:
    """``version`` is the Kubernetes version it was made of (``v1.36.3``). ``resources`` are rows of group, version,
    plural, singular, kind, namespaced, name of the definition (or null), and subresources: rows of name, group,
    version, kind and definition."""

    __slots__ = ("_lines", "_parsed", "resources", "version")

    def __init__(self, data: bytes) -> None:
        lines = data.splitlines()
        header = orjson.loads(lines[0])
        first = 1 + header["resources"]
        self.version: str = header["kubernetes"]
        self.resources: list[list[Any]] = orjson.loads(b"[" + b",".join(lines[1:first]) + b"]")
        # A line begins with ["name", — names hold no quote.
        self._lines = {line[2 : line.index(b'"', 2)].decode(): line for line in lines[first:]}
        self._parsed: dict[str, Definition] = {}

    def definition(self, name: str) -> Definition | None:
        found = self._parsed.get(name)
        if found is None and (line := self._lines.get(name)) is not None:
            found = self._parsed[name] = orjson.loads(line)[1]
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """Of all definitions."""
        return tuple(self._lines)


@cache
def stored() -> Table:
    """The table of the package; opened once a process."""
    return Table((package_files.files("compiler.schema.kinds") / FILE).read_bytes())


def write(version: str, resources: Iterable[list[Any]], definitions: dict[str, Definition]) -> bytes:
    """The bytes of a table: the same for the same content, whatever order it comes in."""
    rows = sorted(resources, key=lambda r: (r[0], r[1], r[2]))
    lines = [orjson.dumps({"kubernetes": version, "resources": len(rows)})]
    lines += [orjson.dumps(row) for row in rows]
    lines += [orjson.dumps([name, definitions[name]], option=orjson.OPT_SORT_KEYS) for name in sorted(definitions)]
    return b"\n".join(lines) + b"\n"
