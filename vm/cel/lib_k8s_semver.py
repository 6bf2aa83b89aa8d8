"""The table of the API server's ``semver`` library, version 1 (Kubernetes 1.33)."""

from __future__ import annotations

from typing import Final

from vm.cel.library import Function, Library, function, method

_V: Final = "kubernetes.Semver"
_B: Final = "vm.cel.k8s_semver:"
_C: Final = "vm.cel.k8s_compare:"

LIBRARY: Final = Library(
    "kubernetes.semver",
    1,
    (
        Function(
            "semver",
            (function("string", to=_V),),
            _B + "semver",
            "the semantic version that a text denotes, an error for none",
            sized=(0,),
            cost="parse",
        ),
        Function(
            "semver",
            (function("string", "bool", to=_V),),
            _B + "semver_normalize",
            "with true also of `v1.2` and `01.2.3`: without a leading v and zeros, numbers left out are 0",
            sized=(0,),
            cost="parse",
        ),
        Function(
            "isSemver",
            (function("string", to="bool"),),
            _B + "is_semver",
            "whether a text denotes a semantic version",
            sized=(0,),
            cost="parse",
        ),
        Function(
            "isSemver",
            (function("string", "bool", to="bool"),),
            _B + "is_semver_normalize",
            "with true also of texts that `semver(text, true)` reads",
            sized=(0,),
            cost="parse",
        ),
        Function("major", (method(_V, to="int"),), _B + "major", "the first number"),
        Function("minor", (method(_V, to="int"),), _B + "minor", "the second number"),
        Function("patch", (method(_V, to="int"),), _B + "patch", "the third number"),
        Function("isGreaterThan", (method(_V, _V, to="bool"),), _C + "is_greater_than", "whether it is the later"),
        Function("isLessThan", (method(_V, _V, to="bool"),), _C + "is_less_than", "whether it is the earlier"),
        Function("compareTo", (method(_V, _V, to="int"),), _C + "compare_to", "-1, 0 or 1"),
    ),
    "semantic versions; in Kubernetes since 1.33",
)
