#!/usr/bin/env python3
"""Measures what a divided job costs in the state of its node: items, leases, log entries, bytes of the log and of the state.

usage: divided-figures.py GODWIT [--files 200000] [--of 100] [--names 20] [--bytes 100]

Starts two nodes of its own in a temporary directory, copies a tree of FILES files from one to the other, divided and not, and removes all.
The tree has --of files a directory and --names directories a directory. Prints tab-separated values.
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

PATIENCE = 1800.0


class Node:
    """A node that serves one export."""

    def __init__(self, binary: str, home: Path, name: str) -> None:
        self.binary, self.home, self.export = binary, home / name, home / f"{name}-data"
        self.export.mkdir()
        environment = {**os.environ, "GODWIT_HOME": str(self.home)}
        self.environment = environment
        line = [binary, "serve", "--listen", "127.0.0.1:0", "--export", f"data={self.export}"]
        self.process = subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        for text in self.process.stdout:
            found = re.search(r"listening on (\S+).* (gw1-\S+)", text)
            if found:
                self.address, self.identity = found[1], found[2].rstrip(".,;")
                break
        else:
            raise RuntimeError("the node does not listen")

    def admin(self, *words: str) -> str:
        done = subprocess.run([self.binary, *words], env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):
            raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

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


def fill(root: Path, files: int, of: int, names: int, length: int) -> None:
    content = b"x" * length
    for number in range((files + of - 1) // of):
        path, rest = root, number
        while rest:
            path, rest = path / f"d{rest % names}", rest // names
        path.mkdir(parents=True, exist_ok=True)
        for file in range(min(of, files - number * of)):
            (path / f"f{file}").write_bytes(content)


def run(here: Node, wish: str, destination: str) -> dict[str, Any]:
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
    found = re.search(r"divided: (\d+) scans, (\d+) parts and (\d+) assembled files in (\d+) leases", text)
    scans, parts, assembled, leases = map(int, found.groups()) if found else (0, 0, 0, 0)
    return {
        "divide": wish,
        "seconds": round(seconds, 1),
        "files": shown["summary"]["files"],
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
    wish = parser.parse_args()
    binary = str(Path(wish.godwit).resolve())
    root = Path(tempfile.mkdtemp(prefix="godwit-divided-"))
    here, there = Node(binary, root, "here"), Node(binary, root, "there")
    try:
        there.admin("access", "allow", here.identity, "--all-exports", "--read", "--write")
        here.admin("site", "add", "there", there.address, "--identity", there.identity)
        fill(here.export / "tree", wish.files, wish.of, wish.names, wish.bytes)
        rows = [run(here, "never", "whole"), run(here, "always", "divided")]
        print("\t".join(rows[0]))
        for row in rows:
            print("\t".join(str(value) for value in row.values()))
    finally:
        here.stop()
        there.stop()
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
