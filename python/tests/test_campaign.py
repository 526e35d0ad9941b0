"""The course of an evaluation, with a clock, a node and a measurement for tests: hours, days, time, repeats, refusals."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from datetime import datetime
from typing import Any

import pytest

pytest.importorskip("polars", reason="the extra `evaluate` is not installed")

import godwit
from godwit.evaluate import advice, campaign, machine, report, schedule, sets, stats
from godwit.evaluate import measure as measured
from godwit.evaluate import plan as plans
from godwit.evaluate.hosts import Hosts
from godwit.evaluate.results import Results
from godwit.evaluate.sampler import Sample

PLACES = {"source": "here:/data", "destination": "siteB:/data", "source_directory": "/nowhere"}
# A Monday.
BEGIN = datetime(2026, 3, 2, 9, 30).timestamp()
BUSY_SECONDS = 0.25
AWAY = godwit.errors.CannotReachError("unreachable", "the node is away", was_sent=False)


class Clock:
    def __init__(self, now: float = BEGIN) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.time += seconds


class Address:
    socket = "/a/socket"


class Job:
    def __init__(self, state: str, summary: dict[str, Any]) -> None:
        self.state = state
        self.view = {"summary": summary}

    def wait(self, *_: object, **__: object) -> Job:
        return self


class Node:
    """A node that refuses some settings."""

    address = Address()

    def __init__(self, refused: str = "", code: str = "encryption_refused") -> None:
        self.refused, self.code = refused, code
        self.node = self
        self.submitted: list[Any] = []

    def submit(self, source: str, destination: str, *, settings: Any = None, **_: object) -> Job:
        self.submitted.append(settings)
        if self.refused and (settings or {}).get("encryption") == self.refused:
            return Job("failed", {"code": self.code, "message": "the node asks for TLS"})
        return Job("complete", {"seconds": 1.0})

    def settings(self) -> Any:
        return [{"name": "jobs", "value": "8"}]


class World:
    """The world of a campaign: a clock, a node, and runs whose rate is known."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
        self.clock = Clock()
        self.client = Node()
        self.out = tmp_path / "out"
        self.rate = 125e6
        self.overhead = 1.0
        self.all_busy: list[float] = []
        self.steal: list[float] = []
        self.measured: list[tuple[float, str]] = []
        self.said: list[str] = []
        self.stop_after = 10**9
        self.errors: list[Any] = []
        monkeypatch.setattr(campaign, "measure", self.measure)
        monkeypatch.setattr(campaign, "_idle", lambda client, plan: self)
        monkeypatch.setattr(campaign, "Throttling", lambda sockets: None)
        monkeypatch.setattr(machine, "node", lambda client: {})
        monkeypatch.setattr(sets, "make", self.make)
        monkeypatch.setattr(sets, "remove_one", lambda plan, data: None)

    def busy(self) -> dict[str, float]:
        self.clock.time += BUSY_SECONDS
        return {"this machine": self.all_busy.pop(0) if self.all_busy else 0.0}

    def make(self, plan: Any, data: Any, scale: float) -> tuple[int, int]:
        count, size = data.spec.split(",")[0].split("x")
        # The mean of sizes between 8 KiB and 4 MiB.
        whole = int(count) * (644_000 if ".." in size else sets.parse_size(size)) * scale
        # It is made at 1 GB/s.
        self.clock.time += whole / 1e9
        return max(1, int(int(count) * scale)), int(whole)

    def measure(self, client: Any, plan: Any, run: Any, size: Any, *_: object) -> Any:
        if len(self.measured) >= self.stop_after:
            raise KeyboardInterrupt
        self.measured.append((self.clock.now(), run.key))
        error = self.errors.pop(0) if self.errors else None
        if isinstance(error, Exception):
            raise error
        seconds = size.bytes * int(dict(run.factors).get("concurrent", "1")) / self.rate
        self.clock.time += seconds + self.overhead
        row = measured.failed(plan, run, self.clock.now(), seconds, AWAY)
        del row["error"]
        row.update(bytes_per_second=self.rate, state=error or "complete", codes=[])
        steal = self.steal.pop(0) if self.steal else 0.0
        return {**row, "steal": steal, "bytes": size.bytes}, []

    def evaluate(self, document: Any, **run: Any) -> campaign.Campaign:
        plan = plans.parse("x", document, PLACES) if isinstance(document, dict) else plans.load(document, PLACES, run=run)
        made = campaign.Campaign(self.client, plan, Results(self.out), self.said.append, self.clock)  # type: ignore[arg-type]
        made.prepare()
        made.make()
        self.measured.clear()
        return made

    def times(self) -> list[str]:
        return [datetime.fromtimestamp(at).strftime("%a %H:%M") for at, _ in self.measured]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> World:
    return World(monkeypatch, tmp_path)


