"""``format`` of cel-go's ``strings`` extension: verbs ``%s %d %f %e %b %o %x %X``, with a precision for ``%f`` and
``%e``.

There are two: that of version 4, which follows the CEL specification, and that of versions 1 to 3, which Kubernetes
has: numbers in English (``1,234.5``, ``1.5×10⁰³``), lists and maps as CEL writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Final, TypeAlias

from vm.cel.convert import to_string
from vm.cel.go_quote import go_quote
from vm.cel.limits import MAX_TEXT, TOO_LONG
from vm.cel.time import rfc3339
from vm.cel.values import CelMap, Duration, Timestamp, TypeValue, no_overload, type_name
from vm.fuel import CHUNK
from vm.host import Meter
from vm.intrinsics.text import go_float
from vm.values import Err, Value

_DEEPEST: Final = 256
_PRECISION: Final = 6
_MOST_DIGITS: Final = 1074
"""No double has more behind the point."""
_RAISED: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_DIGITS: Final = frozenset("0123456789")


class Misfit(Exception):
    """What is wrong with a format or an operand. Never leaves a body; the checker catches it."""


@dataclass(slots=True)
class Writer:
    """The room that is left for a result, and who pays for it."""

    meter: Meter
    room: int = MAX_TEXT

    def take(self, text: str) -> str:
        self.room -= len(text) + 1
        if self.room < 0:
            raise Misfit(TOO_LONG.text)
        self.meter.charge((len(text) >> CHUNK) + 1)
        return text


Write: TypeAlias = Callable[[Writer, Value, int | None], str]


@dataclass(frozen=True, slots=True)
class Verb:
    """``takes`` are names of types, ``words`` what is said of an operand of another."""

    takes: frozenset[str]
    words: str
    write: Write

    def misfit(self, type_name: str) -> Misfit:
        return Misfit(f"error during formatting: {self.words}, was given {type_name}")


def format_text(meter: Meter, template: Value, args: Value) -> Value:
    """``template.format(args)``, version 4."""
    return _formatted(meter, template, args, VERBS)


def format_kubernetes(meter: Meter, template: Value, args: Value) -> Value:
    """``template.format(args)``, versions 1 to 3."""
    return _formatted(meter, template, args, OLD_VERBS)


def _formatted(meter: Meter, template: Value, args: Value, verbs: dict[str, Verb]) -> Value:
    if type(template) is not str or type(args) is not list:
        return no_overload("format", template, args)
    writer = Writer(meter)
    out: list[str] = []
    try:
        for n, (text, verb, precision) in enumerate(clauses(template, verbs, len(args))):
            out.append(writer.take(text))
            if verb is not None:
                out.append(_filled(writer, verb, args[n], precision))
    except Misfit as e:
        return Err("argument", str(e))
    return "".join(out)


def _filled(writer: Writer, verb: Verb, v: Value, precision: int | None) -> str:
    if type_name(v) not in verb.takes:
        raise verb.misfit(type_name(v))
    try:
        return writer.take(verb.write(writer, v, precision))
    except Misfit as e:
        raise Misfit(f"error during formatting: {e}") from None


def clauses(
    template: str, verbs: dict[str, Verb], count: int, *, checking: bool = False
) -> Iterator[tuple[str, Verb | None, int | None]]:
    """The texts of a format, each with the verb behind it and its precision; the last has none. ``count`` operands are
    there. Raises :class:`Misfit` where it stops; the checker finds a lone ``%`` before an operand that is missing."""
    text: list[str] = []
    at = used = 0
    while (found := template.find("%", at)) >= 0:
        text.append(template[at:found])
        if template.startswith("%", found + 1):
            text.append("%")
            at = found + 2
            continue
        ends = found + 1 >= len(template)
        if used >= count and not (checking and ends):
            raise Misfit(f"index {used} out of range")
        if ends:
            raise Misfit("unexpected end of string")
        verb, precision, at = _clause(template, found + 1, verbs)
        yield "".join(text), verb, precision
        text.clear()
        used += 1
    yield "".join(text) + template[at:], None, None


def _clause(template: str, at: int, verbs: dict[str, Verb]) -> tuple[Verb, int | None, int]:
    """The verb and precision behind a ``%``, and where the text goes on."""
    precision = None
    if template[at] == ".":
        end = at + 1
        while end < len(template) and template[end] in _DIGITS:
            end += 1
        trouble = "could not parse formatting clause: error while parsing precision:"
        if end >= len(template):
            raise Misfit(f"{trouble} could not find end of precision specifier")
        digits = template[at + 1 : end]
        if not digits or len(digits.lstrip("0")) > 18:
            cause = "value out of range" if digits else "invalid syntax"
            trouble += " error while converting precision to integer: strconv.Atoi: parsing"
            raise Misfit(f'{trouble} "{digits[:256]}": {cause}')
        precision, at = int(digits), end
    verb = verbs.get(template[at])
    if verb is None:
        shown = chr(template[at].encode("utf-8", "replace")[0])  # cel-go looks at the first byte
        raise Misfit(f'could not parse formatting clause: unrecognized formatting clause "{shown}"')
    return verb, precision, at + 1


_SHOWN: Final = frozenset(
    {
        "string",
        "bool",
        "bytes",
        "int",
        "uint",
        "double",
        "map",
        "list",
        "type",
        "google.protobuf.Duration",
        "google.protobuf.Timestamp",
        "null_type",
    }
)
_STRING_WORDS: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps"
)

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
    raise Misfit(f"{_STRING_WORDS}, was given {type_name(v)}")


def _check_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise Misfit(f"the value is nested more than {_DEEPEST} levels deep")


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
    return _plain_double(v) if type(v) is float else format(v, "d")


def _of_precision(letter: str) -> Write:
    """``%f`` and ``%e``. Integers are written as doubles, by the CEL specification; cel-go 0.26 writes
    ``%!f(int64=…)``."""

    def write(writer: Writer, v: Value, precision: int | None) -> str:
        v = float(v)
        return format(v, f".{_bounded(writer, precision)}{letter}") if isfinite(v) else _special(v)

    return write


def _bounded(writer: Writer, precision: int | None) -> int:
    if precision is None:
        return _PRECISION
    if precision > writer.room:
        raise Misfit(TOO_LONG.text)
    return precision


def _radix(letter: str) -> Write:
    return lambda _, v, __: format(int(v), letter)


def _hex(letter: str) -> Write:
    def write(_: Writer, v: Value, __: int | None) -> str:
        if isinstance(v, int):
            return format(v, letter)
        text = (v if isinstance(v, bytes) else v.encode("utf-8", "replace")).hex()
        return text.upper() if letter == "X" else text

    return write


def _integers(words: str, write: Write, *more: str) -> Verb:
    return Verb(frozenset({"int", "uint", *more}), words, write)


_OF_NUMBERS: Final = "clause can only be used on ints, uints, and doubles"
_OF_HEX: Final = "only ints, uints, bytes, and strings can be formatted as hex"
_OF_BINARY: Final = "only ints, uints, and bools can be formatted as binary"
VERBS: Final = {
    "s": Verb(_SHOWN, _STRING_WORDS, _string),
    "d": _integers(f"decimal {_OF_NUMBERS}", _decimal, "double"),
    "f": _integers(f"fixed-point {_OF_NUMBERS}", _of_precision("f"), "double"),
    "e": _integers(f"scientific {_OF_NUMBERS}", _of_precision("e"), "double"),
    "b": _integers(_OF_BINARY, _radix("b"), "bool"),
    "o": _integers("octal clause can only be used on ints and uints", _radix("o")),
    "x": _integers(_OF_HEX, _hex("x"), "string", "bytes"),
    "X": _integers(_OF_HEX, _hex("X"), "string", "bytes"),
}
"""The verbs of version 4."""

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
                raise Misfit(f"could not convert argument {go_quote(text.text)} to string")
            return str(text)
    raise Misfit(f"{_STRING_WORDS}, was given {type_name(v)}")


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
    raise Misfit(f"no formatting function for {type_name(v)}")


def _old_key(writer: Writer, k: Value, depth: int) -> str:
    if type(k) is float:
        raise Misfit("no formatting function for map key of type double")
    return _literal(writer, k, depth)


_SPECIAL_TEXTS: Final = {"NaN": "NaN", "Infinity": "∞", "-Infinity": "-∞"}


def _old_double(v: Value, clause: str) -> float | str:
    """A double, or the words for one that is not finite; such a double may be given as a text."""
    if type(v) is float:
        return v if isfinite(v) else _SPECIAL_TEXTS[_special(v)]
    if v in _SPECIAL_TEXTS:
        return _SPECIAL_TEXTS[v]
    raise Misfit(f"{clause} {_OF_DOUBLES}, was given string")


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


_OF_DOUBLES: Final = "clause can only be used on doubles"
_DOUBLES: Final = frozenset({"double", "string"})
_OLD_OF_HEX: Final = "only integers, byte buffers, and strings can be formatted as hex"
OLD_VERBS: Final = {
    "s": Verb(_SHOWN, _STRING_WORDS, _old_string),
    "d": _integers("decimal clause can only be used on integers", _decimal),
    "f": Verb(_DOUBLES, f"fixed-point {_OF_DOUBLES}", _old_fixed),
    "e": Verb(_DOUBLES, f"scientific {_OF_DOUBLES}", _old_scientific),
    "b": _integers("only integers and bools can be formatted as binary", _radix("b"), "bool"),
    "o": _integers("octal clause can only be used on integers", _radix("o")),
    "x": _integers(_OLD_OF_HEX, _hex("x"), "string", "bytes"),
    "X": _integers(_OLD_OF_HEX, _hex("X"), "string", "bytes"),
}
"""The verbs of versions 1 to 3."""
