"""How values become text: compact JSON, Go's ``%v``, Go's float forms; and what texts with variables need at run
time.

Used by both tiers (``to_text``), by the pattern and condition code, and by everything that compares its texts with
the reference, which is written in Go.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal

import orjson

from vm.host import Imports, Meter
from vm.values import MISSING, Err, Value

MAX_DEPTH: Final = 100
"""How deeply substitutions may nest in one another, levels of the values they run through included."""

FloatForm = Literal["g", "json", "E", "f", "f6"]

_HTML: Final = re.compile("[<>&\u2028\u2029]")
_HTML_ESCAPES: Final = {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
_PLAIN: Final = frozenset({str, int, bool, type(None)})
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")

_VARIABLE: Final = re.compile(r"(?<!\\)\{\{(?:\{[^{}]*\}|[^{}])*\}\}")


def json_text(v: Value) -> str:
    """Compact JSON as Go's ``encoding/json`` writes it: sorted keys, ``1`` for ``1.0``, ``<``, ``>`` and ``&``
    escaped.

    Total: MISSING is ``null``, an ``Err`` is its text, a lone surrogate becomes U+FFFD, infinities and NaN are
    ``null``, of values of CEL bytes are base64 and times their text.
    """
    match v:
        case None:
            return "null"
        case True:
            return "true"
        case False:
            return "false"
        case int():
            return str(v)
        case float():
            return go_float(v, "json")
        case str():
            return _string(v)
    out = _orjson(v) if _only_plain(v) else None
    return _written(v) if out is None else _escape(out)


def _orjson(v: Value) -> str | None:
    try:
        return orjson.dumps(v, option=orjson.OPT_SORT_KEYS).decode()
    except (TypeError, ValueError):  # a surrogate, an integer beyond 64 bits, or nesting beyond orjson's bound
        return None


def _only_plain(v: Value) -> bool:
    """Whether orjson writes the value as Go does: there is no float and no engine value in it."""
    stack = [v]
    while stack:
        x = stack.pop()
        t = type(x)
        if t is dict:
            stack.extend(x.values())
        elif t is list:
            stack.extend(x)
        elif t not in _PLAIN:
            return False
    return True


def _json_form(v: Value) -> Value:
    """The JSON data of a value of CEL, one layer of it."""
    from vm.cel.display import json_form

    return json_form(v)


def _escape(text: str) -> str:
    return _HTML.sub(lambda m: _HTML_ESCAPES[m[0]], text) if _HTML.search(text) else text


def _string(s: str) -> str:
    try:
        return _escape(orjson.dumps(s).decode())
    except (TypeError, ValueError):
        return _escape(orjson.dumps(_SURROGATE.sub("\ufffd", s)).decode())


def _written(v: Value) -> str:
    """JSON written by hand, without recursion: documents may be deeper than the interpreter's stack."""
    out: list[str] = []
    stack: list[tuple[bool, Any]] = [(False, v)]
    while stack:
        literal, x = stack.pop()
        if literal:
            out.append(x)
            continue
        t = type(x)
        if t is dict:
            items: list[tuple[bool, Any]] = [(True, "{")]
            for i, k in enumerate(sorted(x)):
                items += ((True, ("," if i else "") + _string(k) + ":"), (False, x[k]))
            stack.extend(reversed([*items, (True, "}")]))
        elif t is list:
            items = [(True, "[")]
            for i, y in enumerate(x):
                if i:
                    items.append((True, ","))
                items.append((False, y))
            stack.extend(reversed([*items, (True, "]")]))
        elif x is MISSING:
            out.append("null")
        elif t is Err:
            out.append(_string(x.text))
        elif t in _PLAIN or t is float:
            out.append(json_text(x))
        else:
            stack.append((False, _json_form(x)))
    return "".join(out)


def go_float(f: float, form: FloatForm = "g") -> str:
    """A float as Go prints it: ``g`` is ``%v`` (``3``, ``1e+06``), ``json`` is encoding/json, ``E`` is the shortest
    scientific form (``1E+00``), ``f`` the shortest plain form, ``f6`` plain with six decimals."""
    if f != f or f in (float("inf"), float("-inf")):
        if form == "json":
            return "null"
        return "NaN" if f != f else "+Inf" if f > 0 else "-Inf"
    if form == "f6":
        return f"{f:.6f}"
    sign, digits, point = _shortest(f)
    exponent = point - 1
    if form == "E":
        return sign + _scientific(digits, exponent, "E", 2)
    if form == "g" and (exponent < -4 or exponent >= 6) and f != 0:
        return sign + _scientific(digits, exponent, "e", 2)
    if form == "json" and f != 0 and not 1e-6 <= abs(f) < 1e21:
        return sign + _scientific(digits, exponent, "e", 2 if exponent > 0 else 1)
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}" if digits != "0" else sign + "0"
    if point >= len(digits):
        return sign + digits + "0" * (point - len(digits))
    return f"{sign}{digits[:point]}.{digits[point:]}"


def _shortest(f: float) -> tuple[str, str, int]:
    """Sign, shortest digits without zeros at either end, and where the decimal point stands in them."""
    text = repr(f)
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    return (sign, digits, point) if digits else (sign, "0", 1)


