"""The JMESPath functions of policies (features table i) on top of the standard ones.

Arithmetic is in ``arithmetic``, times are in ``times``, certificates in ``certificates``.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import math
import posixpath
import random
import re
from typing import Any
from urllib.parse import urlsplit

import jmespath.functions
import re2
import yaml
from jmespath.functions import signature

from tests.reference import arithmetic, certificates, images_text, times
from tests.reference.arithmetic import Refusal
from tests.reference.scalars import json_text, wildcard

HOSTS: dict[str, list[str]] = {}
"""Addresses by host name, in place of a resolver."""

_STRING = {"types": ["string"]}
_NUMBER = {"types": ["number"]}
_EITHER = {"types": ["string", "number"]}
_ANY: dict[str, list[str]] = {"types": []}
_OBJECT = {"types": ["object"]}
_ARRAY = {"types": ["array"]}
_PAIRS = {"types": ["object", "array"]}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value)


def _whole(value: float, what: str) -> int:
    if value != math.trunc(value):
        raise Refusal(f"{what} must be an integer")
    return int(value)


class Functions(jmespath.functions.Functions):  # type: ignore[misc]
    """Each method is the function of its name after ``_func_``."""

    # texts

    @signature(_STRING, _STRING)
    def _func_compare(self, a: str, b: str) -> int:
        left, right = a.encode(), b.encode()
        return (left > right) - (left < right)

    @signature(_STRING, _STRING)
    def _func_equal_fold(self, a: str, b: str) -> bool:
        return a.casefold() == b.casefold()

    @signature(_STRING, _STRING, _STRING, _NUMBER)
    def _func_replace(self, text: str, old: str, new: str, count: float) -> str:
        return text.replace(old, new, int(count))

    @signature(_STRING, _STRING, _STRING)
    def _func_replace_all(self, text: str, old: str, new: str) -> str:
        return text.replace(old, new)

    @signature(_STRING)
    def _func_to_upper(self, text: str) -> str:
        return text.upper()

    @signature(_STRING)
    def _func_to_lower(self, text: str) -> str:
        return text.lower()

    @signature(_STRING, _STRING)
    def _func_trim(self, text: str, cut: str) -> str:
        return text.strip(cut) if cut else text

    @signature(_STRING, _STRING)
    def _func_trim_prefix(self, text: str, prefix: str) -> str:
        return text.removeprefix(prefix)

    @signature(_STRING, _STRING)
    def _func_split(self, text: str, by: str) -> list[str]:
        return text.split(by) if by else list(text)

    @signature(_STRING, _NUMBER)
    def _func_truncate(self, text: str, length: float) -> str:
        return text[: max(0, int(length))]

    @signature(_STRING)
    def _func_to_boolean(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise Refusal("neither true nor false")
        return text.lower() == "true"

    @signature(_ANY)
    def _func_to_string(self, value: Any) -> str:
        return _text(value)

    # patterns

    @signature(_STRING, _EITHER)
    def _func_regex_match(self, pattern: str, text: Any) -> bool:
        return _regex(pattern).search(_text(text)) is not None

    @signature(_STRING, _EITHER, _EITHER)
    def _func_regex_replace_all(self, pattern: str, text: Any, new: Any) -> str:
        regex = _regex(pattern)
        return _replaced(regex, _text(text), lambda found: _expanded(_text(new), found))

    @signature(_STRING, _EITHER, _EITHER)
    def _func_regex_replace_all_literal(self, pattern: str, text: Any, new: Any) -> str:
        return _replaced(_regex(pattern), _text(text), lambda found: _text(new))

    @signature(_STRING, _EITHER)
    def _func_pattern_match(self, pattern: str, text: Any) -> bool:
        return wildcard(pattern, _text(text))

    @signature(_OBJECT, _OBJECT)
    def _func_label_match(self, wanted: dict[str, Any], actual: dict[str, Any]) -> bool:
        return all(k in actual and actual[k] == v for k, v in wanted.items())

    # arithmetic

    @signature(_ANY, _ANY)
    def _func_add(self, a: Any, b: Any) -> Any:
        return arithmetic.add(a, b)

    @signature(_ARRAY)
    def _func_sum(self, values: list[Any]) -> Any:
        return arithmetic.total(values)

    @signature(_ANY, _ANY)
    def _func_subtract(self, a: Any, b: Any) -> Any:
        return arithmetic.subtract(a, b)

    @signature(_ANY, _ANY)
    def _func_multiply(self, a: Any, b: Any) -> Any:
        return arithmetic.multiply(a, b)

    @signature(_ANY, _ANY)
    def _func_divide(self, a: Any, b: Any) -> Any:
        return arithmetic.divide(a, b)

    @signature(_ANY, _ANY)
    def _func_modulo(self, a: Any, b: Any) -> Any:
        return arithmetic.modulo(a, b)

    @signature(_NUMBER, _NUMBER)
    def _func_round(self, value: float, digits: float) -> float:
        places = _whole(digits, "the number of digits")
        if places < 0:
            raise Refusal("the number of digits must not be negative")
        scale = 10.0**places
        moved = value * scale
        return float(math.copysign(math.floor(abs(moved) + 0.5), moved) / scale)

    # encodings and hashes

    @signature(_STRING)
    def _func_base64_encode(self, text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    @signature(_STRING)
    def _func_base64_decode(self, text: str) -> str:
        return base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True).decode(errors="replace")

    @signature(_STRING)
    def _func_parse_json(self, text: str) -> Any:
        return json.loads(text)

    @signature(_STRING)
    def _func_parse_yaml(self, text: str) -> Any:
        return yaml.safe_load(text)

    @signature(_STRING)
    def _func_md5(self, text: str) -> str:
        return hashlib.md5(text.encode()).hexdigest()

    @signature(_STRING)
    def _func_sha1(self, text: str) -> str:
        return hashlib.sha1(text.encode()).hexdigest()

    @signature(_STRING)
    def _func_sha256(self, text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()

    @signature(_STRING)
    def _func_x509_decode(self, text: str) -> Any:
        return certificates.decode(text)

    @signature(_STRING)
    def _func_random(self, pattern: str) -> str:
        if not pattern:
            raise Refusal("an empty pattern")
        return _made(pattern)

    # lists and maps

    @signature(_PAIRS, _EITHER)
    def _func_lookup(self, holder: Any, key: Any) -> Any:
        if isinstance(holder, dict):
            if not isinstance(key, str):
                raise Refusal("a map is looked up by a text")
            return holder.get(key)
        if isinstance(key, str):
            raise Refusal("a list is looked up by a number")
        place = _whole(key, "the index")
        return holder[place] if 0 <= place < len(holder) else None

    @signature(_PAIRS, _STRING, _STRING)
    def _func_items(self, value: Any, key_name: str, value_name: str) -> list[Any]:
        if isinstance(value, list):
            return [{key_name: i, value_name: v} for i, v in enumerate(value)]
        return [{key_name: k, value_name: value[k]} for k in sorted(value)]

    @signature(_ARRAY, _ARRAY)
    def _func_object_from_lists(self, keys: list[Any], values: list[Any]) -> dict[str, Any]:
        if not all(isinstance(k, str) for k in keys):
            raise Refusal("keys must be texts")
        return {k: values[i] if i < len(values) else None for i, k in enumerate(keys)}

    @signature(_OBJECT)
    def _func_keys(self, value: dict[str, Any]) -> list[str]:
        return sorted(value)

    @signature(_OBJECT)
    def _func_values(self, value: dict[str, Any]) -> list[Any]:
        return [value[k] for k in sorted(value)]

    # times

    @signature(_STRING, _STRING, _STRING)
    def _func_time_since(self, layout: str, start: str, end: str) -> str:
        return times.since(layout, start, end)

    @signature()
    def _func_time_now(self) -> str:
        return times.now()

    @signature()
    def _func_time_now_utc(self) -> str:
        return times.now()

    @signature(_STRING, _STRING)
    def _func_time_add(self, when: str, span: str) -> str:
        return times.add(when, span)

    @signature(_STRING, _STRING)
    def _func_time_parse(self, layout: str, when: str) -> str:
        return times.parse(layout, when)

    @signature(_STRING)
    def _func_time_to_cron(self, when: str) -> str:
        return times.cron(when)

    @signature(_STRING)
    def _func_time_utc(self, when: str) -> str:
        return times.utc(when)

    @signature(_STRING, _STRING)
    def _func_time_diff(self, start: str, end: str) -> str:
        return times.since("", start, end)

    @signature(_STRING, _STRING)
    def _func_time_before(self, a: str, b: str) -> bool:
        return times.read(a) < times.read(b)

    @signature(_STRING, _STRING)
    def _func_time_after(self, a: str, b: str) -> bool:
        return times.read(a) > times.read(b)

    @signature(_STRING, _STRING, _STRING)
    def _func_time_between(self, when: str, start: str, end: str) -> bool:
        return times.read(start) < times.read(when) < times.read(end)

    @signature(_STRING, _STRING)
    def _func_time_truncate(self, when: str, span: str) -> str:
        return times.truncate(when, span)

    # names of things

    @signature(_STRING)
    def _func_path_canonicalize(self, path: str) -> str:
        return _clean(path)

    @signature(_STRING, _STRING)
    def _func_semver_compare(self, version: str, wanted: str) -> bool:
        return arithmetic.in_versions(version, wanted)

    @signature(_STRING)
    def _func_image_normalize(self, image: str) -> str:
        return images_text.normalized(image)

    @signature(_STRING)
    def _func_is_external_url(self, url: str) -> bool:
        host = urlsplit(url).hostname
        if not host:
            raise Refusal("no URL")
        addresses = HOSTS.get(host, [host])
        try:
            found = [ipaddress.ip_address(a) for a in addresses]
        except ValueError:
            raise Refusal(f"{host} cannot be resolved") from None
        return not any(a.is_loopback or a.is_private for a in found)


def _regex(pattern: str) -> Any:
    try:
        return re2.compile(pattern)
    except re2.error as error:
        raise Refusal(f"no regular expression: {error}") from None


def _replaced(regex: Any, text: str, new: Any) -> str:
    """Every match replaced; an empty match right after another one is none, as in Go."""
    made, at, end_of_last = "", 0, -1
    position = 0
    while position <= len(text):
        found = regex.search(text, position)
        if found is None:
            break
        start, end = found.span()
        if start == end and start == end_of_last:
            position = end + 1
            continue
        made += text[at:start] + new(found)
        at = end_of_last = end
        position = end if end > start else end + 1
        if start == end and start < len(text):
            made += text[start : start + 1]
            at = start + 1
    return made + text[at:]


def _expanded(new: str, found: Any) -> str:
    """``$1``, ``${1}`` and ``$name`` of a replacement; ``$$`` is a dollar; groups that are none are empty."""

    def one(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        name = match[1] or match[2]
        try:
            return found.group(int(name) if name.isdigit() else name) or ""
        except (IndexError, KeyError, re2.error):
            return ""

    return re.sub(r"\$\$|\$\{(\w+)\}|\$(\w+)", one, new)


def _clean(path: str) -> str:
    if not path:
        return "."
    made = posixpath.normpath(path)
    return made[1:] if made.startswith("//") else made


def _made(pattern: str) -> str:
    """A text that a simple pattern matches: characters, classes, and counts."""
    made = ""
    for one, low, high in re.findall(r"(\[[^\]]+\]|\\.|.)(?:\{(\d+)(?:,(\d+))?\})?", pattern):
        letters = [c for c in map(chr, range(32, 127)) if re.fullmatch(one, c)]
        count = random.randint(int(low or 1), int(high or low or 1))
        made += "".join(random.choice(letters) for _ in range(count))
    return made
