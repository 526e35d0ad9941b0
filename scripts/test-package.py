#!/usr/bin/env python3
"""Installs the Debian package on copies of this machine and runs every command of docs/operating.md there, in order.

usage: test-package.py PACKAGE    (root)

Each machine is an overlay of this one's files in its own namespaces, with systemd as its first process. All share a private network.
Nothing of this machine changes. The machines of the cluster share the files at /data. The blocks of the two sites run first, then those of the cluster.
In the guide, a line `On **MACHINE**:` before a block names its machine. A word in capitals that begins with `THE-` stands for the output of
a command; a line ``THE-WORD: the output of `COMMAND` on MACHINE.`` names that command.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / "docs" / "operating.md"
HOSTS = {"dtn1": "10.77.0.1", "dtn2": "10.77.0.2"}
CLUSTER = {"a1": "10.77.0.3", "a2": "10.77.0.4", "a3": "10.77.0.5"}
BOOT_WITHIN = 120.0
COMMAND_WITHIN = 180.0

BOOT = r"""
set -eu
cd "$1"
# A separate control group, so that this systemd meets no other.
group=$(findmnt -n -t cgroup2 -o TARGET | head -n 1)/$2
mkdir -p "$group"
echo $$ >"$group/cgroup.procs"
exec unshare --mount --propagation private --pid --fork --kill-child --cgroup --uts --ipc bash -euc '
    cd "$0"
    hostname "$1"
    mount -t tmpfs -o mode=755 tmpfs .
    cd "$0"
    mkdir upper work copy
    mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work overlay copy
    cd copy
    mount -t tmpfs -o mode=755 tmpfs dev
    for node in null zero full random urandom tty; do cp -a "/dev/$node" dev/; done
    mkdir dev/pts dev/shm
    mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
    ln -s pts/ptmx dev/ptmx
    mount -t tmpfs tmpfs dev/shm
    mount -t proc proc proc
    # Read-only, so that a machine sets nothing of the kernel.
    mount --bind proc/sys proc/sys
    mount -o remount,bind,ro proc/sys
    mount -t sysfs -o ro sysfs sys
    mountpoint -q sys/fs/cgroup || mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
    mount -t cgroup2 cgroup2 sys/fs/cgroup
    mount -t tmpfs -o mode=755 tmpfs run
    mount -t tmpfs -o mode=1777 tmpfs tmp
    mkdir -p data srv
    [ -z "$4" ] || mount --bind "$4" data
    cp "$2" root/godwit.deb
    echo "$3" >>etc/hosts
    echo "$1" >etc/hostname
    exec chroot . /usr/bin/env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        /lib/systemd/systemd --system --log-level=warning --log-target=console --show-status=no --unit=multi-user.target
