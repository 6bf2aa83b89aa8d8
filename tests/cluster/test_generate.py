"""Generate rules on a real API server: made from admission and for what is there, in step both ways, gone with what set
them off."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.cluster.cluster import Cluster

DATA = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {{name: {name}}}
spec:
  rules:
  - name: deny-all
    match: {{any: [{{resources: {{kinds: [Namespace], selector: {{matchLabels: {{team: "{team}"}}}}}}}}]}}
    generate:
      apiVersion: networking.k8s.io/v1
      kind: NetworkPolicy
      name: default-deny
      namespace: "{{{{request.object.metadata.name}}}}"
      synchronize: {sync}
      generateExisting: {existing}
      data:
        metadata: {{labels: {{made-for: "{{{{request.object.metadata.name}}}}"}}}}
        spec: {{podSelector: {{}}, policyTypes: [{types}]}}
"""

CLONE = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {{name: {name}}}
spec:
  rules:
  - name: copy
    match: {{any: [{{resources: {{kinds: [Namespace], selector: {{matchLabels: {{team: "{team}"}}}}}}}}]}}
    generate:
      apiVersion: v1
      kind: ConfigMap
      name: settings
      namespace: "{{{{request.object.metadata.name}}}}"
      synchronize: true
      clone: {{name: {source}, namespace: default}}
"""


def namespace(name: str, team: str) -> str:
    return f"""
apiVersion: v1
kind: Namespace
metadata: {{name: {name}, labels: {{team: "{team}"}}}}
"""


def config_map(name: str, value: str) -> str:
    return f"""
apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}, namespace: default}}
data: {{key: "{value}"}}
"""


def gone(cluster: Cluster, *what: str) -> None:
    cluster.until(lambda: not cluster.exists(*what), what=f"the end of {' '.join(what)}")


def follows(cluster: Cluster, namespace: str, value: str) -> None:
    place = ("configmap", "settings", "-n", namespace)
    cluster.until(lambda: cluster.get(*place)["data"] == {"key": value}, what=f"{value} in {namespace}")


def no_requests(cluster: Cluster) -> None:
    cluster.until(
        lambda: not cluster.get("updaterequests", "-n", "kyverno")["items"], what="the end of the update requests"
    )


def test_data_stays_in_step_with_rule_edits_and_trigger(cluster: Cluster) -> None:
    policy = {"name": "netpol", "team": "a", "sync": "true", "existing": "false"}
    cluster.policy(DATA.format(types="Ingress", **policy), "clusterpolicy", "netpol")
    cluster.admitted(namespace("gen-a", "a"))
    place = ("networkpolicy", "default-deny", "-n", "gen-a")
    made = cluster.appears(*place)
    labels = made["metadata"]["labels"]
    assert labels["made-for"] == "gen-a"
    assert labels["app.kubernetes.io/managed-by"] == "kyverno"
    assert labels["generate.kyverno.io/policy-name"] == "netpol"
    assert labels["generate.kyverno.io/rule-name"] == "deny-all"
    assert labels["generate.kyverno.io/trigger-kind"] == "Namespace"
    assert labels["generate.kyverno.io/trigger-uid"] == cluster.get("namespace", "gen-a")["metadata"]["uid"]
    no_requests(cluster)

    def types() -> list[str]:
        found: list[str] = cluster.get(*place)["spec"]["policyTypes"]
        return found

    cluster.plane.kubectl("patch", *place, "--type=merge", "-p", '{"spec":{"policyTypes":["Egress"]}}')
    cluster.until(lambda: types() == ["Ingress"], what="the edit taken back")
    cluster.delete(*place)
    cluster.appears(*place)
    cluster.policy(DATA.format(types="Ingress, Egress", **policy), "clusterpolicy", "netpol")
    cluster.until(lambda: types() == ["Ingress", "Egress"], what="the change of the policy")
    cluster.plane.kubectl("label", "namespace", "gen-a", "team=other", "--overwrite")
    gone(cluster, *place)
    cluster.plane.kubectl("label", "namespace", "gen-a", "team=a", "--overwrite")
    cluster.appears(*place)
    cluster.delete("clusterpolicy", "netpol")
    gone(cluster, *place)
    no_requests(cluster)


def test_without_synchronize_it_is_made_once(cluster: Cluster) -> None:
    policy = {"name": "once", "team": "b", "sync": "false", "existing": "true"}
    cluster.admitted(namespace("gen-b", "b"))
    cluster.policy(DATA.format(types="Ingress", **policy), "clusterpolicy", "once")
    place = ("networkpolicy", "default-deny", "-n", "gen-b")
    cluster.appears(*place)
    cluster.plane.kubectl("patch", *place, "--type=merge", "-p", '{"spec":{"policyTypes":["Egress"]}}')
    cluster.policy(DATA.format(types="Ingress, Egress", **policy), "clusterpolicy", "once")
    no_requests(cluster)
    assert cluster.get(*place)["spec"]["policyTypes"] == ["Egress"]
    cluster.delete("clusterpolicy", "once")
    no_requests(cluster)
    assert cluster.exists(*place)


def test_copies_follow_their_source(cluster: Cluster) -> None:
    cluster.apply(config_map("source", "one"))
    cluster.policy(CLONE.format(name="copies", team="c", source="source"), "clusterpolicy", "copies")
    for name in ("gen-c1", "gen-c2"):
        cluster.admitted(namespace(name, "c"))
    for name in ("gen-c1", "gen-c2"):
        made = cluster.appears("configmap", "settings", "-n", name)
        assert made["data"] == {"key": "one"}
        assert made["metadata"]["labels"]["generate.kyverno.io/source-kind"] == "ConfigMap"
    source = cluster.get("configmap", "source", "-n", "default")
    assert source["metadata"]["labels"]["generate.kyverno.io/clone-source"] == ""
    cluster.apply(config_map("source", "two"))
    for name in ("gen-c1", "gen-c2"):
        follows(cluster, name, "two")
    cluster.delete("configmap", "source", "-n", "default")
    for name in ("gen-c1", "gen-c2"):
        gone(cluster, "configmap", "settings", "-n", name)


def test_an_edit_that_no_webhook_is_asked_about_is_found(cluster: Cluster) -> None:
    policy = CLONE.format(name="unseen", team="e", source="unseen-source").replace(
        'namespace: "{{request.object.metadata.name}}"', "namespace: kube-system"
    )
    cluster.apply(config_map("unseen-source", "one"))
    cluster.policy(policy, "clusterpolicy", "unseen")
    cluster.admitted(namespace("gen-e", "e"))
    place = ("configmap", "settings", "-n", "kube-system")
    cluster.appears(*place)

    def value() -> str:
        found: str = cluster.get(*place)["data"]["key"]
        return found

    cluster.plane.kubectl("patch", *place, "--type=merge", "-p", '{"data":{"key":"edited"}}')
    cluster.until(lambda: value() == "one", what="the edit taken back")
    cluster.delete(*place)
    cluster.appears(*place)
    # What happens while nobody runs is found at the next start.
    with stopped(cluster):
        cluster.plane.kubectl("patch", *place, "--type=merge", "-p", '{"data":{"key":"edited"}}')
    cluster.until(lambda: value() == "one", seconds=20, what="the edit taken back")
    with stopped(cluster):
        cluster.delete("clusterpolicy", "unseen")
    gone(cluster, *place)


def test_a_subresource_sets_a_rule_off(cluster: Cluster) -> None:
    cluster.policy(
        """
        apiVersion: kyverno.io/v1
        kind: ClusterPolicy
        metadata: {name: evictions}
        spec:
          rules:
          - name: note
            match: {any: [{resources: {kinds: [Pod/eviction]}}]}
            generate:
              apiVersion: v1
              kind: ConfigMap
              name: "evicted-{{request.name}}"
              namespace: "{{request.namespace}}"
              synchronize: false
              data: {data: {by: "{{request.userInfo.username}}"}}
        """.replace("spec:", "spec:\n          background: false", 1),
        "clusterpolicy",
        "evictions",
    )
    cluster.admitted(
        """
        apiVersion: v1
        kind: Pod
        metadata: {name: evicted, namespace: default}
        spec: {containers: [{name: c, image: c}]}
        """
    )
    eviction = '{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"evicted","namespace":"default"}}'
    done = cluster.plane.kubectl(
        "create", "--raw", "/api/v1/namespaces/default/pods/evicted/eviction", "-f", "-", stdin=eviction
    )
    assert done.returncode == 0, done.stderr
    made = cluster.appears("configmap", "evicted-evicted", "-n", "default")
    assert made["data"] == {"by": "admin"}
    assert made["metadata"]["labels"]["generate.kyverno.io/trigger-kind"] == "Eviction"


@contextlib.contextmanager
def stopped(cluster: Cluster) -> Iterator[None]:
    """Thesmos does not run while the block does."""
    cluster.thesmos.stop()
    try:
        yield
    finally:
        cluster.thesmos.start()


def test_a_missing_source_is_told_of_and_tried_again(cluster: Cluster) -> None:
    cluster.policy(CLONE.format(name="early", team="d", source="late"), "clusterpolicy", "early")
    cluster.admitted(namespace("gen-d", "d"))

    def told() -> bool:
        found = cluster.get("updaterequests", "-n", "kyverno")["items"]
        return any("default/late not found" in u.get("status", {}).get("message", "") for u in found)

    cluster.until(told, what="the status of the update request")
    cluster.apply(config_map("late", "now"))
    cluster.appears("configmap", "settings", "-n", "gen-d", seconds=20)
    no_requests(cluster)
