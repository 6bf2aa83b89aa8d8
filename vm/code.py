"""The in-memory form of a bundle: code objects, side tables, and what POLICY says of policies, rules and exemptions.

``compiler.emit`` makes a :class:`Module`, ``vm.bundle`` turns it into bytes and back, ``vm.verify`` proves it. The
policy records mirror those of the IR, with function indexes in place of function names. Everything here is frozen; a
module is shared by all requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from vm.values import Err, Value

FORMAT: Final = 1
"""Major version of the bundle format; a reader takes exactly its own."""
LANGUAGE: Final = 1
"""Version of the instruction set and its meaning; a VM runs bundles up to its own."""

ROLES: Final = ("entry", "message", "exception", "cell", "helper")
MODES: Final = ("propagate", "absorb")
RULE_KINDS: Final = ("validate", "mutate", "generate", "mutateExisting", "cleanup")
BACKGROUND_KINDS: Final = RULE_KINDS[2:]
"""Kinds of rules that leave the request as it is: work is done on other objects because of it."""

MAX_CODE: Final = 64 * 1024
"""Bytes of code in one function."""
MAX_CONSTANTS: Final = 64 * 1024
MAX_STACK: Final = 256
MAX_LOCALS: Final = 4096
MAX_NESTING: Final = 64
MAX_LOOPS: Final = 18
"""Statically nested loops in one function: CPython compiles 20, two stay for what a code generator may add around."""
MAX_CALL_DEPTH: Final = 64
MAX_UNITS: Final = 1 << 32
"""Cost units that one instruction may charge, and one more."""
MAX_BUNDLE: Final = 16 * 1024 * 1024

PathKey: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Header:
    """Where a module comes from and what it needs. ``sources`` are (file name, sha256 in hex); ``options`` is the
    fingerprint of the compiler's options."""

    format: int = FORMAT
    language: int = LANGUAGE
    min_vm: int = LANGUAGE
    features: tuple[str, ...] = ()
    compiler: str = "thesmos"
    sources: tuple[tuple[str, str], ...] = ()
    options: str = ""


@dataclass(frozen=True, slots=True)
class Import:
    """An intrinsic that the code calls, by name and the version of its meaning; resolved when the module is
    verified."""

    name: str
    version: int = 1


@dataclass(frozen=True, slots=True)
class CodeObject:
    """One function. ``locals`` holds one static kind a slot, the ``params`` parameters first (``"VLI"``)."""

    name: str
    params: int
    locals: str
    result: str
    code: bytes
    max_stack: int
    mode: str = "propagate"
    role: str = "helper"


@dataclass(frozen=True, slots=True, order=True)
class KindKey:
    """A kind selector: group, version, kind and subresource may hold wildcards; "" as subresource is the object
    itself."""

    group: str
    version: str
    kind: str
    subresource: str


@dataclass(frozen=True, slots=True, order=True)
class MatchKey:
    """One way a rule may be reached: a kind selector and the operations (empty: all)."""

    kind: KindKey
    operations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One computed rule: its entry function ``() -> O``, the requests that may reach it, and JSON for the runtime."""

    name: str
    entry: int
    kind: str
    keys: tuple[MatchKey, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy and its computed rules; ``namespace`` is None for a cluster-wide one."""

    name: str
    namespace: str | None
    rules: tuple[Rule, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exemption:
    """A policy exception: (policy or None for any, rule name with wildcards) pairs and the function ``() -> B`` that
    says whether it applies."""

    name: str
    namespace: str
    rules: tuple[tuple[str | None, str], ...]
    entry: int
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """The rules that one match key reaches, as rule ordinals: rules counted through all policies in order."""

    key: MatchKey
    rules: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A policy file and those of its lines that spans name, as (line, text)."""

    name: str
    lines: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class CodeSpan:
    """From offset ``pc`` of a function on, code comes from this place (line and column from 1)."""

    pc: int
    file: int
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Debug:
    """The strippable part: nothing that a rule answers depends on it. ``spans`` has one tuple a function, by rising
    pc."""

    files: tuple[SourceFile, ...] = ()
    spans: tuple[tuple[CodeSpan, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Module:
    """A bundle in memory. ``patterns`` are JSON forms of ``vm.scalar.ScalarPattern``; ``cells`` are the init functions
    of the context cells; ``index`` is :func:`build_index` of the policies; ``extra`` are optional sections that this
    version does not know, as (number, bytes)."""

    constants: tuple[Value, ...] = ()
    paths: tuple[PathKey, ...] = ()
    patterns: tuple[Any, ...] = ()
    imports: tuple[Import, ...] = ()
    functions: tuple[CodeObject, ...] = ()
    cells: tuple[int, ...] = ()
    policies: tuple[Policy, ...] = ()
    exemptions: tuple[Exemption, ...] = ()
    index: tuple[IndexEntry, ...] = ()
    debug: Debug | None = None
    header: Header = field(default_factory=Header)
    extra: tuple[tuple[int, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class UnverifiedModule:
    """A module as read, whose bytes are sound but whose code nobody has checked. ``key_id`` names the key whose
    signature held, None when the bundle was not signed or no trust was asked for."""

    module: Module
    digest: bytes = b""
    key_id: str | None = None


def build_index(policies: Iterable[Policy]) -> tuple[IndexEntry, ...]:
    """The match index that follows from the rules' keys: for each distinct key the ordinals of its rules, both sorted.

    The writer stores it, the verifier computes it again and compares: an index is never trusted.
    """
    found: dict[MatchKey, list[int]] = {}
    ordinal = 0
    for policy in policies:
        for rule in policy.rules:
            for key in rule.keys:
                rules = found.setdefault(key, [])
                if not rules or rules[-1] != ordinal:
                    rules.append(ordinal)
            ordinal += 1
    return tuple(IndexEntry(key, tuple(found[key])) for key in sorted(found))


def const_kind(value: Value) -> str:
    """Static kind of a constant: its own for bool, int, text, list, map and error, ``V`` for null, floats and the
    rest."""
    return _CONST_KINDS.get(type(value), "V")


_CONST_KINDS: Final[dict[type, str]] = {bool: "B", int: "I", str: "S", list: "L", dict: "M", Err: "E"}


def uleb(n: int) -> bytes:
    """Unsigned LEB128 in its shortest form."""
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


_LEB: Final = re.compile(rb"[\x80-\xff]{0,4}[\x00-\x7f]", re.DOTALL)


def read_uleb(code: bytes, at: int) -> tuple[int, int]:
    """(number, offset behind it); ``ValueError`` when it is cut off, over 5 bytes long or not in its shortest form."""
    found = _LEB.match(code, at)
    if found is None:
        raise ValueError("number is cut off or too long")
    end = found.end()
    if end - at > 1 and code[end - 1] == 0:
        raise ValueError("number is not in its shortest form")
    n = 0
    for i in range(end - 1, at - 1, -1):
        n = n << 7 | code[i] & 0x7F
    return n, end