def document(**run: Any) -> dict[str, Any]:
    return {"data": [{"name": "m", "memory": "1GB"}], "ends": ["memory"], "run": {"repetitions": 4, **run}}


def test_a_repetition_begins_at_each_hour_of_its_days(world):
    world.evaluate(document(at=["02:00", "14:00"], days=["mon", "wed"])).run()
    assert world.times() == ["Mon 14:00", "Wed 02:00", "Wed 14:00", "Mon 02:00"]


def test_hours_alone_are_those_of_every_day(world):
    world.evaluate(document(at="08:15", repetitions=2)).run()
    assert world.times() == ["Tue 08:15", "Wed 08:15"]


def test_the_time_left_counts_the_waits(world):
    made = world.evaluate(document(at=["14:00"], repetitions=3))
    assert "the last one begins in 2.2 days" in made.cost()
    made.run()
    shown = [line.rsplit("; ", 1)[1] for line in world.said if line.startswith(("1/", "2/", "3/"))]
    # After the first one at 14:00, two days are left; nothing after the last.
    assert shown == ["2.0 days left", "24.0 h left", "0 s left"]
    assert any(line == "repetition 1 waits 4.5 h for its hour" for line in world.said)


def test_a_campaign_that_was_stopped_goes_on_at_the_next_hour(world):
    plan = document(at=["14:00"], repetitions=3)
    world.stop_after = 1
    with pytest.raises(KeyboardInterrupt):
        world.evaluate(plan).run()
    assert world.times() == ["Mon 14:00"]
    world.stop_after = 10**9
    made = world.evaluate(plan)
    assert [run.block for run in made.left()] == [2, 3]
    made.run()
    # It was stopped on Tuesday at 14:00 sharp, when the second one began: that hour is over.
    assert world.times() == ["Wed 14:00", "Thu 14:00"]
    assert world.evaluate(plan).left() == []


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ({"at": ["25:00"]}, "write hours as in"),
        ({"at": "noon"}, "write hours as in"),
        ({"at": ["02:00"], "days": ["monday"]}, "monday is unknown"),
        ({"days": ["mon"]}, "say the hours, too"),
        ({"repetitions": 0}, "it has no end"),
        ({"within": "soon"}, "is no time"),
        ({"fit": True}, "fit needs seconds"),
    ],
)
def test_a_course_that_makes_no_sense_is_refused(run, said):
    with pytest.raises(godwit.SetupError) as refused:
        plans.parse("x", document(**run), PLACES)
    assert said in str(refused.value)


def test_the_next_hours_are_counted():
    found = schedule.Schedule.parse("x", ["02:00", "14:00"], [])
    slots = [datetime.fromtimestamp(found.next(BEGIN, count)).strftime("%a %H:%M") for count in (1, 2, 3, 4)]
    assert slots == ["Mon 14:00", "Tue 02:00", "Tue 14:00", "Wed 02:00"]
    # A slot is after the time, never at it.
    at = found.next(BEGIN)
    assert found.next(at) > at
    assert [schedule.duration("x", one) for one in (5, "90 s", "10min", "1.5h", "7d")] == [5, 90, 600, 5400, 604800]


@pytest.mark.parametrize("bits", [1e9, 10e9, 100e9])
def test_quick_fits_into_ten_minutes_with_all_of_its_runs(world, bits):
    world.rate = bits / 8
    began = world.clock.now()
    made = world.evaluate("quick")
    made.run()
    assert world.clock.now() - began <= 600
    # Two variants; memory alone, and both sets by source, destination and disk.
    assert len(world.measured) == 3 * (2 + 2 * 3 * 2)
    assert made.left() == []


def test_quick_ends_in_time_on_a_slow_path_and_on_a_busy_machine(world):
    world.rate = 1e6
    began = world.clock.now()
    world.evaluate("quick").run()
    assert world.clock.now() - began <= 605
    world.out = world.out.with_name("busy")
    world.rate = 125e6
    world.all_busy = [1.0] * 10**5
    began = world.clock.now()
    world.evaluate("quick").run()
    assert world.clock.now() - began <= 660


