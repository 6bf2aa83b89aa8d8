"""The intrinsics of family ``match`` (attributes of resource filters, semantics §11), read by ``vm.functions``."""

from __future__ import annotations

from typing import Final

from vm.catalogue import Intrinsic

_BODY: Final = "vm.intrinsics.match:"

TABLE: Final[tuple[Intrinsic, ...]] = (
    Intrinsic(
        "match.kinds",
        ("V", "V"),
        "B",
        "vm.intrinsics.kinds:matches_any",
        "group, version, kind and subresource of the request match one of the selectors",
        sized=(1,),
    ),
    Intrinsic("match.operations", ("V", "V"), "B", _BODY + "operations", "the operation is one of those", sized=(1,)),
    Intrinsic(
        "match.names",
        ("V", "V"),
        "B",
        _BODY + "names",
        "the resource's name, or its generateName when it has none, matches one of the wildcards",
        sized=(1,),
    ),
    Intrinsic(
        "match.namespaces",
        ("V", "V"),
        "B",
        _BODY + "namespaces",
        "the resource's namespace, of a Namespace its name, matches one of the wildcards",
        sized=(1,),
    ),
    Intrinsic(
        "match.annotations",
        ("V", "V"),
        "B",
        _BODY + "annotated",
        "every wanted annotation is there, wildcards in key and value",
        fuel=4,
        metered=True,
    ),
    Intrinsic(
        "match.selector",
        ("V", "V"),
        "B",
        _BODY + "selector",
        "the resource's labels meet a label selector",
        fuel=4,
        metered=True,
    ),
    Intrinsic(
        "match.own_namespace_selector",
        ("V", "V", "V"),
        "B",
        _BODY + "own_namespace_selector",
        "the labels of the resource's namespace meet a label selector, of a Namespace its own; always where there is "
        "no namespace",
        fuel=4,
        metered=True,
    ),
    Intrinsic("match.groups", ("V", "V"), "B", _BODY + "groups", "the group of the kind is one of those", sized=(1,)),
    Intrinsic(
        "match.plurals", ("V", "V"), "B", _BODY + "plurals", "the kind has usually one of the plurals", sized=(1,)
    ),
    Intrinsic(
        "match.namespace_selector",
        ("V", "V", "V"),
        "B",
        _BODY + "namespace_selector",
        "the labels of the resource's namespace meet a label selector; never for a Namespace",
        fuel=4,
        metered=True,
    ),
    Intrinsic(
        "match.roles",
        ("V", "V"),
        "B",
        _BODY + "roles",
        "some role of the user is one of those, letter by letter",
        sized=(0, 1),
    ),
    Intrinsic(
        "match.subjects",
        ("V", "V"),
        "B",
        _BODY + "subjects",
        "the user is one of the users, groups and service accounts, wildcards in names",
        fuel=4,
        metered=True,
    ),
    Intrinsic(
        "match.describe",
        ("V",),
        "S",
        _BODY + "describe",
        "`Kind/name in namespace ns` of a resource, `Kind/name` without a namespace",
    ),
)
