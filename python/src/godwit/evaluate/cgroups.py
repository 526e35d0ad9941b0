"""Owns how often the kernel held a node of this machine back because its cgroup had no processor time left. Changes nothing."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Dict, List, Mapping, Optional

_ROOTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/cpu,cpuacct"))


class Throttling:
    """Counts between `begin` and `end`, for nodes by the paths of their Unix sockets."""

    def __init__(self, sockets: Mapping[str, str]) -> None:
        self._files = {site: found for site, path in sockets.items() for found in [_files(path)] if found}
        self._then: Dict[str, List[int]] = {}

    def begin(self) -> None:
        """Begins to count."""
        self._then = {site: _counts(files) for site, files in self._files.items()}

    def end(self) -> Dict[str, float]:
        """The share of the periods in which a node was held back, by site. A node without a limit has none."""
        found = {}
        for site, files in self._files.items():
            now, then = _counts(files), self._then.get(site, [])
            shares = [
                (now[one + 1] - then[one + 1]) / (now[one] - then[one])
                for one in range(0, min(len(now), len(then)), 2)
                if now[one] > then[one]
            ]
            if shares:
                found[site] = max(shares)
        return found


def _files(path: str) -> List[Path]:
    """The counts of the cgroup of the process behind a socket, and of all cgroups above it."""
    pid = _process(path)
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines() if pid else []
    except OSError:
        return []
    found = []
    for line in lines:
        _, kinds, group = line.split(":", 2)
        if kinds and "cpu" not in kinds.split(","):
            continue
        inside = Path(group.lstrip("/"))
        for level in (inside, *inside.parents):
            found += [root / level / "cpu.stat" for root in _ROOTS]
    return [path for path in dict.fromkeys(found) if path.is_file()]


def _process(path: str) -> Optional[int]:
    try:
        with socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(2.0)
            asked.connect(path)
            credentials = asked.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except OSError:
        return None
    return int(struct.unpack("3i", credentials)[0]) or None


def _counts(files: List[Path]) -> List[int]:
    """Periods and held-back periods of each file, one after the other."""
    found = []
    for path in files:
        try:
            rows = dict(line.split(" ", 1) for line in path.read_text(encoding="utf-8").splitlines() if " " in line)
        except OSError:
            rows = {}
        found += [int(rows.get("nr_periods", 0)), int(rows.get("nr_throttled", 0))]
    return found
