"""Generated code that is kept: it means what generated code means, and what others may have written does not count."""

from __future__ import annotations

import dis
import os
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from types import CodeType, FunctionType
from typing import Any

import pytest

from fuzz.gen import bytecode
from fuzz.gen.rules import case
from grammar import private
from runtime.background import later
from runtime.bundles import load_files
from runtime.controllers.compilation import compile_text
from runtime.engine import Engine
from runtime.request import Request
from tests.cases.engines import compiled
from vm import kept_code
from vm.asm import assemble
from vm.bundle import encode_module, read_bundle
from vm.host import Meter
from vm.kept_code import KeptCode, places_for
from vm.tier2 import translate
from vm.verify import FOUND, VerifiedModule, VerifyError, verify

TEXT = "function f () -> V\n  call g\n  ret\nfunction g () -> V\n  const 5\n  ret\n"

EXPRESSIONS = """
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: names}
spec:
  rules:
    - name: names
      match: {any: [{resources: {kinds: [Pod]}}]}
      validate:
        cel:
          expressions:
            - expression: "object.metadata.name.matches('^[a-z]+$') && object.metadata.name in ['web', 'db', 'job']"
"""


def verified(text: str = TEXT) -> VerifiedModule:
    return verify(read_bundle(encode_module(assemble(text))), bytecode.lent())


def at_once(job: Callable[[], object]) -> None:
    job()


def kept_in(folder: Path, m: VerifiedModule) -> KeptCode:
    return KeptCode(m.digest, [folder], at_once)


def generated(m: VerifiedModule, kept: KeptCode | None = None) -> dict[str, Any]:
    """The globals of a program all of whose functions have been made."""
    program: Any = translate(m, kept=kept)
    for fn in m.functions:
        if not fn.params:
            program._entry(fn.number)
    found: dict[str, Any] = program._globals
    return found


