"""Owns what the tests of a verdict put between and below two nodes: namespaces, cables, a long line, slow disks, few processors.
Does not know what is measured. All of it is removed at the end."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Iterator

import pytest
from conftest import BINARY, Node

_NUMBERS = itertools.count()
_BLKIO = Path("/sys/fs/cgroup/blkio")
_CPU = Path("/sys/fs/cgroup/cpu")
_CFS_PERIOD_US = 50_000


def run(*words: object) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


@contextmanager
def namespaces() -> Iterator[tuple[str, str]]:
    """Two namespaces with their loopback devices up."""
    made = []
    try:
        for _ in range(2):
            name = f"godwit-py-{os.getpid()}-{next(_NUMBERS)}"
            done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                pytest.skip(f"it needs network namespaces: {done.stderr.strip()}")
            made.append(name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        yield made[0], made[1]
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], check=False)


def cable(near: str, far: str, number: int, rate: str) -> None:
    """Joins both by a pair of devices `cN` of this rate in each direction: 10.12.N.1 and 10.12.N.2."""
    device = f"c{number}"
    run("ip", "link", "add", device, "netns", near, "type", "veth", "peer", "name", device, "netns", far)
    for host, name in enumerate((near, far), 1):
        run("ip", "-n", name, "address", "add", f"10.12.{number}.{host}/24", "dev", device)
        run("ip", "-n", name, "link", "set", device, "up")
        bucket = ("tbf", "rate", rate, "burst", "128kb", "latency", "20ms")
        run("tc", "-n", name, "qdisc", "add", "dev", device, "root", *bucket)


@contextmanager
def line(near: str, far: str, *options: str) -> Iterator[None]:
    """Joins both by an emulated long line: 10.12.0.1 and 10.12.0.2."""
    program = BINARY.with_name("wanlink")
    if not program.exists() or not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip(f"it needs {program} and /dev/net/tun")
    ends = ["--left", f"{near}:10.12.0.1/24", "--right", f"{far}:10.12.0.2/24"]
    child = subprocess.Popen([program, *ends, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout and child.stdout.readline() == "ready\n"
        yield
    finally:
        child.terminate()
        child.wait()


@contextmanager
def disk(directory: Path, size: str, **rates: int) -> Iterator[None]:
    """Mounts a file system that reads and writes at these rates in bytes a second: `read=` and `write=`."""
    throttles = {name: _BLKIO / f"blkio.throttle.{name}_bps_device" for name in rates}
    missing = [str(path) for path in throttles.values() if not os.access(path, os.W_OK)]
    if missing or not shutil.which("mkfs.ext4"):
        pytest.skip(f"it needs mkfs.ext4 and {missing}")
    image = directory.with_suffix(".image")
    run("truncate", "--size", size, image)
    device = run("losetup", "--find", "--show", image).strip()
    with ExitStack() as undo:
        undo.callback(run, "losetup", "--detach", device)
        run("mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", device)
        directory.mkdir(parents=True, exist_ok=True)
        run("mount", device, directory)
        undo.callback(run, "umount", "--lazy", directory)
        run("rmdir", directory / "lost+found")
        known = Path(device).stat().st_rdev
        number = f"{os.major(known)}:{os.minor(known)}"
        for name, rate in rates.items():
            undo.callback(throttles[name].write_text, f"{number} 0")
            throttles[name].write_text(f"{number} {rate}")
        yield


@contextmanager
def processors(node: Node, share: float) -> Iterator[None]:
    """Holds a node to this share of one processor."""
    group = _CPU / f"godwit-py-{os.getpid()}-{next(_NUMBERS)}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"it needs the cgroup {group}: {error}")
    try:
        (group / "cpu.cfs_period_us").write_text(str(_CFS_PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(int(_CFS_PERIOD_US * share)))
        assert node.process
        (group / "cgroup.procs").write_text(str(node.process.pid))
        yield
    finally:
        node.kill()
        group.rmdir()


def shrink_buffers(namespace: str, kind: str, size: int) -> None:
    """Holds the buffers of new connections in a namespace: `tcp_rmem` or `tcp_wmem`."""
    words = ("sysctl", "-q", "-w", f"net.ipv4.{kind}=4096 {size} {size}")
    run("nsenter", f"--net=/run/netns/{namespace}", "--", *words)
