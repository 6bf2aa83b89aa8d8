"""Golden files: text in, text out, kept in ``.test`` files that a person can read and a run can rewrite.

A file holds any number of cases::

    -- lines before the first case are a comment and stay as they are
    [case name of the case]
    the input
    [file other.yaml]
    a second input, when the stage takes more than one
    [out]
    what the stage answers

``golden_cases(folder)`` gives the cases of ``tests/golden/<folder>`` for ``pytest.mark.parametrize``; the ``golden``
fixture compares an answer with ``[out]`` or, under ``pytest --update-golden``, writes it back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "golden"
_MARK = re.compile(r"^\[(case|file|out)(?: (.+))?\]$")


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """One case: ``input`` is the text under ``[case …]``, ``files`` the further inputs by name."""

    path: Path
    name: str
    input: str
    files: dict[str, str] = field(default_factory=dict)
    out: str = ""


def read_cases(path: Path) -> list[GoldenCase]:
    """The cases of one file, in order. Raises ValueError for a file that is not laid out as described above."""
    sections: list[tuple[str, str, list[str]]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        mark = _MARK.match(line)
        if mark:
            kind, name = mark[1], mark[2] or ""
            if (kind == "out") == bool(name) or (kind != "case" and not sections):
                raise ValueError(f"{path}:{number}: {line} is not expected here")
            sections.append((kind, name, []))
        elif sections:
            sections[-1][2].append(line)
        elif line.strip() and not line.startswith("--"):
            raise ValueError(f"{path}:{number}: text before the first case must be a comment (--)")
    cases: list[GoldenCase] = []
    for kind, name, lines in sections:
        text = "\n".join(lines).rstrip("\n") + "\n" if any(lines) else ""
        if kind == "case":
            if any(c.name == name for c in cases):
                raise ValueError(f"{path}: two cases are called {name}")
            cases.append(GoldenCase(path, name, text))
        elif kind == "file":
            cases[-1].files[name] = text
        else:
            last = cases[-1]
            cases[-1] = GoldenCase(path, last.name, last.input, last.files, text)
    return cases


def golden_cases(folder: str) -> list[object]:
    """Every case below ``tests/golden/<folder>`` as pytest parameters, named ``file:case``."""
    found = [
        pytest.param(case, id=f"{path.stem}:{case.name}")
        for path in sorted((ROOT / folder).glob("**/*.test"))
        for case in read_cases(path)
    ]
    if not found:
        raise ValueError(f"no golden case below {ROOT / folder}")
    return list(found)


def write_out(path: Path, name: str, answer: str) -> None:
    """Puts ``answer`` under ``[out]`` of one case and leaves every other line of the file as it is."""
    lines = path.read_text(encoding="utf-8").splitlines()
    start = lines.index(f"[case {name}]")
    end = next((i for i in range(start + 1, len(lines)) if lines[i].startswith("[case ")), len(lines))
    out = next((i for i in range(start + 1, end) if lines[i] == "[out]"), None)
    head = lines[:out] if out is not None else [*_trimmed(lines[:end])]
    tail = ["", *lines[end:]] if end < len(lines) else []
    path.write_text("\n".join([*head, "[out]", *_trimmed(answer.split("\n")), *tail]) + "\n", encoding="utf-8")


def _trimmed(lines: list[str]) -> list[str]:
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines


Golden = Callable[[GoldenCase, str], None]


def make_golden(update: bool) -> Golden:
    """The comparison behind the ``golden`` fixture."""

    def check(case: GoldenCase, answer: str) -> None:
        marks = [line for line in answer.split("\n") if _MARK.match(line)]
        assert not marks, f"the answer holds a line that would read as a section: {marks[0]}"
        answer = answer.rstrip("\n") + "\n" if answer.strip() else ""
        if update and answer != case.out:
            write_out(case.path, case.name, answer)
            return
        assert answer == case.out, f"{case.path.name}: {case.name} (run pytest --update-golden after a look)"

    return check
