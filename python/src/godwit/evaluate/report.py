"""Owns the report: one HTML file that needs no other, from a folder of results. Draws by `figures`, counts by `stats`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

from ..progress import size
from . import advice, figures, host_sections, machine_section, markup, run_sections, stats, verdict, way
from .hosts import Hosts
from .results import Results

_ENDS = {
    "memory": "memory to memory",
    "back": "memory to memory, the other way",
    "source": "source storage alone",
    "destination": "destination storage alone",
    "disk": "disk to disk",
}

# A machine that is busier before a run is not idle.
_IDLE = 0.2


def write(folder: Path) -> Path:
    """Writes the report beside the results."""
    way.check_folder(folder)
    results = Results(folder)
    about, runs = results.about(), results.runs()
    path = folder / "report.html"
    path.write_text(page(about, runs, results.samples()), encoding="utf-8")
    return path


def page(about: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], samples: Iterable[Mapping[str, Any]]) -> str:
    """The text of the report."""
    rates = stats.by_setting(runs, "bytes_per_second")
    parts = [f"<h1>{markup.text(about['title'])}</h1>", _head(about, runs)]
    if rates:
        hosts = Hosts(runs, samples)
        values = {name: [*one.values()] for name, one in rates.items()}
        summaries = {name: stats.summary(one) for name, one in values.items()}
        peaks = {name: max(one.values()) for name, one in stats.by_setting(runs, "peak_bytes_per_second").items()}
        parts += [
            markup.section("What the site gives", _ceilings(runs)),
            markup.section("What to change", markup.listed(advice.sentences(runs, summaries))),
            run_sections.matrix(runs),
            markup.section("Rates of each setting", figures.boxes(values) + _table(summaries, peaks)),
            run_sections.peaks(runs),
            *_distributions(runs),
            *run_sections.against_factors(runs),
            run_sections.sizes(runs),
            run_sections.durations(runs),
            run_sections.forecasts(runs),
            run_sections.energy(runs),
            run_sections.evenness(runs, hosts),
            *host_sections.against_factors(runs, hosts),
            host_sections.receiving_interfaces(hosts),
            host_sections.cores(hosts),
            *host_sections.over_time(hosts),
        ]
    else:
        parts.append("<p>No run is complete and undisturbed: there is nothing to show.</p>")
    parts.append(machine_section.machines(about))
    parts.append(markup.section("Method and limits", _method(about, runs)))
    return markup.page(str(about["title"]), parts)


def _head(about: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> str:
    disturbed = sum(bool(run["disturbed"]) for run in runs)
    failed = sum(run["state"] != "complete" for run in runs)
    said = f"{about['source']} to {about['destination']}: {len(runs)} runs, {disturbed} disturbed, {failed} not complete."
    return f'<p class="first">{markup.text(advice.headline(runs))}</p><p class="soft">{markup.text(said)}</p>'


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
    # The cost of encryption: the ends that hold the most of a transfer, by each variant.
    most = next(ends for ends in ("disk", *_ENDS) if _ENDS[ends] in medians)
    variants = dict.fromkeys(str(run["variant"]) for run in runs if run["ends"] == most)
    for variant in variants if len(variants) > 1 else ():
        found = stats.by_setting([run for run in runs if run["ends"] == most and run["variant"] == variant], "bytes_per_second")
        summaries = {setting: stats.summary([*one.values()]) for setting, one in found.items()}
        best = stats.best(summaries)
        if best:
            name = f"{_ENDS[most]}, {variant}"
            medians[name], intervals[name] = summaries[best].median, (summaries[best].low, summaries[best].high)
    limits = markup.listed([one.line() for one in verdict.judge(runs).ceilings])
    caption = "<p class='soft'>The best setting of each; bars end at the median.</p>"
    return figures.waterfall(medians, intervals) + limits + caption


def _distributions(runs: Sequence[Mapping[str, Any]]) -> List[str]:
    """One figure for each kind of ends: more lines would hide each other."""
    made = []
    for ends, name in _ENDS.items():
        found = stats.by_setting([run for run in runs if run["ends"] == ends], "bytes_per_second")
        if found:
            values = {setting: [*one.values()] for setting, one in found.items()}
            made.append(markup.section(f"Distributions: {name}", figures.distributions(values)))
    return made


def _table(summaries: Mapping[str, stats.Summary], peaks: Mapping[str, float]) -> str:
    heads = [
        "setting",
        "n",
        "minimum",
        "5th percentile",
        "quartile",
        "median",
        "quartile",
        "95th percentile",
        "maximum",
        "mean",
        "deviation",
        "peak",
        "95 % of median",
    ]
    rows = []
    for name, one in summaries.items():
        spread = [one.minimum, one.p05, one.quartile1, one.median, one.quartile3, one.p95, one.maximum, one.mean, one.deviation]
        peak = f"{size(peaks[name])}/s" if name in peaks else "-"
        between = f"{size(one.low)} to {size(one.high)}"
        rows.append([name, str(one.count), *[f"{size(value)}/s" for value in spread], peak, between])
    return markup.rows(heads, rows)


def _method(about: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> str:
    cost = sum(run["sampling_seconds"] for run in runs) / max(sum(run["seconds"] for run in runs), 1e-9)
    read = (
        "dropped from the cache of this machine before each run" if about.get("cold") else "not dropped from caches between runs"
    )
    said = [
        "Each block has each setting once, in a random order. Rates count file contents, over the time of the jobs of a run.",
        "A run counts if it is complete and nothing disturbed it: idle machines before, and no stolen processor time.",
        f"Checked for other load before each run: {_each(runs, 'idle_of')}. Checked for stolen time: {_each(runs, 'steal_of')}.",
        f"Intervals are bootstrap intervals of 95 %. The threads that ask for samples took {cost:.2%} of a core on this machine; "
        "a node spends at most 0.5 % of a core on its answers, as a test of the program asserts.",
        f"The figures of a node that [[watch]] does not name are not known. Sets on disk were {read}.",
    ]
    busy = sum(run["busy_before"] > _IDLE for run in runs)
    if about.get("idle_below", 0) > 1 and busy:
        said.insert(
            2, f"Other load was allowed: before {busy} of {len(runs)} runs, more than {_IDLE:.0%} of the processors were busy."
        )
    said += [f"The variant {name} was left out: {why}" for name, why in about.get("left_out", {}).items()]
    said += [f"The set {name} was scaled by {scale:.3g}, to fit." for name, scale in about.get("scales", {}).items()]
    troubles = {site: why for run in runs for site, why in (run.get("sampling_troubles") or {}).items()}
    said += [f"{site} was not sampled all the time: {why}" for site, why in troubles.items()]
    return markup.listed(said) + f"<pre>{markup.text(about['plan'])}</pre>"


def _each(runs: Sequence[Mapping[str, Any]], name: str) -> str:
    """All machines that the runs name here."""
    return ", ".join(sorted({machine for run in runs for machine in run.get(name) or ()})) or "none"
