"""URLs as the API server's ``url`` library reads them: the rules and words of Go's ``net/url``.

A text must be an absolute URI or an absolute path (``ParseRequestURI``); Python's :mod:`urllib.parse` takes nearly any
text. Escapes may stand for any byte, so that everything here works on the bytes of a text, each as one character
(Latin-1), and becomes text again where an expression sees it. Also called by the formats (``vm.cel.k8s_format``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from string import ascii_letters, digits, hexdigits
from typing import ClassVar, Final

from vm.cel.go_quote import go_quote
from vm.cel.k8s_addresses import refusal
from vm.cel.values import no_overload
from vm.values import Err, Value

_PLAIN: Final = ascii_letters + digits + "-._~"
_PATH: Final = frozenset(_PLAIN + "$&+,/:;=@")
_HOST: Final = frozenset(_PLAIN + "!$&'()*+,;=:[]<>\"")
_USER: Final = frozenset(_PLAIN + "$&+,;=")
_FRAGMENT: Final = frozenset(_PLAIN + "!$&()*+,/:;=?@")
_KEPT_IN_PATH: Final = _PATH | frozenset("!'()*[]%")
_KEPT_IN_FRAGMENT: Final = _FRAGMENT | frozenset("'[]%")
_IN_USERINFO: Final = frozenset(ascii_letters + digits + "-._:~!$&'()*+,;=%@")
_HEX: Final = frozenset(hexdigits)
_ESCAPE: Final = re.compile("%(..)", re.DOTALL)
_PORT: Final = re.compile(r"(?::[0-9]*)?")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_MOST_PARAMETERS: Final = 10000


class _BadUrl(Exception):
    """Why a text is no URL, in Go's words."""


@dataclass(frozen=True, slots=True)
class Url:
    """A URL by its parts; equal to another when both are written the same way (``text``)."""

    CEL_TYPE: ClassVar[str] = "kubernetes.URL"
    text: str
    scheme: str = field(compare=False)
    host: str = field(compare=False)
    path: str = field(compare=False)
    query: str = field(compare=False)


def why_no_request_uri(text: str) -> str:
    """Why Go's ``ParseRequestURI`` refuses a text, empty when it takes it."""
    try:
        _parse(_bytes(text), request=True)
    except _BadUrl as e:
        return f"parse {go_quote(text)}: {e}"
    return ""


def parse(text: str) -> Url | Err:
    """The URL that a text denotes. The check takes a fragment for a part of the path or query, the parts do not: so
    does Kubernetes."""
    why = why_no_request_uri(text)
    address, _, fragment = text.partition("#")
    if not why:
        try:
            return _parse(_bytes(address), request=False, fragment=_bytes(fragment))
        except _BadUrl as e:
            why = f"parse {go_quote(address)}: {e}"
    return Err("argument", f"URL parse error during conversion from string: {why}")


def _parse(raw: str, *, request: bool, fragment: str = "") -> Url:
    if _CONTROL.search(raw):
        raise _BadUrl("net/url: invalid control character in URL")
    if not raw and request:
        raise _BadUrl("empty url")
    if raw == "*":
        return Url("*", "", "", "*", "")
    scheme, rest = _scheme(raw)
    force = rest.endswith("?") and rest.count("?") == 1
    rest, _, query = rest.partition("?")
    user = host = opaque = ""
    has_user = omit_host = False
    if not rest.startswith("/"):
        if scheme:
            opaque, rest = rest, ""
        elif request:
            raise _BadUrl("invalid URI for request")
        elif ":" in rest.partition("/")[0]:
            raise _BadUrl("first path segment in URL cannot contain colon")
    if (scheme or (not request and not rest.startswith("///"))) and rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        user, has_user, host = _authority(scheme, authority)
    elif scheme and rest.startswith("/"):
        omit_host = True
    path = _escaped_path(rest)
    if opaque:
        shown = f"{scheme}:{opaque}"
    else:
        shown = f"{scheme}:" if scheme else ""
        with_host = host or has_user
        if (scheme or with_host) and not (omit_host and not with_host) and (with_host or rest):
            shown += "//" + (f"{user}@" if has_user else "") + _escaped(host, _HOST)
        if path and path[0] != "/" and host:
            shown += "/"
        if not shown and ":" in path.partition("/")[0]:
            shown = "./"
        shown += path
    if force or query:
        shown += f"?{query}"
    plain = _unescaped(fragment)
    if plain:
        shown += "#" + (fragment if _KEPT_IN_FRAGMENT.issuperset(fragment) else _escaped(plain, _FRAGMENT))
    return Url(_text(shown), scheme, _text(host), _text(path), query)


def _scheme(raw: str) -> tuple[str, str]:
    if raw.startswith(":"):
        raise _BadUrl("missing protocol scheme")
    found = _SCHEME.fullmatch(raw)
    return (found[1].lower(), found[2]) if found else ("", raw)


