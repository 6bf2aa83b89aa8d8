"""Policies of a cluster from bundles: signatures, atomic change, the last good one stays."""

from __future__ import annotations

import asyncio
import base64
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from compiler import Options, compile_policies, load_documents
from compiler.diagnostics import Reporter
from runtime.bundles import make_imports
from runtime.cli.keys import key_id, load_trust
from runtime.config import Settings
from runtime.controllers.bundlesource import BundleSources, SourceProblem, parse_source
from runtime.controllers.policy import PolicyController, watched
from runtime.observe.events import Events
from runtime.observe.metrics import Metrics
from runtime.ocilayout import LayoutProblem, parse_place, read_layout, write_layout
from runtime.request import Request
from runtime.webhook.live import Live
from tests.integration.server import review
from tests.unit.runtime.fake_api import FakeApi
from vm.bundle import Ed25519Signer
from vm.code import MAX_BUNDLE

ONE = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: require-team}
spec:
  webhookConfiguration: {failurePolicy: Ignore}
  rules:
    - name: team-label
      match: {any: [{resources: {kinds: [Pod]}}]}
      validate:
        failureAction: Enforce
        message: "the label team is required"
        pattern: {metadata: {labels: {team: "?*"}}}
"""
TWO = """
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: no-latest, namespace: default}
spec:
  rules:
    - name: tag
      match: {any: [{resources: {kinds: [Pod]}}]}
      validate:
        failureAction: Enforce
        message: "no latest"
        pattern: {spec: {containers: [{image: "!*:latest"}]}}
"""
EXCEPTION = """
apiVersion: kyverno.io/v2
kind: PolicyException
metadata: {name: free, namespace: default}
spec:
  exceptions: [{policyName: require-team, ruleNames: [team-label]}]
  match: {any: [{resources: {kinds: [Pod], names: [free]}}]}
