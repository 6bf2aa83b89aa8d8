"""The named formats of Kubernetes (``format.dns1123Label()`` …) and their messages: the API server's ``format``
library, and what makes a valid name of a namespace or service account."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import ClassVar, Final

from vm.cel.k8s_url import why_no_request_uri
from vm.cel.values import NONE, Optional, no_overload
from vm.values import Value


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format by the name that Kubernetes gives it; ``key`` is the function that makes it."""

    CEL_TYPE: ClassVar[str] = "kubernetes.NamedFormat"
    key: str


_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"
_ENDS: Final = "and must start and end with an alphanumeric character"
_KEY_WORDS: Final = f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"

_IS_LABEL: Final = re.compile(_LABEL)
_IS_SUBDOMAIN: Final = re.compile(_SUBDOMAIN)
_IS_LABEL_1035: Final = re.compile(_LABEL_1035)
_IS_KEY: Final = re.compile(_KEY)
_IS_VALUE: Final = re.compile(_VALUE)
_IS_UUID: Final = re.compile("[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_IS_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_IS_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_IS_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[^\n][0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")


def _told(words: str, expression: str, *examples: str) -> str:
    """A message with its examples and the expression, in the form of all of Kubernetes' messages."""
    shown = "".join(f"'{x}', " if i == 0 else f" or '{x}', " for i, x in enumerate(examples))
    return f"{words} (e.g. {shown}regex used for validation is '{expression}')"


