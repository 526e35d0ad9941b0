"""The verdict on a site: six that have a flaw each, real nodes in network namespaces, and what the evaluation says of them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Iterator

import pytest

pytest.importorskip("polars", reason="the extra `evaluate` is not installed")

import paths
from conftest import Node, directory

from godwit.evaluate import plan as plans
from godwit.evaluate import verdict
from godwit.evaluate.main import main

# With a file here, the whole of `verify-network` runs, and the file gets a row for each ceiling.
LONG = os.environ.get("GODWIT_VERIFY_NETWORK")

# The share of a packet on a cable that is TCP's payload, as `tc` counts packets.
PAYLOAD = 1448 / 1514

# The line of some tests is a program. Without a processor it shows a queue, or nothing at all: such a run is repeated.
TRIES = 4
# Before a run both nodes are idle. If more of the processors than this is busy, other work is there.
QUIET = 0.25

SHORT = """
ends = [%s]

[[data]]
name = "memory"
memory = "%s"

[[data]]
name = "large"
spec = "2x80MiB"

[run]
repetitions = 1
idle_below = 1.1
cold = true
"""


class Flawed:
    """Two sites, one node each, in namespaces. `here` is the near one."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self.root = Path(stack.enter_context(directory()))
        self.near, self.far = stack.enter_context(paths.namespaces())
        self.a, self.b = Node(self.root, "a"), Node(self.root, "b")
        for node, namespace in ((self.a, self.near), (self.b, self.far)):
            node.wrapper = ["nsenter", f"--net=/run/netns/{namespace}", "--"]
            node.address = "0.0.0.0:0"

    def cable(self, number: int = 0, rate: str = "1gbit") -> None:
        paths.cable(self.near, self.far, number, rate)

    def line(self, *options: str) -> None:
        self.stack.enter_context(paths.line(self.near, self.far, "--rtt", "20ms", "--rate", "1Gbit", *options))

    def start(self) -> None:
        for node in (self.a, self.b):
            self.stack.callback(node.kill)
            node.start()
        self.b.command("access", "allow", self.a.command("id"), "--all-exports", "--read", "--write")
        address = f"10.12.0.2:{self.b.address.rsplit(':')[-1]}"
        self.a.command("site", "add", "siteB", address, "--identity", self.b.command("id"))

    def verify(self, name: str, ends: str, memory: str, more: str = "", scale: float = 0.05) -> dict[str, Any]:
        plan = self.root / "plan.toml"
        # Other work on the machine is no reason to wait: the flaw is the narrowest part by far.
        whole = plans.ready_made("verify-network") + "idle_below = 1.1\n"
        plan.write_text(whole if LONG else SHORT % (", ".join(f'"{one}"' for one in ends.split()), memory) + more)
        words = [str(plan), *(["--scale", str(scale)] if LONG else [])]
        places = ["--source", "here:/data/verify", "--destination", "siteB:/data/verify"]
        words += [*places, "--source-directory", str(self.a.data / "verify"), "--yes", "--json", "--out", str(self.root / "out")]
        printed = io.StringIO()
        # In this process: most of a short command's time is for its imports.
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
            patch.setenv("GODWIT_SOCKET", str(self.a.socket))
            main(words)
        print(printed.getvalue())
        found: dict[str, Any] = json.loads(printed.getvalue())
        if LONG:
            keep(Path(LONG), name, found)
        return found

    def finds(self, cause: str, *given: Any) -> dict[str, Any]:
        """The verdict with this cause. Other work on the processors can hide the cause, so the evaluation is repeated.

        The test is skipped if other work ran before each try: then no try shows the flaw alone.
        """
        busy = []
        for _ in range(TRIES):
            shutil.rmtree(self.root / "out", ignore_errors=True)
            found = self.verify(*given)
            if found["lowest"]["cause"] == cause:
                return found
            busy.append(min(run["busy_before"] for run in self.runs()))
        if min(busy) > QUIET:
            pytest.skip(f"other work took {min(busy):.0%} of the processors or more before each run")
        return found

    def runs(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.root / "out" / "runs.jsonl").read_text().splitlines()]


def keep(path: Path, name: str, found: dict[str, Any]) -> None:
    with path.open("a") as file:
        for one in found["ceilings"]:
            is_lowest = "lowest" if one["ends"] == found["lowest"]["ends"] else ""
            rates = [f"{one[figure] * 8 / 1e6:.0f}" for figure in ("bytes_per_second", "low", "high")]
            print(name, one["ends"], *rates, one["runs"], one["stage"], one["cause"] or "", is_lowest, sep="\t", file=file)


@pytest.fixture
def flawed() -> Iterator[Flawed]:
    with ExitStack() as stack:
        yield Flawed(stack)


def right(rate: float, truth: float) -> bool:
    """A flaw never lets more through. Other work on the machine may let less through, which only the short runs may show."""
    return (0.95 if LONG else 0.7) * truth <= rate <= 1.05 * truth


def ceiling(found: dict[str, Any], ends: str) -> dict[str, Any]:
    return next(one for one in found["ceilings"] if one["ends"] == ends)


def test_a_writer_of_400_megabits_on_a_path_of_a_gigabit(flawed):
    flawed.cable()
    flawed.stack.enter_context(paths.disk(flawed.b.data, "600M", write=50_000_000))
    flawed.start()
    found = flawed.verify("writer", "memory destination", "250MB")
    assert (found["lowest"]["stage"], found["lowest"]["ends"]) == ("destination storage", "destination")
    assert right(found["lowest"]["bytes_per_second"], 50e6), found
    path = ceiling(found, "memory")
    assert path["stage"] == "network" and path["cause"] in (["full"] if LONG else ["full", "unclear"])
    assert right(path["bytes_per_second"], 125e6 * PAYLOAD), found


