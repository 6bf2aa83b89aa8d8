"""The intrinsics of family ``text``, read by ``vm.functions``: values as text, and variables in texts."""

from __future__ import annotations

from typing import Final

from vm.catalogue import Intrinsic

_M: Final = "vm.intrinsics.text:"

TABLE: Final[tuple[Intrinsic, ...]] = (
    Intrinsic("text.json", ("V",), "V", _M + "to_json", "compact JSON with sorted keys", 4, (0,)),
    Intrinsic("text.go", ("V",), "S", _M + "go_value", "the value as Go's %v prints it", 4, (0,)),
    Intrinsic(
        "text.resolved",
        ("V", "S", "S", "V"),
        "V",
        _M + "resolved",
        "the value of a variable; an error gets the words of a variable that fails at a path",
    ),
    Intrinsic(
        "text.substitute",
        ("V", "V"),
        "V",
        _M + "substituted",
        "a text after its first pass and the root: further passes while variables are left, then escapes",
        4,
        (0,),
        metered=True,
        dynamic=True,
    ),
    Intrinsic("text.unescape", ("V",), "V", _M + "unescaped", "takes the backslash from escaped variables", 2, (0,)),
    Intrinsic("text.shallow", ("V",), "V", _M + "shallow", "what a shallow variable puts into a longer text", 2, (0,)),
    Intrinsic(
        "text.deep",
        ("V", "V"),
        "V",
        _M + "deep",
        "a list or map that replaced a text, and the root: variables within it are substituted",
        4,
        (0,),
        metered=True,
        dynamic=True,
    ),
    Intrinsic("text.key", ("V", "S"), "V", _M + "as_key", "the text a map key came out as, or the error if it is none"),
)
