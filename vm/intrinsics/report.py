"""What a rule gives to reports beside its outcome: its properties, left with the meter of the evaluation.

The engine takes them from there when it makes a result.
"""

from __future__ import annotations

from vm.host import Meter
from vm.values import Value


def note(meter: Meter, rule: str, properties: Value) -> bool:
    """Keeps the properties of a rule. Those that are no texts are left out; an ``Err`` leaves none (Kyverno ignores
    properties that cannot be put together)."""
    kept = properties if type(properties) is dict else {}
    meter.noted = rule, {key: value for key, value in kept.items() if type(value) is str}
    return True
