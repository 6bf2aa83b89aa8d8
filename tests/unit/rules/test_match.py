"""Attributes of resource filters and label selectors."""

from __future__ import annotations

from typing import Any

import pytest

from vm.functions import INTRINSICS, resolve
from vm.host import Meter
from vm.intrinsics.labels import selects


def call(name: str, *operands: Any) -> Any:
    body = resolve(f"match.{name}")
    return body(Meter(), *operands) if INTRINSICS[f"match.{name}"].metered else body(*operands)


def resource(kind: str = "Pod", **metadata: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": metadata}


@pytest.mark.parametrize(
    ("kind", "selector", "expected"),
    [
        (["", "v1", "Pod", ""], ["*", "*", "Pod", ""], True),
        (["", "v1", "Pod", "status"], ["*", "*", "Pod", ""], False),
        (["", "v1", "Pod", "ephemeralcontainers"], ["*", "*", "Pod", ""], True),
        (["x.org", "v1", "Pod", "ephemeralcontainers"], ["*", "*", "Pod", ""], False),
        (["", "v1", "Pod", "status"], ["*", "*", "*", "*"], True),
        (["", "v1", "Pod", "status"], ["*", "*", "Pod", "*"], True),
        (["apps", "v1", "Deployment", "scale"], ["*", "*", "*", "scale"], True),
        (["apps", "v1", "Deployment", ""], ["apps", "v1", "Deployment", ""], True),
        (["apps", "v1beta1", "Deployment", ""], ["apps", "v1", "Deployment", ""], False),
        (["apps", "v1", "Deployment", ""], ["*", "*", "Deploy*", ""], True),
        (["apps", "v1", "Deployment", ""], ["*", "*", "*", ""], True),
    ],
)
def test_kinds(kind: list[str], selector: list[str], expected: bool) -> None:
    assert call("kinds", kind, [["*", "*", "Other", ""], selector]) is expected


def test_names_fall_back_to_generate_name() -> None:
    assert call("names", resource(name="web-1"), ["db-*", "web-*"])
    assert not call("names", resource(name="web-1"), ["web"])
    assert call("names", resource(generateName="web-"), ["web-*"])
    assert not call("names", resource(), ["web-*"])
    assert not call("names", None, ["web-*"])


def test_the_namespace_of_a_namespace_is_its_name() -> None:
    assert call("namespaces", resource(name="x", namespace="team-a"), ["team-?"])
    assert call("namespaces", resource("Namespace", name="team-a"), ["team-*"])
    assert not call("namespaces", resource(name="team-a"), ["team-*"])


def test_annotations_match_by_key_and_value() -> None:
    annotated = resource(annotations={"a/b": "yes", "c": "no"})
    assert call("annotations", annotated, {"a/*": "y?s"})
    assert not call("annotations", annotated, {"a/*": "no"})
    assert not call("annotations", annotated, {"a/*": "yes", "d": "*"})
    assert not call("annotations", resource(), {"a": "*"})


def test_a_namespace_meets_no_namespace_selector() -> None:
    selector = {"matchLabels": {"zone": "a"}}
    assert call("namespace_selector", resource(), {"zone": "a"}, selector)
    assert not call("namespace_selector", resource(), {"zone": "b"}, selector)
    assert not call("namespace_selector", resource(), None, selector)
    assert not call("namespace_selector", resource("Namespace"), {"zone": "a"}, selector)


def test_subjects_and_roles() -> None:
    user = {"username": "system:serviceaccount:ci:builder", "groups": ["system:authenticated"]}
    assert call("subjects", user, [["ServiceAccount", "build*", "c?"]])
    assert not call("subjects", user, [["ServiceAccount", "builder", "prod"]])
    assert call("subjects", user, [["User", "system:serviceaccount:*", ""]])
    assert call("subjects", user, [["Group", "system:*", ""]])
    assert not call("subjects", user, [["Group", "admins", ""]])
    assert not call("subjects", {}, [["Group", "*", ""]])
    assert call("roles", ["ns:a", "ns:b"], ["ns:b"])
    assert not call("roles", ["ns:a"], ["ns:*"])
    assert not call("roles", None, ["a"])


def test_describe() -> None:
    assert call("describe", resource(name="web", namespace="a")) == "Pod/web in namespace a"
    assert call("describe", resource("Namespace", name="a")) == "Namespace/a"


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        ({}, {}, True),
        ({"matchLabels": {"app": "web"}}, {"app": "web", "x": "y"}, True),
        ({"matchLabels": {"app": "w*"}}, {"app": "web"}, True),
        ({"matchLabels": {"a??": "w*"}}, {"app": "web"}, True),
        ({"matchLabels": {"a*": "w*"}}, {"aa": "no", "app": "web"}, True),
        ({"matchLabels": {"app": "w*"}}, {"app": "db"}, False),
        ({"matchLabels": {"app": "w*"}}, {"app": "w0"}, True),
        ({"matchLabels": {"app": ""}}, {}, False),
        ({"matchExpressions": [{"key": "z", "operator": "In", "values": ["a", "b"]}]}, {"z": "b"}, True),
        ({"matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}]}, {}, False),
        ({"matchExpressions": [{"key": "z", "operator": "NotIn", "values": ["a"]}]}, {}, True),
        ({"matchExpressions": [{"key": "z", "operator": "NotIn", "values": ["a"]}]}, {"z": "a"}, False),
        ({"matchExpressions": [{"key": "z", "operator": "Exists"}]}, {"z": ""}, True),
        ({"matchExpressions": [{"key": "z", "operator": "DoesNotExist"}]}, {"z": ""}, False),
        ({"matchExpressions": [{"key": "z", "operator": "In", "values": []}]}, {"z": "a"}, False),
        ({"matchExpressions": [{"key": "z", "operator": "Exists", "values": ["a"]}]}, {"z": "a"}, False),
        ({"matchExpressions": [{"key": "z", "operator": "Like", "values": ["a"]}]}, {"z": "a"}, False),
        ({"matchExpressions": [{"key": "z", "operator": "In", "values": ["a*"]}]}, {"z": "ab"}, False),
        ({"matchLabels": {"-bad-": "x"}}, {"-bad-": "x"}, False),
        (None, {}, False),
    ],
)
def test_selectors(selector: Any, labels: dict[str, str], expected: bool) -> None:
    assert selects(selector, labels) is expected
