"""Timestamps and durations of CEL: reading and printing RFC 3339, and the fields of a point in time.

Called by the conversions and as intrinsics. The calendar is the Gregorian one carried on to both sides, since a time
zone may lead out of the years that Python's ``datetime`` holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from vm.cel.values import SECOND, TIME_MAX, TIME_MIN, Duration, Timestamp, no_overload
from vm.intrinsics.duration import parse_duration
from vm.intrinsics.text import go_float
from vm.values import Err, Value

_DAY: Final = 86_400
_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
"""What Go's parser takes for ``time.RFC3339``: one digit will do for the hour, a comma for the point."""
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE: Final = 146_097 * _DAY
"""Seconds of 400 years, after which weekdays and leap years repeat."""
_EARLY: Final = -62_000_000_000
_LATE: Final = 253_000_000_000
_LONGEST_ZONE: Final = 64


def read_timestamp(text: str) -> Timestamp | Err | None:
    """A time in RFC 3339, as Go reads it; None for a text that is none, an error for one outside the years 1 to
    9999."""
    shape = _RFC3339.fullmatch(text)
    if shape is None:
        return None
    year, month, day, hour, minute, second = (int(shape[i]) for i in range(1, 7))
    if not (1 <= month <= 12 and 1 <= day <= _days_in(year, month) and hour < 24 and minute < 60 and second < 60):
        return None
    east, past = int(shape[9] or 0), int(shape[10] or 0)
    if east > 24 or past > 60:
        return None
    offset = (east * 60 + past) * 60 * (-1 if shape[8] == "-" else 1)
    seconds = _days_from(year, month, day) * _DAY + hour * 3600 + minute * 60 + second - offset
    nanos = seconds * SECOND + int((shape[7] or "")[:9].ljust(9, "0"))
    if not TIME_MIN <= nanos <= TIME_MAX:
        return Err("range", "timestamp overflow")
    return Timestamp(nanos, offset)


