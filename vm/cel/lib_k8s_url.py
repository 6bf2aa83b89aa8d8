"""The table of the API server's ``url`` library (in Kubernetes since CEL is)."""

from __future__ import annotations

from typing import Final

from vm.cel.library import Function, Library, function, method

_U: Final = "kubernetes.URL"
_B: Final = "vm.cel.k8s_url:"


def _part(name: str, body: str, doc: str) -> Function:
    return Function(name, (method(_U, to="string"),), _B + body, doc)


LIBRARY: Final = Library(
    "kubernetes.url",
    1,
    (
        Function(
            "url",
            (function("string", to=_U),),
            _B + "url",
            "the URL that a text denotes: an absolute URI or an absolute path, an error for others",
            fuel=8,
            sized=(0,),
            cost="parse",
        ),
        Function(
            "isURL",
            (function("string", to="bool"),),
            _B + "is_url",
            "whether a text denotes a URL",
            fuel=8,
            sized=(0,),
        ),
        _part("getScheme", "get_scheme", "the scheme in small letters, empty for a path"),
        _part("getHost", "get_host", "the host with its port"),
        _part("getHostname", "get_hostname", "the host without port and brackets"),
        _part("getPort", "get_port", "the port, empty without one"),
        _part("getEscapedPath", "get_escaped_path", "the path as a URL has it"),
        Function(
            "getQuery",
            (method(_U, to="map(string, list(string))"),),
            _B + "get_query",
            "the values of each parameter of the query",
            fuel=8,
        ),
    ),
    "URLs; in Kubernetes since 1.25",
)
