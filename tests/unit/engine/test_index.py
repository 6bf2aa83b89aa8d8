"""The match index against brute force over all rules, and its memory."""

from __future__ import annotations

import random

import pytest

from runtime.match_index import MAX_ANSWERS, IndexedRule, MatchIndex, reaches
from tests.unit.engine.support import pod
from vm.code import KindKey, MatchKey
from vm.intrinsics.images import image_infos, parse_image

GROUPS = ("", "apps", "batch", "*", "ap?s")
VERSIONS = ("v1", "v1beta1", "*", "v1*")
KINDS = ("Pod", "Deployment", "Job", "*", "*Set", "Pod?")
SUBRESOURCES = ("", "status", "*", "ephemeralcontainers")
OPERATIONS = ((), ("CREATE",), ("CREATE", "UPDATE"), ("DELETE",))
NAMESPACES = (None, None, "a", "b")


def _rules(random_: random.Random) -> list[IndexedRule[int]]:
    def key() -> MatchKey:
        kind = KindKey(*(random_.choice(part) for part in (GROUPS, VERSIONS, KINDS, SUBRESOURCES)))
        return MatchKey(kind, random_.choice(OPERATIONS))

    return [
        IndexedRule(tuple(key() for _ in range(random_.randint(0, 3))), random_.choice(NAMESPACES), i)
        for i in range(40)
    ]


@pytest.mark.parametrize("seed", range(8))
def test_index_finds_what_a_search_of_all_rules_finds(seed: int) -> None:
    random_ = random.Random(seed)
    rules = _rules(random_)
    index = MatchIndex(rules)
    for _ in range(300):
        kind = [
            random_.choice(part) for part in (GROUPS[:3], VERSIONS[:2], ("Pod", "Job", "ReplicaSet"), SUBRESOURCES[:2])
        ]
        operation, namespace = random_.choice(("CREATE", "DELETE")), random_.choice(("", "a", "b", "c"))
        wanted = tuple(
            rule.item
            for rule in rules
            if rule.namespace in (None, namespace) and any(reaches(key, kind, operation) for key in rule.keys)
        )
        assert index.find(*kind, operation, namespace) == wanted


def test_answers_are_bounded() -> None:
    index: MatchIndex[int] = MatchIndex([IndexedRule((MatchKey(KindKey("*", "*", "*", "")),), None, 1)])
    for i in range(MAX_ANSWERS + 10):
        assert index.find("", "v1", f"Kind{i}", "", "CREATE", "") == (1,)
    assert len(index._answers) <= MAX_ANSWERS


def test_rules_on_pods_see_ephemeral_containers() -> None:
    key = MatchKey(KindKey("*", "*", "Pod", ""))
    assert reaches(key, ["", "v1", "Pod", "ephemeralcontainers"], "UPDATE")
    assert not reaches(key, ["", "v1", "Pod", "status"], "UPDATE")


@pytest.mark.parametrize(
    ("reference", "registry", "path", "tag", "digest"),
    [
        ("nginx", "docker.io", "nginx", "latest", ""),
        ("nginx:1.2", "docker.io", "nginx", "1.2", ""),
        ("team/app", "docker.io", "team/app", "latest", ""),
        ("ghcr.io/a/b@sha256:0f", "ghcr.io", "a/b", "", "sha256:0f"),
        ("localhost/a", "localhost", "a", "latest", ""),
        ("host:5000/a:1", "host:5000", "a", "1", ""),
        ("1.dkr.ecr.eu-west-1.amazonaws.com/a:1@sha256:0f", "1.dkr.ecr.eu-west-1.amazonaws.com", "a", "1", "sha256:0f"),
    ],
)
def test_parts_of_an_image(reference: str, registry: str, path: str, tag: str, digest: str) -> None:
    info = parse_image(reference)
    assert info is not None
    assert (info["registry"], info["path"]) == (registry, path)
    assert (info.get("tag", ""), info.get("digest", "")) == (tag, digest)


def test_images_of_a_pod_know_their_place() -> None:
    info = image_infos(pod())["containers"]["main"]
    assert info["jsonPointer"] == "/spec/containers/0/image"
    assert info["reference"] == "registry.example.com/web:1"


@pytest.mark.parametrize("resource", [None, [], {}, {"kind": "Pod"}, {"kind": "Pod", "spec": {"containers": [1, {}]}}])
def test_no_images(resource: object) -> None:
    assert image_infos(resource) == {}