def rfc3339(t: Timestamp) -> str:
    """A time in RFC 3339 with as many digits of the second as it needs: ``2009-02-13T23:31:30.12Z``."""
    seconds, nanos = divmod(t.nanos, SECOND)
    days, rest = divmod(seconds + t.offset, _DAY)
    year, month, day = _civil(days)
    fraction = "." + f"{nanos:09d}".rstrip("0") if nanos else ""
    zone = "Z"
    if t.offset:
        east, past = divmod(abs(t.offset) // 60, 60)
        zone = f"{'-' if t.offset < 0 else '+'}{east:02d}:{past:02d}"
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{year:04d}-{month:02d}-{day:02d}T{clock}{fraction}{zone}"


def read_duration(text: str) -> Duration | None:
    """A duration in Go's form (``1h30m``, ``1.5s``); None for a text that is none, that does not fit 64 bits of
    nanoseconds or that is longer than 256 characters."""
    nanos = parse_duration(text)
    return None if nanos is None else Duration(nanos)


def duration_text(d: Duration) -> str:
    """The seconds of a duration as cel-go prints them, in double precision: ``5400s``, ``1.5s``, ``-0.000000001s``."""
    whole, rest = divmod(abs(d.nanos), SECOND)
    seconds = float(whole) + float(rest) / 1e9
    return f"{go_float(-seconds if d.nanos < 0 else seconds, 'f')}s"


def _days_in(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _days_from(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date. Years are counted from March, so that the leap day is the last of its year."""
    if month <= 2:
        year -= 1
    past = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return 365 * year + year // 4 - year // 100 + year // 400 + past - 719_468


def _civil(days: int) -> tuple[int, int, int]:
    """The date that lies so many days after 1970-01-01."""
    cycle, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    past = day - (365 * year + year // 4 - year // 100)
    month = (5 * past + 2) // 153
    return (
        cycle * 400 + year + (month >= 10),
        month + 3 if month < 10 else month - 9,
        past - (153 * month + 2) // 5 + 1,
    )


def _offset(zone: str, seconds: int) -> int | Err:
    """Seconds east of UTC that a zone has at a time: a name (``Europe/Berlin``) or hours and minutes (``-05:30``)."""
    hours, colon, minutes = zone.partition(":")
    if not colon:
        rules = _zone(zone)
        if rules is None:
            return _unknown(zone)
        cycles = 1 if seconds < _EARLY else -1 if seconds > _LATE else 0
        local = (_EPOCH + timedelta(seconds=seconds + cycles * _CYCLE)).astimezone(rules).utcoffset()
        return 0 if local is None else local.days * _DAY + local.seconds
    for part in (hours, minutes):
        if _NUMBER.fullmatch(part) is None:
            return Err("argument", f"strconv.Atoi: parsing {json.dumps(part[:64], ensure_ascii=False)}: invalid syntax")
    past = int(minutes)
    return (int(hours) * 60 + (-past if zone[0] == "-" else past)) * 60


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo | None:
    if len(name) > _LONGEST_ZONE or name.startswith(("/", "\\")) or ".." in name:
        return None
    try:
        return ZoneInfo(name if name not in ("", "Local") else "UTC")
    except (OSError, ValueError, KeyError):
        return None


def _unknown(name: str) -> Err:
    if name.startswith(("/", "\\")) or ".." in name:
        return Err("argument", "time: invalid location name")
    return Err("argument", f"unknown time zone {name[:_LONGEST_ZONE]}")


def _local_seconds(name: str, t: Value, zone: Value) -> int | Err:
    if type(t) is not Timestamp or type(zone) is not str:
        return no_overload(name, t, zone)
    seconds: int = t.nanos // SECOND
    east = _offset(zone, seconds)
    return east if isinstance(east, Err) else seconds + east


# The fields: each of a count of seconds since 1970, local to the zone asked for.


def _year(s: int) -> int:
    return _civil(s // _DAY)[0]


def _month(s: int) -> int:
    return _civil(s // _DAY)[1] - 1


def _date(s: int) -> int:
    return _civil(s // _DAY)[2]


def _day_of_month(s: int) -> int:
    return _civil(s // _DAY)[2] - 1


def _day_of_week(s: int) -> int:
    return (s // _DAY + 4) % 7


def _day_of_year(s: int) -> int:
    days = s // _DAY
    return days - _days_from(_civil(days)[0], 1, 1)


def _hours(s: int) -> int:
    return s // 3600 % 24


def _minutes(s: int) -> int:
    return s // 60 % 60


def _seconds(s: int) -> int:
    return s % 60


def _in_utc(name: str, field: Callable[[int], int]) -> Callable[[Value], Value]:
    def body(t: Value) -> Value:
        return field(t.nanos // SECOND) if type(t) is Timestamp else no_overload(name, t)

    return body


def _of_either(name: str, field: Callable[[int], int], span: int) -> Callable[[Value], Value]:
    """A field of a timestamp in UTC, or a whole duration in units of ``span`` nanoseconds, cut towards zero."""

    def body(t: Value) -> Value:
        if type(t) is Timestamp:
            return field(t.nanos // SECOND)
        if type(t) is Duration:
            return t.nanos // span if t.nanos >= 0 else -(-t.nanos // span)
        return no_overload(name, t)

    return body


def _in_zone(name: str, field: Callable[[int], int]) -> Callable[[Value, Value], Value]:
    def body(t: Value, zone: Value) -> Value:
        seconds = _local_seconds(name, t, zone)
        return seconds if isinstance(seconds, Err) else field(seconds)

    return body


full_year: Final = _in_utc("getFullYear", _year)
full_year_in: Final = _in_zone("getFullYear", _year)
month: Final = _in_utc("getMonth", _month)
month_in: Final = _in_zone("getMonth", _month)
date: Final = _in_utc("getDate", _date)
date_in: Final = _in_zone("getDate", _date)
day_of_month: Final = _in_utc("getDayOfMonth", _day_of_month)
day_of_month_in: Final = _in_zone("getDayOfMonth", _day_of_month)
day_of_week: Final = _in_utc("getDayOfWeek", _day_of_week)
day_of_week_in: Final = _in_zone("getDayOfWeek", _day_of_week)
day_of_year: Final = _in_utc("getDayOfYear", _day_of_year)
day_of_year_in: Final = _in_zone("getDayOfYear", _day_of_year)
hours: Final = _of_either("getHours", _hours, 3600 * SECOND)
hours_in: Final = _in_zone("getHours", _hours)
minutes: Final = _of_either("getMinutes", _minutes, 60 * SECOND)
minutes_in: Final = _in_zone("getMinutes", _minutes)
seconds: Final = _of_either("getSeconds", _seconds, SECOND)
seconds_in: Final = _in_zone("getSeconds", _seconds)


def milliseconds(t: Value) -> Value:
    """``getMilliseconds``: of the second of a timestamp, of the whole of a duration."""
    if type(t) is Timestamp:
        return t.nanos % SECOND // 1_000_000
    if type(t) is Duration:
        return t.nanos // 1_000_000 if t.nanos >= 0 else -(-t.nanos // 1_000_000)
    return no_overload("getMilliseconds", t)


def milliseconds_in(t: Value, zone: Value) -> Value:
    """``getMilliseconds(zone)``: no zone differs by parts of a second, but the zone must be one."""
    found = _local_seconds("getMilliseconds", t, zone)
    return found if isinstance(found, Err) else t.nanos % SECOND // 1_000_000
