"""How the parts of an explanation read: what filters look at, kinds, subjects, keys, changes and places in a few words.

Called by :mod:`runtime.explanation`; nothing here knows of a run.
"""

from __future__ import annotations

import json
from typing import Any, Final

from vm.intrinsics.match import namespace_of
from vm.intrinsics.pattern_why import bare
from vm.intrinsics.wildcard import match as wildcard
from vm.patch.diff import diff
from vm.trace import Event
from vm.values import Value

_MOST_CHANGES: Final = 20


def attribute(e: Event) -> tuple[Value, Value]:
    """What a test of a filter looked at, and what it asked for, as a policy would write it."""
    first, wanted = e.operands[0], e.operands[-1]
    metadata = first.get("metadata") if type(first) is dict else None
    metadata = metadata if type(metadata) is dict else {}
    match e.name.partition(".")[2]:
        case "kinds":
            return kind_text(first), [kind_text(w) for w in wanted] if type(wanted) is list else wanted
        case "names":
            return metadata.get("name") or metadata.get("generateName") or "", wanted
        case "namespaces":
            return namespace_of(first), wanted
        case "annotations":
            return metadata.get("annotations") or {}, wanted
        case "selector":
            return metadata.get("labels") or {}, wanted
        case "namespace_selector" | "own_namespace_selector":
            return e.operands[1] if e.operands[1] is not None else {}, wanted
        case "groups" | "plurals":
            return kind_text(first), wanted
        case "subjects":
            user = first if type(first) is dict else {}
            named = {k: user[k] for k in ("username", "groups") if k in user}
            return named, [subject_text(s) for s in wanted] if type(wanted) is list else wanted
    return first, wanted


def kind_text(parts: Any) -> str:
    """A kind as a policy writes it, of its four parts."""
    if type(parts) is not list or len(parts) != 4:
        return str(parts)
    group, version, kind, sub = map(str, parts)
    text = "/".join(part for part in (group, version, kind, sub) if part)
    return text.removeprefix("*/*/").removeprefix("*/") if "*" in (group, version) else text


def subject_text(subject: Any) -> str:
    """A subject of a filter as people say it."""
    if type(subject) is not list or len(subject) != 3:
        return str(subject)
    kind, name, namespace = map(str, subject)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def shown_key(key: Any) -> str:
    """The key of a condition as written, where it holds a variable; else empty."""
    return key if type(key) is str and "{{" in key else ""


def changes(before: Value, after: Value) -> list[str]:
    """What a patch changes, step by step, the first twenty."""
    steps = diff(before, after)
    told = [
        f"{s['op']} {s['path']}" + (f" {json.dumps(s['value'], ensure_ascii=False)}" if "value" in s else "")
        for s in steps
    ]
    more = len(told) - _MOST_CHANGES
    return [*told[:_MOST_CHANGES], *([f"and {more} more"] if more > 0 else [])] or ["nothing changes"]


def relative(pointer: str, base: str) -> str:
    """A pointer from a base on."""
    return pointer[len(base) :] if pointer.startswith(base + "/") else pointer


def dotted(pointer: str) -> str:
    """``/match/any/0/resources`` as ``match.any[0].resources``."""
    out = ""
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        out += f"[{step}]" if step.isdecimal() else f".{step}" if out else step
    return out


def expands(key: str, step: str) -> bool:
    """Whether a key of a pattern as written may be what a step into it says, which names a key of the resource."""
    return wildcard(bare(key), bare(step))
