"""The code of a few expressions as the lowering writes it, before any pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler.ir.print import print_function
from tests.support.golden import GoldenCase, golden_cases
from tests.unit.cel.lowering import program


@pytest.mark.parametrize("case", golden_cases("ir_cel"))
def test_code(case: GoldenCase, golden: Callable[[GoldenCase, str], None]) -> None:
    found = program(case.input.strip(), {"object": None, "x": None}, plain=False, level=0)
    golden(case, "\n".join(map(print_function, found.module.functions)))