def _authority(scheme: str, authority: str) -> tuple[str, bool, str]:
    """The user information as it is written again, whether there is any, and the host with its port."""
    userinfo, at, address = authority.rpartition("@")
    host = _host(scheme, address)
    if not at:
        return "", False, host
    if not _IN_USERINFO.issuperset(userinfo):
        raise _BadUrl("net/url: invalid userinfo")
    name, colon, password = userinfo.partition(":")
    name, password = _unescaped(name), _unescaped(password)
    return _escaped(name, _USER) + (colon and ":" + _escaped(password, _USER)), True, host


def _host(scheme: str, host: str) -> str:
    opened = host.rfind("[")
    if opened > 0:
        raise _BadUrl("invalid IP-literal")
    if opened == 0:
        return _literal_host(host)
    colon = host.find(":")
    if colon >= 0 and scheme not in ("http", "https"):
        colon = host.rfind(":")
    if colon >= 0:
        _check_port(host[colon:])
    return _unescaped(host, host=True)


def _literal_host(host: str) -> str:
    closed = host.rfind("]")
    if closed < 0:
        raise _BadUrl("missing ']' in host")
    port = host[closed + 1 :]
    _check_port(port)
    name = host[1:closed]
    zone = name.find("%25")
    if zone >= 0:
        name = _unescaped(name[:zone], host=True) + _unescaped(name[zone:], zone=True)
    else:
        name = _unescaped(name, host=True)
    why = refusal(_text(name))
    if why:
        raise _BadUrl(f"invalid host: {why}")
    if ":" not in name:
        raise _BadUrl("invalid IP-literal")
    return f"[{name}]{port}"


def _check_port(port: str) -> None:
    if _PORT.fullmatch(port) is None:
        raise _BadUrl(f"invalid port {go_quote(_text(port))} after host")


def _unescaped(s: str, *, host: bool = False, zone: bool = False) -> str:
    """``%41`` as the byte it stands for. A host may escape bytes of other characters than ASCII only, a zone none that
    a host may not have."""
    i = 0
    while i < len(s):
        if s[i] == "%":
            escape = s[i : i + 3]
            if len(escape) < 3 or not _HEX.issuperset(escape[1:]):
                raise _BadUrl(f"invalid URL escape {go_quote(_text(escape))}")
            byte = int(escape[1:], 16)
            bad_in_host = host and byte < 0x80
            bad_in_zone = zone and byte != 0x20 and chr(byte) not in _HOST
            if escape != "%25" and (bad_in_host or bad_in_zone):
                raise _BadUrl(f"invalid URL escape {go_quote(escape)}")
            i += 3
        else:
            if (host or zone) and s[i] < "\x80" and s[i] not in _HOST:
                raise _BadUrl(f"invalid character {go_quote(s[i])} in host name")
            i += 1
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)), s)


def _escaped(s: str, kept: frozenset[str]) -> str:
    return "".join(c if c in kept else f"%{ord(c):02X}" for c in s)


def _escaped_path(raw: str) -> str:
    """As it was written where that is a path, else with what has to be escaped."""
    path = _unescaped(raw)
    if _KEPT_IN_PATH.issuperset(raw):
        return raw
    return _escaped(path, _PATH)


def _bytes(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("latin-1")


def _text(s: str) -> str:
    return s if s.isascii() else s.encode("latin-1").decode("utf-8", "replace")


def _host_and_port(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    if not colon or any(c not in digits for c in port):
        name, port = host, ""
    return name[1:-1] if name.startswith("[") and name.endswith("]") else name, port


def url(text: Value) -> Value:
    """``url(text)``."""
    return parse(text) if type(text) is str else no_overload("url", text)


def is_url(text: Value) -> Value:
    """``isURL(text)``."""
    return not why_no_request_uri(text) if type(text) is str else no_overload("isURL", text)


def get_scheme(u: Value) -> Value:
    """``u.getScheme()``: in small letters, empty for a path."""
    return u.scheme if type(u) is Url else no_overload("getScheme", u)


def get_host(u: Value) -> Value:
    """``u.getHost()``: with the port, and with brackets around an IPv6 address."""
    return u.host if type(u) is Url else no_overload("getHost", u)


def get_hostname(u: Value) -> Value:
    """``u.getHostname()``: without port and brackets."""
    return _host_and_port(u.host)[0] if type(u) is Url else no_overload("getHostname", u)


def get_port(u: Value) -> Value:
    """``u.getPort()``: the digits, empty without a port."""
    return _host_and_port(u.host)[1] if type(u) is Url else no_overload("getPort", u)


def get_escaped_path(u: Value) -> Value:
    """``u.getEscapedPath()``."""
    return u.path if type(u) is Url else no_overload("getEscapedPath", u)


def get_query(u: Value) -> Value:
    """``u.getQuery()``: the values of each parameter. A part with a semicolon or a bad escape is left out, and a query
    of more than 10000 parameters gives none."""
    if type(u) is not Url:
        return no_overload("getQuery", u)
    found: dict[str, list[str]] = {}
    if u.query.count("&") >= _MOST_PARAMETERS:
        return found
    for part in u.query.split("&"):
        if not part or ";" in part:
            continue
        name, _, value = part.replace("+", " ").partition("=")
        try:
            found.setdefault(_text(_unescaped(name)), []).append(_text(_unescaped(value)))
        except _BadUrl:
            continue
    return {name: values for name, values in found.items() if values}
