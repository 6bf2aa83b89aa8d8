"""Loads ``kyverno-test.yaml`` documents, runs them, and compares what came out with what they expect.

``thesmos test`` prints the result; the conformance runner counts it by stricter rules. Decoding is strict: an unknown
field is an error, since a misspelt expectation would otherwise pass for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from runtime.cli.archives import is_archive
from runtime.cli.files import (
    fitting,
    identity,
    read_policies,
    read_resources,
    read_values,
    with_namespace,
    without_duplicates,
)
from runtime.cli.namespaces import unlabelled
from runtime.cli.offline import MACHINE, Answer, Backend, Policies
from runtime.cli.problem import Problem
from runtime.cli.supplies import of_test
from runtime.cli.values import Values, load_user_info, load_values_file, operation_of, parse_values
from runtime.engine import RuleResult
from runtime.request import UserInfo
from vm.intrinsics.wildcard import match as wildcard
from vm.values import json_equal

if TYPE_CHECKING:
    from compiler.source import Document

API_VERSION: Final = "cli.kyverno.io/v1alpha1"
STATUSES: Final = ("pass", "fail", "skip", "warn", "error")

FIELDS: Final = (
    "apiVersion",
    "kind",
    "metadata",
    "policies",
    "resources",
    "targetResources",
    "paramResources",
    "exceptions",
    "variables",
    "values",
    "userinfo",
    "context",
    "clusterResources",
    "jsonPayload",
    "jsonPayloads",
    "httpPayloads",
    "envoyPayloads",
    "apiCallResponses",
    "globalContextEntries",
    "results",
    "checks",
    "crds",
)
RESULT_FIELDS: Final = (
    "policy",
    "rule",
    "resources",
    "resourceSpecs",
    "kind",
    "operation",
    "result",
    "patchedResources",
    "generatedResource",
    "generatedResources",
    "cloneSourceResource",
    "failOnMissingResources",
    "isValidatingAdmissionPolicy",
    "isMutatingAdmissionPolicy",
    "isValidatingPolicy",
    "isMutatingPolicy",
    "isGeneratingPolicy",
    "isDeletingPolicy",
    "isImageValidatingPolicy",
)
FLAGS: Final = tuple(f for f in RESULT_FIELDS if f.startswith(("is", "failOn")))
DROPPED: Final = "dropped"
CLASSIC: Final = ("ClusterPolicy", "Policy")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of ``results``. ``resources`` are names or ``namespace/name``; empty means all."""

    position: int
    policy: str
    rule: str
    kind: str
    operation: str
    result: str
    resources: tuple[str, ...]
    specs: tuple[dict[str, Any], ...]
    patched: str
    generated: tuple[str, ...]
    fail_on_missing: bool
    source: str = ""


@dataclass(frozen=True, slots=True)
class TestDocument:
    """One test of a file; paths inside are relative to ``folder``."""

    path: Path
    index: int
    name: str
    folder: Path
    raw: dict[str, Any] = field(repr=False)
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """One entry against one resource it names (or all, when it names none).

    ``state`` is ``ok``, ``differs`` (a status or a resource is not the expected one), ``excluded`` (the policy has no
    response of that rule), ``dropped`` (the file of patched resources says nothing of this one), ``refused`` (the
    policy did not compile) or ``missing`` (no such policy or resource).
    """

    entry: Entry
    resource: str
    state: str
    reason: str
    message: str = ""
    responses: tuple[tuple[Answer, RuleResult], ...] = ()

    @property
    def passed(self) -> bool:
        """By the reference's rules: what was excluded or refused counts as passed."""
        return self.state in ("ok", "excluded", "dropped", "refused")


@dataclass(frozen=True, slots=True)
class TestRun:
    """A test document as it ran."""

    document: TestDocument
    policies: Policies
    answers: tuple[Answer, ...]
    checks: tuple[Check, ...]
    warnings: tuple[str, ...] = ()


def find_test_files(paths: Iterable[Path | str], file_name: str = "kyverno-test.yaml") -> list[Path]:
    """Test files named, and those of that name anywhere below the folders named, in sorted order."""
    found: list[Path] = []
    for path in (path for given in paths for path in fitting(str(given))):
        if is_archive(path):
            raise Problem(f"{path}: tests are not read from archives, unpack it first")
        if path.is_dir():
            found += sorted(p for p in path.rglob(file_name) if p.is_file())
        elif path.is_file():
            found.append(path)
        else:
            raise Problem(f"{path}: no such file or directory")
    return found


