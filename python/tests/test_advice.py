"""The advice: each sentence, where it applies and where it does not."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("scipy", reason="the extra `evaluate` is not installed")

from godwit.evaluate import advice, stats


def runs(ends: str, *rates: float, **others: Any) -> list[dict[str, Any]]:
    usual = {"state": "complete", "disturbed": False, "bottleneck": None, "resent_bytes": 0, "bytes": 1000}
    return [
        {**usual, "setting": f"a {ends}", "block": number, "ends": ends, "bytes_per_second": rate, **others}
        for number, rate in enumerate(rates)
    ]


def sentences(found: list[dict[str, Any]]) -> list[str]:
    rates = stats.by_setting(found, "bytes_per_second")
    return advice.sentences(found, {name: stats.summary([*one.values()]) for name, one in rates.items()})


def test_nothing_stands_out():
    assert sentences(runs("memory", 1e8) + runs("source", 1e8) + runs("disk", 0.95e8)) == ["Nothing stands out."]


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ("source storage", "--setting readers=8"),
        ("destination storage", "--setting writers=8"),
        ("source CPU", "All cores of the source are busy. In a trusted network, try --setting encryption=none"),
        ("destination CPU", "All cores of the destination are busy. In a trusted network, try --setting encryption=none"),
        ("network", "run godwit doctor"),
        ("limit", "godwit node limits"),
    ],
)
def test_each_stage_that_limits_has_what_mends_it(stage, said):
    found = sentences(runs("disk", 1e8, 1e8, bottleneck=stage))
    assert len(found) == 1 and found[0].startswith(f"{stage} limited 2 runs") and said in found[0]
    # Storage alone is limited by that storage: nothing is to be mended.
    assert sentences(runs("source", 1e8, bottleneck=stage)) == ["Nothing stands out."]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ({"network_resent": 0.01}, "--setting congestion=bbr"),
        ({"network_round_trip_seconds": 0.2, "network_round_trip_least_seconds": 0.1}, "The path is full"),
        # 10 Gbit/s in 100 ms, twice, as a power of two.
        (
            {"network_window_limited": 0.5, "network_round_trip_least_seconds": 0.1},
            "at the receiving end: sysctl -w net.ipv4.tcp_rmem='4096 131072 268435456'",
        ),
        (
            {"network_buffer_limited": 0.5, "network_round_trip_least_seconds": 0.001},
            "at the sending end: sysctl -w net.ipv4.tcp_wmem='4096 16384 16777216'",
        ),
        ({"network_busy": 1.0}, "run godwit doctor"),
    ],
)
def test_the_network_has_what_mends_its_cause(path, said):
    assert said in sentences(runs("disk", 1e8, 1e8, bottleneck="network", path=path))[0]


def test_a_node_without_processor_time_has_what_mends_its_cgroup():
    sites = {"source": "here", "destination": "siteB"}
    held = {"throttled": {"here": 0.9}, "sites": sites}
    found = sentences(runs("disk", 1e8, 1e8, bottleneck="network", **held))
    assert len(found) == 1 and found[0].startswith("source CPU limited 2 runs")
    assert "systemctl set-property UNIT CPUQuota=" in found[0]
    found = sentences(runs("disk", 1e8, bottleneck="source CPU", throttled={"here": 0.1}, sites=sites))
    assert "All cores of the source are busy" in found[0] and "cgroup" not in found[0]


def test_the_two_stages_that_limit_most_are_named():
    found = runs("disk", 1e8, 1e8, 1e8, bottleneck="network") + runs("memory", 1e8, 1e8, bottleneck="limit")
    found += runs("back", 1e8, bottleneck="source CPU")
    assert [one.split(" limited")[0] for one in sentences(found)] == ["network", "limit"]


def test_disk_to_disk_far_below_its_ceilings():
    found = sentences(runs("memory", 2e8) + runs("source", 1e8) + runs("disk", 0.5e8))
    assert found[0].startswith("Disk to disk stays 50% below the lowest ceiling")


def test_rates_that_stray():
    found = sentences(runs("disk", 1e8, 1e8, 1e8, 1e8, 0.2e8))
    assert found[0].startswith("a disk: one run in twenty is slower than")
    # With fewer runs, nothing can be said about the slowest of twenty.
    assert sentences(runs("disk", 1e8, 1e8, 0.2e8)) == ["Nothing stands out."]


def test_bytes_that_were_sent_again():
    assert "0.50% of the bytes were sent again" in sentences(runs("memory", 1e8, resent_bytes=5))[0]
    assert sentences(runs("memory", 1e8, resent_bytes=1)) == ["Nothing stands out."]
    queue = {"network_resent": 0.005, "network_round_trip_seconds": 0.2, "network_round_trip_least_seconds": 0.1}
    assert sentences(runs("memory", 1e8, resent_bytes=5, path=queue)) == ["Nothing stands out."]


def test_the_headline_names_the_lowest_ceiling_and_what_is_reached():
    found = runs("memory", 2e8) + runs("source", 1e8) + runs("disk", 0.5e8)
    assert "Disk to disk reaches 50.0 MB/s, 50% of the lowest." in advice.headline(found)
    assert "No path carries more than its ceiling" in advice.headline(runs("memory", 1e8) + runs("disk", 2e8))
    assert advice.headline(runs("disk", 1e8)) == "Disk to disk gives 100.0 MB/s."
    assert advice.headline([]) == "No run gives a rate."
