"""Owns the statistics: what a set of runs says, how sure that is, and whether two sets differ. Reads no file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import scipy
from scipy import stats

# One comparison in fifty of a set with itself says otherwise: of a hundred, hardly ever more than five do.
ALPHA = 0.02

# A smaller difference is of no use to a site, however sure it is.
LEAST = 0.01

# With fewer runs of each set, or fewer pairs, even the largest difference has a p of ALPHA or more by permutation: of two sets of
# five, 2 of 252 orders differ as much, and of seven pairs, 2 of 128.
FEWEST = 5
FEWEST_PAIRS = 7

_RESAMPLES = 2000


@dataclass(frozen=True)
class Summary:
    """The distribution of a figure."""

    count: int
    mean: float
    deviation: float
    minimum: float
    quartile1: float
    median: float
    quartile3: float
    maximum: float
    p05: float
    p95: float
    low: float
    high: float

    @property
    def predictability(self) -> float:
        """The 95th percentile by the median: 1 is a figure that never strays."""
        return self.p95 / self.median if self.median else math.nan


@dataclass(frozen=True)
class Verdict:
    """Whether B is better than A: the ratio of B to A with its interval, how rare such a difference is by chance, its effect."""

    word: str
    ratio: float
    low: float
    high: float
    p: float
    effect: float
    count: Tuple[int, int]
    needed: int = FEWEST
    """Number of runs of each set, or of pairs, that are needed."""

    @property
    def has_enough(self) -> bool:
        """Whether there are as many as are needed."""
        return min(self.count) >= self.needed


def summary(values: Sequence[float], seed: int = 1) -> Summary:
    """The distribution of values; `low` and `high` bound the median with 95 % confidence, by bootstrap."""
    found = np.asarray(values, dtype=float)
    p05, q1, median, q3, p95 = (float(one) for one in np.percentile(found, [5, 25, 50, 75, 95]))
    low, high = interval(found, seed)
    return Summary(
        count=len(found),
        mean=float(found.mean()),
        deviation=float(found.std(ddof=1)) if len(found) > 1 else 0.0,
        minimum=float(found.min()),
        quartile1=q1,
        median=median,
        quartile3=q3,
        maximum=float(found.max()),
        p05=p05,
        p95=p95,
        low=low,
        high=high,
    )


def median(values: Sequence[float]) -> float:
    """The median, without an interval."""
    return float(np.median(np.asarray(values, dtype=float)))


def interval(values: Union[Sequence[float], np.ndarray], seed: int = 1) -> Tuple[float, float]:
    """The interval of the median, by bootstrap."""
    found = np.asarray(values, dtype=float)
    chance = np.random.default_rng(seed)
    drawn = chance.choice(found, size=(_RESAMPLES, len(found)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return float(low), float(high)


def compare(
    a: Mapping[int, float], b: Mapping[int, float], *, is_paired: bool = False, larger_is_better: bool = True, seed: int = 1
) -> Verdict:
    """Compares the values of two sets, each by its block.

    Runs of one evaluation are interleaved, so runs of one block are pairs: a drift of the path affects both. Values are
    compared by their logarithms, so that the difference is a ratio. Chance is judged by permutation, which asks for no
    distribution.
    """
    blocks = sorted(set(a) & set(b)) if is_paired else []
    first = _logs([a[block] for block in blocks] if is_paired else list(a.values()))
    second = _logs([b[block] for block in blocks] if is_paired else list(b.values()))
    count = (len(first), len(second))
    needed = FEWEST_PAIRS if is_paired else FEWEST
    if min(count) < needed:
        return Verdict("undecided", math.nan, math.nan, math.nan, 1.0, 0.0, count, needed)
    chance = np.random.default_rng(seed)
    difference = float(second.mean() - first.mean())
    low, high = _interval_of_difference(first, second, is_paired, chance)
    result = stats.permutation_test(
        (second, first),
        lambda x, y, axis: np.mean(x, axis=axis) - np.mean(y, axis=axis),
        permutation_type="samples" if is_paired else "independent",
        vectorized=True,
        n_resamples=_RESAMPLES,
        **_source(chance),
    )
    p = float(result.pvalue)
    word = "undecided"
    if p < ALPHA and abs(difference) >= math.log1p(LEAST):
        word = "better" if (difference > 0) == larger_is_better else "worse"
    effect = _effect(first, second)
    return Verdict(word, math.exp(difference), math.exp(low), math.exp(high), p, effect, count, needed)


def by_setting(runs: Sequence[Mapping[str, object]], figure: str) -> Dict[str, Dict[int, float]]:
    """The values of a figure by setting and block, of complete runs that nothing disturbed."""
    found: Dict[str, Dict[int, float]] = {}
    for run in runs:
        value = run.get(figure)
        if run["state"] == "complete" and not run["disturbed"] and isinstance(value, (int, float)) and value > 0:
            found.setdefault(str(run["setting"]), {})[int(str(run["block"]))] = float(value)
    return dict(sorted(found.items()))


def _interval_of_difference(
    first: np.ndarray, second: np.ndarray, is_paired: bool, chance: np.random.Generator
) -> Tuple[float, float]:
    if is_paired:
        pairs = second - first
        drawn = chance.choice(pairs, size=(_RESAMPLES, len(pairs))).mean(axis=1)
    else:
        one = chance.choice(first, size=(_RESAMPLES, len(first))).mean(axis=1)
        other = chance.choice(second, size=(_RESAMPLES, len(second))).mean(axis=1)
        drawn = other - one
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def _effect(first: np.ndarray, second: np.ndarray) -> float:
    """Cliff's delta: how much more often a value of the second set is the larger one; from -1 to 1."""
    above = (second[:, None] > first[None, :]).sum()
    below = (second[:, None] < first[None, :]).sum()
    return float(above - below) / (len(first) * len(second))


def _source(chance: np.random.Generator) -> Dict[str, Any]:
    """SciPy calls the source of chance otherwise since 1.15."""
    is_new = tuple(int(part) for part in scipy.__version__.split(".")[:2]) >= (1, 15)
    return {"rng" if is_new else "random_state": chance}


def _logs(values: List[float]) -> np.ndarray:
    logs: np.ndarray = np.log(np.asarray(values, dtype=float))
    return logs


def best(summaries: Mapping[str, Summary]) -> Optional[str]:
    """The setting with the highest median."""
    return max(summaries, key=lambda name: summaries[name].median) if summaries else None
