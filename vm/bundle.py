"""Bundles: a module as bytes, and bytes as a module that is not verified yet.

::

    bundle    = "THB1" frame digest [signature]
    frame     = [header, [section, flags, bytes]...]       one msgpack array, sections by rising number
    header    = [format, language, min VM, [feature...], compiler, [[source, sha256]...], options]
    digest    = sha256 of "THB1" frame                     32 bytes
    signature = [key id, ed25519 signature of the digest]  msgpack, up to the end

    1 CONST    [value...]
    2 PATHS    [[key...]...]
    3 PATTERNS [scalar pattern in its JSON form...]
    5 IMPORTS  [[name, version]...]
    6 POLICY   [[policy...], [exemption...]]
    7 INDEX    [[match key, [rule ordinal...]]...]
    8 CODE     [[function...], [init function of a cell...]]
    9 DEBUG    [[[file, [[line, text]...]]...], [[pc delta, file, line, column...]...]]   optional
   10 OBJECTS  a JSON list of the policies and exceptions as they were written          optional

All msgpack is canonical (``vm.packing``). A section that a reader does not know is refused unless its flag 1
(optional) is set; a bundle of another format version is refused by name. Nothing in the sections before DEBUG depends
on it.

``compiler.bundle_writer`` calls :func:`encode_module`, ``runtime.bundles`` calls :func:`read_bundle`. Any bad input is
one :class:`BundleError`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final, Protocol

from vm.code import (
    FORMAT,
    LANGUAGE,
    MAX_BUNDLE,
    MODES,
    ROLES,
    CodeObject,
    CodeSpan,
    Debug,
    Exemption,
    Header,
    Import,
    IndexEntry,
    KindKey,
    MatchKey,
    Module,
    Policy,
    Rule,
    SourceFile,
    UnverifiedModule,
)
from vm.packing import Held, PackError, frame_end, pack, unpack
from vm.values import Err

MAGIC: Final = b"THB1"
CONST, PATHS, PATTERNS, IMPORTS, POLICY, INDEX, CODE, DEBUG = 1, 2, 3, 5, 6, 7, 8, 9
SECTION_NAMES: Final = {
    CONST: "CONST",
    PATHS: "PATHS",
    PATTERNS: "PATTERNS",
    IMPORTS: "IMPORTS",
    POLICY: "POLICY",
    INDEX: "INDEX",
    CODE: "CODE",
    DEBUG: "DEBUG",
}
OBJECTS: Final = 10
"""Stands in :attr:`Module.extra` as bytes: the VM has no use for it."""
OPTIONAL: Final = 1
_DIGEST: Final = 32
_INT: Final = 1 << 32


class BundleError(Exception):
    """Why bytes are no bundle that can be used. ``code`` is one of :data:`BUNDLE_ERRORS`, ``offset`` where it was
    seen."""

    def __init__(self, code: str, detail: str, offset: int = 0) -> None:
        super().__init__(f"{detail} (at byte {offset})")
        self.code = code
        self.detail = detail
        self.offset = offset


BUNDLE_ERRORS: Final = {
    "foreign": "the file does not start as a bundle does",
    "too_new": "the bundle was made for a newer version",
    "truncated": "the bundle ends in the middle",
    "too_large": "the bundle is larger than the limit",
    "digest": "the content does not have the digest the bundle names: it was altered or damaged",
    "signature": "the signature does not hold",
    "untrusted": "the bundle is not signed by a key that is trusted",
    "malformed": "a part does not have the form it must have",
    "not_canonical": "a part is written in another way than the one canonical form",
    "limit": "a part is larger or deeper than the limit",
    "section": "a section is missing, unknown, twice or out of order",
    "trailing": "there are bytes behind the end",
}


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Bounds on what a reader takes: bytes in all, and levels of nesting in any value."""

    max_bytes: int = MAX_BUNDLE
    max_depth: int = 100


class Signer(Protocol):
    """Signs a digest; ``key_id`` tells the reader which key to ask."""

    key_id: str

    def sign(self, digest: bytes) -> bytes: ...


