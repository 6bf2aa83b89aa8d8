"""A CEL parser for the reference evaluator: recursive descent, as the grammar of the specification reads.

Nodes are tuples, told apart by their first word; macros stay calls, the evaluator knows them. Written apart from the
product's grammar, so that each checks the other.
"""

from __future__ import annotations

import re
from typing import Any

Node = tuple[Any, ...]

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\n\f\r]+|//[^\n]*)
  | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
  | (?P<uint>0x[0-9a-fA-F]+[uU]|\d+[uU])
  | (?P<int>0x[0-9a-fA-F]+|\d+)
  | (?P<text>(?:[rR][bB]?|[bB][rR]?)?(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''
              |"(?:\\.|[^"\\\n\r])*"|'(?:\\.|[^'\\\n\r])*'))
  | (?P<word>[A-Za-z_][A-Za-z_0-9]*)
  | (?P<quoted>`[^`]*`)
  | (?P<sign>\|\||&&|==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_RAW = re.compile(
    r"""(?P<prefix>[rR][bB]?|[bB][rR]?)(?P<body>\"\"\".*?\"\"\"|'''.*?'''|"[^"\n]*"|'[^'\n]*')""", re.DOTALL
)
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|X([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, "?": 63, '"': 34, "'": 39, "`": 96}
_RESERVED = frozenset(
    re.findall(
        r"\w+",
        "as break const continue else for function if import in let loop package namespace return var void while",
    )
)


class BadSyntax(Exception):
    """The text is no expression."""


def parse(text: str) -> Node:
    """The tree of a text. Raises :class:`BadSyntax`."""
    p = _Parser(_tokens(text))
    node = p.expression()
    if p.kind != "end":
        raise BadSyntax(p.value)
    return node


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = _RAW.match(text, at) if text[at] in "rRbB" else None
        if match is not None and "r" in match["prefix"].lower():
            found.append(("text", match[0]))
        else:
            match = _TOKEN.match(text, at)
            if match is None:
                raise BadSyntax(text[at:])
            if match.lastgroup != "space":
                found.append((str(match.lastgroup), match[0]))
        at = match.end()
    found.append(("end", ""))
    return found


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self.at = 0

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    @property
    def value(self) -> str:
        return self.tokens[self.at][1]

    def sign(self, *signs: str) -> str | None:
        if self.kind == "sign" and self.value in signs:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return None

    def need(self, sign: str) -> None:
        if self.sign(sign) is None:
            raise BadSyntax(f"{sign} before {self.value}")

    def word(self) -> str:
        if self.kind == "quoted":
            self.at += 1
            return self.tokens[self.at - 1][1][1:-1]
        if self.kind != "word":
            raise BadSyntax(self.value)
        self.at += 1
        return self.tokens[self.at - 1][1]

    def expression(self) -> Node:
        cond = self.disjunction()
        if self.sign("?") is None:
            return cond
        then = self.disjunction()
        self.need(":")
        return ("cond", cond, then, self.expression())

    def disjunction(self) -> Node:
        node = self.conjunction()
        while self.sign("||"):
            node = ("or", node, self.conjunction())
        return node

    def conjunction(self) -> Node:
        node = self.relation()
        while self.sign("&&"):
            node = ("and", node, self.relation())
        return node

    def relation(self) -> Node:
        node = self.sum()
        while True:
            if self.kind == "word" and self.value == "in":
                self.at += 1
                node = ("call", "in", None, [node, self.sum()])
            elif op := self.sign("==", "!=", "<=", ">=", "<", ">"):
                node = ("call", op, None, [node, self.sum()])
            else:
                return node

    def sum(self) -> Node:
        node = self.product()
        while op := self.sign("+", "-"):
            node = ("call", op, None, [node, self.product()])
        return node

    def product(self) -> Node:
        node = self.unary()
        while op := self.sign("*", "/", "%"):
            node = ("call", op, None, [node, self.unary()])
        return node

    def unary(self) -> Node:
        if self.sign("!"):
            return ("call", "!", None, [self.unary()])
        if self.sign("-"):
            if self.kind in ("int", "float") and self.tokens[self.at - 1][1] == "-":
                kind, written = self.tokens[self.at]
                self.at += 1
                return self.members(("lit", _number(kind, "-" + written)))
            return ("call", "neg", None, [self.unary()])
        return self.members(self.primary())

    def members(self, node: Node) -> Node:
        while True:
            if self.sign("."):
                optional = self.sign("?") is not None
                name = self.word()
                if not optional and self.sign("("):
                    node = ("call", name, node, self.arguments(")"))
                else:
                    node = ("optselect" if optional else "select", node, name)
            elif self.sign("["):
                optional = self.sign("?") is not None
                inner = self.expression()
                self.need("]")
                node = ("optindex" if optional else "index", node, inner)
            elif self.kind == "sign" and self.value == "{" and (message := qualified(node)) is not None:
                self.at += 1
                node = ("struct", message, self.fields())
            else:
                return node

    def arguments(self, closing: str) -> list[Node]:
        found: list[Node] = []
        if self.sign(closing):
            return found
        found.append(self.expression())
        while self.sign(","):
            found.append(self.expression())
        self.need(closing)
        return found

    def primary(self) -> Node:
        kind, value = self.tokens[self.at]
        if self.sign("("):
            inner = self.expression()
            self.need(")")
            return ("group", inner)
        if self.sign("["):
            return ("list", self.items())
        if self.sign("{"):
            return ("map", self.entries())
        if kind in ("int", "uint", "float"):
            self.at += 1
            return ("lit", _number(kind, value))
        if kind == "text":
            self.at += 1
            return ("lit", _text(value))
        rooted = self.sign(".") is not None
        name = self.word()
        if not rooted and name in ("true", "false"):
            return ("lit", ("bool", name == "true"))
        if not rooted and name == "null":
            return ("lit", ("null", None))
        if name in _RESERVED:
            raise BadSyntax(name)
        if self.sign("("):
            return ("call", name, None, self.arguments(")"))
        return ("ident", f".{name}" if rooted else name)

    def items(self) -> list[tuple[bool, Node]]:
        found: list[tuple[bool, Node]] = []
        while not self.sign("]"):
            optional = self.sign("?") is not None
            found.append((optional, self.expression()))
            if not self.sign(","):
                self.need("]")
                break
        return found

    def entries(self) -> list[tuple[bool, Node, Node]]:
        found: list[tuple[bool, Node, Node]] = []
        while not self.sign("}"):
            optional = self.sign("?") is not None
            key = self.expression()
            self.need(":")
            found.append((optional, key, self.expression()))
            if not self.sign(","):
                self.need("}")
                break
        return found

    def fields(self) -> list[tuple[bool, str, Node]]:
        found: list[tuple[bool, str, Node]] = []
        while not self.sign("}"):
            optional = self.sign("?") is not None
            name = self.word()
            self.need(":")
            found.append((optional, name, self.expression()))
            if not self.sign(","):
                self.need("}")
                break
        return found


