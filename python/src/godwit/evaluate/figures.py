"""Owns the figures of the report as SVG texts that follow the theme of their page. Computes no statistics."""

from __future__ import annotations

import io
import math
import re
from typing import Any, Dict, Mapping, Sequence, Tuple

import matplotlib as mpl
import numpy as np
from cycler import cycler

mpl.use("svg")

import matplotlib.pyplot as plt

# A colour that nothing else has: the page's own colour of text comes in its place.
_INK = "#010203"
_COLOURS = ("#2f7ed8", "#e07b39", "#3a9d6e", "#b0549c", "#c2a11c", "#7a6fd0", "#cc4b4b", "#3aa6b9")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

mpl.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "godwit",
        "font.family": "sans-serif",
        "font.size": 10,
        "text.color": _INK,
        "axes.labelcolor": _INK,
        "axes.edgecolor": _INK,
        "xtick.color": _INK,
        "ytick.color": _INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=_COLOURS),
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.facecolor": "none",
        "legend.frameon": False,
    }
)

Series = Mapping[str, Sequence[Tuple[float, float]]]


def unit(highest: float) -> Tuple[float, str]:
    """The unit that fits rates up to the highest one."""
    power = min(4, max(0, int(math.log10(max(highest, 1)) // 3)))
    return 1000.0**power, ("B/s", "kB/s", "MB/s", "GB/s", "TB/s")[power]


def waterfall(medians: Mapping[str, float], intervals: Mapping[str, Tuple[float, float]]) -> str:
    """Ceilings and what is reached, as bars with their intervals."""
    by, word = unit(max(medians.values()))
    figure, axes = plt.subplots(figsize=(7.5, 0.5 + 0.5 * len(medians)))
    names = [*medians][::-1]
    for place, name in enumerate(names):
        value, (low, high) = medians[name] / by, intervals[name]
        error = [[max(0.0, value - low / by)], [max(0.0, high / by - value)]]
        axes.barh(place, value, xerr=error, color=_COLOURS[place % len(_COLOURS)], ecolor=_INK, height=0.6)
        axes.text(max(value, high / by), place, f"  {value:.3g}", va="center")
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel(word)
    axes.set_xlim(0, 1.15 * max(*medians.values(), *(high for _, high in intervals.values()), 0) / by)
    return _svg(figure)


def boxes(values: Mapping[str, Sequence[float]]) -> str:
    """A box for each setting, with every run as a dot."""
    by, word = unit(max(max(one) for one in values.values()))
    figure, axes = plt.subplots(figsize=(7.5, 0.6 + 0.42 * len(values)))
    names = [*values][::-1]
    scaled = [np.asarray(values[name]) / by for name in names]
    ink: Dict[str, Any] = {"color": _INK}
    axes.boxplot(
        scaled, orientation="horizontal", showfliers=False, boxprops=ink, whiskerprops=ink, capprops=ink, medianprops=ink
    )
    chance = np.random.default_rng(1)
    for place, one in enumerate(scaled, 1):
        axes.plot(one, place + chance.uniform(-0.12, 0.12, len(one)), "o", alpha=0.6, markersize=4)
    axes.set_yticks(range(1, len(names) + 1), names)
    axes.set_xlabel(word)
    axes.set_xlim(left=0)
    return _svg(figure)


def distributions(values: Mapping[str, Sequence[float]]) -> str:
    """The cumulative distribution of each setting."""
    by, word = unit(max(max(one) for one in values.values()))
    figure, axes = plt.subplots(figsize=(7.5, 4))
    for number, (name, one) in enumerate(values.items()):
        ordered = np.sort(np.asarray(one)) / by
        style = ("-", "--", "-.", ":")[number // len(_COLOURS) % 4]
        axes.step(ordered, np.arange(1, len(ordered) + 1) / len(ordered), where="post", label=name, linestyle=style)
    axes.set_xlabel(word)
    axes.set_ylabel("share of runs")
    _legend(axes, len(values))
    return _svg(figure)


def lines(series: Series, x: str, y: str, *, log_x: bool = False) -> str:
    """Lines with a marker for each point."""
    figure, axes = plt.subplots(figsize=(7.5, 4))
    for number, (name, points) in enumerate(series.items()):
        axes.plot(*zip(*sorted(points)), marker=_MARKERS[number % len(_MARKERS)], label=name)
    if log_x:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_ylim(bottom=0)
    _legend(axes, len(series))
    return _svg(figure)


def heat(cores: Mapping[str, Sequence[Tuple[float, float]]]) -> str:
    """How busy each core was over time: one row a core."""
    names = sorted(cores, key=lambda name: int(re.sub(r"\D", "", name) or 0))
    times = [at for points in cores.values() for at, _ in points]
    begin, end = min(times), max(times)
    steps = max(2, min(300, int(end - begin) + 1))
    grid = np.full((len(names), steps), np.nan)
    for row, name in enumerate(names):
        for at, value in cores[name]:
            grid[row, min(steps - 1, int((at - begin) / max(end - begin, 1e-9) * steps))] = value
    figure, axes = plt.subplots(figsize=(7.5, 0.9 + min(5.0, 0.3 * len(names))))
    seen = axes.pcolormesh(
        np.linspace(0, end - begin, steps + 1), np.arange(len(names) + 1), grid, vmin=0, vmax=1, cmap="viridis"
    )
    bar = figure.colorbar(seen, ax=axes)
    bar.set_label("busy")
    axes.set_xlabel("s")
    axes.set_ylabel("core")
    return _svg(figure)


def _legend(axes: Any, count: int) -> None:
    if count > 1:
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _svg(figure: Any) -> str:
    made = io.StringIO()
    figure.savefig(made, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    text = made.getvalue()
    return text[text.index("<svg") :].replace(_INK, "currentColor")