class Ed25519Signer:
    """Signs with an ed25519 private key of 32 raw bytes. ``ValueError`` for any other key."""

    def __init__(self, key_id: str, private_key: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self.key_id = key_id
        self._key = Ed25519PrivateKey.from_private_bytes(private_key)

    def sign(self, digest: bytes) -> bytes:
        return self._key.sign(digest)

    def public_key(self) -> bytes:
        """The 32 raw bytes to give to :class:`Trust`."""
        return self._key.public_key().public_bytes_raw()


@dataclass(frozen=True, slots=True)
class Trust:
    """The ed25519 public keys (32 raw bytes by key id) one of which must have signed a bundle."""

    keys: Mapping[str, bytes]


# writing


def encode_module(
    m: Module, *, sign: Signer | None = None, strip: bool = False, limits: ReadLimits | None = None
) -> bytes:
    """The bundle of a module; ``strip`` leaves DEBUG out. The same module gives the same bytes.

    Raises :class:`BundleError` for a module that no reader with the same limits would take.
    """
    limits = limits or ReadLimits()
    h = m.header
    header = [
        h.format,
        h.language,
        h.min_vm,
        list(h.features),
        h.compiler,
        [list(s) for s in h.sources],
        h.options,
    ]
    sections: list[tuple[int, int, Any]] = [
        (CONST, 0, list(m.constants)),
        (PATHS, 0, [list(p) for p in m.paths]),
        (PATTERNS, 0, list(m.patterns)),
        (IMPORTS, 0, [[i.name, i.version] for i in m.imports]),
        (POLICY, 0, [[_policy_form(p) for p in m.policies], [_exemption_form(x) for x in m.exemptions]]),
        (INDEX, 0, [[_key_form(e.key), list(e.rules)] for e in m.index]),
        (CODE, 0, [[_function_form(f) for f in m.functions], list(m.cells)]),
    ]
    if m.debug is not None and not strip:
        sections.append((DEBUG, OPTIONAL, _debug_form(m.debug)))
    try:
        packed = [
            [n, flags, pack(form, max_depth=limits.max_depth, constants=n == CONST)] for n, flags, form in sections
        ]
        packed += [[n, OPTIONAL, data] for n, data in m.extra]
        packed.sort(key=_section_number)
        body = MAGIC + pack([header, *packed], max_depth=limits.max_depth)
        digest = sha256(body).digest()
        out = body + digest
        if sign is not None:
            out += pack([sign.key_id, sign.sign(digest)], max_depth=limits.max_depth)
    except PackError as problem:
        raise BundleError(problem.code, problem.detail) from None
    if len(out) > limits.max_bytes:
        raise BundleError(
            "too_large", f"the bundle has {len(out)} bytes, more than {limits.max_bytes}", limits.max_bytes
        )
    return out


def _section_number(section: list[Any]) -> int:
    return int(section[0])


def _key_form(key: MatchKey) -> list[Any]:
    k = key.kind
    return [k.group, k.version, k.kind, k.subresource, list(key.operations)]


def _policy_form(p: Policy) -> list[Any]:
    rules = [[r.name, r.entry, r.kind, [_key_form(k) for k in r.keys], dict(r.meta)] for r in p.rules]
    return [p.name, p.namespace, rules, dict(p.meta)]


def _exemption_form(x: Exemption) -> list[Any]:
    return [x.name, x.namespace, [list(r) for r in x.rules], x.entry, dict(x.meta)]


def _function_form(f: CodeObject) -> list[Any]:
    return [f.name, f.params, f.locals, f.result, MODES.index(f.mode), ROLES.index(f.role), f.max_stack, f.code]


def _debug_form(debug: Debug) -> list[Any]:
    spans: list[list[int]] = []
    for function in debug.spans:
        flat: list[int] = []
        last = 0
        for s in function:
            flat += (s.pc - last, s.file, s.line, s.column)
            last = s.pc
        spans.append(flat)
    return [[[f.name, [list(line) for line in f.lines]] for f in debug.files], spans]


# reading


def read_bundle(data: bytes, *, limits: ReadLimits | None = None, trust: Trust | None = None) -> UnverifiedModule:
    """The module in a bundle. Raises :class:`BundleError`, whatever the bytes are.

    With ``trust`` the bundle must be signed by one of its keys; without, a signature is not looked at beyond its form.
    """
    limits = limits or ReadLimits()
    if not data.startswith(MAGIC):
        _foreign(data)
    if len(data) > limits.max_bytes:
        raise BundleError(
            "too_large", f"the bundle has {len(data)} bytes, more than {limits.max_bytes}", limits.max_bytes
        )
    try:
        end = frame_end(data, len(MAGIC))
    except PackError as problem:
        raise BundleError(problem.code, problem.detail, len(MAGIC)) from None
    digest = data[end : end + _DIGEST]
    if len(digest) < _DIGEST:
        raise BundleError("truncated", "the bundle ends before its digest does", len(data))
    if not compare_digest(digest, sha256(data[:end]).digest()):
        raise BundleError("digest", "the content does not have the digest that the bundle names", end)
    key_id = _signature(data, end + _DIGEST, digest, limits, trust)
    frame = _unpacked(data[len(MAGIC) : end], limits, len(MAGIC), frozenset({bytes}))
    return UnverifiedModule(_Reader(limits).module(frame), digest, key_id)


def _foreign(data: bytes) -> None:
    head = data[:4]
    if len(head) == 4 and head.startswith(b"THB") and head[3:].isdigit() and head > MAGIC:
        raise BundleError("too_new", f"the bundle has format {head.decode()}, this version reads {MAGIC.decode()}")
    if MAGIC.startswith(data):
        raise BundleError("truncated", "the bundle ends in the middle", len(data))
    raise BundleError("foreign", "the bytes are no bundle: a bundle starts with THB1")


def _unpacked(data: bytes, limits: ReadLimits, offset: int, also: frozenset[type] = frozenset()) -> Any:
    try:
        return unpack(data, max_depth=limits.max_depth, also=also)
    except PackError as problem:
        raise BundleError(problem.code, problem.detail, offset) from None


def _signature(data: bytes, at: int, digest: bytes, limits: ReadLimits, trust: Trust | None) -> str | None:
    rest = data[at:]
    if not rest:
        if trust is not None:
            raise BundleError("untrusted", "the bundle is not signed", at)
        return None
    form = _unpacked(rest, limits, at, frozenset({bytes}))
    match form:
        case [str() as key_id, bytes() as signature] if len(signature) == 64:
            pass
        case _:
            raise BundleError("trailing", "what follows the digest is no signature", at)
    if trust is None:
        return None
    key = trust.keys.get(key_id)
    if key is None:
        raise BundleError("untrusted", f"the bundle is signed by key {key_id}, which is not trusted", at)
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, digest)
    except (InvalidSignature, ValueError):
        raise BundleError("signature", f"the signature by key {key_id} does not hold", at) from None
    return key_id


