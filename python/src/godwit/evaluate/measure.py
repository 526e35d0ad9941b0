"""Owns one run: its jobs from submission to end, and its figures. Decides no order, and keeps no results."""

from __future__ import annotations

import contextlib
import time
from datetime import datetime
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..api.schemas import JobReport, NodeProgress
from ..client import Client
from ..errors import GodwitError, RefusedError, StillRunningError
from ..job import Job
from . import evidence, sets
from .cgroups import Throttling
from .plan import DIVIDE_FACTOR, NODES_FACTOR, OF_THE_PATH, Plan, Run
from .sampler import Sample, Sampler

# If more time than this was stolen in any second, another guest of the same machine was working.
STEAL_MAX = 0.05
# The state of a run whose jobs did not end in time.
TIMEOUT = "timeout"
# A job that is cancelled still writes for so long at most.
_CANCEL_SECONDS = 30.0


class Size(NamedTuple):
    """Files and bytes of a data set."""

    files: int
    bytes: int


def ends_of(plan: Plan, run: Run) -> Tuple[str, str]:
    """The directories between which a run moves data."""
    return run.pair if any(run.pair) else (plan.source, plan.destination)


def places(plan: Plan, run: Run, size: Size) -> Tuple[str, str, bool]:
    """Source and destination of a run, and whether it writes."""
    source, destination = ends_of(plan, run)
    here, there = source.split(":", 1)[0], destination.split(":", 1)[0]
    target = f"{destination}/{run.data}"
    if run.ends == "memory":
        return f"{here}:mem:{size.bytes}", f"{there}:null:", False
    if run.ends == "back":
        return f"{there}:mem:{size.bytes}", f"{here}:null:", False
    if run.ends == "source":
        return f"{source}/{run.data}", f"{here}:null:", False
    if run.ends == "destination":
        return f"{there}:mem:{size.bytes}", target, True
    # At the other sites of a matrix, a set lies beside what comes there.
    return f"{source}/{run.data}", f"{target}-from-{here}" if any(run.pair) else target, True


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
    # Nodes of an emulated path are drained instead.
    for of_the_path in (*OF_THE_PATH, *([NODES_FACTOR] if plan.path is not None else [])):
        factors.pop(of_the_path, None)
    # It is no setting of the transfer: it says how a job is submitted.
    options: Dict[str, Any] = {"divide": factors.pop(DIVIDE_FACTOR)} if DIVIDE_FACTOR in factors else {}
    options["settings"] = {**plan.variants[run.variant], **factors}
    targets = [f"{destination}-{number}" if writes else destination for number in range(count)]
    above = ends_of(plan, run)[1]
    if writes:
        empty(client, above, targets)
    if plan.cold and run.ends in ("source", "disk"):
        sets.drop_from_cache(plan, run.data)
    sampler.begin()
    throttling.begin()
    jobs: List[Job] = []
    try:
        for target in targets:
            jobs.append(client.submit(source, target, label=f"evaluate {run.key}", retries_max=0, **options))  # one try each
        in_time = _wait(jobs, plan.timeout)
        reports = [job.report() for job in jobs]
    except (GodwitError, KeyboardInterrupt):
        _give_up(jobs)
        if writes:
            _leave_nothing(client, above, targets)
        raise
    finally:
        samples = sampler.end()
        throttled = throttling.end()
    if writes:
        empty(client, above, targets)
    mine = [sample for report in reports for sample in own_samples(report)]
    about = {
        "sites": sites(plan, run),
        "is_pair": any(run.pair),
        "throttled": throttled,
        "sampling_seconds": sampler.cost_seconds,
    }
    if not in_time:
        about["state"] = TIMEOUT
    return {**figures(run, reports), **about}, [*mine, *samples]


def _wait(jobs: Sequence[Job], timeout: float) -> bool:
    """Waits for all jobs until one deadline. Jobs that have not ended by then are cancelled."""
    until = time.monotonic() + timeout
    for job in jobs:
        try:
            job.wait(max(0.0, until - time.monotonic()), check=False)
        except StillRunningError:
            if not job.refresh().has_ended:
                _give_up(jobs)
                return False
    return True


