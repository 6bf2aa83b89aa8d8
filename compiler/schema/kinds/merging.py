"""The part of the kinds table that strategic merges need, as the Python module ``vm/patch/merge_table.py``: which lists
of which types merge, and by what keys.

The VM knows no compiler, so it gets a module of its own; ``make kinds`` writes it with the table, and a test holds the
two together (``python -m compiler.schema.kinds.merging`` writes it from the table as it is).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, TypeAlias

from compiler.schema.kinds.records import REF
from compiler.schema.kinds.table import Table, stored

Types: TypeAlias = dict[str, dict[str, Any]]

TARGET: Final = Path(__file__).resolve().parents[3] / "vm/patch/merge_table.py"

_HEAD: Final = '''"""Which lists of the kinds of Kubernetes {version} merge by element: made by ``make kinds``.

``TYPES``: for each type the fields that lead to merging lists: another type, or a pair of the keys of a list and the
type of its elements (empty for one without merging lists; no keys: a set of scalars). ``KINDS``: the types of kinds, by
group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

'''


def rendered(table: Table) -> str:
    """The text of the module for a table."""
    types = _types(table)
    kinds: dict[tuple[str, str], str] = {}
    for group, _version, _plural, _singular, kind, _namespaced, name, _subs in table.resources:
        # Of several versions the one that says most.
        key, short = (group, kind), _short(name or "")
        if short in types and _size(types, short) >= _size(types, kinds.get(key, "")):
            kinds[key] = short
    reached = _reached(types, kinds.values())
    lines = [
        _HEAD.format(version=table.version),
        "TYPES: Final[Mapping[str, Mapping[str, str | tuple[tuple[str, ...], str]]]] = {\n",
    ]
    for name in sorted(reached):
        lines.append(f"    {_quoted(name)}: {{\n")
        lines += [f"        {_quoted(field)}: {_written(types[name][field])},\n" for field in sorted(types[name])]
        lines.append("    },\n")
    lines.append("}\n\nKINDS: Final[Mapping[str, Mapping[str, str]]] = {\n")
    for group in sorted({group for group, _ in kinds}):
        lines.append(f"    {_quoted(group)}: {{\n")
        lines += [f"        {_quoted(k)}: {_quoted(kinds[g, k])},\n" for g, k in sorted(kinds) if g == group]
        lines.append("    },\n")
    lines.append("}\n")
    return "".join(lines)


def _types(table: Table) -> Types:
    """The types that hold merging lists, or lead to them, by short name."""
    found: Types = {}
    for name in table.names:
        fields = (table.definition(name) or {"fields": {}})["fields"]
        found[_short(name)] = {field: part for field, value in fields.items() if (part := _part(value)) is not None}
    while True:
        kept = {
            name: {
                field: (part[0], part[1] if part[1] in found else "") if isinstance(part, tuple) else part
                for field, part in fields.items()
                if isinstance(part, tuple) or part in found
            }
            for name, fields in found.items()
        }
        kept = {name: fields for name, fields in kept.items() if fields and _leads(kept, name, set())}
        if kept == found:
            return kept
        found = kept


def _leads(types: Types, name: str, above: set[str]) -> bool:
    """Whether a type leads to a merging list, by some other way than round in a circle."""
    if name in above:
        return False
    above = above | {name}
    return any(isinstance(part, tuple) or _leads(types, part, above) for part in types.get(name, {}).values())


def _part(value: Any) -> Any:
    """What a field leads to: a type, a pair for a merging list, or None."""
    if isinstance(value, str):
        return _short(value[len(REF) :]) if value.startswith(REF) else None
    if "list" not in value or "merge" not in str(value.get("patch", "")).split(","):
        return None
    key, keys = value.get("merge"), value.get("keys") or []
    item = value["list"]
    inner = _short(item[len(REF) :]) if isinstance(item, str) and item.startswith(REF) else ""
    if key is None:
        return ((), "")
    return (tuple(keys) if keys[:1] == [key] else (key,), inner)


def _size(types: Types, name: str) -> int:
    return len(_reached(types, [name]) & types.keys()) + len(types.get(name, {}))


def _reached(types: Types, names: Any) -> set[str]:
    seen: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name in seen or name not in types:
            continue
        seen.add(name)
        todo += [part[1] if isinstance(part, tuple) else part for part in types[name].values()]
    return seen


def _short(name: str) -> str:
    return ".".join(name.split(".")[-3:])


def _written(part: Any) -> str:
    if isinstance(part, str):
        return _quoted(part)
    keys = "".join(f"{_quoted(k)}, " for k in part[0])
    keys = keys.rstrip() if len(part[0]) == 1 else keys.rstrip(", ")
    return f"(({keys}), {_quoted(part[1])})"


def _quoted(text: str) -> str:
    return f'"{text}"'


if __name__ == "__main__":
    TARGET.write_text(rendered(stored()), encoding="utf-8")
