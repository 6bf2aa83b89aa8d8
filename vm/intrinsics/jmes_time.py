"""Time functions of the policy dialect: RFC 3339 in and out, Go layouts where a function takes one."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

from vm.intrinsics.duration import format_duration, parse_duration
from vm.intrinsics.jmes_errors import not_texts, wrong_value
from vm.values import Err, Value

_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_EPOCH: Final = datetime(1, 1, 1, tzinfo=UTC)
_LONG_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_LONG_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = tuple(m[:3] for m in _LONG_MONTHS)
_DAYS: Final = tuple(d[:3] for d in _LONG_DAYS)

# Elements of a Go layout, longest first, with the pattern they read.
_ELEMENTS: Final = (
    ("January", f"(?P<month_long>{'|'.join(_LONG_MONTHS)})"),
    ("Monday", f"(?:{'|'.join(_LONG_DAYS)})"),
    ("-07:00:00", r"(?P<zone>[+-]\d\d:\d\d:\d\d)"),
    ("Z07:00", r"(?P<zone>Z|[+-]\d\d:\d\d)"),
    ("-07:00", r"(?P<zone>[+-]\d\d:\d\d)"),
    ("Z0700", r"(?P<zone>Z|[+-]\d{4})"),
    ("-0700", r"(?P<zone>[+-]\d{4})"),
    ("2006", r"(?P<year>\d{4})"),
    ("MST", r"(?P<name>[A-Z]{3,4}|[+-]\d\d)"),
    ("Jan", f"(?P<month_short>{'|'.join(_MONTHS)})"),
    ("Mon", f"(?:{'|'.join(_DAYS)})"),
    ("01", r"(?P<month>\d\d)"),
    ("02", r"(?P<day>\d\d)"),
    ("03", r"(?P<hour12>\d\d)"),
    ("04", r"(?P<minute>\d\d)"),
    ("05", r"(?P<second>\d\d)(?P<fraction>[.,]\d+)?"),
    ("06", r"(?P<year2>\d\d)"),
    ("15", r"(?P<hour>\d\d)"),
    ("_2", r"[ ]?(?P<day>\d{1,2})"),
    ("PM", r"(?P<half>AM|PM)"),
    ("pm", r"(?P<half>am|pm)"),
    ("1", r"(?P<month>\d{1,2})"),
    ("2", r"(?P<day>\d{1,2})"),
    ("3", r"(?P<hour12>\d{1,2})"),
    ("4", r"(?P<minute>\d{1,2})"),
    ("5", r"(?P<second>\d{1,2})(?P<fraction>[.,]\d+)?"),
)


def _nanoseconds(t: datetime) -> int:
    d = t - _EPOCH
    return (d.days * 86_400 + d.seconds) * 10**9 + d.microseconds * 1000


def _read(function: str, text: str) -> datetime | Err:
    """A time in RFC 3339, to the microsecond."""
    shape = _RFC3339.fullmatch(text)
    if shape is None:
        return wrong_value(function, f"{text!r} is no time in RFC 3339")
    try:
        offset = timedelta(hours=int(shape[9] or 0), minutes=int(shape[10] or 0))
        zone = timezone(-offset if shape[8] == "-" else offset)
        micro = int((shape[7] or "0")[:6].ljust(6, "0"))
        y, mo, d, h, mi, s = (int(shape[i]) for i in range(1, 7))
        return datetime(y, mo, d, h, mi, s, micro, zone)
    except (ValueError, OverflowError):
        return wrong_value(function, f"{text!r} is no time in RFC 3339")


def _written(t: datetime) -> str:
    """RFC 3339 without fractions of a second, as Go formats it."""
    offset = t.utcoffset() or timedelta()
    minutes = int(offset.total_seconds()) // 60
    sign = "-" if minutes < 0 else "+"
    zone = "Z" if minutes == 0 else f"{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
    return f"{t.year:04d}-{t.month:02d}-{t.day:02d}T{t.hour:02d}:{t.minute:02d}:{t.second:02d}{zone}"


@lru_cache(maxsize=64)
def _layout(layout: str) -> re.Pattern[str] | None:
    out: list[str] = []
    at = 0
    while at < len(layout):
        for element, pattern in _ELEMENTS:
            if layout.startswith(element, at):
                out.append(pattern)
                at += len(element)
                break
        else:
            out.append(re.escape(layout[at]))
            at += 1
    try:
        return re.compile("".join(out), re.ASCII)
    except re.error:  # an element named twice
        return None


def _by_layout(function: str, layout: str, text: str) -> datetime | Err:
    """A time read by a Go layout; what the layout leaves out is the first of its kind, in UTC."""
    pattern = _layout(layout) if len(layout) <= 200 else None
    found = pattern.fullmatch(text) if pattern is not None and len(text) <= 200 else None
    if found is None:
        return wrong_value(function, f"{text!r} does not follow the layout {layout!r}")
    g = found.groupdict()
    month = int(g.get("month") or 1)
    if g.get("month_long"):
        month = _LONG_MONTHS.index(g["month_long"]) + 1
    if g.get("month_short"):
        month = _MONTHS.index(g["month_short"]) + 1
    year = int(g.get("year") or 1)
    if g.get("year2"):
        short = int(g["year2"])
        year = short + (1900 if short >= 69 else 2000)
    hour = int(g.get("hour") or g.get("hour12") or 0)
    if g.get("half"):
        hour = hour % 12 + (12 if g["half"].upper() == "PM" else 0)
    micro = int((g.get("fraction") or ".0")[1:7].ljust(6, "0"))
    zone: timezone = UTC
    mark = g.get("zone")
    if mark and mark != "Z":
        digits = mark[1:].replace(":", "")
        offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]), seconds=int(digits[4:] or 0))
        zone = timezone(-offset if mark[0] == "-" else offset)
    try:
        return datetime(
            year, month, int(g.get("day") or 1), hour, int(g.get("minute") or 0), int(g.get("second") or 0), micro, zone
        )
    except (ValueError, OverflowError):
        return wrong_value(function, f"{text!r} is out of range")


def _duration(function: str, text: str) -> int | Err:
    ns = parse_duration(text)
    return wrong_value(function, f"{text!r} is no duration") if ns is None else ns


def _times(function: str, *args: Value) -> list[datetime] | Err:
    out: list[datetime] = []
    for a in args:
        if type(a) is not str:
            return not_texts(function, *args)
        t = _read(function, a)
        if isinstance(t, Err):
            return t
        out.append(t)
    return out


def now() -> Value:
    return _written(datetime.now().astimezone())


def now_utc() -> Value:
    return _written(datetime.now(UTC))


def since(layout: Value, start: Value, end: Value) -> Value:
    """``time_since``: the duration from one time to another, to now when that is empty; an empty layout is RFC
    3339."""
    if type(layout) is not str or type(start) is not str or type(end) is not str:
        return not_texts("time_since", layout, start, end)

    def read(text: str) -> datetime | Err:
        return _by_layout("time_since", layout, text) if layout else _read("time_since", text)

    first = read(start)
    last = read(end) if end else datetime.now(UTC)
    if isinstance(first, Err):
        return first
    return last if isinstance(last, Err) else format_duration(_nanoseconds(last) - _nanoseconds(first))


def diff(start: Value, end: Value) -> Value:
    both = _times("time_diff", start, end)
    return both if isinstance(both, Err) else format_duration(_nanoseconds(both[1]) - _nanoseconds(both[0]))


def before(a: Value, b: Value) -> Value:
    both = _times("time_before", a, b)
    return both if isinstance(both, Err) else both[0] < both[1]


def after(a: Value, b: Value) -> Value:
    both = _times("time_after", a, b)
    return both if isinstance(both, Err) else both[0] > both[1]


def between(t: Value, start: Value, end: Value) -> Value:
    three = _times("time_between", t, start, end)
    return three if isinstance(three, Err) else three[1] < three[0] < three[2]


def add(t: Value, duration: Value) -> Value:
    return _shifted("time_add", t, duration, cut=False)


def truncate(t: Value, duration: Value) -> Value:
    return _shifted("time_truncate", t, duration, cut=True)


def _shifted(function: str, t: Value, duration: Value, *, cut: bool) -> Value:
    if type(t) is not str or type(duration) is not str:
        return not_texts(function, t, duration)
    time, ns = _read(function, t), _duration(function, duration)
    if isinstance(time, Err):
        return time
    if isinstance(ns, Err):
        return ns
    if cut:
        ns = -(_nanoseconds(time) % ns) if ns > 0 else 0
    try:
        return _written(time + timedelta(microseconds=ns // 1000))
    except OverflowError:
        return wrong_value(function, "the result is out of range")


def parse(layout: Value, text: Value) -> Value:
    """``time_parse``: a layout that is a number means seconds since 1970."""
    if type(layout) is not str or type(text) is not str:
        return not_texts("time_parse", layout, text)
    if re.fullmatch(r"[+-]?[0-9]{1,18}", layout):
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
            return wrong_value("time_parse", f"{text!r} is no number of seconds")
        try:
            return _written(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(text)))
        except OverflowError:
            return wrong_value("time_parse", f"{text!r} is out of range")
    t = _by_layout("time_parse", layout, text)
    return t if isinstance(t, Err) else _written(t)


def utc(t: Value) -> Value:
    one = _times("time_utc", t)
    return one if isinstance(one, Err) else _written(one[0].astimezone(UTC))


def to_cron(t: Value) -> Value:
    one = _times("time_to_cron", t)
    if isinstance(one, Err):
        return one
    at = one[0]
    return f"{at.minute} {at.hour} {at.day} {at.month} {at.isoweekday() % 7}"
