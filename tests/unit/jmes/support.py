"""Runs queries and templates the whole way: lower, emit, verify, both tiers."""

from __future__ import annotations

from typing import Any

from compiler.dynamic import make_imports
from compiler.emit import emit
from compiler.frontends.template import Scope, lower_query, lower_value
from compiler.ir import ops as ir
from compiler.ir.build import FunctionBuilder
from compiler.ir.check import check
from vm.code import UnverifiedModule
from vm.host import Meter
from vm.interp import interpret
from vm.values import Value, canonical_key
from vm.verify import verify

IMPORTS = make_imports()


def run(build: Any, root: dict[str, Any], fuel: int = 1_000_000) -> Value:
    """The value of the expression that ``build`` makes for a scope. The root must come out as it went in."""
    from vm.tier2 import translate

    b = FunctionBuilder("query", result="V")
    b.ret(build(Scope(b)))
    module = ir.Module((b.function(),), ())
    check(module)
    verified = verify(UnverifiedModule(emit(module)), IMPORTS)
    before = canonical_key(root)
    exact, fast = Meter(fuel), Meter(fuel)
    value = interpret(verified).run(0, root, exact)
    other = translate(verified).run(0, root, fast)
    assert canonical_key(value) == canonical_key(other)
    assert canonical_key(root) == before
    return value


def substitute(value: Any, root: dict[str, Any], **more: Any) -> Value:
    """A value with its variables put in."""
    return run(lambda scope: lower_value(value, scope, "", **more), root)


def query(text: str, root: dict[str, Any]) -> Value:
    """A query in the policy dialect: a missing key at the end of a chain is an error."""
    return run(lambda scope: lower_query(text, scope, ""), root)
