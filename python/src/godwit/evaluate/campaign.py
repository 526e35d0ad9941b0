"""Owns the course of an evaluation: what it will cost, which run is next, and which is repeated. Measures through `measure`."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Mapping, Optional

from ..client import Client
from ..errors import SetupError
from ..progress import size as told_size
from . import machine, sets
from .cgroups import Throttling
from .measure import STEAL_MAX, Size, busy_now, measure, places
from .plan import Plan, Run
from .results import Results
from .sampler import Sampler

# So much is sent to learn the rate before anything is promised.
_PROBE_BYTES = 64 << 20
_PROBE_GROWS = 8
_IDLE_WAIT = 60.0

Say = Callable[[str], None]


class Campaign:
    """One evaluation."""

    def __init__(self, client: Client, plan: Plan, results: Results, say: Say) -> None:
        self._client = client
        self._plan = plan
        self._results = results
        self._say = say
        self._sampler = Sampler({one["name"]: lambda one=one: _watched(one) for one in plan.watch})  # type: ignore[misc]
        sockets = {str(one["name"]): str(one["socket"]) for one in plan.watch if one.get("socket")}
        if client.address.socket:
            sockets["here"] = str(client.address.socket)
        self._throttling = Throttling(sockets)
        self._sizes: Dict[str, Size] = {}
        # Bytes of runs from memory, by their ends, where the plan has a time instead.
        self._timed: Dict[str, int] = {}

    def prepare(self) -> None:
        """Makes the data sets, and keeps what is known of the machines."""
        about: Dict[str, Any] = {"plan": self._plan.text, "scale": self._plan.scale, "title": self._plan.title}
        about["source"], about["destination"] = self._plan.source, self._plan.destination
        about["cold"] = self._plan.cold
        about["machine"], about["node"] = machine.here(), machine.node(self._client)
        about["watched"] = {one["name"]: _described(one) for one in self._plan.watch}
        self._results.begin(about)
        for data in self._plan.data:
            if data.memory:
                self._sizes[data.name] = Size(1, max(1, int(sets.parse_size(data.memory) * self._plan.scale)))
            else:
                self._say(f"data set {data.name}: {data.spec}, scaled by {self._plan.scale:g}")
                self._sizes[data.name] = Size(*sets.make(self._plan, data))
        if self._plan.seconds:
            self._timed = self._results.sizes(self._time)

    def left(self) -> List[Run]:
        """The runs that are still to be done."""
        done = {run["key"] for run in self._results.runs()}
        return [run for run in self._plan.runs() if run.key not in done]

    def cost(self) -> str:
        """How many runs are left, how much they move and write, and how long that takes at least."""
        runs = self.left()
        moved = {run.key: self._bytes(run) for run in runs}
        written = sum(moved[run.key] for run in runs if places(self._plan, run, self._size(run))[2])
        rate = self._probe()
        seconds = sum(moved.values()) / rate + len(runs)
        return (
            f"{len(runs)} runs of {len({run.setting for run in runs})} settings. They move {told_size(sum(moved.values()))} and "
            f"write {told_size(written)} at {self._plan.destination}, which is removed after each run. Memory to memory gives "
            f"{told_size(rate)}/s now, so this takes at least {duration(seconds)}."
        )

    def run(self) -> None:
        """Does what is left. A run that another load disturbed is repeated."""
        left = self.left()
        began = time.monotonic()
        for number, run in enumerate(left, 1):
            row = self._one(run)
            rest = (time.monotonic() - began) / number * (len(left) - number)
            marks = " (disturbed)" if row["disturbed"] else ""
            self._say(
                f"{number}/{len(left)} {run.key}: {told_size(row['bytes_per_second'])}/s, {row['seconds']:.1f} s, "
                f"{row['state']}{marks}; {duration(rest)} left"
            )
        self._results.tables()

    def _one(self, run: Run) -> Dict[str, Any]:
        for attempt in range(1, self._plan.tries + 1):
            self._wait_until_idle()
            row, samples = measure(self._client, self._plan, run, self._size(run), self._sampler, self._throttling)
            row["tries"] = attempt
            row["disturbed"] = row["busy_before"] > self._plan.idle_below or row["steal"] > STEAL_MAX
            row["sampling_troubles"] = self._sampler.troubles
            if not row["disturbed"]:
                break
        self._results.add(row, samples)
        return row

    def _wait_until_idle(self) -> None:
        """Gives another load a minute to end. Only of this machine is it known."""
        until = time.monotonic() + _IDLE_WAIT
        while self._client.address.socket and busy_now() > self._plan.idle_below and time.monotonic() < until:
            time.sleep(1.0)

    def _bytes(self, run: Run) -> int:
        return self._size(run).bytes * int(dict(run.factors).get("concurrent", "1"))

    def _size(self, run: Run) -> Size:
        whole = self._sizes[run.data]
        timed = self._timed.get(run.ends)
        return Size(1, max(1, min(whole.bytes, timed))) if timed else whole

    def _time(self) -> Dict[str, int]:
        """So many bytes that a run from memory takes the time of the plan. A set on disk is what it is."""
        found: Dict[str, int] = {}
        for run in self._plan.runs():
            whole, moved = self._sizes[run.data].bytes, _PROBE_BYTES
            if run.ends not in ("memory", "back", "destination") or run.ends in found or whole <= moved:
                continue
            self._say(f"{run.ends}: a probe says how much moves in {self._plan.seconds:g} s")
            while True:
                row, _ = measure(self._client, self._plan, run, Size(1, moved), self._sampler, self._throttling)
                if row["state"] != "complete":
                    raise SetupError("usage", f"the probe of {run.ends} ended as {row['state']}; no run can be sized by it")
                # A shorter one measures its start.
                if row["seconds"] >= 1 or moved >= whole:
                    break
                moved = min(whole, moved * _PROBE_GROWS, max(2 * moved, int(row["bytes_per_second"] * 1.5)))
            found[run.ends] = max(moved, int(row["bytes_per_second"] * self._plan.seconds))
        return found

    def _probe(self) -> float:
        here, there = self._plan.source.split(":", 1)[0], self._plan.destination.split(":", 1)[0]
        job = self._client.submit(f"{here}:mem:{_PROBE_BYTES}", f"{there}:null:", label="evaluate: probe", retries_max=0)
        summary = job.wait(self._plan.timeout).view.get("summary") or {}
        return _PROBE_BYTES / max(float(summary.get("seconds") or 0), 1e-3)


def duration(seconds: float) -> str:
    """A time for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _watched(one: Mapping[str, str]) -> Client:
    known: Dict[str, Optional[str]] = {name: one.get(name) for name in ("socket", "token_file", "fingerprint")}
    return Client(one.get("node"), **known)  # type: ignore[arg-type]


def _described(one: Mapping[str, str]) -> Dict[str, Any]:
    with _watched(one) as client:
        return machine.node(client)
