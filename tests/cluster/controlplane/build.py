"""Builds a real control plane with the Go tool chain: etcd, kube-apiserver, kube-controller-manager, kubectl.

Versions and checksums are those of ``go.mod`` and ``go.sum`` beside this file. The programs land outside the tree, in
``$THESMOS_CACHE/controlplane/<key>/`` where the key holds the versions, so a second run finds them at once.
``KUBEBUILDER_ASSETS`` (the envtest convention) names a folder that already has them and wins. Called by
``tests.cluster.conftest``, ``make cluster-up`` and by hand: ``python -m tests.cluster.controlplane.build``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
KUBERNETES: Final = "v1.36.3"
ETCD: Final = "v3.6.8"

PROGRAMS: Final[dict[str, str]] = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
}
"""File name of each program and the package it is built from."""


class BuildProblem(Exception):
    """The control plane is not there and cannot be built; the text says why in one line."""


@dataclass(frozen=True, slots=True)
class Assets:
    """The folder that holds every program of :data:`PROGRAMS`."""

    folder: Path

    def program(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def complete(self) -> bool:
        return all(os.access(self.folder / name, os.X_OK) for name in PROGRAMS)


def cache_folder() -> Path:
    """Where built things are kept: ``THESMOS_CACHE``, else the user's cache folder."""
    if own := os.environ.get("THESMOS_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "thesmos"


def version_key() -> str:
    """Versions plus a digest of ``go.mod``: another module list is another build."""
    digest = hashlib.sha256((HERE / "go.mod").read_bytes()).hexdigest()[:12]
    return f"kubernetes-{KUBERNETES}-etcd-{ETCD}-{digest}"


def find() -> Assets | None:
    """The programs if they are there already, without building anything."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given:
        assets = Assets(Path(given))
        if assets.complete:
            return assets
    assets = Assets(cache_folder() / "controlplane" / version_key())
    return assets if assets.complete else None


def build(*, log: bool = True) -> Assets:
    """Finds or builds the programs. About five minutes of two cores from nothing.

    Raises :class:`BuildProblem` when there is no Go, or the build ends in an error.
    """
    if (found := find()) is not None:
        return found
    go = shutil.which("go")
    if go is None:
        raise BuildProblem("no control plane: neither built programs (KUBEBUILDER_ASSETS) nor the go command are there")
    target = cache_folder() / "controlplane" / version_key()
    target.mkdir(parents=True, exist_ok=True)
    with (target.parent / ".lock").open("w") as lock:
        # Two test runs may start at once; the second waits and then finds what the first built.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (found := find()) is not None:
            return found
        for name, package in PROGRAMS.items():
            if not os.access(target / name, os.X_OK):
                _build_one(go, package, target / name, log=log)
    return Assets(target)


def _build_one(go: str, package: str, target: Path, *, log: bool) -> None:
    if log:
        print(f"building {target.name}", file=sys.stderr, flush=True)
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    # Clients parse the version that the API server tells; without these it tells v0.0.0-master+$Format.
    version = "k8s.io/component-base/version"
    flags = f"-s -w -X {version}.gitVersion={KUBERNETES} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        out = Path(scratch) / target.name
        command = [go, "build", "-trimpath", "-mod=readonly", f"-ldflags={flags}", "-o", str(out), package]
        environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "auto"}
        done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            tail = "\n".join(done.stderr.strip().splitlines()[-5:])
            raise BuildProblem(f"cannot build {target.name} from {package}:\n{tail}")
        out.replace(target)


def main() -> int:
    try:
        assets = build()
    except BuildProblem as problem:
        print(problem, file=sys.stderr)
        return 1
    print(assets.folder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
