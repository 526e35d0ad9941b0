"""Owns the sentences of the report: what limits, and what to change. Draws nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..progress import size
from . import stats, verdict

# Two rates with a higher ratio count as equal: neither limits the other.
_CLOSE = 0.9

# A rate that exceeds its ceiling by this factor shows that the ceiling is wrong.
_ABOVE = 1.1

# These bound data on its way from source to destination.
_NAMES = {
    "memory": "the network and the processors of both ends (memory to memory)",
    "source": "the storage of the source",
    "destination": "the storage of the destination",
}

_NO_ENCRYPTION = "In a trusted network, try --setting encryption=none, which a node takes with serve --encryption any."

_MENDS = {
    "source storage": "More readers or a faster disk: try --setting readers=8.",
    "destination storage": "More writers or a faster disk: try --setting writers=8.",
    "source CPU": f"All cores of the source are busy. {_NO_ENCRYPTION}",
    "destination CPU": f"All cores of the destination are busy. {_NO_ENCRYPTION}",
    "limit": "A limit is in force: look at godwit node limits.",
}
# Advice for the network, by the causes of `verdict`.
_PATH_MENDS = {
    "full": "The path is full: only a faster one, or less other traffic, gives more.",
    "loss": "The path drops packets though no queue stands: look at cables, transceivers and policers (ethtool -S DEVICE), "
    "and try --setting congestion=bbr.",
    "window": "As root at the receiving end: sysctl -w net.ipv4.tcp_rmem='4096 131072 {most}'.",
    "buffer": "As root at the sending end: sysctl -w net.ipv4.tcp_wmem='4096 16384 {most}'.",
    "interface": "One interface carries less than its sisters: look at its speed and cable (ethtool DEVICE).",
}
# Advice for a node whose cgroup kept it from the processors. The empty value takes the limit away.
_CGROUP = (
    "The cgroup of the node has used up its processor time. As root there: systemctl set-property UNIT CPUQuota=, "
    "where UNIT is the service of the node."
)
_UNCLEAR = "No counter shows why the path gives no more: run godwit doctor."
# A buffer holds what is on its way in a round trip. The kernel counts its own data, too, which takes as much again.
_OVERHEAD = 2
# The rate that a path is meant to have, if it has not reached more: 10 Gbit/s. `godwit doctor` takes the same.
_RATE_WANTED = 1_250_000_000
_BUFFER_MIN, _BUFFER_MAX = 16 << 20, 1 << 30


def ceilings(runs: Sequence[Mapping[str, Any]]) -> Dict[str, float]:
    """The best median of each kind of ends."""
    found: Dict[str, float] = {}
    for ends in ("memory", "back", "source", "destination", "disk"):
        rates = stats.by_setting([run for run in runs if run["ends"] == ends], "bytes_per_second")
        medians = [stats.summary([*values.values()]).median for values in rates.values()]
        if medians:
            found[ends] = max(medians)
    return found


def headline(runs: Sequence[Mapping[str, Any]]) -> str:
    """The sentence at the top: the lowest ceiling, and how much of it is reached."""
    found = ceilings(runs)
    single = {ends: rate for ends, rate in found.items() if ends in _NAMES}
    if not single:
        return f"Disk to disk gives {size(found['disk'])}/s." if "disk" in found else "No run gives a rate."
    said = verdict.judge(runs).headline()
    if "disk" in found:
        share = found["disk"] / min(single.values())
        said += f" Disk to disk reaches {size(found['disk'])}/s, {share:.0%} of the lowest."
        if share > _ABOVE:
            said += " No path carries more than its ceiling: the runs were too short, or disturbed. Take larger sets."
    return said


def sentences(runs: Sequence[Mapping[str, Any]], summaries: Mapping[str, stats.Summary]) -> List[str]:
    """The changes that help, the most useful first."""
    said = []
    stages = Counter(_stage(run) for run in runs if run["ends"] in ("disk", "memory", "back"))
    del stages["", False]
    for (stage, is_held_back), count in stages.most_common(2):
        mend = _CGROUP if is_held_back else _path_mend(runs) if stage == "network" else _MENDS.get(stage)
        if mend:
            said.append(f"{stage} limited {count} runs most of the time. {mend}")
    found = ceilings(runs)
    lowest = min((rate for ends, rate in found.items() if ends in _NAMES), default=0.0)
    if "disk" in found and found["disk"] < _CLOSE * lowest:
        said.append(
            f"Disk to disk stays {1 - found['disk'] / lowest:.0%} below the lowest ceiling: small files, or stages that wait "
            "for each other. godwit job report shows the stages."
        )
    for name, one in summaries.items():
        if one.count >= stats.FEWEST and one.p05 and one.median / one.p05 > 1.5:
            said.append(
                f"{name}: one run in twenty is slower than {size(one.p05)}/s, at a median of {size(one.median)}/s. "
                'A campaign shows at which hours: write at = ["02:00", "14:00"] below [run] of the plan.'
            )
    # A full queue drops packets without a fault of the path.
    others = [run for run in runs if verdict.path_cause(run) != "full"]
    resent = sum(run["resent_bytes"] for run in others) / max(sum(run["bytes"] for run in others), 1)
    if resent > 0.001:
        said.append(
            f"{resent:.2%} of the bytes were sent again: the path loses packets or connections. "
            "Look for drops at both ends: ip -s link, and ethtool -S DEVICE."
        )
    return said or ["Nothing stands out."]


def _stage(run: Mapping[str, Any]) -> Tuple[str, bool]:
    """The stage that limited a run, and whether a cgroup is the reason."""
    held = verdict.held_back(run)
    return held or str(run["bottleneck"] or ""), held is not None


def _path_mend(runs: Sequence[Mapping[str, Any]]) -> str:
    """The change that helps most runs that the network limited."""
    limited = [run for run in runs if _stage(run) == ("network", False) and run["ends"] in ("disk", "memory", "back")]
    cause, _ = Counter(verdict.path_cause(run) for run in limited).most_common(1)[0]
    trips = [run["path"].get("network_round_trip_least_seconds", 0.0) for run in limited if run.get("path")]
    rate = max(_RATE_WANTED, *(run["bytes_per_second"] for run in limited))
    wanted = _OVERHEAD * rate * max(trips, default=0.0)
    most = min(_BUFFER_MAX, max(_BUFFER_MIN, 1 << int(wanted).bit_length()))
    return _PATH_MENDS.get(cause, _UNCLEAR).format(most=most)


def as_text(runs: Sequence[Mapping[str, Any]]) -> str:
    """The ceilings and the advice, for a terminal."""
    found = {name: stats.summary([*one.values()]) for name, one in stats.by_setting(runs, "bytes_per_second").items()}
    rows = [f"{name}: {size(one.median)}/s ({size(one.low)} to {size(one.high)})" for name, one in found.items()]
    ceilings = [one.line() for one in verdict.judge(runs).ceilings]
    return "\n".join([headline(runs), *ceilings, *rows, *sentences(runs, found)])
