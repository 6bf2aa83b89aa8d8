"""What the compiler knows of kinds: the stored table, a user's CRDs, and types that several kinds have in common."""

from __future__ import annotations

import subprocess
import sys
from importlib import resources
from typing import Any

import pytest

from compiler.frontends.cel import types as cel
from compiler.frontends.cel.types import DYN, ListOf, MapOf, Object, Soft
from compiler.schema.kinds import ListInfo, provider, table
from compiler.schema.kinds.records import Encoder

CORE = "io.k8s.api.core.v1."
SCHEMAS = provider()

CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "subresources": {"status": {}, "scale": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "metadata": {"type": "object"},
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {"type": "integer", "format": "int32"},
                                    "ratio": {"type": "number"},
                                    "mode": {"type": "string", "enum": ["b", "a"], "maxLength": 5},
                                    "port": {"x-kubernetes-int-or-string": True},
                                    "since": {"type": "string", "format": "date-time"},
                                    "blob": {"type": "string", "format": "byte"},
                                    "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                    "free": {"x-kubernetes-preserve-unknown-fields": True},
                                    "labels": {
                                        "type": "object",
                                        "maxProperties": 7,
                                        "additionalProperties": {"type": "boolean"},
                                    },
                                    "parts": {
                                        "type": "array",
                                        "maxItems": 3,
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                                    },
                                    "template": {
                                        "type": "object",
                                        "x-kubernetes-embedded-resource": True,
                                        "x-kubernetes-preserve-unknown-fields": True,
                                    },
                                },
                            },
                        },
                    }
                },
            },
            {"name": "v0", "served": False, "schema": {"openAPIV3Schema": {"type": "object"}}},
            {"name": "v2"},
        ],
    },
}


def test_the_table_is_small_and_says_its_version() -> None:
    data = (resources.files("compiler.schema.kinds") / table.FILE).read_bytes()
    assert len(data) <= 250_000
    assert SCHEMAS.version.startswith("v1.")
    assert len(table.stored().names) > 400


def test_writing_what_was_read_gives_the_same_bytes() -> None:
    stored = table.stored()
    definitions = {name: found for name in stored.names if (found := stored.definition(name)) is not None}
    shuffled = dict(reversed(definitions.items()))
    data = (resources.files("compiler.schema.kinds") / table.FILE).read_bytes()
    assert table.write(stored.version, reversed(stored.resources), shuffled) == data


def test_every_definition_that_is_named_is_there_and_has_types() -> None:
    def named(type_: Any) -> list[str]:
        match type_:
            case Soft(of):
                return named(of)
            case ListOf(item):
                return named(item)
            case MapOf(_, value):
                return named(value)
            case Object(name):
                return [name]
        return []

    for name in table.stored().names:
        fields = SCHEMAS.fields(name)
        assert fields is not None
        assert SCHEMAS.required(name) <= fields.keys()
        for type_ in fields.values():
            for inner in named(type_):
                assert SCHEMAS.fields(inner) is not None, (name, inner)


@pytest.mark.parametrize(
    ("definition", "field", "type_"),
    [
        (CORE + "Pod", "spec", Soft(Object(CORE + "PodSpec"))),
        (CORE + "Pod", "apiVersion", Soft(cel.STRING)),
        (CORE + "PodSpec", "containers", Soft(ListOf(Soft(Object(CORE + "Container"))))),
        (CORE + "PodSpec", "hostNetwork", Soft(cel.BOOL)),
        (CORE + "PodSpec", "terminationGracePeriodSeconds", Soft(cel.INT)),
        (CORE + "PodSpec", "nodeSelector", Soft(MapOf(cel.STRING, Soft(cel.STRING)))),
        (CORE + "ResourceRequirements", "limits", Soft(MapOf(cel.STRING, Soft(cel.QUANTITY_TEXT)))),
        (CORE + "EmptyDirVolumeSource", "sizeLimit", Soft(cel.QUANTITY_TEXT)),
        (CORE + "ServicePort", "targetPort", Soft(cel.INT_OR_STRING)),
        # In the JSON of an object these are texts.
        (CORE + "Secret", "data", Soft(MapOf(cel.STRING, Soft(cel.STRING)))),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "creationTimestamp", Soft(cel.STRING)),
        ("io.k8s.api.apps.v1.ControllerRevision", "data", Soft(MapOf(cel.STRING, DYN))),
        ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps", "maximum", Soft(cel.DOUBLE)),
        ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps", "default", DYN),
    ],
)
def test_fields_have_the_types_of_the_json_form(definition: str, field: str, type_: cel.Type) -> None:
    fields = SCHEMAS.fields(definition)
    assert fields is not None
    assert fields[field] == type_


