"""Owns the description of machines: of this one from the kernel, of others from the API. Changes nothing."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any, Dict, List, Sequence

from ..client import Client
from ..errors import SetupError

# These decide a rate most often, and often stay as they were made.
_SYSCTLS = (
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_congestion_control",
    "net/core/default_qdisc",
    "net/core/netdev_max_backlog",
    "vm/dirty_ratio",
    "vm/dirty_background_ratio",
)
# File systems that hold no data of users.
_OF_THE_KERNEL = {
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
}


def here() -> Dict[str, Any]:
    """This machine."""
    processors = _read(Path("/proc/cpuinfo"))
    model = next((line.split(":", 1)[1].strip() for line in processors.splitlines() if line.startswith("model name")), "")
    return {
        "host": platform.node(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "processor": model,
        "cores": os.cpu_count(),
        "memory": _read(Path("/proc/meminfo")).splitlines()[:1],
        "governor": _read(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "interfaces": _interfaces(),
        "interrupts": _interrupts(),
        "mounts": mounts(_read(Path("/proc/mounts"))),
        "sysctl": {name.replace("/", "."): _read(Path("/proc/sys") / name) for name in _SYSCTLS},
    }


def node(client: Client) -> Dict[str, Any]:
    """A node and its cluster, as the API shows them."""
    return {"node": dict(client.node.get()), "cluster": dict(client.cluster.get()), "settings": _changed(client)}


def described(words: Sequence[str]) -> Dict[str, Any]:
    """Other machines, each given as NAME=FILE; the file has what `godwit-evaluate machine` printed there."""
    found = {}
    for word in words:
        name, _, file = word.partition("=")
        if not name or not file:
            raise SetupError("usage", f"--machine {word}: write NAME=FILE")
        try:
            printed = json.loads(Path(file).read_text(encoding="utf-8"))
        except OSError as error:
            raise SetupError("usage", f"--machine {word}: cannot read {file}: {error.strerror}") from error
        except ValueError:
            printed = None
        if not isinstance(printed, dict) or not isinstance(printed.get("kernel"), str):
            raise SetupError("usage", f"--machine {word}: {file} is not what godwit-evaluate machine prints")
        found[name] = printed
    return found


def _changed(client: Client) -> Dict[str, Any]:
    return {one["name"]: one["value"] for one in client.node.settings() if one.get("origin") not in (None, "default")}


def mounts(text: str) -> List[str]:
    """The file systems in the text of /proc/mounts that may hold data. Sources of parallel ones have names of all kinds."""
    return [line for line in text.splitlines() if len(line.split()) > 2 and line.split()[2] not in _OF_THE_KERNEL]


def _interfaces() -> List[Dict[str, str]]:
    found = []
    for path in sorted(Path("/sys/class/net").glob("*")):
        state = {name: _read(path / name) for name in ("operstate", "mtu", "speed")}
        found.append({"name": path.name, **state, "numa_node": _read(path / "device" / "numa_node")})
    return found


def _interrupts() -> List[Dict[str, str]]:
    """Where the interrupts of the network interfaces go, as it is: nothing sets their affinity here."""
    found = []
    names = [path.name for path in Path("/sys/class/net").glob("*") if (path / "device").exists()]
    for line in _read(Path("/proc/interrupts")).splitlines():
        number, _, rest = line.strip().partition(":")
        words = rest.split()
        if number.isdigit() and words and any(name in words[-1] for name in _drivers(names)):
            cores = _read(Path(f"/proc/irq/{number}/smp_affinity_list"))
            found.append({"interrupt": number, "name": words[-1], "cores": cores})
    return found


def _drivers(names: List[str]) -> List[str]:
    """The words by which the kernel names the interrupts of interfaces: those of the interface, or of its device."""
    devices = [(Path("/sys/class/net") / name / "device").resolve().name for name in names]
    return [*names, *devices]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def tell() -> None:
    """Prints this machine: for the report on another one, or for a namespace of an emulated path."""
    print(json.dumps(here()))
