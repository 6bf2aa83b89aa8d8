"""Bundles on the command line: code under policy lines, JSON, signatures, and bundles that must not run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from runtime.cli.main import main
from tests.support.golden import ROOT

FIXTURES = ROOT / "cli" / "fixtures"


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """The bundle of two policies, in a folder of its own that is the current one."""
    for name in ("labels.yaml", "mutate.yaml", "pods.yaml"):
        shutil.copy(FIXTURES / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert main(["compile", "labels.yaml", "mutate.yaml", "-o", "set.thb", "-q"]) == 0
    capsys.readouterr()
    return tmp_path / "set.thb"


def test_code_stands_under_the_lines_it_came_from(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "set.thb", "--disasm"]) == 0
    shown = capsys.readouterr().out
    start = shown.index("function p0.r0 ")
    body = shown[start : shown.index("\nfunction ", start)]
    line = body.index("; labels.yaml:19:9  metadata:")
    assert body.index("invoke pat.walk") > line


def test_code_of_one_policy(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "set.thb", "--disasm", "--policy", "add-team"]) == 0
    shown = capsys.readouterr().out
    assert "policy add-team" in shown
    assert "policy require-labels" not in shown
    assert "function p1.r0" in shown
    assert "function p0." not in shown


def test_everything_as_json(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "set.thb", "--disasm", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["bytes"] == bundle.stat().st_size
    assert [p["name"] for p in shown["policies"]] == ["require-labels", "add-team"]
    assert sum(shown["sections"].values()) < shown["bytes"]
    assert {"p0.r0", "p1.r0"} <= set(shown["code"])
    assert main(["verify", "set.thb", "--json"]) == 0
    (outcome,) = json.loads(capsys.readouterr().out)
    assert outcome["ok"]
    assert outcome["digest"] == shown["digest"]


def test_stripping_leaves_the_answers(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "labels.yaml", "mutate.yaml", "-o", "bare.thb", "--strip", "-q"]) == 0
    assert Path("bare.thb").stat().st_size < bundle.stat().st_size
    assert main(["inspect", "bare.thb", "--disasm"]) == 0
    shown = capsys.readouterr().out
    assert "debug information: stripped" in shown
    assert "labels.yaml:" not in shown
    answers = []
    for name in ("set.thb", "bare.thb"):
        answers.append((main(["apply", name, "-r", "pods.yaml"]), capsys.readouterr().out))
    assert answers[0] == answers[1]


def test_the_same_policies_give_the_same_bytes(bundle: Path) -> None:
    assert main(["compile", "labels.yaml", "mutate.yaml", "-o", "again.thb", "-q"]) == 0
    assert Path("again.thb").read_bytes() == bundle.read_bytes()


def test_no_half_bundle_is_left_behind(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "labels.yaml", "-o", "nowhere/set.thb"]) == 2
    assert capsys.readouterr().err == "error: nowhere/set.thb: no such file or directory\n"
    assert sorted(p.name for p in bundle.parent.iterdir()) == ["labels.yaml", "mutate.yaml", "pods.yaml", "set.thb"]


def _keys(folder: Path, name: str) -> tuple[str, str]:
    key = ed25519.Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return str(private), str(public)


def test_signatures(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    private, public = _keys(bundle.parent, "mine")
    _, other = _keys(bundle.parent, "other")
    assert main(["compile", "labels.yaml", "-o", "signed.thb", "--sign", private, "-q"]) == 0
    assert main(["verify", "signed.thb", "--key", other, "--key", public]) == 0
    assert "signed by" in capsys.readouterr().out
    assert main(["verify", "signed.thb", "--key", other]) == 2
    assert "is not trusted" in capsys.readouterr().err
    assert main(["verify", "set.thb", "--key", public]) == 2
    assert "is not signed" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["compile", "labels.yaml", "--sign"], ["verify", "set.thb", "--key"]])
def test_keys_that_are_none(bundle: Path, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    curve = ec.generate_private_key(ec.SECP256R1())
    Path("ec.pem").write_bytes(curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    Path("ec.pub").write_bytes(curve.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    for name in ("nowhere.pem", "labels.yaml", "ec.pem" if command[0] == "compile" else "ec.pub"):
        assert main([*command, name]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"error: {name}: ")
        assert said.count("\n") == 1


@pytest.mark.parametrize("command", ["verify", "inspect", "apply"])
@pytest.mark.parametrize("damage", ["truncated", "altered", "foreign", "newer", "trailing"])
def test_bundles_that_must_not_run(bundle: Path, command: str, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = bundle.read_bytes()
    changed = {
        "truncated": data[: len(data) // 2],
        "altered": data[:300] + bytes([data[300] ^ 1]) + data[301:],
        "foreign": b"PK\x03\x04" + data[4:],
        "newer": b"THB9" + data[4:],
        "trailing": data + b"more",
    }
    Path("bad.thb").write_bytes(changed[damage])
    assert main([command, "bad.thb", *(["-r", "pods.yaml"] if command == "apply" else [])]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: bad.thb: ") or damage == "foreign"
    assert "Traceback" not in said.err
    assert said.out == ""


def test_a_file_that_may_not_be_read(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(self: Path, *_: object, **__: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    monkeypatch.setattr(Path, "read_text", refuse)
    for command in (["verify", "set.thb"], ["compile", "labels.yaml"], ["apply", "labels.yaml", "-r", "pods.yaml"]):
        assert main(command) == 2
        assert capsys.readouterr().err.endswith(": permission denied\n")
