"""The intrinsics of family ``jmes``, read by ``vm.functions``: what JMESPath queries call.

All take and give any value: they check types themselves, give ``Err type``, ``value`` … for what they cannot use,
and pass on an error among their arguments.
"""

from __future__ import annotations

from typing import Final

from vm.catalogue import Intrinsic


def _i(
    name: str,
    params: int | tuple[str, ...],
    impl: str,
    doc: str,
    fuel: int = 2,
    sized: tuple[int, ...] = (),
    *,
    metered: bool = False,
    dynamic: bool = False,
    pure: bool = True,
) -> Intrinsic:
    kinds = ("V",) * params if isinstance(params, int) else params
    body = f"vm.intrinsics.jmes_{impl}"
    return Intrinsic(f"jmes.{name}", kinds, "V", body, doc, fuel, sized, metered, dynamic, pure)


_KEYED: Final = ("V", "L")

TABLE: Final[tuple[Intrinsic, ...]] = (
    # What queries need besides functions
    _i("root", 1, "core:root", "the root without the engine's keys", 8),
    _i("error", ("S", "S"), "core:error", "an error of this code with this text"),
    _i("flatten", 1, "core:flatten", "inner lists opened, one level; null of anything but a list", 4, metered=True),
    _i("compact", 1, "core:compact", "a list without nulls; null of anything else", 2, metered=True),
    _i("slice", 4, "core:take", "a list from start to stop by step; null of anything else", 4, (0,)),
    _i("equal", 2, "core:equal", "deep equality, or the error among the operands", 2, (0,)),
    _i("not_equal", 2, "core:not_equal", "the opposite of equal", 2, (0,)),
    _i("less", 2, "core:less", "order of numbers; null of anything else"),
    _i("less_equal", 2, "core:less_equal", "order of numbers; null of anything else"),
    _i("greater", 2, "core:greater", "order of numbers; null of anything else"),
    _i("greater_equal", 2, "core:greater_equal", "order of numbers; null of anything else"),
    # Standard functions
    _i("abs", 1, "std:absolute", "the absolute value of a number"),
    _i("avg", 1, "std:avg", "the mean of a list of numbers, null when empty", 4, (0,)),
    _i("ceil", 1, "std:ceil", "the integer at or above a number"),
    _i("contains", 2, "std:contains", "whether a list has an element or a text a part", 4, (0,)),
    _i("ends_with", 2, "std:ends_with", "whether a text ends with another"),
    _i("floor", 1, "std:floor", "the integer at or below a number"),
    _i("join", 2, "std:join", "texts of a list with a separator between", 4, (1,)),
    _i("keys", 1, "std:keys", "the keys of a map, sorted", 4, (0,)),
    _i("length", 1, "std:length", "length of a text, list or map"),
    _i("map", _KEYED, "std:mapped", "the results of an expression for the elements of a list"),
    _i("max", 1, "std:maximum", "the largest of numbers or texts", 4, (0,)),
    _i("max_by", _KEYED, "std:max_by", "the element with the largest key", 4, (0, 1)),
    _i("merge", ("L",), "std:merge", "a list of maps put together, later ones winning", 8, (0,)),
    _i("min", 1, "std:minimum", "the smallest of numbers or texts", 4, (0,)),
    _i("min_by", _KEYED, "std:min_by", "the element with the smallest key", 4, (0, 1)),
    _i("not_null", ("L",), "std:not_null", "the first value of a list that is not null", 2, (0,)),
    _i("reverse", 1, "std:reverse", "a list or text backwards", 2, (0,)),
    _i("sort", 1, "std:sort", "numbers or texts in order", 8, (0, 0, 0)),
    _i("sort_by", _KEYED, "std:sort_by", "elements in the order of their keys", 8, (0, 1, 1)),
    _i("starts_with", 2, "std:starts_with", "whether a text starts with another"),
    _i("plain_sum", 1, "std:plain_sum", "the sum of a list of numbers, 0 when empty", 4, (0,)),
    _i("to_array", 1, "std:to_array", "a list as it is, anything else in a list"),
    _i("to_number", 1, "std:to_number", "the number that a text says, else null", 2, (0,)),
    _i("to_string", 1, "std:to_string", "a text as it is, anything else as JSON", 4, (0,)),
    _i("type", 1, "std:type_name", "the name of a value's type"),
    _i("values", 1, "std:values", "the values of a map in the order of its keys", 4, (0,)),
    # Arithmetic over numbers, quantities and durations
    _i("add", 2, "math:add", "the sum", 8),
    _i("subtract", 2, "math:subtract", "the difference", 8),
    _i("sum", 1, "math:total", "the sum of a list that is not empty", 8, (0, 0, 0, 0)),
    _i("multiply", 2, "math:multiply", "the product", 8),
    _i("divide", 2, "math:divide", "the quotient", 8),
    _i("modulo", 2, "math:modulo", "the remainder of integers", 8),
    _i("round", 2, "math:rounded", "a number to some decimals, half away from zero"),
    # Texts
    _i("compare", 2, "text:compare", "-1, 0 or 1 by the order of two texts", 2, (0,)),
    _i("equal_fold", 2, "text:equal_fold", "equality but for upper and lower case", 2, (0, 1)),
    _i("to_upper", 1, "text:to_upper", "in capital letters", 2, (0,)),
    _i("to_lower", 1, "text:to_lower", "in small letters", 2, (0,)),
    _i("trim", 2, "text:trim", "without some characters at both ends", 2, (0,)),
    _i("trim_prefix", 2, "text:trim_prefix", "without a prefix", 2, (0,)),
    _i("split", 2, "text:split", "the parts between separators", 4, (0,)),
    _i("replace", 4, "text:replace", "the first n places replaced", 4, (0, 0, 2)),
    _i("replace_all", 3, "text:replace_all", "every place replaced", 4, (0, 0, 2)),
    _i("truncate", 2, "text:truncate", "the first n characters"),
    _i("to_boolean", 1, "text:to_boolean", "true or false as a text says"),
    _i("pattern_match", 2, "text:pattern_match", "whether a text matches a wildcard", 4, (0, 1)),
    _i("base64_encode", 1, "text:base64_encode", "standard base64", 4, (0,)),
    _i("base64_decode", 1, "text:base64_decode", "the text of standard base64", 4, (0,)),
    _i("md5", 1, "text:md5", "MD5 in hex", 8, (0,)),
    _i("sha1", 1, "text:sha1", "SHA-1 in hex", 8, (0,)),
    _i("sha256", 1, "text:sha256", "SHA-256 in hex", 8, (0,)),
    _i("path_canonicalize", 1, "text:path_canonicalize", "a path without '.', '..' and '//'", 4, (0,)),
    _i("semver_compare", 2, "text:semver_compare", "whether a version is in a range", 8, (1,)),
    _i("semver_compare_kyverno", 2, "text:semver_compare_kyverno", "with 0.0.0 for what is no version", 8, (1,)),
    # Data
    _i("items", 3, "data:items", "pairs of a map or list as maps with two keys", 4, (0, 0)),
    _i("object_from_lists", 2, "data:object_from_lists", "a map of keys and values", 4, (0,)),
    _i("lookup", 2, "data:lookup", "an element by key or position"),
    _i("label_match", 2, "data:label_match", "whether every pair of a map is in another", 4, (0,)),
    _i("parse_json", 1, "data:parse_json", "the value of a JSON text", 8, (0,)),
    _i("parse_yaml", 1, "data:parse_yaml", "the value of a YAML text", 32, (0, 0, 0, 0), dynamic=True),
    # Times
    _i("time_now", 0, "time:now", "the present time", 4, pure=False),
    _i("time_now_utc", 0, "time:now_utc", "the present time in UTC", 4, pure=False),
    _i("time_since", 3, "time:since", "the duration to a time or to now", 8, pure=False),
    _i("time_diff", 2, "time:diff", "the duration between two times", 8),
    _i("time_before", 2, "time:before", "whether a time is before another", 8),
    _i("time_after", 2, "time:after", "whether a time is after another", 8),
    _i("time_between", 3, "time:between", "whether a time is strictly between two", 8),
    _i("time_add", 2, "time:add", "a time plus a duration", 8),
    _i("time_truncate", 2, "time:truncate", "a time rounded down to a multiple of a duration", 8),
    _i("time_parse", 2, "time:parse", "a time by a layout", 8),
    _i("time_utc", 1, "time:utc", "a time in UTC", 8),
    _i("time_to_cron", 1, "time:to_cron", "the schedule that fires at a time", 8),
    # The world outside
    _i("random", 1, "random:random", "a text drawn at random that an expression matches", 16, metered=True, pure=False),
    _i("x509_decode", 1, "x509:decode", "a certificate or request in PEM form as a map", 64, metered=True),
    _i("image_normalize", 1, "outside:image_normalize", "an image reference with registry and tag", 4, (0,)),
    _i(
        "is_external_url",
        1,
        "outside:is_external_url",
        "whether the host of a URL lies outside",
        16,
        (0,),
        dynamic=True,
        pure=False,
    ),
)
