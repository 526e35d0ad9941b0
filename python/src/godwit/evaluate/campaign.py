"""Owns the course of an evaluation: what it will cost, which run is next, and which is repeated. Measures through `measure`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Tuple

from ..client import Client
from ..errors import GodwitError, SetupError
from ..progress import size as size_text
from . import machine, sets
from .cgroups import Throttling
from .emulated import FAR, NEAR, Emulated
from .idle import Connect, Idle
from .measure import STEAL_MAX, TIMEOUT, Size, failed, measure, places
from .plan import Data, Plan, Run
from .probes import Probes, timed_by
from .results import Results
from .sampler import Sampler
from .schedule import duration_text as duration

_IDLE_WAIT = 60.0
# The next run of a setting is expected to take as long as the longest of this many runs.
_LATELY = 3
# While a campaign waits for its hour, the clock may be set, or the machine may sleep.
_LOOK_AT_CLOCK = 60.0
# If this many runs in a row end by an error or their timeout, the evaluation ends.
_FAILED_IN_A_ROW = 5
# After the first of them; after each further one twice as long. A node that starts again needs minutes.
_PAUSE = 60.0

Say = Callable[[str], None]


class Clock:
    """The time of this machine."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)


class Campaign:
    """One evaluation."""

    def __init__(
        self,
        client: Client,
        plan: Plan,
        results: Results,
        say: Say,
        clock: Optional[Clock] = None,
        path: Optional[Emulated] = None,
    ) -> None:
        self._client = client
        self.plan = plan
        self._results = results
        self._say = say
        self._clock = clock or Clock()
        self._path = path
        self._sampler = Sampler({one["name"]: lambda one=one: _watched(one) for one in plan.watch})  # type: ignore[misc]
        sockets = {str(one["name"]): str(one["socket"]) for one in plan.watch if one.get("socket")}
        if client.address.socket:
            sockets["here"] = str(client.address.socket)
        self._throttling = Throttling(sockets)
        self._idle = _idle(client, plan)
        self._sizes: Dict[str, Size] = {}
        # Bytes of runs from memory, by their ends, where the plan has a time instead.
        self._timed: Dict[str, int] = {}
        # Seconds that each run took, with its waits; and the last such times of each setting.
        self._done: Dict[str, float] = {}
        self._lately: Dict[str, Deque[float]] = {}
        # Seconds that counted before this start, and when this start began.
        self._spent, self._began, self._prepared = 0.0, self._clock.now(), 0.0
        self._is_new = False
        self._failed_in_a_row = 0

    def prepare(self) -> None:
        """Keeps the facts about the machines, and finds the remaining runs. Makes no data set."""
        about: Dict[str, Any] = {"plan": self.plan.text, "scale": self.plan.scale, "title": self.plan.title}
        about["source"], about["destination"] = self.plan.source, self.plan.destination
        about["cold"], about["path"], about["idle_below"] = self.plan.cold, self.plan.path, self.plan.idle_below
        about["machine"] = machine.here() if self._path is None else self._path.machine(NEAR)
        about["node"] = machine.node(self._client)
        if self._path is not None:
            about["far_machine"] = self._path.machine(FAR)
        about["watched"] = {one["name"]: _described(one) for one in self.plan.watch}
        self._is_new = self._results.begin(about)
        for run in self._results.each_run():
            # A run that ended by an error was not measured: it is tried again.
            if run.get("error"):
                continue
            self._count(run["key"], run["setting"], float(run.get("took") or run["seconds"]))
        self._spent = sum(self._done.values())
        self._leave_out()
        for data in self.plan.data:
            if data.memory:
                self._sizes[data.name] = Size(1, max(1, int(sets.parse_size(data.memory) * self.plan.scale)))
        self._prepared = self._clock.now() - self._began

    def forget(self) -> None:
        """After a refusal, nothing is left of the preparation."""
        if self._is_new:
            self._results.forget()

    def make(self) -> None:
        """Makes the data sets, and learns how much the runs from memory move."""
        began = self._clock.now()
        scales = self._results.keep("scales", self._probes().scales) if self.plan.fit else {}
        for data in self.plan.data:
            if data.spec:
                scale = float(scales.get(data.name, self.plan.scale))
                self._say(f"data set {data.name}: {data.spec}, scaled by {scale:.3g}")
                self._sizes[data.name] = Size(*sets.make(self.plan, data, scale))
        if self.plan.sites:
            sets.distribute(self._client, self.plan, self._say)
        if self.plan.seconds:
            self._timed = self._results.keep("sizes", lambda: self._probes().amounts(self._sizes))
        self._prepared += self._clock.now() - began

    def left(self) -> List[Run]:
        """The runs that are still to be done; of a plan that only its time ends, those of the next repetition."""
        left = [run for run in self.plan.runs() if run.key not in self._done]
        if left or self.plan.repetitions:
            return left
        return next(runs for runs in map(self._open, self.plan.blocks()) if runs)

    def cost(self) -> str:
        """The number of remaining runs, their bytes, and the least time that they take. No data set is needed."""
        runs = self.left()
        rate = self._probes().now()
        moved = {run.key: self._promised(run, rate) for run in runs}
        written = sum(moved[run.key] for run in runs if places(self.plan, run, Size(1, 1))[2])
        made = sum(self._promised_size(data, rate) for data in self.plan.data if data.spec) * max(1, len(self.plan.sites))
        seconds = sum(moved.values()) / rate + len(runs)
        said = (
            f"{len(runs)} runs of {len({run.setting for run in runs})} settings. They move {size_text(sum(moved.values()))} and "
            f"write {size_text(written)} at {self.plan.destination}, which is removed after each run. "
            f"Data sets of {size_text(made)} are made first. Memory to memory gives "
            f"{size_text(rate)}/s now, so this takes at least {duration(seconds)}."
        )
        if not self.plan.repetitions:
            said += " They are repeated until the time is over."
        most, jobs = max((int(dict(run.factors).get("concurrent", "1")) for run in runs), default=1), self._jobs_at_once()
        if most > jobs:
            said += f" The node runs {jobs} jobs at once, and {most} are wanted: the others wait. Start it with --jobs {most}."
        if self.plan.within:
            said += f" No run begins that would end after {duration(self.plan.within)} in all."
        if self.plan.schedule:
            said += f" The repetitions wait for their hours; the last one begins in {duration(self._until_last_slot())}."
        return said

    def run(self) -> None:
        """Does the remaining runs. A run that another load disturbed is repeated."""
        # The time that the user took to confirm does not count.
        self._began = self._clock.now() - self._prepared
        for block in self.plan.blocks():
            runs = self._open(block)
            if not runs:
                continue
            self._wait_for_slot(block)
            for number, run in enumerate(runs, 1):
                if self._is_over(run):
                    self._say(f"the time is over: {duration(self._elapsed())} of {duration(self.plan.within)} are spent")
                    return
                began = self._clock.now()
                error: Optional[GodwitError] = None
                try:
                    row, samples = self._one(run)
                except SetupError:
                    raise
                except GodwitError as caught:
                    error = caught
                    row, samples = self._failed(run, began, error), []
                row["took"] = self._clock.now() - began
                self._results.add(row, samples)
                self._count(run.key, run.setting, row["took"])
                self._told(run, row, len(self._done), block, runs[number:])
                self._stop_or_pause(run, row, error)

    def tables(self) -> None:
        """Writes the tables of what there is."""
        self._results.tables()

    def _failed(self, run: Run, began: float, error: GodwitError) -> Dict[str, Any]:
        row = failed(self.plan, run, began, self._clock.now() - began, error)
        return {
            **row,
            "tries": 1,
            "busy_before": 0.0,
            "idle_of": [],
            "disturbed": False,
            "sampling_troubles": self._sampler.troubles,
        }

    def _stop_or_pause(self, run: Run, row: Mapping[str, Any], error: Optional[GodwitError]) -> None:
        """Ends the evaluation after several runs in a row that gave nothing. A node that is away has some time to come back."""
        self._failed_in_a_row = self._failed_in_a_row + 1 if error or row["state"] == TIMEOUT else 0
        if self._failed_in_a_row >= _FAILED_IN_A_ROW:
            why = str(error) if error else f"it took more than {duration(self.plan.timeout)}"
            raise GodwitError(
                error.code if error else "peer_silent", f"{_FAILED_IN_A_ROW} runs in a row failed. The last one: {run.key}: {why}"
            )
        if error and error.is_transient:
            pause = _PAUSE * 2 ** (self._failed_in_a_row - 1)
            left = self.plan.within - self._elapsed() if self.plan.within else pause
            self._clock.sleep(max(0.001, min(pause, left)))

    def _open(self, block: int) -> List[Run]:
        return [run for run in self.plan.block(block) if run.key not in self._done]

    def _told(self, run: Run, row: Mapping[str, Any], number: int, block: int, rest: List[Run]) -> None:
        marks = " (disturbed)" if row["disturbed"] else f" ({row['error']})" if row.get("error") else ""
        whole = f"/{len(self.plan.runs())}" if self.plan.repetitions else ""
        self._say(
            f"{number}{whole} {run.key}: {size_text(row['bytes_per_second'])}/s, {row['seconds']:.1f} s, "
            f"{row['state']}{marks}; {duration(self.rest(block, rest))} left"
        )

    def rest(self, block: int, runs: List[Run]) -> float:
        """The seconds until the end, if these runs of a block remain. The waits for the hours of a campaign count."""
        mean = sum(self._done.values()) / max(1, len(self._done))
        if not self.plan.repetitions:
            return max(0.0, self.plan.within - self._elapsed())
        later = [len(self._open(one)) for one in range(block + 1, self.plan.repetitions + 1)]
        later = [count for count in later if count]
        if self.plan.schedule and later:
            now = self._clock.now()
            # No repetition begins before the present one is done.
            left = self.plan.schedule.next(now + mean * len(runs), len(later)) - now + mean * later[-1]
        else:
            left = mean * (len(runs) + sum(later))
        return min(left, max(0.0, self.plan.within - self._elapsed())) if self.plan.within else left

    def _until_last_slot(self) -> float:
        blocks = sum(1 for block in range(1, self.plan.repetitions + 1) if self._open(block))
        now = self._clock.now()
        return self.plan.schedule.next(now, max(1, blocks)) - now if self.plan.schedule else 0.0

    def _wait_for_slot(self, block: int) -> None:
        if self.plan.schedule is None:
            return
        slot = self.plan.schedule.next(self._clock.now())
        self._say(f"repetition {block} waits {duration(slot - self._clock.now())} for its hour")
        while self._clock.now() < slot:
            self._clock.sleep(min(_LOOK_AT_CLOCK, max(0.0, slot - self._clock.now())))

    def _elapsed(self) -> float:
        return self._spent + self._clock.now() - self._began

    def _is_over(self, run: Run) -> bool:
        """Whether a run would end after the time of the plan. Earlier runs of the setting give the expected time."""
        if not self.plan.within:
            return False
        return self._elapsed() + self._expected(run) > self.plan.within

    def _expected(self, run: Run) -> float:
        return max(self._lately.get(run.setting, ()), default=self.plan.seconds)

    def _count(self, key: str, setting: str, took: float) -> None:
        self._done[key] = took
        self._lately.setdefault(setting, deque(maxlen=_LATELY)).append(took)

    def _one(self, run: Run) -> Tuple[Dict[str, Any], List[Any]]:
        for attempt in range(1, self.plan.tries + 1):
            busy = self._wait_until_idle(run)
            if self._path is not None:
                self._path.set_factors(dict(run.factors))
            row, samples = measure(self._client, self.plan, run, self._size(run), self._sampler, self._throttling)
            row["tries"] = attempt
            row["busy_before"], row["idle_of"] = max(busy.values(), default=0.0), sorted(busy)
            row["disturbed"] = row["busy_before"] > self.plan.idle_below or row["steal"] > STEAL_MAX
            row["sampling_troubles"] = self._sampler.troubles
            if not row["disturbed"] or (self.plan.within and self._spare() < row["seconds"]):
                break
        return row, samples

    def _wait_until_idle(self, run: Run) -> Dict[str, float]:
        """Gives another load a minute to end, and says how busy each machine is that can be asked."""
        most = min(_IDLE_WAIT, max(0.0, self._spare() - self._expected(run))) if self.plan.within else _IDLE_WAIT
        until = self._clock.now() + most
        while True:
            busy = self._idle.busy()
            if max(busy.values(), default=0.0) <= self.plan.idle_below or self._clock.now() >= until:
                return busy
            self._clock.sleep(1.0)

    def _spare(self) -> float:
        """The spare time if each remaining run takes its usual time."""
        mean = sum(self._done.values()) / len(self._done) if self._done else self.plan.seconds
        left = len(self.plan.block(1)) * self.plan.repetitions - len(self._done) if self.plan.repetitions else 0
        return self.plan.within - self._elapsed() - mean * left

    def _jobs_at_once(self) -> int:
        found = [one["value"] for one in self._client.node.settings() if one["name"] == "jobs"]
        return int(str(found[0])) if found else 1

    def _promised(self, run: Run, rate: float) -> int:
        """The most bytes that a run moves, from the plan and this rate, before its set is made."""
        data = next(one for one in self.plan.data if one.name == run.data)
        concurrent = int(dict(run.factors).get("concurrent", "1"))
        whole = self._promised_size(data, rate) * concurrent
        is_timed = self.plan.seconds and run.ends in ("memory", "back", "destination")
        return min(whole, max(concurrent, int(rate * self.plan.seconds))) if is_timed else whole

    def _promised_size(self, data: Data, rate: float) -> int:
        if data.memory:
            return self._sizes[data.name].bytes
        whole = sets.foretell(data.spec, self.plan.seed, self.plan.scale)
        return min(whole, int(rate * self.plan.seconds)) if self.plan.fit else whole

    def _size(self, run: Run) -> Size:
        whole = self._sizes[run.data]
        timed = self._timed.get(timed_by(run))
        # Jobs at once share the path, and the time.
        concurrent = int(dict(run.factors).get("concurrent", "1"))
        return Size(1, max(1, min(whole.bytes, timed // concurrent))) if timed else whole

    def _leave_out(self) -> None:
        """Reports variants that a node refuses before the start, and leaves them out: by default, those without encryption."""
        refused = self._results.keep("left_out", self._probes().refused)
        for name, why in refused.items():
            self._say(f"variant {name} is left out: {why}")
        kept = {name: one for name, one in self.plan.variants.items() if name not in refused}
        if not kept:
            raise SetupError("usage", f"the nodes refuse every variant of the plan: {'; '.join(refused.values())}")
        self.plan = dataclasses.replace(self.plan, variants=kept)

    def remove(self) -> None:
        """Removes the data sets."""
        sets.remove(self.plan)
        sets.take_back(self._client, self.plan, self._say)

    def _probes(self) -> Probes:
        def run_once(run: Run, size: Size) -> Dict[str, Any]:
            return measure(self._client, self.plan, run, size, self._sampler, self._throttling)[0]

        return Probes(self._client, self.plan, self._say, run_once)


def _idle(client: Client, plan: Plan) -> Idle:
    """A node at a socket runs on this machine. The other nodes are asked."""
    others: Dict[str, Connect] = {
        str(one["name"]): functools.partial(_watched, one) for one in plan.watch if not one.get("socket")
    }
    is_here = bool(client.address.socket) or len(others) < len(plan.watch)
    if not client.address.socket:
        others.setdefault("here", lambda: contextlib.nullcontext(client))
    return Idle(is_here, others)


def _watched(one: Mapping[str, str]) -> Client:
    known: Dict[str, Optional[str]] = {name: one.get(name) for name in ("socket", "token_file", "fingerprint")}
    return Client(one.get("node"), **known)  # type: ignore[arg-type]


def _described(one: Mapping[str, str]) -> Dict[str, Any]:
    with _watched(one) as client:
        return machine.node(client)