def _scientific(digits: str, exponent: int, letter: str, width: int) -> str:
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{mantissa}{letter}{'-' if exponent < 0 else '+'}{abs(exponent):0{width}d}"


def go_value(v: Value) -> str:
    """A value as Go's ``%v`` prints it: ``<nil>``, ``map[a:1 b:x]`` with sorted keys, ``[a b]``, texts without
    quotes."""
    out: list[str] = []
    stack: list[tuple[bool, Any]] = [(False, v)]
    while stack:
        literal, x = stack.pop()
        t = type(x)
        if literal or t is str:
            out.append(x)
        elif x is None or x is MISSING:
            out.append("<nil>")
        elif t is bool:
            out.append("true" if x else "false")
        elif t is float:
            out.append(go_float(x))
        elif t is dict:
            items: list[tuple[bool, Any]] = [(True, "map[")]
            for i, k in enumerate(sorted(x)):
                items += ((True, (" " if i else "") + k + ":"), (False, x[k]))
            stack.extend(reversed([*items, (True, "]")]))
        elif t is list:
            items = [(True, "[")]
            for i, y in enumerate(x):
                items += ((True, " " if i else ""), (False, y))
            stack.extend(reversed([*items, (True, "]")]))
        elif t is Err:
            out.append(x.text)
        elif t is int:
            out.append(str(x))
        else:
            stack.append((False, _json_form(x)))
    return "".join(out)


# Bodies of the intrinsics of family ``text``.


def resolved(v: Value, variable: str, path: str, operation: Value) -> Value:
    """The value of a variable, or the reference's words for a variable that could not be resolved at a path.

    On DELETE the words name the old object, since there the text of a variable is changed so (semantics §6.4).
    """
    if type(v) is not Err or v.code in ("fuel", "substitution", "pending", "later"):
        return v
    if operation == "DELETE":
        variable = variable.replace("request.object", "request.oldObject")
    cause = v.text if v.code in ("syntax", "context") else f"JMESPath query failed: {v.text}"
    return Err("substitution", f"failed to resolve {variable} at path {path}: {cause}")


def substituted(imports: Imports, meter: Meter, text: Value, root: Value) -> Value:
    """A text after its first pass: further passes while it holds variables, then escapes taken away."""
    if type(text) is not str or "{{" not in text:
        return text
    if _VARIABLE.search(text) is None:
        return unescaped(text)
    return imports.substitute(text, root, meter)


def unescaped(text: Value) -> Value:
    """Takes the backslash from every escape (``\\{{``)."""
    return text.replace("\\{{", "{{") if type(text) is str else text


def shallow(v: Value) -> Value:
    """The text that a shallow variable puts into a longer one: its ``{{`` escaped, so that no later pass sees them.

    Null is the text ``null``; anything that is neither is an error.
    """
    if type(v) is Err:
        return v
    if v is None or v is MISSING:
        return "null"
    if type(v) is not str:
        return Err("type", f"a shallow variable in a text must be a string, got {json_text(v)}")
    return v.replace("{{", "\\{{")


def deep(imports: Imports, meter: Meter, v: Value, root: Value) -> Value:
    """A list or map that replaced a whole text: variables in its own texts and keys are substituted too (Kyverno
    quirk). The same object when it holds none."""
    if type(v) not in (dict, list) or not _holds_braces(v, meter):
        return v
    return _deep(imports, meter, v, root)


def _holds_braces(v: Value, meter: Meter) -> bool:
    stack, seen = [v], 0
    while stack:
        x = stack.pop()
        seen += 1
        t = type(x)
        if t is str:
            if "{{" in x:
                return True
        elif t is dict:
            stack.extend(x)
            stack.extend(x.values())
        elif t is list:
            stack.extend(x)
    meter.charge(seen >> 4)
    return False


def _deep(imports: Imports, meter: Meter, v: Value, root: Value) -> Value:
    t = type(v)
    if t is str:
        return substituted(imports, meter, v, root)
    if t is not list and t is not dict:
        return v
    if meter.depth >= MAX_DEPTH:
        return Err("substitution", "variables lead back to themselves or are nested too deeply")
    meter.charge(1)
    meter.depth += 1
    try:
        if t is list:
            return _deep_list(imports, meter, v, root)
        return _deep_map(imports, meter, v, root)
    finally:
        meter.depth -= 1


def _deep_list(imports: Imports, meter: Meter, v: list[Value], root: Value) -> Value:
    items: list[Value] = []
    for x in v:
        y = _deep(imports, meter, x, root)
        if type(y) is Err:
            return y
        items.append(y)
    return items


def _deep_map(imports: Imports, meter: Meter, v: dict[str, Value], root: Value) -> Value:
    out: dict[str, Value] = {}
    for k in sorted(v):
        key = as_key(substituted(imports, meter, k, root), k)
        if type(key) is Err:
            return key
        y = _deep(imports, meter, v[k], root)
        if type(y) is Err:
            return y
        out[key] = y
    return out


def as_key(v: Value, key: str) -> Value:
    """The text that a map key came out as, or the error for one that is no text; ``key`` is what stood there."""
    if type(v) is str or type(v) is Err:
        return v
    return Err("substitution", f'expected string after substituting variables in key "{key}"')


def to_json(v: Value) -> Value:
    """Compact JSON of any value; an error as it is."""
    return v if type(v) is Err else json_text(v)