def reads(code: CodeType) -> Iterable[str]:
    """The globals that code reads."""
    yield from (i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL")
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from reads(inner)


def modules() -> Iterable[VerifiedModule]:
    rng = Random(5)
    for _ in range(60):
        try:
            yield verify(read_bundle(encode_module(bytecode.module(rng))), bytecode.lent())
        except VerifyError:
            continue
    bundles = [compiled(case(number, resources=1).documents).bundle for number in range(40)]
    bundles.append(compile_text(EXPRESSIONS, "names.yaml").bundle)
    assert bundles[-1] is not None
    for bundle in bundles:
        if bundle is not None:
            yield verify(read_bundle(bundle), bytecode.lent())


def test_kept_code_sees_what_generated_code_sees(tmp_path: Path) -> None:
    seen: set[str] = set()
    functions = 0
    for m in modules():
        fresh = generated(m, kept_in(tmp_path, m))
        kept = kept_in(tmp_path, m)
        again = generated(m, kept)
        assert not kept._found, "a function was generated though it was kept"
        assert set(again) <= set(fresh)
        for name, value in again.items():
            if isinstance(value, FunctionType) and value.__globals__ is again:
                functions += 1
                assert value.__code__ == fresh[name].__code__
                for read in reads(value.__code__):
                    assert read in again, f"{read} of {name} has no value"
            elif not callable(value):
                assert value == fresh[name]
                assert type(value) is type(fresh[name])
            if name[-1].isdecimal():
                seen.add(name[0])
    assert functions > 200
    assert seen >= set("fkrpqviwe")


def test_what_was_generated_is_there_in_the_next_process(tmp_path: Path) -> None:
    m = verified()
    fresh = translate(m, kept=kept_in(tmp_path, m))
    first, second = Meter(), Meter()
    assert fresh.run(0, {}, first) == 5
    kept = kept_in(tmp_path, m)
    assert "f0" in kept
    assert "f1" in kept
    never: list[Any] = []
    # What is kept answers at once: nothing is asked of the slower program, and nothing is left for later.
    again = translate(m, meanwhile=_Refusing(), later=never.append, kept=kept)
    assert again.run(0, {}, second) == 5
    assert first.left == second.left
    assert not never


class _Refusing:
    def run(self, fn: int, root: dict[str, Any], meter: Meter) -> Any:
        raise AssertionError("the slower program was asked")

    def start(self, fn: int, root: dict[str, Any], meter: Meter) -> Any:
        raise AssertionError("the slower program was asked")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of :data:`TEXT`, with what it holds."""
    folder = tmp_path / "code"
    generated(verified(), kept_in(folder, verified()))
    (found,) = folder.iterdir()
    assert found.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert "f0" in kept_in(folder, verified())
    return found


def counts(file: Path) -> bool:
    """Whether what a file holds counts; a program must answer all the same."""
    m = verified()
    kept = kept_in(file.parent, m)
    found = "f0" in kept
    assert translate(m, kept=kept).run(0, {}, Meter()) == 5
    return found


@pytest.mark.parametrize("place", [0, 40, 70, -1])
def test_a_flipped_byte(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)
    assert not counts(file)


@pytest.mark.parametrize("size", [0, 10, 32, 64, 100])
def test_a_file_that_ends_too_early(file: Path, size: int) -> None:
    file.write_bytes(file.read_bytes()[:size])
    assert not counts(file)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o640, 0o604, 0o660])
def test_a_file_that_others_may_open(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert not counts(file)


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_may_write_to(file: Path, mode: int) -> None:
    file.parent.chmod(mode)
    assert not counts(file)
    assert not private.write(file.with_name("other"), b"x")


def test_a_file_of_somebody_else(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.geteuid()
    real = os.fstat

    def foreign(descriptor: int) -> os.stat_result:
        state = list(real(descriptor))
        state[4] = own + 1
        return os.stat_result(state)

    monkeypatch.setattr(os, "fstat", foreign)
    assert private.read(file) is None


def test_a_folder_of_somebody_else(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    assert private.read(file) is None
    assert not private.is_own(file.parent)


def test_a_link(file: Path) -> None:
    other = file.with_name("other")
    file.rename(other)
    file.symlink_to(other)
    assert not counts(file)


def test_what_is_no_file(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)
    assert private.read(file) is None
    file.unlink()
    file.mkdir()
    assert not counts(file)


@pytest.mark.parametrize("what", ["interpreter", "magic", "version", "format"])
def test_another_interpreter_or_version(file: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    match what:
        case "interpreter":
            monkeypatch.setattr(sys, "version", "3.11.99 (another build)")
        case "magic":
            monkeypatch.setattr(kept_code, "MAGIC_NUMBER", b"\x01\x02\r\n")
        case "version":
            monkeypatch.setattr(private, "installed", lambda *_: b"another")
        case _:
            monkeypatch.setattr(kept_code, "FORMAT", 99)
    assert not counts(file)
    # It was written again, for this one.
    assert counts(file)


def test_another_bundle_has_another_file(file: Path) -> None:
    other = verified(TEXT.replace("const 5", "const 6"))
    kept = kept_in(file.parent, other)
    assert "f0" not in kept
    assert translate(other, kept=kept).run(0, {}, Meter()) == 6
    # Nor does a file count under the name of another bundle.
    (name,) = (f for f in file.parent.iterdir() if f != file)
    file.replace(name)
    assert "f0" not in kept_in(file.parent, other)


def test_writers_at_the_same_time(tmp_path: Path) -> None:
    m = verified()
    start = threading.Barrier(8)
    wrong: list[object] = []

    def work(number: int) -> None:
        start.wait()
        for turn in range(30):
            kept = kept_in(tmp_path, m)
            kept.put(f"own{number}.{turn}", (number, turn))
            kept.write()
            again = kept_in(tmp_path, m)
            # What another has written since may be missing, but a file is always one that somebody wrote whole.
            if not again._found or any(type(again.get(name)) is not tuple for name in list(again._found)):
                wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert [f.name for f in tmp_path.iterdir() if f.name.endswith(".part")] == []


def test_what_others_have_written_stays(tmp_path: Path) -> None:
    m = verified()
    one, two = kept_in(tmp_path, m), kept_in(tmp_path, m)
    one.put("a", 1)
    two.put("b", 2)
    found = kept_in(tmp_path, m)
    assert (found.get("a"), found.get("b"), found.get("a"), found.get("c")) == (1, 2, None, None)


def test_the_file_is_not_written_for_every_function(tmp_path: Path) -> None:
    jobs: list[Callable[[], object]] = []
    kept = KeptCode(b"digest", [tmp_path], jobs.append)
    for number in range(16):
        kept.put(f"f{number}", number)
    assert len(jobs) == 1
    jobs.pop()()
    kept.put("g0", 0)
    kept.put("g1", 0)
    assert not jobs
    kept.put("g2", 0)
    assert len(jobs) == 1
    jobs.pop()()
    kept.put("long", "x" * 1000)
    assert len(jobs) == 1


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    m = verified()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        kept = kept_in(folder, m)
        assert translate(m, kept=kept).run(0, {}, Meter()) == 5
        assert "f0" not in kept_in(folder, m)


def test_the_next_place_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(private.SWITCH, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    near = tmp_path / "near"
    near.mkdir(mode=0o700)
    home = tmp_path / "cache" / "thesmos" / "code"
    assert places_for(near / "a.thb") == (near / kept_code.BESIDE, home)
    near.chmod(0o777)
    assert places_for(near / "a.thb") == (home,)
    monkeypatch.setenv(private.SWITCH, "1")
    assert places_for(near / "a.thb") == ()


def test_old_files_go(tmp_path: Path) -> None:
    for number in range(12):
        private.write(tmp_path / str(number), b"x")
        os.utime(tmp_path / str(number), (number, number))
    private.prune(tmp_path, 12)
    assert len(list(tmp_path.iterdir())) == 12
    private.prune(tmp_path, 11)
    assert sorted(int(f.name) for f in tmp_path.iterdir()) == [6, 7, 8, 9, 10, 11]


def test_a_server_leaves_code_beside_its_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(private.SWITCH)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    near = tmp_path / "near"
    near.mkdir(mode=0o700)
    bundle = compile_text(EXPRESSIONS, "names.yaml").bundle
    assert bundle is not None
    (near / "names.thb").write_bytes(bundle)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "n"}}
    said = []
    for _ in range(2):
        policies = load_files([near / "names.thb"], at_once=True, keep=True)
        for _ in range(3):
            request = Request.from_resource(pod, "CREATE", namespace_labels={})
            said.append([(r.rule, r.status) for r in Engine(policies).evaluate(request, "validate").results])
            _wait()
    assert all(one == said[0] for one in said)
    (file,) = (near / kept_code.BESIDE).iterdir()
    kept = KeptCode(bytes.fromhex(file.name.partition(".")[0]), [file.parent], at_once)
    assert {name[0] for name in kept._found if name != FOUND} == {"f"}
    assert FOUND in kept
    assert any(name.startswith("fused.") for name in kept._found)
    assert load_files([near / "names.thb"], at_once=True).policies


def _wait() -> None:
    """Until all that was left for later is done, and what that left."""
    for _ in range(3):
        done = threading.Event()
        later(done.set)
        assert done.wait(60)


def test_code_is_walked_once_and_not_at_each_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unverified = read_bundle(encode_module(assemble(TEXT)))
    first = KeptCode(unverified.digest, [tmp_path], at_once)
    one = verify(unverified, bytecode.lent(), first)
    monkeypatch.setattr("vm.verify._functions", lambda *_: pytest.fail("walked again"))
    two = verify(unverified, bytecode.lent(), KeptCode(unverified.digest, [tmp_path], at_once))
    seen = [
        [
            (f.number, f.name, f.params, f.locals, f.code, f.cost, f.loops, f.max_stack, f.drops, f.measured)
            for f in m.functions
        ]
        for m in (one, two)
    ]
    assert seen[0] == seen[1]
    assert [f.may_suspend for f in one.functions] == [f.may_suspend for f in two.functions]


def test_what_the_verifier_refuses_is_not_kept(tmp_path: Path) -> None:
    wrong = read_bundle(encode_module(assemble("function f () -> V\n  pop\n  ret\n")))
    for _ in range(2):
        with pytest.raises(VerifyError):
            verify(wrong, bytecode.lent(), KeptCode(wrong.digest, [tmp_path], at_once))
    assert not list(tmp_path.iterdir())
