"""The schemas of Kubernetes kinds: the stored table, a user's CRDs, and the check of pattern paths against them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from compiler.schema.kinds.schemas import ListInfo, ResourceInfo, Schemas, Subresource

__all__ = ["ListInfo", "ResourceInfo", "Schemas", "Subresource", "provider"]


def provider(extra_crds: Sequence[dict[str, Any]] = ()) -> Schemas:
    """What is known of kinds, with those of the given CustomResourceDefinitions. Reads nothing before it is asked."""
    return Schemas(extra_crds) if extra_crds else _built_in()


@cache
def _built_in() -> Schemas:
    return Schemas()
