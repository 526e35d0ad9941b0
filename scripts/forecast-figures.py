#!/usr/bin/env python3
"""Compares the forecasts of real jobs with their ends.

usage: forecast-figures.py GODWIT [--jobs 100] [--worlds 4] [--seed 1]

Starts two nodes for each world in a separate network namespace, whose loopback is as fast as a path. Each job has a data set with
files of other sizes, a path with another rate that varies all the time, and for each third job a limit that changes. Needs root.
Prints a row for each job as tab-separated values, and the sums at the end as comments.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

PATIENCE = 600.0
COLUMNS = ("seed", "seconds", "bytes", "files", "mbit", "varies", "limits", "error", "held")


class Node:
    """A node with one export."""

    def __init__(self, binary: str, root: Path, name: str) -> None:
        self.binary, self.export = binary, root / f"{name}-data"
        self.export.mkdir()
        self.environment = {**os.environ, "GODWIT_HOME": str(root / name)}
        log = root / f"{name}.log"
        line = [binary, "serve", "--listen", "127.0.0.1:0", "--export", f"data={self.export}"]
        with log.open("wb") as written:
            self.process = subprocess.Popen(line, env=self.environment, stdout=written, stderr=subprocess.STDOUT)
        until = time.monotonic() + 30
        while not (found := re.search(r"listening on (\S+).* (gw1-\S+)", log.read_text())):
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the node does not listen: {log.read_text()}")
            time.sleep(0.05)
        self.address, self.identity = found[1], found[2].rstrip(".,;")

    def admin(self, *words: str) -> str:
        done = subprocess.run([self.binary, *words], env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):
            raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")
        return done.stdout


class Link:
    """The rate of the loopback, which varies until it is closed."""

    def __init__(self, draw: random.Random, mbit: float, varies: float) -> None:
        self.draw, self.mbit, self.varies, self.ended = draw, mbit, varies, threading.Event()
        self.thread = threading.Thread(target=self.vary)
        self.thread.start()

    def vary(self) -> None:
        deviation, kept = 0.0, 0.8
        while True:
            deviation = kept * deviation + self.varies * math.sqrt(1 - kept * kept) * self.draw.gauss(0, 1)
            rate = f"{max(1, round(self.mbit * math.exp(deviation)))}mbit"
            line = ["tc", "qdisc", "replace", "dev", "lo", "root", "tbf", "rate", rate, "burst", "256kb", "latency", "50ms"]
            subprocess.run(line, check=True)
            if self.ended.wait(2.0):
                return

    def close(self) -> None:
        self.ended.set()
        self.thread.join()


def fill(draw: random.Random, place: Path, mbit: float) -> tuple[int, int]:
    """Files of mixed sizes, for about 20 to 50 s."""
    place.mkdir()
    noise = draw.randbytes(8 << 20)
    left = mbit * 1e6 / 8 * math.exp(draw.uniform(math.log(20), math.log(50)))
    middle, spread = math.exp(draw.uniform(math.log(2e4), math.log(2e7))), draw.uniform(0.2, 1.5)
    total, files = 0, 0
    while left > 0:
        directory = place / f"d{files}"
        directory.mkdir()
        size = min(int(left) + 1, max(1, int(middle * math.exp(draw.gauss(0, spread)))))
        # Files as small as these cost time each: there are no more than a job of a minute moves.
        for number in range(draw.randint(1, max(1, min(400, int(left / size))))):
            with (directory / f"f{number}").open("wb") as file:
                for at in range(0, size, len(noise)):
                    file.write(noise[: size - at])
            total, files, left = total + size, files + 1, left - max(size, 20_000)
    return total, files


def run(draw: random.Random, nodes: tuple[Node, Node], seed: int) -> dict[str, Any]:
    here, there = nodes
    mbit, varies = math.exp(draw.uniform(math.log(40), math.log(300))), math.exp(draw.uniform(math.log(0.01), math.log(0.25)))
    source, destination = here.export / f"s{seed}", there.export / f"s{seed}"
    total, files = fill(draw, source, mbit)
    path = Link(draw, mbit, varies)
    limits = []
    try:
        moment = time.time() + 2
        line = ["job", "submit", f"here:/data/s{seed}", f"siteB:/data/s{seed}", "--json"]
        name = json.loads(here.admin(*line).splitlines()[0])["id"]
        expected, until = total * 8 / mbit / 1e6, time.monotonic() + PATIENCE
        if seed % 3 == 0:
            for share in sorted(draw.uniform(0.02, 0.5) for _ in range(2)):
                limits.append((moment + share * expected, draw.uniform(0.3, 1.5) * mbit / 8))
        while True:
            job = json.loads(here.admin("job", "show", name, "--json").splitlines()[0])
            if job["ended"] or time.monotonic() > until:
                break
            if limits and time.time() > limits[0][0]:
                here.admin("job", "limit", name, f"{limits.pop(0)[1]:.1f}MB")
            time.sleep(0.3)
    finally:
        path.close()
    report = json.loads(here.admin("job", "report", name, "--json").splitlines()[0])
    shutil.rmtree(source)
    shutil.rmtree(destination, ignore_errors=True)
    review = report.get("forecast") or {"error": None, "held": None}
    if job["state"] != "complete":
        raise RuntimeError(f"job {name} is {job['state']}: {job['reason']}")
    return {
        "seed": seed,
        "seconds": f"{report['seconds_running']:.1f}",
        "bytes": total,
        "files": files,
        "mbit": f"{mbit:.0f}",
        "varies": f"{varies:.2f}",
        "limits": int(seed % 3 == 0),
        "error": "none" if review["error"] is None else f"{review['error']:.3f}",
        "held": review["held"],
    }


def world(binary: str, seeds: list[int]) -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    root = Path(tempfile.mkdtemp(prefix="forecast-"))
    nodes: list[Node] = []
    try:
        nodes += [Node(binary, root, "a"), Node(binary, root, "b")]
        here, there = nodes
        there.admin("access", "allow", here.identity, "--export", "data", "--read", "--write")
        here.admin("site", "add", "siteB", there.address, "--identity", there.identity)
        for seed in seeds:
            print(json.dumps(run(random.Random(seed), (here, there), seed)), flush=True)
    finally:
        for node in nodes:
            node.process.terminate()
            node.process.wait()
        shutil.rmtree(root, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("godwit")
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--worlds", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.seeds:
        world(chosen.godwit, json.loads(chosen.seeds))
        return
    seeds = list(range(chosen.seed, chosen.seed + chosen.jobs))
    lines = [
        ["unshare", "--net", sys.executable, __file__, chosen.godwit, "--seeds", json.dumps(seeds[each :: chosen.worlds])]
        for each in range(chosen.worlds)
    ]
    worlds = [subprocess.Popen(line, stdout=subprocess.PIPE, text=True) for line in lines]
    rows: list[dict[str, Any]] = []
    print("\t".join(COLUMNS))

    def read(one: subprocess.Popen[str]) -> None:
        for line in one.stdout or ():
            rows.append(json.loads(line))
            print("\t".join(str(rows[-1][name]) for name in COLUMNS), flush=True)

    readers = [threading.Thread(target=read, args=(one,)) for one in worlds]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    errors = [abs(float(row["error"])) for row in rows if row["error"] != "none"]
    near = sum(error <= 0.1 for error in errors)
    print(f"# {len(rows)} jobs, {len(errors)} with a forecast after a tenth: {near} within a tenth, "
          f"{sum(row['held'] is True for row in rows)} inside their range")
    if any(one.wait() for one in worlds):
        sys.exit(1)


if __name__ == "__main__":
    main()