"""
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))


def bundle(*texts: str, key: Ed25519PrivateKey | None = KEY, objects: bool = True) -> bytes:
    signer = None
    if key is not None:
        signer = Ed25519Signer(key_id(key.public_key().public_bytes_raw()), key.private_bytes_raw())
    documents = load_documents("---".join(texts), "policies.yaml", Reporter())
    result = compile_policies(documents, options=Options(sign=signer, objects=objects))
    assert result.bundle is not None, result.diagnostics
    return result.bundle


def public(folder: Path, key: Ed25519PrivateKey = KEY) -> str:
    path = folder / "key.pem"
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    path.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, form))
    return str(path)


class World:
    """A policy controller that has its policies from bundles, over the fake API server."""

    def __init__(self, folder: Path, *sources: str) -> None:
        self.api = FakeApi()
        self.live = Live(namespaces={})
        self.metrics = Metrics()
        settings = Settings(bundle_sources=sources, bundle_keys=(public(folder),))
        imports = make_imports()
        self.policies = PolicyController(self.live, settings, self.metrics, imports, lambda: None)
        self.events = Events(self.api, "test", self.metrics)
        self.sources = BundleSources(
            self.api, settings, self.policies, self.metrics, self.events, imports, load_trust([public(folder)])
        )

    async def look(self) -> None:
        await self.sources.look()
        if self.sources.loaded.is_set():
            await self.policies.round()

    def verdict(self, name: str, image: str = "nginx:1", labels: dict[str, str] | None = None) -> bool:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
            "spec": {"containers": [{"name": "c", "image": image}]},
        }
        request = Request.from_review(review(pod))
        return self.live.evaluate(request, "validate", "", float("inf")).allowed


def run(scenario: Callable[[], Any]) -> None:
    asyncio.run(scenario())


def test_a_signed_file_is_the_source_of_policies_namespaced_ones_and_exceptions(tmp_path: Path) -> None:
    (tmp_path / "p.thb").write_bytes(bundle(ONE, TWO, EXCEPTION))
    world = World(tmp_path, f"file:{tmp_path}/p.thb")

    async def scenario() -> None:
        await world.look()
        assert not world.verdict("bare")
        assert world.verdict("labelled", labels={"team": "a"})
        assert world.verdict("free")
        assert not world.verdict("latest", "nginx:latest", {"team": "a"})

    run(scenario)
    by_key = {w.key: w for w in watched(world.policies.entries.values())}
    assert by_key["require-team"].failure_policy == "Ignore"
    assert by_key["default/no-latest"].namespaced
    # The shared webhooks are split by failure policy as for objects of the cluster.
    snapshot = world.live.snapshot
    assert snapshot is not None
    assert [p.name for p in snapshot.engine("ignore").policies.policies] == ["require-team"]
    assert [p.name for p in snapshot.engine("fail").policies.policies] == ["no-latest"]


def test_a_change_swaps_everything_and_what_is_no_longer_there_goes(tmp_path: Path) -> None:
    path = tmp_path / "p.thb"
    path.write_bytes(bundle(ONE, TWO))
    world = World(tmp_path, f"file:{path}")

    async def scenario() -> None:
        await world.look()
        assert not world.verdict("bare")
        path.write_bytes(bundle(TWO))
        await world.look()
        assert world.verdict("bare")
        assert not world.verdict("latest", "nginx:latest")

    run(scenario)
    assert set(world.policies.entries) == {("Policy", "default", "no-latest")}


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (bundle(TWO, key=None), "is not signed"),
        (bundle(TWO, key=OTHER), "key"),
        (bundle(ONE)[:-1] + b"\0", "signature"),
        (b"THB1 nothing", ""),
        (bundle(TWO, objects=False), "compile it with --with-objects"),
    ],
    ids=["unsigned", "another-key", "garbled", "no-bundle", "no-objects"],
)
def test_a_wrong_bundle_keeps_the_last_good_one_and_says_so(
    tmp_path: Path, broken: bytes, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "p.thb"
    path.write_bytes(bundle(ONE))
    world = World(tmp_path, f"file:{path}")

    async def scenario() -> None:
        await world.look()
        path.write_bytes(broken)
        await world.look()
        await world.look()
        assert not world.verdict("bare")
        assert world.verdict("latest", "nginx:latest", {"team": "a"})

    run(scenario)
    (line,) = [r.message for r in caplog.records if r.levelname == "ERROR"]
    assert "the last good bundle stays in force" in line
    assert told in line
    assert world.metrics.value("thesmos_bundle_loads_total", f"file:{path}", "refused") == 1
    assert world.events._queue.qsize() == 1


def test_before_the_first_good_bundle_nothing_is_answered(tmp_path: Path) -> None:
    path = tmp_path / "p.thb"
    world = World(tmp_path, f"file:{path}")

    async def scenario() -> None:
        await world.look()
        assert not world.live.ready
        path.write_bytes(bundle(ONE))
        await world.look()
        assert world.live.ready

    run(scenario)


def test_objects_of_the_cluster_hold_bundles_under_keys_that_end_in_thb(tmp_path: Path) -> None:
    world = World(tmp_path, "configmap:kyverno/policies", "secret:kyverno/more")

    def obj(kind: str, name: str, field: str, data: bytes) -> dict[str, Any]:
        values = {"one.thb": base64.b64encode(data).decode(), "README": base64.b64encode(b"text").decode()}
        metadata = {"name": name, "namespace": "kyverno"}
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, field: values}

    async def scenario() -> None:
        from runtime.k8s.resources import CONFIG_MAP, SECRET

        await world.api.create(CONFIG_MAP, obj("ConfigMap", "policies", "binaryData", bundle(ONE)), "kyverno")
        await world.look()
        assert not world.live.ready
        await world.api.create(SECRET, obj("Secret", "more", "data", bundle(TWO)), "kyverno")
        await world.look()
        assert not world.verdict("bare")
        assert not world.verdict("latest", "nginx:latest", {"team": "a"})
        # The same policy from both would leave open which one counts.
        found = await world.api.get(SECRET, "more", "kyverno")
        found["data"]["one.thb"] = base64.b64encode(bundle(ONE)).decode()
        await world.api.replace(SECRET, found, "kyverno")
        await world.look()
        assert not world.verdict("latest", "nginx:latest", {"team": "a"})

    run(scenario)


def test_a_packed_bundle_is_unpacked_and_a_bomb_is_not(tmp_path: Path) -> None:
    world = World(tmp_path, "secret:kyverno/policies")

    def secret(data: bytes) -> dict[str, Any]:
        metadata = {"name": "policies", "namespace": "kyverno"}
        packed = {"p.thb.gz": base64.b64encode(data).decode()}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": packed}

    async def scenario() -> None:
        from runtime.k8s.resources import SECRET

        await world.api.create(SECRET, secret(gzip.compress(bundle(ONE))), "kyverno")
        await world.look()
        assert not world.verdict("bare")
        for wrong in (gzip.compress(bytes(MAX_BUNDLE + 1)), gzip.compress(bundle(TWO))[:-20], b"no gzip"):
            found = await world.api.get(SECRET, "policies", "kyverno")
            found["data"] = secret(wrong)["data"]
            await world.api.replace(SECRET, found, "kyverno")
            await world.look()
            assert world.sources._states[0].problem.startswith("p.thb.gz: ")
            assert not world.verdict("bare")

    run(scenario)


def test_an_image_layout_holds_bundles_by_tag(tmp_path: Path) -> None:
    folder = tmp_path / "layout"
    write_layout(folder, "v1", bundle(ONE))
    write_layout(folder, "v2", bundle(TWO))
    world = World(tmp_path, f"oci:{folder}:v1")

    async def scenario() -> None:
        await world.look()
        assert not world.verdict("bare")
        write_layout(folder, "v1", bundle(TWO))
        await world.look()
        assert world.verdict("bare")

    run(scenario)
    with pytest.raises(LayoutProblem, match="several manifests, name one of them: v1, v2"):
        read_layout(folder)


def test_a_blob_with_another_content_is_no_bundle(tmp_path: Path) -> None:
    data = bundle(ONE)
    write_layout(tmp_path, "", data)
    assert read_layout(tmp_path) == data
    (blob,) = [p for p in (tmp_path / "blobs" / "sha256").iterdir() if p.read_bytes() == data]
    blob.write_bytes(data[:-1] + b"x")
    with pytest.raises(LayoutProblem, match=r"the content of sha256:[0-9a-f]+ is another"):
        read_layout(tmp_path)


@pytest.mark.parametrize("text", ["", "file:", "configmap:one", "secret:a/b/c", "https://example.com/p.thb", "oci::v1"])
def test_what_is_no_source_is_refused(text: str) -> None:
    with pytest.raises(SourceProblem):
        parse_source(text)


def test_a_folder_may_have_colons_before_its_last_part() -> None:
    assert parse_place("/a:b/c") == (Path("/a:b/c"), "")
    assert parse_place("/a:b/c:v1") == (Path("/a:b/c"), "v1")
