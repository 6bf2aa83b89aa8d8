"""``make profile``: a flame graph of admissions, by py-spy (the extra ``bench``), of a server under load.

Writes ``docs/admission.svg``, and as text on standard output what the time goes to and the functions that took most.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench import figures, stacks, webhook
from bench.compiling import write_bundle
from bench.policies import generated_policies, reference_folder, reference_policies
from bench.requests import reviews
from bench.server import Server, thesmos

RATE: Final = "250"
"""Samples a second: the server stands still while one is taken, and the stacks of C take some time to follow."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.flame", description=__doc__)
    parser.add_argument("--policies", type=int, default=10, help="10: the reference ones; else so many generated ones")
    parser.add_argument("--seconds", type=int, default=12, help="how long the server is watched")
    parser.add_argument("--out", type=Path, default=Path("docs/admission.svg"), help="the file of the graph")
    args = parser.parse_args(argv)
    spy = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if spy is None:
        print("py-spy is not installed: install the extra bench (pip install -e '.[bench]')", file=sys.stderr)
        return 2
    folder = reference_folder()
    if not folder.is_dir():
        print(f"no reference work at {folder}: set THESMOS_BENCH to its folder", file=sys.stderr)
        return 2
    made = reference_policies(folder) if args.policies == 10 else generated_policies(args.policies)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        bodies = scratch / "reviews.jsonl"
        bodies.write_bytes(b"\n".join(reviews(folder)) + b"\n")
        with thesmos(write_bundle(scratch / "set.thb", made), webhook.SERVER) as server:
            webhook.warm(server, str(bodies), args.policies)
            raw = scratch / "stacks.txt"
            if problem := _watch(spy, raw, args.seconds, server, str(bodies)):
                print(
                    f"py-spy could not watch the server, has it the right to trace processes? {problem}",
                    file=sys.stderr,
                )
                return 1
        found = stacks.read(raw.read_text(encoding="utf-8"))
    if not found:
        print("py-spy saw no admission", file=sys.stderr)
        return 1
    where = figures.machine_line(figures.machine())
    title = f"{args.policies} policies, {found.total()} samples of the server under full load, {where}"
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(stacks.drawing(found, title), encoding="utf-8")
    print(stacks.table(found))
    return 0


def _watch(spy: str, raw: Path, seconds: int, server: Server, bodies: str) -> str:
    """Samples a server under load; what went wrong, empty when nothing did."""
    command = [spy, "record", "--pid", str(server.pid), "--duration", str(seconds), "--rate", RATE, "--function"]
    # Where py-spy can follow them, the functions of C too: TLS and system calls are a third of an admission.
    native = ["--native"] if sys.platform == "linux" else []
    watching = subprocess.Popen(
        [*command, *native, "--format", "raw", "--output", str(raw)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    # A second more than it watches: it takes some to begin, and a server at rest is none to look at.
    webhook.full_load(server, bodies, seconds + 1)
    _, said = watching.communicate()
    return said.strip()[-300:] if watching.returncode else ""


if __name__ == "__main__":
    raise SystemExit(main())
