"""Owns when the repetitions of a campaign begin: at which hours, on which days. Waits for nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, Sequence, Tuple

from ..errors import SetupError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class Schedule:
    """Hours of a day by the clock of this machine, and days of a week."""

    at: Tuple[time, ...]
    days: Tuple[int, ...]

    @classmethod
    def parse(cls, name: str, at: Any, days: Any) -> Any:
        """The schedule of a plan; None if it names no hour."""
        hours = [re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)", str(one)) for one in _listed(at)]
        if not all(hours):
            raise SetupError("usage", f'{name}: run: at: write hours as in at = ["02:00", "14:00"]')
        unknown = [str(one) for one in _listed(days) if one not in DAYS]
        if unknown:
            raise SetupError("usage", f"{name}: run: days: {', '.join(unknown)} is unknown; there are {', '.join(DAYS)}")
        if days and not hours:
            raise SetupError("usage", f'{name}: run: days: say the hours, too: at = ["02:00"]')
        found = sorted({time(int(one[1]), int(one[2])) for one in hours if one})
        return cls(tuple(found), tuple(DAYS.index(one) for one in _listed(days)) or tuple(range(7))) if found else None

    def next(self, after: float, count: int = 1) -> float:
        """The time of the first slot after this time, or of the second, and so on. Times are seconds since 1970."""
        day: date = datetime.fromtimestamp(after).date()
        while True:
            if day.weekday() in self.days:
                for hour in self.at:
                    slot = datetime.combine(day, hour).timestamp()
                    count -= slot > after
                    if count <= 0 and slot > after:
                        return slot
            day += timedelta(days=1)


def duration(name: str, given: Any) -> float:
    """Seconds of a time such as `10min` or `7d`, or of a number of seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h|d)?", str(given))
    if not match:
        raise SetupError("usage", f"{name}: run: within: {given!r} is no time: write for example 10min or 7d")
    return float(match[1]) * _UNITS[match[2] or "s"]


def duration_text(seconds: float) -> str:
    """A time for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * 86400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"


def _listed(given: Any) -> Sequence[Any]:
    return [given] if isinstance(given, str) else list(given)
