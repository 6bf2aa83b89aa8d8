"""Kubernetes objects (typed) and any JSON values (untyped).

Names, images and sizes come from small pools, so that patterns, selectors and queries made from the same pools meet
them often.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = ("web", "app", "db", "sidecar", "istio-proxy", "a")
NAMESPACES = ("default", "kube-system", "team-a", "team-b", "prod")
LABEL_KEYS = ("app", "tier", "team", "app.kubernetes.io/name", "env")
LABEL_VALUES = ("web", "db", "prod", "dev", "", "1", "true")
ANNOTATION_KEYS = ("owner", "corp.example/size", "note")
IMAGES = (
    "nginx",
    "nginx:latest",
    "nginx:1.25",
    "gcr.io/acme/app:1.4.2",
    "ghcr.io/acme/db:v2",
    "registry.example.com:5000/team/tool:0.1",
    "busybox@sha256:" + "0" * 64,
)
QUANTITIES = ("0", "1", "100m", "0.5", "128Mi", "256Mi", "1Gi", "1024Mi", "2G", "1e3")
DURATIONS = ("0s", "30s", "1m", "90s", "1h", "1h30m", "24h")

names = st.sampled_from(NAMES)
namespaces = st.sampled_from(NAMESPACES)
labels = st.dictionaries(st.sampled_from(LABEL_KEYS), st.sampled_from(LABEL_VALUES), max_size=3)
annotations = st.dictionaries(
    st.sampled_from(ANNOTATION_KEYS), st.sampled_from(LABEL_VALUES + QUANTITIES + DURATIONS), max_size=2
)
resource_lists = st.dictionaries(st.sampled_from(("cpu", "memory")), st.sampled_from(QUANTITIES), max_size=2)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-20, 2000),
    st.sampled_from((0.0, 0.5, 1.0, 1.5, 7.25, -2.0, 1000000.0)),
    st.sampled_from(LABEL_VALUES + QUANTITIES + DURATIONS + IMAGES),
)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A map in which each field may be absent."""
    return st.fixed_dictionaries({}, optional=fields)


security_contexts = optional(
    privileged=st.booleans(),
    runAsNonRoot=st.booleans(),
    runAsUser=st.sampled_from((0, 1, 1000)),
    capabilities=optional(drop=st.lists(st.sampled_from(("ALL", "NET_RAW")), max_size=2)),
)

containers = st.fixed_dictionaries(
    {"name": names, "image": st.sampled_from(IMAGES)},
    optional={
        "imagePullPolicy": st.sampled_from(("Always", "IfNotPresent", "Never")),
        "resources": optional(requests=resource_lists, limits=resource_lists),
        "securityContext": security_contexts,
        "ports": st.lists(
            st.fixed_dictionaries(
                {"containerPort": st.sampled_from((80, 443, 8080))},
                optional={"protocol": st.sampled_from(("TCP", "UDP")), "hostPort": st.just(80)},
            ),
            max_size=2,
        ),
        "env": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(("MODE", "LEVEL"))}, optional={"value": st.text("ab1", max_size=2)}
            ),
            max_size=2,
        ),
        "args": st.lists(st.sampled_from(("--debug", "--port=1", "serve")), max_size=2),
    },
)

volumes = st.fixed_dictionaries(
    {"name": names},
    optional={
        "emptyDir": optional(sizeLimit=st.sampled_from(QUANTITIES)),
        "hostPath": st.fixed_dictionaries({"path": st.sampled_from(("/var/run/docker.sock", "/tmp", "/"))}),
    },
)

pod_specs = st.fixed_dictionaries(
    {"containers": st.lists(containers, min_size=1, max_size=3, unique_by=lambda c: c["name"])},
    optional={
        "initContainers": st.lists(containers, max_size=2, unique_by=lambda c: c["name"]),
        "volumes": st.lists(volumes, max_size=2, unique_by=lambda v: v["name"]),
        "hostNetwork": st.booleans(),
        "securityContext": security_contexts,
        "serviceAccountName": names,
        "nodeSelector": labels,
        "terminationGracePeriodSeconds": st.integers(0, 60),
        "tolerations": st.lists(optional(key=names, operator=st.sampled_from(("Exists", "Equal"))), max_size=2),
    },
)


def metadata(namespaced: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    required: dict[str, st.SearchStrategy[Any]] = {"name": names}
    if namespaced:
        required["namespace"] = namespaces
    return st.fixed_dictionaries(required, optional={"labels": labels, "annotations": annotations})


pods = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.just("Pod"), "metadata": metadata(), "spec": pod_specs}
)

templates = st.fixed_dictionaries({"metadata": optional(labels=labels, annotations=annotations), "spec": pod_specs})

deployments = st.fixed_dictionaries(
    {
        "apiVersion": st.just("apps/v1"),
        "kind": st.just("Deployment"),
        "metadata": metadata(),
        "spec": st.fixed_dictionaries({"replicas": st.integers(0, 5), "template": templates}),
    }
)

cron_jobs = st.fixed_dictionaries(
    {
        "apiVersion": st.just("batch/v1"),
        "kind": st.just("CronJob"),
        "metadata": metadata(),
        "spec": st.fixed_dictionaries(
            {
                "schedule": st.just("0 * * * *"),
                "jobTemplate": st.fixed_dictionaries({"spec": st.fixed_dictionaries({"template": templates})}),
            }
        ),
    }
)

config_maps = st.fixed_dictionaries(
    {
        "apiVersion": st.just("v1"),
        "kind": st.just("ConfigMap"),
        "metadata": metadata(),
        "data": st.dictionaries(
            st.sampled_from(("mode", "size", "list")), st.sampled_from(LABEL_VALUES + QUANTITIES), max_size=3
        ),
    }
)

namespace_objects = st.fixed_dictionaries(
    {
        "apiVersion": st.just("v1"),
        "kind": st.just("Namespace"),
        "metadata": st.fixed_dictionaries({"name": namespaces}, optional={"labels": labels}),
    }
)

resources = st.one_of(pods, deployments, cron_jobs, config_maps, namespace_objects)
"""A well-formed object of one of the kinds that the typed policies match."""

keys = st.one_of(
    st.sampled_from(("spec", "metadata", "labels", "name", "containers", "a", "b/c", "d~e", "")), st.text(max_size=4)
)

json_values = st.recursive(
    st.one_of(scalars, st.text(max_size=6), st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)
"""Any JSON value: the untyped twin."""

json_objects = st.dictionaries(keys, json_values, max_size=4)


@st.composite
def odd_resources(draw: st.DrawFn) -> dict[str, Any]:
    """An object with the fields that every object has, and anything else."""
    made: dict[str, Any] = draw(json_objects)
    made["apiVersion"] = draw(st.sampled_from(("v1", "apps/v1", "example.com/v1beta1")))
    made["kind"] = draw(st.sampled_from(("Pod", "Deployment", "Thing")))
    made["metadata"] = draw(metadata())
    return made


def paths_of(value: Any, prefix: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every path into a value, the empty one first."""
    found: list[tuple[str | int, ...]] = [prefix]
    if isinstance(value, dict):
        for key, item in value.items():
            found += paths_of(item, (*prefix, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            found += paths_of(item, (*prefix, i))
    return found
