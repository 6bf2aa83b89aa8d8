"""What goes by the clock in a cluster: cleanup policies, missed runs, times to live."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from tests.cluster.cluster import Cluster

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}, labels: {labels}}}
spec: {{containers: [{{name: a, image: b}}]}}
---
"""


def pod(name: str, namespace: str = "default", **labels: str) -> str:
    return POD.format(name=name, namespace=namespace, labels=json.dumps(labels))


def gone(cluster: Cluster, *what: str, seconds: float = 20.0) -> None:
    cluster.until(lambda: not cluster.exists(*what), seconds=seconds, what=f"the end of {' '.join(what)}")


def policy(name: str, prefix: str, kind: str = "ClusterCleanupPolicy") -> str:
    place = "" if kind.startswith("Cluster") else ", namespace: default"
    return f"""
        apiVersion: kyverno.io/v2
        kind: {kind}
        metadata: {{name: {name}{place}}}
        spec:
          schedule: "* * * * *"
          match: {{any: [{{resources: {{kinds: [Pod]}}}}]}}
          context: [{{name: wanted, variable: {{value: {prefix}}}}}]
          conditions: {{all: [{{key: "{{{{ target.metadata.name }}}}", operator: Equals, value: "{{{{ wanted }}}}*"}}]}}
        """


def missed(cluster: Cluster, kind: str, name: str) -> None:
    """As if nobody had been there since long ago."""
    patch = json.dumps({"status": {"lastExecutionTime": "2024-01-01T00:00:00Z"}})
    done = cluster.plane.kubectl("patch", kind, name, "--subresource=status", "--type=merge", "-p", patch)
    assert done.returncode == 0, done.stderr


def test_missed_runs_are_made_up_for_once_and_a_namespaced_policy_removes_nothing_elsewhere(cluster: Cluster) -> None:
    cluster.namespaces("elsewhere")
    cluster.apply(pod("old-one") + pod("new-one") + pod("own-one") + pod("own-one", "elsewhere"))
    cluster.apply(policy("tidy", "old-"))
    cluster.apply(policy("own", "own-", "CleanupPolicy"))
    cluster.thesmos.stop()
    missed(cluster, "clustercleanuppolicy", "tidy")
    missed(cluster, "cleanuppolicy", "own")
    cluster.thesmos.start()
    gone(cluster, "pod", "old-one")
    gone(cluster, "pod", "own-one")
    assert cluster.exists("pod", "new-one")
    assert cluster.exists("pod", "own-one", "-n", "elsewhere")
    stamp = cluster.until(
        lambda: (
            found
            if (found := cluster.get("clustercleanuppolicy", "tidy")["status"]["lastExecutionTime"]) > "2025"
            else None
        )
    )
    ago = datetime.now(UTC) - datetime.fromisoformat(stamp)
    assert ago.total_seconds() < 60
    assert "kyverno_cleanup_controller_deletedobjects_total{" in cluster.thesmos.get("/metrics")


def test_what_lives_too_long_goes_and_what_has_been_made_again_stays_its_time(cluster: Cluster) -> None:
    past = {"cleanup.kyverno.io/ttl": "2023-07-19T120000Z"}
    cluster.apply(pod("late", **past) + pod("soon", **{"cleanup.kyverno.io/ttl": "3s"}))
    cluster.apply(pod("odd", **{"cleanup.kyverno.io/ttl": "10ay"}) + pod("later", **{"cleanup.kyverno.io/ttl": "1h"}))
    gone(cluster, "pod", "late")
    gone(cluster, "pod", "soon")
    cluster.apply(pod("soon", **{"cleanup.kyverno.io/ttl": "1h"}))
    done = cluster.plane.kubectl("label", "pod", "later", "--overwrite", "cleanup.kyverno.io/ttl=2023-07-19")
    assert done.returncode == 0, done.stderr
    gone(cluster, "pod", "later")
    assert cluster.exists("pod", "odd")
    assert cluster.exists("pod", "soon")
