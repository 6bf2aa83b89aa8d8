"""Bodies of the small ``patch`` intrinsics (:mod:`vm.intrinsics.table_patch`); the strategic merge has its own
module.
"""

from __future__ import annotations

from vm.host import Meter
from vm.patch import diff as _diff
from vm.patch import json6902 as _json6902
from vm.values import Value, is_list, size


def json6902(meter: Meter, doc: Value, ops: Value) -> Value:
    """Body of ``patch.json6902``: an operation costs one unit per 64 entries of the document's top level, and a
    copy one for each node of what is copied."""
    if is_list(ops):
        meter.charge(len(ops) * (1 + size(doc) // 64))
    return _json6902.apply(doc, ops, meter)


def diff(meter: Meter, a: Value, b: Value) -> Value:
    """Body of ``patch.diff``."""
    ops = _diff.diff(a, b)
    meter.charge(len(ops))
    return ops
