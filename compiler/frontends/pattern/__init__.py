"""Scalar patterns, anchored keys and kind selectors: texts of policies, parsed by the grammars of that name."""

from compiler.frontends.pattern.anchors import parse_key
from compiler.frontends.pattern.kinds import parse_kind
from compiler.frontends.pattern.scalar import compile_scalar

__all__ = ["compile_scalar", "parse_key", "parse_kind"]
