"""Code to text, driven by the instruction table: what ``thesmos inspect --disasm`` prints and ``vm.asm`` reads back.

``assemble(disassemble(m))`` is ``m``, for any module. An operand is printed as what it stands for when that names the
entry of its table, else as ``#number``. Bytes that are no instruction are printed as ``bytes`` in hex, so that broken
code can be looked at too. The policy lines that code came from stand above it as comments."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from vm.code import CodeSpan, Debug, Header, Module, build_index
from vm.constants import describe, holds_special
from vm.host import HOST_CALLS
from vm.isa import Imm
from vm.structure import LOOPS, Instr, VerifyError, decode
from vm.values import Err, Value, canonical_key

if TYPE_CHECKING:
    from vm.verify import VerifiedFunction, VerifiedModule

BARE: Final = re.compile(r"[A-Za-z_$][\w./$:*-]*")
"""A name that needs no quotes."""
STEP: Final = re.compile(r"[A-Za-z_$][\w$]*")


@dataclass(frozen=True, slots=True)
class View:
    """The tables of a module that operands point into, and for each the number that a spelled-out operand finds
    again."""

    constants: Sequence[Value]
    paths: Sequence[tuple[str, ...]]
    patterns: Sequence[Any]
    imports: Sequence[str]
    functions: Sequence[str]
    numbers: dict[tuple[Imm, Hashable], int]

    @staticmethod
    def of(m: Module | VerifiedModule) -> View:
        if isinstance(m, Module):
            patterns, imports = list(m.patterns), [i.name for i in m.imports]
        else:
            patterns, imports = [p.to_json() for p in m.patterns], [i.name for i in m.intrinsics]
        functions = [f.name for f in m.functions]
        numbers: dict[tuple[Imm, Hashable], int] = {}
        for imm, table in (
            (Imm.CONST, [canonical_key(c) for c in m.constants]),
            (Imm.PATH, list(m.paths)),
            (Imm.PATTERN, [canonical_key(p) for p in patterns]),
            (Imm.IMPORT, imports),
            (Imm.FUNC, functions),
        ):
            for n, key in enumerate(table):
                numbers.setdefault((imm, key), n)
        return View(m.constants, m.paths, patterns, imports, functions, numbers)

    def operand(self, imm: Imm, n: int) -> str:
        """How an immediate is written."""
        match imm:
            case Imm.CONST | Imm.KEY if n < len(self.constants):
                value = self.constants[n]
                if (
                    type(value) is not Err
                    and not holds_special(value)
                    and self.numbers[Imm.CONST, canonical_key(value)] == n
                ):
                    return json.dumps(value)
            case Imm.PATH if n < len(self.paths):
                path = self.paths[n]
                if self.numbers[imm, path] == n:
                    dotted = path and all(STEP.fullmatch(step) for step in path)
                    return ".".join(path) if dotted else json.dumps(path)
            case Imm.PATTERN if n < len(self.patterns):
                if self.numbers[imm, canonical_key(self.patterns[n])] == n:
                    return json.dumps(self.patterns[n])
            case Imm.IMPORT if n < len(self.imports):
                if self.numbers[imm, self.imports[n]] == n:
                    return name(self.imports[n])
            case Imm.FUNC if n < len(self.functions):
                if self.numbers[imm, self.functions[n]] == n:
                    return name(self.functions[n])
            case Imm.HOST if n < len(HOST_CALLS):
                return HOST_CALLS[n]
            case Imm.LOCAL | Imm.UINT | Imm.UNITS | Imm.ARITY | Imm.CELL:
                return str(n)
        return f"#{n}"

    def instruction(self, ins: Instr) -> str:
        operands = (self.operand(imm, n) for imm, n in zip(ins.op.imm, (ins.a, ins.b), strict=False))
        return " ".join((ins.op.name, *operands))


def name(text: str) -> str:
    """A name as it stands in a listing: bare, or as a JSON text."""
    return text if BARE.fullmatch(text) else json.dumps(text)


def line_of(m: VerifiedModule, fn: VerifiedFunction, i: int) -> str:
    """One instruction with its offset and, where debug spans know it, the policy line: what a traceback shows."""
    ins = fn.structure().instrs[i]
    place = ""
    if m.debug is not None:
        before = [s for s in m.debug.spans[fn.number] if s.pc <= ins.pc]
        if before:
            place = f"  ; {m.debug.files[before[-1].file].name}:{before[-1].line}"
    return f"{ins.pc:04}: {View.of(m).instruction(ins)}{place}"


def disassemble_code(code: bytes, view: View, spans: Sequence[CodeSpan] = (), debug: Debug | None = None) -> list[str]:
    """The lines of one function's code, indented by block, source lines above what came from them."""
    try:
        instrs, rest = decode(code, ""), b""
    except VerifyError as problem:
        instrs, rest = decode(code[: problem.offset], ""), code[problem.offset :]
    lines: list[str] = []
    depth = 0
    waiting = list(spans)
    for ins in instrs:
        while waiting and waiting[0].pc <= ins.pc:
            lines.extend(_source(waiting.pop(0), debug))
        if ins.op.name in ("else", "end"):
            depth = max(0, depth - 1)
        lines.append(f"  {ins.pc:04}: {'  ' * depth}{view.instruction(ins)}")
        if ins.op.name in ("if", "else") or ins.op.name in LOOPS:
            depth += 1
    if rest:
        lines.append(f"  bytes {rest.hex()}")
    return lines


