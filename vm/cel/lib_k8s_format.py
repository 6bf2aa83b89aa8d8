"""The table of the API server's ``format`` library (Kubernetes 1.31)."""

from __future__ import annotations

from typing import Final

from vm.cel.library import Function, Library, function, method

_F: Final = "kubernetes.NamedFormat"
_B: Final = "vm.cel.k8s_format:"

_KINDS: Final = (
    ("dns1123Label", "dns1123_label", "a label of RFC 1123: the name of a namespace"),
    ("dns1123Subdomain", "dns1123_subdomain", "a subdomain of RFC 1123: the name of most objects"),
    ("dns1035Label", "dns1035_label", "a label of RFC 1035: the name of a service"),
    ("qualifiedName", "qualified_name", "the key of a label or annotation"),
    ("dns1123LabelPrefix", "dns1123_label_prefix", "the beginning of a label of RFC 1123"),
    ("dns1123SubdomainPrefix", "dns1123_subdomain_prefix", "the beginning of a subdomain of RFC 1123"),
    ("dns1035LabelPrefix", "dns1035_label_prefix", "the beginning of a label of RFC 1035"),
    ("labelValue", "label_value", "the value of a label"),
    ("uri", "uri", "an absolute URI or an absolute path"),
    ("uuid", "uuid", "a UUID, with or without dashes"),
    ("byte", "byte", "Base64"),
    ("date", "date", "a full-date of RFC 3339"),
    ("datetime", "datetime", "a date-time of RFC 3339"),
)

LIBRARY: Final = Library(
    "kubernetes.format",
    1,
    (
        Function(
            "format.named",
            (function("string", to=f"optional_type({_F})"),),
            _B + "named",
            "the format of that name, none without one",
        ),
        Function(
            "validate",
            (method(_F, "string", to="optional_type(list(string))"),),
            _B + "validate",
            "none for a text of the format, else what is wrong with it",
            fuel=8,
            sized=(1,),
            cost="format",
        ),
        *(Function(f"format.{name}", (function(to=_F),), f"{_B}{body}_format", doc) for name, body, doc in _KINDS),
    ),
    "named formats of texts; in Kubernetes since 1.31",
)
