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
from tests.cluster.test_seed import namespaces


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
    namespaces(cluster, {"tenant"})
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
    cluster.plane.kubectl("delete", "pod", "p", "-n", "tenant", "--force", "--wait=false")


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
    cluster.plane.kubectl("delete", "namespace", *names, "--wait=false")