def test_what_is_not_there_is_none() -> None:
    assert SCHEMAS.fields("io.k8s.api.core.v1.Nothing") is None
    assert SCHEMAS.kind("", "v1", "Gadget") is None
    assert SCHEMAS.kind("apps", "v1", "Pod") is None
    assert SCHEMAS.resource("", "v1", "gadgets") is None
    assert SCHEMAS.of_kind("", "v2", "Pod") is None
    assert SCHEMAS.list_info(CORE + "PodSpec", "hostNetwork") is None
    assert SCHEMAS.merge_key(CORE + "PodSpec", "nothing") is None


def test_resources_are_those_of_discovery() -> None:
    pods = SCHEMAS.resource("", "v1", "pods")
    assert pods is not None
    assert (pods.kind, pods.singular, pods.namespaced) == ("Pod", "pod", True)
    assert pods.subresources["eviction"].kind == "Eviction"
    assert "scale" not in pods.subresources
    assert SCHEMAS.of_kind("", "v1", "Pod") is pods
    assert SCHEMAS.kind("policy", "v1", "Eviction") == Object("io.k8s.api.policy.v1.Eviction")
    namespaces = SCHEMAS.resource("", "v1", "namespaces")
    assert namespaces is not None
    assert not namespaces.namespaced


def test_lists_tell_how_they_merge() -> None:
    assert SCHEMAS.list_info(CORE + "ServiceSpec", "ports") == ListInfo("map", ("port", "protocol"), "port", "merge")
    assert SCHEMAS.merge_key(CORE + "PodSpec", "containers") == "name"
    assert SCHEMAS.merge_key(CORE + "PodSpec", "tolerations") is None
    assert SCHEMAS.strategy(CORE + "PodSpec", "volumes") == "merge,retainKeys"
    assert SCHEMAS.strategy("io.k8s.api.apps.v1.DeploymentSpec", "strategy") == "retainKeys"
    info = SCHEMAS.list_info("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers")
    assert info == ListInfo("set", (), None, "merge")
    assert SCHEMAS.enum(CORE + "Container", "imagePullPolicy") == ("Always", "IfNotPresent", "Never")
    assert SCHEMAS.required(CORE + "Container") == {"name"}


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("Pod", [CORE + "Pod"]),
        ("*/*/Pod", [CORE + "Pod"]),
        ("v1/Pod", [CORE + "Pod"]),
        ("apps/*/Deployment", ["io.k8s.api.apps.v1.Deployment"]),
        ("Event", [CORE + "Event", "io.k8s.api.events.v1.Event"]),
        ("*Set", [f"io.k8s.api.apps.v1.{k}" for k in ("DaemonSet", "ReplicaSet", "StatefulSet")]),
        ("Pod/eviction", ["io.k8s.api.policy.v1.Eviction"]),
        ("Pod.status", [CORE + "Pod"]),
        ("Deployment/scale", ["io.k8s.api.autoscaling.v1.Scale"]),
        # The options of exec are in no schema that the API server publishes.
        ("Pod/exec", None),
        ("Gadget", None),
        ("extensions/v1beta1/Deployment", None),
        ("a/b/c/d/e", None),
    ],
)
def test_selectors_name_types(selector: str, names: list[str] | None) -> None:
    found = SCHEMAS.select(selector)
    assert (None if found is None else [o.name for o in found]) == names


def test_several_kinds_have_their_shared_fields() -> None:
    deployment, stateful = SCHEMAS.select("Deployment"), SCHEMAS.select("StatefulSet")
    assert deployment is not None
    assert stateful is not None
    assert SCHEMAS.common([]) is None
    assert SCHEMAS.common([*deployment, *deployment]) == deployment[0]
    both = SCHEMAS.common([*deployment, *stateful])
    assert both is not None
    assert both.open
    assert both.fields is not None
    assert both.fields == SCHEMAS.fields(both.name)
    spec = both.fields["spec"]
    assert isinstance(spec, Soft)
    assert isinstance(spec.of, Object)
    fields = SCHEMAS.fields(spec.of.name)
    assert fields is not None
    assert fields["template"] == Soft(Object(CORE + "PodTemplateSpec"))
    # StatefulSet has serviceName, Deployment has paused, and both have a strategy of another type.
    assert not {"serviceName", "paused", "strategy", "updateStrategy"} & fields.keys()


def test_kinds_with_little_in_common_have_metadata() -> None:
    kinds = [k for s in ("Pod", "ConfigMap", "Service") for k in SCHEMAS.select(s) or ()]
    found = SCHEMAS.common(kinds)
    assert found is not None
    assert found.fields is not None
    assert list(found.fields) == ["apiVersion", "kind", "metadata"]


