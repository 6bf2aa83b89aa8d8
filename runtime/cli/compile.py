"""``thesmos compile``: policy files and folders to one bundle, the same bytes that the webhook runs."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from runtime.bundles import reason
from runtime.cli.crdfiles import add_crd_flag, read_crds
from runtime.cli.problem import Problem, counted

if TYPE_CHECKING:
    from compiler import CompileResult, Stats
    from compiler.diagnostics import Diagnostic
    from compiler.ir.ops import Module


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``compile``."""
    parser.epilog = (
        "Exit code 0 when a bundle came out, 2 when a policy is refused or a file cannot be read or written."
    )
    parser.add_argument("policies", nargs="+", metavar="PATH", help="policy files or folders; - reads stdin")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write the bundle (default: check only)")
    parser.add_argument("--sign", metavar="PEM", help="sign with this ed25519 private key")
    parser.add_argument("--strip", action="store_true", help="leave out the debug section (policy lines in inspect)")
    parser.add_argument(
        "--with-objects",
        action="store_true",
        help="put the policies as they were written into the bundle too: for a cluster that has its policies from it",
    )
    parser.add_argument(
        "--oci", metavar="FOLDER[:TAG]", help="write the bundle into a folder of the OCI image layout too"
    )
    parser.add_argument("-O", dest="level", type=int, choices=(0, 1, 2), default=2, help="optimisation level")
    parser.add_argument("--strict", action="store_true", help="make errors of warnings")
    parser.add_argument("--cel-strict", action="store_true", help="plain CEL: quantities are texts")
    parser.add_argument(
        "--quirks", choices=("kyverno",), default="", help="give Kyverno's answers where they are known to be wrong"
    )
    add_crd_flag(parser)
    parser.add_argument(
        "--print-after", action="append", default=[], metavar="PASS", help="print the IR after this pass"
    )
    parser.add_argument("--stats", action="store_true", help="print rules, code bytes and compile time of each policy")
    parser.add_argument("--json", action="store_true", help="print diagnostics and figures as JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")


def run(args: argparse.Namespace) -> int:
    from compiler import Options, compile_policies
    from compiler.source import Document
    from runtime.cli.files import read_policies

    signer = None
    if args.sign:
        from runtime.cli.keys import load_signer

        signer = load_signer(args.sign)
    crds = read_crds(args.crds)
    start = time.perf_counter()
    with progress(on=sys.stderr.isatty() and not args.quiet) as bar:
        bar.step("reading")
        files, read_diagnostics, texts = read_policies(args.policies)
        documents: list[Document] = [d for file in files for d in file.documents]
        bar.step(f"compiling {counted(len(documents), 'document')}")
        observer = _Printer(args.print_after, bar)
        if any(d.severity == "error" for d in read_diagnostics):
            result = None
            diagnostics = tuple(read_diagnostics)
        else:
            options = Options(
                level=args.level,
                strict=args.strict,
                cel_strict=args.cel_strict,
                quirks=args.quirks,
                strip=args.strip,
                objects=args.with_objects,
                sign=signer,
                observer=observer,
                crds=crds,
            )
            result = compile_policies(documents, options=options)
            diagnostics = (*read_diagnostics, *result.diagnostics)
    observer.finish()
    seconds = time.perf_counter() - start
    if result is None or result.bundle is None:
        if args.json:
            print(json.dumps({"diagnostics": [d.to_json() for d in diagnostics]}, indent=2))
        _refuse(diagnostics, texts, quiet=args.json)
    else:
        if args.output:
            _write(args.output, result.bundle)
        if args.oci:
            from runtime.ocilayout import LayoutProblem, parse_place, write_layout

            try:
                write_layout(*parse_place(args.oci), result.bundle)
            except LayoutProblem as problem:
                raise Problem(str(problem)) from None
        if args.json:
            print(json.dumps(_json(args, result, diagnostics, seconds), indent=2))
        elif not args.quiet:
            _show(args, result, diagnostics, texts, seconds)
    return 0