def test_the_time_that_was_spent_before_a_stop_counts(world):
    plan = document(within="10min", repetitions=0)
    world.rate = 1e9 / 60
    world.stop_after = 5
    with pytest.raises(KeyboardInterrupt):
        world.evaluate(plan).run()
    world.stop_after = 10**9
    world.clock.time += 86400
    world.evaluate(plan).run()
    # Each takes a little more than a minute, and none begins that would end later.
    assert len(world.measured) == 4
    assert world.said[-1].startswith("the time is over: ")


def test_soak_goes_on_until_its_time_is_over(world):
    world.rate = 1e12
    world.overhead = 600.0
    made = world.evaluate("soak")
    assert "repeated until the time is over" in made.cost()
    began = world.clock.now()
    made.run()
    assert 6.9 * 86400 < world.clock.now() - began <= 7 * 86400
    assert len({key for _, key in world.measured}) == len(world.measured) > 900


def test_a_disturbed_run_is_repeated_and_marked_if_it_stays_disturbed(world):
    world.steal = [0.5, 0.5, 0.0, 0.5, 0.5, 0.5]
    world.evaluate(document(repetitions=2)).run()
    rows = Results(world.out).runs()
    assert [(row["tries"], row["disturbed"]) for row in rows] == [(3, False), (3, True)]
    assert len(world.measured) == 6
    assert [line.count("(disturbed)") for line in world.said[-2:]] == [0, 1]


def test_a_busy_machine_is_given_a_minute_to_become_idle(world):
    world.all_busy = [0.9] * 20
    world.evaluate(document(repetitions=1)).run()
    assert 20 <= world.measured[0][0] - BEGIN <= 30
    assert Results(world.out).runs()[0]["tries"] == 1


def test_a_refused_variant_is_told_and_left_out(world):
    plan = {**document(repetitions=2), "variants": {"tls": {}, "none": {"encryption": "none"}}}
    world.client.refused = "none"
    made = world.evaluate(plan)
    assert "variant none is left out: the node asks for TLS" in world.said
    made.run()
    assert {key.split(": ")[1] for _, key in world.measured} == {"m memory tls"}
    assert json.loads((world.out / "about.json").read_text())["left_out"] == {"none": "the node asks for TLS"}
    # A node that is away for a moment refuses nothing.
    world.client.code = "connection_lost"
    world.out = world.out.with_name("away")
    with pytest.raises(godwit.GodwitError):
        world.evaluate(plan)


def test_a_plan_whose_every_variant_is_refused_does_not_begin(world):
    world.client.refused = "none"
    with pytest.raises(godwit.SetupError) as refused:
        world.evaluate({**document(), "variants": {"none": {"encryption": "none"}}})
    assert "refuse every variant" in str(refused.value)


def test_more_jobs_at_once_than_the_node_runs_are_told(world):
    made = world.evaluate({**document(seconds=8), "factors": {"concurrent": [1, 16]}})
    assert "The node runs 8 jobs at once, and 16 are wanted" in made.cost()
    made.run()
    # Jobs at once share the time of the plan.
    assert {round(row["bytes"] / 1e6) for row in Results(world.out).runs()} == {62, 1000}


def test_a_run_that_fails_is_kept_and_the_others_go_on(world):
    world.errors = [None, "timeout", AWAY]
    made = world.evaluate(document(repetitions=5))
    made.run()
    rows = Results(world.out).runs()
    assert [row["state"] for row in rows] == ["complete", "timeout", "failed", "complete", "complete"]
    assert rows[2]["codes"] == ["unreachable"] and any("the node is away" in line for line in world.said)
    # All that reads rows takes those without a measurement, too.
    assert advice.as_text(rows) and report._method({"plan": "p"}, rows) and report._head({"source": "", "destination": ""}, rows)
    assert stats.by_setting(rows, "bytes_per_second") == {"m memory usual": {1: 125e6, 4: 125e6, 5: 125e6}}
    # A run over its time is not tried again; one that could not be measured is.
    assert [run.block for run in world.evaluate(document(repetitions=5)).left()] == [3]


def test_a_soak_outlives_a_node_that_is_away_for_minutes(world):
    world.errors = [None, AWAY, AWAY, AWAY]
    began = world.clock.now()
    world.evaluate(document(repetitions=6)).run()
    assert [row["state"] for row in Results(world.out).runs()].count("complete") == 3
    assert world.clock.now() - began > 400


