"""The instruction table against all that follows from it: semantics, both tiers, the reference page."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from fuzz.gen import bytecode
from vm import interp, isa_page, semantics
from vm.asm import assemble
from vm.code import UnverifiedModule
from vm.functions import INTRINSICS, resolve
from vm.host import Meter
from vm.isa import BY_NAME, OPS, Effect, Op, kind_join, kind_le
from vm.values import MISSING, Err, canonical_key
from vm.verify import verify


def test_semantics_has_one_function_for_each_computing_instruction() -> None:
    wanted = {op.name for op in OPS if op.effect in (Effect.PURE, Effect.MUTATES, Effect.METERS)} - semantics.STRUCTURAL
    assert set(semantics.SEMANTICS) == wanted


def test_a_stack_picture_must_parse() -> None:
    with pytest.raises(ValueError, match="does not parse"):
        Op(0xF0, "odd", (), "V odd Q", "")
    with pytest.raises(ValueError, match="does not parse"):
        Op(0xF0, "odd", (), "V other B", "")


def test_kinds_form_a_lattice() -> None:
    for a in "VBISLMEO":
        for b in "VBISLMEO":
            joined = kind_join(a, b)
            assert (joined is None) == ((a == "O") != (b == "O"))
            assert joined is None or (kind_le(a, joined) and kind_le(b, joined))


def test_the_reference_page_is_made_from_the_table() -> None:
    page = Path(isa_page.__file__).with_name("ISA.md").read_text()
    assert page == isa_page.isa_markdown(), "run thesmos docs"


def test_every_intrinsic_has_a_body() -> None:
    for name in INTRINSICS:
        assert callable(resolve(name))


_VALUES = (None, True, False, 0, 7, 1.5, "", "text", [], [1, [2]], {}, {"a": 1}, MISSING, Err("not_found", "gone"))


@pytest.mark.parametrize(
    "name", [op.name for op in OPS if op.pops == ("V",) and op.pushes and op.name in semantics.SEMANTICS]
)
def test_what_tier_1_writes_out_is_what_semantics_says(name: str) -> None:
    """For instructions on one value; the others are held by the tests in assembly."""
    op = BY_NAME[name]
    pattern = ["t*", [[["=", "t*"]]]]
    immediates = {
        "err_code": '"not_found"',
        "get": '"a"',
        "c_select": '"a"',
        "c_has": '"a"',
        "c_is_text": '"text"',
        "j_field": '"a"',
        "put": '"a"',
    }
    operand = '["t*", [[["=", "t*"]]]]' if name.startswith("p_") else immediates.get(name, "")
    arms = "  if 1\n    true\n  else\n    false\n  end\n" if op.pushes == ("B",) else ""
    push = "O" if op.pushes == ("O",) else "V"
    for value in _VALUES:
        text = f"function f () -> {push}\n  path v\n  {name} {operand}\n{arms}  ret\n"
        verified = verify(UnverifiedModule(assemble(text)), bytecode.lent())
        root = {} if value is MISSING else {"v": value}
        got = interp.interpret(verified).run(0, root, Meter())
        imm = [verified.leaf(0) if name == "p_leaf" else verified.scalar(0)] if pattern and name[:2] == "p_" else []
        if op.imm and not imm:
            imm = [verified.constants[0]]
        extra = [Meter()] if name in semantics.METERED else []
        assert canonical_key(got) == canonical_key(semantics.SEMANTICS[name](value, *imm, *extra)), value


def test_random_modules_mostly_verify() -> None:
    """Guards the generator behind the fuzz targets: a typed one that mostly fails would test nothing."""
    good = 0
    for seed in range(60):
        try:
            verify(UnverifiedModule(bytecode.module(Random(seed))), bytecode.lent())
        except Exception:
            continue
        good += 1
    assert good >= 50
