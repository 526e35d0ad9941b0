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
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

from ..shown import printable_lines

# A colour that nothing else has. The page replaces it by its colour of text.
_INK = "#010203"
_COLOURS = ("#2f7ed8", "#e07b39", "#3a9d6e", "#b0549c", "#c2a11c", "#7a6fd0", "#cc4b4b", "#3aa6b9")
# Lines with more points have no markers, and a heat map has at most this many columns.
_MARKED = 40
_COLUMNS = 300
# Each place on an axis has a tick if they are no more, and their ratios no less.
_TICKS, _APART = 8, 1.3
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

mpl.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "godwit",
        # Nodes choose names of interfaces: a dollar begins no formula, which would have to be right.
        "text.parse_math": False,
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

# The argument for a horizontal box has another name since Matplotlib 3.10.
_LYING: Dict[str, Any] = (
    {"orientation": "horizontal"} if tuple(int(one) for one in mpl.__version__.split(".")[:2]) >= (3, 10) else {"vert": False}
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


def boxes(values: Mapping[str, Sequence[float]], word: str = "") -> str:
    """A box for each setting, with every run as a dot. Without another unit, the values are rates."""
    by, word = (1.0, word) if word else unit(max(max(one) for one in values.values()))
    figure, axes = plt.subplots(figsize=(7.5, 0.6 + 0.42 * len(values)))
    names = [*values][::-1]
    scaled = [np.asarray(values[name]) / by for name in names]
    ink: Dict[str, Any] = {"color": _INK}
    axes.boxplot(scaled, **_LYING, showfliers=False, boxprops=ink, whiskerprops=ink, capprops=ink, medianprops=ink)
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
    figure, axes = plt.subplots(figsize=(7.5, 3.4))
    is_long = max(len(points) for points in series.values()) > _MARKED
    for number, (name, points) in enumerate(series.items()):
        marker = None if is_long else _MARKERS[number % len(_MARKERS)]
        axes.plot(*zip(*sorted(points)), marker=marker, label=name)
    if log_x:
        axes.set_xscale("log", base=2)
        places = sorted({place for points in series.values() for place, _ in points})
        apart = all(later >= _APART * place for place, later in zip(places, places[1:]))
        few = apart and len(places) <= _TICKS
        axes.xaxis.set_major_locator(FixedLocator(places) if few else LogLocator(base=2, numticks=_TICKS))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: _short(value))
    axes.yaxis.set_major_formatter(lambda value, _: _short(value))
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_ylim(bottom=0)
    # A single line also has a legend with its name.
    _legend(axes, len(series) + 1)
    return _svg(figure)


def bars(values: Mapping[str, Mapping[str, float]], x: str = "") -> str:
    """Groups of bars: for each name a bar of each kind. Without another unit, the values are rates."""
    kinds = [*dict.fromkeys(kind for one in values.values() for kind in one)]
    by, word = (1.0, x) if x else unit(max(value for one in values.values() for value in one.values()))
    figure, axes = plt.subplots(figsize=(7.5, 0.7 + 0.2 * len(values) * (len(kinds) + 0.6)))
    names = [*values][::-1]
    height = 0.8 / len(kinds)
    for number, kind in enumerate(kinds):
        places = [place + 0.4 - height * (number + 0.5) for place, name in enumerate(names) if kind in values[name]]
        lengths = [values[name][kind] / by for name in names if kind in values[name]]
        axes.barh(places, lengths, height=height, label=kind)
        for place, length in zip(places, lengths):
            axes.text(length, place, f" {length:.3g}", va="center", fontsize=7)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel(word)
    _legend(axes, len(kinds))
    return _svg(figure)


def heats(runs: Mapping[str, Mapping[str, Sequence[Tuple[float, float]]]]) -> str:
    """How busy each core was over time: a picture for each setting, and in it a row for each core."""
    count = len(runs)
    across = min(2, count)
    down = -(-count // across)
    cores = max(len(one) for one in runs.values())
    figure, many = plt.subplots(down, across, figsize=(7.5, down * (0.9 + min(3.0, 0.16 * cores))), squeeze=False)
    seen: Any = None
    for axes, (setting, found) in zip(many.flat, runs.items()):
        grid, seconds = _grid(found)
        seen = axes.imshow(
            grid, vmin=0, vmax=1, cmap="viridis", aspect="auto", interpolation="nearest", extent=(0, seconds, len(grid), 0)
        )
        axes.set_title(setting, fontsize=8)
        axes.tick_params(labelsize=7)
        axes.set_yticks([])
        axes.set_ylabel(f"{len(grid)} cores", fontsize=7)
        axes.set_xlabel("s", fontsize=7)
    for axes in [*many.flat][count:]:
        axes.set_visible(False)
    figure.tight_layout()
    figure.colorbar(seen, ax=many, fraction=0.03).set_label("busy")
    return _svg(figure)


def _grid(cores: Mapping[str, Sequence[Tuple[float, float]]]) -> Tuple[Any, float]:
    """A row for each core and a column for each second; a column without a sample has the one before."""
    names = sorted(cores, key=lambda name: int(re.sub(r"\D", "", name) or 0))
    times = [at for points in cores.values() for at, _ in points]
    begin, seconds = min(times), max(max(times) - min(times), 1e-9)
    steps = max(2, min(_COLUMNS, int(seconds) + 1))
    grid = np.full((len(names), steps), np.nan)
    for row, name in enumerate(names):
        for at, value in cores[name]:
            grid[row, min(steps - 1, int((at - begin) / seconds * steps))] = value
        for column in range(1, steps):
            if np.isnan(grid[row, column]):
                grid[row, column] = grid[row, column - 1]
    return grid, seconds


def _short(value: float) -> str:
    """A number for an axis."""
    for power, letter in ((9, "G"), (6, "M"), (3, "k")):
        if abs(value) >= 10**power:
            return f"{value / 10**power:.3g}{letter}"
    return f"{value:g}"


def _legend(axes: Any, count: int) -> None:
    if count > 1:
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _svg(figure: Any) -> str:
    made = io.StringIO()
    figure.savefig(made, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    text = made.getvalue()
    return printable_lines(text[text.index("<svg") :].replace(_INK, "currentColor"))