def qualified(node: Node) -> str | None:
    """The dotted name that a chain of selects on an ident spells."""
    if node[0] == "ident":
        return str(node[1])
    if node[0] == "select" and (inner := qualified(node[1])) is not None:
        return f"{inner}.{node[2]}"
    return None


def _number(kind: str, text: str) -> tuple[str, Any]:
    if kind == "float":
        return ("double", float(text))
    value = int(text.rstrip("uU"), 16 if "0x" in text else 10)
    if kind == "uint":
        if value >= 1 << 64:
            raise BadSyntax(text)
        return ("uint", value)
    if not -(1 << 63) <= value < 1 << 63:
        raise BadSyntax(text)
    return ("int", value)


def _text(written: str) -> tuple[str, Any]:
    prefix = written[: re.search(r"['\"]", written).start()].lower()  # type: ignore[union-attr]
    body = written[len(prefix) :]
    wide = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
    body = body[wide:-wide]
    octets = "b" in prefix
    if "r" in prefix:
        return ("bytes", body.encode()) if octets else ("string", body)
    out: list[bytes] = []
    at = 0
    for match in _ESCAPE.finditer(body):
        out.append(body[at : match.start()].encode())
        x, big_x, u, big_u, octal, simple = match.groups()
        if simple is not None:
            if simple not in _SIMPLE:
                raise BadSyntax(written)
            code = _SIMPLE[simple]
        else:
            code = int(octal, 8) if octal else int(x or big_x or u or big_u, 16)
        if octets and (u or big_u):
            raise BadSyntax(written)
        if not octets and (0xD800 <= code < 0xE000 or code > 0x10FFFF):
            raise BadSyntax(written)
        out.append(bytes([code]) if octets and simple is None else chr(code).encode())
        at = match.end()
    out.append(body[at:].encode())
    joined = b"".join(out)
    return ("bytes", joined) if octets else ("string", joined.decode())
