"""Owns the verdict on a site: each ceiling, the stage that makes it, and the lowest one. Measures nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..progress import size
from . import stats

Runs = Sequence[Mapping[str, Any]]

# Two ceilings with a higher ratio count as equal: which of them is lower is chance.
CLOSE = 0.95
# If a window or a buffer holds up a path for this share of the time, nothing else of the path matters. The stream tuner has the
# same.
_HELD_UP = 0.3
# If this share is sent again, losses limit a path, whatever its buffers do.
_LOSSY = 0.005
# If this share is sent again and the queue is empty, losses limit a path.
_LOSSY_WITHOUT_QUEUE = 0.0002
# A round trip that exceeds the shortest one by this factor, and by these seconds, means that a queue stands.
_QUEUE, _QUEUE_SECONDS = 1.25, 0.001
# A channel below this share of the mean of the others is the slow one. The nodes have the same.
_SLOW_CHANNEL = 0.5
# From this share of periods without processor time, a node is slowed down by its cgroup.
_THROTTLED = 0.5

ENDS = {
    "memory": "path",
    "back": "path back",
    "source": "source storage",
    "destination": "destination storage",
}

_CAUSES = {
    "full": "the path is full: a queue stands before its narrowest part",
    "loss": "packets are lost on the way",
    "window": "the receive buffers are small: raise net.ipv4.tcp_rmem at the receiving end",
    "buffer": "the send buffers are small: raise net.ipv4.tcp_wmem at the sending end",
    "interface": "one interface carries less than its sisters",
    "cgroup": "the cgroup of the node has used up its processor time",
    "unclear": "no queue, no loss and no small buffer shows why: perhaps a policer, few streams, or no processor time",
    "short": "the run was too short to show why: take a larger set",
    "unknown": "no counter tells this storage from its processors",
}


@dataclass(frozen=True)
class Ceiling:
    """The rate that one part gives alone, and why not more."""

    ends: str
    setting: str
    bytes_per_second: float
    low: float
    high: float
    stage: str
    """The limiting stage, in the words of `bottleneck`."""
    cause: Optional[str]
    """Why, as a word; None if the stage says it."""
    text: str
    runs: int

    def line(self) -> str:
        """The ceiling for a terminal."""
        between = f"({size(self.low)} to {size(self.high)})" if self.runs > 1 else "(one run)"
        return f"{ENDS[self.ends]}: {size(self.bytes_per_second)}/s {between}: {self.text}"


@dataclass(frozen=True)
class Verdict:
    """The ceilings of a site."""

    lowest: Optional[Ceiling]
    close: Tuple[str, ...]
    """Other ends whose ceilings are as low."""
    ceilings: Tuple[Ceiling, ...]
    not_counted: int
    """Runs that failed, or that another load disturbed."""

    def headline(self) -> str:
        """The sentence at the top."""
        if self.lowest is None:
            return "No run gives a rate."
        said = f"The lowest ceiling is {self.lowest.stage} ({_measured(self.lowest.ends)}), with "
        said += f"{size(self.lowest.bytes_per_second)}/s."
        if self.close:
            said += f" {' and '.join(ENDS[one] for one in self.close)} gives about the same: which of them is lower is not sure."
        return said

    def text(self) -> str:
        """The ceilings, for a terminal."""
        lines = [self.headline(), *(one.line() for one in self.ceilings)]
        if self.not_counted:
            lines.append(f"{self.not_counted} runs failed or were disturbed, and do not count.")
        return "\n".join(lines)

    def document(self) -> Dict[str, Any]:
        """The same for programs."""
        lowest = asdict(self.lowest) if self.lowest else None
        return {
            "lowest": lowest,
            "close": list(self.close),
            "ceilings": [asdict(one) for one in self.ceilings],
            "not_counted": self.not_counted,
            "text": self.headline(),
        }


def judge(runs: Runs) -> Verdict:
    """The verdict from the runs of an evaluation. `disk` measures several parts at once, so it has no ceiling."""
    found = [one for one in (_ceiling(ends, runs) for ends in ENDS) if one is not None]
    # Data from source to destination does not use the path back.
    bound = [one for one in found if one.ends != "back"] or found
    lowest = min(bound, key=lambda one: one.bytes_per_second, default=None)
    close = tuple(
        one.ends for one in bound if lowest and one is not lowest and lowest.bytes_per_second >= CLOSE * one.bytes_per_second
    )
    alone = [run for run in runs if run["ends"] in ENDS]
    return Verdict(lowest, close, tuple(found), sum(not _counts(run) for run in alone))


def _ceiling(ends: str, runs: Runs) -> Optional[Ceiling]:
    mine = [run for run in runs if run["ends"] == ends]
    summaries = {name: stats.summary([*one.values()]) for name, one in stats.by_setting(mine, "bytes_per_second").items()}
    best = stats.best(summaries)
    if best is None:
        return None
    counted = [run for run in mine if run["setting"] == best and _counts(run)]
    reasons = Counter(_reason(run) for run in counted)
    (stage, cause), _ = reasons.most_common(1)[0]
    spread = summaries[best]
    text = _words(stage, cause, next(run for run in counted if _reason(run) == (stage, cause)))
    return Ceiling(ends, best, spread.median, spread.low, spread.high, stage, cause, text, spread.count)


def _reason(run: Mapping[str, Any]) -> Tuple[str, Optional[str]]:
    """The stage that limited a run, and the cause."""
    stage = run["bottleneck"]
    held = held_back(run)
    if held:
        return held, "cgroup"
    if run["ends"] in ("memory", "back"):
        if stage in (None, "network"):
            return "network", path_cause(run)
        return stage, None
    # Alone, a storage works beside the processors of its end and nothing else.
    if stage in (None, "network"):
        return ENDS[run["ends"]], "unknown"
    return stage, None


def held_back(run: Mapping[str, Any]) -> Optional[str]:
    """The stage of the end whose cgroup kept it from the processors; None if neither was."""
    held = [site for site, share in (run.get("throttled") or {}).items() if share >= _THROTTLED]
    sides = (side for side in ("source", "destination") if run.get("sites", {}).get(side) in held)
    side = next(sides, None)
    return f"{side} CPU" if side and run["bottleneck"] != "limit" else None


def path_cause(run: Mapping[str, Any]) -> str:
    """Why the path gave a run no more, as a word."""
    figures = run.get("path") or {}
    if not figures:
        return "short"
    resent = figures.get("network_resent", 0.0)
    queue_stands = _queue_stands(figures)
    if slow_channel(run.get("channels") or ()):
        return "interface"
    if figures.get("network_window_limited", 0.0) >= _HELD_UP:
        return "window"
    if resent >= _LOSSY:
        # A full queue drops packets, and that is how senders find the rate of a path.
        return "full" if queue_stands else "loss"
    if figures.get("network_buffer_limited", 0.0) >= _HELD_UP:
        return "buffer"
    if resent >= _LOSSY_WITHOUT_QUEUE and not queue_stands:
        return "loss"
    return "full" if queue_stands else "unclear"


def _queue_stands(figures: Mapping[str, float]) -> bool:
    least, now = (figures.get(f"network_round_trip_{name}seconds", 0.0) for name in ("least_", ""))
    return now >= _QUEUE * least and now - least >= _QUEUE_SECONDS


def slow_channel(channels: Runs) -> Optional[Mapping[str, Any]]:
    """The channel that carries well below the others."""
    rates = [float(one["bytes_per_second"]) for one in channels]
    if len(rates) < 2:
        return None
    slowest = min(channels, key=lambda one: float(one["bytes_per_second"]))
    own = float(slowest["bytes_per_second"])
    return slowest if own < _SLOW_CHANNEL * (sum(rates) - own) / (len(rates) - 1) else None


def _words(stage: str, cause: Optional[str], run: Mapping[str, Any]) -> str:
    parts = [stage]
    if cause:
        parts.append(_CAUSES[cause])
    figures = run.get("path") or {}
    if cause == "loss":
        parts.append(f"{figures.get('network_resent', 0.0):.2%} sent again")
    elif cause == "full":
        if figures.get("network_resent", 0.0) >= _LOSSY:
            parts.append(f"{figures['network_resent']:.2%} sent again: the queue drops them")
    elif cause in ("window", "buffer"):
        parts.append(f"{figures[f'network_{cause}_limited']:.0%} of the time")
    elif cause == "interface":
        parts += [f"{one['name']} {size(float(one['bytes_per_second']))}/s" for one in run["channels"]]
    elif cause == "cgroup":
        parts.append(f"in {max(run['throttled'].values()):.0%} of its periods")
    elif cause is None:
        parts += _first_finding(run)
    return "; ".join(parts)


def _first_finding(run: Mapping[str, Any]) -> List[str]:
    return list(run.get("findings") or ())[:1]


def _counts(run: Mapping[str, Any]) -> bool:
    return run["state"] == "complete" and not run["disturbed"]


def _measured(ends: str) -> str:
    return "memory to memory" if ends in ("memory", "back") else "measured alone"
