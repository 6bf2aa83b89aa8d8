"""CEL expressions as texts, with values for their variables: well-typed ones, ones whose parts have any type, any tree.

One generator serves both kinds of runs: :class:`Texts` draws from a ``random.Random``, for runs of millions, and the
Hypothesis strategies hand it a ``Random`` whose draws Hypothesis makes, and so can shrink.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from hypothesis import strategies as st

from compiler.frontends.cel.ast import Call, Entry, FieldInit, Ident, ListLit, Literal, MapLit, Node, Select, StructLit
from fuzz.gen.cel_templates import GROUPS, LEAVES, NAMES, TEMPLATES, VARIABLES
from vm.cel.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, UInt

__all__ = ["GROUPS", "VARIABLES", "Texts", "bindings", "expressions", "tree", "trees", "untyped_expressions"]

MAX_DEPTH: Final = 5
MAX_HOLES: Final = 40
"""Beyond so many parts an expression takes only leaves: it stays under a few thousand characters."""

_HOLE: Final = re.compile(r"<(=?)([a-z_]+)(?:\|([a-z:_,]+))?>|\{([vw])\}")


_QUOTED: Final = re.compile(r"'[^']*'")


@dataclass(frozen=True, slots=True)
class Hole:
    """A part to be filled: with an operand or an argument of a type, or (``name``) with a variable's name."""

    type: str
    operand: bool
    variables: tuple[tuple[str, str], ...]
    name: str = ""


Template = tuple[bool, tuple[str | Hole, ...]]
"""Whether the text is a primary as it stands, and its pieces."""


def _template(text: str) -> Template:
    pieces: list[str | Hole] = []
    at = 0
    for m in _HOLE.finditer(text):
        pieces.append(text[at : m.start()])
        at = m.end()
        pairs = tuple(tuple(p.split(":")) for p in m[3].split(",")) if m[3] else ()
        pieces.append(Hole(m[2] or "", not m[1], tuple((p[0], p[1]) for p in pairs), m[4] or ""))
    pieces.append(text[at:])
    return _is_primary(text), tuple(p for p in pieces if p != "")


def _is_primary(text: str) -> bool:
    """Whether no operator stands outside the brackets of a template: all are between spaces, or signs in front."""
    depth = 0
    for c in _QUOTED.sub("", text):
        depth += (c in "([{") - (c in ")]}")
        if c == " " and depth == 0:
            return False
    return text[0] not in "!-"


_PARSED: Final = tuple((group, kind, _template(text)) for group, kind, text in TEMPLATES)


class Texts:
    """A stream of expressions. ``groups`` are the parts of the language that are used, ``confusion`` how often (0 to 1)
    a part has any type instead of the one that belongs there."""

    def __init__(self, rng: Random, groups: Collection[str] = GROUPS, confusion: float = 0.0) -> None:
        self._rng = rng
        self._confusion = confusion
        self._tables: dict[str, list[Template]] = {kind: [] for kind in LEAVES}
        for group, kind, template in _PARSED:
            if group in groups:
                self._tables[kind].append(template)
        own = {"maybe_int": "optional", "maybe_string": "optional"} | dict.fromkeys(
            ("quantity", "ip", "cidr", "url", "semver"), "kubernetes"
        )
        self._types = tuple(kind for kind in LEAVES if own.get(kind, "standard") in groups)
        self._scope: dict[str, list[str]] = {kind: [] for kind in LEAVES}
        self._depth = 0
        self._holes = 0

    def expression(self, kind: str = "", depth: int = MAX_DEPTH) -> str:
        """An expression of a type of ``cel_templates`` (empty: of any)."""
        self._holes = 0
        self._depth = 0
        return self._text(kind or self._rng.choice(self._types), depth)[1]

    def pair(self) -> tuple[str, dict[str, Any]]:
        """An expression and what its variables are."""
        return self.expression("bool" if self._rng.random() < 0.4 else ""), bindings(self._rng)

    def _text(self, kind: str, depth: int) -> tuple[bool, str]:
        """Whether the text is a primary, and the text."""
        rng = self._rng
        self._holes += 1
        if self._confusion and rng.random() < self._confusion:
            kind = rng.choice(self._types)
        table = self._tables[kind]
        if depth <= 0 or not table or self._holes > MAX_HOLES or rng.random() < 0.15:
            return self._leaf(kind)
        primary, pieces = table[int(rng.random() * len(table))]
        out: list[str] = []
        names: dict[str, str] = {}
        for piece in pieces:
            if isinstance(piece, str):
                out.append(piece)
            elif piece.name:
                out.append(names.get(piece.name) or self._new_name(piece.name, names))
            else:
                out.append(self._filled(piece, names, depth))
        self._depth -= len(names)
        return primary, "".join(out)

    def _new_name(self, which: str, names: dict[str, str]) -> str:
        """A variable of a loop: a name of its own in its scope."""
        names[which] = name = f"{which}{self._depth}"
        self._depth += 1
        return name

    def _filled(self, hole: Hole, names: dict[str, str], depth: int) -> str:
        scope = self._scope
        for which, kind in hole.variables:
            scope[kind].append(names[which])
        primary, text = self._text(hole.type, depth - 1)
        for _, kind in hole.variables:
            scope[kind].pop()
        return f"({text})" if hole.operand and not primary else text

    def _leaf(self, kind: str) -> tuple[bool, str]:
        rng = self._rng
        inner = self._scope[kind]
        if inner and rng.random() < 0.7:
            return True, inner[int(rng.random() * len(inner))]
        names = NAMES.get(kind)
        if names is not None and rng.random() < 0.5:
            return True, names[int(rng.random() * len(names))]
        leaves = LEAVES[kind]
        text = leaves[int(rng.random() * len(leaves))]
        return text[0] != "-", text


