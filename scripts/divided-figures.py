#!/usr/bin/env python3
"""Measures what a divided job costs in the state of its node: items, leases, log entries, bytes of the log and of the state.

usage: divided-figures.py GODWIT [--files 200000] [--of 100] [--names 20] [--bytes 100] [--nodes 1] [--only always]

Starts two sites of --nodes nodes each in a temporary directory, copies a tree of FILES files from one to the other, divided and not, and
removes all. The nodes of a site share a directory. The tree has --of files a directory and --names directories a directory.
Prints tab-separated values.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

PATIENCE = 3600.0

# A test compares this line with what a job says.
FIGURES = r"divided: (\d+) scans, (\d+) parts and (\d+) assembled files in (\d+) batches"


class Node:
    """A node that serves one export: a new one, or that of the node by which it joins."""

    def __init__(self, binary: str, root: Path, name: str, by: Node | None = None) -> None:
        self.binary, self.home, self.export = binary, root / name, by.export if by else root / f"{name}-data"
        self.export.mkdir(exist_ok=True)
        environment = {**os.environ, "GODWIT_HOME": str(self.home)}
        self.environment = environment
        line = [binary, "serve", "--listen", "127.0.0.1:0", "--export", f"data={self.export}"]
        if by:
            token = root / f"{name}-token"
            token.touch(mode=0o600)
            token.write_text(by.admin("cluster", "invite"))
            line += ["--name", name, "--join", by.address, "--token-file", str(token)]
        log = root / f"{name}.log"
        with log.open("wb") as written:
            self.process = subprocess.Popen(line, env=environment, stdout=written, stderr=subprocess.STDOUT)
        while not (found := re.search(r"listening on (\S+).* (gw1-\S+)", log.read_text())):
            if self.process.poll() is not None:
                raise RuntimeError(f"the node does not listen: {log.read_text()}")
            time.sleep(0.05)
        self.address, self.identity = found[1], found[2].rstrip(".,;")

    def admin(self, *words: str) -> str:
        done = subprocess.run([self.binary, *words], env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):
            raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def votes(self) -> int:
        return sum(node["votes"] for node in json.loads(self.admin("cluster", "status", "--json"))["nodes"])

    def log_index(self) -> int:
        with sqlite3.connect(f"file:{self.home}/state/state.db?mode=ro", uri=True) as database:
            return int(database.execute("SELECT log_index FROM applied").fetchone()[0])

    def items(self) -> int:
        with sqlite3.connect(f"file:{self.home}/state/state.db?mode=ro", uri=True) as database:
            return int(database.execute("SELECT count(*) FROM work_items").fetchone()[0])

    def log_bytes(self) -> int:
        """The mean length of the entries that the log still has."""
        with sqlite3.connect(f"file:{self.home}/state/raft.db?mode=ro", uri=True) as database:
            return int(database.execute("SELECT coalesce(avg(length(body)), 0) FROM entries").fetchone()[0])

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def site(binary: str, root: Path, name: str, nodes: int) -> list[Node]:
    first = Node(binary, root, name)
    all_nodes = [first] + [Node(binary, root, f"{name}{number}", first) for number in range(2, nodes + 1)]
    voters = min(nodes - (nodes + 1) % 2, 5)
    while first.votes() < voters:
        time.sleep(0.2)
    return all_nodes


def fill(root: Path, files: int, of: int, names: int, length: int) -> None:
    content = b"x" * length
    for number in range((files + of - 1) // of):
        path, rest = root, number
        while rest:
            path, rest = path / f"d{rest % names}", rest // names
        path.mkdir(parents=True, exist_ok=True)
        for file in range(min(of, files - number * of)):
            (path / f"f{file}").write_bytes(content)


def run(here: Node, wish: str, destination: str, nodes: int) -> dict[str, Any]:
    before, began, most = here.log_index(), time.monotonic(), 0
    job = here.admin("job", "submit", "here:/data/tree", f"there:/data/{destination}", "--divide", wish).strip()
    while True:
        most = max(most, here.items())
        shown = json.loads(here.admin("job", "show", job, "--json"))
        if shown["ended"]:
            break
        if time.monotonic() - began > PATIENCE:
            raise RuntimeError(f"it does not end: {shown}")
        time.sleep(0.2)
    if shown["state"] != "complete":
        raise RuntimeError(shown)
    seconds = time.monotonic() - began
    text = here.admin("job", "log", job)
    found = re.search(FIGURES, text)
    if not found and wish == "always":
        raise RuntimeError(f"the log has no figures of the divided job: {text}")
    scans, parts, assembled, leases = map(int, found.groups()) if found else (0, 0, 0, 0)
    return {
        "divide": wish,
        "seconds": round(seconds, 1),
        "files": shown["summary"]["files"],
        "nodes": nodes,
        "scans": scans,
        "parts": parts,
        "assembled": assembled,
        "leases": leases,
        "items at once": most,
        "log entries": here.log_index() - before,
        "bytes an entry": here.log_bytes(),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("godwit")
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--of", type=int, default=100)
    parser.add_argument("--names", type=int, default=20)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--only", choices=["never", "always"])
    wish = parser.parse_args()
    binary = str(Path(wish.godwit).resolve())
    root = Path(tempfile.mkdtemp(prefix="godwit-divided-"))
    sources, targets = site(binary, root, "here", wish.nodes), site(binary, root, "there", wish.nodes)
    here, there = sources[0], targets[0]
    try:
        for node in sources:
            there.admin("access", "allow", node.identity, "--all-exports", "--read", "--write")
        here.admin("site", "add", "there", there.address, "--identity", there.identity)
        fill(here.export / "tree", wish.files, wish.of, wish.names, wish.bytes)
        wishes = [wish.only] if wish.only else ["never", "always"]
        rows = [run(here, divide, divide, wish.nodes) for divide in wishes]
        print("\t".join(rows[0]))
        for row in rows:
            print("\t".join(str(value) for value in row.values()))
    finally:
        for node in sources + targets:
            node.stop()
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
