"""Queries: the ``jmespath`` package with the differences of semantics §7, and the functions that the cases use."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import jmespath.exceptions
import jmespath.functions
import jmespath.parser
import jmespath.visitor
from jmespath.functions import signature

from tests.reference.scalars import json_text, wildcard


class QueryError(Exception):
    """A query that cannot be evaluated."""


class NotFound(QueryError):
    """A key that is not there; many places take it for null."""


class _Functions(jmespath.functions.Functions):  # type: ignore[misc]
    @signature({"types": ["string"]})
    def _func_to_upper(self, text: str) -> str:
        return text.upper()

    @signature({"types": ["string"]})
    def _func_to_lower(self, text: str) -> str:
        return text.lower()

    @signature({"types": ["string"]}, {"types": ["string"]})
    def _func_trim(self, text: str, cut: str) -> str:
        return text.strip(cut)

    @signature({"types": ["string"]}, {"types": ["string"]})
    def _func_trim_prefix(self, text: str, prefix: str) -> str:
        return text.removeprefix(prefix)

    @signature({"types": ["string"]}, {"types": ["string"]})
    def _func_split(self, text: str, by: str) -> list[str]:
        return text.split(by) if by else list(text)

    @signature({"types": ["string"]}, {"types": ["string"]}, {"types": ["string"]})
    def _func_replace_all(self, text: str, old: str, new: str) -> str:
        return text.replace(old, new)

    @signature({"types": ["string"]}, {"types": ["string", "number"]})
    def _func_regex_match(self, pattern: str, text: Any) -> bool:
        return re.search(pattern, text if isinstance(text, str) else json_text(text)) is not None

    @signature({"types": ["string"]}, {"types": ["string"]}, {"types": ["string"]})
    def _func_regex_replace_all(self, pattern: str, text: str, new: str) -> str:
        return re.sub(pattern, re.sub(r"\$\{?(\w+)\}?", r"\\g<\1>", new), text)

    @signature({"types": ["string"]}, {"types": ["string", "number"]})
    def _func_pattern_match(self, pattern: str, text: Any) -> bool:
        return wildcard(pattern, text if isinstance(text, str) else json_text(text))

    @signature({"types": ["object"]}, {"types": ["object"]})
    def _func_label_match(self, wanted: dict[str, Any], actual: dict[str, Any]) -> bool:
        return all(k in actual and actual[k] == v for k, v in wanted.items())

    @signature({"types": ["string"]}, {"types": ["number"]})
    def _func_truncate(self, text: str, length: float) -> str:
        return text[: int(length)]

    @signature({"types": ["string"]})
    def _func_base64_encode(self, text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    @signature({"types": ["string"]})
    def _func_base64_decode(self, text: str) -> str:
        return base64.b64decode(text).decode()

    @signature({"types": ["string"]})
    def _func_parse_json(self, text: str) -> Any:
        return json.loads(text)

    @signature({"types": ["object"]}, {"types": ["string"]}, {"types": ["string"]})
    def _func_items(self, value: dict[str, Any], key_name: str, value_name: str) -> list[Any]:
        return [{key_name: k, value_name: value[k]} for k in sorted(value)]

    @signature({"types": ["object"]})
    def _func_keys(self, value: dict[str, Any]) -> list[str]:
        return sorted(value)

    @signature({"types": ["object"]})
    def _func_values(self, value: dict[str, Any]) -> list[Any]:
        return [value[k] for k in sorted(value)]

    @signature({"types": []})
    def _func_to_string(self, value: Any) -> str:
        return value if isinstance(value, str) else json_text(value)


class _Expression(jmespath.visitor._Expression):  # type: ignore[misc]
    """An expression handed to a function: a missing key is null in it."""

    def __init__(self, interpreter: _Interpreter, node: Any) -> None:
        super().__init__(node, interpreter)

    def visit(self, node: Any, value: Any) -> Any:
        try:
            return self.interpreter.visit(node, value)
        except NotFound:
            return None


class _Interpreter(jmespath.visitor.TreeInterpreter):  # type: ignore[misc]
    """Raises :class:`NotFound` for a missing key of a map and says where it is taken for null."""

    def _or_null(self, node: Any, value: Any) -> Any:
        try:
            return self.visit(node, value)
        except NotFound:
            return None

    def _or_null_at_all(self, node: Any, value: Any) -> Any:
        """The left side of flatten, filter and value projections: any error is null there, as go-jmespath has it."""
        try:
            return self.visit(node, value)
        except (QueryError, jmespath.exceptions.JMESPathError, ValueError, TypeError):
            return None

    def visit_field(self, node: Any, value: Any) -> Any:
        if not isinstance(value, dict):
            return None
        if node["value"] not in value:
            raise NotFound(f'Unknown key "{node["value"]}" in path')
        return value[node["value"]]

    def visit_comparator(self, node: Any, value: Any) -> Any:
        left, right = (self._or_null(child, value) for child in node["children"])
        if node["value"] in ("eq", "ne"):
            return equal(left, right) == (node["value"] == "eq")
        if any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in (left, right)):
            return None
        return {"lt": left < right, "lte": left <= right, "gt": left > right, "gte": left >= right}[node["value"]]

    def visit_function_expression(self, node: Any, value: Any) -> Any:
        arguments = [self._or_null(child, value) for child in node["children"]]
        return self._functions.call_function(node["value"], arguments)

    def visit_expref(self, node: Any, value: Any) -> Any:
        return _Expression(self, node["children"][0])

    def visit_or_expression(self, node: Any, value: Any) -> Any:
        left = self._or_null(node["children"][0], value)
        return left if truth(left) else self._or_null(node["children"][1], value)

    def visit_and_expression(self, node: Any, value: Any) -> Any:
        left = self._or_null(node["children"][0], value)
        return self.visit(node["children"][1], value) if truth(left) else left

    def visit_not_expression(self, node: Any, value: Any) -> Any:
        return not truth(self._or_null(node["children"][0], value))

    def visit_pipe(self, node: Any, value: Any) -> Any:
        for child in node["children"]:
            value = self._or_null(child, value)
        return value

    def visit_multi_select_list(self, node: Any, value: Any) -> Any:
        return None if value is None else [self._or_null(child, value) for child in node["children"]]

    def visit_multi_select_dict(self, node: Any, value: Any) -> Any:
        if value is None:
            return None
        return {child["value"]: self._or_null(child["children"][0], value) for child in node["children"]}

    def visit_projection(self, node: Any, value: Any) -> Any:
        base = self._or_null(node["children"][0], value)
        return self._each(base, node["children"][1]) if isinstance(base, list) else None

    def visit_value_projection(self, node: Any, value: Any) -> Any:
        base = self._or_null_at_all(node["children"][0], value)
        if not isinstance(base, dict):
            return None
        return self._each([base[k] for k in sorted(base)], node["children"][1])

    def visit_filter_projection(self, node: Any, value: Any) -> Any:
        base = self._or_null_at_all(node["children"][0], value)
        if not isinstance(base, list):
            return None
        kept = [e for e in base if truth(self._or_null(node["children"][2], e))]
        return self._each(kept, node["children"][1])

    def visit_flatten(self, node: Any, value: Any) -> Any:
        base = self._or_null_at_all(node["children"][0], value)
        if not isinstance(base, list):
            return None
        flat: list[Any] = []
        for element in base:
            flat.extend(element if isinstance(element, list) else [element])
        return flat

    def visit_slice(self, node: Any, value: Any) -> Any:
        if not isinstance(value, list):
            return None
        if node["children"][2] == 0:
            raise QueryError("slice step cannot be 0")
        return value[slice(*node["children"])]

    def _each(self, elements: list[Any], right: Any) -> list[Any]:
        found = [self._or_null(right, e) for e in elements]
        return [v for v in found if v is not None]


def truth(value: Any) -> bool:
    """JMESPath truth: false, null, and empty texts, lists and maps are false."""
    return not (value is None or value is False or (isinstance(value, (str, list, dict)) and not value))


def equal(a: Any, b: Any) -> bool:
    """Deep equality of JSON values; a boolean is no number."""
    if isinstance(a, bool) or isinstance(b, bool):
        return isinstance(a, bool) and isinstance(b, bool) and a == b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b)


def search(text: str, data: Any) -> Any:
    """The value of a query. Raises :class:`NotFound` for a missing key that surfaces, :class:`QueryError` for the
    rest.
    """
    options = jmespath.visitor.Options(custom_functions=_Functions())
    if hasattr(data, "of_query"):  # a context, which loads what the query mentions
        data = data.of_query(text)
    try:
        tree = jmespath.parser.Parser().parse(text).parsed
        return _Interpreter(options).visit(tree, data)
    except QueryError:
        raise
    except (jmespath.exceptions.JMESPathError, ValueError, TypeError, OverflowError, KeyError) as error:
        raise QueryError(str(error)) from None
