"""The functions a query may call: their arguments, and the intrinsics that do the work.

Read by the checker (names, numbers of arguments, where ``&expression`` may stand), the lowering, and
``thesmos jp function``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ANY: Final = "any"


@dataclass(frozen=True, slots=True)
class Function:
    """``params`` are the words for the argument types; a trailing ``...`` repeats the one before it (at least once).

    ``reference`` is the position of the ``&expression`` argument, if any; the intrinsic gets the list of what it gives
    for each element in its place.
    """

    name: str
    params: tuple[str, ...]
    result: str
    doc: str
    reference: int | None = None
    intrinsic: str = ""

    @property
    def low(self) -> int:
        return len(self.params) - (1 if self.params[-1:] == ("...",) else 0)

    @property
    def high(self) -> int | None:
        return None if self.params[-1:] == ("...",) else len(self.params)

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join(self.params).replace(', ...', '...')}) {self.result}"


def _f(name: str, params: str, result: str, doc: str, *, reference: int | None = None, intrinsic: str = "") -> Function:
    words = tuple(p.strip() for p in params.split(",")) if params else ()
    return Function(name, words, result, doc, reference, intrinsic or f"jmes.{name}")


_LIST: Final = (
    _f("abs", "number", "number", "the absolute value"),
    _f("avg", "array[number]", "number", "the mean, null for an empty list"),
    _f("ceil", "number", "number", "the next integer at or above"),
    _f("contains", "array|string, any", "boolean", "whether a list has an element, or a text a part"),
    _f("ends_with", "string, string", "boolean", "whether a text ends with another"),
    _f("floor", "number", "number", "the next integer at or below"),
    _f("join", "string, array[string]", "string", "the texts of a list with a separator between them"),
    _f("keys", "object", "array", "the keys of a map, sorted"),
    _f("length", "string|array|object", "number", "characters of a text, elements of a list or map"),
    _f("map", "expression, array", "array", "the expression applied to each element, nulls kept", reference=0),
    _f("max", "array[number]|array[string]", "any", "the largest element, null for an empty list"),
    _f("max_by", "array, expression", "any", "the element whose key is the largest", reference=1),
    _f("merge", "object, ...", "object", "the maps put together, later ones winning"),
    _f("min", "array[number]|array[string]", "any", "the smallest element, null for an empty list"),
    _f("min_by", "array, expression", "any", "the element whose key is the smallest", reference=1),
    _f("not_null", "any, ...", "any", "the first argument that is not null"),
    _f("reverse", "array|string", "any", "a list or text backwards"),
    _f("sort", "array[number]|array[string]", "array", "the elements in order"),
    _f("sort_by", "array, expression", "array", "the elements in the order of their keys", reference=1),
    _f("starts_with", "string, string", "boolean", "whether a text starts with another"),
    _f("sum", "array", "any", "numbers, quantities or durations added up; an empty list is an error"),
    _f("to_array", "any", "array", "a list as it is, anything else as its only element"),
    _f("to_number", "any", "number", "the number a text says, null if none"),
    _f("to_string", "any", "string", "a text as it is, anything else as JSON"),
    _f("type", "any", "string", "the name of the type"),
    _f("values", "object", "array", "the values of a map, in the order of its keys"),
    # Functions of the policy dialect
    _f("add", "any, any", "any", "the sum of two numbers, quantities or durations"),
    _f("base64_decode", "string", "string", "the text that standard base64 stands for"),
    _f("base64_encode", "string", "string", "standard base64 of a text"),
    _f("compare", "string, string", "number", "-1, 0 or 1 by the order of two texts"),
    _f("divide", "any, any", "any", "the quotient of numbers, quantities or durations"),
    _f("equal_fold", "string, string", "boolean", "whether two texts are equal but for upper and lower case"),
    _f("image_normalize", "string", "string", "an image reference with the usual registry and tag put in"),
    _f("is_external_url", "string", "boolean", "whether the host of a URL lies outside private and local networks"),
    _f("items", "object|array, string, string", "array", "the pairs of a map or list as maps with the given two keys"),
    _f("label_match", "object, object", "boolean", "whether every pair of the first map is in the second"),
    _f("lookup", "object|array, string|number", "any", "an element by key or position, null if there is none"),
    _f("md5", "string", "string", "the MD5 digest in hex"),
    _f("modulo", "any, any", "any", "the remainder of integers, quantities or durations"),
    _f("multiply", "any, any", "any", "the product of numbers, or of a number with a quantity or duration"),
    _f("object_from_lists", "array, array", "object", "the map of a list of keys and one of values"),
    _f("parse_json", "string", "any", "the value a JSON text stands for"),
    _f("parse_yaml", "string", "any", "the value a YAML text stands for"),
    _f("path_canonicalize", "string", "string", "a path without '.', '..' and double slashes"),
    _f("pattern_match", "string, string|number", "boolean", "whether a text matches a wildcard"),
    _f("regex_match", "string, string|number", "boolean", "whether a regular expression is found in a text"),
    _f("random", "string", "string", "a random text that a regular expression matches"),
    _f(
        "regex_replace_all",
        "string, string|number, string|number",
        "string",
        "each match replaced, $1 standing for groups",
    ),
    _f(
        "regex_replace_all_literal",
        "string, string|number, string|number",
        "string",
        "each match replaced as it stands",
    ),
    _f("replace", "string, string, string, number", "string", "the first n places replaced, all when negative"),
    _f("replace_all", "string, string, string", "string", "every place replaced"),
    _f("round", "number, number", "number", "a number rounded to some decimals"),
    _f("semver_compare", "string, string", "boolean", "whether a version is in a range"),
    _f("sha1", "string", "string", "the SHA-1 digest in hex"),
    _f("sha256", "string", "string", "the SHA-256 digest in hex"),
    _f("split", "string, string", "array", "the parts of a text between separators"),
    _f("subtract", "any, any", "any", "the difference of two numbers, quantities or durations"),
    _f("to_boolean", "string", "boolean", "true or false, in any case of letters"),
    _f("to_lower", "string", "string", "in small letters"),
    _f("to_upper", "string", "string", "in capital letters"),
    _f("trim", "string, string", "string", "without the given characters at both ends"),
    _f("trim_prefix", "string, string", "string", "without a prefix"),
    _f("truncate", "string, number", "string", "the first n characters"),
    _f("x509_decode", "string", "object", "an RSA certificate or request in PEM form, in Go's field names"),
    _f("time_add", "string, string", "string", "a time plus a duration"),
    _f("time_after", "string, string", "boolean", "whether a time is after another"),
    _f("time_before", "string, string", "boolean", "whether a time is before another"),
    _f("time_between", "string, string, string", "boolean", "whether a time lies strictly between two others"),
    _f("time_diff", "string, string", "string", "the duration from one time to another"),
    _f("time_now", "", "string", "the present time"),
    _f("time_now_utc", "", "string", "the present time, in UTC"),
    _f("time_parse", "string, string", "string", "a time read by a layout, as RFC 3339"),
    _f("time_since", "string, string, string", "string", "the duration from a time to another or to now"),
    _f("time_to_cron", "string", "string", "the schedule that fires at a time"),
    _f("time_truncate", "string, string", "string", "a time rounded down to a multiple of a duration"),
    _f("time_utc", "string", "string", "a time in UTC"),
)

FUNCTIONS: Final[dict[str, Function]] = {f.name: f for f in _LIST}

STANDARD_SUM: Final = _f("sum", "array[number]", "number", "the sum, 0 for an empty list", intrinsic="jmes.plain_sum")
"""What plain JMESPath means by ``sum``, for queries that are not of a policy."""