_OBJECTS: Final[tuple[dict[str, Any], ...]] = (
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-1",
            "namespace": "default",
            "generation": 2,
            "labels": {"app": "web", "tier": "db"},
            "finalizers": ["a", "b"],
        },
        "spec": {
            "replicas": 3,
            "ratio": 0.5,
            "flag": True,
            "ports": [80, 443],
            "args": ["--debug", "serve"],
            "containers": [
                {"name": "web", "image": "nginx:1.25", "securityContext": {"privileged": False}},
                {"name": "side", "image": "busybox", "securityContext": {"privileged": True}},
            ],
        },
        "status": {"phase": "Running"},
    },
    {
        "kind": "Deployment",
        "metadata": {"name": "", "namespace": "日本", "labels": {}},
        "spec": {"replicas": 0, "containers": [], "ports": [], "args": [""], "ratio": 1, "flag": None},
    },
    {
        "kind": "X",
        "metadata": {"name": "abc", "generation": 9007199254740993, "labels": {"app": ""}, "finalizers": []},
        "spec": {"replicas": "3", "containers": [{"name": "a", "image": "gcr.io/a:b"}], "flag": False, "ports": ["80"]},
        "status": None,
    },
    {},
    {"metadata": None, "spec": {"containers": None, "replicas": -1}},
)

_VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "i": (0, 1, -1, 2, 5, 100, INT_MAX, INT_MIN),
    "j": (0, 1, 3, -7, 9007199254740993),
    "u": tuple(map(UInt, (0, 1, 7, UINT_MAX))),
    "d": (0.0, -0.0, 1.0, 0.5, -2.5, 1e308, float("inf"), float("-inf"), float("nan"), 9007199254740992.0),
    "p": (True, False),
    "s": (
        "",
        "a",
        "abc",
        "Hello World",
        "日本",
        "\U0001f600x",
        "1",
        "-5",
        "a,b",
        "10.0.0.1",
        "1Gi",
        "true",
        "é",
        "1.2.3",
    ),
    "t": ("", "a", "b", "X", "l", "2024-01-01T00:00:00Z", "1h", "\n"),
    "b": (b"", b"a", b"\xff", "é".encode(), b"abc"),
    "l": ([], [1], [1, 2, 3], [3, 3, -1], [INT_MAX, 1], [0] * 5),
    "ls": ([], ["a"], ["b", "a", "b"], ["", "日本"], ["abc", "X", "a,b"]),
    "m": ({}, {"a": 1}, {"a": 0, "b": 2, "c": -1}, {"": INT_MAX}),
    "ms": ({}, {"app": "web"}, {"a": "", "app": "a"}, {"é": "x"}),
    "when": tuple(
        map(Timestamp, (0, 1_709_251_199_500_000_000, -62_135_596_800_000_000_000, 253_402_300_799_999_999_999))
    ),
    "wait": tuple(map(Duration, (0, 1_000_000_000, -1_500_000_000, 5_400_000_000_000, 1 << 60))),
    "x": (None, 1, UInt(1), 1.0, True, "a", b"a", [], [1, "a"], {}, {"a": 1, "app": "web"}, {"a": {"a": []}}, 2.5, -1),
    "object": _OBJECTS,
}


