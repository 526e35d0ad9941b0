"""Owns the trials before an evaluation: rates that decide the sizes of runs and sets, and variants that a node refuses.
Keeps nothing."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Tuple

from ..client import Client
from ..errors import GodwitError, SetupError
from . import sets
from .measure import Size
from .plan import Plan, Run

# Bytes that are sent to learn the rate before anything is promised.
_PROBE_BYTES = 64 << 20
_PROBE_GROWS = 8
# Enough to learn whether a node takes the settings of a variant.
_TRIAL_BYTES = 64 << 10
# The first set is made smaller by this factor, to learn the size of the whole set.
_TRIAL_SCALE = 0.01


class Probes:
    """The probes of one plan. `run_once` measures one run of a size."""

    def __init__(
        self, client: Client, plan: Plan, say: Callable[[str], None], run_once: Callable[[Run, Size], Dict[str, Any]]
    ) -> None:
        self._client = client
        self._plan = plan
        self._say = say
        self._run_once = run_once

    def refused(self) -> Dict[str, str]:
        """The variants that a node refuses, and why."""
        found: Dict[str, str] = {}
        for name, settings in self._plan.variants.items():
            if not settings:
                continue
            here, there = (place.split(":", 1)[0] for place in (self._plan.source, self._plan.destination))
            try:
                job = self._client.submit(
                    f"{here}:mem:{_TRIAL_BYTES}", f"{there}:null:", label="evaluate: trial", settings=settings, retries_max=0
                ).wait(self._plan.timeout, check=False)
            except GodwitError as error:
                if error.is_transient:
                    raise
                found[name] = error.message
                continue
            summary = job.view.get("summary") or {}
            if job.state != "complete":
                failure = GodwitError(
                    str(summary.get("code") or ""), str(summary.get("message") or summary.get("code") or job.state)
                )
                # A trial of memory fails for good by its settings alone.
                if failure.is_transient:
                    raise failure
                found[name] = failure.message
        return found

    def scales(self) -> Dict[str, float]:
        """Scales of the sets on disk, with which path and destination move each set within the seconds of the plan."""
        ends = [one for one in ("memory", "destination") if one == "memory" or {"destination", "disk"} & {*self._plan.ends}]
        rate = min(self._rate(Run("", one, next(iter(self._plan.variants)), (), 0), 1 << 50)[1] for one in ends)
        found = {}
        for data in self._plan.data:
            if data.spec:
                trial = self._plan.scale * _TRIAL_SCALE
                # One of an earlier evaluation may be there.
                sets.remove_one(self._plan, data)
                whole = sets.make(self._plan, data, trial)[1] / _TRIAL_SCALE
                sets.remove_one(self._plan, data)
                found[data.name] = self._plan.scale * min(1.0, rate * self._plan.seconds / max(1.0, whole))
        return found

    def amounts(self, sizes: Mapping[str, Size]) -> Dict[str, int]:
        """The bytes with which a run from memory takes the time of the plan. A set on disk is what it is."""
        found: Dict[str, int] = {}
        for run in self._plan.block(1):
            whole = sizes[run.data].bytes
            if run.ends not in ("memory", "back", "destination") or timed_by(run) in found or whole <= _PROBE_BYTES:
                continue
            self._say(f"{timed_by(run)}: a probe says how much moves in {self._plan.seconds:g} s")
            moved, rate = self._rate(run, whole)
            found[timed_by(run)] = max(moved, int(rate * self._plan.seconds))
        return found

    def now(self) -> float:
        """The rate from memory to memory, by one short job."""
        here, there = self._plan.source.split(":", 1)[0], self._plan.destination.split(":", 1)[0]
        job = self._client.submit(f"{here}:mem:{_PROBE_BYTES}", f"{there}:null:", label="evaluate: probe", retries_max=0)
        summary = job.wait(self._plan.timeout).view.get("summary") or {}
        return _PROBE_BYTES / max(float(summary.get("seconds") or 0), 1e-3)

    def _rate(self, run: Run, whole: int) -> Tuple[int, float]:
        """Bytes and rate of a run from memory that is long enough to measure more than its start."""
        moved = min(whole, _PROBE_BYTES)
        while True:
            row = self._run_once(run, Size(1, moved))
            if row["state"] != "complete":
                raise SetupError("usage", f"the probe of {run.ends} ended as {row['state']}; no run can be sized by it")
            if row["seconds"] >= 1 or moved >= whole:
                return moved, row["bytes_per_second"]
            moved = min(whole, moved * _PROBE_GROWS, max(2 * moved, int(row["bytes_per_second"] * 1.5)))


def timed_by(run: Run) -> str:
    """Runs of one name here move the same amount."""
    return f"{'>'.join(run.pair)} {run.ends}" if any(run.pair) else run.ends
