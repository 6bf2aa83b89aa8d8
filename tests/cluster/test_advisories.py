"""The faults of the public advisories about tenancy, each tried against the real API server: none gets through.

One test a kind: what a policy of a namespace may read, call, make, change and remove; where services may be called;
whose exceptions count; what happens when nobody knows the labels of a namespace yet.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from textwrap import dedent

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.test_admission import pod


class _Counting(BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"secret": "leaked"}')

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the test looks at ``asked``."""


@pytest.fixture
def inner() -> Iterator[tuple[int, list[str]]]:
    """A service on the loopback address, as a cloud's metadata service would be: its port, and what it was asked."""
    asked: list[str] = []
    server = HTTPServer(("127.0.0.1", 0), type("Handler", (_Counting,), {"asked": asked}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port, asked
    server.shutdown()
    thread.join()
    server.server_close()


def peek(entry: str, kind: str = "Policy") -> str:
    """A policy that shows in its message what an entry of its context has read."""
    place = ", namespace: default" if kind == "Policy" else ""
    return dedent(
        f"""\
        apiVersion: kyverno.io/v1
        kind: {kind}
        metadata: {{name: peek{place}}}
        spec:
          background: false
          rules:
          - name: peek
            match: {{any: [{{resources: {{kinds: [Pod]}}}}]}}
            context:
            - name: seen
              {entry}
            validate:
              failureAction: Enforce
              message: "leaked {{{{ seen }}}}"
              deny: {{conditions: {{all: [{{key: "{{{{ seen }}}}", operator: NotEquals, value: nothing}}]}}}}
        """
    )


def refused_unread(cluster: Cluster, name: str, annotation: str = "x: y") -> str:
    said = cluster.refused(
        f"""
        apiVersion: v1
        kind: Pod
        metadata: {{name: {name}, annotations: {{{annotation}}}}}
        spec: {{containers: [{{name: a, image: b}}]}}
        """
    )
    assert "leaked" not in said, said
    return said


PATHS = (
    "/api/v1/namespaces/kube-system/secrets",
    "/api/v1/secrets",
    "/api/v1/namespaces",
    "/version",
    "/api/v1/namespaces/default/../kube-system/secrets",
    "/api/v1/namespaces/default%2F..%2Fkube-system/secrets",
    "//api/v1/namespaces/kube-system/configmaps",
)


def test_a_namespaced_policy_calls_no_path_outside_its_namespace(cluster: Cluster) -> None:
    """GHSA-8p9x-46gm-qfx2, GHSA-fmqp-4wfc-w3v7."""
    # By way of the request: a path that stands in the policy is refused when it is written.
    entry = 'apiCall: {urlPath: "{{ request.object.metadata.annotations.path }}"}'
    cluster.policy(peek(entry), "policies.kyverno.io", "peek")
    for path in PATHS:
        refused_unread(cluster, "outside", f'path: "{path}"')


def test_a_namespaced_policy_reads_no_config_map_of_another_namespace(cluster: Cluster) -> None:
    """GHSA-cvq5-hhx3-f99p."""
    entry = 'configMap: {name: kube-root-ca.crt, namespace: "{{ request.object.metadata.annotations.ns }}"}'
    cluster.policy(peek(entry), "policies.kyverno.io", "peek")
    assert "is different from policy namespace" in refused_unread(cluster, "foreign", "ns: kube-system")


def test_a_namespaced_policy_calls_no_service(cluster: Cluster, inner: tuple[int, list[str]]) -> None:
    """GHSA-fmqp-4wfc-w3v7."""
    entry = f'apiCall: {{service: {{url: "http://localhost:{inner[0]}/"}}, method: GET}}'
    done = cluster.create(peek(entry))
    if done.returncode == 0:
        cluster.ready("policies.kyverno.io", "peek")
        refused_unread(cluster, "caller")
    assert inner[1] == []


HOSTS = (
    *("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "2130706433", "0x7f.1", "127.1"),
    *("127。0。0。1", "１２７.０.０.１", "0.0.0.0", "[64:ff9b::7f00:1]", "169.254.169.254", "a@127.0.0.1"),
)


def test_a_url_made_of_request_data_reaches_nothing_inside(cluster: Cluster, inner: tuple[int, list[str]]) -> None:
    """GHSA-459x-q9hg-4gpq, GHSA-qr4g-8hrp-c4rw, GHSA-rggm-jjmc-3394, and the by-pass of its block list."""
    port, asked = inner
    entry = 'apiCall: {service: {url: "{{ request.object.metadata.annotations.url }}"}, method: GET}'
    cluster.policy(peek(entry, "ClusterPolicy"), "clusterpolicy", "peek")
    for host in HOSTS:
        refused_unread(cluster, "inside", f'url: "http://{host}:{port}/latest/meta-data"')
    assert asked == []


def test_an_exception_counts_for_its_own_namespace_alone(cluster: Cluster) -> None:
    """GHSA-qjvc-p88j-j9rm."""
    cluster.namespaces("tenant")
    cluster.policy(
        """
        apiVersion: kyverno.io/v1
        kind: ClusterPolicy
        metadata: {name: labelled}
        spec:
          background: false
          rules:
          - name: label
            match: {any: [{resources: {kinds: [Pod]}}]}
            validate: {failureAction: Enforce, message: no label, pattern: {metadata: {labels: {must: "?*"}}}}
        """,
        "clusterpolicy",
        "labelled",
    )
    cluster.apply(
        """
        apiVersion: kyverno.io/v2
        kind: PolicyException
        metadata: {name: free, namespace: tenant}
        spec:
          exceptions: [{policyName: labelled, ruleNames: [label]}]
          match: {any: [{resources: {kinds: [Pod]}}]}
        """
    )
    inside = (
        "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: tenant}, spec: {containers: [{name: a, image: b}]}}"
    )
    cluster.until(lambda: cluster.create(inside).returncode == 0, what="the exception in its own namespace")
    assert "no label" in cluster.refused(pod("outside"))


def test_a_namespace_that_is_not_known_yet_is_judged_by_its_labels(cluster: Cluster) -> None:
    """GHSA-jrr2-x33p-6hvc: a namespace and a Pod in it right behind, faster than any watch."""
    cluster.policy(
        """
        apiVersion: kyverno.io/v1
        kind: ClusterPolicy
        metadata: {name: strict}
        spec:
          background: false
          rules:
          - name: strict
            match: {any: [{resources: {kinds: [Pod], namespaceSelector: {matchLabels: {tier: strict}}}}]}
            validate: {failureAction: Enforce, message: not here, deny: {}}
        """,
        "clusterpolicy",
        "strict",
    )
    names = [f"strict-{number}" for number in range(8)]
    for name in names:
        both = f"""\
            apiVersion: v1
            kind: Namespace
            metadata: {{name: {name}, labels: {{tier: strict}}}}
            ---
            apiVersion: v1
            kind: Pod
            metadata: {{name: p, namespace: {name}}}
            spec: {{containers: [{{name: a, image: b}}]}}
            """
        assert "not here" in cluster.create(both).stderr


def config_map(name: str, namespace: str, labels: str = "", data: str = "a: b") -> str:
    return (
        f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: {namespace}, labels: {{{labels}}}}},"
        f" data: {{{data}}}}}"
    )


def test_a_namespaced_policy_makes_and_copies_nothing_elsewhere(cluster: Cluster) -> None:
    """The kind of GHSA-79gf-7frw-68m9, for rules that generate."""
    cluster.namespaces("victim")
    cluster.apply(config_map("treasure", "victim", data="secret: leaked"))
    elsewhere = 'namespace: "{{ request.object.data.place }}", data: {data: {x: y}}'
    stolen = 'namespace: default, clone: {name: treasure, namespace: "{{ request.object.data.place }}"}'
    for number, target in enumerate((elsewhere, stolen)):
        done = cluster.create(
            f"""
            apiVersion: kyverno.io/v1
            kind: Policy
            metadata: {{name: reach-{number}, namespace: default}}
            spec:
              rules:
              - name: reach
                match: {{any: [{{resources: {{kinds: [ConfigMap], names: ["go-{number}-*"]}}}}]}}
                generate: {{apiVersion: v1, kind: ConfigMap, name: reached-{number}, synchronize: true, {target}}}
            """
        )
        if done.returncode == 0:
            cluster.ready("policies.v1.kyverno.io", f"reach-{number}")
            cluster.admitted(config_map(f"go-{number}-victim", "default", data="place: victim"))
            cluster.admitted(config_map(f"go-{number}-default", "default", data="place: default"))
    if cluster.exists("policies.v1.kyverno.io", "reach-0"):
        # What stays in the namespace is made, so that the work has been done by now.
        cluster.appears("configmap", "reached-0", "-n", "default")
    cluster.until(lambda: not cluster.pending(), seconds=20, what="the end of the work")
    assert not cluster.exists("configmap", "reached-0", "-n", "victim")
    assert not cluster.exists("configmap", "reached-1", "-n", "default")


def test_a_namespaced_policy_changes_nothing_elsewhere(cluster: Cluster) -> None:
    """The same for rules that change existing objects."""
    cluster.namespaces("victim")
    for namespace in ("victim", "default"):
        cluster.apply(config_map("target", namespace, labels="kind: target"))
    for number, target in enumerate(
        (
            '{apiVersion: v1, kind: ConfigMap, name: target, namespace: "{{ request.object.data.place }}"}',
            '{apiVersion: v1, kind: ConfigMap, name: "*", namespace: "*", selector: {matchLabels: {kind: target}}}',
            "{apiVersion: v1, kind: Namespace, name: victim, namespace: \"{{ request.object.data.none || '' }}\"}",
        )
    ):
        done = cluster.create(
            f"""
            apiVersion: kyverno.io/v1
            kind: Policy
            metadata: {{name: touch-{number}, namespace: default}}
            spec:
              rules:
              - name: touch
                match: {{any: [{{resources: {{kinds: [ConfigMap], names: [go]}}}}]}}
                mutate:
                  targets: [{target}]
                  patchStrategicMerge: {{metadata: {{labels: {{touched-{number}: "true"}}}}}}
            """
        )
        if done.returncode == 0:
            cluster.ready("policies.v1.kyverno.io", f"touch-{number}")
    cluster.admitted(config_map("go", "default", data="place: victim"))
    if cluster.exists("policies.v1.kyverno.io", "touch-1"):
        cluster.until(
            lambda: "touched-1" in cluster.get("configmap", "target", "-n", "default")["metadata"]["labels"],
            what="the change in the policy's own namespace",
        )
    cluster.until(lambda: not cluster.pending(), seconds=20, what="the end of the work")
    for kind, place in (("configmap", ("target", "-n", "victim")), ("namespace", ("victim",))):
        labels = cluster.get(kind, *place)["metadata"].get("labels") or {}
        assert not [name for name in labels if name.startswith("touched")], labels


def test_a_namespaced_cleanup_policy_removes_nothing_elsewhere(cluster: Cluster) -> None:
    """The same for policies that remove objects; the guide's rules in namespaced policies too."""
    cluster.namespaces("victim")
    for namespace in ("victim", "default"):
        cluster.apply(config_map("litter", namespace, labels="litter: yes-it-is"))
    done = cluster.create(
        """
        apiVersion: kyverno.io/v1
        kind: Policy
        metadata: {name: sweep, namespace: default}
        spec:
          rules:
          - name: sweep
            match: {any: [{resources: {kinds: [ConfigMap]}}]}
            cleanup:
              removeResources:
              - {kind: ConfigMap, selector: {matchLabels: {litter: yes-it-is}}, namespaces: [victim, default]}
        """
    )
    if done.returncode == 0:
        gone = lambda: not cluster.exists("configmap", "litter", "-n", "default")  # noqa: E731
        cluster.until(gone, what="the removal in the policy's own namespace")
    assert cluster.exists("configmap", "litter", "-n", "victim")
