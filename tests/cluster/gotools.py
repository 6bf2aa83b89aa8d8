"""Builds small tools of the tests with the Go tool chain: helm, chainsaw, and programs whose source lies here.

A tool lands in the cache folder beside the control plane, named by a digest of its source and its ``go.sum``, so that a
second run finds it at once. ``python -m tests.cluster.gotools`` builds all by hand, ``.ci/run`` ahead of the tests.
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

from tests.cluster.chainsaw.cases import cases
from tests.cluster.controlplane.build import BuildProblem, cache_folder

HERE: Final = Path(__file__).resolve().parent


def helm() -> str:
    """The path of helm: three minutes of two cores from nothing. Raises :class:`BuildProblem`."""
    return build("helm", HERE / "helmtool", "helm.sh/helm/v3/cmd/helm")


def alert_judge() -> str:
    """The path of the program that evaluates alerts: a minute from nothing. Raises :class:`BuildProblem`."""
    return build("alert-judge", HERE / "alert_judge", ".")


def pod_security_judge() -> str:
    """The path of the program that judges Pods as Kubernetes does. Raises :class:`BuildProblem`."""
    return build("pod-security-judge", HERE / "pod_security_judge", ".")


def chainsaw() -> str:
    """The path of the runner of the public cluster suites: two minutes from nothing. Raises :class:`BuildProblem`."""
    # The newest Go with which this release builds.
    return build("chainsaw", HERE / "chainsaw" / "tool", "github.com/kyverno/chainsaw", go="go1.24.13")


def build(name: str, source: Path, package: str, *, go: str = "auto") -> str:
    """Finds or builds one tool, ``go`` names the tool chain. Raises :class:`BuildProblem` without Go, or when the build
    ends in an error."""
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(source.iterdir()))).hexdigest()[:12]
    target = cache_folder() / f"{name}-{digest}"
    if os.access(target, os.X_OK):
        return str(target)
    program = shutil.which("go")
    if program is None:
        raise BuildProblem(f"no {name}: neither a built program nor the go command are there")
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.access(target, os.X_OK):
            return str(target)
        scratch = target.with_suffix(".new")
        command = [program, "build", "-trimpath", "-mod=readonly", "-ldflags=-s -w", "-o", str(scratch), package]
        environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": go, "GOFLAGS": ""}
        done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            tail = "\n".join(done.stderr.strip().splitlines()[-5:])
            raise BuildProblem(f"cannot build {name}:\n{tail}")
        scratch.replace(target)
    return str(target)


def main() -> int:
    try:
        print(helm(), alert_judge(), pod_security_judge(), sep="\n")
        # Only where there are suites to run.
        if cases():
            print(chainsaw())
    except BuildProblem as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