def _source(span: CodeSpan, debug: Debug | None) -> list[str]:
    if debug is None or span.file >= len(debug.files):
        return []
    file = debug.files[span.file]
    text = next((text for n, text in file.lines if n == span.line), "")
    return [f"        ; {_one_line(file.name)}:{span.line}:{span.column}  {_one_line(text.strip())}".rstrip()]


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def disassemble_function(m: Module, n: int, *, source: bool = True, view: View | None = None) -> str:
    """One function of a module: its head and its code."""
    fn = m.functions[n]
    spans: Sequence[CodeSpan] = ()
    if source and m.debug is not None and n < len(m.debug.spans):
        spans = m.debug.spans[n]
    head = (
        f"function {name(fn.name)} ({fn.locals[: fn.params]}) locals {json.dumps(fn.locals[fn.params :])}"
        f" -> {fn.result} stack {fn.max_stack} {fn.role} {fn.mode}"
    )
    return "\n".join((head, *disassemble_code(fn.code, view or View.of(m), spans, m.debug))) + "\n"


def disassemble(m: Module, *, source: bool = True) -> str:
    """A whole module as text. ``source`` puts the policy lines above the code."""
    lines: list[str] = []
    if m.header != Header():
        lines.append(f"header {json.dumps(asdict(m.header))}")
    for value in m.constants:
        if type(value) is Err:
            lines.append(f"const err {json.dumps([value.code, value.text, value.path])}")
        else:
            lines.append(f"const {f'cel {json.dumps(describe(value))}' if holds_special(value) else json.dumps(value)}")
    lines.extend(f"path {json.dumps(path)}" for path in m.paths)
    lines.extend(f"pattern {json.dumps(form)}" for form in m.patterns)
    lines.extend(f"import {name(i.name)} {i.version}" for i in m.imports)
    lines.extend(f"cell #{n}" for n in m.cells)
    view = View.of(m)
    for n in range(len(m.functions)):
        lines.append("")
        lines.append(disassemble_function(m, n, source=source, view=view).rstrip("\n"))
    if m.functions:
        lines.append("")
    lines.extend(f"policy {json.dumps(asdict(p))}" for p in m.policies)
    lines.extend(f"exemption {json.dumps(asdict(x))}" for x in m.exemptions)
    if m.index != build_index(m.policies):
        lines.append(f"index {json.dumps([asdict(e) for e in m.index])}")
    if m.debug is not None:
        lines.append(f"debug {json.dumps(asdict(m.debug))}")
    lines.extend(f"extra {number} {json.dumps(data.hex())}" for number, data in m.extra)
    return "\n".join(lines) + "\n"
