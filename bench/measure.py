"""Ways of measuring: calls in process and in turns, a command as a whole process, what a running process uses.

Times of calls are processor time of the thread, so that what else the machine does counts only by the caches it takes.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

WARM: Final = 50
"""Calls before the first round: the interpreter specialises code that has run a few times."""

TICKS: Final = os.sysconf("SC_CLK_TCK")


def microseconds(call: Callable[[], object], *, rounds: int = 7, at_least: float = 0.05) -> float:
    """Median over ``rounds`` of the mean time of one call, each round at least ``at_least`` seconds long, in µs."""
    return statistics.median(in_turns({"": call}, rounds=rounds, at_least=at_least)[""])


def in_turns(
    calls: Mapping[str, Callable[[], object]], *, rounds: int = 9, at_least: float = 0.03
) -> dict[str, list[float]]:
    """The mean time of one call in µs, by name and round. Each round asks all of them, one after the other and each for
    at least ``at_least`` seconds, so that samples of the same round saw the same phase of the machine."""
    counts = {name: _warm(call, at_least) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            samples[name].append(_spent(call, counts[name]) / counts[name] * 1e6)
    return samples


def _warm(call: Callable[[], object], at_least: float) -> int:
    """Runs a call warm; how many of them take ``at_least`` seconds."""
    start = time.thread_time()
    for done in range(WARM):
        call()
        if done >= 2 and time.thread_time() - start > 1.0:
            break
    n = 1
    while (spent := _spent(call, n)) < at_least:
        n = max(n * 2, int(n * at_least / spent) if spent > at_least / 50 else 0)
    return n


def _spent(call: Callable[[], object], n: int) -> float:
    repeat = range(n)
    start = time.thread_time()
    for _ in repeat:
        call()
    return time.thread_time() - start


def opcodes(call: Callable[[], object]) -> int:
    """How many bytecode instructions of Python a call executes: the same on every machine that has this version of
    Python and however busy it is, and blind to what functions written in C do."""
    count = 0

    def each(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if event == "opcode":
            count += 1
        else:
            frame.f_trace_opcodes = True
        return each

    call()
    sys.settrace(each)
    try:
        call()
    finally:
        sys.settrace(None)
    return count


def yardstick() -> Callable[[], object]:
    """Work that stands for the machine: what generated code does most, on fixed data. A figure over the time of this
    can be compared with one of another day or machine."""
    containers = [{"name": f"c{n}", "image": f"eu.foo.io/shop/web:{n}", "limits": {"cpu": "500m"}} for n in range(16)]
    prefixes = ("bar.io/", "ghcr.io/acme/", "eu.foo.io/")

    def run() -> int:
        held = 0
        for container in containers:
            if type(container) is not dict:
                return held
            image = container.get("image")
            if type(image) is str and image.startswith(prefixes) and not image.endswith(":latest"):
                limits = container.get("limits")
                if type(limits) is dict and limits.get("cpu") == "500m":
                    held += 1
        return held

    return run


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """One finished command: seconds of wall and processor time, peak resident memory in MB, exit code."""

    wall: float
    cpu: float
    memory: float
    code: int


def commands(
    module: str, args: Sequence[str], rounds: int = 3, more: Mapping[str, str] | None = None
) -> list[ProcessFigures]:
    """Runs a module as a command ``rounds`` times after one warm-up, ``more`` added to the environment."""
    return [_run_once(module, args, {**as_installed(), **(more or {})}) for _ in range(rounds + 1)][1:]


def as_installed() -> dict[str, str]:
    """The environment of a process as of one whose package was installed: with the bytecode of its modules, which the
    environment of a checkout may keep Python from writing."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


_TOLD: Final = """
import atexit, os, runpy, sys
def tell(to=int(sys.argv[1])):
    with open("/proc/self/status") as status:
        os.write(to, next(line for line in status if line.startswith("VmHWM")).split()[1].encode())
atexit.register(tell)
sys.argv[:2] = []
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""Runs a module that tells its peak memory. What the system says of a process that has ended counts the memory of the
one that started it, which was large."""


def _run_once(module: str, args: Sequence[str], environment: Mapping[str, str]) -> ProcessFigures:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as told:
        start = time.perf_counter()
        process = subprocess.Popen(
            [python(), "-c", _TOLD, str(writer), module, *args],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(writer,),
            env=environment,
        )
        os.close(writer)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        memory = int(told.read() or 0) / 1024
    return ProcessFigures(wall, usage.ru_utime + usage.ru_stime, memory, process.returncode)


def pinned(*cores: int) -> list[str]:
    """Words before a command that keep it on some cores, where the machine has them and ``taskset``."""
    there = [c for c in cores if c in os.sched_getaffinity(0)]
    return ["taskset", "-c", ",".join(map(str, there))] if there and shutil.which("taskset") else []


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(folder.name))
    found = [pid]
    for one in found:
        found += children.get(one, ())
    return found


def cpu_seconds(pid: int) -> float:
    """Processor time that a process and those it started have used so far, user and system."""
    ticks = 0
    for one in family(pid):
        try:
            after_name = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(after_name[11]) + int(after_name[12])
    return ticks / TICKS


def resident_mb(pid: int) -> float:
    """Resident memory of one process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def peak_mb() -> float:
    """Peak resident memory of this process, without what the system counts of the one that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def python() -> str:
    return sys.executable


def percentile(ordered: Sequence[float], share: float) -> float:
    """A value of a sorted sequence, by the share of those below it."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