def load_tests(path: Path) -> list[TestDocument]:
    """The tests of one file. Raises :class:`Problem` for anything that is no test or holds an unknown field."""
    tests = []
    for index, raw in enumerate(read_values(path)):
        if raw is None:
            continue
        if type(raw) is not dict:
            raise Problem(f"{path}: document {index + 1} is no map")
        # Kyverno quirk: the group and version are not looked at, but must be there.
        if raw.get("kind") != "Test" or not raw.get("apiVersion"):
            raise Problem(f"{path}: document {index + 1} is no Test of {API_VERSION}")
        raw = _known(raw, FIELDS, f"{path}")
        metadata = raw.get("metadata") or {}
        name = metadata.get("name") if type(metadata) is dict else None
        entries = tuple(
            _entry(entry, position, f"{path}: results[{position}]")
            for position, entry in enumerate(_list(raw, "results", path))
        )
        tests.append(TestDocument(path, index, str(name or path.parent.name), path.parent, raw, entries))
    return tests


def run_test(document: TestDocument, backend: Backend = MACHINE) -> TestRun:
    """Loads what a test names, evaluates every resource, and compares. Raises :class:`Problem` when a file fails."""
    raw, folder = document.raw, document.folder
    files, read_problems, texts = read_policies(folder / p for p in _paths(raw, "policies", document.path))
    _stop_on_errors(document, read_problems, texts)
    exceptions = _exceptions(document)
    policies = backend.load(files, exceptions)
    for refused in policies.refused:
        if refused.kind == "PolicyException":
            raise Problem(f"{document.path}: exception {refused.name} is refused: {refused.reason}")
    user = _user_info(document)
    resources, dropped = without_duplicates(read_resources(folder / p for p in _paths(raw, "resources", document.path)))
    params = read_resources(folder / p for p in _paths(raw, "paramResources", document.path))
    outside = of_test(raw, folder, document.path, policies.entries)
    targets = read_resources(folder / p for p in _paths(raw, "targetResources", document.path))
    values = _values(document).with_objects(resources, params)
    copied = read_resources(dict.fromkeys(folder / e.source for e in document.entries if e.source))
    sources = tuple(without_duplicates([*copied, *resources])[0])
    if outside.objects is not None:
        values = values.with_namespaces(outside.objects.all())
    values = replace(values, outside=outside, targets=tuple(without_duplicates(targets)[0]), sources=sources)
    operations = {e.operation for e in document.entries if e.operation}
    default = operation_of(values.everywhere)
    answers: list[Answer] = []
    for operation in (None, *sorted(operations - {default})):
        for resource in resources:
            answers += backend.evaluate(policies, resource, values, user, operation)
    checks = tuple(compare(document, policies, answers, [*resources, *targets], default))
    remarks = [f"resource {name} is given twice, the first one counts" for name in dropped]
    remarks += [*unlabelled(policies.loaded, resources, values), *outside.lacking]
    warnings = tuple(f"{document.path}: {remark}" for remark in remarks)
    return TestRun(document, policies, tuple(answers), checks, warnings)


def compare(
    document: TestDocument,
    policies: Policies,
    answers: Iterable[Answer],
    resources: list[dict[str, Any]],
    default_operation: str = "CREATE",
) -> Iterator[Check]:
    """A check for each entry and each resource it names."""
    by_policy: dict[str, list[Answer]] = {}
    for answer in answers:
        by_policy.setdefault(answer.policy.name, []).append(answer)
    refused = {r.name.rpartition("/")[2] for r in policies.refused}
    for entry in document.entries:
        operation = entry.operation or default_operation
        name = entry.policy.rpartition("/")[2]
        found = [a for a in by_policy.get(name, ()) if not entry.operation or a.operation == operation]
        if not entry.operation:
            found = _first_evaluation(found)
        named: list[str | dict[str, Any]] = [*entry.resources, *entry.specs]
        present = any(names(n, r) for n in named for r in resources)
        if not named:
            yield _check(document, entry, "", None, found, name in refused)
        for wanted in named:
            yield _check(document, entry, label(wanted), wanted if present else None, found, name in refused)


def _first_evaluation(answers: list[Answer]) -> list[Answer]:
    """Without the evaluations that other entries asked for by operation: the first one of each resource and phase."""
    seen: dict[tuple[Any, ...], str] = {}
    kept = []
    for answer in answers:
        key = (answer.policy.key, answer.mutation, *identity(answer.resource))
        if seen.setdefault(key, answer.operation) == answer.operation:
            kept.append(answer)
    return kept


