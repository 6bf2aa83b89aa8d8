"""Every pass on sketches of IR: text in, text out, and the checker content with both."""

from __future__ import annotations

import pytest

from compiler.ir.check import check
from compiler.ir.parse import parse_module
from compiler.ir.print import print_module
from compiler.pipeline import PASSES, pass_named
from tests.support.golden import Golden, GoldenCase, golden_cases

GOLDEN = ("fold", "simplify", "hoist_match", "specialise_pattern", "share_loads", "layout", "dead_code", "dedupe")


def _cases() -> list[object]:
    return [
        pytest.param(name, *param.values, id=f"{name}:{param.id}")  # type: ignore[attr-defined]
        for name in GOLDEN
        for param in golden_cases(f"pass_{name}")
    ]


@pytest.mark.parametrize(("name", "case"), _cases())
def test_pass(name: str, case: GoldenCase, golden: Golden) -> None:
    before = parse_module(case.input)
    check(before)
    after = pass_named(name).run(before)
    check(after)
    text = print_module(after)
    assert parse_module(text) == after
    golden(case, text)


def test_every_pass_has_golden_cases() -> None:
    assert {step.name for step in PASSES} == set(GOLDEN)


@pytest.mark.parametrize("name", GOLDEN)
def test_a_pass_with_nothing_to_do_keeps_the_module(name: str) -> None:
    module = parse_module(
        'policy "p" in null {}\n  rule "r" validate f {}\n\nfunction f() -> O entry policy 0\n  return o_pass()\n'
    )
    assert pass_named(name).run(module) is module
