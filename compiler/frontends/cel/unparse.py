"""Writes a tree as a text that parses to the same tree; called by tests, by the fuzzer and for texts of tools.

Trees are those the parser makes: ``block=True`` is needed to read those back that came from ``cel.block``. Without
recursion, as deep a tree as may be parsed has no room on Python's stack.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from compiler.frontends.cel.ast import (
    Bind,
    Call,
    Entry,
    FieldInit,
    Ident,
    ListLit,
    Literal,
    Loop,
    MapLit,
    Node,
    Opt,
    Select,
    StructLit,
)
from compiler.frontends.cel.macros import SORT_FUNCTION, SORT_INPUT
from vm.cel.values import UInt

Piece: TypeAlias = "str | tuple[Node, int]"
"""Text as it is, or a node to be written and the lowest level that it may have without parentheses."""

_CONDITIONAL, _OR, _AND, _RELATION, _SUM, _PRODUCT, _UNARY, _MEMBER = range(8)

_BINARY: Final = {
    **{f"_{op}_": (op, _RELATION) for op in ("<", "<=", ">", ">=", "==", "!=")},
    "@in": ("in", _RELATION),
    **{f"_{op}_": (op, _SUM) for op in ("+", "-")},
    **{f"_{op}_": (op, _PRODUCT) for op in ("*", "/", "%")},
}
_LOGIC: Final = {"_||_": ("||", _OR), "_&&_": ("&&", _AND)}
_EXTREMES: Final = {"math.@max": "math.greatest", "math.@min": "math.least"}
_LOOPS: Final = {
    "transform_list": "transformList",
    "transform_map": "transformMap",
    "transform_map_entry": "transformMapEntry",
}
_PLAIN: Final = re.compile(r"(?!(?:in|true|false|null)$)[A-Za-z_][A-Za-z0-9_]*")
_SLOT: Final = re.compile(r"@index([0-9]+)")
_LOOP_SLOT: Final = re.compile(r"@(it|ac):([0-9]+):([0-9]+)")
_SLOT_VARS: Final = {"it": "iterVar", "ac": "accuVar"}
_ESCAPED: Final = re.compile(r'[\x00-\x1f"\\\x7f]')
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def unparse(node: Node) -> str:
    """The text of a tree, with the parentheses it needs and no others."""
    out: list[str] = []
    todo: list[Piece] = [(node, _CONDITIONAL)]
    while todo:
        piece = todo.pop()
        if isinstance(piece, str):
            out.append(piece)
            continue
        current, least = piece
        level, pieces = _pieces(current)
        if level < least:
            pieces = ["(", *pieces, ")"]
        todo.extend(reversed(pieces))
    return "".join(out)


def _pieces(node: Node) -> tuple[int, list[Piece]]:
    """How tightly a node binds, and what it is written as."""
    match node:
        case Literal(value):
            return _literal(value)
        case Ident(name, rooted):
            return _MEMBER, [f".{name}" if rooted else _variable(name)]
        case Select(of, name, test, optional):
            pieces: list[Piece] = [(of, _MEMBER), f".{'?' if optional else ''}{_field(name)}"]
            return _MEMBER, ["has(", *pieces, ")"] if test else pieces
        case Call():
            return _call(node)
        case ListLit(items, optional_items):
            return _MEMBER, [
                "[",
                *_listed([["?", (x, 0)] if i in optional_items else [(x, 0)] for i, x in enumerate(items)]),
                "]",
            ]
        case MapLit(entries):
            return _MEMBER, ["{", *_listed([_entry(e) for e in entries]), "}"]
        case StructLit(name, fields):
            return _MEMBER, [name, "{", *_listed([_init(f) for f in fields]), "}"]
        case Loop():
            return _MEMBER, _loop(node)
        case Bind():
            return _MEMBER, _bind(node)
        case Opt(of, var, then, flat):
            return _MEMBER, [(of, _MEMBER), f".{'optFlatMap' if flat else 'optMap'}({_variable(var)}, ", (then, 0), ")"]


def _literal(value: object) -> tuple[int, list[Piece]]:
    if value is None or isinstance(value, bool):
        return _MEMBER, [{None: "null", True: "true", False: "false"}[value]]
    if isinstance(value, str):
        return _MEMBER, [_quoted(value)]
    if isinstance(value, bytes):
        return _MEMBER, ["b" + _quoted_bytes(value)]
    if isinstance(value, UInt):
        return _MEMBER, [f"{int(value)}u"]
    text = repr(value)
    return (_UNARY if text.startswith("-") else _MEMBER), [text]


def _call(node: Call) -> tuple[int, list[Piece]]:
    name, args = node.function, node.args
    if node.target is not None:
        return _MEMBER, [(node.target, _MEMBER), f".{name}(", *_arguments(args), ")"]
    if name in _BINARY and len(args) == 2:
        op, level = _BINARY[name]
        return level, [(args[0], level), f" {op} ", (args[1], level + 1)]
    if name in _LOGIC:
        op, level = _LOGIC[name]
        pieces: list[Piece] = []
        for arg in args:
            pieces += [f" {op} ", (arg, level + 1)] if pieces else [(arg, level + 1)]
        return level, pieces
    match name, args:
        case "_?_:_", (condition, then, other):
            return _CONDITIONAL, [(condition, _OR), " ? ", (then, _OR), " : ", (other, _CONDITIONAL)]
        case (("!_" | "-_"), (operand,)):
            # A number right behind a minus sign would take it for its own, and a second sign the first away.
            alone = _begins_with_number(operand)
            return _UNARY, [name[0], *(["(", (operand, 0), ")"] if alone else [(operand, _MEMBER)])]
        case "_[_]", (of, at):
            return _MEMBER, [(of, _MEMBER), "[", (at, 0), "]"]
        case "_[?_]", (of, at):
            return _MEMBER, [(of, _MEMBER), "[?", (at, 0), "]"]
    return _MEMBER, [f"{_EXTREMES.get(name, name)}(", *_arguments(args), ")"]


def _begins_with_number(node: Node) -> bool:
    while True:
        match node:
            case Literal(value):
                return type(value) in (int, float)
            case Select(of, _, False) | Loop(_, of) | Opt(of) | Call(_, (of, *_), None) if _is_member(node):
                node = of
            case Call(_, _, target) if target is not None:
                node = target
            case Bind(var, of) if var == SORT_INPUT:
                node = of
            case _:
                return False


def _is_member(node: Node) -> bool:
    """Whether a node is written with its operand in front."""
    return not isinstance(node, Call) or node.function in ("_[_]", "_[?_]")


def _arguments(args: tuple[Node, ...]) -> list[Piece]:
    return _listed([[(a, 0)] for a in args])


def _listed(parts: list[list[Piece]]) -> list[Piece]:
    out: list[Piece] = []
    for part in parts:
        if out:
            out.append(", ")
        out += part
    return out


def _entry(entry: Entry) -> list[Piece]:
    return ["?" if entry.optional else "", (entry.key, 0), ": ", (entry.value, 0)]


def _init(init: FieldInit) -> list[Piece]:
    return [f"{'?' if init.optional else ''}{_field(init.name)}: ", (init.value, 0)]


def _loop(node: Loop) -> list[Piece]:
    variables = _variable(node.var) if node.var2 is None else f"{_variable(node.var)}, {_variable(node.var2)}"
    pieces: list[Piece] = [(node.over, _MEMBER), f".{_LOOPS.get(node.kind, node.kind)}({variables}"]
    for part in (node.where, node.then):
        if part is not None:
            pieces += [", ", (part, 0)]
    return [*pieces, ")"]


def _bind(node: Bind) -> list[Piece]:
    if node.var == SORT_INPUT:
        match node.body:
            case Call(function, (Loop(then=key, var=var),)) if function == SORT_FUNCTION and key is not None:
                return [(node.value, _MEMBER), f".sortBy({_variable(var)}, ", (key, 0), ")"]
    if _SLOT.fullmatch(node.var) is None:
        return [f"cel.bind({_variable(node.var)}, ", (node.value, 0), ", ", (node.body, 0), ")"]
    slots: list[Node] = []
    body: Node = node
    while isinstance(body, Bind) and body.var == f"@index{len(slots)}":
        slots.append(body.value)
        body = body.body
    return ["cel.block([", *_arguments(tuple(slots)), "], ", (body, 0), ")"]


def _variable(name: str) -> str:
    """A variable, or the call that names one of ``cel.block``."""
    if slot := _SLOT.fullmatch(name):
        return f"cel.index({slot[1]})"
    if slot := _LOOP_SLOT.fullmatch(name):
        return f"cel.{_SLOT_VARS[slot[1]]}({slot[2]}, {slot[3]})"
    return name


def _field(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else f"`{name}`"


def _quoted(value: str) -> str:
    return f'"{_ESCAPED.sub(_escape, value)}"'


def _escape(m: re.Match[str]) -> str:
    return _SHORT.get(m[0]) or f"\\x{ord(m[0]):02x}"


def _quoted_bytes(value: bytes) -> str:
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02x}" for b in value) + '"'