def test_an_evaluation_whose_runs_all_fail_ends_and_names_the_last(world):
    world.errors = [AWAY] * 9
    with pytest.raises(godwit.GodwitError) as ended:
        world.evaluate(document(repetitions=9)).run()
    assert "5 runs in a row failed" in str(ended.value) and "5: m memory usual: the node is away" in str(ended.value)
    assert len(world.measured) == 5
    world.out = world.out.with_name("slow")
    world.errors = ["timeout"] * 9
    with pytest.raises(godwit.GodwitError) as ended:
        world.evaluate(document(repetitions=9, timeout=60)).run()
    assert "it took more than 60 s" in str(ended.value)


def test_a_plan_says_its_bytes_before_a_set_is_made(world):
    plan = {"data": [{"name": "s", "spec": "zx-30GiB"}], "ends": ["disk"], "run": {"repetitions": 2, "scale": 0.1}}
    made = campaign.Campaign(world.client, plans.parse("x", plan, PLACES), Results(world.out), world.said.append, world.clock)
    made.prepare()
    shown = made.cost()
    assert "write 64.4 GB at siteB:/data" in shown and "Data sets of 32.2 GB are made first" in shown
    assert not any(line.startswith("data set") for line in world.said)
    made.forget()
    assert not world.out.exists()


def test_a_folder_that_the_user_did_not_name_is_new(tmp_path):
    about = {"plan": "", "scale": 1.0, "source": "a:/", "destination": "b:/"}
    # Another user has foreseen its name.
    foreseen = tmp_path / "evaluation-20260101-000000"
    foreseen.mkdir()
    (foreseen / "about.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(godwit.SetupError, match="--out"):
        Results(foreseen, must_be_new=True).begin(about)
    assert not (tmp_path / "elsewhere").exists()
    assert Results(tmp_path / "other", must_be_new=True).begin(about)


def test_samples_that_a_kill_left_without_their_run_do_not_count(tmp_path):
    results = Results(tmp_path)

    def samples(value: float) -> list[Sample]:
        return [Sample("here", value + at, "host_cpu_core_0", value) for at in range(5)]

    run = {"key": "1: x", "setting": "x", "state": "complete", "disturbed": False, "seconds": 5.0}
    # A kill between both files of a run.
    results.add(run, samples(1.0))
    (tmp_path / "runs.jsonl").unlink()
    assert list(results.samples()) == []
    results.add(run, samples(2.0))
    assert {one["value"] for one in results.samples()} == {2.0}
    assert len(Hosts(results.runs(), results.samples()).cores("x", "here")["0"]) == 5
    results.tables()
    assert len((tmp_path / "samples.csv").read_text().splitlines()) == 6


def test_results_of_a_week_need_little_memory(tmp_path):
    """All of it in a process whose memory is bounded: many samples are written, looked through, and made a table."""
    program = """
        import resource, sys
        from pathlib import Path
        from godwit.evaluate.results import Results
        from godwit.evaluate.sampler import Sample
        results = Results(Path(sys.argv[1]))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(200):
            run = {"key": f"{number}: x", "setting": "x", "share": 0.5 if number % 2 else 1, "ok": True, "findings": ["a"]}
            samples = (Sample("here", float(at), "a figure with a long name " * 4, at / 7) for at in range(2000))
            results.add(run, samples)
        assert sum(1 for _ in results.samples()) == 400_000
        size = (results.directory / "samples.jsonl").stat().st_size
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        print(size, grown)
        results.tables()
    """
    (tmp_path / "out").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), tmp_path / "out"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    size, grown = map(int, done.stdout.split())
    assert size > 60e6 and grown < 20e6
    import polars as pl

    runs = pl.read_parquet(tmp_path / "out" / "runs.parquet")
    assert runs.schema["share"] == pl.Float64 and runs.schema["ok"] == pl.Boolean and runs["findings"][0] == '["a"]'
    assert pl.scan_parquet(tmp_path / "out" / "samples.parquet").select(pl.len()).collect().item() == 400_000


def test_a_line_that_a_kill_cut_off_does_not_spoil_the_next(tmp_path):
    results = Results(tmp_path)
    results.add({"key": "1: x", "setting": "x"}, [])
    with (tmp_path / "runs.jsonl").open("a") as file:
        file.write('{"key": "2')
    results.add({"key": "3: x", "setting": "x"}, [])
    assert [run["key"] for run in results.runs()] == ["1: x", "3: x"]
