"""``thesmos lint``: what is wrong, doubtful or bad style in policies, without making code of them; ``--fix`` mends what
can be mended mechanically."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from runtime.bundles import reason
from runtime.cli.crdfiles import add_crd_flag, read_crds
from runtime.cli.problem import Problem, counted

if TYPE_CHECKING:
    from compiler.diagnostics import Diagnostic
    from compiler.schema.model import Policy
    from compiler.source import Document

FORMATS: Final = ("text", "json", "sarif", "github")
SEVERITIES: Final = ("error", "warning", "note", "advice")
_ABOUT_SEVERAL: Final = "T1260"
"""A binding without its policy: the policy may stand in another file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``lint``."""
    parser.epilog = (
        "CODE is a code (T1435), the beginning of some (T14) or a severity (advice); several are joined by commas. "
        "Exit code 0 when there is no error, 1 when there is one (with --strict: or a warning), 2 when a file cannot "
        "be read. thesmos explain CODE tells more of a code."
    )
    parser.add_argument("policies", nargs="+", metavar="PATH", help="policy files or folders; - reads stdin")
    parser.add_argument(
        "--format",
        "--output",
        dest="format",
        choices=FORMATS,
        default="text",
        help="how to print the findings (default: text)",
    )
    parser.add_argument("--select", action="append", default=[], metavar="CODE", help="tell only of these")
    parser.add_argument("--ignore", action="append", default=[], metavar="CODE", help="do not tell of these")
    parser.add_argument("--fix", action="store_true", help="rewrite the files where a mend is mechanical")
    parser.add_argument(
        "--against", metavar="PATH", help="the policies as they are in force: tell of changes that are refused"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 for warnings too")
    parser.add_argument("--cel-strict", action="store_true", help="plain CEL: quantities are texts")
    add_crd_flag(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print no summary")


def run(args: argparse.Namespace) -> int:
    from runtime.cli import lint_formats

    chosen = Chosen(_codes(args.select), _codes(args.ignore))
    crds = read_crds(args.crds)
    found = Findings()
    fixed = 0
    bindings: set[str] = set()
    old = _policies_of(args.against) if args.against else {}
    for name, text in _texts(args.policies):
        if args.fix:
            text, mended = _fixed(name, text, chosen)
            fixed += mended
        documents, diagnostics = _linted(name, text, crds, args.cel_strict)
        if not documents and not diagnostics:
            continue
        if old:
            diagnostics += _changes(documents, old)
        found.add(name, text, len(documents), [d for d in diagnostics if chosen.tells(d)])
        bindings |= {
            str((d.value.get("metadata") or {}).get("name"))
            for d in documents
            if str(d.value.get("kind")).endswith("AdmissionPolicy")
        }
    if not found.files:
        raise Problem(f"{args.policies[0]}: holds no policy")
    found.drop(lambda d: d.code == _ABOUT_SEVERAL and any(f'"{name}"' in d.message for name in bindings))
    print(lint_formats.FORMATS[args.format](found, color=sys.stdout.isatty()), end="")
    if args.format == "text" and not args.quiet:
        print(_summary(found, fixed), file=sys.stderr)
    worst = ("error", "warning") if args.strict else ("error",)
    return 1 if any(d.severity in worst for d in found.diagnostics) else 0


class Findings:
    """What was found in all files: ``diagnostics`` by file and place, ``texts`` of the files by name."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.texts: dict[str, str] = {}
        self.policies = 0

    @property
    def files(self) -> int:
        return len(self.texts)

    def add(self, name: str, text: str, policies: int, diagnostics: Iterable[Diagnostic]) -> None:
        self.texts[name] = text
        self.policies += policies
        self.diagnostics += diagnostics

    def drop(self, unwanted: Any) -> None:
        self.diagnostics = [d for d in self.diagnostics if not unwanted(d)]

    def counts(self) -> dict[str, int]:
        """How many findings of each severity."""
        return {s: sum(d.severity == s for d in self.diagnostics) for s in SEVERITIES}


