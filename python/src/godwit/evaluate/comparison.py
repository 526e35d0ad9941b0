"""Owns the comparison of two folders of results, or of two settings in one. Decides by `stats`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

from ..errors import SetupError
from . import stats
from .results import Results

# The figures that are compared, and whether more is better.
FIGURES = {"bytes_per_second": True, "seconds": False}


class Row(NamedTuple):
    """One verdict."""

    setting: str
    figure: str
    verdict: stats.Verdict


def folders(a: Path, b: Path, figure: str) -> List[Row]:
    """Each setting that both folders have."""
    first, second = (stats.by_setting(Results(one).runs(), figure) for one in (a, b))
    shared = [setting for setting in first if setting in second]
    if not shared:
        raise SetupError("usage", f"{a} and {b} have no setting in common")
    return [Row(name, figure, _compare(first[name], second[name], figure)) for name in shared]


def settings(folder: Path, a: str, b: str, figure: str) -> List[Row]:
    """Two settings of one evaluation, by their pairs. Each is named by a part that only one side of each pair has."""
    found = stats.by_setting(Results(folder).runs(), figure)
    rows = []
    for name, values in found.items():
        other = " ".join(b if word == a else word for word in name.split(" "))
        if other != name and other in found:
            verdict = _compare(values, found[other], figure, is_paired=True)
            rows.append(Row(f"{name} against {other}", figure, verdict))
    if not rows:
        raise SetupError("usage", f"{folder}: no two settings differ by {a} and {b} alone; there are: {'; '.join(found)}")
    return rows


def text(rows: List[Row]) -> str:
    """The verdicts for people."""
    lines = []
    for row in rows:
        one = row.verdict
        if not one.has_enough:
            kind = "pairs" if one.needed == stats.FEWEST_PAIRS else "of each"
            said = f"undecided: {one.count[0]} and {one.count[1]} runs, and at least {one.needed} {kind} are needed"
        else:
            said = (
                f"{one.word}: ratio {one.ratio:.3f} ({one.low:.3f} to {one.high:.3f}), p {one.p:.4f}, "
                f"effect {one.effect:+.2f}, n {one.count[0]} and {one.count[1]}"
            )
        lines.append(f"{row.setting}, {row.figure}: {said}")
    return "\n".join(lines)


def document(rows: List[Row]) -> str:
    """The verdicts for programs."""
    made: List[Dict[str, Any]] = [{"setting": row.setting, "figure": row.figure, **row.verdict.__dict__} for row in rows]
    return json.dumps(made, indent=1)


def _compare(a: Dict[int, float], b: Dict[int, float], figure: str, is_paired: bool = False) -> stats.Verdict:
    return stats.compare(a, b, is_paired=is_paired, larger_is_better=FIGURES[figure])


def split(given: Optional[str]) -> List[str]:
    """The two settings in `A,B`."""
    words = (given or "").split(",")
    if len(words) != 2 or not all(words):
        raise SetupError("usage", "--settings: write two words of the names of settings, as in --settings tls,none")
    return words
