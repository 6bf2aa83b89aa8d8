"""Policies made ready for a traced run: compiled without passes, so that clauses stay apart, and run by ``vm.trace``.

``thesmos why`` and ``apply --explain`` evaluate on :class:`Traced` as on any other set and then look at what each rule
did. The answers are those of the exact VM; the caller compares them with those of ordinary code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runtime.bundles import make_imports
from runtime.host import drive
from runtime.mismatches import Mismatches
from runtime.policyset import FUEL, PolicySet, RulePlan, Run
from vm.bundle import read_bundle
from vm.code import Module
from vm.host import Imports, Meter
from vm.patch.diff import escape
from vm.trace import Event, traced
from vm.verify import verify

if TYPE_CHECKING:
    from compiler.source import Document


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in a policy: line and column from 1, the text of the line, and the JSON pointer of the
    document where that is known."""

    file: str
    line: int
    column: int
    text: str
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """A traced module. ``documents`` are the policies it was compiled from, in order; of a bundle nobody has them."""

    module: Module
    documents: tuple[Document, ...] = ()
    pointers: Mapping[tuple[str, int, int], str] = field(default_factory=dict, repr=False)

    def place(self, function: int, pc: int) -> Place | None:
        """Where the code at an offset comes from."""
        debug = self.module.debug
        if debug is None or function >= len(debug.spans):
            return None
        before = [s for s in debug.spans[function] if s.pc <= pc]
        if not before:
            return None
        span = before[-1]
        file = debug.files[span.file]
        text = next((text for n, text in file.lines if n == span.line), "")
        pointer = self.pointers.get((file.name, span.line, span.column), "")
        if pointer and (found := self.document(pointer, file.name)) is not None:
            return place_of(found, pointer)
        return Place(file.name, span.line, span.column, text, pointer)

    def written(self, pointer: str, file: str) -> Any:
        """The value that the policy has at a pointer, None where there is none."""
        document = self.document(pointer, file)
        return None if document is None else value_at(document.value, pointer)

    def document(self, pointer: str, file: str) -> Document | None:
        """The document that a pointer of a file points into."""
        same = [d for d in self.documents if d.origin == file]
        return next((d for d in same if d.spans.ranges(pointer) is not None), same[0] if same else None)


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of the code of a rule: the module, the function, its root and answer, and what it did."""

    unit: Unit
    entry: int
    root: dict[str, Any] = field(repr=False)
    answer: Any
    events: tuple[Event, ...] = field(repr=False)


class Traced:
    """A set of policies whose runs are recorded."""

    def __init__(self, units: Iterable[tuple[Unit, Run]], ran: list[Ran], imports: Imports) -> None:
        pairs = tuple(units)
        self.policies = PolicySet(
            [(unit.module, run) for unit, run in pairs], tier="1", mismatches=Mismatches(), digests=()
        )
        self.imports = imports
        self.units = tuple(unit for unit, _ in pairs)
        self._ran = ran

    def rules(self) -> list[tuple[RulePlan, Unit]]:
        """Every rule of the set with the module that it is in."""
        units = [unit for unit in self.units for policy in unit.module.policies for _ in policy.rules]
        return list(zip(self.policies.rules, units, strict=True))

    def take(self) -> list[Ran]:
        """The runs since the last call, in order."""
        ran = self._ran[:]
        self._ran.clear()
        return ran

    def run(self, plan: RulePlan, root: dict[str, Any]) -> Ran:
        """Runs a rule whatever the index says of it, so that its own code tells why it does not match."""
        self._ran.clear()
        plan.run(plan.entry, root, Meter(FUEL))
        return self.take()[0]


def place_of(document: Document, pointer: str) -> Place:
    """The place of a value of a document: the line of its key, of an element of a list its own."""
    span = document.spans.key_span(pointer)
    lines = document.text.split("\n")
    text = lines[span.line - 1].rstrip("\r") if span.line <= len(lines) else ""
    return Place(span.file, span.line, span.column, text, pointer)


def value_at(value: Any, pointer: str) -> Any:
    """The value at a JSON pointer, None where there is none."""
    for step in pointer.split("/")[1:]:
        if type(value) is dict:
            value = value.get(step.replace("~1", "/").replace("~0", "~"))
        elif type(value) is list and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def trace_documents(
    groups: Iterable[Sequence[Document]],
    bundles: Iterable[bytes] = (),
    *,
    cel_strict: bool = False,
    quirks: str = "",
    crds: tuple[dict[str, Any], ...] = (),
) -> Traced:
    """Compiles groups of documents that belong together (those that ordinary compilation has accepted) and loads them,
    with ready bundles after them, for traced runs."""
    from compiler import Options, compile_policies

    options = Options(level=0, parts=True, cel_strict=cel_strict, quirks=quirks, crds=crds)
    imports = make_imports()
    ran: list[Ran] = []
    units: list[tuple[Unit, Run]] = []
    for group in groups:
        bundle = compile_policies(group, options=options).bundle
        if bundle is not None:
            units.append(_unit(bundle, tuple(group), imports, ran))
    units += [_unit(bundle, (), imports, ran) for bundle in bundles]
    return Traced(units, ran, imports)


def _unit(bundle: bytes, documents: tuple[Document, ...], imports: Imports, ran: list[Ran]) -> tuple[Unit, Run]:
    unverified = read_bundle(bundle)
    program, trace = traced(verify(unverified, imports))
    unit = Unit(unverified.module, documents, _pointers(documents))

    def run(entry: int, root: dict[str, Any], meter: Meter) -> Any:
        trace.take()
        answer = drive(program.start(entry, root, meter), root)
        ran.append(Ran(unit, entry, root, answer, tuple(trace.take())))
        return answer

    return unit, run


def _pointers(documents: Iterable[Document]) -> dict[tuple[str, int, int], str]:
    """The pointer of each value of the documents by the place of the value; of several at one place the innermost."""
    found: dict[tuple[str, int, int], str] = {}
    for document in documents:
        todo: list[tuple[str, Any]] = [("", document.value)]
        while todo:
            pointer, value = todo.pop()
            span = document.spans.span(pointer)
            key = (span.file, span.line, span.column)
            if len(pointer) >= len(found.get(key, "")):
                found[key] = pointer
            if type(value) is dict:
                todo += [(f"{pointer}/{escape(k)}", v) for k, v in value.items()]
            elif type(value) is list:
                todo += [(f"{pointer}/{i}", v) for i, v in enumerate(value)]
    return found
