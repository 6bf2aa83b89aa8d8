"""What the code of context entries borrows (semantics §8): errors in the reference's words, the limit on their size,
and texts and queries formed at run time, which may name entries that are still to be loaded.

An entry is a cell, and only code can read a cell. So a text formed at run time is put in on the root and the entries
that the code has loaded; where it mentions another the answer is ``Err pending`` with the name, the code loads that one
and asks again.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from vm.fuel import measure
from vm.host import Imports, Meter
from vm.intrinsics.text import deep, json_text, substituted
from vm.values import MISSING, Err, Value

ENTRIES: Final = "$entries"
"""Where the root of a text formed at run time keeps the names of all context entries; those not in the root itself are
not loaded."""


@lru_cache(maxsize=1024)
def _mention(name: str) -> re.Pattern[str]:
    # Kyverno quirk: the character before may be an underscore or a quote, so that a literal 'x' mentions the entry x.
    return re.compile(rf"(?:\A|[^.0-9A-Za-z]){re.escape(name)}\b", re.ASCII)


def mentions(query: str, name: str) -> bool:
    """Whether a query triggers the context entry of a name: it stands there as a word, not after a dot."""
    return name in query and _mention(name).search(query) is not None


def untold(query: str, root: dict[str, Any]) -> Err | None:
    """Why a query formed at run time cannot be answered yet: an entry that it mentions is not loaded, or failed."""
    for name in root.get(ENTRIES, ()):
        if mentions(query, name):
            value = root.get(name, root)
            if value is root:
                return Err("pending", name)
            if type(value) is Err:
                return value
    return None


def failed(v: Value, words: str) -> Value:
    """The value; an error as that of a context entry, which no operator of a query takes for a missing key."""
    if type(v) is not Err or v.code in ("fuel", "pending", "later"):
        return v
    if v.code == "unsupplied":
        # The reference does not know such an entry at all: there it is a key that is missing.
        return Err("context", f"JMESPath query failed: {v.text}")
    return Err("context", words + v.text)


def queried(v: Value) -> Value:
    """The value of a query on the context; an error that is not that of an entry gets the words of a failed query."""
    if type(v) is not Err or v.code in ("context", "syntax", "fuel", "pending", "later"):
        return v
    return Err(v.code, f"JMESPath query failed: {v.text}")


def sized(meter: Meter, v: Value, name: str, passing: bool) -> Value:
    """The value of an entry, or the error that the context grows beyond its limit. ``passing``: the value goes with the
    element of the loop, so that it is counted for itself and not added."""
    if type(v) is Err:
        return v
    measure(v, meter)
    size = len(json_text(v))
    if meter.context + size > meter.context_limit:
        return Err(
            "context",
            f"failed to add context entry {name}: context size limit of {meter.context_limit} bytes exceeded",
        )
    if not passing:
        meter.context += size
    return v


def _root(root: Value, names: list[Value], values: list[Value]) -> dict[str, Any]:
    """The root that a text formed at run time sees.

    A key of an entry's name is not the entry: code knows which of the two counts.
    """
    loaded = {name: v for name, v in zip(names, values, strict=False) if type(name) is str and v is not MISSING}
    plain = root if type(root) is dict else {}
    known = [name for name in names if type(name) is str]
    return {**{key: v for key, v in plain.items() if key not in known}, **loaded, ENTRIES: known}


def again(imports: Imports, meter: Meter, v: Value, root: Value, names: list[Value], values: list[Value]) -> Value:
    """A value after its first pass: variables within it are put in, on a root with the entries loaded so far (one that
    is not has MISSING among the values)."""
    if type(v) is str:
        return substituted(imports, meter, v, _root(root, names, values)) if "{{" in v else v
    if type(v) in (dict, list):
        return deep(imports, meter, v, _root(root, names, values))
    return v


def query(imports: Imports, meter: Meter, text: Value, root: Value, names: list[Value], values: list[Value]) -> Value:
    """The value of a query formed at run time, on the same root."""
    if type(text) is not str:
        return text
    loaded = _root(root, names, values)
    missing = untold(text, loaded)
    return imports.query(text, loaded, meter) if missing is None else missing


def search(imports: Imports, meter: Meter, text: Value, document: Value) -> Value:
    """The value of a query formed at run time on a document."""
    if type(text) is Err or type(document) is Err:
        return text if type(text) is Err else document
    if type(text) is not str:
        return Err("type", f"a query must be a text, got {json_text(text)}")
    return imports.query(text, {"$document": document}, meter)
