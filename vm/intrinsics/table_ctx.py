"""The intrinsics of family ``ctx``, read by ``vm.functions``: context entries, and texts formed at run time that name
some."""

from __future__ import annotations

from typing import Final

from vm.catalogue import Intrinsic

_M: Final = "vm.intrinsics.context:"

TABLE: Final[tuple[Intrinsic, ...]] = (
    Intrinsic(
        "ctx.failed",
        ("V", "S"),
        "V",
        _M + "failed",
        "the value; an error as that of a context entry, with a text before its own",
    ),
    Intrinsic("ctx.queried", ("V",), "V", _M + "queried", "the value of a query; an error as the reference words it"),
    Intrinsic(
        "ctx.sized",
        ("V", "S", "B"),
        "V",
        _M + "sized",
        "the value of a context entry of this name, counted against the limit of the context (for good, or while a loop"
        " is at one element)",
        metered=True,
        pure=False,  # adds to what the context of the rule comes to
    ),
    Intrinsic(
        "ctx.again",
        ("V", "V", "L", "L"),
        "V",
        _M + "again",
        "what variables formed at run time come to on the root and context entries, by names and values (MISSING: not"
        " loaded); Err pending names one that must be loaded first",
        4,
        (0,),
        metered=True,
        dynamic=True,
    ),
    Intrinsic(
        "ctx.query",
        ("V", "V", "L", "L"),
        "V",
        _M + "query",
        "the value of a query formed at run time on the same; Err pending names an entry that must be loaded first",
        4,
        (0,),
        metered=True,
        dynamic=True,
    ),
    Intrinsic(
        "ctx.search",
        ("V", "V"),
        "V",
        _M + "search",
        "the value of a query formed at run time on a document",
        4,
        (0,),
        metered=True,
        dynamic=True,
    ),
)
