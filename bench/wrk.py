"""Full load by ``wrk`` where it is installed (Debian has it), else by the client of ``bench.client``, which is slower
than a fast server and then says less than the server can do."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from bench import measure
from bench.client import ClientProblem, Job, ask

NO_WRK: Final = "no wrk on this machine: full load by a client of our own, slower than the server; read processor times"
SCRIPT: Final = Path(__file__).parent / "reviews.lua"


def there() -> bool:
    return shutil.which("wrk") is not None


def answers(url: str, bodies: str, seconds: int, connections: int, expect: str, *cores: int) -> int:
    """How many of the bodies of a file (one a line), in turn and again and again, are answered in ``seconds``.

    Raises :class:`ClientProblem` when an answer is none or lacks ``expect``.
    """
    wrk = shutil.which("wrk")
    if wrk is None:
        return len(ask(Job(url, bodies, seconds, connections, expect=expect), *cores).latencies)
    command = [wrk, "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s", str(SCRIPT)]
    done = subprocess.run(
        [*measure.pinned(*cores), *command, url, "--", bodies, expect], capture_output=True, text=True, check=False
    )
    found = re.search(r"answers (\d+) wrong (\d+)", done.stdout)
    if done.returncode != 0 or found is None:
        raise ClientProblem(f"wrk failed: {(done.stderr or done.stdout).strip()[-300:]}")
    if int(found[2]):
        raise ClientProblem(f"{found[2]} of {found[1]} answers are wrong")
    return int(found[1])
