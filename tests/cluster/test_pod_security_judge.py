"""The checks of the Pod Security Standards against Kubernetes' own, on random Pods and in every version.

The judge is a small Go program over ``k8s.io/pod-security-admission``, built like the other tools of the tests.
"""

from __future__ import annotations

import json
import subprocess
from random import Random

from fuzz.gen.pod_security import pod
from vm.intrinsics.pod_security import violations

PODS = 20_000
NEWEST = 38
"""A version that Kubernetes does not have yet stands for the newest."""


def test_kubernetes_finds_the_same(pod_security_judge: str) -> None:
    random = Random(14)
    asked = [(random.randint(0, NEWEST), pod(random)) for _ in range(PODS)]
    lines = "\n".join(json.dumps({"minor": minor, "pod": found}) for minor, found in asked)
    done = subprocess.run([pod_security_judge], input=lines, capture_output=True, text=True, check=True)
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
