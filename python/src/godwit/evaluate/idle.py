"""Owns how busy the machines of an evaluation are between runs: this one by its kernel, others by the metrics of their nodes.
Decides nothing."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Callable, ContextManager, Dict, List, Mapping, Optional

from ..client import Client
from ..errors import GodwitError
from .sampler import figures

HERE = "this machine"

_SECONDS = 0.25
_MODE = re.compile(r'^host_cpu_seconds_total\{.*mode="(\w+)"')

Connect = Callable[[], ContextManager[Client]]


class Idle:
    """Looks at this machine if one of the nodes runs on it, and at the other nodes that may be asked."""

    def __init__(self, is_here: bool, others: Mapping[str, Connect]) -> None:
        self._is_here = is_here
        self._others = others

    def busy(self) -> Dict[str, float]:
        """The share of the processors that is busy now, by machine. A node that gives no metrics is missing."""
        found = {HERE: busy_now()} if self._is_here else {}
        for name, connect in self._others.items():
            try:
                with connect() as client:
                    then = figures(client.node.metrics())
                    time.sleep(_SECONDS)
                    share = busy_between(then, figures(client.node.metrics()))
            except GodwitError:
                continue
            if share is not None:
                found[name] = share
        return found


def busy_between(then: Mapping[str, float], now: Mapping[str, float]) -> Optional[float]:
    """The busy share of the processors of a node between two readings of its metrics; None if they do not count."""
    whole = idle = 0.0
    for name, value in now.items():
        match = _MODE.match(name)
        if match and name in then:
            whole += value - then[name]
            idle += value - then[name] if match[1] in ("idle", "iowait") else 0.0
    return 1 - idle / whole if whole > 0 else None


def busy_now(seconds: float = _SECONDS, read: Callable[[], str] = lambda: Path("/proc/stat").read_text()) -> float:
    """The share of this machine's processors that is busy now."""
    then = _ticks(read())
    time.sleep(seconds)
    now = _ticks(read())
    whole = sum(now) - sum(then)
    idle = now[3] + now[4] - then[3] - then[4]
    return 1 - idle / whole if whole else 0.0


def _ticks(text: str) -> List[int]:
    return [int(word) for word in text.split("\n", 1)[0].split()[1:9]]
