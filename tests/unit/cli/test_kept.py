"""What command lines have compiled: it is the same as what would be compiled, and nothing depends on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler import Options, compile_policies
from compiler.diagnostics import Reporter
from compiler.source import Document, load_documents
from grammar import private
from runtime.cli import kept, offline

WARNED = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: warned}
spec:
  validationFailureAction: Enforce
  rules:
    - name: one
      match: {any: [{resources: {kinds: [Pod]}}]}
      validate: {message: m, pattern: {spec: {hostNetwork: "false"}}}
"""
REFUSED = WARNED.replace("pattern:", "patern:")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of what is kept, empty."""
    monkeypatch.delenv(private.SWITCH)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "thesmos" / "compiled"


def documents(text: str) -> list[Document]:
    return load_documents(text, "policy.yaml", Reporter())


def compiled(text: str, options: Options | None = None) -> tuple[bytes | None, tuple[object, ...]]:
    """As a process does that has compiled nothing yet."""
    offline._bundles.clear()
    options = options or Options()
    return offline.compile_documents(documents(text), options, options.fingerprint)


def without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the compiler was asked")

    monkeypatch.setattr("compiler.compile_policies", refuse)


def test_what_is_kept_is_what_is_compiled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = compile_policies(documents(WARNED))
    assert plain.diagnostics
    first = compiled(WARNED)
    without_compiler(monkeypatch)
    again = compiled(WARNED)
    assert again == first == (plain.bundle, tuple(plain.diagnostics))
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_what_is_refused_is_not_kept(folder: Path) -> None:
    assert compiled(REFUSED)[0] is None
    assert not folder.exists()


@pytest.mark.parametrize("damage", ["byte", "mode", "short", "empty"])
def test_a_file_that_does_not_count_is_made_again(folder: Path, damage: str) -> None:
    first = compiled(WARNED)
    (file,) = folder.iterdir()
    good = file.read_bytes()
    match damage:
        case "byte":
            file.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        case "mode":
            file.chmod(0o644)
        case "short":
            file.write_bytes(good[:40])
        case _:
            file.write_bytes(b"")
    assert compiled(WARNED) == first
    assert file.read_bytes() == good
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("body", [b"", b"[", b"{}\n", b"[[1]]\nTHB1", b'[["a"]]\n', b"3\nTHB1"])
def test_a_file_of_another_form_is_made_again(folder: Path, body: bytes) -> None:
    first = compiled(WARNED)
    (file,) = folder.iterdir()
    private.write(file, body)
    assert compiled(WARNED) == first


def test_another_text_or_option_or_version_is_compiled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(WARNED)
    compiled(WARNED.replace("name: warned", "name: other"))
    compiled(WARNED, Options(level=0))
    assert len(list(folder.iterdir())) == 3
    monkeypatch.setattr(private, "installed", lambda *_: b"another")
    compiled(WARNED)
    assert len(list(folder.iterdir())) == 4


def test_parts_of_a_key_do_not_run_together() -> None:
    assert len({kept.key_of("ab", "c"), kept.key_of("a", "bc"), kept.key_of("abc"), kept.key_of("a", "b", "c")}) == 4


def test_it_is_switched_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(private.SWITCH, "1")
    assert compiled(WARNED)[0] is not None
    assert not folder.exists()


def test_a_cache_that_cannot_be_written(folder: Path) -> None:
    folder.parent.mkdir(mode=0o700)
    folder.write_text("in the way")
    assert compiled(WARNED)[0] is not None
    folder.unlink()
    folder.parent.chmod(0o777)
    assert compiled(WARNED)[0] is not None
    assert not folder.exists()


def test_there_are_not_too_many_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST", 4)
    for number in range(9):
        kept.put(f"{number}", b"THB1", ())
    assert 2 <= len(list(folder.iterdir())) <= 4
    assert kept.get("8") == (b"THB1", ())
