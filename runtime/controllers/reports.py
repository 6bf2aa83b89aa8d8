"""Policy reports as objects: which rules report what, results of rules as report results, old and new ones as a report.

Pure functions; ``runtime.controllers.scan`` and ``admissionreports`` make results, ``reportwriter`` writes reports. The
report of an object is named by its UID and lives in its namespace (semantics §26); both groups have the same content.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import orjson

from runtime.engine import RuleResult
from runtime.k8s.client import Object, Resource
from runtime.policyset import CLEANUP_POLICIES, is_scanned
from runtime.properties import message_of, of_result
from vm.code import Module

POLICY_REPORT: Final = Resource("wgpolicyk8s.io", "v1alpha2", "policyreports", "PolicyReport")
CLUSTER_POLICY_REPORT: Final = Resource(
    "wgpolicyk8s.io", "v1alpha2", "clusterpolicyreports", "ClusterPolicyReport", namespaced=False
)
REPORT: Final = Resource("openreports.io", "v1alpha1", "reports", "Report")
CLUSTER_REPORT: Final = Resource("openreports.io", "v1alpha1", "clusterreports", "ClusterReport", namespaced=False)

MANAGED: Final = {"app.kubernetes.io/managed-by": "kyverno"}
DISABLED: Final = "reports.kyverno.io/disabled"
SCAN: Final = "audit.kyverno.io/scan"
"""Annotation: what the scan saw and what came of it, ``<object and rules>.<results>``: a new process goes on there."""
ADMISSION: Final = "audit.kyverno.io/admission"
"""Annotation: the policies whose results came from admission, as short hashes with commas between."""

SOURCE: Final = "kyverno"
NATIVE: Final = "ValidatingAdmissionPolicy"
"""The source of what the API server's own policies say, and their kind."""
STATUSES: Final = ("pass", "fail", "warn", "error", "skip")
_FROM_BEST: Final = ("skip", "pass", "warn", "error", "fail")
SEVERITIES: Final = frozenset(("critical", "high", "medium", "low", "info"))

