"""The sets that are tables of inputs and answers: the JMESPath compliance files, and quantities with their kin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.conformance.layout import Layout
from tests.conformance.tally import Result, Tally

ERROR_CODES: Final = {
    "syntax": "syntax",
    "invalid-type": "type",
    "invalid-arity": "arity",
    "invalid-value": "value",
    "unknown-function": "unknown_function",
}


def run_jmespath(layout: Layout) -> Tally:
    """Every compliance case. A key that is not there is an error in this dialect, which ends as null here."""
    from compiler.dynamic import search
    from vm.values import Err, json_equal

    tally = Tally("jmespath")
    for path in sorted((layout.root / "jmespath").glob("*.json")):
        number = 0
        for group in json.loads(path.read_text(encoding="utf-8")):
            for case in group["cases"]:
                number += 1
                name = f"{path.name}#{number}"
                answer = search(case["expression"], group["given"])
                if "error" in case:
                    code = ERROR_CODES[case["error"]]
                    ok = isinstance(answer, Err) and answer.code == code
                    tally.add(Result(name, case["expression"], ok, code, _shown(answer)))
                    continue
                if isinstance(answer, Err) and answer.code == "not_found":
                    answer = None
                ok = not isinstance(answer, Err) and json_equal(answer, case.get("result"))
                tally.add(Result(name, case["expression"], ok, json.dumps(case.get("result")), _shown(answer)))
    return tally


def run_quantity(layout: Layout) -> Tally:
    """Quantities, their comparison, Go durations and wildcards, all as their Go libraries answer."""
    from vm.intrinsics.duration import format_duration, parse_duration
    from vm.intrinsics.quantity import compare_quantities, parse_quantity
    from vm.intrinsics.wildcard import match

    tally = Tally("quantity")
    folder = layout.root / "kubernetes-quantity"

    def quantity(row: dict[str, Any]) -> dict[str, Any]:
        found = parse_quantity(row["input"])
        if found is None:
            return {"valid": False}
        answers = {
            "valid": True,
            "string": str(found),
            "canonical": found.canonical(),
            "decimal": found.decimal(),
            "format": found.format,
            "sign": found.sign,
            "value": found.value(),
            "milli_value": found.milli_value(),
        }
        return {key: answers[key] for key in answers if key in row}

    def comparison(row: dict[str, Any]) -> dict[str, Any]:
        a, b = parse_quantity(row["a"]), parse_quantity(row["b"])
        return {"cmp": None if a is None or b is None else compare_quantities(a, b)}

    def duration(row: dict[str, Any]) -> dict[str, Any]:
        found = parse_duration(row["input"])
        if found is None:
            return {"valid": False}
        return {"valid": True, "nanoseconds": found, "canonical": format_duration(found)}

    def wildcard(row: dict[str, Any]) -> dict[str, Any]:
        return {"match": match(row["pattern"], row["text"])}

    tables = {
        "quantity.json": (quantity, ("input",)),
        "quantity_compare.json": (comparison, ("a", "b")),
        "go_duration.json": (duration, ("input",)),
        "wildcard.json": (wildcard, ("pattern", "text")),
    }
    for name, (answer, keys) in tables.items():
        for row in _rows(folder / name):
            label = " ~ ".join(str(row[key]) for key in keys)
            want = {key: value for key, value in row.items() if key not in keys}
            got = answer(row)
            tally.add(Result(f"{name}#{label}", label, got == want, json.dumps(want), json.dumps(got)))
    return tally


def _rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return rows


def _shown(answer: Any) -> str:
    return json.dumps(answer, default=str)[:200]
