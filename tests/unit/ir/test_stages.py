"""Policies as IR and as bytecode: what the front ends lower, and what is left of it after all passes."""

from __future__ import annotations

import pytest

from compiler.diagnostics import Reporter
from compiler.emit import emit
from compiler.ir.check import check
from compiler.ir.ops import Module
from compiler.ir.parse import parse_module
from compiler.ir.print import print_module
from compiler.lower import lower
from compiler.pipeline import optimise
from compiler.schema import read_policies
from compiler.source import load_documents
from tests.support.golden import Golden, GoldenCase, golden_cases
from vm.disasm import disassemble


def _lowered(text: str) -> Module:
    reporter = Reporter()
    policies, exceptions = read_policies(load_documents(text, "policy.yaml", reporter), reporter)
    module = lower(policies, exceptions, reporter)
    assert not reporter.failed, reporter.diagnostics
    return module


@pytest.mark.parametrize("case", golden_cases("ir"))
def test_ir(case: GoldenCase, golden: Golden) -> None:
    module = _lowered(case.input)
    check(module)
    text = print_module(module)
    assert parse_module(text) == module
    golden(case, text)


@pytest.mark.parametrize("case", golden_cases("code"))
def test_code(case: GoldenCase, golden: Golden) -> None:
    code = emit(optimise(_lowered(case.input)), texts={"policy.yaml": case.input})
    golden(case, disassemble(code))