def test_a_slow_reader(flawed):
    flawed.cable()
    flawed.stack.enter_context(paths.disk(flawed.a.data, "600M", read=50_000_000))
    flawed.start()
    found = flawed.verify("reader", "memory source", "150MB")
    assert (found["lowest"]["stage"], found["lowest"]["ends"]) == ("source storage", "source")
    assert right(found["lowest"]["bytes_per_second"], 50e6), found


def test_a_path_that_loses_packets(flawed):
    flawed.line("--loss", "1%")
    flawed.start()
    found = flawed.finds("loss", "loss", "memory", "20GB", "seconds = 2")
    assert (found["lowest"]["stage"], found["lowest"]["cause"]) == ("network", "loss")
    assert "sent again" in found["lowest"]["text"]
    # A probe said how much is moved in that time.
    assert 0.5 < flawed.runs()[0]["seconds"] < 8


@pytest.mark.parametrize(("kind", "cause"), [("tcp_rmem", "window"), ("tcp_wmem", "buffer")])
def test_a_small_buffer(flawed, kind, cause):
    flawed.line("--offload", "on")
    # Of data that goes to the far end. The way back has its usual buffers.
    paths.shrink_buffers(flawed.far if kind == "tcp_rmem" else flawed.near, kind, 64 << 10)
    flawed.start()
    found = flawed.finds(cause, kind, "memory", "50MB")
    assert (found["lowest"]["stage"], found["lowest"]["cause"]) == ("network", cause)
    assert f"net.ipv4.{kind}" in found["lowest"]["text"]


def test_a_slow_processor(flawed):
    flawed.cable()
    flawed.start()
    flawed.stack.enter_context(paths.processors(flawed.a, 0.02))
    found = flawed.verify("processor", "memory", "150MB")
    assert (found["lowest"]["stage"], found["lowest"]["cause"]) == ("source CPU", "cgroup")


def test_an_interface_that_is_slower_than_its_sister(flawed):
    flawed.cable()
    flawed.cable(1, "200mbit")
    flawed.start()
    found = flawed.verify("interface", "memory", "450MB", scale=0.15)
    assert (found["lowest"]["stage"], found["lowest"]["cause"]) == ("network", "interface")
    slow = verdict.slow_channel(flawed.runs()[0]["channels"])
    assert slow and slow["name"].startswith("c1 ")
    assert right(slow["bytes_per_second"], 25e6 * PAYLOAD), slow


def test_a_full_queue_that_drops_packets_is_no_loss_on_the_way():
    path = {"network_resent": 0.0423, "network_round_trip_seconds": 0.04, "network_round_trip_least_seconds": 0.02}
    found = verdict.judge([run("memory", 1.0, bottleneck="network", path=path)])
    assert found.lowest and found.lowest.cause == "full"
    assert found.lowest.text.endswith("4.23% sent again: the queue drops them")
    # So little sent again needs no word.
    found = verdict.judge([run("memory", 1.0, bottleneck="network", path={**path, "network_resent": 0.001})])
    assert found.lowest and found.lowest.cause == "full" and "sent again" not in found.lowest.text


def run(ends: str, rate: float, **others: Any) -> dict[str, Any]:
    usual = {"setting": f"x {ends}", "block": 1, "state": "complete", "disturbed": False, "bottleneck": None}
    return {**usual, "ends": ends, "bytes_per_second": rate, **others}


def test_an_unclear_lowest_ceiling_is_reported():
    path = run("memory", 100.0, bottleneck="network", path={"network_busy": 1.0})
    found = verdict.judge([path, run("source", 101.0), run("destination", 200.0)])
    assert found.lowest and (found.lowest.ends, found.lowest.cause) == ("memory", "unclear")
    assert found.close == ("source",) and "which of them is lower is not sure" in found.headline()
    assert "no counter tells" in found.ceilings[1].text
    assert verdict.judge([run("memory", 1.0, disturbed=True)]).headline() == "No run gives a rate."
    # The path back bounds nothing on its way from source to destination.
    assert verdict.judge([run("memory", 9.0), run("back", 3.0)]).lowest == verdict.judge([run("memory", 9.0)]).lowest


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ({"network_resent": 0.01, "network_buffer_limited": 0.4}, "loss"),
        ({"network_resent": 0.01, "network_round_trip_seconds": 0.021, "network_round_trip_least_seconds": 0.02}, "loss"),
        ({"network_resent": 0.01, "network_round_trip_seconds": 0.03, "network_round_trip_least_seconds": 0.02}, "full"),
        ({"network_resent": 0.001, "network_round_trip_seconds": 0.02, "network_round_trip_least_seconds": 0.02}, "loss"),
        ({"network_resent": 0.001, "network_round_trip_seconds": 0.03, "network_round_trip_least_seconds": 0.02}, "full"),
        ({"network_window_limited": 0.4}, "window"),
        ({"network_buffer_limited": 0.4}, "buffer"),
        ({"network_busy": 1.0}, "unclear"),
        ({}, "short"),
    ],
)
def test_why_a_path_gives_no_more(path, cause):
    found = verdict.judge([run("memory", 1.0, bottleneck="network", path=path)])
    assert found.lowest and found.lowest.cause == cause
