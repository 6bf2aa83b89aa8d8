"""Compiled policies on disk: used when all they depend on is the same, and never trusted beyond that."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from compiler.source import load_values
from runtime.bundles import make_imports
from runtime.config import Settings
from runtime.controllers.bundlecache import BundleCache, key_of
from runtime.controllers.compilation import compile_text
from runtime.controllers.policy import PolicyController
from runtime.observe.metrics import Metrics
from runtime.webhook.live import Live
from tests.unit.runtime.test_policy_controller import TEXT

KEY = ("ClusterPolicy", "", "require-team")


def start(
    folder: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings | None = None
) -> tuple[PolicyController, int]:
    """A fresh process: its controller after one round, and how often it asked the compiler."""
    asked = 0

    def counting(*args: object, **more: object) -> object:
        nonlocal asked
        asked += 1
        return compile_text(*args, **more)  # type: ignore[arg-type]

    live = Live(namespaces={})
    controller = PolicyController(
        live, settings or Settings(bundle_cache=folder), Metrics(), make_imports(), lambda: None
    )
    (obj,) = load_values(TEXT)
    controller.note("added", dict(obj))
    with monkeypatch.context() as patched:
        patched.setattr("runtime.controllers.policy.compile_text", counting)
        asyncio.run(controller.round())
    assert controller.entries[KEY].good is not None
    return controller, asked


def test_a_second_process_loads_what_the_first_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, asked = start(tmp_path, monkeypatch)
    assert asked == 1
    second, asked = start(tmp_path, monkeypatch)
    assert asked == 0
    before, after = first.entries[KEY].good, second.entries[KEY].good
    assert before is not None
    assert after is not None
    assert before.digest == after.digest
    assert before.model is not None
    assert after.model is not None
    assert after.model.failure_policy == before.model.failure_policy == "Ignore"


@pytest.mark.parametrize("garbage", [b"", b"THB1", b"no bundle"])
def test_a_broken_file_is_compiled_again_and_replaced(
    garbage: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(tmp_path, monkeypatch)
    (file,) = tmp_path.iterdir()
    file.write_bytes(garbage)
    assert start(tmp_path, monkeypatch)[1] == 1
    assert start(tmp_path, monkeypatch)[1] == 0


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "file"
    place.write_text("no folder")
    assert start(place / "cache", monkeypatch)[1] == 1
    assert start(place / "cache", monkeypatch)[1] == 1


def test_another_option_is_another_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start(tmp_path, monkeypatch)
    strict = Settings(bundle_cache=tmp_path, cel_strict=True)
    assert start(tmp_path, monkeypatch, strict)[1] == 1


def test_the_key_holds_the_definitions_that_the_text_names() -> None:
    crd = {"spec": {"group": "acme.io", "names": {"kind": "Widget"}, "versions": []}}
    changed = {"spec": {**crd["spec"], "scope": "Cluster"}}

    def key(text: str, *crds: object) -> str:
        return key_of(text, "ClusterPolicy/p", cel_strict=False, quirks="", crds=crds)  # type: ignore[arg-type]

    assert key("kinds: [Pod]", crd) == key("kinds: [Pod]", changed)
    assert key("kinds: [Widget]", crd) != key("kinds: [Widget]", changed)


def test_versions_that_nobody_asks_for_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.controllers.bundlecache.SPARE", 8)
    for number in range(30):
        BundleCache(tmp_path).put(f"{number:064x}", b"old")
    cache = BundleCache(tmp_path)
    for number in range(100, 104):
        cache.get(f"{number:064x}")
        cache.put(f"{number:064x}", b"new")
    names = {path.name for path in tmp_path.iterdir()}
    assert {f"{number:064x}.thb" for number in range(102, 104)} <= names
    assert len(names) <= 8 + 4