def _check(
    document: TestDocument,
    entry: Entry,
    shown: str,
    wanted: str | dict[str, Any] | None,
    answers: list[Answer],
    refused: bool,
) -> Check:
    if refused:
        return Check(entry, shown, "refused", "the policy does not compile")
    mine = [a for a in answers if wanted is None or names(wanted, a.resource)]
    if not mine:
        return Check(entry, shown, "missing", "Not found")
    responses = tuple((a, r) for a in mine for r in a.results if _rule_named(entry.rule, r.rule, a))
    if not responses:
        return Check(entry, shown, "excluded", "Excluded")
    verdicts = [_differs(document, entry, a, r) for a, r in responses]
    message = responses[0][1].message
    problem = next((v for v in verdicts if v and v != DROPPED), "")
    if not problem and all(v == DROPPED for v in verdicts):
        return Check(entry, shown, "dropped", "Excluded", message, responses)
    return Check(entry, shown, "differs" if problem else "ok", problem or "Ok", message, responses)


def _rule_named(wanted: str, rule: str, answer: Answer) -> bool:
    if not wanted or answer.policy.kind not in CLASSIC:
        return True
    return rule in (wanted, f"autogen-{wanted}", f"autogen-cronjob-{wanted}")


def _differs(document: TestDocument, entry: Entry, answer: Answer, result: RuleResult) -> str:
    """Why a response is not the expected one, empty when it is."""
    if result.kind in ("mutate", "mutateExisting") and entry.patched:
        expected = _expected_resource(document.folder / entry.patched, answer.patched)
        if expected is None:
            return "Resource missing from the file of patched resources" if entry.fail_on_missing else DROPPED
        if not same_resource(expected, answer.patched):
            return "Resource diff"
    if result.kind == "generate" and entry.generated:
        for made in answer.made.get(result.rule, ()):
            written = [_expected_resource(document.folder / path, made) for path in entry.generated]
            found = [w for w in written if w is not None]
            if not found:
                return "Resource missing from the files of generated resources"
            if not any(same_resource(w, made) for w in found):
                return "Resource diff"
    status = result.report_status()
    return "" if status == entry.result else f"Want {entry.result}, got {status}"


def _expected_resource(path: Path, actual: Any) -> dict[str, Any] | None:
    wanted = identity(with_namespace(actual))
    for resource in read_resources([path]):
        if identity(resource) == wanted:
            return resource
    return None


def same_resource(expected: Any, actual: Any) -> bool:
    """Equality as the reference's test command sees it: nulls and empty maps and lists count as absent."""
    return json_equal(_bare(_labelled(expected)), _bare(_labelled(actual)))


def _labelled(resource: Any) -> Any:
    if type(resource) is not dict:
        return resource
    metadata = resource.get("metadata")
    metadata = dict(metadata) if type(metadata) is dict else {}
    labels = metadata.get("labels")
    labels = dict(labels) if type(labels) is dict else {}
    labels = {k: v for k, v in labels.items() if not str(k).startswith("generate.kyverno.io/")}
    labels["app.kubernetes.io/managed-by"] = "kyverno"
    metadata["labels"] = labels
    return {**resource, "metadata": metadata}


def _bare(value: Any) -> Any:
    if type(value) is dict:
        kept = {k: _bare(v) for k, v in value.items()}
        return {k: v for k, v in kept.items() if not _nothing(v)}
    if type(value) is list:
        items = [_bare(v) for v in value]
        return [v for v in items if not _nothing(v)]
    return value


def _nothing(value: Any) -> bool:
    return value is None or (type(value) in (dict, list) and not value)


def names(wanted: str | dict[str, Any], resource: dict[str, Any]) -> bool:
    """Whether an entry's resource (``name``, ``namespace/name`` or a map of ``resourceSpecs``) means this object."""
    api_version, _, namespace, name = identity(resource)
    if isinstance(wanted, str):
        return wanted in (name, f"{namespace}/{name}")
    group, slash, version = api_version.partition("/")
    if not slash:
        group, version = "", group
    found = {"group": group, "version": version, "namespace": namespace, "name": name}
    return all(not v or str(v) == found.get(k, "") for k, v in wanted.items())


def label(wanted: str | dict[str, Any] | None) -> str:
    """How a check calls its resource."""
    if wanted is None:
        return ""
    if isinstance(wanted, str):
        return wanted
    parts = (str(wanted.get("namespace") or ""), str(wanted.get("name") or ""))
    return "/".join(p for p in parts if p)


