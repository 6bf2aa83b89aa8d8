"""``make run`` and ``make serve``: the sample policies behind a real webhook, asked over HTTPS.

Compiles ``examples/policies`` into a bundle, serves it with a certificate made on the spot, sends the objects of
``examples/resources`` as AdmissionReviews, and prints verdicts, messages, patches and the bundle's figures. Exit code 1
when a verdict is not the expected one.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import signal
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import aiohttp
    from rich.console import Console

    from runtime.policyset import PolicySet

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples"


@dataclass(frozen=True, slots=True)
class Sample:
    """An object to send, where to, and whether it is to be admitted; ``patched`` says that a patch must come back."""

    file: str
    path: str
    allowed: bool
    patched: bool = False


SAMPLES: Final = (
    Sample("pod-good.yaml", "/validate", allowed=True),
    Sample("pod-bad.yaml", "/validate", allowed=False),
    Sample("pod-changed.yaml", "/mutate", allowed=True, patched=True),
    Sample("deployment-bad.yaml", "/validate", allowed=False),
)

WIDTH: Final = 120

PLURALS: Final = {"Pod": "pods", "Deployment": "deployments"}


class DemoProblem(Exception):
    """The demo cannot run; the text says why."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """The bundle file of the samples and how long making and loading it took, in seconds."""

    bundle: Path
    policies: PolicySet
    compile_seconds: float
    load_seconds: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stay", action="store_true", help="leave the webhook up until Ctrl-C")
    parser.add_argument("--port", type=int, default=None, help="port (default: any free one, 9443 with --stay)")
    parser.add_argument("--examples", type=Path, default=EXAMPLES, help="folder with policies/ and resources/")


def run(args: argparse.Namespace) -> int:
    """0 when every sample got the expected verdict, 1 otherwise, 2 when the demo cannot run."""
    from runtime.webhook.serve import ServeProblem, run_loop

    try:
        return run_loop(_demo(args))
    except (DemoProblem, ServeProblem) as problem:
        print(f"thesmos demo: {problem}", file=sys.stderr)
        return 2


async def _demo(args: argparse.Namespace) -> int:
    from rich.console import Console

    from runtime.config import Settings
    from runtime.observe.metrics import Metrics
    from runtime.webhook.live import Live, Snapshot
    from runtime.webhook.serve import offline_certificate, serve
    from runtime.webhook.tls import client_context

    # Into a file or a pipe there is no width to keep to.
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    with tempfile.TemporaryDirectory(prefix="thesmos-") as scratch:
        made = _compile(args.examples / "policies", Path(scratch) / "sample.thb")
        port = args.port if args.port is not None else 9443 if args.stay else 0
        settings = Settings(host="127.0.0.1", port=port)
        serving = offline_certificate(settings)
        ca = Path(scratch) / "ca.pem"
        ca.write_bytes(serving.ca)
        live = Live()
        live.swap(Snapshot.of(made.policies))
        async with serve(live, settings, Metrics(), serving) as server:
            url = f"https://localhost:{server.port}"
            good = await _ask_all(console, url, client_context(serving.ca), args.examples / "resources")
            _print_figures(console, made)
            if args.stay:
                _print_stay(console, url, ca, made.bundle)
                await _until_signal()
            else:
                _print_next(console)
    return 0 if good else 1


def _compile(folder: Path, target: Path) -> Compilation:
    from compiler import compile_policies
    from compiler.diagnostics import Reporter, render
    from compiler.source import load_documents
    from runtime.bundles import make_imports
    from runtime.policyset import PolicySet

    files = sorted(folder.glob("*.yaml"))
    if not files:
        raise DemoProblem(f"no policies in {folder}: run it from the source tree, or give --examples")
    started = time.perf_counter()
    reporter = Reporter()
    texts = {str(file): file.read_text(encoding="utf-8") for file in files}
    documents = [doc for name, text in texts.items() for doc in load_documents(text, name, reporter)]
    result = compile_policies(documents)
    if reporter.failed or result.bundle is None:
        errors = [d for d in (*reporter.diagnostics, *result.diagnostics) if d.severity == "error"]
        raise DemoProblem("\n".join(render(d, texts.get(d.span.file) if d.span else None) for d in errors))
    target.write_bytes(result.bundle)
    compiled = time.perf_counter()
    policies = PolicySet.load(target.read_bytes(), imports=make_imports())
    return Compilation(target, policies, compiled - started, time.perf_counter() - compiled)


async def _ask_all(console: Console, url: str, context: Any, folder: Path) -> bool:
    import aiohttp
    from rich.table import Table
    from rich.text import Text

    table = Table(title="answers of the webhook", title_justify="left", show_lines=True)
    table.add_column("object and path")
    table.add_column("verdict")
    table.add_column("message and patch", overflow="fold", ratio=1)
    table.add_column("ms", justify="right")
    good = True
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(connector=connector) as session:
        for sample in SAMPLES:
            obj = _load(folder / sample.file)
            response, seconds = await _ask(session, url + sample.path, obj)
            patch = _patch(response)
            right = response["allowed"] is sample.allowed and bool(patch) is sample.patched
            good = good and right
            verdict = Text("admitted", "green") if response["allowed"] else Text("refused", "red")
            if not right:
                verdict.append("\nnot as expected", "bold red")
            said = (response.get("status") or {}).get("message", "").strip()
            lines = [said, *(_operation(op) for op in patch)]
            name = f"{obj['kind']} {obj['metadata']['name']}\n{sample.path}"
            table.add_row(name, verdict, Text("\n".join(x for x in lines if x)), f"{seconds * 1e3:.1f}")
    console.print(table)
    return good


async def _ask(session: aiohttp.ClientSession, url: str, obj: dict[str, Any]) -> tuple[dict[str, Any], float]:
    review = _review(obj)
    started = time.perf_counter()
    async with session.post(url, json=review, params={"timeout": "10s"}) as answer:
        if answer.status != 200:
            raise DemoProblem(f"{url} answered {answer.status}: {(await answer.text()).strip()}")
        body = await answer.json()
    seconds = time.perf_counter() - started
    response: dict[str, Any] = body["response"]
    if response["uid"] != review["request"]["uid"]:
        raise DemoProblem(f"{url} answered for another request")
    return response, seconds


def _review(obj: dict[str, Any]) -> dict[str, Any]:
    """The review that an API server would send for creating an object."""
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": obj["kind"]}
    resource = {"group": group, "version": version, "resource": PLURALS[obj["kind"]]}
    request = {
        "uid": str(uuid.uuid4()),
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": obj["metadata"]["name"],
        "namespace": obj["metadata"]["namespace"],
        "operation": "CREATE",
        "userInfo": {"username": "jane", "groups": ["developers", "system:authenticated"]},
        "object": obj,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def _load(path: Path) -> dict[str, Any]:
    from compiler.source import load_values

    try:
        (obj,) = load_values(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DemoProblem(f"{path}: {(error.strerror or str(error)).lower()}") from None
    return dict(obj)


def _patch(response: dict[str, Any]) -> list[dict[str, Any]]:
    import orjson

    encoded = response.get("patch")
    return list(orjson.loads(base64.b64decode(encoded))) if encoded else []


def _operation(op: dict[str, Any]) -> str:
    import orjson

    value = f" {orjson.dumps(op['value']).decode()}" if "value" in op else ""
    return f"{op['op']} {op['path']}{value}"


def _print_figures(console: Console, made: Compilation) -> None:
    from rich.table import Table

    modules = made.policies.modules
    rules = [rule for policy in modules[0].policies for rule in policy.rules]
    autogen = sum(rule.name.startswith("autogen-") for rule in rules)
    functions = modules[0].functions
    table = Table(title="the bundle", title_justify="left", show_header=False)
    table.add_row("policies", str(len(made.policies.policies)))
    table.add_row("rules", f"{len(rules)}, {autogen} of them by autogen")
    table.add_row("size", f"{made.bundle.stat().st_size:,} bytes")
    table.add_row("code", f"{sum(len(f.code) for f in functions):,} bytes in {len(functions)} functions")
    table.add_row("digest", made.policies.digests[0].hex()[:16] + "…")
    table.add_row("compiled in", f"{made.compile_seconds * 1e3:.0f} ms")
    table.add_row("verified and loaded in", f"{made.load_seconds * 1e3:.0f} ms")
    console.print(table)


def _print_next(console: Console) -> None:
    console.print(
        "\nHow to go on:\n"
        "  make serve                                             the same webhook, left up\n"
        "  .venv/bin/thesmos apply examples/policies -r FILE      try an object without a server\n"
        "  .venv/bin/thesmos compile examples/policies -o s.thb   write the bundle; thesmos inspect s.thb shows it\n"
        "  make cluster-up                                        a real API server with Thesmos installed\n",
        highlight=False,
        soft_wrap=True,
    )


def _print_stay(console: Console, url: str, ca: Path, bundle: Path) -> None:
    console.print(
        f"\nThe webhook is up at {url} until Ctrl-C.\n"
        f"  bundle: {bundle}\n"
        f"  curl --cacert {ca} {url}/health/readiness\n"
        f"  curl --cacert {ca} {url}/metrics\n"
        f"  curl --cacert {ca} -H 'Content-Type: application/json' -d @examples/reviews/pod-bad.json {url}/validate\n",
        highlight=False,
        soft_wrap=True,
    )


async def _until_signal() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stop.set)
    await stop.wait()
