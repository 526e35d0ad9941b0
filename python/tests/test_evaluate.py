"""An evaluation between two real nodes: its plan, its runs, what it keeps, and where it goes on."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pl = pytest.importorskip("polars", reason="the extra `evaluate` is not installed")

import godwit  # noqa: E402
from godwit.evaluate import figures, sampler, sets, stats  # noqa: E402
from godwit.evaluate import plan as plans  # noqa: E402
from godwit.evaluate.idle import busy_now  # noqa: E402
from godwit.evaluate.measure import forecast_error  # noqa: E402

DOCS = Path(__file__).resolve().parents[2] / "docs"

TINY = """
title = "Tiny"
ends = ["memory", "source", "destination", "disk"]

[[data]]
name = "memory"
memory = "8MiB"

[[data]]
name = "mixed"
spec = "20x8KiB..64KiB,1x1MiB"

[variants.tls]

[variants.none]
encryption = "tls"
streams = 2

[factors]
concurrent = [1, 2]

[[watch]]
name = "siteB"
socket = "%s"

[run]
repetitions = 2
idle_below = 1.1
tries = 1
"""


def command(sites, *arguments, check=True):
    # Without a terminal, nothing asks.
    done = subprocess.run(
        [Path(sys.executable).with_name("godwit-evaluate"), *arguments],
        env={**os.environ, "GODWIT_SOCKET": str(sites.a.socket)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


@pytest.fixture
def arguments(sites, tmp_path):
    plan = tmp_path / "tiny.toml"
    plan.write_text(TINY % sites.b.socket)
    directory = sites.a.data / "evaluate"
    ends = ["--source", "here:/data/evaluate", "--destination", "siteB:/data/evaluate", "--source-directory", str(directory)]
    return [str(plan), *ends, "--out", str(tmp_path / "out")]


def test_a_plan_runs_is_resumed_and_leaves_tables(sites, arguments, tmp_path):
    asked = command(sites, *arguments, check=False)
    assert asked.returncode != 0 and "--yes" in asked.stderr
    assert "32 runs of 16 settings" in asked.stderr and "at least" in asked.stderr
    # The command asked before it made anything.
    assert not (sites.a.data / "evaluate").exists() and not (tmp_path / "out").exists()
    assert not (sites.b.data / "evaluate").exists()
    done = command(sites, *arguments, "--yes", "--keep-data")
    out = tmp_path / "out"
    runs = pl.read_parquet(out / "runs.parquet")
    assert runs.height == 32 and set(runs["state"]) == {"complete"}
    assert len(pl.read_csv(out / "runs.csv")) == 32
    disk = runs.filter(pl.col("ends") == "disk")
    assert set(disk["files"]) == {21, 42}
    assert (runs["first_done"] <= runs["last_done"]).all()
    samples = pl.read_parquet(out / "samples.parquet")
    assert set(samples["site"]) == {"here", "siteB"}
    assert any(figure.startswith("host_cpu_seconds_per_second") for figure in samples["figure"])
    about = json.loads((out / "about.json").read_text())
    assert about["machine"]["kernel"] and about["node"]["node"]["version"] == godwit.__version__
    assert list((sites.b.data / "evaluate").iterdir()) == []
    # Only runs without a whole line are measured again, such as one that a kill cut off.
    lines = (out / "runs.jsonl").read_text().splitlines(keepends=True)
    (out / "runs.jsonl").write_text("".join(lines[:-2]) + lines[-2][:40])
    again = command(sites, *arguments, "--yes")
    assert "2 runs of 2 settings" in again.stderr, again.stderr
    assert pl.read_parquet(out / "runs.parquet").height == 32
    assert not (sites.a.data / "evaluate" / "mixed").exists()
    assert "32/32" in done.stderr and "left" in done.stderr


def test_each_block_has_each_setting_once_in_its_own_order():
    document = {
        "ends": ["disk"],
        "data": [{"name": name, "spec": "1x1MiB"} for name in "abcd"],
        "places": {"source": "here:/a", "destination": "b:/c", "source_directory": "/a"},
        "factors": {"streams": [1, 4]},
    }
    plan = plans.parse("x", document, {})
    runs = plan.runs()
    blocks = [[run.setting for run in runs if run.block == block] for block in range(1, 6)]
    assert len({tuple(block) for block in blocks}) > 1
    assert all(Counter(block) == Counter(blocks[0]) for block in blocks)
    assert len(set(blocks[0])) == 8
    assert runs == plans.parse("x", document, {}).runs()
    assert len({run.key for run in runs}) == len(runs)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"end": ["disk"]}, "unknown: end"),
        ({"ends": ["tape"]}, "ends: write some of"),
        ({"data": [{"name": "a"}]}, "either spec or memory"),
        ({"data": [{"name": "a", "spec": "1x1"}] * 2}, "one name"),
        ({"places": {"source": "here:/a"}}, "destination is missing"),
        ({"places": {"source": "a:/b", "destination": "c:/d"}}, "source_directory is missing"),
        ({"run": {"repetition": 3}}, "unknown: repetition"),
        ({"ends": ["memory"]}, "no run follows"),
        ({"watch": [{"name": "b"}]}, "either node or socket"),
        ({"watch": [{"node": "https://b"}]}, "each node has a name"),
        ({"watch": [{"name": "b", "node": "https://b", "token": "x"}]}, "unknown: token"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(change, said):
    document = {
        "data": [{"name": "a", "spec": "1x1MiB"}],
        "places": {"source": "here:/a", "destination": "b:/c", "source_directory": "/a"},
    }
    with pytest.raises(godwit.SetupError) as refused:
        plans.parse("my plan", {**document, **change}, {})
    assert said in str(refused.value)


def test_a_watched_node_of_the_command_changes_no_plan():
    places = {"source": "here:/data", "destination": "siteB:/data", "source_directory": "/data"}
    given = ["siteB=https://dtn1.siteb.org,siteB.token,AB:CD", "far=/run/far.sock"]
    plan = plans.load("quick", places, watch=given)
    assert plan.watch == (
        {"name": "siteB", "node": "https://dtn1.siteb.org", "token_file": "siteB.token", "fingerprint": "AB:CD"},
        {"name": "far", "socket": "/run/far.sock"},
    )
    assert plan.text == plans.load("quick", places).text
    # A plan with data sets of another size is another plan.
    assert plans.load("memznet", places, run={"fit": True}).text != plans.load("memznet", places).text
    for wrong in ("siteB", "=https://b", "siteB=", "b=https://b,c,d,e"):
        with pytest.raises(godwit.SetupError, match="--watch"):
            plans.load("quick", places, watch=[wrong])


def test_ready_made_plans_are_plans():
    places = {"source": "here:/data", "destination": "siteB:/data", "source_directory": "/data"}
    assert {"quick"} <= set(plans.names())
    for name in plans.names():
        plan = plans.load(name, places)
        runs = plan.runs()
        assert runs, name
        assert len({run.key for run in runs}) == len(runs), name
        # Those that are compared have a run more than a verdict needs; of a soak, only its time ends the runs.
        if name not in ("quick", "verify-network", "soak"):
            assert plan.repetitions > stats.FEWEST_PAIRS, name
    # The first and the last end of jobs of one size differ only if there are several jobs.
    sizes = plans.load("zx-sizes", places)
    assert sizes.factors["concurrent"] == [4]


def test_the_commands_and_the_plan_of_the_pages_are_accepted(tmp_path):
    from godwit.evaluate.main import _asked

    pages = [(DOCS / name).read_text() for name in ("evaluate.md", "papers.md")]
    lines = [line for page in pages for line in re.sub(r"\\\n +", "", page).splitlines()]
    found = [line.strip() for line in lines if line.startswith("    godwit-evaluate ")]
    found += [words for line in lines for words in re.findall("`(godwit-evaluate [^`]+)`", line)]
    assert len(found) >= 10, found
    for line in found:
        words = shlex.split(line, comments=True)[1:]
        asked = _asked(words)
        assert asked.command != "run" or asked.plan in plans.names(), line
    document = re.findall(r"^```toml\n(.*?)^```", pages[0], re.MULTILINE | re.DOTALL)
    assert len(document) == 1
    (tmp_path / "plan.toml").write_text(document[0])
    places = {"source": "here:/data", "destination": "siteB:/data", "source_directory": str(tmp_path)}
    assert len(plans.load(str(tmp_path / "plan.toml"), places).factors) == 2


def test_each_set_of_a_ready_made_plan_can_be_made(tmp_path):
    places = {"source": "here:/data", "destination": "siteB:/data", "source_directory": str(tmp_path)}
    specs = {data.spec for name in plans.names() for data in plans.load(name, places).data if data.spec}
    assert {"zx-mixed", "memznet-1GB", "zx-200GiB", "zx-20GiB"} <= specs
    for number, spec in enumerate(sorted(specs)):
        # So small that only its files are made, and few of them.
        command = [os.environ["GODWIT"], "gen", spec, tmp_path / str(number), "--scale", "1e-9"]
        made = subprocess.run(command, check=False, capture_output=True, text=True)
        assert made.returncode == 0, f"{spec}: {made.stderr}"


def test_the_size_of_a_set_is_known_before_it_is_made(tmp_path):
    for number, (spec, scale) in enumerate((("tree:200x100..30kB,2000x~8KiB", 1), ("zx-mixed", 0.0005))):
        places = {"source": "here:/a", "destination": "b:/c", "source_directory": str(tmp_path)}
        plan = plans.parse("x", {"data": [{"name": f"set{number}", "spec": spec}]}, places)
        assert sets.make(plan, plan.data[0], scale)[1] == sets.foretell(spec, plan.seed, scale)
    with pytest.raises(godwit.SetupError) as refused:
        sets.foretell("nosuch:5", 1, 1)
    assert "nosuch" in refused.value.message


def test_sizes_are_read():
    assert [sets.parse_size(text) for text in ("5", "1kB", "64GiB", "1.5MB")] == [5, 1000, 64 << 30, 1500000]
    for text in ("", "1X", "GiB", "-1"):
        with pytest.raises(godwit.SetupError):
            sets.parse_size(text)


def test_counters_become_rates():
    then = sampler.figures('godwit_host_x_total{core="0"} 5\ngodwit_jobs 3\n# c\ngodwit_host_memory_bytes 7\n')
    now = sampler.figures('godwit_host_x_total{core="0"} 11\ngodwit_host_memory_bytes 8\n')
    assert sampler.rates(then, now, 2.0) == {'host_x_per_second{core="0"}': 3.0, "host_memory_bytes": 8.0}


def test_the_share_of_busy_processors():
    texts = iter(("cpu 10 0 10 80 0 0 0 0 0 0\n", "cpu 35 0 10 155 0 0 0 0 0 0\n"))
    assert busy_now(0, lambda: next(texts)) == pytest.approx(0.25)


def test_the_error_of_a_forecast():
    assert forecast_error({"forecast": {"error": -0.25}}) == 0.25
    assert forecast_error({}) is None


def mark(out, is_disturbed):
    """Marks the recorded runs. A busy machine may have disturbed any of them, and the test judges the same runs each time."""
    lines = [json.loads(line) for line in (out / "runs.jsonl").read_text().splitlines()]
    marked = [{**run, "disturbed": is_disturbed(run)} for run in lines]
    (out / "runs.jsonl").write_text("".join(json.dumps(run) + "\n" for run in marked))
    return marked


def verdicts(printed):
    return Counter(line.split(": ", 1)[1] for line in printed.stdout.splitlines())


def test_a_report_needs_no_other_file_and_follows_its_theme(sites, arguments, tmp_path):
    out = tmp_path / "out"
    command(sites, *arguments, "--yes", "--scale", "0.5")
    assert (out / "report.html").exists()
    # Of each pair from disk to disk one run is disturbed, of the pairs from memory one run of each block. All others count.
    disturbed = {("disk", "tls", 1), ("memory", "tls", 1), ("memory", "none", 2)}
    runs = mark(out, lambda run: (run["ends"], run["variant"], run["block"]) in disturbed)
    assert len(runs) == 32 and {run["state"] for run in runs} == {"complete"}
    command(sites, "report", str(out))
    page = (out / "report.html").read_text()
    assert "32 runs, 6 disturbed, 0 not complete" in page
    assert "The lowest ceiling is" in page and "Disk to disk reaches" in page
    assert page.count("<svg") >= 4 and "currentColor" in page and "#010203" not in page
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)
    assert "prefers-color-scheme: dark" in page and "@media print" in page
    # A pair counts if both of its runs do.
    said = "undecided: {0} and {0} runs, and at least {1} are needed"
    printed = command(sites, "compare", str(out), "--settings", "tls,none")
    assert verdicts(printed) == {said.format(n, "7 pairs"): pairs for n, pairs in ((2, 4), (1, 2), (0, 2))}, printed.stdout
    printed = command(sites, "compare", str(out), str(out))
    assert verdicts(printed) == {said.format(n, "5 of each"): settings for n, settings in ((2, 10), (1, 6))}, printed.stdout
    printed = command(sites, "compare", str(out), str(out), "--json")
    assert {one["word"] for one in json.loads(printed.stdout)} == {"undecided"}
    wrong = command(sites, "compare", str(out), "--settings", "tls,nosuch", check=False)
    assert wrong.returncode != 0 and "no two settings differ" in wrong.stderr
    other = command(sites, *arguments, "--yes", "--destination", "siteB:/data/other", check=False)
    assert other.returncode != 0 and "results of another plan" in other.stderr


def test_a_limited_path_is_named_with_its_ceiling(sites, client, arguments):
    client.limits.put("site", "siteB", {"rate": "20MB/s"})
    try:
        done = command(sites, "verify-network", *arguments[1:], "--yes", "--busy", "--scale", "0.005")
    finally:
        client.limits.remove("site", "siteB")
    runs = [json.loads(line) for line in (Path(arguments[-1]) / "runs.jsonl").read_text().splitlines()]
    forth = [run["bytes_per_second"] for run in runs if run["ends"] == "memory"]
    assert sorted(forth)[1] == pytest.approx(20e6, rel=0.05)
    assert {run["bottleneck"] for run in runs if run["ends"] == "memory"} == {"limit"}
    assert "limit limited" in done.stdout and "godwit node limits" in done.stdout


def test_the_command_that_goes_on_names_the_folder_of_the_results():
    from godwit.evaluate.main import _again

    given = ["run", "quick", "--source", "here:/a b"]
    printed = "godwit-evaluate run quick --source 'here:/a b'"
    assert _again(argparse.Namespace(given=given, out=None), Path("evaluation-1")) == f"{printed} --out evaluation-1"
    assert _again(argparse.Namespace(given=given, out=Path("x")), Path("x")) == printed


def test_cores_over_time_need_no_order():
    cores = {"core 0": [(1e9, 0.5), (1e9 - 3, 0.1)], "core 1": [(1e9 - 1, 0.2), (1e9 - 5, 0.4)]}
    assert "<svg" in figures.heats({"x": cores})
