"""Whoever counts uses a name of the table, with as many labels as it has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from runtime.observe.metric_rows import METRICS

ROOT = Path(__file__).resolve().parents[3] / "runtime"
LABELS = {metric.name: len(metric.labels) for metric in METRICS}
BEFORE = {"count": 1, "observe": 2, "set": 2, "add": 2}
"""Arguments of each method that come before the labels."""


def calls() -> Iterator[tuple[str, str, str, list[ast.expr]]]:
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            name = node.args[0]
            if isinstance(name, ast.Constant) and str(name.value).startswith(("kyverno_", "thesmos_")):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.func.attr, str(name.value), node.args


def test_every_name_is_of_the_table() -> None:
    used = list(calls())
    assert used
    assert [(where, name) for where, _, name, _ in used if name not in LABELS] == []


def test_as_many_labels_as_the_table_says() -> None:
    wrong = [
        (where, name)
        for where, method, name, args in calls()
        if method in BEFORE
        and not any(isinstance(arg, ast.Starred) for arg in args)
        and len(args) - BEFORE[method] != LABELS[name]
    ]
    assert wrong == []
