"""Owns the report: one HTML file that needs no other, from a folder of results. Draws by `figures`, counts by `stats`."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..progress import size
from . import advice, figures, stats, verdict
from .results import Results

_ENDS = {
    "memory": "memory to memory",
    "back": "memory to memory, the other way",
    "source": "source storage alone",
    "destination": "destination storage alone",
    "disk": "disk to disk",
}

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --paper: #ffffff; --line: #d5dadf; --soft: #5c6670; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --paper: #15181b; --line: #363d44; --soft: #9aa5af; } }
@media print { :root { --ink: #000; --paper: #fff; } section { break-inside: avoid; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { line-height: 1.2 } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line) }
table { border-collapse: collapse; font-size: 0.85rem; display: block; overflow-x: auto; }
th, td { text-align: right; padding: 0.2rem 0.6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } svg { max-width: 100%; height: auto; }
.soft { color: var(--soft); } .first { font-size: 1.15rem; } pre { overflow-x: auto; font-size: 0.8rem; }
"""


def write(folder: Path) -> Path:
    """Writes the report beside the results."""
    results = Results(folder)
    about, runs = results.about(), results.runs()
    path = folder / "report.html"
    path.write_text(page(about, runs, results.samples()), encoding="utf-8")
    return path


def page(about: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], samples: Sequence[Mapping[str, Any]]) -> str:
    """The text of the report."""
    rates = stats.by_setting(runs, "bytes_per_second")
    parts = [f"<h1>{_text(about['title'])}</h1>", _head(about, runs)]
    if rates:
        values = {name: [*one.values()] for name, one in rates.items()}
        summaries = {name: stats.summary(one) for name, one in values.items()}
        parts += [
            _section("What the site gives", _ceilings(runs)),
            _section("What to change", _list(advice.sentences(runs, summaries))),
            _section("Rates of each setting", figures.boxes(values) + _table(summaries)),
            *_distributions(runs),
            *_factors(runs),
            *_over_time(runs, samples),
            _section("Durations", _durations(runs)),
        ]
    else:
        parts.append("<p>No run is complete and undisturbed: there is nothing to show.</p>")
    parts.append(_section("Method and limits", _method(about, runs)))
    body = "\n".join(parts)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{_text(about["title"])}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>{body}</body></html>\n'
    )


