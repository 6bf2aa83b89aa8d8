"""Reads what commands are given by path: policy files and folders, resources, and the small documents beside them.

Every reader raises :class:`runtime.cli.problem.Problem` with the file's name for whatever is wrong; none lets an
``OSError`` or a YAML error through.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from runtime.bundles import is_bundle, reason
from runtime.cli.archives import Member, is_archive, members
from runtime.cli.problem import Problem

if TYPE_CHECKING:
    from compiler.diagnostics import Diagnostic
    from compiler.source import Document

SUFFIXES: Final = (".yaml", ".yml", ".json")
STDIN: Final = "-"
REMOTE: Final = ("http://", "https://", "git://", "ssh://", "oci://", "git@")

POLICY_GROUPS: Final = ("kyverno.io", "policies.kyverno.io", "admissionregistration.k8s.io")
POLICY_KINDS: Final = ("Policy", "ClusterPolicy", "CleanupPolicy", "ClusterCleanupPolicy", "PolicyException")

CLUSTER_WIDE: Final = frozenset(
    {
        ("", "Namespace"),
        ("", "Node"),
        ("", "PersistentVolume"),
        ("", "ComponentStatus"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "APIService"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
        ("certificates.k8s.io", "CertificateSigningRequest"),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
        ("networking.k8s.io", "IngressClass"),
        ("node.k8s.io", "RuntimeClass"),
        ("policy", "PodSecurityPolicy"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("storage.k8s.io", "CSIDriver"),
        ("storage.k8s.io", "CSINode"),
        ("storage.k8s.io", "StorageClass"),
        ("storage.k8s.io", "VolumeAttachment"),
        ("resource.k8s.io", "DeviceClass"),
        ("kyverno.io", "ClusterPolicy"),
        ("kyverno.io", "ClusterCleanupPolicy"),
    }
)
"""Built-in kinds without a namespace, as (group, kind); offline there is no discovery to ask."""


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """Policy documents of one file (or of stdin)."""

    name: str
    documents: tuple[Document, ...]


def read_text(path: Path | str | Member) -> str:
    """The text of a file, of a member of an archive, or of stdin for ``-``."""
    if isinstance(path, Member):
        return path.text
    if path == STDIN:
        return sys.stdin.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Problem(f"{path}: {reason(error)}") from None
    except UnicodeDecodeError as error:
        raise Problem(f"{path}: is no UTF-8 text (byte {error.start})") from None


def expand(paths: Iterable[Path | str]) -> Iterator[Path | str | Member]:
    """Files as given, and in sorted order what globs fit, and the YAML and JSON files of folders and archives, hidden
    ones left out."""
    for given in paths:
        if given == STDIN:
            yield STDIN
            continue
        for path in fitting(str(given)):
            if is_archive(path):
                yield from members(path)
            elif path.is_dir():
                yield from _below(path)
            else:
                yield path


def fitting(given: str) -> list[Path]:
    """The paths that one argument means: itself, or those that fit it where it is a glob."""
    if given.startswith(REMOTE) or (given.endswith(".git") and not os.path.exists(given)):
        raise Problem(f"{given}: URLs and git repositories are not read, download the files first")
    if not any(sign in given for sign in "*?[") or os.path.exists(given):
        return [Path(given)]
    from glob import glob

    found = sorted(glob(given, recursive=True))
    if not found:
        raise Problem(f"{given}: no file fits")
    return [Path(path) for path in found]


def _below(path: Path) -> list[Path]:
    try:
        found = sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file() and not _hidden(p, path))
    except OSError as error:
        raise Problem(f"{path}: {reason(error)}") from None
    if not found:
        raise Problem(f"{path}: the folder holds no {', '.join(SUFFIXES)} file")
    return found


def _hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)


def read_policies(
    paths: Iterable[Path | str], *, among_others: bool = False
) -> tuple[list[PolicyFile], list[Diagnostic], dict[str, str]]:
    """Policy documents of files and folders, with the diagnostics of reading them and the text of each file.

    In a folder, files without a policy are passed over; a file named by itself must hold one, unless policies are
    looked for ``among_others``.
    """
    from compiler.diagnostics import Reporter
    from compiler.source import load_documents

    reporter = Reporter()
    files: list[PolicyFile] = []
    texts: dict[str, str] = {}
    given = [str(p) for p in paths]
    named = {STDIN if p == STDIN else Path(p) for p in given}
    several = [p for p in given if p != STDIN and (is_archive(Path(p)) or not os.path.isfile(p))]
    for path in expand(given):
        if isinstance(path, Path) and is_bundle(path):
            raise Problem(f"{path}: is a bundle, where policies are expected")
        text = read_text(path)
        name = "stdin" if path == STDIN else str(path)
        before = reporter.errors
        documents = load_documents(text, name, reporter)
        policies = tuple(d for d in documents if is_policy(d.value))
        if policies or reporter.errors > before:
            texts[name] = text
            files.append(PolicyFile(name, policies))
        elif path in named and not among_others:
            raise Problem(f"{name}: holds no policy")
    if several and not files and not among_others:
        raise Problem(f"{several[0]}: none of its files holds a policy")
    return files, reporter.diagnostics, texts


def is_policy(value: Any) -> bool:
    """Whether a document is meant as a policy, an exception or a binding, of a kind that is built or not.

    The kind alone does not tell: other products have a Policy or a ClusterPolicy too.
    """
    if type(value) is not dict:
        return False
    group = str(value.get("apiVersion") or "").partition("/")[0]
    kind = value.get("kind")
    if group == "cli.kyverno.io" or type(kind) is not str:
        return False
    if group == "admissionregistration.k8s.io":
        return "AdmissionPolicy" in kind
    return group in POLICY_GROUPS or (kind in POLICY_KINDS and (not group or "kyverno" in group))


def read_values(path: Path | str | Member) -> list[Any]:
    """Every document of a YAML or JSON file, Lists unpacked."""
    from compiler.source import SourceError, load_values

    text = read_text(path)
    try:
        return load_values(text)
    except SourceError as error:
        from compiler.diagnostics import Diagnostic, render

        span = replace(error.span, file=str(path))
        shown = Diagnostic(error.code, "error", span, error.message, error.expected, error.help)
        raise Problem(f"{path}: cannot be read as YAML", render(shown, text)) from None


def read_mapping(path: Path | str, kinds: tuple[str, ...] = ()) -> dict[str, Any]:
    """The only document of a file, which must be a map (and of one of ``kinds``, when given)."""
    documents = [d for d in read_values(path) if d is not None]
    if len(documents) != 1 or type(documents[0]) is not dict:
        raise Problem(f"{path}: holds {len(documents)} documents, where one map is expected")
    document: dict[str, Any] = documents[0]
    kind = document.get("kind")
    if kinds and kind is not None and kind not in kinds:
        raise Problem(f"{path}: is of kind {kind}, where {' or '.join(kinds)} is expected")
    return document


def read_resources(paths: Iterable[Path | str]) -> list[dict[str, Any]]:
    """Kubernetes objects of files and folders, in order, the namespace set to ``default`` where a kind has one."""
    found: list[dict[str, Any]] = []
    for path in expand(paths):
        for value in read_values(path):
            if value is None:
                continue
            if type(value) is not dict or type(value.get("kind")) is not str or "apiVersion" not in value:
                raise Problem(f"{path}: holds a document that is no Kubernetes object (no apiVersion and kind)")
            found.append(with_namespace(value))
    return found


def with_namespace(resource: dict[str, Any]) -> dict[str, Any]:
    """The object in namespace ``default`` when it names none and its kind lives in one."""
    metadata = resource.get("metadata")
    if metadata is None:
        metadata = {}
    if type(metadata) is not dict or metadata.get("namespace"):
        return resource
    group = str(resource.get("apiVersion", ""))
    group = group.partition("/")[0] if "/" in group else ""
    if (group, resource.get("kind")) in CLUSTER_WIDE:
        return resource
    return {**resource, "metadata": {**metadata, "namespace": "default"}}


def identity(resource: dict[str, Any]) -> tuple[str, str, str, str]:
    """(apiVersion, kind, namespace, name) of an object."""
    metadata = resource.get("metadata")
    metadata = metadata if type(metadata) is dict else {}
    return (
        str(resource.get("apiVersion") or ""),
        str(resource.get("kind") or ""),
        str(metadata.get("namespace") or ""),
        str(metadata.get("name") or ""),
    )


def without_duplicates(resources: Iterable[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Objects without those whose identity came before, and a text for each that was dropped."""
    seen: set[tuple[str, str, str, str]] = set()
    kept: list[dict[str, Any]] = []
    dropped: list[str] = []
    for resource in resources:
        key = identity(resource)
        if key[3] and key in seen:
            dropped.append("/".join(part for part in key if part))
            continue
        seen.add(key)
        kept.append(resource)
    return kept, dropped
