"""Times of queries: RFC 3339, seconds since 1970, and the layouts of Go (features table i)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from tests.reference.arithmetic import Refusal, duration_text
from tests.reference.scalars import duration

_RFC = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:[.,](\d+))?(Z|[-+]\d\d:\d\d)", re.ASCII)
_LAYOUT = (
    ("January", "%B"),
    ("Monday", "%A"),
    ("2006", "%Y"),
    ("Jan", "%b"),
    ("Mon", "%a"),
    ("MST", "%Z"),
    ("-07:00", "%z"),
    ("Z07:00", "%z"),
    ("-0700", "%z"),
    ("01", "%m"),
    ("02", "%d"),
    ("_2", "%d"),
    ("15", "%H"),
    ("03", "%I"),
    ("04", "%M"),
    ("05", "%S"),
    ("06", "%y"),
    ("PM", "%p"),
)
_START = datetime(1, 1, 1, tzinfo=UTC)


def read(text: str) -> datetime:
    found = _RFC.fullmatch(text)
    if not found:
        raise Refusal(f"{text} is no time")
    zone = "+00:00" if found[4] == "Z" else found[4]
    try:
        return datetime.fromisoformat(f"{found[1]}T{found[2]}.{(found[3] or '0')[:6].ljust(6, '0')}{zone}")
    except ValueError as error:
        raise Refusal(str(error)) from None


def written(when: datetime) -> str:
    text = when.replace(microsecond=0).isoformat()
    return text[:-6] + "Z" if text.endswith("+00:00") else text


def _by_layout(layout: str, text: str) -> datetime:
    if not layout:
        return read(text)
    form = layout.replace("%", "%%")
    for go, here in _LAYOUT:
        form = form.replace(go, here)
    try:
        found = datetime.strptime(text, form)
    except ValueError as error:
        raise Refusal(str(error)) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _span(text: str) -> int:
    found = duration(text)
    if found is None:
        raise Refusal(f"{text} is no duration")
    return found


def _between(start: datetime, end: datetime) -> int:
    gap = end - start
    return (gap.days * 86400 + gap.seconds) * 10**9 + gap.microseconds * 1000


def now() -> str:
    return written(datetime.now(UTC))


def since(layout: str, start: str, end: str) -> str:
    first = _by_layout(layout, start)
    return duration_text(_between(first, _by_layout(layout, end) if end else datetime.now(UTC)))


def _moved(when: datetime, nanoseconds: int) -> datetime:
    try:
        return when + timedelta(microseconds=nanoseconds // 1000)
    except OverflowError as error:
        raise Refusal(str(error)) from None


def add(when: str, span: str) -> str:
    return written(_moved(read(when), _span(span)))


def parse(layout: str, when: str) -> str:
    if re.fullmatch(r"[-+]?\d+", layout):
        return written(datetime.fromtimestamp(int(when), UTC))
    return written(_by_layout(layout, when))


def cron(when: str) -> str:
    found = read(when)
    return f"{found.minute} {found.hour} {found.day} {found.month} {found.isoweekday() % 7}"


def utc(when: str) -> str:
    return written(read(when).astimezone(UTC))


def truncate(when: str, span: str) -> str:
    found, step = read(when), _span(span)
    if step <= 0:
        return written(found)
    return written(_moved(found, -(_between(_START, found) % step)))
