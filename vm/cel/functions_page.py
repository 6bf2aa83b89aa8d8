"""The reference page of CEL's functions, made from the tables of the libraries: ``thesmos docs`` writes it to
``vm/cel/FUNCTIONS.md``, and a test holds that file against :func:`functions_markdown`, so that the page cannot go
stale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vm.cel.libraries import LIBRARIES
from vm.cel.library import Function, Library, Overload

_INTERNAL: Final = frozenset({"construction"})
"""Libraries that only compiled code calls."""
_SHAPES: Final = {
    "-_": "-{0}",
    "!_": "!{0}",
    "@in": "{0} in {1}",
    "_[_]": "{0}[{1}]",
    "_[?_]": "{0}[?{1}]",
    "_?._": "{0}.?field",
}

_HEAD: Final = """# The functions of CEL

Made from the tables `vm/cel/lib_*.py` by `thesmos docs`; do not edit.

For people who write expressions, and those who add a function. One section a library, with the version of cel-go's
extension that it follows, or 1. Single capital letters are type parameters: equal letters stand for equal types;
`timestamp` and `duration` are `google.protobuf.Timestamp` and `google.protobuf.Duration`. A library named
`….kubernetes` takes the place of the one it is named after where the API server differs from cel-go.

What a function does with operands that no signature has is an error at run time, when their types are not known
before. Functions with `@` in their name are called by macros: `math.least` and `math.greatest` become `math.@min` and
`math.@max`, `list.sortBy(x, key)` becomes `list.@sortByAssociatedKeys(list.map(x, key))`. `&&`, `||`, `?:`, `has` and
the other macros are no functions.
"""


def functions_markdown() -> str:
    """The whole page."""
    parts = [_HEAD]
    parts += [_section(library) for name, library in LIBRARIES.items() if name not in _INTERNAL]
    return "\n".join(parts)


def _section(library: Library) -> str:
    lines = [f"## {library.name}", "", f"Version {library.version}: {library.doc.rstrip('.')}.", ""]
    if library.types:
        lines += [f"Types: {', '.join(f'`{t}`' for t in library.types)}.", ""]
    if library.constants:
        lines += [f"Constants: {', '.join(f'`{name}`' for name, _ in library.constants)}.", ""]
    since = any(f.since for f in library.functions)
    lines += [
        "| function | result | |" + (" since version |" if since else ""),
        "|---|---|---|" + ("---:|" if since else ""),
    ]
    for f in library.functions:
        for n, (calls, result) in enumerate(_signatures(f)):
            doc = _cell(f.doc) if n == 0 else ""
            lines.append(f"| {calls} | `{result}` | {doc} |" + (f" {f.since} |" if since else ""))
    return "\n".join(lines) + "\n"


def _signatures(f: Function) -> Iterator[tuple[str, str]]:
    """The ways to call a function, those with one result together."""
    by_result: dict[str, list[str]] = {}
    for overload in f.overloads:
        by_result.setdefault(_short(overload.result), []).append(f"`{_cell(_call(f.name, overload))}`")
    for result, calls in by_result.items():
        yield ", ".join(calls), result


def _call(name: str, overload: Overload) -> str:
    params = [_short(p) for p in overload.params]
    if name in _SHAPES:
        return _SHAPES[name].format(*params)
    if len(params) == 2 and name[0] == name[-1] == "_":
        return f"{params[0]} {name.strip('_')} {params[1]}"
    if overload.member:
        return f"{params[0]}.{name}({', '.join(params[1:])})"
    return f"{name}({', '.join(params)})"


def _short(type_text: str) -> str:
    return type_text.replace("google.protobuf.Timestamp", "timestamp").replace("google.protobuf.Duration", "duration")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
