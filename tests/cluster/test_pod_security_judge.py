"""The checks of the Pod Security Standards against Kubernetes' own, on random Pods and in every version.

The judge is a small Go program over ``k8s.io/pod-security-admission``, built like the control plane and kept beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from fuzz.gen.pod_security import pod
from tests.cluster.controlplane.build import cache_folder
from vm.intrinsics.pod_security import violations

SOURCE = Path(__file__).parent / "pod_security_judge"
PODS = 20_000
NEWEST = 38
"""A version that Kubernetes does not have yet stands for the newest."""


@pytest.fixture(scope="module")
def judge() -> str:
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(SOURCE.iterdir()))).hexdigest()[:12]
    target = cache_folder() / f"pod-security-judge-{digest}"
    if not target.exists():
        go = shutil.which("go")
        if go is None:
            pytest.skip("the go command is not there to build the judge")
        target.parent.mkdir(parents=True, exist_ok=True)
        command = [go, "build", "-trimpath", "-mod=readonly", "-o", str(target), "."]
        environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "auto"}
        done = subprocess.run(command, cwd=SOURCE, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"the judge cannot be built: {done.stderr.strip().splitlines()[-1]}")
    return str(target)


def test_kubernetes_finds_the_same(judge: str) -> None:
    random = Random(14)
    asked = [(random.randint(0, NEWEST), pod(random)) for _ in range(PODS)]
    lines = "\n".join(json.dumps({"minor": minor, "pod": found}) for minor, found in asked)
    done = subprocess.run([judge], input=lines, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == PODS
    assert sum(map(len, answers)) > 2 * PODS, "the Pods break too little to show anything"
    for (minor, found), broken in zip(asked, answers, strict=True):
        ours = {v.check.id: v.reason for v in violations(found, "restricted", f"v1.{minor}", [])}
        if "procMount_restricted" in broken:
            broken.pop("procMount", None)  # replaced by it, as when Kubernetes runs level restricted
        if minor >= 35 and "procMount_restricted" not in broken:
            assert "procMount" not in broken
        assert ours == broken, (minor, json.dumps(found))