Result = dict[str, Any]
Owner = Literal["scan", "admission"]
ResultKey = tuple[str, str, str]
"""Policy, rule and source: a report has one result of each."""
Rules = Mapping[tuple[str, str], Mapping[str, Owner]]
"""By policy key and source, and by rule name, who reports a rule: the background scan, or admission with what follows
it."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that a report is about. ``uid`` is empty where it is not known yet."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, obj: Object) -> Subject:
        metadata = obj.get("metadata") or {}
        return cls(
            str(obj.get("apiVersion") or ""),
            str(obj.get("kind") or ""),
            str(metadata.get("namespace") or ""),
            str(metadata.get("name") or ""),
            str(metadata.get("uid") or ""),
        )

    @property
    def reference(self) -> dict[str, str]:
        found = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
        }
        return {key: value for key, value in found.items() if value}


class Told:
    """Results of the scan for a report: ``said`` is their hash, whenever they came, empty where there is none. Their
    JSON is made when it is asked for: of most objects a report says already what a scan finds."""

    __slots__ = ("_encode", "said")

    def __init__(self, said: str, encode: Callable[[], bytes]) -> None:
        self.said = said
        self._encode = encode

    @classmethod
    def of(cls, results: Sequence[Result]) -> Told:
        return cls(results_digest(results) if results else "", partial(orjson.dumps, results))

    @property
    def empty(self) -> bool:
        return not self.said

    def encoded(self) -> bytes:
        """The results as a JSON list."""
        return self._encode()


def reported_rules(modules: Iterable[Module]) -> dict[tuple[str, str], dict[str, Owner]]:
    """Who reports the rules of policies; those with the label ``reports.kyverno.io/disabled`` are left out."""
    found: dict[tuple[str, str], dict[str, Owner]] = {}
    for module in modules:
        for policy in module.policies:
            kind = policy.meta.get("kind")
            if kind in CLEANUP_POLICIES or is_disabled(policy.meta):
                continue
            key = policy.name if policy.namespace is None else f"{policy.namespace}/{policy.name}"
            background = policy.meta.get("background") is not False
            found[key, source_of(kind)] = {
                r.name: "scan" if background and is_scanned(r) else "admission" for r in policy.rules
            }
    return found


def source_of(kind: str | None) -> str:
    """The source of the results of a kind of policies."""
    return NATIVE if kind == NATIVE else SOURCE


def is_disabled(meta: Mapping[str, Any]) -> bool:
    return (meta.get("labels") or {}).get(DISABLED) is not None


def results_of(results: Iterable[RuleResult], allowed: frozenset[str], now: int) -> list[Result]:
    """Results of rules as those of a report, of the statuses that are ``allowed``. Where a rule says several things,
    for each target or binding, the worst of them counts."""
    found: dict[ResultKey, Result] = {}
    for result in results:
        status = result.report_status()
        if status in allowed:
            made = result_of(result, status, now)
            known = found.setdefault(key_of_result(made), made)
            if worse(status, known["result"]):
                found[key_of_result(made)] = made
    return list(found.values())


def worse(status: str, than: str) -> bool:
    """Whether a result counts where a rule says two things of one object."""
    return _FROM_BEST.index(status) > _FROM_BEST.index(than)


def result_of(result: RuleResult, status: str, now: int) -> Result:
    """A result of a rule as that of a report."""
    info = result.info
    annotations = info.annotations if info is not None else {}
    source = source_of(info.kind if info is not None else None)
    made: Result = {
        "source": source,
        "policy": result.policy_key,
        "rule": result.rule,
        "result": status,
        "message": message_of(result, status),
        "scored": info is None or info.scored,
        "timestamp": {"seconds": now, "nanos": 0},
    }
    if category := annotations.get("policies.kyverno.io/category"):
        made["category"] = category
    if (severity := annotations.get("policies.kyverno.io/severity")) in SEVERITIES:
        made["severity"] = severity
    properties = of_result(result)
    if source == NATIVE and info is not None:
        properties["process"] = "background scan"
        if binding := info.meta.get("binding"):
            properties["binding"] = binding
    if properties:
        made["properties"] = {key: str(value) for key, value in properties.items()}
    return made


def key_of_result(result: Mapping[str, Any]) -> ResultKey:
    return str(result.get("policy") or ""), str(result.get("rule") or ""), str(result.get("source") or SOURCE)


def merged(
    old: Sequence[Result],
    scan: Sequence[Result] | None,
    admission: Mapping[ResultKey, Result],
    rules: Rules,
    *,
    sweep: bool = False,
) -> list[Result]:
    """The results that a report holds from now on, in its order. ``scan`` takes the place of all that is the scan's;
    None leaves that as it is. ``admission`` replaces rule by rule. What no rule says any more goes with a ``scan`` or a
    ``sweep``.

    A result that says what it said keeps its time.
    """
    before = {key_of_result(r): r for r in old if _is_ours(r)}
    now = dict(before)
    if scan is not None or sweep:
        kept = ("admission",) if scan is not None else ("admission", "scan")
        now = {key: r for key, r in before.items() if owner_of(rules, key) in kept}
    now |= {key_of_result(r): r for r in scan or ()}
    now |= admission
    for key, result in now.items():
        known = before.get(key)
        if known is not None and timeless(known) == timeless(result):
            now[key] = known
    foreign = [r for r in old if not _is_ours(r)]
    if not foreign:
        return [now[key] for key in sorted(now)]
    return sorted([*foreign, *now.values()], key=key_of_result)


def owner_of(rules: Rules, key: ResultKey) -> Owner | None:
    """Who reports a rule; None when there is no such rule, or nobody may report it."""
    return rules.get((key[0], key[2]), {}).get(key[1])


def report_of(
    resource: Resource, subject: Subject, old: Object | None, results: Sequence[Result], scan: str | None, rules: Rules
) -> Object:
    """The report of an object with these results: a new one, or the old one with what is ours in it replaced. ``scan``
    is the mark of the scan whose results these are, None when the old one stays."""
    metadata = dict((old or {}).get("metadata") or {"name": subject.uid})
    if subject.namespace:
        metadata["namespace"] = subject.namespace
    metadata["labels"] = {**(metadata.get("labels") or {}), **MANAGED}
    annotations = dict(metadata.get("annotations") or {})
    if scan is not None:
        annotations.pop(SCAN, None)
    if scan:
        annotations[SCAN] = scan
    given = sorted({mark(key_of_result(r)[0]) for r in results if _is_ours(r) and _is_given(rules, r)})
    annotations.pop(ADMISSION, None)
    if given:
        annotations[ADMISSION] = ",".join(given)
    metadata["annotations"] = annotations
    metadata["ownerReferences"] = [
        {"apiVersion": subject.api_version, "kind": subject.kind, "name": subject.name, "uid": subject.uid}
    ]
    return {
        **(old or {}),
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "scope": subject.reference,
        "results": list(results),
        "summary": summary_of(results),
    }


def resource_of(namespace: str, *, openreports: bool) -> Resource:
    """Where the reports of a namespace are, or those of cluster-wide objects."""
    if openreports:
        return REPORT if namespace else CLUSTER_REPORT
    return POLICY_REPORT if namespace else CLUSTER_POLICY_REPORT


def summary_of(results: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    summary = dict.fromkeys(STATUSES, 0)
    for result in results:
        if result.get("result") in summary:
            summary[str(result["result"])] += 1
    return summary


def digest(value: Any) -> str:
    """A short hash of JSON; 64 bits, since what is compared is one old form of an object with one new."""
    data = value if isinstance(value, bytes) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def mark(policy: str) -> str:
    """The short hash of a policy's key in the annotation of a report."""
    return f"{zlib.crc32(policy.encode()):08x}"


def results_digest(results: Iterable[Result]) -> str:
    """The hash of results, whenever they came."""
    return digest([timeless(r) for r in sorted(results, key=key_of_result)])


def timeless(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result of a report, whenever it came."""
    return {key: value for key, value in result.items() if key != "timestamp"}


def _is_ours(result: Mapping[str, Any]) -> bool:
    return result.get("source", SOURCE) in (SOURCE, NATIVE)


def _is_given(rules: Rules, result: Mapping[str, Any]) -> bool:
    return owner_of(rules, key_of_result(result)) != "scan"
