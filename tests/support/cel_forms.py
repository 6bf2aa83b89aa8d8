"""The values of the product's CEL in the terms of the reference evaluator and back, so that answers can be compared.

The reference imports nothing of the product; what knows both stands here.
"""

from __future__ import annotations

from fractions import Fraction

from tests.reference.cel_values import V
from vm.cel.values import CelMap, Duration, Optional, Timestamp, TypeValue, UInt, map_key, type_name
from vm.values import MISSING, Value


def to_reference(value: Value) -> V:
    """A value of the product as a pair of type and payload; what the reference has no form for keeps its name and
    text."""
    match value:
        case None:
            return ("null", None)
        case bool():
            return ("bool", value)
        case UInt():
            return ("uint", int(value))
        case int():
            return ("int", value)
        case float():
            return ("double", value)
        case str():
            return ("string", value)
        case bytes():
            return ("bytes", value)
        case list():
            return ("list", [to_reference(x) for x in value])
        case dict():
            return ("map", [(("string", k), to_reference(v)) for k, v in value.items()])
        case CelMap():
            return ("map", [(to_reference(k), to_reference(v)) for k, v in value.entries.values()])
        case Timestamp():
            return ("timestamp", value.nanos)
        case Duration():
            return ("duration", value.nanos)
        case TypeValue():
            return ("type", value.name)
        case Optional():
            return ("optional", None if value.value is MISSING else to_reference(value.value))
    return _opaque(value)


def _opaque(value: Value) -> V:
    name = type_name(value)
    if name == "kubernetes.Quantity":
        return ("quantity", value.amount * Fraction(10) ** value.exponent)
    return (name, str(value))


def to_product(v: V) -> Value:
    """A value of the reference as the product takes it in bindings."""
    kind, x = v
    match kind:
        case "uint":
            return UInt(x)
        case "list":
            return [to_product(i) for i in x]
        case "map":
            if all(k[0] == "string" for k, _ in x):
                return {k[1]: to_product(i) for k, i in x}
            keys = [(to_product(k), to_product(i)) for k, i in x]
            return CelMap({map_key(k): (k, i) for k, i in keys})
        case "timestamp":
            return Timestamp(x)
        case "duration":
            return Duration(x)
        case "type":
            return TypeValue(x)
        case "optional":
            return Optional(MISSING if x is None else to_product(x))
    return x
