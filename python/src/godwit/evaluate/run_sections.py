"""Owns the parts of the report that show the runs themselves: rates, sizes, ciphers, evenness, forecasts, pairs of sites."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..progress import size
from . import figures, markup, stats
from .hosts import Hosts, Points, Runs, counts, factors, medians, numeric
from .plan import NODES_FACTOR


def peaks(runs: Runs) -> str:
    """The peak beside the average."""
    title = "Peak beside average"
    found: Dict[str, Dict[str, float]] = {}
    for setting, peak in stats.by_setting(runs, "peak_bytes_per_second").items():
        rates = stats.by_setting([run for run in runs if run["setting"] == setting], "bytes_per_second")
        average = stats.median([*rates[setting].values()])
        found[setting] = {"average": average, "peak": max(peak.values())}
    if not found:
        return markup.section(title, markup.missing("No run was long enough: the nodes take a sample each second."))
    caption = "The median of the averages of the runs, and the best second of any of them, of all jobs together."
    if any(one["peak"] < one["average"] for one in found.values()):
        caption += " A peak below its average: the runs ended before a node had taken a sample of their best second."
    return markup.section(title, figures.bars(found) + f"<p class='soft'>{caption}</p>")


def against_factors(runs: Runs) -> List[str]:
    """The rate against each factor, a drawing for each kind of run, and in it a line for each value of the other factors."""
    made = []
    for factor in factors(runs):
        kinds: Dict[str, Dict[str, List[Tuple[float, float]]]] = {}
        for run in runs:
            if counts(run) and numeric(run["factors"].get(factor)):
                others = [f"{name}={value}" for name, value in run["factors"].items() if name != factor]
                kind = " ".join([run["data"], run["ends"], run["variant"]])
                lines = kinds.setdefault(kind, {})
                lines.setdefault(" ".join(others) or kind, []).append((float(run["factors"][factor]), run["bytes_per_second"]))
        shown = ""
        for kind, found in kinds.items():
            by, word = figures.unit(max(rate for points in found.values() for _, rate in points))
            series = {name: [(value, rate / by) for value, rate in medians(points)] for name, points in _in_order(found)}
            shown += markup.figure(kind, figures.lines(series, factor, word, log_x=True))
        if shown:
            made.append(markup.section(f"Rate against {factor}", shown))
    return made


def _in_order(lines: Mapping[str, Any]) -> List[Tuple[str, Any]]:
    """Lines by the numbers in their names."""
    return sorted(lines.items(), key=lambda one: [int(number) for number in re.findall(r"\d+", one[0])])


def sizes(runs: Runs) -> str:
    """Rate, first and last done against the mean size of a file."""
    title = "Rate and duration against the size of a file"
    disk = [run for run in runs if counts(run) and run["ends"] == "disk" and run["files"]]
    mean = {str(run["key"]): run["bytes"] / run["files"] for run in disk}
    if len({round(one) for one in mean.values()}) < 2:
        return markup.section(title, markup.missing("From disk to disk, the plan has one size of files: zx-sizes varies it."))
    by, word = figures.unit(max(run["bytes_per_second"] for run in disk))
    rates: Dict[str, List[Tuple[float, float]]] = {}
    for run in disk:
        # Each factor changes the rate, too: its values have lines of their own.
        line = " ".join([run["variant"], *(f"{name}={value}" for name, value in run["factors"].items())])
        rates.setdefault(line, []).append((mean[str(run["key"])], run["bytes_per_second"] / by))
    rates = dict(sorted(rates.items(), key=lambda one: -len(one[1]))[:_LINES])
    done = {
        f"{which} job done": medians((mean[str(run["key"])], run[f"{which}_done"]) for run in disk) for which in ("last", "first")
    }
    axis = "mean size of a file in bytes"
    drawn = markup.figure("Rate", figures.lines({name: medians(one) for name, one in rates.items()}, axis, word, log_x=True))
    return markup.section(title, drawn + markup.figure("First and last done", figures.lines(done, axis, "s", log_x=True)))


def energy(runs: Runs) -> str:
    """Energy per terabyte of each cipher."""
    title = "Energy per terabyte, for each cipher"
    found: Dict[str, List[float]] = {}
    for run in runs:
        if counts(run) and run.get("joules_per_terabyte"):
            found.setdefault(f"{run['variant']} ({run['ends']})", []).append(float(run["joules_per_terabyte"]) / 1000)
    if not found:
        why = "Not measured: no node that ran a job could read the energy counters of its processors (RAPL, readable by root)."
        return markup.section(title, markup.missing(why))
    return markup.section(title, figures.boxes(dict(sorted(found.items())), "kJ per TB"))


def evenness(runs: Runs, hosts: Hosts) -> str:
    """How evenly nodes and interfaces share the work. 1 is even; 1/n is all on one of n."""
    nodes = _shares(runs, "nodes", "share")
    channels = _shares(runs, "channels", "bytes_per_second")
    interfaces: Dict[str, Dict[str, float]] = {}
    for setting, run in hosts.shown.items():
        site = (run.get("sites") or {}).get("destination", "")
        received = {name: one for name, one in hosts.interfaces(setting, site).items() if "received" in name}
        amounts = {name: sum(value for _, value in points) / len(points) for name, points in received.items()}
        if len(amounts) > 1:
            interfaces[f"{setting}, {site}"] = amounts
    parts = [
        ("Evenness of nodes", nodes, "No job was divided among several nodes."),
        (
            "Evenness of interfaces",
            channels or interfaces,
            "No job had more than one path, and no receiver more than one interface.",
        ),
    ]
    made = ""
    for title, found, why in parts:
        lines = [[setting, f"{_even(one):.3f}", _told(one)] for setting, one in sorted(found.items())]
        drawn = _against_nodes(runs, found) if found is nodes else ""
        table = markup.rows(["setting", "evenness", "shares"], lines) if lines else markup.missing(why)
        made += markup.section(title, drawn + table)
    return made


def _against_nodes(runs: Runs, shares: Mapping[str, Mapping[str, float]]) -> str:
    """The evenness against the number of nodes, if the plan varies it."""
    series: Dict[str, Points] = {}
    for setting, run in {str(run["setting"]): run for run in runs if counts(run)}.items():
        value = run["factors"].get(NODES_FACTOR)
        if setting in shares and numeric(value):
            others = [word for word in setting.split(" ") if word != f"{NODES_FACTOR}={value}"]
            series.setdefault(" ".join(others), []).append((float(value), _even(shares[setting])))
    series = dict(sorted(series.items())[:_LINES])
    return markup.figure("Evenness against nodes", figures.lines(series, NODES_FACTOR, "evenness")) if series else ""


def _shares(runs: Runs, name: str, figure: str) -> Dict[str, Dict[str, float]]:
    """By setting: what each node or interface did, as the mean of all runs."""
    found: Dict[str, Dict[str, List[float]]] = {}
    for run in runs:
        several: Sequence[Mapping[str, Any]] = run.get(name) or ()
        if counts(run) and len(several) > 1:
            for one in several:
                found.setdefault(str(run["setting"]), {}).setdefault(str(one["name"]), []).append(float(one[figure]))
    return {setting: {one: sum(values) / len(values) for one, values in rates.items()} for setting, rates in found.items()}


def _even(amounts: Mapping[str, float]) -> float:
    """Jain's index."""
    values = [*amounts.values()]
    squares = len(values) * sum(value**2 for value in values)
    return sum(values) ** 2 / squares if squares else 1.0


