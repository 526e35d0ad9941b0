#!/usr/bin/env python3
"""Measures how one data set reaches several sites over a thin uplink of its source, by the words of --relay.

usage: relay-figures.py GODWIT [--sites 6] [--uplink 100] [--peers 1000] [--files 64] [--mib 2] [--only first]

Needs root: makes a network namespace for the source and for each site, joined by a bridge. The source sends at most
--uplink Mbit/s, each site at most --peers Mbit/s. Copies FILES files of MIB MiB once for each word, compares all copies
with the source, and removes all. Prints tab-separated values. `last` is the time until the last site has all, beside the
time of one copy over the uplink. `egress` is what the source has sent, checks of relays included, beside the bytes of one copy.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

PATIENCE = 3600.0

MEGABIT = 1_000_000 / 8

LEAST_BURST = 2 * 65_536
"""Bytes of the two largest packets of a virtual device."""


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


class Network:
    """A namespace for each host, with one link to a bridge in a namespace of the network."""

    def __init__(self) -> None:
        self.prefix = f"gwr-{os.getpid()}"
        self.made: list[str] = []
        self.hosts: list[str] = []
        self.hub = ""

    def make(self, rates: list[int]) -> None:
        self.hub = self.add("hub")
        ip("-n", self.hub, "link", "add", "switch", "type", "bridge")
        ip("-n", self.hub, "link", "set", "switch", "up")
        self.hosts.extend(self.join(number, rate) for number, rate in enumerate(rates))

    def add(self, name: str) -> str:
        namespace = f"{self.prefix}-{name}"
        ip("netns", "add", namespace)
        self.made.append(namespace)
        ip("-n", namespace, "link", "set", "lo", "up")
        return namespace

    def join(self, number: int, megabits: int) -> str:
        name, port = self.add(str(number)), f"port{number}"
        # Addresses of IPv6 would be usable only after seconds.
        off = "net.ipv6.conf.default.disable_ipv6=1"
        subprocess.run(["ip", "netns", "exec", name, "sysctl", "-qw", off], check=True)
        ip("link", "add", port, "netns", self.hub, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("-n", self.hub, "link", "set", port, "master", "switch", "up")
        ip("-n", name, "address", "add", f"{self.address(number)}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        # Ten milliseconds of the rate.
        burst = max(int(megabits * MEGABIT / 100), LEAST_BURST)
        limit = ["tbf", "rate", f"{megabits}mbit", "burst", str(burst), "latency", "50ms"]
        subprocess.run(["tc", "-n", name, "qdisc", "replace", "dev", "eth0", "root", *limit], check=True)
        return name

    @staticmethod
    def address(number: int) -> str:
        return f"10.81.0.{number + 10}"

    def sent(self, number: int) -> int:
        """Bytes that a host has sent."""
        devices = json.loads(ip("-n", self.hosts[number], "-s", "-j", "link", "show", "eth0"))
        return int(devices[0]["stats64"]["tx"]["bytes"])

    def remove(self) -> None:
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=False)


class Node:
    """A node at a host of the network, which serves one export."""

    def __init__(self, binary: str, root: Path, host: tuple[str, str]) -> None:
        namespace, address = host
        self.line = ["ip", "netns", "exec", namespace, binary]
        self.export = root / f"{namespace}-data"
        self.export.mkdir()
        self.environment = {**os.environ, "GODWIT_HOME": str(root / namespace)}
        serve = ["serve", "--listen", f"{address}:0", "--export", f"data={self.export}"]
        log = root / f"{namespace}.log"
        with log.open("wb") as written:
            self.process = subprocess.Popen([*self.line, *serve], env=self.environment, stdout=written, stderr=subprocess.STDOUT)
        while not (found := re.search(r"listening on (\S+).* (gw1-\S+)", log.read_text())):
            if self.process.poll() is not None:
                raise RuntimeError(f"the node does not listen: {log.read_text()}")
            time.sleep(0.05)
        self.address, self.identity = found[1], found[2].rstrip(".,;")

    def admin(self, *words: str) -> str:
        done = subprocess.run([*self.line, *words], env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):
            raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def fill(root: Path, files: int, length: int) -> None:
    root.mkdir()
    for number in range(files):
        (root / f"f{number}").write_bytes(os.urandom(length))


def check(source: Path, copy: Path) -> None:
    names = sorted(path.name for path in source.iterdir())
    equal, _, _ = filecmp.cmpfiles(source, copy, names, shallow=False)
    if sorted(equal) != names:
        raise RuntimeError(f"{copy} is not the data of the source")


def run(network: Network, nodes: list[Node], relay: str, uplink: int) -> dict[str, Any]:
    here, sites = nodes[0], nodes[1:]
    before, began = network.sent(0), time.monotonic()
    to = [word for number in range(len(sites)) for word in ("--to", f"site{number}:/data/{relay}")]
    job = here.admin("job", "submit", "here:/data/run42", *to, "--relay", relay).strip()
    while True:
        shown = json.loads(here.admin("job", "show", job, "--json"))
        if shown["ended"]:
            break
        if time.monotonic() - began > PATIENCE:
            raise RuntimeError(f"it does not end: {shown}")
        time.sleep(0.1)
    seconds, sent = time.monotonic() - began, network.sent(0) - before
    if shown["state"] != "complete":
        raise RuntimeError(shown)
    source = here.export / "run42"
    for node in sites:
        check(source, node.export / relay)
    one = sum(path.stat().st_size for path in source.iterdir())
    return {
        "relay": relay,
        "sites": len(sites),
        "uplink": uplink,
        "bytes": one,
        "seconds": round(seconds, 1),
        "last": round(seconds / (one / (uplink * MEGABIT)), 3),
        "egress": round(sent / one, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("godwit")
    parser.add_argument("--sites", type=int, default=6)
    parser.add_argument("--uplink", type=int, default=100)
    parser.add_argument("--peers", type=int, default=1000)
    parser.add_argument("--files", type=int, default=64)
    parser.add_argument("--mib", type=int, default=2)
    parser.add_argument("--only", choices=["never", "auto", "first"])
    wish = parser.parse_args()
    binary = str(Path(wish.godwit).resolve())
    root = Path(tempfile.mkdtemp(prefix="godwit-relay-"))
    network = Network()
    nodes: list[Node] = []
    try:
        network.make([wish.uplink] + [wish.peers] * wish.sites)
        for number, host in enumerate(network.hosts):
            nodes.append(Node(binary, root, (host, network.address(number))))
        here = nodes[0]
        for number, node in enumerate(nodes[1:]):
            node.admin("access", "allow", here.identity, "--export", "data", "--read", "--write")
            here.admin("site", "add", f"site{number}", node.address, "--identity", node.identity)
        fill(here.export / "run42", wish.files, wish.mib << 20)
        words = [wish.only] if wish.only else ["never", "auto", "first"]
        for row, relay in enumerate(words):
            figures = run(network, nodes, relay, wish.uplink)
            if row == 0:
                print("\t".join(figures))
            print("\t".join(str(value) for value in figures.values()), flush=True)
    finally:
        for node in nodes:
            node.stop()
        network.remove()
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
