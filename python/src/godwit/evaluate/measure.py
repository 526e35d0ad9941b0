"""Owns one run: its jobs from submission to end, and its figures. Decides no order, and keeps no results."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ..api.schemas import JobReport
from ..client import Client
from ..errors import GodwitError, RefusedError
from ..job import Job
from . import evidence, sets
from .cgroups import Throttling
from .plan import Plan, Run
from .sampler import Sample, Sampler

# More stolen time than this in any second, and another guest of the same machine was at work.
STEAL_MAX = 0.05


class Size(NamedTuple):
    """Files and bytes of a data set."""

    files: int
    bytes: int


def places(plan: Plan, run: Run, size: Size) -> Tuple[str, str, bool]:
    """Source and destination of a run, and whether it writes."""
    here, there = plan.source.split(":", 1)[0], plan.destination.split(":", 1)[0]
    target = f"{plan.destination}/{run.data}"
    if run.ends == "memory":
        return f"{here}:mem:{size.bytes}", f"{there}:null:", False
    if run.ends == "back":
        return f"{there}:mem:{size.bytes}", f"{here}:null:", False
    if run.ends == "source":
        return f"{plan.source}/{run.data}", f"{here}:null:", False
    if run.ends == "destination":
        return f"{there}:mem:{size.bytes}", target, True
    return f"{plan.source}/{run.data}", target, True


def sites(plan: Plan, run: Run) -> Dict[str, str]:
    """The sites between which a run moves data. `here` is the site of the node that is asked."""
    source, destination, _ = places(plan, run, Size(1, 1))
    return {"source": source.split(":", 1)[0], "destination": destination.split(":", 1)[0]}


def measure(
    client: Client, plan: Plan, run: Run, size: Size, sampler: Sampler, throttling: Throttling
) -> Tuple[Dict[str, Any], List[Sample]]:
    """Runs the jobs of one run at once, waits for them, and gives the figures and the samples."""
    source, destination, writes = places(plan, run, size)
    factors = dict(run.factors)
    count = int(factors.pop("concurrent", "1"))
    settings = {**plan.variants[run.variant], **factors}
    targets = [f"{destination}-{number}" if writes else destination for number in range(count)]
    if writes:
        _empty(client, plan, targets)
    if plan.cold and run.ends in ("source", "disk"):
        sets.drop_from_cache(plan, run.data)
    busy = busy_now() if client.address.socket else 0.0
    sampler.begin()
    throttling.begin()
    jobs: List[Job] = []
    try:
        for target in targets:
            jobs.append(
                client.submit(source, target, label=f"evaluate {run.key}", settings=settings, retries_max=0)  # one try each
            )
        for job in jobs:
            job.wait(plan.timeout, check=False)
    except GodwitError:
        _give_up(jobs)
        raise
    finally:
        samples = sampler.end()
        throttled = throttling.end()
    reports = [job.report() for job in jobs]
    if writes:
        _empty(client, plan, targets)
    mine = [sample for report in reports for sample in own_samples(report)]
    about = {"sites": sites(plan, run), "throttled": throttled, "busy_before": busy, "sampling_seconds": sampler.cost_seconds}
    return {**figures(run, reports), **about}, [*mine, *samples]


def figures(run: Run, reports: List[JobReport]) -> Dict[str, Any]:
    """The figures of a run from the reports of its jobs."""
    began = min(moment(report["job"].get("started") or report["job"]["created"]) for report in reports)
    ends = [done(report) - began for report in reports]
    moved = sum(report["bytes_moved"] for report in reports)
    summaries = [report["job"].get("summary") or {} for report in reports]
    states = {report["job"]["state"] for report in reports}
    samples = [sample for report in reports for sample in report["samples"]]
    hosts = [sample["host"] for sample in samples]
    seconds = max(*ends, 1e-3)
    joules = [report.get("joules_per_terabyte") for report in reports]
    return {
        "key": run.key,
        "setting": run.setting,
        "block": run.block,
        "data": run.data,
        "ends": run.ends,
        "variant": run.variant,
        "factors": dict(run.factors),
        "began": began,
        "state": "complete" if states == {"complete"} else ", ".join(sorted(states)),
        "codes": sorted({str(one["code"]) for one in summaries if one.get("code")}),
        "jobs": [report["job"]["id"] for report in reports],
        "bytes": moved,
        "files": sum(int(one.get("files") or 0) for one in summaries),
        "seconds": seconds,
        "first_done": min(ends),
        "last_done": seconds,
        "bytes_per_second": moved / seconds,
        "peak_bytes_per_second": max((sample["bytes_per_second"] for sample in samples), default=0.0),
        "bottleneck": most({stage: share for report in reports for stage, share in report["bottlenecks"].items()}),
        "told": evidence.told(reports),
        "path": evidence.path(reports),
        "channels": evidence.channels(reports),
        "cpu_seconds_source": cpu(summaries, "source"),
        "cpu_seconds_destination": cpu(summaries, "destination"),
        "resent_bytes": sum(int(one.get("resent_bytes") or 0) for one in summaries),
        "joules_per_terabyte": next((one for one in joules if one is not None), None),
        "steal": max((host.get("cpu_steal", 0.0) for host in hosts), default=0.0),
        "forecast_error": forecast_error(reports[0]) if len(reports) == 1 else None,
    }


def done(report: JobReport) -> float:
    """When the transfer of a job was done. A job that another site runs is heard of only once a second, so its summary counts."""
    job = report["job"]
    ended, seconds = moment(job.get("ended") or report["made"]), (job.get("summary") or {}).get("seconds")
    if seconds is None or not job.get("started"):
        return ended
    return min(ended, moment(str(job["started"])) + float(seconds))


def own_samples(report: JobReport) -> List[Sample]:
    """The samples that the node took of its host and of the stages."""
    found = []
    for sample in report["samples"]:
        site, at = sample.get("site") or "here", moment(sample["at"])
        rows = {"bytes_per_second": sample["bytes_per_second"], "bytes": float(sample["bytes"])}
        rows.update({f"host_{name}": value for name, value in sample["host"].items()})
        rows.update({f"stage_{name}": value for name, value in sample.get("stages", {}).items()})
        found += [Sample(site, at, name, value) for name, value in rows.items()]
    return found


def forecast_error(report: JobReport) -> Optional[float]:
    """By how much the end that the node foretold after a tenth of the bytes missed the truth; as a share of it."""
    review = report.get("forecast")
    return abs(review["error"]) if review else None


def moment(text: str) -> float:
    """Seconds since 1970 of a time of RFC 3339."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def most(shares: Dict[str, float]) -> Optional[str]:
    """The stage with the largest share."""
    return max(shares, key=lambda stage: shares[stage]) if shares else None


