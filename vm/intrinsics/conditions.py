"""The operators of conditions in preconditions and deny rules (semantics §9): key and value in, truth out.

Called by compiled rules through both tiers. Operands are substituted JSON values; they are never errors, since a
condition that cannot be evaluated makes the rule an error before its operator runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import isfinite
from typing import Any, Final

import orjson

from vm.host import Meter
from vm.intrinsics.duration import SECOND, parse_duration
from vm.intrinsics.quantity import parse_quantity
from vm.intrinsics.text import go_value
from vm.intrinsics.wildcard import contains_wildcard
from vm.intrinsics.wildcard import match as wildcard_match
from vm.intrinsics.wildcard import matcher as wildcard_matcher
from vm.scalar import parse_float, parse_int, range_matcher
from vm.values import Value, json_equal

_NUMBERS: Final = (int, float)
_MOST_KEPT: Final = 256
_LONGEST_KEPT: Final = 4096
"""Values of conditions come from policies most of the time; a request may bring some, so larger ones are not cached."""


def equals(key: Value, value: Value) -> bool:
    """``Equals``: dispatches on the type of the key. A null key equals nothing."""
    match key:
        case None:
            return False
        case bool():
            return value is key
        case str():
            return _text_equals(key, value)
        case int():
            if type(value) in _NUMBERS:
                return bool(key == value)
            return type(value) is str and parse_int(value) == key
        case float():
            if type(value) in _NUMBERS:
                return bool(key == value)
            return type(value) is str and parse_float(value) == key
    return json_equal(key, value)


def not_equals(key: Value, value: Value) -> bool:
    """``NotEquals``: the opposite of ``Equals``, but false for a null key as well (Kyverno quirk)."""
    return key is not None and not equals(key, value)


def equals_kyverno(key: Value, value: Value) -> bool:
    """``Equals`` as the reference has it: a text that is no duration equals no number."""
    if type(key) is str and type(value) in _NUMBERS and _durations(key, value) is None:
        return False
    return equals(key, value)


def not_equals_kyverno(key: Value, value: Value) -> bool:
    """``NotEquals`` as the reference has it."""
    return key is not None and not equals_kyverno(key, value)


def greater(key: Value, value: Value) -> bool:
    """``GreaterThan``."""
    return _ordered(key, value, lambda sign: sign > 0)


def greater_or_equals(key: Value, value: Value) -> bool:
    """``GreaterThanOrEquals``."""
    return _ordered(key, value, lambda sign: sign >= 0)


def less(key: Value, value: Value) -> bool:
    """``LessThan``."""
    return _ordered(key, value, lambda sign: sign < 0)


def less_or_equals(key: Value, value: Value) -> bool:
    """``LessThanOrEquals``."""
    return _ordered(key, value, lambda sign: sign <= 0)


def duration_greater(key: Value, value: Value) -> bool:
    """``DurationGreaterThan``: numbers are seconds, texts must be durations."""
    return _longer(key, value, lambda sign: sign > 0)


def duration_greater_or_equals(key: Value, value: Value) -> bool:
    """``DurationGreaterThanOrEquals``."""
    return _longer(key, value, lambda sign: sign >= 0)


def duration_less(key: Value, value: Value) -> bool:
    """``DurationLessThan``."""
    return _longer(key, value, lambda sign: sign < 0)


def duration_less_or_equals(key: Value, value: Value) -> bool:
    """``DurationLessThanOrEquals``."""
    return _longer(key, value, lambda sign: sign <= 0)


def any_in(meter: Meter, key: Value, value: Value) -> bool:
    """``AnyIn``."""
    return _set_operator(meter, key, value, all_keys=False, inside=True)


def all_in(meter: Meter, key: Value, value: Value) -> bool:
    """``AllIn``."""
    return _set_operator(meter, key, value, all_keys=True, inside=True)


def any_not_in(meter: Meter, key: Value, value: Value) -> bool:
    """``AnyNotIn``."""
    return _set_operator(meter, key, value, all_keys=False, inside=False)


def all_not_in(meter: Meter, key: Value, value: Value) -> bool:
    """``AllNotIn``."""
    return _set_operator(meter, key, value, all_keys=True, inside=False)


def in_(meter: Meter, key: Value, value: Value) -> bool:
    """``In`` (deprecated): no ranges, and the elements of a list key must be texts that are there letter by letter."""
    return _deprecated(meter, key, value, inside=True)


def not_in(meter: Meter, key: Value, value: Value) -> bool:
    """``NotIn`` (deprecated)."""
    return _deprecated(meter, key, value, inside=False)


def _text_equals(key: str, value: Value) -> bool:
    durations = _durations(key, value)
    if durations is not None:
        return durations[0] == durations[1]
    if type(value) is str:
        quantity = parse_quantity(key)
        if quantity is not None:
            # Kyverno quirk: a key that reads as a quantity is never compared as a text, but with the empty one.
            other = parse_quantity(value)
            return other is not None and quantity.nano == other.nano
        return wildcard_match(value, key)
    if type(value) in _NUMBERS:
        return bool(parse_float(key) == value)  # right here: numbers compare in both orders
    return False


def _durations(key: Value, value: Value) -> tuple[int, int] | None:
    """Both sides in nanoseconds, when one is a duration text other than ``0`` and the other one or a number."""
    a, b = _duration_text(key), _duration_text(value)
    if a is None and b is None:
        return None
    if a is None:
        a = _seconds(key)
    if b is None:
        b = _seconds(value)
    return None if a is None or b is None else (a, b)


def _duration_text(v: Value) -> int | None:
    return parse_duration(v) if type(v) is str and v != "0" else None


def _seconds(v: Value) -> int | None:
    if type(v) is float:
        return round(v * SECOND) if isfinite(v * SECOND) else None
    return v * SECOND if type(v) is int else None


def _ordered(key: Value, value: Value, decide: Callable[[int], bool]) -> bool:
    sign = _compare(key, value)
    return sign is not None and decide(sign)


def _compare(key: Value, value: Value) -> int | None:
    if type(key) is int and type(value) is int:
        return _sign(key, value)
    durations = _durations(key, value)
    if durations is not None:
        return _sign(*durations)
    if type(key) is str:
        if type(value) is str:
            a, b = parse_quantity(key), parse_quantity(value)
            if a is not None and b is not None:
                return a.compare(b)
        number = parse_float(key)
        if number is not None:
            return _compare_number(number, value)
        return _compare_versions(key, value) if type(value) is str else None
    return _compare_number(key, value) if type(key) in _NUMBERS else None


def _compare_number(key: float, value: Value) -> int | None:
    if type(value) is str:
        value = parse_float(value)
    return _sign(key, value) if type(value) in _NUMBERS and value == value and key == key else None


def _compare_versions(key: str, value: str) -> int | None:
    import semver

    if len(key) > 256 or len(value) > 256:
        return None
    try:
        return semver.Version.parse(key).compare(semver.Version.parse(value))
    except ValueError:
        return None


def _longer(key: Value, value: Value, decide: Callable[[int], bool]) -> bool:
    a = parse_duration(key) if type(key) is str else _seconds(key)
    b = parse_duration(value) if type(value) is str else _seconds(value)
    return a is not None and b is not None and decide(_sign(a, b))


def _sign(a: float, b: float) -> int:
    return (a > b) - (a < b)


def _set_operator(meter: Meter, key: Value, value: Value, *, all_keys: bool, inside: bool) -> bool:
    """The four set operators. What cannot be compared is false for all of them, also for the negated ones (quirk)."""
    if type(key) is list:
        if not key and type(value) is list:
            return all_keys  # nothing to look for: the usual case of a rule that finds no offender
        return _list_key(meter, _texts(key), value, all_keys=all_keys, inside=inside)
    if type(key) not in (str, bool, int, float):
        return False
    member = _scalar_member(meter, go_value(key), value)
    return member is not None and member is inside


def _scalar_member(meter: Meter, key: str, value: Value, *, ranges: bool = True) -> bool | None:
    """Whether a scalar key is in the value; None when the value has no fitting type."""
    if type(value) is list:
        meter.charge(len(value))
        return _member_of(_texts(value))(key)
    if type(value) is not str:
        return None
    if wildcard_match(value, key):
        return True
    if ranges:
        within = range_matcher(value)
        if within is not None:
            return within(key)
    listed = _json_texts(value)
    if listed is None and ranges and not _is_json(value):
        return False  # a plain text that is not the key
    return None if listed is None else key in listed


def _list_key(meter: Meter, keys: tuple[str, ...], value: Value, *, all_keys: bool, inside: bool) -> bool:
    member: Callable[[str], bool]
    if type(value) is list:
        meter.charge(len(keys) * len(value))
        if not [key for key in set(keys) if key not in value]:
            return inside  # the usual case of a list of allowed values, without looking for wildcards
        member = _member_of(_texts(value))
    elif type(value) is str:
        if len(keys) == 1 and keys[0] == value:
            return inside
        listed = _json_texts(value)
        if listed is None and _is_json(value):
            return False
        member = range_matcher(value) or _member_of(listed if listed is not None else (value,))
    elif type(value) in (bool, int, float) and not all_keys:
        member = _member_of((go_value(value),))
    else:
        return False
    if inside:
        return all(map(member, keys)) if all_keys else any(map(member, keys))
    return not any(map(member, keys)) if all_keys else not all(map(member, keys))


def _texts(values: list[Value]) -> tuple[str, ...]:
    if list(map(type, values)).count(str) == len(values):
        return tuple(values)
    return tuple([v if type(v) is str else go_value(v) for v in values])


def _member_of(values: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether a key is like one of the values: equal, or one of the two matches the other as a wildcard."""
    return _kept_member(values) if len(values) <= _MOST_KEPT else _made_member(values)


