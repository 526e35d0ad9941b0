"""Owns what the reports of a run tell of its path: the sockets, the losses, the round trip, and each channel. Judges nothing."""

from __future__ import annotations

import statistics
from typing import Any, Dict, List, Mapping, Sequence

from ..api.schemas import JobReport

_PATH = (
    "network_busy",
    "network_window_limited",
    "network_buffer_limited",
    "network_resent",
    "network_round_trip_seconds",
    "network_round_trip_least_seconds",
)


def path(reports: Sequence[JobReport]) -> Dict[str, float]:
    """The medians of the figures of the path, without the first sample, which has the start of the streams. Zeros count."""
    samples = [sample.get("stages", {}) for report in reports for sample in (report["samples"][1:] or report["samples"])]
    samples = [one for one in samples if any(name in one for name in _PATH)]
    return {name: statistics.median(one.get(name, 0.0) for one in samples) for name in _PATH} if samples else {}


def findings(reports: Sequence[JobReport]) -> List[str]:
    """The findings of the jobs, for people."""
    found = []
    for report in reports:
        finding = (report["job"].get("summary") or {}).get("bottleneck_evidence")
        if isinstance(finding, dict) and finding.get("figure"):
            found.append(str(finding["figure"]))
    return found


def channels(reports: Sequence[JobReport]) -> List[Dict[str, Any]]:
    """Each channel with the median of its rates, by its name. Empty if there is one channel."""
    rates: Dict[str, List[float]] = {}
    for report in reports:
        for line in report["time_line"]:
            event: Mapping[str, Any] = line["event"]
            if event.get("event") == "channels":
                for one in event.get("channels") or ():
                    rates.setdefault(str(one["name"]), []).append(float(one.get("bytes_per_second") or 0.0))
    # A channel that has no rate yet tells nothing.
    known = {name: [rate for rate in found if rate > 0] for name, found in rates.items()}
    rows = [{"name": name, "bytes_per_second": statistics.median(found or [0.0])} for name, found in sorted(known.items())]
    return rows if len(rows) > 1 else []
