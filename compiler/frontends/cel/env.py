"""What an expression may name: variables with their types, functions, types, and where names are looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from compiler.frontends.cel.types import Type
from vm.cel.library import Library


class SchemaProvider(Protocol):
    """Where the checker finds the fields of ``Object`` types by name."""

    def fields(self, name: str) -> Mapping[str, Type] | None:
        """The fields of an object with their ``Soft`` types, None for a name that is not known."""


@dataclass(frozen=True, slots=True)
class Env:
    """``variables`` are full names (dots allowed) with types; ``container`` is the namespace that names are first
    looked up in (CEL spec § Name Resolution). ``libraries`` in order. ``strict``: plain CEL, no quantities of decision
    6. ``provider`` answers for schema objects; ``messages`` lists further message types by name with their fields (the
    ``Object`` types of mutations)."""

    variables: Mapping[str, Type] = field(default_factory=dict)
    libraries: tuple[Library, ...] = ()
    container: str = ""
    provider: SchemaProvider | None = None
    messages: Mapping[str, Mapping[str, Type]] = field(default_factory=dict)
    strict: bool = False
    kubernetes: bool = False
    """The API server's further checks: the elements of a list or map literal must be of one type, constant durations,
    timestamps and regular expressions must be good ones."""
