"""Owns the samples of watched nodes: the host figures of their API, once a second, and what sampling costs. Knows no run."""

from __future__ import annotations

import threading
import time
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional

from ..client import Client
from ..errors import GodwitError

EVERY = 1.0

_OF_GODWIT, _OF_HOST = "godwit_", "godwit_host_"


class Sample(NamedTuple):
    """A figure of a node at a time. A counter is given as its rate a second."""

    site: str
    at: float
    figure: str
    value: float


def figures(text: str) -> Dict[str, float]:
    """The host figures in the text of /metrics, by name and labels."""
    found = {}
    for line in text.splitlines():
        # Most lines are about other things, and this is done each second.
        if line.startswith(_OF_HOST):
            name, _, value = line[len(_OF_GODWIT) :].rpartition(" ")
            found[name] = float(value)
    return found


def rates(then: Mapping[str, float], now: Mapping[str, float], seconds: float) -> Dict[str, float]:
    """Counters as rates a second; other figures as they are."""
    made = {}
    for name, value in now.items():
        if "_total" not in name:
            made[name] = value
        elif name in then and seconds > 0:
            made[name.replace("_total", "_per_second")] = max(0.0, value - then[name]) / seconds
    return made


class Sampler:
    """Samples nodes in the background between `begin` and `end`."""

    def __init__(self, nodes: Mapping[str, Callable[[], Client]]) -> None:
        self._nodes = nodes
        self._stop = threading.Event()
        self._threads: List[threading.Thread] = []
        self._lock = threading.Lock()
        self._samples: List[Sample] = []
        self._said: Dict[str, str] = {}
        self.cost_seconds = 0.0

    def begin(self) -> None:
        """Begins to sample."""
        self._stop.clear()
        self._samples, self.cost_seconds = [], 0.0
        self._threads = [threading.Thread(target=self._sample, args=one, daemon=True) for one in self._nodes.items()]
        for thread in self._threads:
            thread.start()

    def end(self) -> List[Sample]:
        """Ends, and gives the samples since the beginning."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        return self._samples

    @property
    def troubles(self) -> Dict[str, str]:
        """Why a node gave no figures, by its name."""
        return dict(self._said)

    def _sample(self, site: str, connect: Callable[[], Client]) -> None:
        then: Optional[Dict[str, float]] = None
        before = time.monotonic()
        with connect() as client:
            while not self._stop.wait(max(0.0, before + EVERY - time.monotonic()) if then is not None else 0.0):
                cost = time.thread_time()
                try:
                    text = client.node.metrics()
                except GodwitError as error:
                    self._said[site] = str(error)
                    return
                now, at = figures(text), time.monotonic()
                fresh = rates(then or {}, now, at - before)
                moment = time.time()
                with self._lock:
                    self._samples += [Sample(site, moment, name, value) for name, value in fresh.items()]
                    self.cost_seconds += time.thread_time() - cost
                then, before = now, at