class _Reader:
    """Turns decoded msgpack into records; every mismatch of form is one :class:`BundleError`."""

    def __init__(self, limits: ReadLimits) -> None:
        self.limits = limits
        self.where = "the header"
        self.offset = len(MAGIC)

    def fail(self, what: str, code: str = "malformed") -> BundleError:
        return BundleError(code, f"{self.where}: {what}", self.offset)

    def shape(self, value: Any, *types: type) -> list[Any]:
        """A list of exactly these types, integers not negative and below 2**32."""
        if type(value) is not list or len(value) != len(types):
            raise self.fail(f"a list of {len(types)} parts is wanted")
        if tuple(map(type, value)) != types:
            raise self.fail("a part is of another type than the format says")
        if int in types:
            for x in value:
                if type(x) is int and not 0 <= x < _INT:
                    raise self.fail("a number is negative or too large")
        return value

    def every(self, value: Any, t: type) -> list[Any]:
        """A list of any length, all of one type."""
        if type(value) is not list:
            raise self.fail("a list is wanted")
        if value and (set(map(type, value)) != {t} or (t is int and not (min(value) >= 0 and max(value) < _INT))):
            raise self.fail("a part is of another type than the format says")
        return value

    def module(self, frame: Any) -> Module:
        if type(frame) is not list or not frame:
            raise self.fail("a list is wanted")
        header = self.header(frame[0])
        found: dict[int, Any] = {}
        extra: list[tuple[int, bytes]] = []
        last = 0
        for part in frame[1:]:
            number, flags, data = self.shape(part, int, int, bytes)
            self.where = f"section {SECTION_NAMES.get(number, number)}"
            if number <= last:
                raise self.fail("stands twice or out of order", "section")
            last = number
            if number not in SECTION_NAMES:
                if flags != OPTIONAL:
                    raise self.fail("is not known to this version and is not optional", "section")
                extra.append((number, data))
                continue
            if flags != (OPTIONAL if number == DEBUG else 0):
                raise self.fail("has flags that it must not have", "section")
            found[number] = self.section(number, data)
        for number, name in SECTION_NAMES.items():
            if number not in found and number != DEBUG:
                self.where = f"section {name}"
                raise self.fail("is missing", "section")
        policies, exemptions = found[POLICY]
        functions, cells = found[CODE]
        return Module(
            constants=found[CONST],
            paths=found[PATHS],
            patterns=found[PATTERNS],
            imports=found[IMPORTS],
            functions=functions,
            cells=cells,
            policies=policies,
            exemptions=exemptions,
            index=found[INDEX],
            debug=found.get(DEBUG),
            header=header,
            extra=tuple(extra),
        )

    def header(self, form: Any) -> Header:
        if type(form) is list and form and type(form[0]) is int and form[0] > FORMAT:
            raise self.fail(f"the bundle has format {form[0]}, this version reads {FORMAT}", "too_new")
        fmt, language, min_vm, features, compiler, sources, options = self.shape(
            form, int, int, int, list, str, list, str
        )
        if max(language, min_vm) > LANGUAGE:
            raise self.fail(
                f"the bundle needs version {max(language, min_vm)} of the VM, this is {LANGUAGE}", "too_new"
            )
        if fmt != FORMAT:
            raise self.fail(f"the bundle has format {fmt}, this version reads {FORMAT}")
        if self.every(features, str):
            raise self.fail(f"the bundle needs the feature {features[0]}, which this version does not have", "too_new")
        pairs = tuple((name, digest) for name, digest in (self.shape(s, str, str) for s in sources))
        return Header(fmt, language, min_vm, tuple(features), compiler, pairs, options)

    def section(self, number: int, data: bytes) -> Any:
        also: frozenset[type] = frozenset()
        if number == CONST:
            also = frozenset({Err, Held})
        elif number == CODE:
            also = frozenset({bytes})
        try:
            form = unpack(data, max_depth=self.limits.max_depth, also=also)
        except PackError as problem:
            raise self.fail(problem.detail, problem.code) from None
        if type(form) is not list:
            raise self.fail("a list is wanted")
        match number:
            case 1 | 3:
                return tuple(form)
            case 2:
                return tuple(tuple(self.every(p, str)) for p in form)
            case 5:
                return tuple(Import(*self.shape(i, str, int)) for i in form)
            case 6:
                policies, exemptions = self.shape(form, list, list)
                return tuple(map(self.policy, policies)), tuple(map(self.exemption, exemptions))
            case 7:
                return tuple(self.index_entry(e) for e in form)
            case 8:
                functions, cells = self.shape(form, list, list)
                return tuple(map(self.function, functions)), tuple(self.every(cells, int))
            case _:
                return self.debug(form)

    def key(self, form: Any) -> MatchKey:
        group, version, kind, subresource, operations = self.shape(form, str, str, str, str, list)
        return MatchKey(KindKey(group, version, kind, subresource), tuple(self.every(operations, str)))

    def index_entry(self, form: Any) -> IndexEntry:
        key, rules = self.shape(form, list, list)
        return IndexEntry(self.key(key), tuple(self.every(rules, int)))

    def policy(self, form: Any) -> Policy:
        if type(form) is list and len(form) == 4 and form[1] is None:
            name, _, rules, meta = self.shape(form, str, type(None), list, dict)
            return Policy(name, None, tuple(map(self.rule, rules)), meta)
        name, namespace, rules, meta = self.shape(form, str, str, list, dict)
        return Policy(name, namespace, tuple(map(self.rule, rules)), meta)

    def rule(self, form: Any) -> Rule:
        name, entry, kind, keys, meta = self.shape(form, str, int, str, list, dict)
        return Rule(name, entry, kind, tuple(map(self.key, keys)), meta)

    def exemption(self, form: Any) -> Exemption:
        name, namespace, rules, entry, meta = self.shape(form, str, str, list, int, dict)
        pairs: list[tuple[str | None, str]] = []
        for rule in rules:
            match rule:
                case [None | str() as policy, str() as rule_name]:
                    pairs.append((policy, rule_name))
                case _:
                    raise self.fail("a rule of an exception is a policy name or null, and a rule name")
        return Exemption(name, namespace, tuple(pairs), entry, meta)

    def function(self, form: Any) -> CodeObject:
        name, params, kinds, result, mode, role, stack, code = self.shape(
            form, str, int, str, str, int, int, int, bytes
        )
        if mode >= len(MODES) or role >= len(ROLES):
            raise self.fail("a function has a mode or a role that is none")
        return CodeObject(name, params, kinds, result, code, stack, MODES[mode], ROLES[role])

    def debug(self, form: Any) -> Debug:
        files, spans = self.shape(form, list, list)
        sources: list[SourceFile] = []
        for file in files:
            name, lines = self.shape(file, str, list)
            sources.append(SourceFile(name, tuple((n, text) for n, text in (self.shape(x, int, str) for x in lines))))
        functions: list[tuple[CodeSpan, ...]] = []
        for flat in spans:
            self.every(flat, int)
            if len(flat) % 4:
                raise self.fail("spans come in fours")
            pc = 0
            found: list[CodeSpan] = []
            for i in range(0, len(flat), 4):
                pc += flat[i]
                found.append(CodeSpan(pc, *flat[i + 1 : i + 4]))
            functions.append(tuple(found))
        return Debug(tuple(sources), tuple(functions))