def bindings(rng: Random) -> dict[str, Any]:
    """A value for each variable. Lists and maps are shared between calls: nobody may change them."""
    draw = rng.random
    return {name: pool[int(draw() * len(pool))] for name, pool in _VALUES.items()}


# Any tree: what the parser can make, without regard to names or types.

_WORDS: Final = ("a", "b_1", "object", "math", "cel", "has", "package1", "inner", "trueish", "x")
_FIELDS: Final = (*_WORDS, "for", "in", "a-b", "app.kubernetes.io/name", "null", "x y")
_CONSTANTS: Final = (
    *(None, True, False, 0, -1, 1, INT_MAX, INT_MIN, UInt(0), UInt(UINT_MAX), 0.0, -0.0, 0.5, 1e300, -1e-7),
    *("", "a", "it's", 'say "x"', "\\", "\n\r\t\0", "日本\U0001f600", "'''", '"""', b"", b"\xff\0a", b"'\"\\"),
)
_OPERATORS: Final = tuple(f"_{op}_" for op in ("+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "&&", "||"))
_FUNCTIONS: Final = ("f", "size", ".g", "has1", "contains", "allOf")


def tree(rng: Random, depth: int = 4) -> Node:
    """A tree without ids and places, of any shape that a text without macros can have."""

    def some() -> Node:
        return tree(rng, depth - 1)

    def several(low: int, high: int) -> tuple[Node, ...]:
        return tuple(some() for _ in range(rng.randrange(low, high + 1)))

    if depth <= 0:
        return Ident(rng.choice(_WORDS), rng.random() < 0.1) if rng.random() < 0.4 else Literal(rng.choice(_CONSTANTS))
    match rng.randrange(11):
        case 0 | 1:
            operator = rng.choice((*_OPERATORS, "@in"))
            return Call(operator, several(2, 4) if operator in ("_&&_", "_||_") else several(2, 2))
        case 2:
            return Call(rng.choice(("!_", "-_")), several(1, 1))
        case 3:
            return Call("_?_:_", several(3, 3))
        case 4:
            return Call(rng.choice(("_[_]", "_[?_]")), several(2, 2))
        case 5:
            return Select(some(), rng.choice(_FIELDS), False, rng.random() < 0.3)
        case 6:
            return Call(rng.choice(_FUNCTIONS), several(0, 3))
        case 7:
            return Call(rng.choice([f for f in _FUNCTIONS if f[0] != "."]), several(0, 3), some())
        case 8:
            items = several(0, 3)
            return ListLit(items, tuple(i for i in range(len(items)) if rng.random() < 0.2))
        case 9:
            return MapLit(tuple(Entry(some(), some(), rng.random() < 0.2) for _ in range(rng.randrange(3))))
    fields = tuple(FieldInit(rng.choice(_FIELDS), some(), rng.random() < 0.2) for _ in range(rng.randrange(3)))
    return StructLit(rng.choice(("a", ".a.b", "google.protobuf.Int64Value", "for.x")), fields)


_randoms: Final = st.randoms(use_true_random=False)

expressions: Final[st.SearchStrategy[tuple[str, dict[str, Any]]]] = _randoms.map(lambda r: Texts(r).pair())
"""A well-typed expression and its bindings."""

untyped_expressions: Final[st.SearchStrategy[tuple[str, dict[str, Any]]]] = _randoms.map(
    lambda r: Texts(r, confusion=0.3).pair()
)
"""An expression three tenths of whose parts have any type, and its bindings."""

trees: Final[st.SearchStrategy[Node]] = _randoms.map(tree)
"""Any tree; ``unparse`` gives its text."""
