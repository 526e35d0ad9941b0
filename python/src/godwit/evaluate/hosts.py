"""Owns what the samples say of the hosts: means for each setting, and lines over time of some runs. Draws nothing.

The samples are read once, one at a time; what is kept of them is bounded by the settings, not by the runs.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

from . import stats

Runs = Sequence[Mapping[str, Any]]
Points = List[Tuple[float, float]]

# Figures of a whole host, as the report calls them, and their names in the samples.
COUNTED = {
    "context switches": "host_context_switches_per_second",
    "interrupts": "host_interrupts_per_second",
    "softirqs": "host_softirqs_per_second",
    "packets": "packets",
    "segments sent again": "segments_resent",
    "SACK recoveries": "sack_recoveries",
}

# A report has lines over time of at most this many settings.
_SHOWN = 12
_LOOPBACK = "lo"
_OF_JOB = " (job)"

_LABELLED = re.compile(r"(host_\w+?)\{(.*)\}")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_INTERFACE = re.compile(r"host_interface_(.+)_(received|sent)_bytes_per_second")
_CORE = re.compile(r"host_cpu_core_(\d+)")
_SAME = {
    "host_tcp_segments_resent_per_second": "segments_resent",
    "host_segments_resent_per_second": "segments_resent",
    "host_tcp_sack_recoveries_per_second": "sack_recoveries",
    "host_sack_recoveries_per_second": "sack_recoveries",
}


class Hosts:
    """The figures of hosts."""

    def __init__(self, runs: Runs, samples: Iterable[Mapping[str, Any]]) -> None:
        self.shown = shown(runs)
        self._settings = {str(run["key"]): str(run["setting"]) for run in runs if counts(run)}
        self._keys = {str(run["key"]): setting for setting, run in self.shown.items()}
        # Sums and counts by setting, site, figure, and where the figure comes from.
        self._sums: Dict[Tuple[str, str, str], Dict[str, Tuple[float, int]]] = {}
        self._cores: Dict[Tuple[str, str], Dict[str, Dict[float, float]]] = {}
        self._watched_cores: Dict[Tuple[str, str], Dict[str, Dict[float, float]]] = {}
        self._interfaces: Dict[Tuple[str, str], Dict[str, Points]] = {}
        self._lines: Dict[Tuple[str, str], Dict[str, Points]] = {}
        for one in samples:
            self._take(one)

    def sites(self) -> List[str]:
        """All sites of which something is known."""
        return sorted({site for _, site, _ in self._sums} | {site for _, site in (*self._cores, *self._watched_cores)})

    def mean(self, setting: str, site: str, figure: str) -> Any:
        """The mean of a figure over the runs of a setting; None if it was not sampled."""
        found = self._sums.get((setting, site, figure), {})
        watched = {source: one for source, one in found.items() if source}
        # The sum over all interfaces, where each was sampled; else what the node itself added up.
        chosen = watched or found
        return sum(total / count for total, count in chosen.values()) if chosen else None

    def cores(self, setting: str, site: str) -> Dict[str, Points]:
        """How busy each core was in the run of a setting that is shown."""
        found = self._cores.get((setting, site)) or self._watched_cores.get((setting, site)) or {}
        return {core: sorted(points.items()) for core, points in found.items() if len(points) > 1}

    def interfaces(self, setting: str, site: str) -> Dict[str, Points]:
        """The bytes that each interface received and sent in the shown run of a setting."""
        found = self._interfaces.get((setting, site)) or self._of_nodes(setting, site)
        # A watched node says more than the samples of its job.
        found = {name: points for name, points in found.items() if not name.endswith(_OF_JOB)} or found
        return {name: points for name, points in sorted(found.items()) if len(points) > 1}

    def _of_nodes(self, setting: str, site: str) -> Dict[str, Points]:
        """The interfaces of the nodes of a site that worked on a divided job: each has the name of its node, too."""
        return {
            f"{place[len(site) + 2 :]} {name}": points
            for (of, place), found in self._interfaces.items()
            if of == setting and place.startswith(f"{site}: ")
            for name, points in found.items()
        }

    def lines(self, setting: str, site: str) -> Dict[str, Points]:
        """The figures of the whole host over time."""
        return {name: points for name, points in self._lines.get((setting, site), {}).items() if len(points) > 1}

    def _take(self, sample: Mapping[str, Any]) -> None:
        key, site, name = str(sample["key"]), str(sample["site"]), str(sample["figure"])
        at, value = float(sample["at"]), float(sample["value"])
        match = _LABELLED.fullmatch(name)
        labels = dict(_LABEL.findall(match[2])) if match else {}
        name = match[1] if match else name
        name = _SAME.get(name, name)
        setting = self._settings.get(key)
        if setting is not None:
            self._count(setting, site, name, labels, value)
        if key in self._keys:
            self._show((self._keys[key], site), name, labels, at, value)

    def _count(self, setting: str, site: str, name: str, labels: Mapping[str, str], value: float) -> None:
        source = ""
        if name == "host_interface_packets_per_second":
            if labels.get("interface") == _LOOPBACK:
                return
            name, source = "packets", f"{labels.get('interface')} {labels.get('direction')}"
        elif name in ("host_network_received_packets_per_second", "host_network_sent_packets_per_second"):
            # Received and sent have each their own mean, and their sum counts.
            name, source = "packets", ""
            value *= 2
        if name in COUNTED.values():
            sums = self._sums.setdefault((setting, site, name), {})
            total, count = sums.get(source, (0.0, 0))
            sums[source] = (total + value, count + 1)

    def _show(self, place: Tuple[str, str], name: str, labels: Mapping[str, str], at: float, value: float) -> None:
        core, interface = _CORE.fullmatch(name), _INTERFACE.fullmatch(name)
        if core:
            self._cores.setdefault(place, {}).setdefault(core[1], {})[at] = value
        elif name == "host_cpu_seconds_per_second" and labels.get("mode") in ("idle", "iowait"):
            points = self._watched_cores.setdefault(place, {}).setdefault(labels["core"], {})
            points[at] = min(1.0, max(0.0, points.get(at, 1.0) - value))
        elif name == "host_interface_bytes_per_second" and labels.get("interface") != _LOOPBACK:
            name = f"{labels['interface']} {labels['direction']}"
            self._interfaces.setdefault(place, {}).setdefault(name, []).append((at, value))
        elif interface and interface[1] != _LOOPBACK:
            name = f"{interface[1]} {interface[2]}{_OF_JOB}"
            self._interfaces.setdefault(place, {}).setdefault(name, []).append((at, value))
        else:
            for label, known in COUNTED.items():
                if name == known:
                    self._lines.setdefault(place, {}).setdefault(label, []).append((at, value))


def counts(run: Mapping[str, Any]) -> bool:
    """Whether a run counts."""
    return run["state"] == "complete" and not run["disturbed"]


def shown(runs: Runs) -> Dict[str, Mapping[str, Any]]:
    """The longest run of each setting, for the settings with the longest runs. Short runs have too few samples for a figure."""
    longest: Dict[str, Mapping[str, Any]] = {}
    for run in runs:
        if counts(run) and float(run["seconds"]) > float(longest.get(run["setting"], {"seconds": 0})["seconds"]):
            longest[str(run["setting"])] = run
    order = sorted(longest, key=lambda setting: -float(longest[setting]["seconds"]))[:_SHOWN]
    return {setting: longest[setting] for setting in sorted(order)}


def numeric(text: Any) -> bool:
    """Whether a value of a factor has a place on an axis."""
    return str(text).replace(".", "", 1).isdigit()


def factors(runs: Runs) -> List[str]:
    """The factors with several values on an axis."""
    found: Dict[str, set[str]] = {}
    for run in runs:
        for name, value in run["factors"].items():
            if numeric(value):
                found.setdefault(name, set()).add(value)
    return sorted(name for name, values in found.items() if len(values) > 1)


def medians(points: Iterable[Tuple[float, float]]) -> Points:
    """One point for each place: the median of its values."""
    by_place: Dict[float, List[float]] = {}
    for place, value in points:
        by_place.setdefault(round(place, 3), []).append(value)
    return [(place, stats.median(values)) for place, values in sorted(by_place.items())]
