"""Kind selectors and anchored keys as the front end reads them."""

from __future__ import annotations

import pytest

from compiler.frontends.pattern import parse_key, parse_kind
from vm.intrinsics.pattern_walk import parse_anchor


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("Pod", ("*", "*", "Pod", "")),
        ("*", ("*", "*", "*", "")),
        ("*/*", ("*", "*", "*", "*")),
        ("*/scale", ("*", "*", "*", "scale")),
        ("*/Pod", ("*", "*", "Pod", "")),
        ("v1/Pod", ("*", "v1", "Pod", "")),
        ("v1beta1/CronJob", ("*", "v1beta1", "CronJob", "")),
        ("Pod/status", ("*", "*", "Pod", "status")),
        ("Pod.status", ("*", "*", "Pod", "status")),
        ("v1/Pod/status", ("*", "v1", "Pod", "status")),
        ("v1/Pod.status", ("*", "v1", "Pod", "status")),
        ("apps/v1/Deployment", ("apps", "v1", "Deployment", "")),
        ("*/v1/Deployment", ("*", "v1", "Deployment", "")),
        ("networking.k8s.io/v1/Ingress", ("networking.k8s.io", "v1", "Ingress", "")),
        ("apps/v1/Deployment/scale", ("apps", "v1", "Deployment", "scale")),
        ("apps/*/Deployment.scale", ("apps", "*", "Deployment", "scale")),
        ("pods", ("*", "*", "pods", "")),
        ("*Policy", ("*", "*", "*Policy", "")),
    ],
)
def test_selectors(selector: str, expected: tuple[str, str, str, str]) -> None:
    key = parse_kind(selector)
    assert key is not None
    assert (key.group, key.version, key.kind, key.subresource) == expected


@pytest.mark.parametrize("selector", ["", "/", "a/b/c/d/e", "Pod/", "Pod.", "."])
def test_what_is_no_selector(selector: str) -> None:
    assert parse_kind(selector) is None


@pytest.mark.parametrize(
    ("key", "anchor", "name"),
    [
        ("image", None, "image"),
        ("(image)", "", "image"),
        ("=(hostPath)", "=", "hostPath"),
        (" X(a) ", "X", "a"),
        ("^(containers)", "^", "containers"),
        ("<(image)", "<", "image"),
        ("+(a)", "+", "a"),
        ("=(a/b*)", "=", "a/b*"),
        ("((a))", "", "(a)"),
        ("()", None, "()"),
        ("=()", None, "=()"),
        ("y(a)", None, "y(a)"),
        ("(a)b", None, "(a)b"),
        ("", None, ""),
    ],
)
def test_keys(key: str, anchor: str | None, name: str) -> None:
    read = parse_key(key)
    assert (read.anchor, read.name) == (anchor, name)
    assert parse_anchor(key) == (None if anchor is None else (anchor, name))
