"""``make profile``: a flame graph of admissions, by py-spy (the extra ``bench``), of a server under load.

Writes ``build/admission.svg``, and the functions that took most as text on standard output.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench import webhook
from bench.compiling import write_bundle
from bench.policies import generated_policies, reference_folder, reference_policies
from bench.requests import reviews
from bench.server import thesmos


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.flame", description=__doc__)
    parser.add_argument("--policies", type=int, default=10, help="10: the reference ones; else so many generated ones")
    parser.add_argument("--seconds", type=int, default=8, help="how long the server is watched")
    parser.add_argument("--out", type=Path, default=Path("build/admission.svg"), help="the file of the graph")
    args = parser.parse_args(argv)
    spy = shutil.which("py-spy", path=f"{Path(sys.executable).parent}:{Path('/usr/local/bin')}")
    if spy is None:
        print("py-spy is not installed: install the extra bench (pip install -e '.[bench]')", file=sys.stderr)
        return 2
    args.out.parent.mkdir(parents=True, exist_ok=True)
    folder = reference_folder()
    made = reference_policies(folder) if args.policies == 10 else generated_policies(args.policies)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        bodies = scratch / "reviews.jsonl"
        bodies.write_bytes(b"\n".join(reviews(folder)))
        with thesmos(write_bundle(scratch / "set.thb", made), webhook.SERVER) as server:
            webhook.warm(server, str(bodies), args.policies)
            # One run for both forms: the graph is drawn from the same samples as the table.
            raw = scratch / "stacks.txt"
            watch = [spy, "record", "--pid", str(server.pid), "--duration", str(args.seconds), "--rate", "500"]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            watching = [
                subprocess.Popen([*watch, "--format", form, "--output", str(path)], **quiet)  # type: ignore[call-overload]
                for form, path in (("flamegraph", args.out), ("raw", raw))
            ]
            webhook.full_load(server, str(bodies), args.seconds)
            if sum(each.wait() for each in watching):
                print("py-spy could not watch the server: it needs the right to trace processes", file=sys.stderr)
                return 1
        print(table(raw.read_text(encoding="utf-8")))
    return 0


def table(stacks: str, most: int = 25) -> str:
    """The functions by their own share of the samples, from stacks one a line (``a;b;c 12``), as Markdown."""
    own: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        own[stack.rpartition(";")[2]] += int(count)
    total = sum(own.values())
    rows = [f"| {count / total:.1%} | `{frame}` |" for frame, count in own.most_common(most)]
    return "\n".join(["| own time | function |", "|---:|---|", *rows])


if __name__ == "__main__":
    raise SystemExit(main())
