"""``format`` of cel-go's ``strings`` extension: verbs ``%s %d %f %e %b %o %x %X``, with a precision for ``%f`` and
``%e``.

There are two: that of version 4, which follows the CEL specification, and that of versions 1 to 3, which Kubernetes
has: numbers in English (``1,234.5``, ``1.5×10⁰³``), lists and maps as CEL writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Final, TypeAlias

from vm.cel.convert import to_string
from vm.cel.go_quote import go_quote
from vm.cel.limits import MAX_TEXT, TOO_LONG
from vm.cel.time import rfc3339
from vm.cel.values import CelMap, Duration, Timestamp, TypeValue, UInt, no_overload, type_name
from vm.fuel import CHUNK
from vm.host import Meter
from vm.intrinsics.text import go_float
from vm.values import Err, Value

_DEEPEST: Final = 256
_PRECISION: Final = 6
_MOST_DIGITS: Final = 1074
"""No double has more behind the point."""
_INTEGERS: Final = frozenset({int, UInt})
_NUMBERS: Final = frozenset({int, UInt, float})
_RAISED: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_DIGITS: Final = frozenset("0123456789")


class _Misfit(Exception):
    """What is wrong with a clause or its operand; never leaves this module."""


Verb: TypeAlias = Callable[["Writer", Value, int | None], str]


@dataclass(slots=True)
class Writer:
    """The room that is left for a result, and who pays for it."""

    meter: Meter
    room: int = MAX_TEXT

    def take(self, text: str) -> str:
        self.room -= len(text) + 1
        if self.room < 0:
            raise _Misfit(TOO_LONG.text)
        self.meter.charge((len(text) >> CHUNK) + 1)
        return text


def format_text(meter: Meter, template: Value, args: Value) -> Value:
    """``template.format(args)``, version 4."""
    return _formatted(meter, template, args, _VERBS)


def format_kubernetes(meter: Meter, template: Value, args: Value) -> Value:
    """``template.format(args)``, versions 1 to 3."""
    return _formatted(meter, template, args, _OLD_VERBS)


def _formatted(meter: Meter, template: Value, args: Value, verbs: dict[str, Verb]) -> Value:
    if type(template) is not str or type(args) is not list:
        return no_overload("format", template, args)
    writer = Writer(meter)
    try:
        return "".join(_pieces(template, args, verbs, writer))
    except _Misfit as e:
        return Err("argument", str(e))


def _pieces(template: str, args: list[Value], verbs: dict[str, Verb], writer: Writer) -> list[str]:
    out: list[str] = []
    at = used = 0
    while (found := template.find("%", at)) >= 0:
        out.append(writer.take(template[at:found]))
        if template.startswith("%", found + 1):
            out.append("%")
            at = found + 2
            continue
        if used >= len(args):
            raise _Misfit(f"index {used} out of range")
        if found + 1 >= len(template):
            raise _Misfit("unexpected end of string")
        verb, precision, at = _clause(template, found + 1, verbs)
        try:
            out.append(writer.take(verb(writer, args[used], precision)))
        except _Misfit as e:
            raise _Misfit(f"error during formatting: {e}") from None
        used += 1
    out.append(writer.take(template[at:]))
    return out


def _clause(template: str, at: int, verbs: dict[str, Verb]) -> tuple[Verb, int | None, int]:
    """The verb and precision behind a ``%``, and where the text goes on."""
    precision = None
    if template[at] == ".":
        end = at + 1
        while end < len(template) and template[end] in _DIGITS:
            end += 1
        trouble = "could not parse formatting clause: error while parsing precision:"
        if end >= len(template):
            raise _Misfit(f"{trouble} could not find end of precision specifier")
        digits = template[at + 1 : end]
        if not digits or len(digits.lstrip("0")) > 18:
            cause = "value out of range" if digits else "invalid syntax"
            trouble += " error while converting precision to integer: strconv.Atoi: parsing"
            raise _Misfit(f'{trouble} "{digits[:256]}": {cause}')
        precision, at = int(digits), end
    verb = verbs.get(template[at])
    if verb is None:
        shown = chr(template[at].encode("utf-8", "replace")[0])  # cel-go looks at the first byte
        raise _Misfit(f'could not parse formatting clause: unrecognized formatting clause "{shown}"')
    return verb, precision, at + 1


# Version 4.


def _string(writer: Writer, v: Value, _: int | None = None) -> str:
    return _written(writer, v, 0)


def _written(writer: Writer, v: Value, depth: int) -> str:
    _check_depth(depth)
    match v:
        case str():
            return v
        case bool():
            return "true" if v else "false"
        case None:
            return "null"
        case int():
            return format(v, "d")
        case float():
            return _plain_double(v)
        case bytes():
            return lossy(v)
        case Timestamp(nanos=n):
            return rfc3339(Timestamp(n))
        case Duration():
            return str(to_string(v))
        case TypeValue(name=name):
            return name
        case list():
            return f"[{', '.join([writer.take(_written(writer, x, depth + 1)) for x in v])}]"
        case dict() | CelMap():
            pairs = [
                (writer.take(_written(writer, k, depth + 1)), writer.take(_written(writer, x, depth + 1)))
                for k, x in _entries(v)
            ]
            pairs.sort(key=lambda pair: pair[0])
            return f"{{{', '.join([f'{k}: {x}' for k, x in pairs])}}}"
    raise _Misfit(_no_string(v))


def _no_string(v: Value) -> str:
    return (
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
        f"timestamps, was given {type_name(v)}"
    )


def _check_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise _Misfit(f"the value is nested more than {_DEEPEST} levels deep")


def _entries(m: Value) -> list[tuple[Value, Value]]:
    return list(m.items()) if type(m) is dict else list(m.entries.values())


def lossy(data: bytes) -> str:
    """UTF-8 as Go reads it: each byte that belongs to no character is one U+FFFD."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "".join("\ufffd" if "\udc80" <= c <= "\udcff" else c for c in data.decode("utf-8", "surrogateescape"))


