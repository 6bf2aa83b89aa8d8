"""Patterns of ``validate`` and of strategic merge: made from a resource (typed) or from nothing (untyped)."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fuzz.gen import resource as res

ANCHORS = ("", "(", "=(", "^(", "X(", "<(")
_MERGE_ANCHORS = ("", "", "(", "+(", "<(")


def _numbers() -> st.SearchStrategy[str]:
    return st.one_of(st.integers(-5, 20).map(str), st.sampled_from(res.QUANTITIES + res.DURATIONS))


@st.composite
def _terms(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(("glob", "compare", "range", "outside", "literal", "not")))
    if kind == "glob":
        return draw(st.sampled_from(("*", "?*", "n*", "*:latest", "*/*", "?", "g?r.io/*", "*-proxy", "?eb")))
    if kind == "compare":
        return draw(st.sampled_from((">", ">=", "<", "<="))) + draw(st.sampled_from(("", " "))) + draw(_numbers())
    if kind == "range":
        return draw(_numbers()) + "-" + draw(_numbers())
    if kind == "outside":
        return draw(_numbers()) + "!-" + draw(_numbers())
    word = draw(st.sampled_from(res.LABEL_VALUES + res.IMAGES + res.QUANTITIES + ("*", "?*")))
    return "!" + word if kind == "not" else word


@st.composite
def scalar_texts(draw: st.DrawFn) -> str:
    """A scalar pattern text: terms joined by ``&`` and ``|``."""
    groups = draw(st.lists(st.lists(_terms(), min_size=1, max_size=2), min_size=1, max_size=2))
    return " | ".join(" & ".join(group) for group in groups)


scalar_patterns = st.one_of(
    scalar_texts(), st.none(), st.booleans(), st.integers(-2, 100), st.sampled_from((0.0, 1.5, 7.0))
)


@st.composite
def patterns_for(draw: st.DrawFn, value: Any, depth: int = 0) -> Any:
    """A pattern that fits the shape of a value: some of its keys, some anchored, leaves equal or near, now and then
    off.
    """
    odd = draw(st.integers(0, 19)) == 0
    if isinstance(value, dict) and not odd:
        chosen = draw(st.lists(st.sampled_from(sorted(value)), unique=True, max_size=3)) if value else []
        made: dict[str, Any] = {}
        for key in chosen:
            inner = draw(patterns_for(value[key], depth + 1))
            anchor = draw(st.sampled_from(ANCHORS)) if draw(st.booleans()) else ""
            if anchor == "^(" and not (isinstance(inner, list) and inner and isinstance(inner[0], dict)):
                anchor = "=("
            made[f"{anchor}{key})" if anchor else key] = inner
        if draw(st.integers(0, 5)) == 0:
            key = draw(st.sampled_from(("absent", "name", "labels", "image")))
            anchor = draw(st.sampled_from(("", "=(", "X(", "(")))
            made[f"{anchor}{key})" if anchor else key] = draw(scalar_patterns)
        return made
    if isinstance(value, list) and value and not odd:
        if isinstance(value[0], dict):
            return [draw(patterns_for(e, depth + 1)) for e in value[: draw(st.integers(1, 2))] if isinstance(e, dict)]
        if draw(st.booleans()):
            return draw(scalar_patterns)
        return [draw(scalar_patterns)]
    if isinstance(value, (dict, list)) and not odd:
        return draw(st.sampled_from(("?*", "*")))
    return (
        draw(st.one_of(st.just(value), scalar_patterns))
        if not isinstance(value, (dict, list))
        else draw(scalar_patterns)
    )


@st.composite
def merge_patches_for(draw: st.DrawFn, value: Any, depth: int = 0) -> Any:
    """A strategic merge patch that fits the shape of a value, with condition and addition anchors."""
    if isinstance(value, dict) and value:
        made: dict[str, Any] = {}
        for key in draw(st.lists(st.sampled_from(sorted(value)), unique=True, max_size=3)):
            if depth == 0 and key in ("apiVersion", "kind"):
                continue
            anchor = draw(st.sampled_from(_MERGE_ANCHORS))
            if anchor in ("(", "<("):
                inner = draw(st.one_of(st.just("*"), st.just(value[key]), patterns_for(value[key])))
            else:
                inner = draw(merge_patches_for(value[key], depth + 1))
            made[f"{anchor}{key})" if anchor else key] = inner
        for key in draw(st.lists(st.sampled_from(("extra", "more", "flag")), unique=True, max_size=1)):
            made[draw(st.sampled_from((key, f"+({key})")))] = draw(res.scalars)
        return made
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [draw(merge_patches_for(e, depth + 1)) for e in value[: draw(st.integers(1, 2))] if isinstance(e, dict)]
    return draw(st.one_of(st.just(value), res.scalars))


@st.composite
def _anchored_keys(draw: st.DrawFn) -> str:
    key = draw(res.keys)
    anchor = draw(st.sampled_from((*ANCHORS, "+(", "")))
    return f"{anchor}{key})" if anchor else key


patterns = st.recursive(
    st.one_of(scalar_patterns, st.text(max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_anchored_keys(), inner, max_size=3)),
    max_leaves=8,
)
"""Any JSON value with anchors here and there: the untyped twin."""
