"""Reads the text of :mod:`compiler.ir.print` back: ``parse_module(print_module(m)) == m``.

Written by hand, one line at a time and by indentation; used by golden tests and by people who try a pass on a sketch.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from compiler.ir.ops import (
    And,
    Block,
    Break,
    Call,
    Choose,
    Const,
    Do,
    Each,
    EachPair,
    Exemption,
    Expr,
    Function,
    If,
    Invoke,
    KindKey,
    Load,
    Local,
    MatchKey,
    Module,
    Next,
    Op,
    Or,
    Policy,
    Return,
    Rule,
    Set,
    Stmt,
)
from vm.constants import described
from vm.isa import BY_NAME, Imm
from vm.values import MISSING, Err

_WORD: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$./-]*")
_STEP: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$/-]*")
_SPACE: Final = re.compile(r" *")
_KIND: Final = re.compile(r"[VBISLMEO]")
_NUMBER: Final = re.compile(r"\d+")
_INDENT: Final = re.compile(r"^( *)(.*)$")
_DECODER: Final = json.JSONDecoder()
_JSON_START: Final = frozenset('"[{-0123456789')


class ParseError(ValueError):
    """Text that is no IR, with its line."""


class _Reader:
    """A cursor over the lines of the text; lines of comment (``#``) and empty ones are left out."""

    def __init__(self, text: str) -> None:
        self.lines: list[tuple[int, int, str]] = []
        # Only a line feed ends a line: JSON texts may hold other separators as they are.
        for number, line in enumerate(text.split("\n"), 1):
            found = _INDENT.match(line)
            indent, rest = (len(found[1]), found[2].rstrip(" ")) if found else (0, line)
            if rest and not rest.startswith("# "):
                self.lines.append((number, indent, rest))
        self.row = 0
        self.at = 0

    @property
    def text(self) -> str:
        return self.lines[self.row][2] if self.row < len(self.lines) else ""

    @property
    def indent(self) -> int:
        return self.lines[self.row][1] if self.row < len(self.lines) else -1

    def fail(self, expected: str) -> NoReturn:
        if self.row >= len(self.lines):
            raise ParseError(f"end of text: expected {expected}")
        number, _, text = self.lines[self.row]
        raise ParseError(f"line {number}: expected {expected} at {text[self.at :][:40]!r}")

    def next_line(self) -> None:
        if self.at != len(self.text):
            self.fail("the end of the line")
        self.row += 1
        self.at = 0

    def space(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def take(self, token: str) -> bool:
        """Moves over a token, and the space before it, when it comes next."""
        self.space()
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def need(self, token: str) -> None:
        if not self.take(token):
            self.fail(token)

    def word_is(self, word: str) -> bool:
        """Moves over a keyword when it comes next and is not the start of a longer name."""
        self.space()
        found = _WORD.match(self.text, self.at)
        if found is None or found[0] != word:
            return False
        self.at = found.end()
        return True

    def match(self, pattern: re.Pattern[str], what: str) -> str:
        self.space()
        found = pattern.match(self.text, self.at)
        if found is None:
            self.fail(what)
        self.at = found.end()
        return found[0]

    def name(self) -> str:
        self.space()
        if self.text.startswith('"', self.at):
            return str(self.json())
        return self.match(_WORD, "a name")

    def json(self) -> Any:
        self.space()
        try:
            value, self.at = _DECODER.raw_decode(self.text, self.at)
        except ValueError:
            self.fail("a JSON value")
        return value


def parse_module(text: str) -> Module:
    """A module from its text. Raises :class:`ParseError`."""
    r = _Reader(text)
    policies: list[Policy] = []
    exemptions: list[Exemption] = []
    functions: list[Function] = []
    spans: dict[tuple[int, str], tuple[str, int, int]] = {}
    while r.row < len(r.lines):
        if r.word_is("policy"):
            policies.append(_policy(r))
        elif r.word_is("exemption"):
            name = r.json()
            r.need("in")
            namespace, entry = r.json(), r.name()
            rules = tuple((p, rule) for p, rule in r.json())
            exemptions.append(Exemption(name, namespace, rules, entry, r.json()))
            r.next_line()
        elif r.word_is("function"):
            functions.append(_function(r))
        elif r.word_is("span"):
            policy, pointer, (file, line, column) = r.json(), r.json(), r.json()
            spans[policy, pointer] = (file, line, column)
            r.next_line()
        else:
            r.fail("policy, exemption, function or span")
    return Module(tuple(functions), tuple(policies), tuple(exemptions), spans)


def parse_expr(text: str) -> Expr:
    """One expression from its text. Raises :class:`ParseError`."""
    r = _Reader(text)
    if not r.lines:
        r.fail("an expression")
    expr = _expr(r)
    r.next_line()
    if r.row < len(r.lines):
        r.fail("the end of the text")
    return expr


def _policy(r: _Reader) -> Policy:
    name = r.json()
    r.need("in")
    namespace, meta = r.json(), r.json()
    r.next_line()
    rules: list[Rule] = []
    while r.indent == 2 and r.word_is("rule"):
        rule, kind, entry, rule_meta = r.json(), r.match(_WORD, "a kind"), r.name(), r.json()
        r.next_line()
        keys: list[MatchKey] = []
        while r.indent == 4 and r.word_is("key"):
            kind_key = KindKey(r.json(), r.json(), r.json(), r.json())
            keys.append(MatchKey(kind_key, tuple(r.json())))
            r.next_line()
        rules.append(Rule(rule, entry, kind, tuple(keys), rule_meta))
    return Policy(name, namespace, tuple(rules), meta)


def _function(r: _Reader) -> Function:
    name = r.name()
    locals_: dict[str, str] = {}
    r.need("(")
    while not r.take(")"):
        if locals_:
            r.need(",")
        _declare(r, locals_)
    params = tuple(locals_)
    r.need("->")
    result = r.match(_KIND, "a kind")
    role = r.match(_WORD, "a role")
    policy = int(r.match(_NUMBER, "a number")) if r.word_is("policy") else None
    r.next_line()
    while r.indent == 2 and r.word_is("local"):
        if r.take("="):  # a variable of that name is set
            r.at = 0
            break
        _declare(r, locals_)
        r.next_line()
    body = _body(r, 2)
    return Function(name, params, locals_, body, result, policy, role)


def _declare(r: _Reader, into: dict[str, str]) -> None:
    name = r.name()
    r.need(":")
    into[name] = r.match(_KIND, "a kind")


def _body(r: _Reader, indent: int) -> tuple[Stmt, ...]:
    stmts: list[Stmt] = []
    while r.indent == indent and not r.text.startswith("=>") and r.text not in ("else", "end"):
        stmts.append(_stmt(r, indent))
    if r.indent > indent:
        r.fail(f"a statement at {indent} spaces")
    return tuple(stmts)


def _end(r: _Reader) -> str | None:
    """The rest of a statement's line: where it came from."""
    at = r.json() if r.take("!") else None
    r.next_line()
    return at


def _stmt(r: _Reader, indent: int) -> Stmt:
    name = r.name()
    if r.take("="):
        value = _expr(r)
        return Set(name, value, _end(r))
    match name:
        case "return":
            value = _expr(r)
            return Return(value, _end(r))
        case "do":
            value = _expr(r)
            return Do(value, _end(r))
        case "break":
            r.next_line()
            return Break()
        case "next":
            r.next_line()
            return Next()
        case "if":
            cond = _expr(r)
            at = _end(r)
            then = _body(r, indent + 2)
            other: tuple[Stmt, ...] = ()
            if r.indent == indent and r.text == "else":
                r.at = len(r.text)
                r.next_line()
                other = _body(r, indent + 2)
            return If(cond, then, other, at)
        case "each":
            item = r.name()
            index = r.name() if r.take(",") else None
            r.need("in")
            over = _expr(r)
            at = _end(r)
            return Each(item, over, _body(r, indent + 2), index, at)
        case "pairs":
            key = r.name()
            r.need(",")
            value_name = r.name()
            r.need("in")
            over = _expr(r)
            at = _end(r)
            return EachPair(key, value_name, over, _body(r, indent + 2), at)
    return r.fail("a statement")


def _args(r: _Reader) -> tuple[Expr, ...]:
    r.need("(")
    args: list[Expr] = []
    while not r.take(")"):
        if args:
            r.need(",")
        args.append(_expr(r))
    return tuple(args)


def _expr(r: _Reader) -> Expr:
    r.space()
    start = r.text[r.at : r.at + 1]
    if start == "%":
        r.at += 1
        return Local(r.name())
    if start == "@":
        r.at += 1
        return Load(_path(r))
    if start == "#" or start in _JSON_START:
        return Const(_const(r))
    word = r.match(_WORD, "an expression")
    match word:
        case "true" | "false" | "null" | "NaN" | "Infinity" if not r.text.startswith("(", r.at):
            r.at -= len(word)
            return Const(r.json())
        case "call":
            return Call(r.name(), _args(r))
        case "and":
            return And(_args(r))
        case "or":
            return Or(_args(r))
        case "choose":
            cond, then, other = _args(r)
            return Choose(cond, then, other)
        case "block":
            indent = r.indent
            r.next_line()
            body = _body(r, r.indent if r.text.startswith("=>") else indent + 2)
            r.need("=>")
            value = _expr(r)
            r.next_line()
            if r.indent != indent or not r.text.startswith("end"):
                r.fail("end")
            r.at = len("end")
            return Block(body, value)
    if "." in word:
        return Invoke(word, _args(r))
    imm: list[Any] = []
    if r.take("["):
        while not r.take("]"):
            if imm:
                r.need(",")
            imm.append(_const(r))
    if word in BY_NAME and BY_NAME[word].imm == (Imm.PATH,):
        imm = [tuple(path) for path in imm]
    return Op(word, _args(r), tuple(imm))


def _const(r: _Reader) -> Any:
    if r.take("#missing"):
        return MISSING
    if r.take("#error"):
        return Err(*r.json())
    if r.take("#cel"):
        form = r.json()
        try:
            return described(form)
        except ValueError:
            r.fail("the description of a constant")
    return r.json()


def _path(r: _Reader) -> tuple[str, ...]:
    steps: list[str] = []
    while True:
        if r.text.startswith('"', r.at):
            steps.append(r.json())
        elif found := _STEP.match(r.text, r.at):
            steps.append(found[0])
            r.at = found.end()
        elif not steps:
            return ()
        else:
            r.fail("a step of a path")
        if not r.text.startswith(".", r.at):
            return tuple(steps)
        r.at += 1
