"""The report: each of its parts, with the data that it draws and without."""

from __future__ import annotations

import platform
import re
from typing import Any

import pytest

pytest.importorskip("polars", reason="the extra `evaluate` is not installed")

from godwit.evaluate import figures, machine, report
from godwit.evaluate.main import main
from godwit.evaluate.results import Results

ABOUT = {
    "title": "A site",
    "source": "here:/data",
    "destination": "far:/data",
    "plan": "title = 'A site'",
    "machine": {
        "kernel": "6.1",
        "processor": "P",
        "cores": 8,
        "interrupts": [{"interrupt": "9", "name": "eth0", "cores": "0-3"}],
    },
    "node": {"cluster": {"nodes": [{"name": "n1", "version": "0.1.0", "resources": {"cores": 8}}]}},
    "watched": {
        "far": {
            "cluster": {
                "nodes": [
                    {
                        "name": "dtn2",
                        "version": "0.1.0",
                        "resources": {
                            "cores": 16,
                            "memory_bytes": 1 << 36,
                            "interfaces": [{"name": "ens1", "bits_per_second": 100e9, "addresses": []}],
                        },
                    }
                ]
            }
        }
    },
}

RUN: dict[str, Any] = {
    "data": "a",
    "ends": "disk",
    "variant": "tls",
    "state": "complete",
    "disturbed": False,
    "bottleneck": "network",
    "bytes": 10**9,
    "files": 10,
    "seconds": 10.0,
    "first_done": 8.0,
    "last_done": 10.0,
    "bytes_per_second": 1e8,
    "peak_bytes_per_second": 2e8,
    "resent_bytes": 0,
    "joules_per_terabyte": None,
    "forecast_error": None,
    "channels": [],
    "nodes": [],
    "sites": {"source": "here", "destination": "far"},
    "busy_before": 0.0,
    "sampling_seconds": 0.01,
    "factors": {},
    "path": {},
}

LABELS = 'host_interface_bytes_per_second{interface="%s",direction="received"}'
PACKETS = 'host_interface_packets_per_second{interface="%s",direction="%s"}'