@lru_cache(maxsize=512)
def _kept_member(values: tuple[str, ...]) -> Callable[[str], bool]:
    return _made_member(values)


def _made_member(values: tuple[str, ...]) -> Callable[[str], bool]:
    exact = frozenset(values)
    globs = tuple(wildcard_matcher(v) for v in values if contains_wildcard(v))

    def member(key: str) -> bool:
        if key in exact:
            return True
        for glob in globs:
            if glob(key):
                return True
        if "*" in key or "?" in key:
            return any(map(wildcard_matcher(key), values))
        return False

    return member


def _deprecated(meter: Meter, key: Value, value: Value, *, inside: bool) -> bool:
    if type(key) is not list:
        if type(key) not in (str, int, float):
            return False
        member = _scalar_member(meter, go_value(key), value, ranges=False)
        return member is not None and member is inside
    if type(value) is str:
        if len(key) == 1 and key[0] == value and type(key[0]) is str:
            return True  # Kyverno quirk: of both operators
        listed = _json_texts(value)
        value = None if listed is None else list(listed)
    if value is None or type(value) is not list or any(type(x) is not str for x in (*key, *value)):
        return False
    meter.charge(len(key) + len(value))
    missing = not set(key) <= set(value)
    return missing is not inside


def _decoded(text: str) -> tuple[bool, tuple[str, ...] | None]:
    """Whether a text is JSON, and the texts of it when it is a list of texts."""
    return _kept_decoded(text) if len(text) <= _LONGEST_KEPT else _made_decoded(text)


@lru_cache(maxsize=512)
def _kept_decoded(text: str) -> tuple[bool, tuple[str, ...] | None]:
    return _made_decoded(text)


def _made_decoded(text: str) -> tuple[bool, tuple[str, ...] | None]:
    try:
        data: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False, None
    if type(data) is list and all(type(x) is str for x in data):
        return True, tuple(data)
    return True, None


def _json_texts(text: str) -> tuple[str, ...] | None:
    return _decoded(text)[1]


def _is_json(text: str) -> bool:
    return _decoded(text)[0]