def test_a_crd_becomes_a_kind() -> None:
    schemas = provider([CRD])
    kind = schemas.kind("example.com", "v1", "Gadget")
    assert kind == Object("example.com.v1.Gadget")
    fields = schemas.fields("example.com.v1.Gadget")
    assert fields is not None
    assert fields["metadata"] == Soft(Object("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"))
    assert fields["apiVersion"] == Soft(cel.STRING)
    spec = schemas.fields("example.com.v1.Gadget.spec")
    assert spec == {
        "blob": Soft(cel.STRING),
        "free": DYN,
        "labels": Soft(MapOf(cel.STRING, Soft(cel.BOOL))),
        "mode": Soft(cel.STRING),
        "parts": Soft(ListOf(Soft(Object("example.com.v1.Gadget.spec.parts")))),
        "port": Soft(cel.INT_OR_STRING),
        "ratio": Soft(cel.DOUBLE),
        "raw": Soft(MapOf(cel.STRING, DYN)),
        "since": Soft(cel.STRING),
        "size": Soft(cel.INT),
        "template": Soft(Object("example.com.v1.Gadget.spec.template", open=True)),
    }
    assert schemas.list_info("example.com.v1.Gadget.spec", "parts") == ListInfo("map", ("name",), None, "", 3)
    assert schemas.list_bound("example.com.v1.Gadget.spec", "parts") == 3
    assert schemas.list_bound("example.com.v1.Gadget.spec", "labels") == 7
    assert schemas.list_bound("example.com.v1.Gadget.spec", "mode") is None
    assert schemas.text_bound("example.com.v1.Gadget.spec", "mode") == 5
    assert schemas.enum("example.com.v1.Gadget.spec", "mode") == ("a", "b")
    assert schemas.required("example.com.v1.Gadget.spec") == {"size"}
    resource = schemas.resource("example.com", "v1", "gadgets")
    assert resource is not None
    assert (resource.kind, resource.namespaced, sorted(resource.subresources)) == ("Gadget", False, ["scale", "status"])


def test_versions_of_a_crd() -> None:
    schemas = provider([CRD])
    assert schemas.kind("example.com", "v0", "Gadget") is None
    assert schemas.kind("example.com", "v2", "Gadget") == Object("example.com.v2.Gadget", open=True)
    assert [k.name for k in schemas.select("Gadget") or ()] == ["example.com.v1.Gadget", "example.com.v2.Gadget"]


def test_a_users_kinds_stay_with_their_provider() -> None:
    assert provider([CRD]).kind("example.com", "v1", "Gadget") is not None
    assert provider().kind("example.com", "v1", "Gadget") is None
    assert provider() is provider()


@pytest.mark.parametrize(
    "crd",
    [
        {},
        {"spec": None},
        {"spec": {"group": 1, "names": []}},
        {"spec": {"group": "g", "names": {"plural": "p", "kind": "K"}, "versions": "v1"}},
        {"spec": {"group": "g", "names": {"plural": "p", "kind": "K"}, "versions": [None, 3, {"name": 4}]}},
    ],
)
def test_a_crd_that_is_none_gives_no_kind(crd: dict[str, Any]) -> None:
    assert provider([crd]).select("K") is None


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": None, "b": {"type": "what"}, "c": {"type": ["string"]}}},
        {
            "type": "object",
            "properties": {"a": {"type": "array"}, "b": {"type": "array", "items": [1], "maxItems": "x"}},
        },
        {"type": "object", "required": "a", "properties": {"a": {"$ref": "#/nowhere"}, "b": {"allOf": [3]}}},
        {"type": "object", "properties": {"a": {"type": "string", "enum": [1], "maxLength": -1}}},
    ],
)
def test_a_schema_that_is_wrong_is_not_known(schema: Any) -> None:
    crd = {
        "spec": {
            "group": "g",
            "names": {"plural": "ks", "kind": "K"},
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}],
        }
    }
    schemas = provider([crd])
    fields = schemas.fields("g.v1.K")
    assert fields is not None
    assert {"apiVersion", "kind", "metadata"} <= fields.keys()
    for name in fields:
        assert schemas.list_bound("g.v1.K", name) is None
        assert schemas.text_bound("g.v1.K", name) is None


def test_a_schema_without_end_is_cut() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["a"] = schema
    encoder = Encoder()
    encoder.value(schema, "k")
    assert 10 < len(encoder.definitions) < 100


def test_nothing_is_read_before_the_first_question() -> None:
    code = (
        "from compiler.schema.kinds import provider, table\n"
        "provider(); provider([{}])\n"
        "print(table.stored.cache_info().currsize)\n"
        "provider().kind('', 'v1', 'Pod')\n"
        "print(table.stored.cache_info().currsize)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["0", "1"]
