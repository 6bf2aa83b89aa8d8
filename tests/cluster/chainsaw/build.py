"""Builds chainsaw, the runner of the public cluster suites, with the Go tool chain that its release needs.

Version and checksums are those of ``tool/go.mod`` and ``tool/go.sum``; the program lands in the cache folder beside the
control plane. ``python -m tests.cluster.chainsaw.build`` does it by hand, ``.ci/run`` ahead of the tests.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.cluster.controlplane.build import BuildProblem, cache_folder

HERE: Final = Path(__file__).resolve().parent / "tool"
PACKAGE: Final = "github.com/kyverno/chainsaw"
GO: Final = "go1.24.13"
"""The newest Go with which this release builds."""


def build() -> str:
    """The path of the program, built where it is not there: two minutes of two cores from nothing.

    Raises :class:`BuildProblem` when there is no Go, or the build ends in an error.
    """
    digest = hashlib.sha256((HERE / "go.mod").read_bytes()).hexdigest()[:12]
    target = cache_folder() / f"chainsaw-{digest}"
    if os.access(target, os.X_OK):
        return str(target)
    go = shutil.which("go")
    if go is None:
        raise BuildProblem("no chainsaw: neither a built program nor the go command are there")
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.access(target, os.X_OK):
            scratch = target.with_suffix(".new")
            command = [go, "build", "-trimpath", "-mod=readonly", "-ldflags=-s -w", "-o", str(scratch), PACKAGE]
            environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": GO}
            done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                tail = "\n".join(done.stderr.strip().splitlines()[-5:])
                raise BuildProblem(f"cannot build chainsaw:\n{tail}")
            scratch.replace(target)
    return str(target)


def main() -> int:
    try:
        print(build())
    except BuildProblem as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
