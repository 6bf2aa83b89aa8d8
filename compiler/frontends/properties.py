"""Lowers ``reportProperties``: their texts are put together once the preconditions hold and handed to the meter, from
which the engine takes them when it makes a result (semantics §12).

Called by :mod:`compiler.lower`. Properties without variables cost nothing here: they stand in the rule's metadata.
"""

from __future__ import annotations

from compiler.frontends.rule import RuleFrame
from compiler.frontends.template import has_variables, lower_value
from compiler.ir.ops import Const, Do, Invoke


def note_properties(frame: RuleFrame) -> None:
    """Emits the properties of a rule, when some text of theirs has variables."""
    properties = frame.rule.report_properties
    if not any(map(has_variables, properties.values())):
        return
    at = frame.at("reportProperties")
    value = lower_value(dict(properties), frame.scope, at)
    frame.builder.emit(Do(Invoke("report.note", (Const(frame.name), value)), at))