def _head(about: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> str:
    disturbed = sum(bool(run["disturbed"]) for run in runs)
    failed = sum(run["state"] != "complete" for run in runs)
    said = f"{about['source']} to {about['destination']}: {len(runs)} runs, {disturbed} disturbed, {failed} not complete."
    return f'<p class="first">{_text(advice.headline(runs))}</p><p class="soft">{_text(said)}</p>'


def _ceilings(runs: Sequence[Mapping[str, Any]]) -> str:
    """For each kind of ends the best setting, in the order in which data meets them."""
    medians: Dict[str, float] = {}
    intervals: Dict[str, Tuple[float, float]] = {}
    for ends, name in _ENDS.items():
        found = stats.by_setting([run for run in runs if run["ends"] == ends], "bytes_per_second")
        summaries = {setting: stats.summary([*one.values()]) for setting, one in found.items()}
        best = stats.best(summaries)
        if best:
            medians[name], intervals[name] = summaries[best].median, (summaries[best].low, summaries[best].high)
    told = _list([one.line() for one in verdict.judge(runs).ceilings])
    return figures.waterfall(medians, intervals) + told + "<p class='soft'>The best setting of each; bars end at the median.</p>"


def _distributions(runs: Sequence[Mapping[str, Any]]) -> List[str]:
    """One figure for each kind of ends: more lines would hide each other."""
    made = []
    for ends, name in _ENDS.items():
        found = stats.by_setting([run for run in runs if run["ends"] == ends], "bytes_per_second")
        if found:
            values = {setting: [*one.values()] for setting, one in found.items()}
            made.append(_section(f"Distributions: {name}", figures.distributions(values)))
    return made


def _factors(runs: Sequence[Mapping[str, Any]]) -> List[str]:
    """For each factor with several values: the rate and the host figures against it."""
    made = []
    for factor in sorted({name for run in runs for name in run["factors"]}):
        good = [run for run in runs if run["state"] == "complete" and _is_number(run["factors"].get(factor))]
        if len({run["factors"][factor] for run in good}) < 2:
            continue
        series: Dict[str, List[Tuple[float, float]]] = {}
        by, word = figures.unit(max(run["bytes_per_second"] for run in good))
        for run in good:
            rest = " ".join([run["data"], run["ends"], run["variant"]])
            series.setdefault(rest, []).append((float(run["factors"][factor]), run["bytes_per_second"] / by))
        medians = {name: _medians(points) for name, points in series.items()}
        made.append(_section(f"Rate against {factor}", figures.lines(medians, factor, word, log_x=True)))
    return made


def _over_time(runs: Sequence[Mapping[str, Any]], samples: Sequence[Mapping[str, Any]]) -> List[str]:
    """Of the longest run: each core, and the rates of the host."""
    longest = max(runs, key=lambda run: float(run["seconds"]))
    mine = [one for one in samples if one["key"] == longest["key"]]
    made = []
    for site in sorted({str(one["site"]) for one in mine}):
        rows: Dict[str, List[Tuple[float, float]]] = {}
        for one in mine:
            if one["site"] == site:
                rows.setdefault(one["figure"], []).append((one["at"], one["value"]))
        cores = {name: points for name, points in rows.items() if name.startswith("host_cpu_core_")}
        shown = ""
        if cores and any(len(points) > 1 for points in cores.values()):
            shown += figures.heat(cores)
        counts = {
            name.split("_per_second")[0].replace("host_", "").replace("_", " "): _from_zero(rows[name])
            for name in ("host_context_switches_per_second", "host_interrupts_per_second", "host_softirqs_per_second")
            if len(rows.get(name, ())) > 1
        }
        if counts:
            shown += figures.lines(counts, "s", "each second")
        if shown:
            made.append(_section(f"{site}, during {longest['key']}", shown))
    return made


def _durations(runs: Sequence[Mapping[str, Any]]) -> str:
    first: List[Tuple[float, float]] = []
    last: List[Tuple[float, float]] = []
    for run in runs:
        if run["state"] == "complete" and run["ends"] == "disk" and run["files"]:
            mean = run["bytes"] / run["files"]
            first.append((mean, run["first_done"]))
            last.append((mean, run["last_done"]))
    seconds = {name: stats.summary([*one.values()]) for name, one in stats.by_setting(runs, "seconds").items()}
    rows = [[name, f"{one.median:.1f}", f"{one.p95:.1f}", f"{one.predictability:.2f}"] for name, one in seconds.items()]
    table = _rows(["setting", "median s", "95th percentile s", "their ratio"], rows)
    if len({round(mean) for mean, _ in first}) < 3:
        return table
    series = {"last job done": _medians(last), "first job done": _medians(first)}
    return figures.lines(series, "mean size of a file in bytes", "s", log_x=True) + table


def _table(summaries: Mapping[str, stats.Summary]) -> str:
    heads = ["setting", "n", "minimum", "quartile", "median", "quartile", "maximum", "mean", "deviation", "95 % of median"]
    rows = []
    for name, one in summaries.items():
        told = [one.minimum, one.quartile1, one.median, one.quartile3, one.maximum, one.mean, one.deviation]
        between = f"{size(one.low)} to {size(one.high)}"
        rows.append([name, str(one.count), *[f"{size(value)}/s" for value in told], between])
    return _rows(heads, rows)


def _method(about: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> str:
    cost = sum(run["sampling_seconds"] for run in runs) / max(sum(run["seconds"] for run in runs), 1e-9)
    read = (
        "dropped from the cache of this machine before each run" if about.get("cold") else "not dropped from caches between runs"
    )
    said = [
        "Each block has each setting once, in a random order. Rates count file contents, over the time of the jobs of a run.",
        "A run counts if it is complete and nothing disturbed it: an idle machine before, and no stolen processor time.",
        f"Intervals are bootstrap intervals of 95 %. Sampling cost {cost:.2%} of a core on this machine.",
        f"The figures of a node that [[watch]] does not name are not known. Sets on disk were {read}.",
    ]
    plan = about["plan"]
    machine = json.dumps({"machine": about["machine"], "node": about["node"], "watched": about["watched"]}, indent=1)
    return _list(said) + f"<pre>{_text(plan)}</pre><details><summary>Machines</summary><pre>{_text(machine)}</pre></details>"


def _medians(points: Sequence[Tuple[float, float]]) -> List[Tuple[float, float]]:
    by_place: Dict[float, List[float]] = {}
    for place, value in points:
        by_place.setdefault(round(place, 3), []).append(value)
    return [(place, stats.summary(values).median) for place, values in by_place.items()]


def _from_zero(points: Sequence[Tuple[float, float]]) -> List[Tuple[float, float]]:
    begin = min(at for at, _ in points)
    return [(at - begin, value) for at, value in points]


def _is_number(text: Any) -> bool:
    return str(text).replace(".", "", 1).isdigit()


def _section(title: str, content: str) -> str:
    return f"<section><h2>{_text(title)}</h2>{content}</section>"


def _list(sentences: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{_text(one)}</li>" for one in sentences) + "</ul>"


def _rows(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{_text(one)}</th>" for one in heads)
    body = "".join("<tr>" + "".join(f"<td>{_text(one)}</td>" for one in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _text(value: Any) -> str:
    return html.escape(str(value))
