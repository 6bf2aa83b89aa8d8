"""Queries: the ``jmespath`` package with the differences of semantics §7."""

from __future__ import annotations

from typing import Any

import jmespath.exceptions
import jmespath.parser
import jmespath.visitor

from tests.reference.functions import Functions, Refusal


class QueryError(Exception):
    """A query that cannot be evaluated."""


class NotFound(QueryError):
    """A key that is not there; many places take it for null."""


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
        except (QueryError, Refusal, jmespath.exceptions.JMESPathError, ValueError, TypeError):
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
    options = jmespath.visitor.Options(custom_functions=Functions())
    if hasattr(data, "of_query"):  # a context, which loads what the query mentions
        data = data.of_query(text)
    try:
        tree = jmespath.parser.Parser().parse(text).parsed
        return _Interpreter(options).visit(tree, data)
    except QueryError:
        raise
    except (jmespath.exceptions.JMESPathError, ValueError, TypeError, OverflowError, KeyError, Refusal) as error:
        raise QueryError(str(error)) from None