class Chosen:
    """Which findings are wanted: all, or those that ``select`` names, without those that ``ignore`` names."""

    def __init__(self, select: tuple[str, ...], ignore: tuple[str, ...]) -> None:
        self._select = select
        self._ignore = ignore

    def tells(self, d: Diagnostic) -> bool:
        return self.code(d.code, d.severity)

    def code(self, code: str, severity: str) -> bool:
        """Whether findings of this code and severity are wanted."""
        if self._select and not _named(self._select, code, severity):
            return False
        return not _named(self._ignore, code, severity)


def _named(names: tuple[str, ...], code: str, severity: str) -> bool:
    return any(code.startswith(name) or name == severity for name in names)


def _codes(given: list[str]) -> tuple[str, ...]:
    from compiler.catalogue import CODES

    names = tuple(name.strip() for text in given for name in text.split(",") if name.strip())
    for name in names:
        if name not in SEVERITIES and not any(code.startswith(name) for code in CODES):
            raise Problem(f"{name}: is no code, no beginning of one and no severity ({', '.join(SEVERITIES)})")
    return names


def _texts(paths: list[str]) -> Iterator[tuple[str, str]]:
    """The files that may hold a policy, with their texts. A folder's others are passed over without being parsed."""
    from runtime.cli.files import STDIN, expand, read_text

    named = {p if p == STDIN else Path(p) for p in paths}
    for path in expand(paths):
        if path in named or not isinstance(path, Path):
            yield "stdin" if path == STDIN else str(path), read_text(path)
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        except OSError as error:
            raise Problem(f"{path}: {reason(error)}") from None
        if "Policy" in text and _holds_policy(text):
            yield str(path), text


def _holds_policy(text: str) -> bool:
    """Whether a document of the text is a policy; a text that is no YAML and names a policy kind is taken for one."""
    import re

    kinds = r"[A-Za-z]*Policy(?:Binding|Exception)?"
    return re.search(rf"""^\s*["']?kind["']?:\s*["']?{kinds}["']?""", text, re.MULTILINE) is not None


def _linted(
    name: str, text: str, crds: tuple[dict[str, Any], ...], cel_strict: bool
) -> tuple[list[Document], list[Diagnostic]]:
    from compiler.diagnostics import Reporter
    from compiler.lint import lint
    from compiler.source import load_documents
    from runtime.cli.files import is_policy

    reporter = Reporter()
    documents = [d for d in load_documents(text, name, reporter) if is_policy(d.value)]
    return documents, [*reporter.diagnostics, *lint(documents, crds=crds, cel_strict=cel_strict)]


def _policies_of(path: str) -> dict[tuple[str, str], Policy]:
    """The policies of a file or folder by kind and key."""
    from compiler.diagnostics import Reporter
    from compiler.schema import read_policies
    from runtime.cli import files

    read, _, _ = files.read_policies([path])
    policies, _ = read_policies([d for file in read for d in file.documents], Reporter())
    return {(p.kind, p.key): p for p in policies}


def _changes(documents: list[Document], old: dict[tuple[str, str], Policy]) -> list[Diagnostic]:
    """What the policies of the documents change that may not change."""
    from compiler.diagnostics import Reporter
    from compiler.schema import read_policies
    from compiler.schema.update_rules import check_update

    policies, _ = read_policies(documents, Reporter())
    reporter = Reporter()
    for policy in policies:
        if (before := old.get((policy.kind, policy.key))) is not None:
            check_update(before, policy, reporter)
    return reporter.diagnostics


def _fixed(name: str, text: str, chosen: Chosen) -> tuple[str, int]:
    """The text with all mechanical mends, written back to its file, and their number."""
    from compiler.lint.fixes import fix

    mended, count = fix(text, name, lambda code, severity: chosen.code(code, severity))
    if count:
        if name == "stdin":
            raise Problem("--fix: stdin cannot be written back, name a file")
        try:
            Path(name).write_text(mended, encoding="utf-8")
        except OSError as error:
            raise Problem(f"{name}: {reason(error)}") from None
    return mended, count


def _summary(found: Findings, fixed: int) -> str:
    counts = found.counts()
    parts = [f"{counts[s]} {s if s == 'advice' or counts[s] == 1 else s + 's'}" for s in SEVERITIES]
    held = f"{counted(found.files, 'file')}, {counted(found.policies, 'policy', 'policies')}"
    mended = f"; {counted(fixed, 'mend')} written" if fixed else ""
    return f"{held}: {', '.join(parts)}{mended}"
