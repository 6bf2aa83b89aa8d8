"""What the names mean that generated code takes from its globals: all of it follows from the verified module.

A name is a letter and numbers: ``k3`` is constant 3. ``vm.translator`` writes such names and binds them here;
``vm.tier2`` binds those of code objects that were kept, which it has no source of. So both mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from vm.functions import body_of
from vm.host import HOST_CALLS
from vm.leaf_code import inline

if TYPE_CHECKING:
    from vm.verify import VerifiedModule

_FORM: Final = re.compile(r"([krpqvihwe])(\d+)(?:_(\d+))?")
_LITERALS: Final = {"c_None": None, "c_True": True, "c_False": False}


def is_bound(name: str) -> bool:
    """Whether a name is one that :func:`value` knows."""
    return name in _LITERALS or (name[-1:].isdecimal() and _FORM.fullmatch(name) is not None)


def value(m: VerifiedModule, name: str) -> Any:
    """What a name means in the code of a module. Raises ``LookupError`` for one that means nothing there."""
    if name in _LITERALS:
        return _LITERALS[name]
    form = _FORM.fullmatch(name)
    if form is None:
        raise LookupError(name)
    letter, number, part = form.groups()
    return _MEANINGS[letter](m, int(number), int(part or 0), part is not None)


def _path(m: VerifiedModule, n: int, part: int, of_one: bool) -> Any:
    return m.paths[n][part] if of_one else m.paths[n]


def _compared(m: VerifiedModule, n: int, part: int, of_one: bool) -> Any:
    """A constant that a predicate written out compares with."""
    found = inline(m.patterns[n])
    if found is None:
        raise LookupError(f"v{n}_{part}")
    return found.constants[part]


def _searcher(m: VerifiedModule, n: int, part: int, of_one: bool) -> Any:
    from vm.cel.text import searcher  # here: most policies have no use for the library behind it

    return searcher(m.constants[n])


_MEANINGS: Final[dict[str, Callable[[VerifiedModule, int, int, bool], Any]]] = {
    "k": lambda m, n, *_: m.constants[n],
    "r": _path,
    "p": lambda m, n, *_: m.leaf(n),
    "q": lambda m, n, *_: m.scalar(n),
    "v": _compared,
    "i": lambda m, n, *_: body_of(m.intrinsics[n], m.lent)[0],
    "h": lambda m, n, *_: HOST_CALLS[n],
    "w": lambda m, n, *_: frozenset(m.constants[n]),
    "e": _searcher,
}
"""By letter: constants, paths and their keys, predicates and what they compare with, intrinsics, host calls, sets of
the elements of constants, searches for the expressions that constants are."""
