"""Tests effects of a run beside its rate, with real nodes: caches, leftovers, cost at the nodes; refused variants, matrices."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("polars", reason="the extra `evaluate` is not installed")

from conftest import BINARY, Node, directory

import godwit
from godwit.evaluate import measure, sets
from godwit.evaluate import plan as plans
from godwit.evaluate.campaign import Campaign
from godwit.evaluate.cgroups import Throttling
from godwit.evaluate.main import main
from godwit.evaluate.results import Results
from godwit.evaluate.sampler import Sampler

# Largest cost of sampling at a node, as a share of a core. A debug build is not optimised; `.ci/release` has the shipped program.
COST_MAX = 0.02 if "debug" in BINARY.parts else 0.005


def plan(sites: Any, tmp_path: Path, name: str, **changes: Any) -> Any:
    places = {
        "source": f"here:/data/{name}",
        "destination": f"siteB:/data/{name}",
        "source_directory": str(sites.a.data / name),
    }
    document = {"data": [{"name": "set", "spec": "4x256KiB"}], "run": {"repetitions": 1, "idle_below": 1.1, "tries": 1}}
    return plans.parse(name, {**document, **changes}, places)


def resident(path: Path) -> int:
    printed = subprocess.run(
        ["fincore", "--bytes", "--noheadings", "--output", "RES", path], capture_output=True, text=True, check=True
    )
    return int(printed.stdout)


def test_cold_drops_a_set_from_the_cache(monkeypatch, sites, client, tmp_path):
    if not shutil.which("fincore"):
        pytest.skip("it needs fincore (util-linux)")
    # In memory, nothing drops: it needs a file system on a disk.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        document = {"data": [{"name": "set", "spec": "2x1MiB"}], "run": {"cold": True}}
        on_disk = plans.parse("x", document, {"source": "here:/a", "destination": "b:/c", "source_directory": made})
        sets.make(on_disk, on_disk.data[0], 1.0)
        files = [path for path in (Path(made) / "set").rglob("*") if path.is_file()]
        for path in files:
            path.read_bytes()
        if not sum(map(resident, files)):
            pytest.skip("the file system of /var/tmp has no cache of pages")
        sets.drop_from_cache(on_disk, "set")
        assert sum(map(resident, files)) == 0
    # A run drops it if the plan says so, and no other run does.
    dropped: list[str] = []
    monkeypatch.setattr(sets, "drop_from_cache", lambda plan, name: dropped.append(name))
    for cold, expected in ((False, []), (True, ["set"])):
        tried = plan(sites, tmp_path, f"cold-{cold}", run={"cold": cold})
        one(client, tried)
        assert dropped == expected


def one(client: godwit.Client, tried: Any) -> dict[str, Any]:
    size = measure.Size(*sets.make(tried, tried.data[0], 1.0))
    try:
        return measure.measure(client, tried, tried.runs()[0], size, Sampler({}), Throttling({}))[0]
    finally:
        sets.remove(tried)


def test_a_failed_run_leaves_no_data(sites, client, tmp_path):
    # At 100 kB/s, the run is not done within its time.
    tried = plan(sites, tmp_path, "failed", variants={"slow": {"limit": "100kB/s"}}, run={"timeout": 1.5})
    row = one(client, tried)
    assert row["state"] == "timeout" and row["seconds"] < 30
    assert list((sites.b.data / "failed").iterdir()) == []
    assert {job.state for job in client.all_jobs(label="evaluate 1: set disk slow")} == {"cancelled"}


class Slow:
    """A job that takes so long to wait for as it is given time, and never ends."""

    def __init__(self) -> None:
        self.given: list[float] = []
        self.has_ended = False
        self.cancelled = 0

    def wait(self, timeout: float, **_: object) -> Slow:
        self.given.append(timeout)
        if self.has_ended:
            return self
        raise godwit.StillRunningError("x", timeout)

    def refresh(self) -> Slow:
        return self

    def cancel(self, _: str) -> None:
        self.cancelled += 1


def test_jobs_at_once_have_one_deadline(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(measure.time, "monotonic", lambda: now[0])
    jobs: list[Any] = [Slow(), Slow(), Slow()]
    for job in jobs:
        job.has_ended = True
        job.wait = lambda timeout, job=job, **_: (job.given.append(timeout), now.__setitem__(0, now[0] + 4))
    assert measure._wait(jobs, 10.0)
    assert [job.given for job in jobs] == [[10.0], [6.0], [2.0]]
    stuck: list[Any] = [Slow(), Slow()]
    stuck[0].has_ended = True
    assert not measure._wait(stuck, 10.0)
    assert [job.cancelled for job in stuck] == [1, 1]


def report(*samples: dict[str, Any], **others: Any) -> Any:
    whole = {"bytes": 1, "bytes_per_second": 1.0, "host": {}}
    return {
        "job": {"sources": ["here:/a"], "destination": "siteB:/b"},
        "samples": [{**whole, **one, "at": f"2026-01-01T00:00:{one['at']:06.3f}Z"} for one in samples],
        **others,
    }


def test_the_peak_of_jobs_at_once_is_that_of_their_sum():
    def rates(*found: tuple[float, float]) -> Any:
        return report(*({"at": at, "bytes_per_second": rate} for at, rate in found))

    one = rates((1.2, 10.0), (2.2, 30.0), (3.2, 10.0))
    other = rates((1.9, 40.0), (2.1, 90.0), (2.8, 20.0))
    # In the second second: 30, and the last one of the other, 20.
    assert measure.peak([one, other]) == 50.0
    assert measure.peak([one]) == 30.0
    assert measure.peak([]) == 0.0


def test_the_bottleneck_of_jobs_at_once_is_that_of_all():
    first, last = report(bottlenecks={"network": 0.9}), report(bottlenecks={"network": 0.1, "source CPU": 0.2})
    assert measure.most(measure.bottlenecks([first, last])) == "network"


def test_stolen_time_at_each_end_and_of_each_node_is_seen():
    here = {"at": 1.0, "host": {"cpu_steal": 0.01}}
    assert measure.steal([report({**here, "other_host": {"cpu_steal": 0.6}})]) == {"here": 0.01, "siteB": 0.6}
    nodes = [{"host": {"cpu_steal": 0.4}, "other_host": {}}, {"host": {"cpu_steal": 0.1}, "other_host": {"cpu_steal": 0.2}}]
    assert measure.steal([report(here), report({"at": 2.0, "nodes": nodes})]) == {"here": 0.4, "siteB": 0.2}
    # A host that gives no such figure was not checked.
    assert measure.steal([report({"at": 1.0, "other_host": {"cpu_user": 0.5}})]) == {}


def test_each_machine_is_asked_how_busy_it_is(sites):
    from godwit.evaluate.idle import HERE, Idle, busy_between

    def away() -> Any:
        return godwit.Client(socket=sites.a.home / "nosuch", retry_for=0)

    found = Idle(True, {"siteB": sites.b.client, "away": away}).busy()
    assert set(found) == {HERE, "siteB"} and all(0 <= one <= 1 for one in found.values()), found
    cores = 'host_cpu_seconds_total{core="%s",mode="%s"}'
    then = {cores % (core, mode): 100.0 for core in "01" for mode in ("user", "idle", "iowait")}
    now = {**then, cores % ("0", "user"): 101.0, cores % ("1", "idle"): 102.0, cores % ("1", "iowait"): 101.0}
    assert busy_between(then, now) == pytest.approx(0.25)
    assert busy_between({}, now) is None


def test_a_job_is_divided_as_the_factor_says(monkeypatch, sites, client, tmp_path):
    asked: list[Any] = []
    submit = client.submit

    def noted(*places: Any, **options: Any) -> Any:
        asked.append((options.get("divide"), options["settings"]))
        return submit(*places, **options)

    monkeypatch.setattr(client, "submit", noted)
    tried = plan(sites, tmp_path, "divided", factors={"divide": ["never"], "streams": [2]})
    assert one(client, tried)["state"] == "complete"
    assert asked == [("never", {"streams": "2"})]
    with pytest.raises(godwit.SetupError) as refused:
        plan(sites, tmp_path, "divided", factors={"divide": ["sometimes"]})
    assert "there are always, auto, never" in str(refused.value)


def settings_of_a_job(factors: dict[str, Any], path: Any, places: dict[str, str]) -> dict[str, str]:
    """The settings of the job of a plan with these factors, each with one value."""
    asked: list[Any] = []

    class Refusing:
        def submit(self, *_: object, **options: Any) -> Any:
            asked.append(options["settings"])
            raise godwit.GodwitError("refused", "no job is taken")

    document = {"data": [{"name": "m", "memory": "1MB"}], "ends": ["memory"], "factors": factors}
    tried = plans.parse("x", {**document, **({"path": path} if path else {})}, places)
    client: Any = Refusing()
    with pytest.raises(godwit.GodwitError):
        measure.measure(client, tried, tried.runs()[0], measure.Size(1, 1), Sampler({}), Throttling({}))
    return dict(asked[0])


def test_factors_of_an_emulated_path_are_no_settings_of_a_job():
    factors = {"nodes": [2], "tcp_buffer": ["1MiB"], "streams": [4]}
    places = {"source_directory": "/a", "destination_directory": "/b"}
    assert settings_of_a_job(factors, {"rate": "1Gbit/s"}, places) == {"streams": "4"}


def test_the_number_of_nodes_of_real_sites_is_a_setting_of_each_job():
    factors = {"nodes": [2], "streams": [4]}
    places = {"source": "here:/data", "destination": "siteB:/data"}
    assert settings_of_a_job(factors, None, places) == {"nodes": "2", "streams": "4"}


def test_a_job_that_fails_is_a_run_that_does_not_count_and_leaves_no_data(sites, client, tmp_path):
    tried = plan(sites, tmp_path, "refused", variants={"none": {"encryption": "none"}})
    row = one(client, tried)
    assert row["state"] == "failed" and row["codes"]
    assert list((sites.b.data / "refused").iterdir()) == []


def test_a_default_node_refuses_no_encryption_and_the_evaluation_says_so_before(sites, client, tmp_path):
    said: list[str] = []
    tried = plan(sites, tmp_path, "variants", variants={"tls": {}, "none": {"encryption": "none"}})
    campaign = Campaign(client, tried, Results(tmp_path / "out"), said.append)
    campaign.prepare()
    assert [line for line in said if line.startswith("variant none is left out: ")], said
    assert [run.variant for run in campaign.left()] == ["tls"]
    campaign.make()
    campaign.run()
    assert [run["state"] for run in Results(tmp_path / "out").runs()] == ["complete"]
    campaign.remove()


def test_a_matrix_measures_each_pair_in_both_directions(sites, tmp_path, monkeypatch, capsys):
    with directory() as made:
        third = Node(Path(made), "c").start()
        try:
            # Jobs between two other sites are run by one of them: each must let the others in.
            for node, name, other in ((sites.a, "siteC", third), (sites.b, "siteC", third), (third, "siteB", sites.b)):
                other.command("access", "allow", node.command("id"), "--all-exports", "--read", "--write")
                node.command("site", "add", name, other.address, "--identity", other.command("id"))
            document = """
                ends = ["memory", "disk"]
                data = [{ name = "m", memory = "1MiB" }, { name = "set", spec = "3x64KiB" }]
                [run]
                repetitions = 1
            """
            (tmp_path / "matrix.toml").write_text(document)
            places = [f"{site}:/data/matrix" for site in ("here", "siteB", "siteC")]
            words = [word for place in places for word in ("--site", place)]
            monkeypatch.setenv("GODWIT_SOCKET", str(sites.a.socket))
            ends = ["--source-directory", str(sites.a.data / "matrix")]
            main([str(tmp_path / "matrix.toml"), *words, *ends, "--yes", "--busy", "--out", str(tmp_path / "out")])
        finally:
            third.kill()
    rows = Results(tmp_path / "out").runs()
    assert {row["state"] for row in rows} == {"complete"}, rows
    pairs = {(row["sites"]["source"], row["sites"]["destination"]) for row in rows if row["ends"] == "disk"}
    assert pairs == {(a, b) for a in ("here", "siteB", "siteC") for b in ("here", "siteB", "siteC") if a != b}
    assert "Site by site" in (tmp_path / "out" / "report.html").read_text()
    assert list((sites.b.data / "matrix").iterdir()) == []
    capsys.readouterr()


def processor_seconds(pid: int) -> float:
    """The processor time of all threads of a process. The scheduler counts it in nanoseconds."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def test_sampling_costs_a_node_next_to_nothing(own_node, capsys):
    sampler = Sampler({"own": own_node.client})
    assert own_node.process

    def used(seconds: float) -> float:
        before = processor_seconds(own_node.process.pid)
        time.sleep(seconds)
        return (processor_seconds(own_node.process.pid) - before) / seconds

    # A node has work to do after its start, and the first answer is the dearest.
    used(3)
    without = used(6)
    sampler.begin()
    used(2)
    with_samples = used(8)
    taken = sampler.end()
    assert len({one.at for one in taken}) >= 5 and not sampler.troubles
    with capsys.disabled():
        print(f" sampling costs the node {with_samples - without:.3%} of a core ", end="")
    assert with_samples - without <= COST_MAX


