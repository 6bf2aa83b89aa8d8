"""Conditions of preconditions and deny (semantics §9)."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from typing import Any

from tests.reference.query import equal
from tests.reference.scalars import (
    duration,
    floating,
    go_value,
    in_range,
    integer,
    is_number,
    is_range,
    quantity,
    wildcard,
)
from tests.reference.variables import SubstitutionError, substitute

SECOND = 10**9


class ConditionError(Exception):
    """A block that cannot be evaluated."""


def holds(block: Any, context: dict[str, Any]) -> tuple[bool, list[str]]:
    """Whether a block holds, and the messages that go with the answer."""
    if block is None:
        return True, []
    true: list[Any] = []
    false: list[Any] = []
    if isinstance(block, list):
        if block and all(isinstance(e, dict) and ("any" in e or "all" in e) for e in block):
            answers = [holds(e, context) for e in block]
            return all(a for a, _ in answers), [m for _, ms in answers for m in ms]
        return _answer(_all(block, context, true, false), true, false)
    some = block.get("any") is None
    for condition in block.get("any") or []:
        some = condition_holds(condition, context)
        (true if some else false).append(condition.get("message"))
        if some:
            break
    every = _all(block.get("all") or [], context, true, false)
    return _answer(some and every, true, false)


def _all(conditions: list[Any], context: dict[str, Any], true: list[Any], false: list[Any]) -> bool:
    for condition in conditions:
        answer = condition_holds(condition, context)
        (true if answer else false).append(condition.get("message"))
        if not answer:
            return False
    return True


def _answer(answer: bool, true: list[Any], false: list[Any]) -> tuple[bool, list[str]]:
    return answer, [m for m in (true if answer else false) if m]


def condition_holds(condition: dict[str, Any], context: dict[str, Any]) -> bool:
    try:
        key = substitute(condition.get("key"), context)
        value = substitute(condition.get("value"), context)
    except SubstitutionError as error:
        raise ConditionError(str(error)) from None
    return apply_operator(condition.get("operator") or "", key, value)


_NUMERIC = {
    "greaterthan": lambda c: c > 0,
    "greaterthanorequals": lambda c: c >= 0,
    "lessthan": lambda c: c < 0,
    "lessthanorequals": lambda c: c <= 0,
}
_EXACT = {
    "GreaterThan",
    "GreaterThanOrEquals",
    "LessThan",
    "LessThanOrEquals",
    "DurationGreaterThan",
    "DurationGreaterThanOrEquals",
    "DurationLessThan",
    "DurationLessThanOrEquals",
}


def apply_operator(operator: str, key: Any, value: Any) -> bool:
    name = operator.lower()
    match name:
        case "equal" | "equals":
            return _equals(key, value)
        case "notequal" | "notequals":
            return _not_equals(key, value)
        case "in":
            return _old_in(key, value, negated=False)
        case "notin":
            return _old_in(key, value, negated=True)
        case "anyin" | "allin" | "anynotin" | "allnotin":
            return _membership(name, key, value)
    if name in _NUMERIC:
        return operator in _EXACT and _numeric(key, value, _NUMERIC[name])
    if name.startswith("duration") and name[len("duration") :] in _NUMERIC:
        return operator in _EXACT and _durations(key, value, _NUMERIC[name[len("duration") :]])
    raise ConditionError(f"unknown operator {operator}")


def _real_duration(text: Any) -> int | None:
    return duration(text) if isinstance(text, str) and text != "0" else None


def _seconds(value: Any) -> Fraction | None:
    """Seconds of a duration text or of a number."""
    if isinstance(value, str):
        found = _real_duration(value)
        return None if found is None else Fraction(found, SECOND)
    return Fraction(value) if is_number(value) and math.isfinite(value) else None


def _duration_pair(key: Any, value: Any) -> tuple[Fraction, Fraction] | None:
    if _real_duration(key) is None and _real_duration(value) is None:
        return None
    left, right = _seconds(key), _seconds(value)
    return None if left is None or right is None else (left, right)


def _equals(key: Any, value: Any) -> bool:
    if isinstance(key, bool):
        return isinstance(value, bool) and key == value
    if is_number(key):
        return _number_equals(key, value)
    if isinstance(key, (dict, list)):
        return type(key) is type(value) and equal(key, value)
    if not isinstance(key, str):
        return False
    if pair := _duration_pair(key, value):
        return pair[0] == pair[1]
    if isinstance(value, str):
        left = quantity(key)
        if left is not None:
            right = quantity(value)
            return right is not None and left == right
        return wildcard(value, key)
    # right here: a numeric text equals the number it writes, as the other order does
    return is_number(value) and _number_equals(value, key)


def _number_equals(key: Any, value: Any) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(key, int):
        if isinstance(value, str):
            return integer(value) == key
        return is_number(value) and value == key
    if isinstance(value, str):
        return floating(value) == key
    return is_number(value) and value == key


def _not_equals(key: Any, value: Any) -> bool:
    if key is None:
        return False
    return not _equals(key, value)


def _numeric(key: Any, value: Any, test: Any) -> bool:
    if is_number(key):
        if is_number(value):
            return bool(test(_order(key, value)))
        if not isinstance(value, str):
            return False
        if (seconds := _real_duration(value)) is not None:
            return bool(test(_order(Fraction(key), Fraction(seconds, SECOND))))
        number = floating(value)
        return number is not None and bool(test(_order(key, number)))
    if not isinstance(key, str):
        return False
    if pair := _duration_pair(key, value):
        return bool(test(_order(*pair)))
    if isinstance(value, str):
        left, right = quantity(key), quantity(value)
        if left is not None and right is not None:
            return bool(test(_order(left, right)))
    number = floating(key)
    if number is not None:
        if is_number(value):
            return bool(test(_order(number, value)))
        other = floating(value) if isinstance(value, str) else None
        return other is not None and bool(test(_order(number, other)))
    left_version, right_version = _version(key), _version(value)
    if left_version is not None and right_version is not None:
        return bool(test(_order(left_version, right_version)))
    return False


def _order(a: Any, b: Any) -> int:
    return (a > b) - (a < b)


def _version(text: Any) -> tuple[Any, ...] | None:
    if not isinstance(text, str):
        return None
    found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", text)
    if not found:
        return None
    pre = found[4]
    parts: tuple[Any, ...] = (1,)
    if pre:
        parts = (0, *((0, int(p), "") if p.isdigit() else (1, 0, p) for p in pre.split(".")))
    return (int(found[1]), int(found[2]), int(found[3]), parts)


def _durations(key: Any, value: Any, test: Any) -> bool:
    pair = [duration(v) if isinstance(v, str) else (v * SECOND if is_number(v) else None) for v in (key, value)]
    if pair[0] is None or pair[1] is None:
        return False
    return bool(test(_order(int(pair[0]), int(pair[1]))))


def _key_text(key: Any) -> str | None:
    if isinstance(key, bool) or is_number(key):
        return go_value(key)
    return key if isinstance(key, str) else None


def _similar(a: str, b: str) -> bool:
    return wildcard(a, b) or wildcard(b, a)


def _json_texts(text: str) -> list[str] | None:
    """The list of texts that a JSON text holds; None for anything else."""
    try:
        decoded = json.loads(text)
    except ValueError:
        return None
    return decoded if isinstance(decoded, list) and all(isinstance(e, str) for e in decoded) else None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _membership(name: str, key: Any, value: Any) -> bool:
    if isinstance(key, list):
        texts = [_element_text(k) for k in key]
        return _list_membership(name, texts, value)
    text = _key_text(key)
    if text is None:
        return False
    negated = name.endswith("notin")
    member = _scalar_member(text, value)
    return member is not None and member != negated


def _element_text(value: Any) -> str:
    return value if isinstance(value, str) else go_value(value)


def _scalar_member(text: str, value: Any) -> bool | None:
    """None where the value is of a kind that no operator takes."""
    if isinstance(value, list):
        return any(_similar(_element_text(v), text) for v in value)
    if not isinstance(value, str):
        return None
    if wildcard(value, text):
        return True
    if is_range(value):
        return in_range(text, value)
    if _is_json(value):
        values = _json_texts(value)
        return None if values is None else text in values
    return text == value


def _list_membership(name: str, keys: list[str], value: Any) -> bool:
    if isinstance(value, list):
        return _compare_lists(name, keys, [_element_text(v) for v in value])
    if isinstance(value, bool) or is_number(value):
        return name in ("anyin", "anynotin") and _compare_lists(name, keys, [go_value(value)])
    if not isinstance(value, str):
        return False
    if len(keys) == 1 and keys[0] == value:
        return not name.endswith("notin")
    if is_range(value):
        inside = [in_range(k, value) for k in keys]
        return {
            "anyin": any(inside),
            "allin": all(inside),
            "anynotin": not all(inside),
            "allnotin": not any(inside),
        }[name]
    if _is_json(value):
        values = _json_texts(value)
        return values is not None and _compare_lists(name, keys, values)
    return _compare_lists(name, keys, [value])


def _compare_lists(name: str, keys: list[str], values: list[str]) -> bool:
    found = [any(_similar(v, k) for v in values) for k in keys]
    return {"anyin": any(found), "allin": all(found), "anynotin": not all(found), "allnotin": not any(found)}[name]


def _old_in(key: Any, value: Any, *, negated: bool) -> bool:
    if isinstance(key, list):
        if not all(isinstance(k, str) for k in key):
            return False
        if isinstance(value, str):
            if len(key) == 1 and key[0] == value:
                return True
            values = _json_texts(value)
            if values is None:
                return False
        elif isinstance(value, list) and all(isinstance(v, str) for v in value):
            values = value
        else:
            return False
        missing = [k for k in key if k not in values]
        return bool(missing) if negated else not missing
    text = None if isinstance(key, bool) else _key_text(key)
    if text is None:
        return False
    if isinstance(value, list):
        member = any(_similar(_element_text(v), text) for v in value)
    elif isinstance(value, str):
        if wildcard(value, text):
            member = True
        else:
            values = _json_texts(value)
            if values is None:
                return False
            member = text in values
    else:
        return False
    return member != negated
