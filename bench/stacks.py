"""Stacks that py-spy has sampled (``a;b;c 12`` a line, the root first) to a flame graph and a table of shares.

``bench.flame`` takes the samples of a server. What is left of a stack is what lies below the event loop: a thread that
waits says nothing of an admission, and the frames above are the same everywhere.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

Stack = tuple[str, ...]

_LOOP: Final = re.compile(r"^(uv_run|run_forever|run_until_complete|Runner\.run|run_loop) \(")
_WAITS: Final = re.compile(r"^(epoll_\w*wait|select|poll)\b")
# Addresses without a name, and what the tables of inlined code say of frames that lie between others.
_NAMELESS: Final = re.compile(r"^0x|^Py_X?(DEC|INC)REF\b|__copied\b|^_?Py(Object|Eval|Vectorcall)")
_GROUPS: Final = (
    ("system calls", re.compile(r"^(writev?|readv?|recv\w*|send\w*|epoll_\w+|ioctl) \(lib")),
    ("TLS", re.compile(r"libssl|libcrypto|_ssl\.|SSL")),
    ("decoding the review", re.compile(r"orjson|\bparse \(runtime|\bdecode \(runtime|from_review|runtime/request\.py")),
    ("engine: generated code", re.compile(r"<thesmos:|^Fused\.|\(vm/")),
    ("engine: the rest", re.compile(r"runtime/(engine|fusing|policyset|match_index)\.py|Live\.judge")),
    ("decision and answer", re.compile(r"runtime/webhook/(entry|admission|decision)\.py|runtime/decision")),
    ("head and routing", re.compile(r"runtime/webhook/|runtime/observe/")),
    ("aiohttp", re.compile(r"aiohttp|multidict|_http_parser")),
    ("event loop", re.compile(r"uvloop|loop\.c|linux\.c|stream\.c|core\.c|asyncio/")),
)
_OTHER: Final = "other"
_COLOURS: Final = dict(
    zip(
        (*(name for name, _ in _GROUPS), _OTHER),
        ("#9aa5b1", "#7fb38a", "#c9b458", "#e8743b", "#f2a97e", "#6f9bd1", "#9dbce0", "#b59ad1", "#c3cad1", "#dddddd"),
        strict=True,
    )
)
WIDTH: Final = 1200
ROW: Final = 17
NARROW: Final = 0.004
"""Frames below this share are left out of the graph: nobody can read them, and they are most of the file."""


def read(text: str) -> Counter[Stack]:
    """The stacks below the event loop, by how often they were seen."""
    found: Counter[Stack] = Counter()
    for line in text.splitlines():
        frames, _, count = line.rpartition(" ")
        stack = _below_loop(frames.split(";"))
        if stack:
            found[stack] += int(count)
    return found


def _below_loop(frames: list[str]) -> Stack:
    loops = [place for place, frame in enumerate(frames) if _LOOP.match(frame)]
    if not loops or _WAITS.match(frames[-1]):
        return ()
    return tuple(frame for frame in frames[loops[-1] + 1 :] if not _NAMELESS.search(frame)) or ("event loop",)


def group(stack: Stack) -> str:
    """What the time of a stack goes to: said by the innermost frame that says it."""
    for frame in reversed(stack):
        for name, known in _GROUPS:
            if known.search(frame):
                return name
    return "event loop" if stack == ("event loop",) else _OTHER


def table(found: Counter[Stack], most: int = 20) -> str:
    """Shares by what they go to, then of single functions, as Markdown."""
    total = found.total()
    groups: Counter[str] = Counter()
    own: Counter[str] = Counter()
    for stack, count in found.items():
        groups[group(stack)] += count
        own[stack[-1]] += count
    shares = [f"| {name} | {count / total:.0%} |" for name, count in groups.most_common()]
    rows = [f"| {count / total:.1%} | `{frame}` |" for frame, count in own.most_common(most)]
    head = ["| goes to | share |", "|---|---:|", *shares, "", "| own time | function |", "|---:|---|"]
    return "\n".join([*head, *rows])


@dataclass(slots=True)
class _Node:
    count: int = 0
    below: dict[str, _Node] = field(default_factory=dict)


def drawing(found: Counter[Stack], title: str) -> str:
    """The flame graph as SVG, the outermost frames on top, coloured by what their own time goes to."""
    top = _Node()
    for stack, count in found.items():
        node = top
        node.count += count
        for frame in stack:
            node = node.below.setdefault(frame, _Node())
            node.count += count
    boxes: list[str] = []
    depth = _draw(boxes, top, (), 0.0, top.count)
    legend = "".join(
        f'<rect x="{8 + place * 150 % WIDTH}" y="{24 + place // 8 * 14}" width="9" height="9" fill="{colour}"/>'
        f'<text x="{21 + place * 150 % WIDTH}" y="{32 + place // 8 * 14}">{name}</text>'
        for place, (name, colour) in enumerate(_COLOURS.items())
    )
    height = 56 + depth * ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"'
        f' font-size="11">\n<rect width="{WIDTH}" height="{height}" fill="white"/>'
        f'<text x="8" y="16">{html.escape(title)}</text>{legend}\n<g transform="translate(0 56)">\n'
        + "\n".join(boxes)
        + "\n</g>\n</svg>\n"
    )


def _draw(boxes: list[str], node: _Node, path: Stack, left: float, total: int) -> int:
    """Adds the boxes below a node; the rows that they take."""
    deepest = len(path)
    for frame, inner in sorted(node.below.items()):
        share = inner.count / total
        if share >= NARROW:
            here = (*path, frame)
            boxes.append(_box(frame, _COLOURS[group(here)], left, len(path), share))
            deepest = max(deepest, _draw(boxes, inner, here, left, total))
        left += share
    return max(deepest, len(path) + 1 if node.below else len(path))


def _box(frame: str, colour: str, left: float, row: int, share: float) -> str:
    x, y, wide = left * WIDTH, row * ROW, share * WIDTH
    text = short(frame)
    room = int(wide / 6.2)
    shown = text if len(text) <= room else f"{text[: room - 1]}…" if room > 3 else ""
    label = f'<text x="{x + 3:.1f}" y="{y + 12}">{html.escape(shown)}</text>' if shown else ""
    return (
        f"<g><title>{html.escape(frame)} {share:.1%}</title>"
        f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{ROW - 1}" fill="{colour}"/>{label}</g>'
    )


def short(frame: str) -> str:
    """A frame's function, without where it stands and what it stands in."""
    return re.sub(r"\w+\.<locals>\.", "", frame.partition(" (")[0])