def failed(plan: Plan, run: Run, began: float, seconds: float, error: GodwitError) -> Dict[str, Any]:
    """The figures of a run that gave none, because of an error at one of its calls."""
    unknown = dict.fromkeys(
        ("bottleneck", "cpu_seconds_source", "cpu_seconds_destination", "joules_per_terabyte", "forecast_error")
    )
    rates = dict.fromkeys(("bytes_per_second", "peak_bytes_per_second", "steal", "sampling_seconds"), 0.0)
    lists: Dict[str, List[Any]] = {name: [] for name in ("jobs", "findings", "channels", "nodes", "steal_of")}
    times = dict.fromkeys(("seconds", "first_done", "last_done"), max(seconds, 1e-3))
    about = {"sites": sites(plan, run), "is_pair": any(run.pair), "throttled": {}, "path": {}, "began": began}
    amounts = dict.fromkeys(("bytes", "files", "resent_bytes"), 0)
    state = {"state": "failed", "codes": [error.code], "error": str(error)}
    return {**_names(run), **unknown, **rates, **lists, **times, **about, **amounts, **state}


def _names(run: Run) -> Dict[str, Any]:
    return {
        "key": run.key,
        "setting": run.setting,
        "block": run.block,
        "data": run.data,
        "ends": run.ends,
        "variant": run.variant,
        "factors": dict(run.factors),
    }


def figures(run: Run, reports: List[JobReport]) -> Dict[str, Any]:
    """The figures of a run from the reports of its jobs."""
    began = min(moment(report["job"].get("started") or report["job"]["created"]) for report in reports)
    ends = [done(report) - began for report in reports]
    moved = sum(report["bytes_moved"] for report in reports)
    summaries = [report["job"].get("summary") or {} for report in reports]
    states = {report["job"]["state"] for report in reports}
    stolen = steal(reports)
    nodes = [{"name": one["node"], "share": one["share"]} for report in reports for one in report.get("nodes") or ()]
    seconds = max(*ends, 1e-3)
    joules = [report.get("joules_per_terabyte") for report in reports]
    return {
        **_names(run),
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
        "peak_bytes_per_second": peak(reports),
        "bottleneck": most(bottlenecks(reports)),
        "findings": evidence.findings(reports),
        "path": evidence.path(reports),
        "channels": evidence.channels(reports),
        "nodes": nodes,
        "cpu_seconds_source": cpu(summaries, "source"),
        "cpu_seconds_destination": cpu(summaries, "destination"),
        "resent_bytes": sum(int(one.get("resent_bytes") or 0) for one in summaries),
        "joules_per_terabyte": energy(joules, [report["bytes_moved"] for report in reports]),
        "steal": max(stolen.values(), default=0.0),
        "steal_of": sorted(stolen),
        "forecast_error": forecast_error(reports[0]) if len(reports) == 1 else None,
    }


def peak(reports: Sequence[JobReport]) -> float:
    """The best second of a run: the rates of all of its jobs in that second, each by its last sample there."""
    seconds: Dict[int, Dict[int, float]] = {}
    for number, report in enumerate(reports):
        for sample in sorted(report["samples"], key=lambda one: moment(one["at"])):
            seconds.setdefault(int(moment(sample["at"])), {})[number] = sample["bytes_per_second"]
    return max((sum(rates.values()) for rates in seconds.values()), default=0.0)


def bottlenecks(reports: Sequence[JobReport]) -> Dict[str, float]:
    """The shares of the stages, added up over all jobs."""
    shares: Dict[str, float] = {}
    for report in reports:
        for stage, share in report["bottlenecks"].items():
            shares[stage] = shares.get(stage, 0.0) + share
    return shares


def steal(reports: Sequence[JobReport]) -> Dict[str, float]:
    """The largest share of stolen processor time in any sample, by site: of each host that gives it, at both ends."""
    found: Dict[str, float] = {}
    for report in reports:
        for site, host in _hosts(report):
            if "cpu_steal" in host:
                found[site] = max(found.get(site, 0.0), host["cpu_steal"])
    return found


