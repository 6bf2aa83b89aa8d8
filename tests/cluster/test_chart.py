"""The chart renders what the manifests say, in every shape, and the API server takes all of it."""

from __future__ import annotations

import json
import subprocess
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.control_plane import ControlPlane
from tests.cluster.controlplane.build import KUBERNETES

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"

Objects = dict[tuple[str, str, str], dict[str, Any]]

SHAPES = {
    "default": (),
    "separate": ("separate=true", "size=large"),
    "shadow": ("shadow=true", "name=thesmos"),
    "partial": ("cleanup.enabled=false", "crds.apply=false", "networkPolicy.enabled=false"),
    "bundle": (
        "bundle.sources[0]=secret:kyverno/kyverno-policies",
        "bundle.publicKeys[0]=PEM",
        "grafanaBoard.enabled=true",
    ),
}


def render(helm: str, *values: str) -> Objects:
    """The objects of the chart by kind, namespace and name."""
    command = [helm, "template", "kyverno", str(DEPLOY / "chart"), "--namespace", "kyverno"]
    command += ["--kube-version", KUBERNETES.removeprefix("v")]
    for value in values:
        command += ["--set", value]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return by_key(done.stdout)


def by_key(text: str) -> Objects:
    found: Objects = {}
    for obj in yaml.safe_load_all(text):
        if obj is not None:
            key = (obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            assert key not in found, f"{key} stands twice"
            found[key] = obj
    return found


def built(plane: ControlPlane) -> Objects:
    done = plane.kubectl("kustomize", str(DEPLOY))
    assert done.returncode == 0, done.stderr
    return by_key(done.stdout)


def lines(obj: dict[str, Any]) -> list[str]:
    """An object as text; JSON inside texts without its layout."""
    made: dict[str, Any] = json.loads(json.dumps(obj))
    data = made.get("data") or {}
    for key in ("webhooks", "namespaces"):
        if key in data:
            data[key] = json.loads(data[key])
    return yaml.safe_dump(made).splitlines()


def test_without_values_it_is_what_kustomize_builds(helm: str, control_plane: ControlPlane) -> None:
    wanted = built(control_plane)
    # Helm makes the namespace itself, with --create-namespace.
    wanted.pop(("Namespace", "", "kyverno"))
    rendered = render(helm)
    assert rendered.keys() == wanted.keys()
    for key, obj in wanted.items():
        chart, manifests = (lines(one) for one in (rendered[key], obj))
        assert not (differs := "\n".join(unified_diff(manifests, chart, "manifests", "chart", lineterm=""))), differs


@pytest.mark.parametrize("shape", SHAPES)
def test_the_api_server_takes_every_shape(shape: str, helm: str, control_plane: ControlPlane) -> None:
    control_plane.kubectl("create", "namespace", "kyverno")
    objects = render(helm, *SHAPES[shape])
    text = "\n---\n".join(map(json.dumps, objects.values()))
    done = control_plane.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(objects)


def test_separate_parts_have_accounts_of_their_own_that_may_no_more_than_they_need(helm: str) -> None:
    objects = render(helm, "separate=true", "size=large")
    deployments = {
        name: obj["spec"]["template"]["spec"] for (kind, _, name), obj in objects.items() if kind == "Deployment"
    }
    assert {name: spec["serviceAccountName"] for name, spec in deployments.items()} == {
        name: name
        for name in (
            "kyverno",
            "kyverno-background-controller",
            "kyverno-cleanup-controller",
            "kyverno-reports-controller",
        )
    }
    for spec in deployments.values():
        (container,) = spec["containers"]
        assert container["resources"]["requests"] == {"cpu": "200m", "memory": "512Mi"}
        assert container["resources"]["limits"] == {"cpu": "1000m", "memory": "1Gi"}
    # Only who answers requests changes webhooks; only who generates makes NetworkPolicies.
    assert writers(objects, "validatingwebhookconfigurations") == {"kyverno"}
    assert writers(objects, "networkpolicies") == {"kyverno-background-controller"}
    assert writers(objects, "jobs") == {"kyverno-cleanup-controller"}


def writers(objects: Objects, resource: str) -> set[str]:
    """The accounts whose collected roles change a resource."""
    found = set()
    roles = [obj for (kind, _, _), obj in objects.items() if kind == "ClusterRole"]
    for account in (role for role in roles if "aggregationRule" in role):
        labels = [s["matchLabels"] for s in account["aggregationRule"]["clusterRoleSelectors"]]
        for role in roles:
            own = role["metadata"]["labels"]
            if not any(selector.items() <= own.items() for selector in labels):
                continue
            for rule in role.get("rules") or ():
                if resource in rule["resources"] and {"create", "delete"} & set(rule["verbs"]):
                    found.add(account["metadata"]["name"])
    return found


def test_the_shadow_writes_nothing_but_its_own_webhooks(helm: str) -> None:
    objects = render(helm, "shadow=true", "name=thesmos")
    # Leases and certificates are of its own namespace.
    for (kind, _, name), obj in objects.items():
        if kind != "ClusterRole":
            continue
        for rule in obj.get("rules") or ():
            writes = set(rule["verbs"]) - {"get", "list", "watch"}
            allowed = {"validatingwebhookconfigurations", "mutatingwebhookconfigurations", "subjectaccessreviews"}
            assert not writes or set(rule["resources"]) <= allowed, (name, rule)
            for named in rule.get("resourceNames", ()):
                assert named.startswith("thesmos-")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (("shadow=true",), "shadow: true needs another name than kyverno"),
        (("size=huge",), "size is small or large, not huge"),
        (("bundle.sources[0]=file:/p.thb",), "bundle.sources needs bundle.publicKeys"),
    ],
)
def test_values_that_make_no_sense_are_refused(helm: str, values: tuple[str, ...], told: str) -> None:
    command = [helm, "template", "kyverno", str(DEPLOY / "chart"), "--kube-version", KUBERNETES.removeprefix("v")]
    done = subprocess.run(
        [*command, "--set", ",".join(values)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode != 0
    assert told in done.stderr
