"""An emulated path: both sites on this machine, made and removed by the evaluation; and the plans of the papers on it, tiny."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pl = pytest.importorskip("polars", reason="the extra `evaluate` is not installed")

from conftest import BINARY, directory  # noqa: E402

import godwit  # noqa: E402
from godwit.evaluate import emulated  # noqa: E402
from godwit.evaluate import plan as plans  # noqa: E402

TINY = """
ends = ["memory"]

[[data]]
name = "memory"
memory = "40MB"

[factors]
tcp_buffer = ["default", "128KiB"]

[run]
repetitions = 1
idle_below = 1.1
"""


NODES = """
ends = ["memory"]

[[data]]
name = "memory"
memory = "1GiB"

[factors]
nodes = [1, 2]

[run]
repetitions = 1
idle_below = 1.1
"""


def left_over() -> set[str]:
    """Namespaces of evaluations that run no more."""
    known = Path("/run/netns")
    found = known.iterdir() if known.is_dir() else []
    names = re.findall(r"^(godwit-(\d+)-[ab])\b", "\n".join(path.name for path in found), re.MULTILINE)
    return {name for name, pid in names if not Path(f"/proc/{pid}").exists()}


def privileged() -> list[str]:
    """The words before a command that makes network namespaces: those of a namespace of users for any but root."""
    own = 'mount -t tmpfs none /run && exec "$@"'
    words = ["unshare", "--user", "--map-root-user", "--mount", "--net", "sh", "-c", own, "sh"] if os.geteuid() else []
    probe = f"godwit-probe-{os.getpid()}"
    add = [*words, "sh", "-c", f"ip netns add {probe} && ip netns del {probe}"]
    done = subprocess.run(add, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"it needs network namespaces: {done.stderr.strip()}")
    return words


def without_tc(folder: Path) -> dict[str, str]:
    """An environment in which tc makes nothing, so that the program `wanlink` is the line."""
    program = BINARY.with_name("wanlink")
    if not program.exists() or not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip(f"it needs {program} and /dev/net/tun")
    tc = folder / "tc"
    tc.write_text("#!/bin/sh\nexit 1\n")
    tc.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def evaluate(
    root: Path, plan: str, *more: str, check: bool = True, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    ends = ["--source-directory", str(root / "near"), "--destination-directory", str(root / "far")]
    program = Path(sys.executable).with_name("godwit-evaluate")
    done = subprocess.run(
        [*privileged(), program, plan, *ends, "--out", root / "out", "--yes", "--busy", *more],
        env={**os.environ, "GODWIT": str(BINARY), **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def runs(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / "out" / "runs.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("emulate", ["200Mbit/s", "200Mbit/s,10ms"])
def test_a_path_is_made_and_removed(emulate):
    with directory() as made:
        root, before = Path(made), left_over()
        (root / "plan.toml").write_text(TINY)
        evaluate(root, str(root / "plan.toml"), "--emulate", emulate)
        assert left_over() <= before
        found = {run["factors"]["tcp_buffer"]: run for run in runs(root)}
        # Other work on the machine may let less through, and nothing lets more.
        assert 1e6 < found["default"]["bytes_per_second"] < 26e6
        assert "ms" not in emulate or 0.02 <= found["default"]["path"]["network_round_trip_least_seconds"] < 0.5
        # 128 KiB are far less than this path holds in flight: they alone bound its rate.
        assert "ms" not in emulate or found["128KiB"]["bytes_per_second"] < found["default"]["bytes_per_second"]
        samples = pl.read_parquet(root / "out" / "samples.parquet")
        assert set(samples["site"]) == {"here", "far"}
        assert any(figure.startswith("host_tcp_sack_recoveries_per_second") for figure in samples["figure"])
        page = (root / "out" / "report.html").read_text()
        assert "joined by an emulated path" in page
        # The interfaces of the namespaces, and none of this machine.
        about = json.loads((root / "out" / "about.json").read_text())
        for end in ("machine", "far_machine"):
            names = {one["name"] for one in about[end]["interfaces"]}
            assert "lo" in names and len(names) == 2, names
            assert about[end]["interrupts"] == [] and about[end]["sysctl"]["net.ipv4.tcp_rmem"]
        left = subprocess.run(["pgrep", "-f", made], capture_output=True, text=True, check=False).stdout
        assert left == "", "a node or a line is left"


def test_a_machine_is_described_without_modules_of_the_working_directory(tmp_path):
    # Root may stand in a directory that others may write.
    for name in ("json", "platform", "pathlib", "typing", "godwit"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('this module must not run')\n")
    done = subprocess.run(emulated.describing(), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kernel"]


def test_an_evaluation_that_is_stopped_removes_its_path_and_goes_on_later():
    before_it = privileged()
    with directory() as made:
        root, before = Path(made), left_over()
        (root / "plan.toml").write_text(TINY.replace("repetitions = 1", "repetitions = 3"))
        ends = [
            "--source-directory",
            str(root / "near"),
            "--destination-directory",
            str(root / "far"),
            "--out",
            str(root / "out"),
        ]
        words = [*before_it, Path(sys.executable).with_name("godwit-evaluate"), root / "plan.toml", *ends]
        words += ["--yes", "--busy", "--emulate", "200Mbit/s"]
        environment = {**os.environ, "GODWIT": str(BINARY)}
        running = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)
        assert running.stderr
        assert any(line.startswith("1/6 ") for line in running.stderr)
        running.terminate()
        printed = re.search(r"go on with: godwit-evaluate (.*)", running.stderr.read())
        assert printed
        running.wait(60)
        assert left_over() <= before
        assert subprocess.run(["pgrep", "-f", made], capture_output=True, text=True, check=False).stdout == ""
        # Until then, the tables have what there is.
        done = len(runs(root))
        assert pl.read_parquet(root / "out" / "runs.parquet").height == done < 6
        again = [*words[: len(before_it) + 1], *shlex.split(printed[1])]
        said = subprocess.run(again, env=environment, capture_output=True, text=True, check=True).stderr
        assert f"{6 - done} runs of" in said and len(runs(root)) == 6


def test_a_path_that_cannot_be_made_leaves_nothing():
    with directory() as made:
        root, before = Path(made), left_over()
        (root / "plan.toml").write_text(TINY)
        done = evaluate(root, str(root / "plan.toml"), "--emulate", "200Mbit/s,10parsec", check=False)
        assert done.returncode != 0 and re.search("is no time|netem", done.stderr)
        assert left_over() <= before


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ({"source_directory": "/a"}, "destination_directory is missing"),
        ({"source_directory": "/a", "destination_directory": "/b", "source": "here:/x"}, "name no source"),
    ],
)
def test_an_emulated_path_has_its_own_sites(places, said):
    document = {"data": [{"name": "m", "memory": "1MB"}], "ends": ["memory"], "path": {"rate": "1Gbit/s"}}
    with pytest.raises(godwit.SetupError) as refused:
        plans.parse("x", document, places)
    assert said in str(refused.value)
    with pytest.raises(godwit.SetupError) as refused:
        plans.parse("x", {**document, "path": {"speed": "1Gbit/s"}}, places)
    assert "unknown: speed" in str(refused.value)


def test_a_fixed_buffer_is_for_an_emulated_path_alone():
    document = {"data": [{"name": "m", "memory": "1MB"}], "ends": ["memory"], "factors": {"tcp_buffer": ["1MiB"]}}
    with pytest.raises(godwit.SetupError) as refused:
        plans.parse("x", document, {"source": "here:/a", "destination": "b:/c"})
    assert "tcp_buffer is for an emulated path" in str(refused.value)


@pytest.mark.parametrize("line", ["tc", "wanlink"])
def test_more_interfaces_carry_more(line, tmp_path):
    environment = without_tc(tmp_path) if line == "wanlink" else {}
    plan = TINY.replace('tcp_buffer = ["default", "128KiB"]', "interfaces = [1, 2]").replace("repetitions = 1", "repetitions = 2")
    with directory() as made:
        root, before = Path(made), left_over()
        (root / "plan.toml").write_text(plan)
        evaluate(root, str(root / "plan.toml"), "--emulate", "100Mbit/s", environment=environment)
        assert left_over() <= before
        found = runs(root)
        assert len(found) == 4
        rates = {"1": 0.0, "2": 0.0}
        for run in found:
            count = run["factors"]["interfaces"]
            # A job with one path lists none.
            used = {one["name"].split()[0] for one in run["channels"]}
            assert used == (set() if count == "1" else {"c0", "c1"}), run["channels"]
            rates[count] = max(rates[count], run["bytes_per_second"])
        # Other work on the machine may let less through, and nothing lets more.
        assert rates["1"] < 13e6 and rates["1"] < rates["2"] < 26e6, rates


def test_more_nodes_carry_more():
    with directory() as made:
        root, before = Path(made), left_over()
        (root / "plan.toml").write_text(NODES)
        # Each node has an interface of this rate.
        evaluate(root, str(root / "plan.toml"), "--emulate", "400Mbit/s")
        assert left_over() <= before
        found = {run["factors"]["nodes"]: run for run in runs(root)}
        assert {run["state"] for run in found.values()} == {"complete"}
        # One node of each end is a lone pair, and its job is not divided.
        assert found["1"]["nodes"] == [] and len(found["2"]["nodes"]) == 2, found
        assert "near2" in {one["name"] for one in found["2"]["nodes"]}
        one, two = (found[count]["bytes_per_second"] for count in "12")
        # Other work on the machine may let less through, and nothing lets more.
        assert one < 52e6 and one < two < 104e6, (one, two)
        page = (root / "out" / "report.html").read_text()
        assert "Rate against nodes" in page and "Evenness against nodes" in page


PATH = {"rate": "1Gbit/s"}


@pytest.mark.parametrize(
    ("path", "factors", "said"),
    [
        (None, {"interfaces": [1, 2]}, "interfaces is for an emulated path"),
        (None, {"nodes": [0, 2]}, "nodes: write numbers from 1 to 1000"),
        (PATH, {"interfaces": [0, 9]}, "interfaces: write numbers from 1 to 8"),
        (PATH, {"nodes": ["two"]}, "nodes: write numbers from 1 to 8"),
        (PATH, {"nodes": [1, 2], "interfaces": [2]}, "write interfaces or nodes"),
    ],
)
def test_numbers_of_interfaces_and_of_nodes_are_bounded(path, factors, said):
    document = {"data": [{"name": "m", "memory": "1MB"}], "ends": ["memory"], "factors": factors}
    places = {"source": "here:/a", "destination": "b:/c"}
    if path:
        document["path"], places = path, {"source_directory": "/a", "destination_directory": "/b"}
    with pytest.raises(godwit.SetupError) as refused:
        plans.parse("x", document, places)
    assert said in str(refused.value)


class Nodes:
    """Clusters of three nodes, by the sockets of their nodes. A drained node needs two looks until it runs nothing more."""

    def __init__(self) -> None:
        self.states: dict[str, dict[str, str]] = {}
        self.here: dict[str, str] = {}
        self.cluster = self
        self.changed: list[str] = []
        self.fails_at = ""

    def __call__(self, socket: Path, **_: object) -> Nodes:
        end = socket.parent.parent.name.rstrip("23")
        self.here = self.states.setdefault(end, {end: "up", f"{end}2": "up", f"{end}3": "up"})
        return self

    def __enter__(self) -> Nodes:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def change_node(self, name: str, body: dict[str, bool]) -> None:
        if name == self.fails_at:
            raise godwit.GodwitError("no_majority", "for a moment")
        self.changed.append(f"{name} {body['draining']}")
        self.here[name] = ("drained" if self.here[name] == "drained" else "draining") if body["draining"] else "up"

    def get(self) -> dict[str, Any]:
        seen = [{"state": state} for state in self.here.values()]
        self.here.update({name: "drained" for name, state in self.here.items() if state == "draining"})
        return {"nodes": seen}


def test_a_number_of_nodes_is_that_of_the_nodes_that_take_work(monkeypatch, tmp_path):
    document = {"data": [{"name": "m", "memory": "1MB"}], "ends": ["memory"], "factors": {"nodes": [1, 2, 3]}, "path": PATH}
    plan = plans.parse("x", document, {"source_directory": "/a", "destination_directory": "/b"})
    nodes = Nodes()
    monkeypatch.setattr(emulated, "Client", nodes)
    path = emulated.Emulated(plan)
    path._homes = {f"{end}{number}": tmp_path / f"{end}{number}" for end in ("near", "far") for number in ("", 2, 3)}
    path.set_factors({"nodes": "3"})
    assert nodes.changed == []
    path.set_factors({"nodes": "1"})
    assert nodes.states == {end: {end: "up", f"{end}2": "drained", f"{end}3": "drained"} for end in ("near", "far")}
    # After a change that failed half-way, the same number is set again.
    nodes.fails_at = "far2"
    with pytest.raises(godwit.GodwitError):
        path.set_factors({"nodes": "2"})
    nodes.fails_at = ""
    path.set_factors({"nodes": "1"})
    assert [*nodes.states["near"].values()] == ["up", "drained", "drained"]
    path.set_factors({"nodes": "2"})
    assert [*nodes.states["far"].values()] == ["up", "up", "drained"]


def test_units_of_a_path():
    assert emulated._twice("2.5ms") == "5ms" and emulated._twice("") == "0ms"
    assert emulated._rate_of_tc("1Gbit/s") == "1gbit"


def test_without_tc_the_kernel_can_neither_delay_nor_limit(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not emulated._can("none", emulated._DELAYING) and not emulated._can("none", emulated._LIMITING)


@pytest.mark.parametrize(
    ("name", "more", "settings"),
    [
        ("quick", ["--seconds", "0.5"], 14),
        ("zx-table-3", ["--scale", "0.00005"], 3),
        ("memznet", ["--scale", "0.0002", "--seconds", "0.5", "--factor", "streams=1,4", "--factor", "concurrent=1,2"], 16),
    ],
)
def test_the_plans_of_the_papers_run_tiny(name, more, settings):
    """Two sites in namespaces, an emulated path, and the whole way from the plan to the report."""
    with directory() as made:
        root = Path(made)
        evaluate(root, name, "--emulate", "1Gbit/s,2ms", "--repetitions", "1", *more)
        found = runs(root)
        assert len({run["setting"] for run in found}) == len(found) == settings
        assert {run["state"] for run in found} == {"complete"}
        page = (root / "out" / "report.html").read_text()
        titles = re.findall("<h2>(.*?)</h2>", page)
        assert {"What the site gives", "What to change", "Method and limits", "Machines of both ends"} <= {*titles}
        assert "Other load was allowed" in page or all(run["busy_before"] <= 0.2 for run in found)
        if name == "memznet":
            assert {"Rate against streams", "Rate against concurrent"} <= {*titles}
        if name == "zx-table-3":
            assert {run["variant"] for run in found} == {"none", "aes", "chacha20"}
        # Nothing stays but what the evaluation found.
        assert [path for end in ("near", "far") for path in (root / end).rglob("*") if path.is_file()] == []
