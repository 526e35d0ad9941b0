"""Owns the parts of the report that show the hosts: against a factor, over time, core by core. Counts by `hosts`."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from . import figures, markup
from .hosts import COUNTED, Hosts, Points, Runs, counts, factors, numeric

_FACTORS = {"streams": "streams", "concurrent": "concurrent jobs"}


def against_factors(runs: Runs, hosts: Hosts) -> List[str]:
    """Context switches, interrupts, packets and troubles of TCP against streams, and against concurrency."""
    varied = factors(runs)
    made = []
    for factor in dict.fromkeys([*_FACTORS, *varied]):
        title = f"Context switches, interrupts and packets against {_FACTORS.get(factor, factor)}"
        if factor in varied:
            made.append(markup.section(title, _against(runs, hosts, factor)))
        elif factor in _FACTORS:
            why = f"The plan has one number of {_FACTORS[factor]}: memznet is the plan that varies it."
            made.append(markup.section(title, markup.missing(why)))
    return made


def _against(runs: Runs, hosts: Hosts, factor: str) -> str:
    """The other factors are held at their least value: what one factor does is seen alone."""
    least: Dict[str, float] = {}
    for run in runs:
        for name, value in run["factors"].items():
            if name != factor and numeric(value):
                least[name] = min(least.get(name, float(value)), float(value))
    settings: Dict[str, Tuple[str, float]] = {}
    for run in runs:
        others = {name: value for name, value in run["factors"].items() if name != factor}
        is_least = all(float(value) == least[name] for name, value in others.items() if numeric(value))
        if counts(run) and is_least and numeric(run["factors"].get(factor)):
            words = [f"{name}={value}" for name, value in others.items() if not numeric(value)]
            line = " ".join([run["data"], run["ends"], run["variant"], *words])
            settings[str(run["setting"])] = (line, float(run["factors"][factor]))
    held = ", ".join(f"{name} {value:g}" for name, value in least.items())
    shown = f"<p class='soft'>With {markup.text(held)}.</p>" if held else ""
    for label, figure in COUNTED.items():
        for site in hosts.sites():
            series: Dict[str, Points] = {}
            for setting, (line, value) in settings.items():
                mean = hosts.mean(setting, site, figure)
                if mean is not None:
                    series.setdefault(line, []).append((value, float(mean)))
            series = {line: points for line, points in series.items() if len(points) > 1}
            if series:
                drawing = figures.lines(series, _FACTORS.get(factor, factor), f"{label} each second", log_x=True)
                shown += markup.figure(f"{site}: {label}", drawing)
    return shown + _absent(hosts, runs)


def _absent(hosts: Hosts, runs: Runs) -> str:
    """The figures that no node gave."""
    settings = {str(run["setting"]) for run in runs}
    absent = [
        label
        for label, figure in COUNTED.items()
        if all(hosts.mean(setting, site, figure) is None for setting in settings for site in hosts.sites())
    ]
    said = f"{', '.join(absent).capitalize()}: not sampled. [[watch]] names nodes whose hosts are sampled."
    return markup.missing(said) if absent else ""


def receiving_interfaces(hosts: Hosts) -> str:
    """Each interface over time at the receiving side, in the longest run that another site received."""
    title = "Each interface over time, at the receiving side"
    longest = sorted(hosts.shown.items(), key=lambda one: -float(one[1]["seconds"]))
    for setting, run in longest:
        ends: Mapping[str, str] = run.get("sites") or {}
        site = ends.get("destination", "")
        found = hosts.interfaces(setting, site) if ends.get("source") != site else {}
        if found:
            by, word = figures.unit(max(value for points in found.values() for _, value in points))
            scaled = {name: [(at, value / by) for at, value in points] for name, points in found.items()}
            return markup.section(title, markup.figure(f"{site}, {setting}", figures.lines(_from_zero(scaled), "s", word)))
    why = "Not sampled: name a node of the receiving site in [[watch]], and take runs of more than two seconds."
    return markup.section(title, markup.missing(why))


def cores(hosts: Hosts) -> str:
    """A heat map of the cores for each setting."""
    shown = ""
    for site in hosts.sites():
        found = {setting: hosts.cores(setting, site) for setting in hosts.shown}
        found = {setting: one for setting, one in found.items() if one}
        if found:
            shown += markup.figure(site, figures.heats(found))
    note = "<p class='soft'>The longest run of each setting; of many settings, those with the longest runs.</p>"
    why = "No core was sampled more than once: the runs are too short."
    return markup.section("Cores over time, for each setting", shown + note if shown else markup.missing(why))


def over_time(hosts: Hosts) -> List[str]:
    """Of the longest run: the figures of the hosts as they changed."""
    made = []
    longest: Any = max(hosts.shown, key=lambda setting: float(hosts.shown[setting]["seconds"]), default=None)
    for site in hosts.sites() if longest else ():
        lines = hosts.lines(longest, site)
        shown: Dict[str, Points] = {name: lines[name] for name in [*COUNTED][:4] if name in lines}
        if shown:
            drawing = figures.lines(_from_zero(shown), "s", "each second")
            made.append(markup.section(f"{site}, during {longest}", drawing))
    return made


def _from_zero(lines: Mapping[str, Points]) -> Dict[str, Points]:
    begin = min(at for points in lines.values() for at, _ in points)
    return {name: [(at - begin, value) for at, value in points] for name, points in lines.items()}
