"""Runs the cases of ``tests/asm``: each through assembler, bundle, verifier and both tiers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.dynamic import make_imports
from vm.asm import assemble
from vm.bundle import encode_module, read_bundle
from vm.code import Module
from vm.disasm import disassemble
from vm.host import HostCall, Meter, Outcome, Program
from vm.interp import interpret
from vm.isa import OPS
from vm.tier2 import translate
from vm.values import MISSING, Err, canonical_key
from vm.verify import VerifyError, verify

_FOLDER = Path(__file__).parents[2] / "asm"


def _load() -> list[tuple[str, dict[str, Any]]]:
    found = []
    for path in sorted(_FOLDER.glob("*.yaml")):
        for case in yaml.safe_load(path.read_text()):
            found.append((f"{path.stem}: {case['note']}", case))
    return found


CASES = _load()
LENT = make_imports()


def module_of(case: dict[str, Any]) -> Module:
    if "module" in case:
        return assemble(case["module"])
    body = "".join(f"  {line}\n" for line in case["body"].splitlines())
    return assemble(f'function f () locals "{case.get("locals", "VVVV")}" -> {case.get("result", "V")}\n{body}')


def value_of(form: Any) -> Any:
    """A wanted value: ``$missing`` and ``{$err: [code, text]}`` stand for what YAML cannot say."""
    if form == "$missing":
        return MISSING
    if isinstance(form, dict):
        return Err(*form["$err"]) if "$err" in form else {k: value_of(v) for k, v in form.items()}
    return [value_of(v) for v in form] if isinstance(form, list) else form


def drive(program: Program, fn: int, case: dict[str, Any], meter: Meter) -> tuple[Any, list[HostCall]]:
    calls: list[HostCall] = []
    replies = list(case.get("replies", ()))
    execution = program.start(fn, case.get("root", {}), meter)
    try:
        calls.append(next(execution))
        while True:
            calls.append(execution.send(replies.pop(0) if replies else Err("host", "no reply")))
    except StopIteration as stop:
        return stop.value, calls


@pytest.mark.parametrize(("name", "case"), CASES, ids=[name for name, _ in CASES])
def test_case(name: str, case: dict[str, Any]) -> None:
    written = module_of(case)
    data = encode_module(written)
    assert encode_module(assemble(disassemble(written))) == data
    read = read_bundle(data)
    if "verify" in case:
        with pytest.raises(VerifyError) as caught:
            verify(read, LENT)
        assert caught.value.code == case["verify"], str(caught.value)
        return
    verified = verify(read, LENT)
    (fn,) = (f.number for f in verified.functions if f.name == "f")
    for program in (interpret(verified), translate(verified)):
        meter = Meter(case.get("fuel", 1000))
        answer, calls = drive(program, fn, case, meter)
        if "want" in case:
            assert canonical_key(answer) == canonical_key(value_of(case["want"]))
        else:
            assert isinstance(answer, Outcome)
            assert answer.status.name == case["status"]
            assert answer.message == case.get("message")
            assert canonical_key(answer.patched) == canonical_key(case.get("patched"))
        if "spent" in case:
            assert meter.limit - meter.left == case["spent"]
        if "calls" in case or calls:
            assert [[c.kind, c.payload, c.scope] for c in calls] == case["calls"]


def test_every_instruction_is_run_by_some_case() -> None:
    run = {
        op.name
        for _, case in CASES
        if "verify" not in case
        for op in OPS
        if f" {op.name}" in disassemble(module_of(case))
    }
    assert run == {op.name for op in OPS}