def _refuse(diagnostics: Iterable[Diagnostic], texts: dict[str, str], *, quiet: bool) -> None:
    from compiler.diagnostics import render_all

    shown = [d for d in diagnostics if d.severity != "note"]
    errors = sum(d.severity == "error" for d in shown)
    details = "" if quiet else render_all(shown, texts, color=sys.stderr.isatty())
    raise Problem(f"{counted(errors, 'error')}, no bundle written", details)


def _write(path: str, bundle: bytes) -> None:
    """Writes beside the target and renames, so that no reader ever sees half a bundle."""
    import os

    target = Path(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(bundle)
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise Problem(f"{path}: {reason(error)}") from None


def _show(
    args: argparse.Namespace,
    result: CompileResult,
    diagnostics: Iterable[Diagnostic],
    texts: dict[str, str],
    seconds: float,
) -> None:
    from compiler.diagnostics import render_all

    remarks = list(diagnostics)
    if remarks:
        print(render_all(remarks, texts, color=sys.stderr.isatty()), file=sys.stderr)
    stats = result.stats
    rules = sum(p.rules for p in stats.policies)
    where = args.output or args.oci or "checked, not written (no -o)"
    held = f"{counted(len(stats.policies), 'policy', 'policies')}, {counted(rules, 'rule')}"
    print(f"{where}: {held}, {stats.bundle_bytes} bytes, {seconds * 1e3:.0f} ms")
    if args.stats:
        for line in _stats_lines(stats):
            print(line)


def _stats_lines(stats: Stats) -> Iterator[str]:
    from runtime.cli.output import table

    rows = [[p.name, str(p.rules), str(p.code_bytes), f"{p.seconds * 1e3:.2f}"] for p in stats.policies]
    yield table(["POLICY", "RULES", "CODE BYTES", "MS"], rows)
    if len(rows) > 1:
        yield "MS of a policy is its share, by code size, of all stages together"
    yield "stages: " + ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in stats.stages.items())
    yield "passes: " + ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in stats.passes.items())
    if stats.policies:
        yield f"mean {stats.seconds / len(stats.policies) * 1e3:.1f} ms a policy"


def _json(
    args: argparse.Namespace, result: CompileResult, diagnostics: Iterable[Diagnostic], seconds: float
) -> dict[str, Any]:
    stats = result.stats
    return {
        "output": args.output,
        "bytes": stats.bundle_bytes,
        "seconds": seconds,
        "policies": [
            {"name": p.name, "rules": p.rules, "codeBytes": p.code_bytes, "seconds": p.seconds} for p in stats.policies
        ],
        "stages": dict(stats.stages),
        "passes": dict(stats.passes),
        "diagnostics": [d.to_json() for d in diagnostics],
    }


class Bar(Protocol):
    """What the stages tell of themselves while they run."""

    def step(self, text: str) -> None: ...


class _Silent:
    def step(self, text: str) -> None:
        pass


@contextmanager
def progress(*, on: bool) -> Iterator[Bar]:
    """A line on the terminal that says what is being done, gone at the end; nothing when ``on`` is false."""
    if not on:
        yield _Silent()
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("starting") as status:

        class Line:
            def step(self, text: str) -> None:
                status.update(text)

        yield Line()


class _Printer:
    """Observes the passes: tells the progress line, and prints the IR after those that were asked for."""

    def __init__(self, wanted: list[str], bar: Bar) -> None:
        from compiler.pipeline import PASSES

        names = [step.name for step in PASSES]
        unknown = [name for name in wanted if name not in names]
        if unknown:
            raise Problem(f"--print-after {unknown[0]}: there is no such pass (there are: {', '.join(names)})")
        self._wanted = wanted
        self._bar = bar
        self._texts: list[str] = []

    def __call__(self, name: str, module: Module, seconds: float) -> None:
        self._bar.step(f"pass {name}")
        if name in self._wanted:
            from compiler.ir.print import print_module

            self._texts.append(f"; after {name}\n{print_module(module)}")

    def finish(self) -> None:
        for text in self._texts:
            print(text)
