"""Functions of the policy dialect over maps and lists, and texts that hold documents."""

from __future__ import annotations

import orjson

from vm.host import Imports
from vm.intrinsics.jmes_errors import is_number, wrong_type, wrong_value
from vm.values import Err, Value, json_equal


def items(v: Value, key_name: Value, value_name: Value) -> Value:
    """The pairs of a map in the order of its keys, or of a list with positions for keys, as maps with two keys."""
    if type(v) is not dict and type(v) is not list:
        return wrong_type("items", 1, v, "an object or an array")
    if type(key_name) is not str:
        return wrong_type("items", 2, key_name, "a string")
    if type(value_name) is not str:
        return wrong_type("items", 3, value_name, "a string")
    pairs = ((k, v[k]) for k in sorted(v)) if type(v) is dict else enumerate(v)
    return [{key_name: k, value_name: x} for k, x in pairs]


def object_from_lists(names: Value, values: Value) -> Value:
    """Keys without a value get null."""
    if type(names) is not list:
        return wrong_type("object_from_lists", 1, names, "an array")
    if type(values) is not list:
        return wrong_type("object_from_lists", 2, values, "an array")
    out: dict[str, Value] = {}
    for i, k in enumerate(names):
        if type(k) is not str:
            return Err("type", "function object_from_lists: argument 1 must be an array of strings")
        out[k] = values[i] if i < len(values) else None
    return out


def lookup(v: Value, key: Value) -> Value:
    if type(v) is dict:
        return v.get(key) if type(key) is str else wrong_type("lookup", 2, key, "a string")
    if type(v) is list:
        if not is_number(key):
            return wrong_type("lookup", 2, key, "a number")
        if key != int(key):
            return wrong_value("lookup", "the position must be an integer")
        return v[int(key)] if 0 <= key < len(v) else None
    return wrong_type("lookup", 1, v, "an object or an array")


def label_match(selector: Value, labels: Value) -> Value:
    if type(selector) is not dict:
        return wrong_type("label_match", 1, selector, "an object")
    if type(labels) is not dict:
        return wrong_type("label_match", 2, labels, "an object")
    return all(k in labels and json_equal(x, labels[k]) for k, x in selector.items())


def parse_json(text: Value) -> Value:
    if type(text) is not str:
        return wrong_type("parse_json", 1, text, "a string")
    try:
        return orjson.loads(text)
    except ValueError as e:
        return wrong_value("parse_json", f"not JSON: {e}")


def parse_yaml(imports: Imports, text: Value) -> Value:
    if type(text) is not str:
        return wrong_type("parse_yaml", 1, text, "a string")
    return imports.yaml(text)