def _told(amounts: Mapping[str, float]) -> str:
    whole = sum(amounts.values()) or 1.0
    return ", ".join(f"{name} {value / whole:.0%}" for name, value in sorted(amounts.items()))


def forecasts(runs: Runs) -> str:
    """By how much the forecast after a tenth of the bytes missed the end."""
    title = "Error of the forecast after a tenth"
    found: Dict[str, List[float]] = {}
    for run in runs:
        if counts(run) and run.get("forecast_error") is not None:
            found.setdefault(str(run["setting"]), []).append(100 * float(run["forecast_error"]))
    if not found:
        return markup.section(
            title, markup.missing("No node foretold the end of a run after a tenth of its bytes: all were too short.")
        )
    lines = [[name, str(len(one)), f"{stats.median(one):.1f} %", f"{max(one):.1f} %"] for name, one in sorted(found.items())]
    table = markup.rows(["setting", "runs", "median", "largest"], lines)
    return markup.section(title, figures.boxes(dict(sorted(found.items())), "error in % of the time that the job took") + table)


def durations(runs: Runs) -> str:
    """How long each setting takes, and how well that can be known before."""
    seconds = {name: stats.summary([*one.values()]) for name, one in stats.by_setting(runs, "seconds").items()}
    lines = [[name, f"{one.median:.1f}", f"{one.p95:.1f}", f"{one.predictability:.2f}"] for name, one in seconds.items()]
    return markup.section("Durations", markup.rows(["setting", "median s", "95th percentile s", "their ratio"], lines))


def matrix(runs: Runs) -> str:
    """The median rate of each pair of sites, and its spread; nothing for a plan of one pair."""
    pairs: Dict[str, Dict[Tuple[str, str], List[float]]] = {}
    for run in runs:
        if counts(run) and run.get("is_pair"):
            pair = (run["sites"]["source"], run["sites"]["destination"])
            kind = " ".join(str(run["setting"]).split(" ")[1:])
            pairs.setdefault(kind, {}).setdefault(pair, []).append(float(run["bytes_per_second"]))
    made = ""
    for kind, found in sorted(pairs.items()):
        sites = sorted({site for pair in found for site in pair})
        lines = [[source, *(_cell(found.get((source, target))) for target in sites)] for source in sites]
        made += markup.figure(kind, markup.rows(["from ↓ to →", *sites], lines))
    note = "<p class='soft'>The median rate, and between which rates its middle half lies.</p>"
    return markup.section("Site by site", made + note) if made else ""


def _cell(rates: Optional[List[float]]) -> str:
    if not rates:
        return "-"
    spread = stats.summary(rates)
    return f"{size(spread.median)}/s ({size(spread.quartile1)} to {size(spread.quartile3)}, n {spread.count})"


# More lines hide each other.
_LINES = 8
