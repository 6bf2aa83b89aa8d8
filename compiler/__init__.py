"""The compiler from policy documents to a bundle: the one door that the runtime and the command line use.

``load_documents`` reads YAML with spans, ``compile_policies`` does the rest: schema, autogen, front ends, passes,
code, bytes. Both import what they need when they are called, so that a command that compiles nothing pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compiler.diagnostics import Diagnostic, Reporter
    from compiler.pipeline import Observer
    from compiler.source import Document
    from vm.bundle import Signer

__all__ = ["CompileResult", "Options", "PolicyStats", "Stats", "compile_policies", "load_documents"]


@dataclass(frozen=True, slots=True)
class Options:
    """``level`` of optimisation (0, 1, 2); ``strict`` makes errors of warnings; ``cel_strict`` reads CEL as the API
    server does, where quantities are texts; ``strip`` leaves out the debug section; ``observer`` is told of the module
    after each pass. Neither it nor ``sign`` changes the code. ``crds`` are CustomResourceDefinitions, as JSON, whose
    kinds are known beside those of Kubernetes. ``parts``: the debug section tells parts of statements apart (clauses of
    ``match``), for code that is to be explained. ``objects``: the bundle holds the policies as they were written too,
    which a cluster needs that has its policies from bundles. ``quirks`` ``"kyverno"`` gives the reference's answers
    where it is wrong and Thesmos is not, but for what keeps namespaces apart."""

    level: int = 2
    strict: bool = False
    cel_strict: bool = False
    quirks: str = ""
    strip: bool = False
    sign: Signer | None = None
    observer: Observer | None = field(default=None, compare=False)
    crds: tuple[dict[str, Any], ...] = field(default=(), compare=False)
    parts: bool = False
    objects: bool = False

    @property
    def fingerprint(self) -> str:
        """What of the options the code depends on, as the bundle's header tells it."""
        plain = f"O{self.level}"
        if self.cel_strict:
            plain += " cel-strict"
        if self.quirks:
            plain += f" quirks={self.quirks}"
        if not self.crds:
            return plain
        from hashlib import sha256

        import orjson

        return f"{plain} crds {sha256(orjson.dumps(self.crds, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class PolicyStats:
    """Of one policy: its rules (autogen's included), the bytes of their code, and the seconds its compilation took."""

    name: str
    rules: int
    code_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Stats:
    """Where time and bytes went: ``stages`` and ``passes`` in seconds by name, in order; ``bundle_bytes`` 0 without a
    bundle."""

    policies: tuple[PolicyStats, ...] = ()
    stages: Mapping[str, float] = field(default_factory=dict)
    passes: Mapping[str, float] = field(default_factory=dict)
    bundle_bytes: int = 0

    @property
    def seconds(self) -> float:
        return sum(self.stages.values())


@dataclass(frozen=True, slots=True)
class CompileResult:
    """``bundle`` is None when some diagnostic is an error."""

    bundle: bytes | None
    diagnostics: tuple[Diagnostic, ...]
    stats: Stats


def load_documents(text: str, origin: str, reporter: Reporter) -> list[Document]:
    """The documents of a YAML text with their spans; see :func:`compiler.source.load_documents`."""
    from compiler import source

    return source.load_documents(text, origin, reporter)


def compile_policies(docs: Iterable[Document], *, options: Options | None = None) -> CompileResult:
    """Compiles the policies and exceptions of the documents into one bundle. Never raises for what the documents
    hold."""
    from compiler.compilation import Compilation

    return Compilation(tuple(docs), options or Options()).run()
