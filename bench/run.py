"""``make bench``: the engine on both tiers for the ten reference policies and for 10, 100 and 1,000 generated ones,
compile and load time, bundle size, ``apply`` as a whole process, the webhook on one core, and the CEL corpus beside
cel-go. Prints tables; ``--json FILE`` keeps the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import measure
from bench.policies import generated_policies, reference_folder, reference_policies, to_text

Figures = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("--sizes", default="10,100,1000", help="sizes of the generated sets, with commas")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each load run on the webhook")
    parser.add_argument("--no-webhook", action="store_true", help="leave the webhook out")
    parser.add_argument("--only-cel", action="store_true", help="time the CEL corpus and nothing else")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args(argv)
    folder = reference_folder()
    if not folder.is_dir():
        print(f"no reference work at {folder}: set THESMOS_BENCH to its folder", file=sys.stderr)
        return 2
    console = Console()
    if args.only_cel:
        figures: Figures = {"cel": _measure_cel(console)}
        if args.json:
            args.json.write_text(json.dumps(figures, indent=2) + "\n")
        return 0
    sets = {"10 ref.": to_text(reference_policies(folder))}
    sets |= {n: to_text(generated_policies(int(n))) for n in args.sizes.split(",")}
    _compile(to_text(generated_policies(9)), "warm-up.yaml")  # grammars and modules load once, the sets are timed warm
    figures = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in sets.items():
            with console.status(f"measuring {name}"):
                figures[name] = _measure_set(name, text, folder, Path(scratch), args)
    _print_engine(console, figures)
    _print_processes(console, figures)
    figures["cel"] = _measure_cel(console)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def _measure_cel(console: Console) -> Figures:
    """The CEL corpus; without the conformance data there is none."""
    from bench import cel

    with tempfile.TemporaryDirectory() as scratch:
        timed = cel.measure_corpus(Path(scratch))
    if not timed:
        console.print("no conformance data: set THESMOS_CONFORMANCE to its folder to time the CEL corpus")
        return {}
    cel.show(console, timed)
    return dict(cel.summary(timed))


def _measure_set(name: str, text: str, folder: Path, scratch: Path, args: argparse.Namespace) -> Figures:
    from runtime.engine import Engine
    from runtime.policyset import PolicySet
    from runtime.request import Request

    policy_file = scratch / f"{name.partition(' ')[0]}.yaml"
    policy_file.write_text(text)
    start = time.process_time()
    count, bundle = _compile(text, policy_file.name)
    compile_seconds = time.process_time() - start
    bundle_file = policy_file.with_suffix(".thb")
    bundle_file.write_bytes(bundle)
    figures: Figures = {"policies": count, "compile_ms_per_policy": compile_seconds / count * 1e3}
    figures["bundle_bytes"] = len(bundle)
    rounds = 3 if count > 200 else 7
    passing = json.loads((folder / "pod-pass.json").read_text())
    failing = json.loads((folder / "pod-fail.json").read_text())
    for tier in ("1", "2"):
        start = time.process_time()
        policy_set = PolicySet.load(bundle, tier=tier)
        figures[f"load_ms_tier{tier}"] = (time.process_time() - start) * 1e3
        engine = Engine(policy_set)
        for label, pod in (("pass", passing), ("fail", failing)):
            request = Request.from_resource(pod)
            figures[f"tier{tier}_{label}_us"] = measure.microseconds(
                lambda engine=engine, request=request: engine.evaluate(request, "validate"),  # type: ignore[misc]
                rounds=rounds,
            )
    pod_file = folder / "pod-pass.json"
    apply = measure.command(
        [measure.python(), "-m", "runtime.cli.main", "apply", str(policy_file), "-r", str(pod_file)]
    )
    figures |= {"apply_s": apply.wall, "apply_mb": apply.memory, "apply_exit": apply.code}
    if not args.no_webhook:
        warm = 1 + count / 100  # the server generates code in the background, some 100 policies a second
        review = (folder / "review-pass.json").read_bytes()
        figures |= _measure_webhook(bundle_file, review, args.seconds, warm)
    return figures


def _compile(text: str, origin: str) -> tuple[int, bytes]:
    """The number of policies and their bundle."""
    from compiler import compile_policies
    from compiler.diagnostics import Reporter
    from compiler.source import load_documents

    documents = load_documents(text, origin, Reporter())
    result = compile_policies(documents)
    if result.bundle is None:
        raise SystemExit(f"{origin}: the policies do not compile: {result.diagnostics[:3]}")
    return len(documents), result.bundle


def _measure_webhook(bundle: Path, review: bytes, seconds: float, warm_up: float) -> Figures:
    port = _free_port()
    serve = [measure.python(), "-m", "runtime.cli.main", "serve", "--bundle", str(bundle), "--port", str(port)]
    start = time.perf_counter()
    with subprocess.Popen([*measure.pinned(0), *serve], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_ready(port, server)
            ready = time.perf_counter() - start
            warm = asyncio.run(measure.load("127.0.0.1", port, "/validate", review, seconds=warm_up, connections=8))
            times = asyncio.run(measure.load("127.0.0.1", port, "/validate", review, seconds=seconds, connections=8))
            memory = measure.resident_mb(server.pid)
        finally:
            server.terminate()
    if not warm:
        raise SystemExit("the webhook answered nothing")
    times.sort()
    return {
        "webhook_ready_s": ready,
        "webhook_per_s": len(times) / seconds,
        "webhook_p50_ms": statistics.median(times) * 1e3,
        "webhook_p99_ms": times[int(len(times) * 0.99)] * 1e3,
        "webhook_mb": memory,
    }


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _wait_ready(port: int, server: subprocess.Popen[bytes]) -> None:
    import ssl

    context = ssl._create_unverified_context()
    deadline = time.perf_counter() + 60
    while time.perf_counter() < deadline:
        if server.poll() is not None:
            raise SystemExit(f"the webhook ended with code {server.returncode} before it was ready")
        try:
            with urllib.request.urlopen(
                f"https://127.0.0.1:{port}/health/readiness", context=context, timeout=2
            ) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.02)
    raise SystemExit("the webhook was not ready within 60 s")


def _print_engine(console: Console, figures: Figures) -> None:
    table = Table(title="engine: one admission of the reference Pod, µs on tier 1 and 2")
    for column in ("policies", "t1 pass", "t2 pass", "ratio", "t1 fail", "t2 fail", "compile ms each"):
        table.add_column(column, justify="left" if column in ("policies", "set") else "right", no_wrap=column == "set")
    for name, f in figures.items():
        one, two = f["tier1_pass_us"], f["tier2_pass_us"]
        row = (one, two, one / two, f["tier1_fail_us"], f["tier2_fail_us"], f["compile_ms_per_policy"])
        table.add_row(name, *(f"{x:,.1f}" for x in row))
    console.print(table)


def _print_processes(console: Console, figures: Figures) -> None:
    table = Table(title="bundle, load, apply (1 Pod); webhook (TLS, one core, 8 connections)")
    columns = ("set", "KB", "load ms", "apply s", "MB", "ready s", "req/s", "p50 ms", "p99 ms", "srv MB")
    for column in columns:
        table.add_column(column, justify="left" if column in ("policies", "set") else "right", no_wrap=column == "set")
    for name, f in figures.items():
        cells = [f["bundle_bytes"] / 1024, f["load_ms_tier2"], f["apply_s"], f["apply_mb"]]
        cells += [
            f.get(k) for k in ("webhook_ready_s", "webhook_per_s", "webhook_p50_ms", "webhook_p99_ms", "webhook_mb")
        ]
        table.add_row(name, *("-" if c is None else f"{c:,.2f}" if c < 10 else f"{c:,.0f}" for c in cells))
    console.print(table)


if __name__ == "__main__":
    raise SystemExit(main())