def runs(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for number, change in enumerate(changes):
        run = {**RUN, "block": number, **change}
        words = [run["data"], run["ends"], run["variant"], *(f"{name}={value}" for name, value in run["factors"].items())]
        run["setting"] = " ".join(words)
        found.append({**run, "key": f"{number}: {run['setting']}"})
    return found


def samples(run: dict[str, Any], site: str, figure: str, *values: float) -> list[dict[str, Any]]:
    return [{"key": run["key"], "site": site, "at": 1000.0 + at, "figure": figure, "value": one} for at, one in enumerate(values)]


def part(page: str, title: str) -> str:
    """The text of the section with this title."""
    found = re.search(rf"<h2>{re.escape(title)}</h2>(.*?)</section>", page, re.DOTALL)
    assert found, f"{title} is none of {re.findall('<h2>(.*?)</h2>', page)}"
    return found[1]


SWEEP = [{"factors": {"streams": streams, "concurrent": jobs}} for streams in ("1", "4", "16") for jobs in ("1", "2")]


@pytest.mark.parametrize(("factor", "title"), [("streams", "streams"), ("concurrent", "concurrent jobs")])
def test_hosts_against_streams_and_against_concurrency(factor, title):
    made = runs(*SWEEP)
    taken = []
    for run in made:
        taken += samples(run, "far", "host_context_switches_per_second", 1000.0 * int(run["factors"][factor]), 10.0)
        taken += samples(run, "far", "host_interrupts_per_second", 5.0, 6.0)
        for way in ("received", "sent"):
            taken += samples(run, "far", PACKETS % ("eth0", way), 100.0, 120.0)
            taken += samples(run, "far", PACKETS % ("lo", way), 9e9, 9e9)
        taken += samples(run, "here", "host_network_received_packets_per_second", 7.0)
        taken += samples(run, "here", "host_network_sent_packets_per_second", 9.0)
        taken += samples(run, "far", "host_tcp_sack_recoveries_per_second", 1.0)
    text = part(report.page(ABOUT, made, taken), f"Context switches, interrupts and packets against {title}")
    titles = re.findall("<h3>(.*?)</h3>", text)
    assert titles == [
        "far: context switches",
        "far: interrupts",
        "far: packets",
        "here: packets",
        "far: SACK recoveries",
    ]
    assert text.count("<svg") == 5
    # The loopback does not count, and the other factor is held at its least value.
    assert "9G" not in text and re.search(r"With (streams|concurrent) 1\.", text)
    assert "Softirqs, segments sent again: not sampled" in text
    # A report without any sample says so, too.
    text = part(report.page(ABOUT, made, []), f"Context switches, interrupts and packets against {title}")
    assert "<svg" not in text and "packets" in text and "not sampled" in text
    text = part(report.page(ABOUT, runs({}), []), f"Context switches, interrupts and packets against {title}")
    assert "<svg" not in text and "memznet is the plan that varies it" in text


def test_packets_are_the_sum_of_both_ways():
    made = runs({})
    from godwit.evaluate.hosts import Hosts

    taken = samples(made[0], "far", "host_network_received_packets_per_second", 10.0, 20.0)
    taken += samples(made[0], "far", "host_network_sent_packets_per_second", 100.0, 100.0)
    assert Hosts(made, taken).mean(made[0]["setting"], "far", "packets") == 115
    taken += samples(made[0], "far", PACKETS % ("eth0", "received"), 3.0, 5.0) + samples(
        made[0], "far", PACKETS % ("eth1", "sent"), 1.0
    )
    assert Hosts(made, taken).mean(made[0]["setting"], "far", "packets") == 5


def test_the_rate_against_each_factor_has_a_line_for_each_value_of_the_others():
    made = runs(*SWEEP)
    page = report.page(ABOUT, made, [])
    assert "concurrent=1" in part(page, "Rate against streams") and "concurrent=2" in part(page, "Rate against streams")
    assert "streams=16" in part(page, "Rate against concurrent")
    assert "Rate against" not in report.page(ABOUT, runs({}), [])


def test_rate_and_duration_against_the_size_of_a_file():
    title = "Rate and duration against the size of a file"
    made = runs(*({"data": f"d{files}", "files": files} for files in (1, 100, 10000)))
    text = part(report.page(ABOUT, made, []), title)
    assert text.count("<svg") == 2 and "first job done" in text and "last job done" in text
    text = part(report.page(ABOUT, runs({}), []), title)
    assert "<svg" not in text and "zx-sizes varies it" in text


def test_each_interface_over_time_at_the_receiving_side():
    title = "Each interface over time, at the receiving side"
    made = runs({})
    taken = samples(made[0], "far", LABELS % "ens1", 1e6, 2e6, 3e6) + samples(made[0], "here", LABELS % "eno9", 1.0, 2.0)
    text = part(report.page(ABOUT, made, taken), title)
    assert "ens1 received" in text and "<svg" in text
    assert "eno9" not in text and "far, a disk tls" in text
    text = part(report.page(ABOUT, made, []), title)
    assert "<svg" not in text and "Not sampled" in text
    # Of a divided job, the samples name the nodes of the site.
    taken = [one for node in ("m1", "m2") for one in samples(made[0], f"far: {node}", LABELS % "ens1", 1e6, 2e6)]
    text = part(report.page(ABOUT, made, taken), title)
    assert "m1 ens1 received" in text and "m2 ens1 received" in text


def test_energy_for_each_cipher():
    title = "Energy per terabyte, for each cipher"
    made = runs({"variant": "aes", "joules_per_terabyte": 5000.0}, {"variant": "chacha20", "joules_per_terabyte": 9000.0})
    text = part(report.page(ABOUT, made, []), title)
    assert "aes (disk)" in text and "chacha20 (disk)" in text and "kJ per TB" in text
    text = part(report.page(ABOUT, runs({}), []), title)
    assert "<svg" not in text and "RAPL" in text


def test_the_evenness_of_nodes_and_of_interfaces():
    even = [{"name": "n1", "share": 0.5}, {"name": "n2", "share": 0.5}]
    uneven = [{"name": "e1", "bytes_per_second": 3e6}, {"name": "e2", "bytes_per_second": 1e6}]
    page = report.page(ABOUT, runs({"nodes": even, "channels": uneven}), [])
    assert "1.000" in part(page, "Evenness of nodes") and "n1 50%, n2 50%" in part(page, "Evenness of nodes")
    assert "0.800" in part(page, "Evenness of interfaces") and "e1 75%, e2 25%" in part(page, "Evenness of interfaces")
    made = runs({})
    taken = samples(made[0], "far", LABELS % "ens1", 3e6, 3e6) + samples(made[0], "far", LABELS % "ens2", 1e6, 1e6)
    assert "0.800" in part(report.page(ABOUT, made, taken), "Evenness of interfaces")
    page = report.page(ABOUT, made, [])
    assert "No job was divided" in part(page, "Evenness of nodes")
    assert "No job had more than one path" in part(page, "Evenness of interfaces")


def test_the_evenness_against_the_number_of_nodes():
    pair = [{"name": "n1", "share": 0.75}, {"name": "n2", "share": 0.25}]
    three = [{"name": f"n{number}", "share": 1 / 3} for number in range(3)]
    made = runs(
        {"factors": {"nodes": "1", "streams": "4"}},
        {"factors": {"nodes": "2", "streams": "4"}, "nodes": pair},
        {"factors": {"nodes": "3", "streams": "4"}, "nodes": three},
    )
    page = report.page(ABOUT, made, [])
    text = part(page, "Evenness of nodes")
    assert "Evenness against nodes" in text and text.count("<svg") == 1 and "a disk tls streams=4" in text
    assert "0.800" in text and "1.000" in text
    assert "<svg" in part(page, "Rate against nodes")
    # The plan of ABOUT does not vary the number of nodes.
    assert "against nodes" not in report.page(ABOUT, runs({"nodes": pair}), [])


def test_the_peak_beside_the_average():
    text = part(report.page(ABOUT, runs({}), []), "Peak beside average")
    assert "average" in text and "peak" in text and "<svg" in text
    assert "below its average" not in text
    # A peak that was missed is shown as it is.
    assert "below its average" in part(report.page(ABOUT, runs({"peak_bytes_per_second": 5e7}), []), "Peak beside average")
    page = report.page(ABOUT, runs({"peak_bytes_per_second": 0.0}), [])
    assert "No run was long enough" in part(page, "Peak beside average")
    heads = re.findall("<th>(.*?)</th>", part(page, "Rates of each setting"))
    assert "peak" in heads and "median" in heads


def test_the_table_of_rates_has_percentiles():
    made = runs(*({"bytes_per_second": 1e6 * rate} for rate in range(1, 102)))
    text = part(report.page(ABOUT, made, []), "Rates of each setting")
    heads, cells = (re.findall(f"<{tag}>(.*?)</{tag}>", text) for tag in ("th", "td"))
    found = dict(zip(heads, cells))
    assert (found["5th percentile"], found["median"], found["95th percentile"]) == ("6.0 MB/s", "51.0 MB/s", "96.0 MB/s")
    assert len(heads) == len(cells) and heads.index("5th percentile") < heads.index("median") < heads.index("95th percentile")


def test_the_error_of_the_forecast():
    title = "Error of the forecast after a tenth"
    text = part(report.page(ABOUT, runs({"forecast_error": 0.25}, {"forecast_error": 0.05}), []), title)
    assert "<svg" in text and "25.0 %" in text and "15.0 %" in text
    assert "No node foretold" in part(report.page(ABOUT, runs({}), []), title)


def test_a_heat_map_of_cores_for_each_setting():
    title = "Cores over time, for each setting"
    made = runs({"variant": "none"}, {"variant": "tls"})
    taken = []
    for run in made:
        taken += samples(run, "here", "host_cpu_core_0", 0.1, 0.9) + samples(run, "here", "host_cpu_core_1", 0.2, 0.3)
        for mode, share in (("idle", 0.25), ("iowait", 0.25), ("user", 0.5)):
            taken += samples(run, "far", f'host_cpu_seconds_per_second{{core="0",mode="{mode}"}}', share, share)
    text = part(report.page(ABOUT, made, taken), title)
    assert re.findall("<h3>(.*?)</h3>", text) == ["far", "here"]
    assert text.count("a disk none") == 2 and text.count("a disk tls") == 2
    from godwit.evaluate.hosts import Hosts

    assert Hosts(made, taken).cores("a disk tls", "far") == {"0": [(1000.0, 0.5), (1001.0, 0.5)]}
    assert "No core was sampled" in part(report.page(ABOUT, made, []), title)


def test_a_matrix_has_a_table_of_all_pairs():
    pairs = [("here", "b"), ("b", "here"), ("b", "c"), ("c", "b"), ("here", "c"), ("c", "here")]
    made = []
    for number, (source, target) in enumerate(pairs, 1):
        rate = number * 1e6
        made += runs({"is_pair": True, "sites": {"source": source, "destination": target}, "bytes_per_second": rate})
        made[-1]["setting"] = f"{source}>{target} a disk tls"
    text = part(report.page(ABOUT, made, []), "Site by site")
    assert re.findall("<th>(.*?)</th>", text) == ["from ↓ to →", "b", "c", "here"]
    assert all(f"{number}.0 MB/s (" in text for number in range(1, 7))
    assert "Site by site" not in report.page(ABOUT, runs({}), [])


def test_machines_and_what_is_missing_of_them():
    text = part(report.page(ABOUT, runs({}), []), "Machines of both ends")
    assert "far: dtn2" in text and "ens1 100 Gbit/s" in text and "kernel 6.1" in text
    assert "eth0 to 0-3" in text and "are missing, because" in text


def test_another_machine_describes_itself_for_the_report(tmp_path, capsys):
    main(["machine"])
    described = tmp_path / "far.json"
    described.write_text(capsys.readouterr().out)
    out = tmp_path / "out"
    Results(out).begin(ABOUT)
    main(["report", str(out), "--machine", f"far={described}"])
    kernel = f"far: kernel {platform.release()}"
    text = part((out / "report.html").read_text(), "Machines of both ends")
    assert "This machine: kernel 6.1" in text and kernel in text and "Of further machines" in text
    assert "net.ipv4.tcp_rmem" in text
    # It stays in the results.
    main(["report", str(out)])
    assert kernel in (out / "report.html").read_text()


def test_the_description_of_a_machine_has_file_systems_of_each_kind():
    kept = ["/dev/sda1 / ext4 rw", "10.0.0.1@tcp:/fs /lustre lustre rw", "gpfs0 /gpfs gpfs rw", "tank /tank zfs rw"]
    left = ["proc /proc proc rw 0 0", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0", ""]
    assert machine.mounts("\n".join([*left, *kept])) == kept


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("far", "write NAME=FILE"),
        ("far=none.json", "cannot read"),
        ("far=wrong.json", "is not what godwit-evaluate machine prints"),
    ],
)
def test_a_file_that_describes_no_machine_is_refused(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.json").write_text("[1, 2]")
    Results(tmp_path / "out").begin(ABOUT)
    with pytest.raises(SystemExit, match=said):
        main(["report", "out", "--machine", words])


def test_variants_left_out_scaled_or_loaded_are_in_the_method():
    about = {**ABOUT, "left_out": {"none": "the node asks for TLS"}, "scales": {"a": 0.5}, "idle_below": 1.1}
    text = part(report.page(about, runs({"busy_before": 0.9}), []), "Method and limits")
    assert "The variant none was left out: the node asks for TLS" in text
    assert "The set a was scaled by 0.5" in text and "Other load was allowed: before 1 of 1 runs" in text


def test_the_method_names_the_machines_that_were_checked():
    made = runs({"idle_of": ["this machine"], "steal_of": ["far", "here"]}, {"idle_of": [], "steal_of": []})
    text = part(report.page(ABOUT, made, []), "Method and limits")
    assert "Checked for other load before each run: this machine. Checked for stolen time: far, here." in text
    assert "other load before each run: none. Checked for stolen time: none." in part(
        report.page(ABOUT, runs({}), []), "Method and limits"
    )
    assert "a node spends at most 0.5 % of a core on its answers" in text


def test_the_waterfall_ends_with_a_bar_for_each_variant():
    def bars(*changes: dict[str, Any]) -> list[str]:
        """The names of the bars, the topmost first. The axis of rates has none but numbers."""
        text = part(report.page(ABOUT, runs(*changes), []), "What the site gives").split("</svg>")[0]
        return [name for name in re.findall(r"<text[^>]*>(.*?)</text>", text) if re.match("(memory|disk) to", name)][::-1]

    both = [{"ends": ends, "variant": variant} for ends in ("memory", "disk") for variant in ("tls", "none")]
    assert bars(*both) == ["memory to memory", "disk to disk", "disk to disk, tls", "disk to disk, none"]
    # Without disk to disk, memory to memory shows it; with one variant, there is nothing to show.
    assert bars(*both[:2]) == ["memory to memory", "memory to memory, tls", "memory to memory, none"]
    assert bars({}) == ["disk to disk"]


def test_a_report_without_a_run_that_counts_says_so():
    page = report.page(ABOUT, runs({"disturbed": True}), [])
    assert "there is nothing to show" in page and "<svg" not in page


def test_figures_of_many_kinds_are_drawn():
    assert "<svg" in figures.boxes({"x": [1.0, 2.0, 3.0]}, "things")
    assert "<svg" in figures.lines({"x": [(at, at) for at in range(100)]}, "s", "y")
    assert "524k" in figures.lines({"x": [(1 << 19, 1.0), (1 << 20, 2.0)]}, "bytes", "y", log_x=True)


def test_names_that_others_chose_are_neither_formulas_nor_turn_the_text():
    name = "eth$\\x{$\u202e0"
    drawn = figures.lines({name: [(0.0, 1.0), (1.0, 2.0)]}, "s", "MB/s")
    assert "\u202e" not in drawn and "\\u202e0" in drawn
    assert "\u202e" not in report.page({**ABOUT, "title": name}, [], [])
