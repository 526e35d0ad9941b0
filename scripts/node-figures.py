#!/usr/bin/env python3
"""Measures the API of a node: latencies with a full history, submissions a second, memory.

usage: node-figures.py GODWIT [--history 10000] [--queued 1000] [--running 50]

Starts a node in a temporary directory, and removes both. Prints a table of tab-separated values.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE = 900.0

USERS = 4
"""Each user may make some thousand changes in a row, and a history takes more."""


class UnixConnection(http.client.HTTPConnection):
    """HTTP over the Unix socket of a node."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=120)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(120)
        self.sock.connect(str(self.path))


class Client:
    """One kept connection."""

    def __init__(self, path: Path, token: str | None = None) -> None:
        self.connection = UnixConnection(path)
        self.headers = {"authorization": f"Bearer {token}"} if token else {}

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        text = None if body is None else json.dumps(body)
        headers = self.headers | ({"content-type": "application/json"} if text else {})
        self.connection.request(method, f"/api/v1{path}", text, headers)
        answer = self.connection.getresponse()
        content = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {content[:300]!r}")
        return json.loads(content) if content else None


def job(number: int, **more: Any) -> dict[str, Any]:
    return {
        "sources": ["here:/data/small"],
        "destination": f"here:/data/out/{number}",
        "label": f"figure-{number}",
        **more,
    }


def tokens(admin: Client) -> list[str]:
    """The tokens of new users, whose jobs the node runs as it does those of anybody else."""
    made = []
    for number in range(USERS):
        admin.call("PUT", f"/users/figures{number}", {"role": "admin"})
        token = admin.call("POST", "/tokens", {"user": f"figures{number}", "role": "admin"})
        made.append(token["secret"])
    return made


def share(numbers: range, workers: int, users: tuple[Path, list[str]], work: Callable[[Client, int], None]) -> float:
    """Seconds that some connections, each of one of the users, take together for all numbers."""
    path, secrets = users
    waiting = iter(numbers)
    lock = threading.Lock()
    faults: list[Exception] = []

    def body(secret: str) -> None:
        client = Client(path, secret)
        while True:
            with lock:
                number = next(waiting, None)
            if number is None:
                return
            try:
                work(client, number)
            except Exception as fault:  # noqa: BLE001 - reported by the caller
                faults.append(fault)
                return

    threads = [threading.Thread(target=body, args=(secrets[worker % len(secrets)],)) for worker in range(workers)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return time.monotonic() - began


def until(holds: Callable[[], bool], what: str) -> None:
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > PATIENCE:
            raise RuntimeError(f"not in time: {what}")
        time.sleep(0.2)


def rss(pid: int) -> float:
    """Resident memory in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def count(client: Client, states: str) -> int:
    total, cursor = 0, ""
    while True:
        page = client.call("GET", f"/jobs?state={states}&limit=1000{cursor}")
        total += len(page["jobs"])
        if not page.get("next"):
            return total
        cursor = f"&cursor={page['next']}"


def measure(options: argparse.Namespace, home: Path, data: Path) -> None:
    for directory in ("out", "slow"):
        (data / directory).mkdir()
    (data / "small").write_bytes(b"x" * 1024)
    with (data / "large").open("wb") as large:
        for _ in range(64):
            large.write(os.urandom(1 << 20))
    log = (home.parent / "log").open("w")
    node = subprocess.Popen(
        [options.godwit, "serve", "--listen", "127.0.0.1:0", "--export", f"data={data}", "--jobs", "50"],
        env={**os.environ, "GODWIT_HOME": str(home)},
        stdout=log,
        stderr=log,
    )
    try:
        path = home / "run" / "node.sock"
        until(path.exists, "the socket")
        client = Client(path)
        users = (path, tokens(client))
        taken = share(range(options.history), 16, users, lambda own, number: own.call("POST", "/jobs", job(number)))
        # The node has closed the first connection, which was silent meanwhile.
        client = Client(path)
        print(f"submissions\t{options.history / taken:.0f}\ta second, 16 connections, jobs run meanwhile")
        until(lambda: count(client, "queued,scheduled,scanning,running") == 0, "the history")
        print(f"history\t{count(client, 'complete')}\tjobs complete")
        for number in range(options.running):
            body = job(number, label="slow", limit=100_000)
            body["sources"], body["destination"] = ["here:/data/large"], f"here:/data/slow/{number}"
            client.call("POST", "/jobs", body)
        until(lambda: count(client, "running") >= options.running, "the running jobs")
        first = options.history
        taken = share(
            range(first, first + options.queued),
            16,
            users,
            lambda own, number: own.call("POST", "/jobs", job(number)),
        )
        print(f"submissions_busy\t{options.queued / taken:.0f}\ta second, 16 connections, {options.running} jobs run")
        states = {state: count(client, state) for state in ("queued", "running", "complete")}
        print(f"jobs\t{states['queued']}\tqueued beside {states['running']} running and {states['complete']} complete")
        some = client.call("GET", "/jobs?limit=1")["jobs"][0]["id"]
        calls: dict[str, Callable[[Client, int], None]] = {
            "get_job": lambda own, _: own.call("GET", f"/jobs/{some}"),
            "list_100": lambda own, _: own.call("GET", "/jobs?limit=100"),
            "list_running": lambda own, _: own.call("GET", "/jobs?state=running&limit=100"),
            "list_label": lambda own, _: own.call("GET", "/jobs?label=figure-77&limit=100"),
            "change_job": lambda own, number: own.call("PATCH", f"/jobs/{some}", {"priority": number % 5}),
            "submit": lambda own, number: own.call("POST", "/jobs", job(100_000 + number)),
        }
        for name, call in calls.items():
            seconds: list[float] = []

            def timed(own: Client, number: int, call: Callable[[Client, int], None] = call) -> None:
                began = time.monotonic()
                call(own, number)
                seconds.append(time.monotonic() - began)  # noqa: B023 - joined before the next turn

            share(range(400), 4, users, timed)
            ranked = sorted(seconds)
            median, worst = statistics.median(ranked) * 1000, ranked[int(len(ranked) * 0.99)] * 1000
            print(f"{name}\t{median:.2f}\tms median, p99 {worst:.2f} ms, 400 calls on 4 connections")
        print(f"memory\t{rss(node.pid):.0f}\tMiB resident")
    finally:
        node.terminate()
        node.wait(60)
        log.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("godwit")
    parser.add_argument("--history", type=int, default=10_000)
    parser.add_argument("--queued", type=int, default=1_000)
    parser.add_argument("--running", type=int, default=50)
    options = parser.parse_args()
    options.godwit = str(Path(options.godwit).resolve())
    directory = Path(tempfile.mkdtemp(prefix="godwit-figures-"))
    try:
        (directory / "home").mkdir(mode=0o700)
        (directory / "data").mkdir()
        measure(options, directory / "home", directory / "data")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
