"""The statistics: what they say of sets whose truth is known."""

from __future__ import annotations

import math

import pytest

np = pytest.importorskip("numpy", reason="the extra `evaluate` is not installed")
pytest.importorskip("scipy", reason="the extra `evaluate` is not installed")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from scipy.stats import permutation_test  # noqa: E402

from godwit.evaluate import stats  # noqa: E402

RUNS = 12
# The spread of the rates of one setting. With a larger spread, twelve runs are too few to find a difference of five per cent.
NOISE = 0.025


def rates(chance, mean=1.0, count=RUNS):
    usual = mean * np.exp(chance.normal(0, NOISE, count))
    return dict(enumerate(usual))


def drifting(chance, ratio):
    """Two settings in pairs, while the path itself becomes slower by half."""
    drift = np.linspace(1.0, 0.5, RUNS)
    return [dict(enumerate(drift * np.array(list(rates(chance, mean).values())))) for mean in (1.0, ratio)]


@pytest.mark.parametrize("seed", range(2))
def test_a_set_is_hardly_ever_different_from_itself(seed):
    chance = np.random.default_rng(seed)
    words = [stats.compare(rates(chance), rates(chance)).word for _ in range(100)]
    assert sum(word != "undecided" for word in words) <= 5
    words = [stats.compare(*drifting(chance, 1.0), is_paired=True).word for _ in range(100)]
    assert sum(word != "undecided" for word in words) <= 5


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("ratio", "word"), [(1.05, "better"), (1 / 1.05, "worse")])
def test_five_per_cent_are_found(seed, ratio, word):
    chance = np.random.default_rng(seed)
    found = [stats.compare(rates(chance), rates(chance, ratio)).word for _ in range(100)]
    assert found.count(word) >= 90
    found = [stats.compare(*drifting(chance, ratio), is_paired=True).word for _ in range(100)]
    assert found.count(word) >= 90


def test_less_time_is_better():
    chance = np.random.default_rng(1)
    assert stats.compare(rates(chance), rates(chance, 0.8), larger_is_better=False).word == "better"


def test_few_runs_and_small_differences_decide_nothing():
    same = dict.fromkeys(range(30), 100.0)
    assert stats.compare({0: 1.0, 1: 1.0}, {0: 2.0, 1: 2.0}).word == "undecided"
    assert stats.compare(same, dict.fromkeys(range(30), 100.5)).word == "undecided"
    assert stats.compare(same, dict.fromkeys(range(30), 120.0)).word == "better"


@pytest.mark.parametrize(("is_paired", "fewest"), [(False, stats.FEWEST), (True, stats.FEWEST_PAIRS)])
def test_the_fewest_runs_that_are_asked_for_decide(is_paired, fewest):
    def twice(count):
        """The second set has double rates, and each stray a little."""
        values = [{block: rate * (1 + block / 1000) for block in range(count)} for rate in (1.0, 2.0)]
        return stats.compare(*values, is_paired=is_paired)

    assert twice(fewest).word == "better" and twice(fewest).has_enough
    assert twice(fewest - 1).word == "undecided" and not twice(fewest - 1).has_enough
    # With fewer ones, not even this difference is rare enough by chance.
    kind = "samples" if is_paired else "independent"
    few = [np.log([rate * (1 + block / 1000) for block in range(fewest - 1)]) for rate in (2.0, 1.0)]
    chance = permutation_test(few, lambda x, y: np.mean(x) - np.mean(y), permutation_type=kind, vectorized=False)
    assert chance.pvalue >= stats.ALPHA


VALUES = st.lists(st.floats(1e-3, 1e12), min_size=stats.FEWEST, max_size=20)


@settings(max_examples=40, deadline=None)
@given(VALUES, VALUES)
def test_the_order_of_the_sets_only_turns_the_verdict_round(first, second):
    a, b = dict(enumerate(first)), dict(enumerate(second))
    one, other = stats.compare(a, b), stats.compare(b, a)
    assert one.ratio * other.ratio == pytest.approx(1)
    assert one.effect == -other.effect and abs(one.effect) <= 1
    assert one.low <= one.ratio * (1 + 1e-9) and one.ratio <= one.high * (1 + 1e-9)
    if one.word == "better":
        assert one.ratio > 1 and one.p < stats.ALPHA


@settings(max_examples=60, deadline=None)
@given(VALUES)
def test_a_summary_is_in_order(values):
    summary = stats.summary(values)
    inner = [summary.minimum, summary.p05, summary.quartile1, summary.median, summary.quartile3, summary.p95, summary.maximum]
    assert all(one <= other * (1 + 1e-9) for one, other in zip(inner, inner[1:]))
    assert summary.low <= summary.median * (1 + 1e-9) and summary.median <= summary.high * (1 + 1e-9)
    assert summary.count == len(values) and not math.isnan(summary.predictability)


def test_only_complete_and_undisturbed_runs_count():
    run = {"state": "complete", "disturbed": False, "setting": "a", "block": 1, "bytes_per_second": 5.0}
    runs = [run, {**run, "block": 2, "state": "failed"}, {**run, "block": 3, "disturbed": True}]
    assert stats.by_setting(runs, "bytes_per_second") == {"a": {1: 5.0}}
