"""Owns the nodes that the tests drive: real ones, on loopback and free ports, with state in temporary directories."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Iterator

import pytest

import godwit

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("GODWIT", ROOT / "target" / "debug" / "godwit"))
START_SECONDS = 120


class Node:
    """A node with the export `data`."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        self.home = directory / name / "home"
        self.data = directory / name / "data"
        self.data.mkdir(parents=True)
        self.log = directory / name / "log"
        self.address = "127.0.0.1:0"
        # Words put before each command of the node, such as those that enter a namespace.
        self.wrapper: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        return self.home / "run" / "node.sock"

    @property
    def url(self) -> str:
        return f"https://{self.address}"

    def command(self, *arguments: str) -> str:
        environment = {**os.environ, "GODWIT_HOME": str(self.home)}
        for name in ("GODWIT_NODE", "GODWIT_SOCKET", "GODWIT_TOKEN_FILE"):
            environment.pop(name, None)
        done = subprocess.run([*self.wrapper, BINARY, *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.strip()

    def start(self) -> Node:
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*self.wrapper, BINARY, "serve", "--listen", self.address, "--export", f"data={self.data}"],
                env={**os.environ, "GODWIT_HOME": str(self.home)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            found = re.search(r"^listening on (\S+) as ", self.log.read_text(), re.MULTILINE)
            if found and self.answers():
                self.address = found[1]
                return self
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        raise AssertionError(f"no answer in {START_SECONDS} s: {self.log.read_text()}")

    def answers(self) -> bool:
        try:
            with self.client(retry_for=0) as client:
                client.node.ready()
        except godwit.GodwitError:
            return False
        return True

    def fingerprint(self) -> str:
        found = re.search(r"SHA-256 of its key: ([0-9A-F:]+)", self.log.read_text())
        assert found, self.log.read_text()
        return "sha256:" + found[1].replace(":", "").lower()

    def client(self, **options: object) -> godwit.Client:
        return godwit.Client(socket=self.socket, **options)

    def write(self, name: str, size: int) -> None:
        path = self.data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))

    def kill(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


class Sites:
    """Two nodes; the first one knows the second as `siteB`, and may do everything there."""

    def __init__(self, directory: Path) -> None:
        self.a = Node(directory, "a").start()
        self.b = Node(directory, "b").start()
        self.b.command("access", "allow", self.a.command("id"), "--all-exports", "--read", "--write")
        self.a.command("site", "add", "siteB", self.b.address, "--identity", self.b.command("id"))

    def kill(self) -> None:
        self.a.kill()
        self.b.kill()


def directory() -> tempfile.TemporaryDirectory[str]:
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="godwit-python.", dir=memory if memory.is_dir() else None)


@pytest.fixture(scope="session", autouse=True)
def binary() -> Path:
    if not BINARY.exists():
        pytest.exit(f"{BINARY} is missing: run cargo build --locked, or name the program by GODWIT", returncode=1)
    for name in ("GODWIT_NODE", "GODWIT_SOCKET", "GODWIT_HOME", "GODWIT_TOKEN_FILE", "GODWIT_TOKEN"):
        os.environ.pop(name, None)
    return BINARY


@pytest.fixture(scope="session")
def sites() -> Iterator[Sites]:
    """Two nodes for the whole run. A test that stops a node makes its own."""
    with directory() as made:
        both = Sites(Path(made))
        try:
            yield both
        finally:
            both.kill()


@pytest.fixture
def own_node() -> Iterator[Node]:
    """A node for one test."""
    with directory() as made:
        node = Node(Path(made), "own").start()
        try:
            yield node
        finally:
            node.kill()


@pytest.fixture
def client(sites: Sites) -> Iterator[godwit.Client]:
    with sites.a.client() as made:
        yield made
