"""Assembles the tables of all intrinsics into one catalogue, and finds the body of one by name.

The checker, the verifier and the fuel computation read :data:`INTRINSICS`; the interpreter and the code generator call
:func:`resolve` when they load a module, so that bodies (and ``re2``) are imported only when some policy uses them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any, Final

from vm.catalogue import Intrinsic
from vm.cel import libraries
from vm.intrinsics import (
    table_cel_rule,
    table_cond,
    table_ctx,
    table_images,
    table_jmes,
    table_loop,
    table_match,
    table_pat,
    table_patch,
    table_podsec,
    table_regex,
    table_report,
    table_text,
)
from vm.isa import KINDS

TABLES: Final = (
    table_images.TABLE,
    table_jmes.TABLE,
    table_text.TABLE,
    table_regex.TABLE,
    table_report.TABLE,
    table_pat.TABLE,
    table_cond.TABLE,
    table_match.TABLE,
    table_patch.TABLE,
    table_podsec.TABLE,
    table_ctx.TABLE,
    table_loop.TABLE,
    table_cel_rule.TABLE,
    libraries.intrinsics(),
)


def _assemble() -> dict[str, Intrinsic]:
    found: dict[str, Intrinsic] = {}
    for table in TABLES:
        for entry in table:
            if entry.name in found:
                raise ValueError(f"two intrinsics are named {entry.name}")
            if entry.result not in KINDS or any(k not in KINDS and k != "*" for k in entry.params):
                raise ValueError(f"intrinsic {entry.name} has a kind that is none")
            found[entry.name] = entry
    return found


INTRINSICS: Final[dict[str, Intrinsic]] = _assemble()
"""Every intrinsic by name (``family.name``)."""


def body_of(entry: Intrinsic, lent: Any) -> tuple[Callable[..., Any], bool]:
    """What a tier calls for an intrinsic: its body with the imports put in, and whether it takes the meter first, be it
    for its own work or for what it adds to the cost of an expression."""
    body = resolve(entry.name)
    if entry.dynamic:
        body = partial(body, lent)
    if not entry.cost:
        return body, entry.metered
    from vm.cel.costs import actual

    return _costing(body, actual(entry.cost), entry.metered), True


def _costing(body: Callable[..., Any], rule: Callable[..., int], metered: bool) -> Callable[..., Any]:
    def call(meter: Any, *operands: Any) -> Any:
        result = body(meter, *operands) if metered else body(*operands)
        meter.cost += rule(operands, result)
        return result

    return call


@cache
def resolve(name: str) -> Callable[..., Any]:
    """The body of an intrinsic. Raises ``KeyError`` for a name that is not in :data:`INTRINSICS`.

    A body takes, in this order and only when its entry says so: the imports (``dynamic``), the meter (``metered``),
    then its operands.
    """
    module, _, function = INTRINSICS[name].impl.partition(":")
    body: Callable[..., Any] = getattr(import_module(module), function)
    return body