def test_a_report_of_a_run_names_energy_of_all_jobs():
    # Two jobs at once: each saw all that their host used.
    assert measure.energy([4e12, 2e12], [10**12, 2 * 10**12]) == pytest.approx(4e12 * 1e12 / 3e12)
    assert measure.energy([None, 5.0], [1, 1]) == 2.5
    assert measure.energy([None], [1]) is None


def test_samples_of_the_other_end_are_kept_under_its_site():
    sample = {"at": "2026-01-01T00:00:00Z", "bytes": 1, "bytes_per_second": 2.0, "host": {"cpu_user": 0.5}}
    report: Any = {
        "job": {"sources": ["here:/a"], "destination": "siteB:/b"},
        "samples": [{**sample, "other_host": {"interrupts_per_second": 7.0}}],
    }
    found = {(one.site, one.figure): one.value for one in measure.own_samples(report)}
    assert found["here", "host_cpu_user"] == 0.5
    assert found["siteB", "host_interrupts_per_second"] == 7.0


def test_samples_of_each_node_of_a_divided_job_are_kept_under_its_name():
    def node(name: str, to: str, switches: float, other: dict[str, float]) -> dict[str, Any]:
        host = {"context_switches_per_second": switches}
        one = {"node": name, "to": to, "host": host, "other_host": other, "stages": {"write_busy": 0.5}}
        return {**one, "bytes_per_second": 10 * switches, "streams": 2}

    received = {"interface_eth0_received_bytes_per_second": 3.0}
    nodes = [node("n1", "m1", 1.0, {}), node("n2", "m1", 2.0, received), node("n3", "", 4.0, received)]
    sample = {"at": "2026-01-01T00:00:00Z", "bytes": 1, "bytes_per_second": 70.0, "host": {"cpu_user": 0.5}, "nodes": nodes}
    report: Any = {"job": {"sources": ["here:/a"], "destination": "siteB:/b"}, "samples": [sample]}
    found = [(one.site, one.figure, one.value) for one in measure.own_samples(report)]
    assert ("here", "host_cpu_user", 0.5) in found and ("here: n1", "stage_write_busy", 0.5) in found
    switches = {site: value for site, name, value in found if name == "host_context_switches_per_second"}
    assert switches == {"here: n1": 1.0, "here: n2": 2.0, "here: n3": 4.0}
    assert ("here: n2", "bytes_per_second", 20.0) in found
    # Two nodes send to this node. Its figures of one moment are kept once.
    assert [one for one in found if one[0].startswith("siteB")] == [("siteB: m1", f"host_{name}", 3.0) for name in received]


def test_a_known_value_is_kept(tmp_path):
    results = Results(tmp_path)
    results.begin({"plan": "p", "scale": 1, "source": "s", "destination": "d"})
    assert results.keep("scales", lambda: {"a": 1}) == {"a": 1}
    assert results.keep("scales", lambda: {"a": 2}) == {"a": 1}
    assert json.loads((tmp_path / "about.json").read_text())["scales"] == {"a": 1}