' "$1" "$3" "$4" "$5" "$6"
"""


class Fault(Exception):
    """The faults that the test found."""


@dataclass
class Machine:
    """A copy of this machine."""

    name: str
    place: Path
    process: subprocess.Popen[bytes] = field(init=False)
    systemd: int = 0

    def boot(self, package: Path, shared: Path | None = None) -> None:
        hosts = "\n".join(f"{address} {name} {name}.example.org" for name, address in {**HOSTS, **CLUSTER}.items())
        group = f"godwit-{os.getpid()}-{self.name}"
        log = (self.place.parent / f"{self.name}.log").open("wb")
        self.process = subprocess.Popen(
            ["bash", "-c", BOOT, "boot", str(self.place), group, self.name, str(package), hosts, str(shared or "")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        self.group = group
        began = time.monotonic()
        while True:
            if self.process.poll() is not None or time.monotonic() - began > BOOT_WITHIN:
                raise Fault(f"{self.name} does not boot: {self.log()}")
            if self.find() and self.run("systemctl is-active --quiet basic.target", check=False).returncode == 0:
                return
            time.sleep(0.2)

    def find(self) -> bool:
        """Finds systemd: the only child of `unshare`, which the shell has become."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        found = children.read_text().split() if children.exists() else []
        self.systemd = int(found[0]) if found else 0
        comm = Path(f"/proc/{self.systemd}/comm")
        return bool(found) and comm.exists() and comm.read_text().strip() == "systemd"

    def run(self, script: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        into = ["nsenter", "-t", str(self.systemd), "-m", "-p", "-u", "-i", "-C", "-r", "-w"]
        environment = ["env", "-i", "HOME=/root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "TERM=dumb"]
        done = subprocess.run(
            [*into, *environment, "bash", "-euo", "pipefail", "-c", f"cd\n{script}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_WITHIN,
            check=False,
        )
        if check and done.returncode != 0:
            logs = self.run("journalctl --no-pager -u godwit | tail -n 30", check=False).stdout
            raise Fault(
                f"on {self.name}: exit code {done.returncode}\n{script}\n{done.stdout}{done.stderr}\n{logs}{self.log()}"
            )
        return done

    def log(self) -> str:
        return (self.place.parent / f"{self.name}.log").read_text(errors="replace")[-4000:]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for mount in Path("/proc/mounts").read_text().splitlines():
            kind, path = mount.split()[2], mount.split()[1]
            if kind == "cgroup2":
                remove_groups(Path(path) / self.group)


def remove_groups(group: Path) -> None:
    """Removes control groups from the leaves up, once the kernel has emptied them."""
    for _ in range(100):
        try:
            for directory, _, _ in os.walk(group, topdown=False):
                os.rmdir(directory)
            return
        except OSError:
            time.sleep(0.05)


@dataclass
class Block:
    """Commands of the guide."""

    line: int
    machine: str
    script: str
    names: list[tuple[str, str, str]]


def blocks(path: Path) -> list[Block]:
    """Gives the blocks of the guide, with the machine and the words that the comments before each name."""
    found: list[Block] = []
    machine, names, lines, start = "", [], None, 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if lines is not None:
            if line.strip() != "```":
                lines.append(line)
                continue
            if not machine:
                raise Fault(f"{path.name}:{start}: no comment says on which machine this block is run")
            found.append(Block(start, machine, "\n".join(lines), names))
            machine, names, lines = "", [], None
        elif line.strip() == "```sh":
            lines, start = [], number
        elif on := re.fullmatch(r"On \*\*(\w+)\*\*:", line.strip()):
            machine = on[1]
        elif name := re.fullmatch(r"(THE-[A-Z0-9-]+): the output of `(.+)` on (\w+)\.", line.strip()):
            names.append((name[1], name[2], name[3]))
    return found


def guide(path: Path, names: list[str], machines: dict[str, Machine]) -> int:
    """Runs the blocks of the guide that belong to machines of these names; gives the number of commands."""
    known: dict[str, str] = {}
    count = 0
    for block in [block for block in blocks(path) if block.machine in names]:
        for name, command, machine in block.names:
            known[name] = machines[machine].run(command).stdout.strip().splitlines()[-1]
        script = re.sub(r"THE-[A-Z0-9-]+", lambda word: known[word[0]], block.script)
        print(f"{path.name}:{block.line} on {block.machine}", flush=True)
        machines[block.machine].run(script)
        count += sum(1 for line in script.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return count


def kill_and_purge(machine: Machine) -> None:
    """A killed node restarts automatically, no other user reaches it, and a purge leaves nothing."""
    pid = "systemctl show -P MainPID godwit"
    before = machine.run(pid).stdout.strip()
    owner = machine.run(f"stat -c %U /proc/{before}").stdout.strip()
    if owner != "godwit":
        raise Fault(f"the node runs as {owner}")
    machine.run("test \"$(systemctl show -P WatchdogUSec godwit)\" = 1min")
    machine.run("systemd-analyze verify /usr/lib/systemd/system/godwit.service")
    # 0 is safest and 100 is "unsafe"; many of Debian's own services have more than 90.
    machine.run("systemd-analyze security --threshold=35 godwit.service >/dev/null")
    refused = machine.run(
        "setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME=/nonexistent godwit job list", check=False
    )
    if refused.returncode == 0 or "godwit user add nobody" not in refused.stderr:
        raise Fault(f"somebody else: {refused}")
    jobs = machine.run("godwit job list --all").stdout
    machine.run(f"kill -9 {before}")
    began = time.monotonic()
    back = f"systemctl is-active --quiet godwit && test \"$({pid})\" != {before} && godwit node status >/dev/null"
    while machine.run(back, check=False).returncode:
        if time.monotonic() - began > BOOT_WITHIN:
            raise Fault("the node does not come back after a kill")
        time.sleep(0.2)
    after = machine.run("godwit job list --all").stdout
    if after != jobs:
        raise Fault(f"jobs before the kill:\n{jobs}\nand after it:\n{after}")
    # The service can read the state that root restored; jobs after the backup are gone.
    machine.run("godwit backup again && godwit job submit here:/data/run42 here:/data/after --wait")
    machine.run("systemctl stop godwit && rm -r /var/lib/godwit/state/*.db* && godwit restore again && systemctl start godwit")
    restored = machine.run("godwit job list --all").stdout
    if restored != jobs:
        raise Fault(f"jobs before the backup:\n{jobs}\nand after it was restored:\n{restored}")
    machine.run("systemctl stop godwit && test \"$(systemctl show -P Result godwit)\" = success")
    machine.run("dpkg --purge godwit && test ! -e /var/lib/godwit && test ! -e /etc/godwit/godwit.toml")


def main() -> int:
    if os.geteuid() != 0:
        print("test-package: only root can make such machines", file=sys.stderr)
        return 1
    package = Path(sys.argv[1]).resolve()
    # A network and mounts of their own for all machines together.
    libc = ctypes.CDLL(None, use_errno=True)
    clone_newns, clone_newnet, private = 0x20000, 0x40000000, (1 << 18) | (1 << 14)
    if libc.unshare(clone_newns | clone_newnet) or libc.mount(None, b"/", None, private, None):
        raise OSError(ctypes.get_errno(), "unshare")
    addresses = [f"ip address add {address}/32 dev lo" for address in [*HOSTS.values(), *CLUSTER.values()]]
    subprocess.run(["sh", "-ec", "; ".join(["ip link set lo up", *addresses])], check=True)
    place = Path(tempfile.mkdtemp(prefix="godwit-package-"))
    machines: dict[str, Machine] = {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        for name in HOSTS:
            (place / name).mkdir()
            machines[name] = Machine(name, place / name)
            machines[name].boot(package)
        strangers = {block.machine for block in blocks(GUIDE)} - set(HOSTS) - set(CLUSTER)
        if strangers:
            raise Fault(f"{GUIDE.name} names machines that do not exist: {sorted(strangers)}")
        count = guide(GUIDE, list(HOSTS), machines)
        kill_and_purge(machines["dtn1"])
        print(f"{count} commands of {GUIDE.name} for sites ran as it says; the package was killed and purged")
        shared = place / "shared"
        shared.mkdir()
        for name in CLUSTER:
            (place / name).mkdir()
            machines[name] = Machine(name, place / name)
            machines[name].boot(package, shared)
            machines[name].run("dpkg -i godwit.deb")
        count = guide(GUIDE, list(CLUSTER), machines)
        print(f"{count} commands of {GUIDE.name} for a cluster ran as it says")
        return 0
    except (Fault, subprocess.TimeoutExpired) as fault:
        print(f"test-package: {fault}", file=sys.stderr)
        return 1
    finally:
        for machine in machines.values():
            machine.end()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
