"""How results are printed: tables, policy reports, JUnit, SARIF, Markdown. ``apply`` and ``test`` call it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from runtime.cli.files import identity
from runtime.cli.offline import Answer
from runtime.engine import RuleResult
from runtime.properties import message_of, of_result

COLOURS: Final = {"pass": "32", "fail": "31", "error": "31", "warn": "33", "skip": "36"}
SEVERITIES: Final = ("critical", "high", "medium", "low", "info")
SARIF_LEVEL: Final = {"fail": "error", "error": "error", "warn": "warning"}


def use_colour(remove: bool) -> bool:
    """Colour only on a terminal that was not told to go without."""
    import os

    return not remove and sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def coloured(text: str, status: str, on: bool) -> str:
    code = COLOURS.get(status)
    return f"\x1b[{code}m{text}\x1b[0m" if on and code else text


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, status: int = -1, colour: bool = False) -> str:
    """A table with rules, as Kyverno prints it. ``status`` is the column that is coloured by what it says."""
    cells = [[str(cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [max([len(h), *(len(row[i]) for row in cells)]) for i, h in enumerate(headings)]
    rule = "│" + "│".join("─" * (w + 2) for w in widths) + "│"
    lines = [rule, _row(headings, widths), rule]
    for row in cells:
        shown = _row(row, widths)
        if colour and status >= 0:
            padded = f" {row[status]:<{widths[status]}} "
            before = sum(w + 3 for w in widths[:status]) + 1
            shown = shown[:before] + coloured(padded, row[status].lower(), True) + shown[before + len(padded) :]
        lines.append(shown)
    return "\n".join([*lines, rule])


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "│" + "│".join(f" {cell:<{width}} " for cell, width in zip(cells, widths, strict=True)) + "│"


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The same as a Markdown table."""
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    for row in rows:
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |")
    return "\n".join(lines)


def resource_label(resource: dict[str, Any]) -> str:
    """``apiVersion/kind/namespace/name`` without the parts that are not there."""
    return "/".join(part for part in identity(resource) if part)


def to_yaml(value: Any) -> str:
    """A value as YAML, keys sorted, lines not folded, ending in a newline."""
    import yaml

    return yaml.dump(
        value, Dumper=_dumper(), sort_keys=True, default_flow_style=False, allow_unicode=True, width=1 << 30
    )


def _dumper() -> Any:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes lists at the indentation of their key and shares nothing: Kubernetes tools know no anchors."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, data: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)

    Dumper.add_representer(str, text)
    return Dumper


def report_result(
    answer: Answer, result: RuleResult, *, audit_warn: bool = False, now: int | None = None
) -> dict[str, Any]:
    """One result of a policy report (``wgpolicyk8s.io/v1alpha2``)."""
    api_version, kind, namespace, name = identity(answer.patched if answer.mutation else answer.resource)
    reference = {"apiVersion": api_version, "kind": kind, "name": name}
    if namespace:
        reference["namespace"] = namespace
    annotations = answer.policy.annotations
    status = result.report_status(audit_warn=audit_warn)
    out: dict[str, Any] = {
        "policy": answer.policy.key,
        "rule": result.rule,
        "result": status,
        "message": message_of(result, status),
        "scored": answer.policy.scored,
        "source": "kyverno",
        "resources": [reference],
        "timestamp": {"nanos": 0, "seconds": int(time.time()) if now is None else now},
    }
    if category := annotations.get("policies.kyverno.io/category"):
        out["category"] = category
    if (severity := annotations.get("policies.kyverno.io/severity")) in SEVERITIES:
        out["severity"] = severity
    if properties := of_result(result):
        out["properties"] = properties
    return out


def policy_reports(answers: Iterable[Answer], *, audit_warn: bool = False) -> list[dict[str, Any]]:
    """One cluster-wide report over all cluster-wide policies, then one for each namespaced policy."""
    now = int(time.time())
    merged: list[dict[str, Any]] = []
    own: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for answer in answers:
        results = [report_result(answer, r, audit_warn=audit_warn, now=now) for r in answer.results]
        if answer.policy.namespace is None:
            merged += results
        elif results:
            own.setdefault((answer.policy.namespace, answer.policy.name), []).extend(results)
    reports = []
    if merged:
        reports.append(_report("ClusterPolicyReport", {"name": "merged"}, merged))
    for (namespace, name), results in sorted(own.items()):
        reports.append(_report("PolicyReport", {"name": name, "namespace": namespace}, results))
    return reports


def _report(kind: str, metadata: dict[str, str], results: list[dict[str, Any]]) -> dict[str, Any]:
    summary = dict.fromkeys(("pass", "fail", "warn", "error", "skip"), 0)
    for result in results:
        summary[result["result"]] += 1
    return {
        "apiVersion": "wgpolicyk8s.io/v1alpha2",
        "kind": kind,
        "metadata": metadata,
        "results": results,
        "summary": summary,
    }


def junit(suites: Iterable[tuple[str, Iterable[tuple[str, str, str, str]]]]) -> str:
    """JUnit XML of (suite, cases), a case being (class, name, outcome, text); outcome is pass, fail, error or skip."""
    from xml.sax.saxutils import escape, quoteattr

    out = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for suite, given in suites:
        cases = list(given)
        count = {outcome: sum(c[2] == outcome for c in cases) for outcome in ("fail", "error", "skip")}
        out.append(
            f'  <testsuite name={quoteattr(suite)} tests="{len(cases)}" failures="{count["fail"]}"'
            f' errors="{count["error"]}" skipped="{count["skip"]}">'
        )
        for group, name, outcome, text in cases:
            head = f"    <testcase classname={quoteattr(group)} name={quoteattr(name)}"
            tag = {"fail": "failure", "error": "error", "skip": "skipped"}.get(outcome)
            if tag is None:
                out.append(head + "/>")
            else:
                out += [head + ">", f"      <{tag} message={quoteattr(text)}>{escape(text)}</{tag}>", "    </testcase>"]
        out.append("  </testsuite>")
    return "\n".join([*out, "</testsuites>"])


def sarif(answers: Iterable[Answer], *, audit_warn: bool = False) -> str:
    """SARIF 2.1.0: one rule for each policy rule, one result for each violation or error."""
    rules: dict[str, dict[str, Any]] = {}
    results: list[dict[str, Any]] = []
    for answer in answers:
        for result in answer.results:
            status = result.report_status(audit_warn=audit_warn)
            name = f"{answer.policy.key}/{result.rule}"
            described = answer.policy.annotations.get("policies.kyverno.io/description") or name
            rules.setdefault(name, {"id": name, "shortDescription": {"text": described}})
            if status not in SARIF_LEVEL:
                continue
            place = {"fullyQualifiedName": resource_label(answer.resource), "kind": "resource"}
            results.append(
                {
                    "ruleId": name,
                    "level": SARIF_LEVEL[status],
                    "message": {"text": result.message},
                    "locations": [{"logicalLocations": [place]}],
                }
            )
    document = {
        "version": "2.1.0",
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "runs": [{"tool": {"driver": {"name": "thesmos", "rules": list(rules.values())}}, "results": results}],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)
