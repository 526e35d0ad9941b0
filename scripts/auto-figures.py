#!/usr/bin/env python3
"""Measures jobs that are divided by themselves: a push and a pull between two sites of unequal nodes, beside iperf3 over all pairs of nodes.

usage: auto-figures.py GODWIT [--links s1=130,s2=470,s3=820,d1=470,d2=820] [--mib 4] [--files 512] [--rounds 2] [--never]

Makes a network namespace for each node, and one that routes between them (root). A link carries the given Mbit/s in each direction. The nodes of a
site are a cluster and share a directory in memory; each site may write at the other. With --never, jobs that stay undivided are measured, too.
Prints tab-separated values, and removes all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

PORT = 7272
JOIN_PATIENCE = 90.0
BLOCK = 16 << 20


def run(*line: str) -> str:
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout


class Node:
    """A node in a namespace; its link ends at the namespace of the router."""

    def __init__(self, binary: str, root: Path, router: str, name: str, number: int, mbit: int) -> None:
        self.binary, self.name, self.space = binary, name, f"{router}-{name}"
        self.home, self.export = root / name, root / f"export-{name[0]}"
        self.address, gate, port = f"10.98.{number}.2", f"10.98.{number}.1", f"p{name}"
        self.process: subprocess.Popen[bytes] | None = None
        self.export.mkdir(exist_ok=True)
        run("ip", "netns", "add", self.space)
        run("ip", "-n", self.space, "link", "set", "lo", "up")
        run("ip", "link", "add", port, "netns", router, "type", "veth", "peer", "name", "eth0", "netns", self.space)
        for space, device, address in ((router, port, gate), (self.space, "eth0", self.address)):
            run("ip", "-n", space, "address", "add", f"{address}/24", "dev", device)
            run("ip", "-n", space, "link", "set", device, "up")
            limit = ("tbf", "rate", f"{mbit}mbit", "burst", "256k", "latency", "30ms")
            run("tc", "-n", space, "qdisc", "replace", "dev", device, "root", *limit)
        run("ip", "-n", self.space, "route", "add", "default", "via", gate)

    def ask(self, *words: str) -> str:
        environment = {**os.environ, "GODWIT_HOME": str(self.home)}
        ended = subprocess.run([self.binary, *words], env=environment, capture_output=True, text=True, timeout=60)
        if ended.returncode != 0:
            raise RuntimeError(f"{self.name}: {words}: {ended.stderr}")
        return ended.stdout

    def inside(self, *line: str) -> list[str]:
        return ["ip", "netns", "exec", self.space, *line]

    def serve(self, *more: str) -> None:
        line = ("setpriv", "--pdeathsig", "KILL", "--", self.binary, "serve", "--listen", f"0.0.0.0:{PORT}")
        line = (*line, "--export", f"data={self.export}", *more)
        environment = {**os.environ, "GODWIT_HOME": str(self.home)}
        with open(f"{self.home}.log", "ab") as log:
            self.process = subprocess.Popen(self.inside(*line), env=environment, stdout=log, stderr=log)
        until = time.monotonic() + JOIN_PATIENCE
        while True:
            try:
                self.ask("node", "status")
                return
            except RuntimeError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)


def form(site: list[Node], root: Path) -> None:
    """Makes a cluster of these nodes, and waits until all are up."""
    first, token = site[0], root / "token"
    first.serve()
    for node in site[1:]:
        token.write_text(first.ask("cluster", "invite").strip())
        token.chmod(0o600)
        node.serve("--join", f"{first.address}:{PORT}", "--name", node.name, "--token-file", str(token))
    until = time.monotonic() + JOIN_PATIENCE
    while True:
        view = json.loads(first.ask("cluster", "status", "--json"))
        if sum(node["state"] == "up" for node in view["nodes"]) == len(site):
            break
        assert time.monotonic() < until, view
        time.sleep(0.2)
    # A node that is lost soon after its join would leave its work to the others.
    time.sleep(8)
    view = json.loads(first.ask("cluster", "status", "--json"))
    assert all(node["state"] == "up" for node in view["nodes"]), view


def reference(sources: list[Node], destinations: list[Node]) -> float:
    """The sum of iperf3 between all pairs at once, in Mbit/s."""
    pairs = [(source, destination) for source in sources for destination in destinations]
    servers, clients = [], []
    for number, (_, to) in enumerate(pairs):
        line = to.inside("iperf3", "-s", "-1", "-p", str(5300 + number))
        servers.append(subprocess.Popen(line, stdout=subprocess.DEVNULL))
    time.sleep(1)
    for number, (source, to) in enumerate(pairs):
        line = source.inside("iperf3", "-c", to.address, "-p", str(5300 + number), "-t", "8", "-O", "1", "-J")
        clients.append(subprocess.Popen(line, stdout=subprocess.PIPE, text=True))
    sums = [json.loads(client.communicate()[0])["end"]["sum_received"] for client in clients]
    for server in servers:
        server.wait()
    return sum(one["bits_per_second"] for one in sums) / 1e6


def job(asked: Node, *words: str) -> float:
    """Runs a job to its end; returns its seconds."""
    began = time.monotonic()
    number = asked.ask("job", "submit", *words).strip()
    while True:
        seen = json.loads(asked.ask("job", "show", number, "--json"))
        if seen["ended"]:
            assert seen["state"] == "complete", seen
            return time.monotonic() - began
        time.sleep(0.1)


def measure(sources: list[Node], destinations: list[Node], wanted: argparse.Namespace) -> None:
    data, copies = sources[0].export / "set", destinations[0].export
    data.mkdir()
    for number in range(wanted.files):
        with open(data / f"f{number}", "wb") as file:
            for at in range(0, wanted.mib << 20, BLOCK):
                file.write(os.urandom(min(BLOCK, (wanted.mib << 20) - at)))
    best = reference(sources, destinations)
    kinds = [("push", sources[0]), ("pull", destinations[0])]
    print("links\tdata\tjob\tdivide\tiperf3 Mbit/s\tgodwit Mbit/s\tseconds\tload", flush=True)
    for _ in range(wanted.rounds):
        for divide in ["auto", "never"] if wanted.never else ["auto"]:
            for kind, asked in kinds:
                ends = ("here:/data/set", "far:/data/copy") if kind == "push" else ("far:/data/set", "here:/data/copy")
                took = job(asked, *ends, "--divide", divide)
                assert subprocess.run(["diff", "-rq", data, copies / "copy"]).returncode == 0
                shutil.rmtree(copies / "copy")
                rate = wanted.files * (wanted.mib << 20) * 8 / took / 1e6
                load = os.getloadavg()[0]
                row = (wanted.links, f"{wanted.files}x{wanted.mib}MiB", kind, divide, f"{best:.0f}", f"{rate:.0f}")
                print(*row, f"{took:.1f}", f"{load:.1f}", sep="\t", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("godwit")
    parser.add_argument("--links", default="s1=130,s2=470,s3=820,d1=470,d2=820")
    parser.add_argument("--mib", type=int, default=4)
    parser.add_argument("--files", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--never", action="store_true")
    wanted = parser.parse_args()
    root, router = Path(tempfile.mkdtemp(dir="/dev/shm")), f"gwa-{os.getpid()}"
    nodes: list[Node] = []
    try:
        run("ip", "netns", "add", router)
        run("ip", "netns", "exec", router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for number, link in enumerate(wanted.links.split(","), start=1):
            name, mbit = link.split("=")
            nodes.append(Node(os.path.abspath(wanted.godwit), root, router, name, number, int(mbit)))
        # The kernel takes a moment until it calls the links up.
        time.sleep(3)
        sites = [[node for node in nodes if node.name[0] == letter] for letter in "sd"]
        identities = {node.name: node.ask("id").strip() for node in nodes}
        for site in sites:
            form(site, root)
        for here, there in (sites, sites[::-1]):
            for node in here:
                there[0].ask("access", "allow", identities[node.name], "--export", "data", "--read", "--write")
            here[0].ask("site", "add", "far", f"{there[0].address}:{PORT}", "--identity", identities[there[0].name])
        measure(*sites, wanted)
    finally:
        for node in nodes:
            if node.process:
                node.process.kill()
                node.process.wait()
        for space in [node.space for node in nodes] + [router]:
            subprocess.run(["ip", "netns", "del", space], capture_output=True)
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
