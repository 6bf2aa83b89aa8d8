"""Text to code: the assembler behind the VM's own tests and fuzz targets. Reads what ``vm.disasm`` prints, and shorter
forms.

Operands may be spelled out (``get "spec"``, ``path request.object.spec``, ``invoke jmes.length``, ``call helper``):
what is not in its table yet is added. ``#3`` is an entry by number. A function's stack claim may be left out; it is
then 16. ``;`` begins a comment.

::

    function check (V) locals "VB" -> O stack 4 entry
      path request.object.spec.containers
      as_list
      each 1
        local_get 1 "image"
        is_missing
        if 0
          const "no image"
          o_fail
          ret
        end
      end
      o_pass
      ret
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from vm.code import (
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
    build_index,
    uleb,
)
from vm.constants import described
from vm.disasm import BARE
from vm.functions import INTRINSICS
from vm.host import HOST_CALLS
from vm.isa import BY_NAME, Imm
from vm.values import Err, canonical_key

_JSON: Final = json.JSONDecoder()
_HEAD: Final = re.compile(
    r"\s*\((?P<params>[A-Z]*)\)(?:\s+locals\s+\"(?P<locals>[A-Z]*)\")?\s*->\s*(?P<result>[A-Z])"
    r"(?:\s+stack\s+(?P<stack>\d+))?(?P<words>(?:\s+[a-z]+)*)\s*(?:;.*)?"
)
_STACK: Final = 16


class AsmError(ValueError):
    """A line that is no assembly, with its number from 1."""

    def __init__(self, line: int, detail: str) -> None:
        super().__init__(f"line {line}: {detail}")
        self.line = line
        self.detail = detail


class _Scanner:
    """Takes operands from a line, one after another."""

    def __init__(self, text: str, line: int) -> None:
        self.text = text
        self.line = line
        self.at = 0

    def fail(self, detail: str) -> AsmError:
        return AsmError(self.line, detail)

    def peek(self) -> str:
        """The next character, "" at the end or before a comment."""
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        c = self.text[self.at : self.at + 1]
        return "" if c == ";" else c

    def end(self) -> None:
        if self.peek():
            raise self.fail(f"more than the instruction takes: {self.text[self.at :]}")

    def word(self) -> str:
        self.peek()
        found = BARE.match(self.text, self.at)
        if found is None:
            raise self.fail("a name is wanted")
        self.at = found.end()
        return found.group()

    def value(self) -> Any:
        self.peek()
        try:
            value, self.at = _JSON.raw_decode(self.text, self.at)
        except ValueError as problem:
            raise self.fail(f"a JSON value is wanted: {problem}") from None
        return value

    def name(self) -> str:
        if self.peek() != '"':
            return self.word()
        return str(self.value())

    def number(self) -> int:
        self.peek()
        found = re.compile(r"#?(\d+)").match(self.text, self.at)
        if found is None:
            raise self.fail("a number is wanted")
        self.at = found.end()
        return int(found.group(1))


class _Assembler:
    def __init__(self) -> None:
        self.header = Header()
        self.constants: list[Any] = []
        self.constant_numbers: dict[Any, int] = {}
        self.paths: list[tuple[str, ...]] = []
        self.patterns: list[Any] = []
        self.pattern_numbers: dict[Any, int] = {}
        self.imports: list[Import] = []
        self.cells: list[str | int] = []
        self.functions: list[dict[str, Any]] = []
        self.policies: list[dict[str, Any]] = []
        self.exemptions: list[dict[str, Any]] = []
        self.index: list[dict[str, Any]] | None = None
        self.debug: Debug | None = None
        self.extra: list[tuple[int, bytes]] = []
        self.line = 0

    def read(self, text: str) -> Module:
        sources: list[tuple[int, _Scanner]] = []
        for number, line in enumerate(text.split("\n"), 1):
            scanner = _Scanner(line, number)
            if scanner.peek():
                sources.append((number, scanner))
        directives: dict[str, Callable[[_Scanner], None]] = {
            "header": self.header_line,
            "const": self.const_line,
            "path": self.path_line,
            "pattern": self.pattern_line,
            "import": self.import_line,
            "cell": self.cell_line,
            "function": self.function_line,
            "policy": lambda s: self.policies.append(s.value()),
            "exemption": lambda s: self.exemptions.append(s.value()),
            "index": self.index_line,
            "debug": self.debug_line,
            "extra": self.extra_line,
        }
        # Names of functions first: code may call what stands below it.
        inside: dict[str, Any] | None = None
        bodies: list[tuple[dict[str, Any], _Scanner]] = []
        for _, scanner in sources:
            indented = scanner.text[0] in " \t"
            if inside is not None and indented:
                bodies.append((inside, scanner))
                continue
            word = scanner.word()
            handler = directives.get(word)
            if handler is None:
                raise scanner.fail(f"no directive is called {word}")
            handler(scanner)
            inside = self.functions[-1] if word == "function" else None
            if word != "function":
                scanner.end()
        for function, scanner in bodies:
            self.instruction(function["code"], scanner)
        return self.module()

    # directives

    def header_line(self, s: _Scanner) -> None:
        h = s.value()
        self.header = Header(
            **{
                **h,
                "features": tuple(h.get("features", ())),
                "sources": tuple((n, d) for n, d in h.get("sources", ())),
            }
        )

    def const_line(self, s: _Scanner) -> None:
        if s.peek() == "e":
            s.word()
            value: Any = Err(*s.value())
        elif s.peek() == "c":
            s.word()
            value = self.special(s)
        else:
            value = s.value()
        self.constants.append(value)
        self.constant_numbers.setdefault(canonical_key(value), len(self.constants) - 1)

    def special(self, s: _Scanner) -> Any:
        form = s.value()
        try:
            return described(form)
        except ValueError as problem:
            raise s.fail(str(problem)) from None

    def path_line(self, s: _Scanner) -> None:
        self.paths.append(tuple(s.value() if s.peek() == "[" else s.word().split(".")))

    def pattern_line(self, s: _Scanner) -> None:
        form = s.value()
        self.patterns.append(form)
        self.pattern_numbers.setdefault(canonical_key(form), len(self.patterns) - 1)

    def import_line(self, s: _Scanner) -> None:
        name = s.name()
        self.imports.append(Import(name, s.number() if s.peek() else 1))

    def cell_line(self, s: _Scanner) -> None:
        self.cells.append(s.number() if s.peek() == "#" else s.name())

    def function_line(self, s: _Scanner) -> None:
        name = s.name()
        head = _HEAD.fullmatch(s.text, s.at)
        if head is None:
            raise s.fail('a function head is: function NAME (KINDS) locals "KINDS" -> KIND stack N ROLE MODE')
        words = head["words"].split()
        roles = [w for w in words if w in ROLES]
        modes = [w for w in words if w in MODES]
        if len(roles) > 1 or len(modes) > 1 or len(roles) + len(modes) != len(words):
            raise s.fail("a function has one role and one mode")
        self.functions.append(
            {
                "name": name,
                "params": len(head["params"]),
                "locals": head["params"] + (head["locals"] or ""),
                "result": head["result"],
                "code": bytearray(),
                "max_stack": int(head["stack"]) if head["stack"] else _STACK,
                "mode": modes[0] if modes else "propagate",
                "role": roles[0] if roles else "helper",
            }
        )

    def index_line(self, s: _Scanner) -> None:
        self.index = s.value()

    def debug_line(self, s: _Scanner) -> None:
        d = s.value()
        self.debug = Debug(
            tuple(SourceFile(f["name"], tuple((n, t) for n, t in f["lines"])) for f in d["files"]),
            tuple(tuple(CodeSpan(**x) for x in spans) for spans in d["spans"]),
        )

    def extra_line(self, s: _Scanner) -> None:
        number = s.number()
        self.extra.append((number, bytes.fromhex(s.value())))

    # code

    def instruction(self, code: bytearray, s: _Scanner) -> None:
        found = re.compile(r"\s*\d+:").match(s.text)
        if found:
            s.at = found.end()
        name = s.word()
        if name == "bytes":
            s.peek()
            digits = re.compile(r"[0-9a-f]*").match(s.text, s.at)
            assert digits is not None
            s.at = digits.end()
            code += bytes.fromhex(digits.group())
            s.end()
            return
        op = BY_NAME.get(name)
        if op is None:
            raise s.fail(f"no instruction is called {name}")
        code.append(op.number)
        for imm in op.imm:
            code += uleb(self.operand(imm, s))
        s.end()

    def operand(self, imm: Imm, s: _Scanner) -> int:
        if s.peek() == "#":
            return s.number()
        match imm:
            case Imm.CONST | Imm.KEY:
                return self.intern(s.value(), self.constants, self.constant_numbers)
            case Imm.PATTERN:
                return self.intern(s.value(), self.patterns, self.pattern_numbers)
            case Imm.PATH:
                path = tuple(s.value() if s.peek() == "[" else s.word().split("."))
                if path not in self.paths:
                    self.paths.append(path)
                return self.paths.index(path)
            case Imm.IMPORT:
                name = s.name()
                for n, known in enumerate(self.imports):
                    if known.name == name:
                        return n
                entry = INTRINSICS.get(name)
                self.imports.append(Import(name, entry.version if entry else 1))
                return len(self.imports) - 1
            case Imm.FUNC:
                return self.function_number(s.name(), s)
            case Imm.HOST:
                word = s.word()
                if word not in HOST_CALLS:
                    raise s.fail(f"no host call is called {word}")
                return HOST_CALLS.index(word)
            case _:
                return s.number()

    @staticmethod
    def intern(value: Any, table: list[Any], numbers: dict[Any, int]) -> int:
        n = numbers.setdefault(canonical_key(value), len(table))
        if n == len(table):
            table.append(value)
        return n

    def function_number(self, name: str | int, s: _Scanner | None = None) -> int:
        if isinstance(name, int):
            return name
        for n, function in enumerate(self.functions):
            if function["name"] == name:
                return n
        raise AsmError(s.line if s else 0, f"no function is called {name}")

    # the module

    def module(self) -> Module:
        policies = tuple(
            Policy(
                p["name"],
                p.get("namespace"),
                tuple(
                    Rule(
                        r["name"],
                        self.function_number(r["entry"]),
                        r.get("kind", "validate"),
                        tuple(map(_match_key, r.get("keys", ()))),
                        r.get("meta", {}),
                    )
                    for r in p.get("rules", ())
                ),
                p.get("meta", {}),
            )
            for p in self.policies
        )
        exemptions = tuple(
            Exemption(
                x["name"],
                x["namespace"],
                tuple((p, r) for p, r in x["rules"]),
                self.function_number(x["entry"]),
                x.get("meta", {}),
            )
            for x in self.exemptions
        )
        index = (
            build_index(policies)
            if self.index is None
            else tuple(IndexEntry(_match_key(e["key"]), tuple(e["rules"])) for e in self.index)
        )
        return Module(
            constants=tuple(self.constants),
            paths=tuple(self.paths),
            patterns=tuple(self.patterns),
            imports=tuple(self.imports),
            functions=tuple(CodeObject(**{**f, "code": bytes(f["code"])}) for f in self.functions),
            cells=tuple(self.function_number(c) for c in self.cells),
            policies=policies,
            exemptions=exemptions,
            index=index,
            debug=self.debug,
            header=self.header,
            extra=tuple(self.extra),
        )


def _match_key(form: dict[str, Any]) -> MatchKey:
    return MatchKey(KindKey(**form["kind"]), tuple(form.get("operations", ())))


def assemble(text: str) -> Module:
    """The module that a listing describes. Raises :class:`AsmError`."""
    try:
        return _Assembler().read(text)
    except (KeyError, TypeError) as problem:
        raise AsmError(0, f"a record lacks or has too many parts: {problem}") from None
