#!/usr/bin/env python3
"""Measures one read for several destinations, and the transfer buffer before slow storage.

usage: distribution-figures.py GODWIT each|slow|pool|arrive [--mib 512] [--flash DIRECTORY]; CASE --help has all flags

Needs root and, for all but `each`, the control group `blkio` of version 1. Prints tab-separated values.
Removes all that it made.

each: Four destinations are behind paths of --rate Mbit/s, apart from each other. Each one is alone, then all are at once.
      Then the last path has --slow Mbit/s. `ratio` is the time of all at once beside the time alone.
slow: A node whose storage gives --storage MB/s sends one data set to three sites, one after another, over --rate Mbit/s.
      `ratio` of the first is its rate beside the storage's. Of the others it is the rate beside the same data from memory.
pool: --nodes nodes fill their buffers with one data set. Each of them gets --storage MB/s from one disk.
arrive: A site whose storage takes --storage MB/s gets more than its buffer can hold, over --rate Mbit/s. `ratio` is the rate until all
      has drained beside the storage's. A job with a failed file ends the measurement with an error.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

PATIENCE = 3600.0
MEGABIT = 1_000_000 / 8
LEAST_BURST = 2 * 65_536
"""Bytes of the two largest packets of a virtual device."""
GROUPS = Path("/sys/fs/cgroup/blkio")
PIECE = 1 << 20


def output(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


class World:
    """Makes namespaces, disks, control groups and nodes below one directory, and removes them."""

    def __init__(self, binary: str) -> None:
        self.binary = binary
        self.root = Path(tempfile.mkdtemp(prefix="godwit-distribution-"))
        self.undo: List[Callable[[], Any]] = [lambda: shutil.rmtree(self.root)]
        self.tag = f"gwd-{os.getpid()}"

    def remove(self) -> None:
        for step in reversed(self.undo):
            try:
                step()
            except (OSError, subprocess.SubprocessError) as error:
                print(f"not removed: {error}", file=sys.stderr)

    def namespace(self, name: str) -> str:
        full = f"{self.tag}-{name}"
        output("ip", "netns", "add", full)
        self.undo.append(lambda: output("ip", "netns", "del", full))
        output("ip", "-n", full, "link", "set", "lo", "up")
        # Addresses of IPv6 would be usable only after seconds.
        output("ip", "netns", "exec", full, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        return full

    def path(self, source: str, site: str, number: int, megabits: int) -> str:
        """Joins two namespaces by a path; the address of the site."""
        net, ends = f"10.82.{number}", [(source, f"to{number}", 1), (site, "eth0", 2)]
        output("ip", "link", "add", ends[0][1], "netns", source, "type", "veth", "peer", "name", "eth0", "netns", site)
        for namespace, device, last in ends:
            output("ip", "-n", namespace, "address", "add", f"{net}.{last}/24", "dev", device)
            output("ip", "-n", namespace, "link", "set", device, "up")
        self.limit(source, number, megabits)
        return f"{net}.2"

    @staticmethod
    def limit(source: str, number: int, megabits: int) -> None:
        # Ten milliseconds of the rate.
        burst = str(max(int(megabits * MEGABIT / 100), LEAST_BURST))
        shape = ["tbf", "rate", f"{megabits}mbit", "burst", burst, "latency", "50ms"]
        output("tc", "-n", source, "qdisc", "replace", "dev", f"to{number}", "root", *shape)

    def disk(self, mib: int) -> Tuple[Path, str]:
        """A mounted file system on a loop device with direct I/O, and the name of the device."""
        image, mounted = self.root / "image", self.root / "disk"
        with image.open("wb") as made:
            made.truncate((mib + mib // 8 + 256) << 20)
        output("mkfs.ext4", "-q", str(image))
        device = output("losetup", "--find", "--show", "--direct-io=on", str(image))
        self.undo.append(lambda: output("losetup", "--detach", device))
        mounted.mkdir()
        output("mount", device, str(mounted))
        self.undo.append(lambda: output("umount", str(mounted)))
        return mounted, Path(device).name

    def group(self, name: str, device: str, rate: int) -> Path:
        """A control group whose processes read at most `rate` bytes a second from the device."""
        group = GROUPS / f"{self.tag}-{name}"
        group.mkdir()
        self.undo.append(group.rmdir)
        number = Path(f"/sys/block/{device}/dev").read_text().strip()
        (group / "blkio.throttle.read_bps_device").write_text(f"{number} {rate}")
        return group


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


class Node:
    """A node; it may be in a namespace, and in a control group."""

    def __init__(self, world: World, name: str, export: Path, address: str, more: List[str]) -> None:
        self.home = world.root / f"{name}-home"
        self.environment = {**os.environ, "GODWIT_HOME": str(self.home)}
        self.line: List[str] = []
        self.binary, self.export, self.listen, self.more = world.binary, export, address, more
        self.log = world.root / f"{name}.log"
        self.group: Optional[Path] = None
        self.undo = world.undo
        self.address = self.identity = ""

    def start(self) -> Node:
        line = [*self.line, self.binary, "serve", "--listen", f"{self.listen}:0", "--export", f"data={self.export}", *self.more]
        if self.group is not None:
            line = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.group / "cgroup.procs"), *line]
        with self.log.open("wb") as written:
            process = subprocess.Popen(line, env=self.environment, stdout=written, stderr=subprocess.STDOUT)
        self.undo.append(lambda: stop(process))
        while not (found := re.search(r"listening on (\S+).* (gw1-\S+)", self.log.read_text())):
            if process.poll() is not None:
                raise RuntimeError(f"the node does not listen: {self.log.read_text()}")
            time.sleep(0.05)
        self.address, self.identity = found[1], found[2].rstrip(".,;")
        return self

    def admin(self, *words: str) -> str:
        line = [*self.line, self.binary, *words]
        done = subprocess.run(line, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):
            raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def seconds(self, *words: str) -> float:
        """Submits a job, and waits until it is complete."""
        began = time.monotonic()
        job = self.admin(*words)
        while not (shown := json.loads(self.admin("job", "show", job, "--json")))["ended"]:
            if time.monotonic() - began > PATIENCE:
                raise RuntimeError(f"it does not end: {shown}")
            time.sleep(0.1)
        if shown["state"] != "complete":
            raise RuntimeError(shown)
        return time.monotonic() - began

    def buffer(self) -> Dict[str, Any]:
        found: Dict[str, Any] = json.loads(self.admin("buffer", "status", "--json"))
        return found


def fill(directory: Path, mib: int, files: int = 8) -> int:
    directory.mkdir(parents=True)
    for number in range(files):
        with (directory / f"f{number}").open("wb") as file:
            for _ in range(mib // files):
                file.write(os.urandom(PIECE))
            file.flush()
            os.fsync(file.fileno())
        # The buffer takes no file that changed a moment ago.
        os.utime(directory / f"f{number}", (time.time() - 3600,) * 2)
    time.sleep(0.2)
    return mib // files * files * PIECE


def forget(directory: Path) -> None:
    """Drops the page cache of the files."""
    for path in directory.iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_bytes(device: str) -> int:
    return int(Path(f"/sys/block/{device}/stat").read_text().split()[2]) * 512


def row(*values: object) -> None:
    print("\t".join(str(value) for value in values), flush=True)


def copy(line: List[str], environment: Dict[str, str], places: List[str]) -> Tuple[List[float], int, int]:
    """Runs a copy; seconds until each place is complete, bytes that were read, and the memory in bytes."""
    began = time.monotonic()
    # Not `with`, because `wait4` takes the exit status, and the peak of the memory with it.
    process = subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, text=True)
    ends: Dict[str, float] = {}
    read = 0
    for text in process.stdout or []:
        event = json.loads(text)
        if event["event"] == "summary" and event["status"] == "complete":
            ends[event.get("each", places[0])] = time.monotonic() - began
        read = event.get("read_bytes", read) if event["event"] == "all" else read
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0 or len(ends) != len(places):
        raise RuntimeError(f"{line}: exit code {process.returncode}, complete: {sorted(ends)}")
    return [ends[place] for place in places], read, used.ru_maxrss * 1024


def each(world: World, wish: argparse.Namespace) -> None:
    source = world.namespace("source")
    sites: List[Node] = []
    for number in range(4):
        namespace = world.namespace(f"site{number}")
        address = world.path(source, namespace, number, wish.rate)
        export = world.root / f"data{number}"
        export.mkdir()
        node = Node(world, f"site{number}", export, address, [])
        node.line = ["ip", "netns", "exec", namespace]
        sites.append(node.start())
    environment = {**os.environ, "GODWIT_HOME": str(world.root / "client")}
    begin = ["ip", "netns", "exec", source, world.binary]
    identity = subprocess.run([*begin, "id"], env=environment, check=True, capture_output=True, text=True).stdout.split()[0]
    for node in sites:
        node.admin("access", "allow", identity, "--export", "data", "--read", "--write")
        subprocess.run([*begin, "trust", node.address, node.identity], env=environment, check=True, capture_output=True)
    data = world.root / "run42"
    total = fill(data, wish.mib)
    row("case", "destination", "megabits", "seconds", "alone", "ratio", "read", "memory")
    for case, last in [("equal", wish.rate), ("one slow", wish.slow)]:
        world.limit(source, 3, last)
        alone = []
        for node in sites:
            place = f"godwit://{node.address}/data/{case[:3]}-alone/"
            alone.append(copy([*begin, "cp", "--json", str(data), place], environment, [place])[0][0])
        places = [f"godwit://{node.address}/data/{case[:3]}-each/" for node in sites]
        ends, read, memory = copy([*begin, "cp", "--json", "--each", str(data), *places], environment, places)
        for number, (together, single) in enumerate(zip(ends, alone)):
            rate = last if number == 3 else wish.rate
            figures = [f"{together:.2f}", f"{single:.2f}", f"{together / single:.3f}", f"{read / total:.3f}", memory]
            row(case, number, rate, *figures)
        for node in sites:
            for made in node.export.iterdir():
                shutil.rmtree(made)


def flash(world: World, wish: argparse.Namespace, name: str) -> List[str]:
    """The flags of a node with a buffer."""
    base = Path(tempfile.mkdtemp(prefix=world.tag, dir=wish.flash)) if wish.flash else world.root / f"flash-{name}"
    if wish.flash:
        world.undo.append(lambda: shutil.rmtree(base))
    return ["--buffer-path", str(base / "volume") if wish.flash else str(base), "--buffer-bytes", f"{wish.mib * 3}MiB"]


def until_filled(node: Node) -> None:
    while node.buffer()["bytes_filling"]:
        time.sleep(0.1)


def slow(world: World, wish: argparse.Namespace) -> None:
    source, site = world.namespace("source"), world.namespace("site")
    address = world.path(source, site, 0, wish.rate)
    disk, device = world.disk(wish.mib)
    total = fill(disk / "run42", wish.mib)
    memory = world.root / "memory"
    shutil.copytree(disk / "run42", memory / "run42")
    here = Node(world, "here", disk, "10.82.0.1", ["--export", f"memory={memory}", *flash(world, wish, "here")])
    here.line = ["ip", "netns", "exec", source]
    here.group = world.group("here", device, wish.storage * 1_000_000)
    here.start()
    export = world.root / "arrived"
    export.mkdir()
    there = Node(world, "there", export, address, [])
    there.line = ["ip", "netns", "exec", site]
    there.start()
    there.admin("access", "allow", here.identity, "--export", "data", "--read", "--write")
    here.admin("site", "add", "there", there.address, "--identity", there.identity)
    row("destination", "seconds", "rate", "ratio", "read", "hits")
    rounds = [("first", "data"), ("second", "data"), ("third", "data")]
    path = total / here.seconds("job", "submit", "here:/memory/run42", "there:/data/memory")
    row("memory", f"{total / path:.2f}", f"{path / 1e6:.1f}", "", "", "")
    for number, (name, from_export) in enumerate(rounds):
        forget(disk / "run42")
        before, hits = read_bytes(device), here.buffer()["hit_bytes"]
        seconds = here.seconds("job", "submit", f"here:/{from_export}/run42", f"there:/data/{name}")
        until_filled(here)
        best = path if number else min(path, wish.storage * 1e6)
        rate = total / seconds
        share, hit = (read_bytes(device) - before) / total, (here.buffer()["hit_bytes"] - hits) / total
        row(name, f"{seconds:.2f}", f"{rate / 1e6:.1f}", f"{rate / best:.3f}", f"{share:.3f}", f"{hit:.3f}")


def pool(world: World, wish: argparse.Namespace) -> None:
    disk, device = world.disk(wish.mib)
    total = fill(disk / "run42", wish.mib)
    nodes: List[Node] = []
    for number in range(wish.nodes):
        more = flash(world, wish, str(number))
        if nodes:
            token = world.root / f"token{number}"
            token.touch(mode=0o600)
            token.write_text(nodes[0].admin("cluster", "invite"))
            more += ["--join", nodes[0].address, "--token-file", str(token), "--name", f"dtn{number}"]
        node = Node(world, f"node{number}", disk, f"127.0.82.{number + 1}", more)
        node.group = world.group(str(number), device, wish.storage * 1_000_000)
        nodes.append(node.start())
    until = time.monotonic() + 60
    while sum(one["state"] == "well" for one in nodes[0].buffer()["nodes"]) < wish.nodes:
        if time.monotonic() > until:
            raise RuntimeError(f"the nodes make no pool: {nodes[0].buffer()['nodes']}")
        time.sleep(0.2)
    forget(disk / "run42")
    before = read_bytes(device)
    seconds = nodes[0].seconds("buffer", "warm", "here:/data/run42")
    best = wish.storage * wish.nodes * 1e6
    row("nodes", "seconds", "rate", "ratio", "read")
    share = (read_bytes(device) - before) / total
    row(wish.nodes, f"{seconds:.2f}", f"{total / seconds / 1e6:.1f}", f"{total / seconds / best:.3f}", f"{share:.3f}")


def arrive(world: World, wish: argparse.Namespace) -> None:
    source, site = world.namespace("source"), world.namespace("site")
    address = world.path(source, site, 0, wish.rate)
    disk, device = world.disk(wish.mib)
    number = Path(f"/sys/block/{device}/dev").read_text().strip()
    # The kernel writes pages back in the root group.
    throttle = GROUPS / "blkio.throttle.write_bps_device"
    world.undo.append(lambda: throttle.write_text(f"{number} 0"))
    throttle.write_text(f"{number} {wish.storage * 1_000_000}")
    data = world.root / "data"
    total = fill(data / "run42", wish.mib, 128)
    here = Node(world, "here", data, "10.82.0.1", [])
    here.line = ["ip", "netns", "exec", source]
    here.start()
    arrivals = [*flash(world, wish, "there"), "--buffer-arrivals", "data"]
    arrivals[arrivals.index("--buffer-bytes") + 1] = f"{wish.mib // 4}MiB"
    there = Node(world, "there", disk, address, arrivals)
    there.line = ["ip", "netns", "exec", site]
    there.start()
    there.admin("access", "allow", here.identity, "--export", "data", "--read", "--write")
    here.admin("site", "add", "there", there.address, "--identity", there.identity)
    began = time.monotonic()
    job = here.seconds("job", "submit", "here:/data/run42", "there:/data/in/")
    while there.buffer()["files_waiting"]:
        time.sleep(0.1)
    drained = time.monotonic() - began
    row("bytes", "buffer", "job", "drained", "rate", "ratio")
    rate = total / drained
    figures = [f"{job:.2f}", f"{drained:.2f}", f"{rate / 1e6:.1f}", f"{rate / (wish.storage * 1e6):.3f}"]
    row(total, wish.mib // 4 * PIECE, *figures)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("godwit")
    cases = parser.add_subparsers(dest="case", required=True)
    flags: Dict[str, Dict[str, int]] = {
        "each": {"rate": 400, "slow": 40, "mib": 512},
        "slow": {"storage": 50, "rate": 1600, "mib": 512},
        "pool": {"storage": 100, "nodes": 3, "mib": 3072},
        "arrive": {"storage": 50, "rate": 1600, "mib": 2048},
    }
    for case, defaults in flags.items():
        one = cases.add_parser(case)
        for name, value in defaults.items():
            one.add_argument(f"--{name}", type=int, default=value)
        if case != "each":
            one.add_argument("--flash")
    wish = parser.parse_args()
    world = World(str(Path(wish.godwit).resolve()))
    try:
        {"each": each, "slow": slow, "pool": pool, "arrive": arrive}[wish.case](world, wish)
    finally:
        world.remove()


if __name__ == "__main__":
    main()