def cpu(summaries: List[Any], side: str) -> Optional[float]:
    """Processor seconds of a side."""
    found = [(one.get("cpu_seconds") or {}).get(side) for one in summaries]
    known = [float(one) for one in found if one is not None]
    return sum(known) if known else None


def busy_now(seconds: float = 0.25, read: Callable[[], str] = lambda: Path("/proc/stat").read_text()) -> float:
    """The share of this machine's processors that is busy now."""
    then = _ticks(read())
    time.sleep(seconds)
    now = _ticks(read())
    whole = sum(now) - sum(then)
    idle = now[3] + now[4] - then[3] - then[4]
    return 1 - idle / whole if whole else 0.0


def _ticks(text: str) -> List[int]:
    return [int(word) for word in text.split("\n", 1)[0].split()[1:9]]


def _empty(client: Client, plan: Plan, targets: List[str]) -> None:
    """Removes what a run has written, and makes sure that the directory above is there."""
    client.places.mkdir({"place": plan.destination, "parents": True})
    for target in targets:
        try:
            client.places.remove({"place": target, "recursive": True})
        except RefusedError as error:
            if error.code != "not_found":
                raise


def _give_up(jobs: List[Job]) -> None:
    for job in jobs:
        try:
            job.cancel("the evaluation ended")
        except GodwitError:
            continue