def _hosts(report: JobReport) -> Iterator[Tuple[str, Mapping[str, float]]]:
    """The figures of each host in the samples of a job, with its site."""
    for sample in report["samples"]:
        site = sample.get("site") or "here"
        for one in (sample, *(sample.get("nodes") or ())):
            yield site, one["host"]
            yield _other(report, site), one.get("other_host") or {}


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
        # The node names the host at the other end by no site: it is the one of the job's two that did not measure.
        elsewhere = {f"host_{name}": value for name, value in sample.get("other_host", {}).items()}
        found += [Sample(_other(report, site), at, name, value) for name, value in elsewhere.items()]
        for place, name, value in _of_nodes(report, sample.get("nodes") or (), site):
            found.append(Sample(place, at, name, value))
    return found


def _of_nodes(report: JobReport, nodes: Sequence[NodeProgress], site: str) -> Iterator[Tuple[str, str, float]]:
    """The figures of each node of a divided job at one time, and of each that receives, with its site and name."""
    heard = set()
    for node in nodes:
        place = f"{site}: {node['node']}"
        yield place, "bytes_per_second", node["bytes_per_second"]
        yield from ((place, f"host_{name}", value) for name, value in node["host"].items())
        yield from ((place, f"stage_{name}", value) for name, value in node["stages"].items())
        receives, other = node["to"], node.get("other_host") or {}
        # Several nodes may send to one.
        if receives and other and receives not in heard:
            heard.add(receives)
            yield from ((f"{_other(report, site)}: {receives}", f"host_{name}", value) for name, value in other.items())


def _other(report: JobReport, site: str) -> str:
    job = report["job"]
    ends = [place.split(":", 1)[0] for place in (*job["sources"][:1], job["destination"])]
    return next((end for end in ends if end != site), "other")


def forecast_error(report: JobReport) -> Optional[float]:
    """By how much the end that the node foretold after a tenth of the bytes missed the truth; as a share of it."""
    review = report.get("forecast")
    return abs(review["error"]) if review else None


def moment(text: str) -> float:
    """Seconds since 1970 of a time of RFC 3339."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def energy(joules: Sequence[Optional[float]], moved: Sequence[int]) -> Optional[float]:
    """Joules per terabyte of all jobs of a run. Each counts its host as a whole, so jobs at once share what it used."""
    known = [(one, amount) for one, amount in zip(joules, moved) if one is not None and amount]
    if not known:
        return None
    # At once, each job saw the same joules: those of the longest one are those of the run.
    used = max(one * amount for one, amount in known)
    return used / sum(moved)


def most(shares: Dict[str, float]) -> Optional[str]:
    """The stage with the largest share."""
    return max(shares, key=lambda stage: shares[stage]) if shares else None


def cpu(summaries: List[Any], side: str) -> Optional[float]:
    """Processor seconds of a side."""
    found = [(one.get("cpu_seconds") or {}).get(side) for one in summaries]
    known = [float(one) for one in found if one is not None]
    return sum(known) if known else None


def empty(client: Client, above: str, targets: Sequence[str]) -> None:
    """Removes what a run has written, and makes sure that the directory above is there."""
    client.places.mkdir({"place": above, "parents": True})
    for target in targets:
        try:
            client.places.remove({"place": target, "recursive": True})
        except RefusedError as error:
            if error.code != "not_found":
                raise


def _leave_nothing(client: Client, above: str, targets: Sequence[str]) -> None:
    """After a failure: removes the files of a run, if the node still answers."""
    try:
        empty(client, above, targets)
    except GodwitError:
        return


def _give_up(jobs: Sequence[Job]) -> None:
    """Cancels the jobs, and waits until they write no more."""
    for job in jobs:
        with contextlib.suppress(GodwitError):
            job.cancel("the evaluation ended")
    for job in jobs:
        with contextlib.suppress(GodwitError):
            job.wait(_CANCEL_SECONDS, check=False)