_LABEL_TOLD: Final = _told(
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_TOLD: Final = _told(
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}",
    _SUBDOMAIN,
    "example.com",
)
_LABEL_1035_TOLD: Final = _told(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_KEY_TOLD: Final = _told(_KEY_WORDS, _KEY, "MyName", "my.name", "123-abc")
_VALUE_TOLD: Final = _told(
    f"a valid label must be an empty string or {_KEY_WORDS[5:]}", _VALUE, "MyValue", "my_value", "12345"
)


def _size(s: str) -> int:
    return len(s) if s.isascii() else len(s.encode("utf-8", "replace"))


def dns1123_label(s: str) -> list[str]:
    """What is wrong with a label of RFC 1123: the name of a namespace."""
    out = [_too_long(63)] if _size(s) > 63 else []
    if _IS_LABEL.fullmatch(s) is None:
        out.append("must not contain dots" if _IS_SUBDOMAIN.fullmatch(s) else _LABEL_TOLD)
    return out


def dns1123_subdomain(s: str) -> list[str]:
    """What is wrong with a subdomain of RFC 1123: the name of most objects."""
    out = [_too_long(253)] if _size(s) > 253 else []
    return out if _IS_SUBDOMAIN.fullmatch(s) else [*out, _SUBDOMAIN_TOLD]


def _dns1035_label(s: str) -> list[str]:
    out = [_too_long(63)] if _size(s) > 63 else []
    return out if _IS_LABEL_1035.fullmatch(s) else [*out, _LABEL_1035_TOLD]


def _too_long(most: int, unit: str = "characters") -> str:
    return f"must be no more than {most} {unit}"


def _qualified_name(s: str) -> list[str]:
    prefix, slash, name = s.partition("/")
    if "/" in name:
        return [
            f"a valid label key {_KEY_TOLD} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    out: list[str] = []
    if not slash:
        name = prefix
    elif not prefix:
        out.append("prefix part must be non-empty")
    else:
        if _size(prefix) > 253:
            out.append(f"prefix part {_too_long(253, 'bytes')}")
        if _IS_SUBDOMAIN.fullmatch(prefix) is None:
            out.append(f"prefix part {_SUBDOMAIN_TOLD}")
    if not name:
        out.append("name part must be non-empty")
    elif _size(name) > 63:
        out.append(f"name part {_too_long(63, 'bytes')}")
    return out if _IS_KEY.fullmatch(name) else [*out, f"name part {_KEY_TOLD}"]


def _label_value(s: str) -> list[str]:
    out = [_too_long(63, "bytes")] if _size(s) > 63 else []
    return out if _IS_VALUE.fullmatch(s) else [*out, _VALUE_TOLD]


def _prefix(of: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """A name that something is added to: it may end in a dash. Kubernetes replaces its last two characters."""
    return lambda s: of(f"{s[:-2]}a" if len(s) > 1 and s.endswith("-") else s)


def _uri(s: str) -> list[str]:
    why = why_no_request_uri(s)
    return [why] if why else []


def _one(good: Callable[[str], bool], words: str) -> Callable[[str], list[str]]:
    return lambda s: [] if good(s) else [words]


def _is_date(s: str) -> bool:
    found = _IS_DATE.fullmatch(s)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    try:
        date(year or 400, month, day)  # Go has a year 0, which is a leap year
    except ValueError:
        return False
    return True


def _is_datetime(s: str) -> bool:
    parts = s.lower().split("t")
    if len(parts) < 2 or not _is_date(parts[0]):
        return False
    found = _IS_TIME.fullmatch(parts[1])
    return found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


_FORMATS: Final[dict[str, tuple[Callable[[str], list[str]], int]]] = {
    "dns1123Label": (dns1123_label, 30),
    "dns1123Subdomain": (dns1123_subdomain, 60),
    "dns1035Label": (_dns1035_label, 30),
    "qualifiedName": (_qualified_name, 60),
    "dns1123LabelPrefix": (_prefix(dns1123_label), 30),
    "dns1123SubdomainPrefix": (_prefix(dns1123_subdomain), 60),
    "dns1035LabelPrefix": (_prefix(_dns1035_label), 30),
    "labelValue": (_label_value, 40),
    "uri": (_uri, 1103),
    "uuid": (_one(lambda s: _IS_UUID.fullmatch(s) is not None, "does not match the UUID format"), 70),
    "byte": (_one(lambda s: _IS_BASE64.fullmatch(s) is not None, "invalid base64"), 84),
    "date": (_one(_is_date, "invalid date"), 71),
    "datetime": (_one(_is_datetime, "invalid datetime"), 71),
}
"""Each format with its check and the length of the expression that Kubernetes reckons its cost by."""

_MADE: Final = {key: NamedFormat(key) for key in _FORMATS}


def expression_length(f: NamedFormat) -> int:
    """The length of the expression that Kubernetes reckons a format's cost by."""
    return _FORMATS[f.key][1]


def named(name: Value) -> Value:
    """``format.named(name)``: an optional format."""
    if type(name) is str:
        found = _MADE.get(name)
        return Optional(found) if found is not None else NONE
    return no_overload("format.named", name)


def validate(f: Value, text: Value) -> Value:
    """``format.validate(text)``: the optional list of what is wrong."""
    if type(f) is NamedFormat and type(text) is str:
        found = _FORMATS[f.key][0](text)
        return Optional(found) if found else NONE
    return no_overload("validate", f, text)


def dns1123_label_format() -> Value:
    return _MADE["dns1123Label"]


def dns1123_subdomain_format() -> Value:
    return _MADE["dns1123Subdomain"]


def dns1035_label_format() -> Value:
    return _MADE["dns1035Label"]


def qualified_name_format() -> Value:
    return _MADE["qualifiedName"]


def dns1123_label_prefix_format() -> Value:
    return _MADE["dns1123LabelPrefix"]


def dns1123_subdomain_prefix_format() -> Value:
    return _MADE["dns1123SubdomainPrefix"]


def dns1035_label_prefix_format() -> Value:
    return _MADE["dns1035LabelPrefix"]


def label_value_format() -> Value:
    return _MADE["labelValue"]


def uri_format() -> Value:
    return _MADE["uri"]


def uuid_format() -> Value:
    return _MADE["uuid"]


def byte_format() -> Value:
    return _MADE["byte"]


def date_format() -> Value:
    return _MADE["date"]


def datetime_format() -> Value:
    return _MADE["datetime"]
