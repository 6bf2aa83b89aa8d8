"""The table of cel-go's ``sets`` extension, which Kubernetes has since 1.29."""

from __future__ import annotations

from typing import Final

from vm.cel.library import Function, Library, function

_RELATION: Final = (function("list(T)", "list(T)", to="bool"),)

LIBRARY: Final = Library(
    "sets",
    1,
    (
        Function(
            "sets.contains",
            _RELATION,
            "vm.cel.lists:contains",
            "whether each element of the second list is in the first",
            fuel=3,
            metered=True,
            cost="pairs",
        ),
        Function(
            "sets.equivalent",
            _RELATION,
            "vm.cel.lists:equivalent",
            "whether each element of either list is in the other",
            fuel=3,
            metered=True,
            cost="pairs_twice",
        ),
        Function(
            "sets.intersects",
            _RELATION,
            "vm.cel.lists:intersects",
            "whether an element is in both lists",
            fuel=3,
            metered=True,
            cost="pairs",
        ),
    ),
    "cel-go's relations of lists taken as sets",
)