@dataclass(frozen=True, slots=True)
class Selector:
    """``--test-case-selector``: wildcards on policy, rule and resource."""

    policy: str = "*"
    rule: str = "*"
    resource: str = "*"

    @classmethod
    def parse(cls, text: str) -> Selector:
        found: dict[str, str] = {}
        for part in filter(None, (p.strip() for p in text.split(","))):
            key, sign, value = part.partition("=")
            if not sign or key.strip() not in ("policy", "rule", "resource"):
                raise Problem(f"--test-case-selector {text}: expected policy=…, rule=… and resource=… joined by commas")
            found[key.strip()] = value.strip()
        return cls(**found)

    def admits(self, entry: Entry) -> Entry | None:
        """The entry with the resources that the selector leaves, None when it leaves nothing."""
        if not (wildcard(self.policy, entry.policy) and wildcard(self.rule, entry.rule)):
            return None
        kept = tuple(r for r in entry.resources if wildcard(self.resource, r))
        if entry.resources and not kept:
            return None
        return _with_resources(entry, kept)


def _with_resources(entry: Entry, resources: tuple[str, ...]) -> Entry:
    from dataclasses import replace

    return replace(entry, resources=resources)


def _exceptions(document: TestDocument) -> list[Document]:
    paths = _paths(document.raw, "exceptions", document.path)
    if not paths:
        return []
    files, problems, texts = read_policies(document.folder / p for p in paths)
    _stop_on_errors(document, problems, texts)
    return [d for file in files for d in file.documents if d.value.get("kind") == "PolicyException"]


def _stop_on_errors(document: TestDocument, diagnostics: Iterable[Any], texts: dict[str, str]) -> None:
    errors = [d for d in diagnostics if d.severity == "error"]
    if errors:
        from compiler.diagnostics import render_all

        raise Problem(f"{document.path}: a policy file cannot be read", render_all(errors, texts))


def _values(document: TestDocument) -> Values:
    inline = document.raw.get("values")
    if inline is not None:
        if type(inline) is not dict:
            raise Problem(f"{document.path}: values is no map")
        return parse_values(inline, f"{document.path}: values")
    path = document.raw.get("variables")
    return load_values_file(document.folder / str(path)) if path else Values()


def _user_info(document: TestDocument) -> UserInfo | None:
    path = document.raw.get("userinfo")
    return load_user_info(document.folder / str(path)) if path else None


def _entry(raw: Any, position: int, where: str) -> Entry:
    if type(raw) is not dict:
        raise Problem(f"{where} is no map")
    raw = _known(raw, RESULT_FIELDS, where)
    result = raw.get("result")
    if result not in STATUSES:
        raise Problem(f"{where}: result is {result!r}, expected one of {', '.join(STATUSES)}".replace("'", ""))
    for flag in FLAGS:
        if flag in raw and type(raw[flag]) is not bool:
            raise Problem(f"{where}: {flag} is no boolean")
    operation = str(raw.get("operation") or "")
    if operation and operation not in ("CREATE", "UPDATE", "DELETE"):
        raise Problem(f"{where}: operation is {operation}, expected CREATE, UPDATE or DELETE")
    if operation and raw.get("isDeletingPolicy"):
        raise Problem(f"{where}: operation cannot be given for a DeletingPolicy")
    if not raw.get("policy"):
        raise Problem(f"{where}: policy is missing")
    generated = [raw["generatedResource"]] if raw.get("generatedResource") else []
    generated += _list(raw, "generatedResources", where)
    return Entry(
        position=position,
        policy=str(raw["policy"]),
        rule=str(raw.get("rule") or ""),
        kind=str(raw.get("kind") or ""),
        operation=operation,
        result=str(result),
        resources=tuple(map(str, _list(raw, "resources", where))),
        specs=tuple(s for s in _list(raw, "resourceSpecs", where) if type(s) is dict),
        patched=str(raw.get("patchedResources") or ""),
        generated=tuple(map(str, generated)),
        fail_on_missing=raw.get("failOnMissingResources") is True,
        source=str(raw.get("cloneSourceResource") or ""),
    )


def _known(raw: dict[str, Any], fields: tuple[str, ...], where: str) -> dict[str, Any]:
    """The map with its fields as they are spelt here. Case does not count, since Go's decoder does not look at it."""
    from difflib import get_close_matches

    spelt = {field.lower(): field for field in fields}
    found: dict[str, Any] = {}
    for key, value in raw.items():
        field = spelt.get(str(key).lower())
        if field is None:
            near = get_close_matches(str(key), fields, 1)
            raise Problem(f"{where}: unknown field {key}" + (f", did you mean {near[0]}" if near else ""))
        found[field] = value
    return found


def _paths(raw: dict[str, Any], key: str, where: Path) -> list[str]:
    return [str(p) for p in _list(raw, key, where)]


def _list(raw: dict[str, Any], key: str, where: Any) -> list[Any]:
    value = raw.get(key)
    if value is None:
        return []
    if type(value) is not list:
        raise Problem(f"{where}: {key} is no list")
    return value