def _special(v: float) -> str:
    return "NaN" if isnan(v) else "Infinity" if v > 0 else "-Infinity"


def _plain_double(v: float) -> str:
    return go_float(v, "f") if isfinite(v) else _special(v)


def _decimal(_: Writer, v: Value, __: int | None) -> str:
    if type(v) in _INTEGERS:
        return format(v, "d")
    if type(v) is float:
        return _plain_double(v)
    raise _Misfit(f"decimal clause can only be used on ints, uints, and doubles, was given {type_name(v)}")


def _of_precision(letter: str, clause: str) -> Verb:
    """``%f`` and ``%e``. Integers are written as doubles, by the CEL specification; cel-go 0.26 writes
    ``%!f(int64=…)``."""

    def write(writer: Writer, v: Value, precision: int | None) -> str:
        if type(v) not in _NUMBERS:
            raise _Misfit(f"{clause} clause can only be used on ints, uints, and doubles, was given {type_name(v)}")
        v = float(v)
        if not isfinite(v):
            return _special(v)
        return format(v, f".{_bounded(writer, precision)}{letter}")

    return write


def _bounded(writer: Writer, precision: int | None) -> int:
    if precision is None:
        return _PRECISION
    if precision > writer.room:
        raise _Misfit(TOO_LONG.text)
    return precision


def _radix(letter: str, words: str, *, bools: bool = False) -> Verb:
    def write(_: Writer, v: Value, __: int | None) -> str:
        if type(v) in _INTEGERS or (bools and type(v) is bool):
            return format(int(v), letter)
        raise _Misfit(f"{words}, was given {type_name(v)}")

    return write


def _hex(letter: str, words: str) -> Verb:
    def write(_: Writer, v: Value, __: int | None) -> str:
        if type(v) in _INTEGERS:
            return format(v, letter)
        if type(v) is str or type(v) is bytes:
            text = (v if isinstance(v, bytes) else v.encode("utf-8", "replace")).hex()
            return text.upper() if letter == "X" else text
        raise _Misfit(f"{words}, was given {type_name(v)}")

    return write


_OF_HEX: Final = "only ints, uints, bytes, and strings can be formatted as hex"
_VERBS: Final[dict[str, Verb]] = {
    "s": _string,
    "d": _decimal,
    "f": _of_precision("f", "fixed-point"),
    "e": _of_precision("e", "scientific"),
    "b": _radix("b", "only ints, uints, and bools can be formatted as binary", bools=True),
    "o": _radix("o", "octal clause can only be used on ints and uints"),
    "x": _hex("x", _OF_HEX),
    "X": _hex("X", _OF_HEX),
}

# Versions 1 to 3.


def _old_string(writer: Writer, v: Value, _: int | None) -> str:
    return _old_written(writer, v, 0)


