"""Reads bundle files and turns their bytes into verified programs; the one place of the runtime that loads code.

Raises one :class:`BundleProblem` with a text for people, whatever is wrong with a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.fusing import Generated
from runtime.mismatches import Mismatches, compared
from runtime.policyset import PolicySet, Run, Tier

if TYPE_CHECKING:
    from vm.bundle import Trust
    from vm.code import Module
    from vm.host import Imports, Meter
    from vm.kept_code import KeptCode

FAMILY = b"THB"
"""How bundles of every format start; the reader tells a newer format from a foreign file."""


class BundleProblem(Exception):
    """A bundle that cannot be used: the text names the file and what is wrong."""


def load_module(
    data: bytes,
    tier: Tier,
    trust: Trust | None,
    imports: Imports,
    mismatches: Mismatches,
    *,
    at_once: bool = False,
    places: Sequence[Path] = (),
) -> tuple[Module, bytes, Run]:
    """Bytes to a verified module, its digest and the function that runs its code on the asked tier.

    ``at_once``: no request waits for generated code; tier 1 answers until it is ready. ``places`` are folders in which
    generated code is kept, and what the verifier found.
    """
    from vm.bundle import read_bundle
    from vm.verify import verify

    unverified = read_bundle(data, trust=trust)
    kept = _kept_code(unverified.digest, places) if places and tier == "2" else None
    verified = verify(unverified, imports, kept)
    run: Run
    match tier:
        case "1":
            run = _interpreter(verified)
        case "2":
            run = _generated_later(verified, kept) if at_once else _generated(verified, kept)
        case "check":
            both = compared(_interpreter(verified), _generated(verified), mismatches)
            run = Generated.of(both, verified, mismatches=mismatches)
    return unverified.module, unverified.digest, run


def _interpreter(verified: Any) -> Run:
    from vm.interp import interpret

    return run_of(interpret(verified), verified)


def _generated(verified: Any, kept: KeptCode | None = None) -> Run:
    from vm.tier2 import translate

    return Generated.of(run_of(translate(verified, kept=kept), verified), verified, kept=kept)


def _kept_code(digest: bytes, places: Sequence[Path]) -> KeptCode:
    from runtime.background import later
    from vm.kept_code import KeptCode

    return KeptCode(digest, places, later)


def run_of(program: Any, verified: Any) -> Run:
    """How the code of a program is run: what may ask its host goes through the root's."""
    asking = frozenset(n for n, function in enumerate(verified.functions) if function.may_suspend)
    plain: Run = program.run
    if not asking:
        return plain

    from runtime.host import drive

    def run(entry: int, root: dict[str, Any], meter: Meter) -> Any:
        if entry in asking:
            return drive(program.start(entry, root, meter), root)
        return plain(entry, root, meter)

    return run


def _generated_later(verified: Any, kept: KeptCode | None) -> Run:
    from runtime.background import later
    from vm.interp import interpret
    from vm.tier2 import translate

    program = translate(verified, meanwhile=interpret(verified), later=later, kept=kept)
    return Generated.of(run_of(program, verified), verified, later=later, kept=kept)


def make_imports() -> Imports:
    """The compiler's services for texts formed at run time.

    The compiler is imported at the first call: most bundles never need it, and it costs more than all else together.
    """
    from functools import cache

    from vm.host import Imports

    @cache
    def made() -> Imports:
        from compiler.dynamic import make_imports as make

        return make()

    return Imports(
        substitute=lambda text, root, meter: made().substitute(text, root, meter),
        pattern=lambda text: made().pattern(text),
        yaml=lambda text: made().yaml(text),
        query=lambda text, root, meter: made().query(text, root, meter),
    )


def read_file(path: str | Path) -> bytes:
    """The bytes of a bundle file. Raises :class:`BundleProblem` when it cannot be read or is plainly no bundle."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise BundleProblem(f"{path}: {reason(error)}") from None
    if not data.startswith(FAMILY):
        raise BundleProblem(f"{path}: is no bundle (a bundle starts with THB1)")
    return data


def is_bundle(path: Path) -> bool:
    """Whether a file starts as a bundle does; false when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(FAMILY)) == FAMILY
    except OSError:
        return False


def load_files(
    paths: Iterable[str | Path],
    *,
    tier: Tier = "2",
    trust: Trust | None = None,
    at_once: bool = False,
    keep: bool = False,
) -> PolicySet:
    """A policy set from bundle files, see :func:`load_module`; with ``keep``, code that is generated is kept near them.
    Raises :class:`BundleProblem`."""
    from vm.bundle import BundleError
    from vm.kept_code import places_for
    from vm.verify import VerifyError

    parts: list[tuple[Module, Run]] = []
    digests: list[bytes] = []
    mismatches = Mismatches()
    imports = make_imports()
    for path in paths:
        data = read_file(path)
        try:
            places = places_for(Path(path)) if keep else ()
            module, digest, run = load_module(data, tier, trust, imports, mismatches, at_once=at_once, places=places)
        except (BundleError, VerifyError) as error:
            raise BundleProblem(f"{path}: {error}") from None
        parts.append((module, run))
        digests.append(digest)
    return PolicySet(parts, tier=tier, mismatches=mismatches, digests=digests)


def reason(error: OSError) -> str:
    """Why a file cannot be read or written, in lower case and without the number."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


__all__ = ["BundleProblem", "is_bundle", "load_files", "load_module", "make_imports", "read_file", "reason", "run_of"]
