"""The reference page of the instruction set and the intrinsics, made from their tables: ``thesmos docs`` writes it to
``vm/ISA.md``, and a test holds that file against :func:`isa_markdown`, so that the page cannot go stale."""

from __future__ import annotations

from typing import Final

from vm.code import (
    MAX_BUNDLE,
    MAX_CALL_DEPTH,
    MAX_CODE,
    MAX_CONSTANTS,
    MAX_LOCALS,
    MAX_LOOPS,
    MAX_NESTING,
    MAX_STACK,
)
from vm.flow import MAX_DEPTH
from vm.functions import INTRINSICS
from vm.host import HOST_CALLS
from vm.isa import OPS, Effect, Imm

_GROUPS: Final = (
    (0x00, "Stack and constants"),
    (0x10, "Control"),
    (0x20, "Access"),
    (0x30, "Tests"),
    (0x60, "JMESPath"),
    (0x70, "Patterns"),
    (0x80, "Building"),
    (0x90, "Cells and the host"),
    (0x98, "Outcomes"),
)

_HEAD: Final = """# The instruction set

Made from `vm/isa.py` and the tables of `vm/intrinsics/` by `thesmos docs`; do not edit.

For people who read listings (`thesmos inspect --disasm`), write assembly for tests (`vm/asm.py`) or add an instruction.

An instruction is one byte and up to two immediates, each an unsigned LEB128 number in its shortest form. The stack
picture shows what it pops, its name, and what it pushes, the top of the stack on the right. Kinds: `V` any value
(errors and MISSING included), `B` boolean, `I` integer, `S` text, `L` list, `M` map, `E` error value, `O` outcome. An
operand of kind `V` takes any kind but `O`; any other operand takes its own kind only.

Control is structured and calls are acyclic: `if`, `each`, `each_index` and `each_pair` open a block, `end` ends it.
What stands behind `ret`, `break` or `next` in the same block is refused.

## Fuel

A segment is paid for when it is entered: a function on its call, the body of a loop on each round. It costs the sum of
its instructions, loops inside left out, of an `if` the dearer arm. Work over data pays on top, one unit for 64 items,
nodes or characters: `equal`, `to_text` and `concat`, the keys of `each_pair`, replies of the host, and the operands of
intrinsics that their catalogue entry lists or that the program built itself. Both tiers charge the same at the same
points.
"""


def isa_markdown() -> str:
    """The whole page."""
    parts = [_HEAD, _immediates(), _limits()]
    starts = [start for start, _ in _GROUPS]
    for n, (start, title) in enumerate(_GROUPS):
        end = starts[n + 1] if n + 1 < len(starts) else 0x100
        rows = [op for op in OPS if start <= op.number < end]
        parts.append(f"## {title}\n\n| number | stack | immediates | fuel | effect | |\n|---|---|---|---:|---|---|\n")
        for op in rows:
            imm = ", ".join(i.value for i in op.imm)
            effect = "" if op.effect is Effect.PURE else op.effect.value
            doc = _cell(op.doc)
            parts.append(f"| {op.number:02X} | `{op.stack}` | {imm} | {op.fuel} | {effect} | {doc} |\n")
        parts.append("\n")
    parts.append(_intrinsics())
    return "".join(parts).rstrip("\n") + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _intrinsics() -> str:
    lines = [
        "## Intrinsics",
        "",
        "Called by `invoke`. `data` marks those that pay for the size of their operands, `work` those that charge for",
        "what they do, `compiler` those that need the embedding to compile a text.",
        "",
        "| name | version | operands | result | fuel | pays | |",
        "|---|---:|---|---|---:|---|---|",
    ]
    for name, entry in sorted(INTRINSICS.items()):
        marks = (("data", bool(entry.sized)), ("work", entry.metered), ("compiler", entry.dynamic))
        pays = ", ".join(word for word, on in marks if on)
        doc = _cell(entry.doc)
        operands = " ".join(entry.params)
        lines.append(f"| `{name}` | {entry.version} | {operands} | {entry.result} | {entry.fuel} | {pays} | {doc} |")
    return "\n".join(lines) + "\n"


_MEANINGS: Final = {
    Imm.CONST: "a constant of the module",
    Imm.KEY: "a constant that is a text",
    Imm.LOCAL: "a local of the function",
    Imm.FUNC: "a function of the module",
    Imm.IMPORT: "an intrinsic that the module imports",
    Imm.PATH: "a path of the module: keys from the root",
    Imm.PATTERN: "a scalar pattern of the module",
    Imm.UINT: f"a number up to {MAX_STACK}",
    Imm.UNITS: "a number of cost units",
    Imm.ARITY: "0 or 1",
    Imm.CELL: "a context cell of the module",
    Imm.HOST: f"a kind of host call: {', '.join(HOST_CALLS)}",
}


def _immediates() -> str:
    rows = "".join(f"| {imm.value} | {_MEANINGS[imm]} |\n" for imm in Imm)
    return f"\n## Immediates\n\n| | points at |\n|---|---|\n{rows}\n"


def _limits() -> str:
    rows = (
        ("bytes of a bundle", MAX_BUNDLE),
        ("bytes of code in a function", MAX_CODE),
        ("constants", MAX_CONSTANTS),
        ("locals of a function", MAX_LOCALS),
        ("values on the stack of a function", MAX_STACK),
        ("blocks in one another", MAX_NESTING),
        ("loops in one another, in one function", MAX_LOOPS),
        ("depth of calls", MAX_CALL_DEPTH),
        ("containers that a program may build around one another", MAX_DEPTH),
    )
    return "## Limits\n\n| at most | |\n|---|---:|\n" + "".join(f"| {what} | {n:,} |\n" for what, n in rows) + "\n"