def _old_written(writer: Writer, v: Value, depth: int) -> str:
    _check_depth(depth)
    match v:
        case list():
            return f"[{', '.join([_literal(writer, x, depth + 1) for x in v])}]"
        case dict() | CelMap():
            pairs = [(_old_key(writer, k, depth + 1), _literal(writer, x, depth + 1)) for k, x in _entries(v)]
            pairs.sort(key=lambda pair: pair[0])
            return f"{{{', '.join([f'{k}:{x}' for k, x in pairs])}}}"
        case None:
            return "null"
        case bool() | int() | float() | str() | bytes() | Timestamp() | Duration() | TypeValue():
            text = v.name if type(v) is TypeValue else to_string(v)
            if type(text) is Err:
                raise _Misfit(f"could not convert argument {go_quote(text.text)} to string")
            return str(text)
    raise _Misfit(_no_string(v))


def _literal(writer: Writer, v: Value, depth: int) -> str:
    """An element as CEL writes it."""
    match v:
        case str():
            return writer.take(go_quote(v))
        case bytes():
            return writer.take("b" + go_quote(_old_written(writer, v, depth)))
        case float():
            if isfinite(v):
                return writer.take(f"{v:.6f}")
            return '"NaN"' if isnan(v) else '"+Inf"' if v > 0 else '"-Inf"'
        case Timestamp():
            return writer.take(f'timestamp("{to_string(v)}")')
        case Duration():
            return writer.take(f'duration("{to_string(v)}")')
        case None | bool() | int() | TypeValue() | list() | dict() | CelMap():
            return writer.take(_old_written(writer, v, depth))
    raise _Misfit(f"no formatting function for {type_name(v)}")


def _old_key(writer: Writer, k: Value, depth: int) -> str:
    if type(k) is float:
        raise _Misfit("no formatting function for map key of type double")
    return _literal(writer, k, depth)


def _old_decimal(_: Writer, v: Value, __: int | None) -> str:
    if type(v) in _INTEGERS:
        return format(v, "d")
    raise _Misfit(f"decimal clause can only be used on integers, was given {type_name(v)}")


_SPECIAL_TEXTS: Final = {"NaN": "NaN", "Infinity": "∞", "-Infinity": "-∞"}


def _old_double(v: Value, clause: str) -> float | str:
    """A double, or the words for one that is not finite; such a double may be given as a text."""
    if type(v) is float:
        return v if isfinite(v) else _SPECIAL_TEXTS[_special(v)]
    if type(v) is str and v in _SPECIAL_TEXTS:
        return _SPECIAL_TEXTS[v]
    raise _Misfit(f"{clause} clause can only be used on doubles, was given {type_name(v)}")


def _old_fixed(writer: Writer, v: Value, precision: int | None) -> str:
    """In English: ``1,234.500000``; zero has no sign. Of a precision above 255 its last 8 bits say how many digits are
    written though they be zeros (``%.257f`` of 1.5 is ``1.5``)."""
    x = _old_double(v, "fixed-point")
    if isinstance(x, str):
        return x
    precision = _PRECISION if precision is None else precision
    text = format(x or 0.0, f",.{min(precision, _MOST_DIGITS)}f")
    if precision < 256:
        return text
    whole, _, digits = text.partition(".")
    digits = digits.rstrip("0").ljust(precision & 255, "0")
    return f"{whole}.{digits}" if digits else whole


def _old_scientific(writer: Writer, v: Value, precision: int | None) -> str:
    """In English: ``1.234568×10⁰⁷``, six digits always; what is given as the precision is the least width instead."""
    x = _old_double(v, "scientific")
    if not isinstance(x, str):
        digits, _, exponent = format(x or 0.0, ".6e").partition("e")
        x = f"{digits}×10{exponent.lstrip('+').translate(_RAISED)}"
    return x.rjust(_bounded(writer, precision))


_OLD_OF_HEX: Final = "only integers, byte buffers, and strings can be formatted as hex"
_OLD_VERBS: Final[dict[str, Verb]] = {
    "s": _old_string,
    "d": _old_decimal,
    "f": _old_fixed,
    "e": _old_scientific,
    "b": _radix("b", "only integers and bools can be formatted as binary", bools=True),
    "o": _radix("o", "octal clause can only be used on integers"),
    "x": _hex("x", _OLD_OF_HEX),
    "X": _hex("X", _OLD_OF_HEX),
}
