"""Policy texts and policy objects to bundle bytes: the compiler as the server calls it.

``runtime.webhook.serve`` compiles files with it, the policy controller compiles objects of the cluster, the policy
webhook asks it whether a policy may be stored. An object has no file, so it is shown as the YAML it stands for; the
compiler's own diagnostics, caret included, then point into that.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from compiler.diagnostics import Diagnostic
    from compiler.schema.model import Policy

_PLAIN: Final = re.compile(r"[A-Za-z/](?:[A-Za-z0-9_./ -]*[A-Za-z0-9_./-])?")
_WORDS: Final = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null", "inf", "nan"])
_HIDDEN_METADATA: Final = ("managedFields", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

RECENT: Final = 16
"""Outcomes of the compiler that are kept for whoever asks for the same again."""


class CompileProblem(Exception):
    """Policies that cannot be compiled; the text is the rendered diagnostics."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """The outcome for one text: the bundle, or None with errors in ``report``; ``warnings`` are one line each."""

    bundle: bytes | None
    policies: tuple[Policy, ...]
    report: str
    summary: str
    warnings: tuple[str, ...] = ()


_lock: Final = threading.Lock()
_recent: Final[dict[tuple[Any, ...], tuple[Compiled, tuple[Mapping[str, Any], ...]]]] = {}


def compile_text(
    text: str, origin: str, *, cel_strict: bool = False, quirks: str = "", crds: Iterable[Mapping[str, Any]] = ()
) -> Compiled:
    """Compiles every policy of a YAML text. Never raises for what the text holds. Of ``crds`` those count whose kind
    the text names.

    The last few outcomes are kept: the webhook compiles a policy to judge it, and a moment later the controller the
    same text to make it live.
    """
    named = tuple(crd for crd in crds if kind_of_crd(crd) in text)
    key = (text, origin, cel_strict, quirks, *map(id, named))
    with _lock:
        kept = _recent.get(key)
    if kept is not None:
        return kept[0]
    compiled = _compile(text, origin, cel_strict, quirks, named)
    with _lock:
        # The definitions too, lest another comes to have the identity of one of these.
        _recent[key] = compiled, named
        while len(_recent) > RECENT:
            del _recent[next(iter(_recent))]
    return compiled


def _compile(text: str, origin: str, cel_strict: bool, quirks: str, crds: Sequence[Mapping[str, Any]]) -> Compiled:
    from compiler import Options, compile_policies
    from compiler.diagnostics import Reporter, render
    from compiler.source import load_documents

    reporter = Reporter()
    documents = load_documents(text, origin, reporter)
    if reporter.failed:
        return _failed(reporter.diagnostics, text)
    options = Options(cel_strict=cel_strict, quirks=quirks, crds=tuple(dict(crd) for crd in crds))
    result = compile_policies(documents, options=options)
    if result.bundle is None:
        return _failed(result.diagnostics, text)
    shown = [d for d in result.diagnostics if d.severity == "warning"]
    return Compiled(
        result.bundle,
        models_of(text, origin),
        "\n\n".join(render(d, text) for d in shown),
        "",
        tuple(_warning(d) for d in shown),
    )


def models_of(text: str, origin: str) -> tuple[Policy, ...]:
    """The policies of a text that has been compiled before: what :attr:`Compiled.policies` was."""
    from compiler.diagnostics import Reporter
    from compiler.schema import read_policies
    from compiler.source import load_documents

    return tuple(read_policies(load_documents(text, origin, Reporter()), Reporter())[0])


def updated(before: str, text: str, compiled: Compiled) -> Compiled:
    """A policy that compiles, held against the text of what it takes the place of: refused when it changes what may not
    change of a generate rule, else with the warnings of the change."""
    from compiler.diagnostics import Reporter, render
    from compiler.schema import read_policies
    from compiler.schema.update_rules import check_update
    from compiler.source import load_documents

    old, _ = read_policies(load_documents(before, "before", Reporter()), Reporter())
    reporter = Reporter()
    for policy in compiled.policies:
        for earlier in old:
            if (earlier.kind, earlier.key) == (policy.kind, policy.key):
                check_update(earlier, policy, reporter)
    if reporter.failed:
        return _failed(reporter.diagnostics, text)
    told = reporter.diagnostics
    report = "\n\n".join([*([compiled.report] if compiled.report else []), *(render(d, text) for d in told)])
    return replace(compiled, report=report, warnings=(*compiled.warnings, *(_warning(d) for d in told)))


def compile_files(paths: Iterable[Path], *, cel_strict: bool = False, quirks: str = "") -> list[Compiled]:
    """Compiles files and the YAML files of folders. Raises :class:`CompileProblem` for the first that does not."""
    found = [compile_text(_read(path), str(path), cel_strict=cel_strict, quirks=quirks) for path in _yaml_files(paths)]
    failed = [c.report for c in found if c.bundle is None]
    if failed:
        raise CompileProblem("\n\n".join(failed))
    if not found:
        raise CompileProblem("no policy files: " + ", ".join(str(p) for p in paths))
    return found


def object_text(obj: Mapping[str, Any]) -> str:
    """A policy object as the YAML that a person would have written: no status, nothing that the API server added."""
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k not in _HIDDEN_METADATA}
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != _LAST_APPLIED}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    shown = {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), "metadata": metadata}
    shown |= {k: v for k, v in obj.items() if k not in ("apiVersion", "kind", "metadata", "status")}
    return yaml.dump(shown, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)


def kind_of_crd(crd: Mapping[str, Any]) -> str:
    """The kind that a CustomResourceDefinition defines."""
    return str(((crd.get("spec") or {}).get("names") or {}).get("kind") or crd)


def origin_of(obj: Mapping[str, Any]) -> str:
    """What stands where a file name would: ``ClusterPolicy/name`` or ``Policy/namespace/name``."""
    metadata = obj.get("metadata") or {}
    parts = [str(obj.get("kind", "")), str(metadata.get("namespace") or ""), str(metadata.get("name", ""))]
    return "/".join(p for p in parts if p)


def _failed(diagnostics: Iterable[Diagnostic], text: str) -> Compiled:
    from compiler.diagnostics import render

    errors = [d for d in diagnostics if d.severity == "error"]
    first = _line(errors[0]) if errors else "the policy does not compile"
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return Compiled(None, (), "\n\n".join(render(d, text) for d in errors), first + more)


def _line(diagnostic: Diagnostic) -> str:
    span = diagnostic.span
    where = "" if span is None else f"{span.file}:{span.line}:{span.column}: "
    return f"{where}{diagnostic.message} [{diagnostic.code}]"


def _warning(diagnostic: Diagnostic) -> str:
    """What kubectl prints after ``Warning:``. The text comes first, since people and scripts look for Kyverno's."""
    span = diagnostic.span
    where = "" if span is None else f" ({span.file}:{span.line}:{span.column})"
    return f"{diagnostic.message} [{diagnostic.code}]{where}"


def _yaml_files(paths: Iterable[Path]) -> Iterable[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.suffix in (".yaml", ".yml"))
        else:
            yield path


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CompileProblem(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise CompileProblem(f"{path}: is no UTF-8 text") from None


class _Dumper(yaml.CSafeDumper):
    """Writes texts so that they read back as texts under the Kubernetes rules, which differ from PyYAML's own."""

    def ignore_aliases(self, data: Any) -> bool:
        """Always: a policy holds no anchors, and equal parts are no sign of one."""
        return True


def _represent_text(dumper: yaml.representer.SafeRepresenter, text: str) -> yaml.ScalarNode:
    if "\n" in text:
        style: str | None = "|"
    elif _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        style = None
    else:
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
