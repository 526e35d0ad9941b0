"""Owns an emulated path: two sites of this machine in network namespaces, and the line between them. Measures nothing.

Everything is made when a `Emulated` is entered, and removed when it is left.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from typing_extensions import Self

from ..client import Client
from ..errors import GodwitError, SetupError
from . import way
from .plan import BUFFER_FACTOR, INTERFACES_FACTOR, NODES_FACTOR, Plan
from .sets import parse_size

NEAR, FAR = "near", "far"
_ENDS = (NEAR, FAR)

# The last number of an address says the end, the one before it the cable. The first cable leads to the site.
_LAST = {NEAR: 1, FAR: 2}
_START_SECONDS = 120
_SIGN = {NEAR: "a", FAR: "b"}
_LOOK_SECONDS = 0.05
# At once, as many as a plan may want.
_JOBS = "64"
_BUFFERS = ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")
# Queueing disciplines that delay or lose packets, and that hold them to a rate.
_DELAYING = ("netem", "delay", "0ms")
_LIMITING = ("tbf", "rate", "1gbit", "burst", "256kb", "latency", "50ms")


class Emulated:
    """Both sites of a plan with `[path]`, while it is entered."""

    def __init__(self, plan: Plan) -> None:
        self._path: Mapping[str, str] = plan.path or {}
        self._directories = {NEAR: plan.source_directory, FAR: plan.destination_directory}
        self._undo = ExitStack()
        self._homes: Dict[str, Path] = {}
        self.namespaces: Dict[str, str] = {}
        self._usual: Dict[str, str] = {}
        self._buffers = "default"
        self._nodes = _most(plan, NODES_FACTOR)
        # Each of several nodes of an end has an interface.
        self._cables = max(_most(plan, INTERFACES_FACTOR), self._nodes)
        self._interfaces = self._cables
        # The nodes of each end that take work; 0 while that is not sure.
        self._working = self._nodes

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            raise SetupError("usage", "an emulated path needs root: it makes network namespaces")
        try:
            self._make()
        except BaseException:
            self._undo.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    @property
    def socket(self) -> Path:
        """The socket of the first near node."""
        return self._socket(NEAR)

    def watch(self) -> List[Dict[str, str]]:
        """A node of each end, for a plan's `[[watch]]`. All nodes of an end see one host."""
        return [{"name": name, "socket": str(self._socket(end))} for name, end in (("here", NEAR), (FAR, FAR))]

    def machine(self, end: str) -> Dict[str, Any]:
        """This machine as the node of an end sees it: interfaces and sysctls of the network are those of its namespace."""
        # Only `ip netns exec` shows the devices of the namespace in /sys.
        seen: Dict[str, Any] = json.loads(_run("ip", "netns", "exec", self.namespaces[end], *describing()))
        return seen

    def set_factors(self, factors: Mapping[str, str]) -> None:
        """Makes the path as a run wants it."""
        self.set_buffers(factors.get(BUFFER_FACTOR, "default"))
        if INTERFACES_FACTOR in factors:
            self.set_interfaces(int(factors[INTERFACES_FACTOR]))
        if NODES_FACTOR in factors:
            self.set_nodes(int(factors[NODES_FACTOR]))

    def set_buffers(self, size: str) -> None:
        """Fixes the buffers of new connections at both ends to a size, or restores them."""
        if size == self._buffers:
            return
        for end in self.namespaces:
            for name in _BUFFERS:
                wanted = self._usual[name] if size == "default" else " ".join([str(parse_size(size))] * 3)
                _run(*self._entering(end), "sysctl", "-q", "-w", f"{name}={wanted}")
        self._buffers = size

    def set_interfaces(self, count: int) -> None:
        """Gives addresses to as many interfaces of each end, and takes those of the others: nothing uses such an interface."""
        for cable in range(min(count, self._interfaces), max(count, self._interfaces)):
            for end, name in self.namespaces.items():
                change = "add" if cable < count else "del"
                _run("ip", "-n", name, "address", change, f"{_address(end, cable)}/24", "dev", f"c{cable}")
        self._interfaces = count

    def set_nodes(self, count: int) -> None:
        """Has as many nodes of each end take work, and drains the others. The first one is asked, so it always works."""
        if count == self._working:
            return
        self._working = 0
        for end in _ENDS:
            with Client(socket=self._socket(end)) as client:
                for number in range(1, self._nodes):
                    client.cluster.change_node(_node(end, number), {"draining": number >= count})
        for end in _ENDS:
            self._wait_for_nodes(end, count)
        self._working = count

    def _wait_for_nodes(self, end: str, count: int) -> None:
        """Waits until each node of an end knows that this number of nodes takes work, and that the other nodes run nothing."""
        wanted = {"up": count, "drained": self._nodes - count}
        until = time.monotonic() + _START_SECONDS
        while True:
            seen = [self._states(_node(end, number)) for number in range(self._nodes)]
            if all(all(states.count(state) == wanted[state] for state in wanted) for states in seen):
                return
            if time.monotonic() >= until:
                raise SetupError("local_failure", f"of the nodes of the site {end}, {count} should take work: {seen}")
            time.sleep(_LOOK_SECONDS)

    def _states(self, node: str) -> List[str]:
        """The states of all nodes of an end, as one of them sees them."""
        try:
            with Client(socket=self._socket(node), retry_for=0) as client:
                return [one["state"] for one in client.cluster.get()["nodes"]]
        except GodwitError:
            return []

    def _socket(self, node: str) -> Path:
        return self._homes[node] / "run" / "node.sock"

    def _make(self) -> None:
        root = Path(self._undo.enter_context(tempfile.TemporaryDirectory(prefix="godwit-evaluate.")))
        for end in _ENDS:
            name = f"godwit-{os.getpid()}-{_SIGN[end]}"
            _run("ip", "netns", "add", name)
            self._undo.callback(_quietly, "ip", "netns", "del", name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
            self.namespaces[end] = name
            self._homes.update({_node(end, number): root / _node(end, number) for number in range(self._nodes)})
        for cable in range(self._cables):
            self._join(cable)
        self._usual = {name: _run(*self._entering(NEAR), "sysctl", "-n", name).strip() for name in _BUFFERS}
        first = {end: f"{_address(end, 0)}:{self._serve(end, 0, root).rsplit(':', 1)[1]}" for end in _ENDS}
        if self._nodes > 1:
            for end in _ENDS:
                self._add_nodes(end, first[end], root)
        # Rights that a node gives before other nodes join hold at this node alone.
        for number in range(self._nodes):
            self._command(FAR, 0, "access", "allow", self._command(NEAR, number, "id"), "--all-exports", "--read", "--write")
        self._command(NEAR, 0, "site", "add", FAR, first[FAR], "--identity", self._command(FAR, 0, "id"))

    def _add_nodes(self, end: str, first: str, root: Path) -> None:
        """Starts the further nodes of an end, which make a cluster with the first one."""
        for number in range(1, self._nodes):
            token = root / f"{_node(end, number)}.token"
            token.touch(mode=0o600)
            token.write_text(self._command(end, 0, "cluster", "invite"), encoding="utf-8")
            self._serve(end, number, root, "--join", first, "--token-file", str(token), "--name", _node(end, number))
        self._wait_for_nodes(end, self._nodes)

    def _join(self, cable: int) -> None:
        """By tc where the kernel has what the path needs, else by the program `wanlink`."""
        near, far, device = self.namespaces[NEAR], self.namespaces[FAR], f"c{cable}"
        rate, delay, loss = (str(self._path.get(name, "")) for name in ("rate", "delay", "loss"))
        if not ((_can(near, _DELAYING) or not (delay or loss)) and (_can(near, _LIMITING) or not rate)):
            self._wanlink(cable, rate, delay, loss)
            return
        _run("ip", "link", "add", device, "netns", near, "type", "veth", "peer", "name", device, "netns", far)
        for end, name in self.namespaces.items():
            _run("ip", "-n", name, "address", "add", f"{_address(end, cable)}/24", "dev", device)
            _run("ip", "-n", name, "link", "set", device, "up")
            above: Sequence[str] = ("root",)
            if delay or loss:
                words = (["delay", delay] if delay else []) + (["loss", loss] if loss else [])
                _run("tc", "-n", name, "qdisc", "add", "dev", device, "root", "handle", "1:", "netem", "limit", "100000", *words)
                above = ("parent", "1:")
            if rate:
                bucket = ("rate", _rate_of_tc(rate), "burst", "256kb", "latency", "50ms")
                _run("tc", "-n", name, "qdisc", "add", "dev", device, *above, "tbf", *bucket)

    def _wanlink(self, cable: int, rate: str, delay: str, loss: str) -> None:
        program = _beside("wanlink")
        if program is None:
            raise SetupError("usage", "tc has not both netem and tbf, and the program wanlink is not beside godwit")
        left, right = (f"{name}:{_address(end, cable)}/24" for end, name in self.namespaces.items())
        words = ["--left", left, "--right", right, "--offload", "on", "--device", f"c{cable}"]
        words += (
            ["--rtt", _twice(delay)] + (["--rate", rate.replace("/s", "")] if rate else []) + (["--loss", loss] if loss else [])
        )
        line = subprocess.Popen(  # noqa: S603
            [program, *words, "--ignore-stdin"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._undo.callback(_end, line)
        if not line.stdout or line.stdout.readline() != "ready\n":
            raise SetupError("usage", f"wanlink: {line.stderr.read().strip() if line.stderr else ''}")

    def _serve(self, end: str, number: int, root: Path, *joining: str) -> str:
        """Starts a node of an end, and says where it listens."""
        node, log = _node(end, number), root / f"{_node(end, number)}.log"
        directory = Path(self._directories[end] or "")
        way.check(directory)
        directory.mkdir(parents=True, exist_ok=True)
        # A node that is alone has every interface.
        at = "0.0.0.0" if self._nodes == 1 else _address(end, number)  # noqa: S104
        words = ["serve", "--listen", f"{at}:0", "--encryption", "any", "--jobs", _JOBS, "--export", f"data={directory}"]
        with log.open("wb") as file:
            process = subprocess.Popen(  # noqa: S603
                [*self._inside(end), *words, *joining],
                env=self._environment(node),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        self._undo.callback(_end, process)
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until and process.poll() is None:
            listening = re.search(r"^listening on (\S+) as ", log.read_text(encoding="utf-8"), re.MULTILINE)
            if listening and self._answers(node):
                return listening[1]
            time.sleep(_LOOK_SECONDS)
        raise SetupError("local_failure", f"the node {node} did not start: {log.read_text(encoding='utf-8')[-2000:]}")

    def _answers(self, node: str) -> bool:
        try:
            with Client(socket=self._socket(node), retry_for=0) as client:
                client.node.ready()
        except GodwitError:
            return False
        return True

    def _command(self, end: str, number: int, *words: str) -> str:
        return _run(*self._inside(end), *words, environment=self._environment(_node(end, number))).strip()

    def _inside(self, end: str) -> List[str]:
        return [*self._entering(end), os.environ.get("GODWIT", "godwit")]

    def _entering(self, end: str) -> List[str]:
        return ["nsenter", f"--net=/run/netns/{self.namespaces[end]}", "--"]

    def _environment(self, node: str) -> Dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GODWIT_")}
        return {**kept, "GODWIT_HOME": str(self._homes[node])}


def describing() -> List[str]:
    """The command that describes the machine as its namespace shows it.

    The child finds modules where this program finds them. With `-m`, root would run modules of a working directory that others
    may write.
    """
    return [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; from {__package__} import machine; machine.tell()"]


def _most(plan: Plan, factor: str) -> int:
    """The largest value of a factor; 1 if the plan does not vary it."""
    return max((int(str(number)) for number in plan.factors.get(factor, ())), default=1)


def _node(end: str, number: int) -> str:
    """The nodes of the near end are called near, near2, near3."""
    return f"{end}{number + 1}" if number else end


def _address(end: str, cable: int) -> str:
    return f"10.213.{77 + cable}.{_LAST[end]}"


def _can(namespace: str, discipline: Sequence[str]) -> bool:
    """Whether tc is there, and the kernel has a queueing discipline."""
    probe = ("tc", "-n", namespace, "qdisc", "add", "dev", "lo", "root", *discipline)
    try:
        if subprocess.run(probe, capture_output=True, check=False).returncode:  # noqa: S603
            return False
    except OSError:
        return False
    _run("tc", "-n", namespace, "qdisc", "del", "dev", "lo", "root")
    return True


def _rate_of_tc(rate: str) -> str:
    return rate.replace("bit/s", "bit").lower()


def _twice(delay: str) -> str:
    """The round trip of a delay in each direction, such as `10ms`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(us|ms|s)", delay or "0ms")
    if not match:
        raise SetupError("usage", f"path: delay: {delay!r} is no time: write for example 10ms")
    return f"{2 * float(match[1]):g}{match[2]}"


def _beside(name: str) -> Optional[str]:
    """A program beside godwit, else one of the search path."""
    godwit = shutil.which(os.environ.get("GODWIT", "godwit"))
    beside = Path(godwit).resolve().with_name(name) if godwit else None
    return str(beside) if beside and beside.exists() else shutil.which(name)


def _run(*words: str, environment: Optional[Mapping[str, str]] = None) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)  # noqa: S603
    except OSError as error:
        raise SetupError("local_failure", f"cannot run {words[0]}: {error.strerror}") from error
    if done.returncode:
        raise SetupError("local_failure", f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def _quietly(*words: str) -> None:
    subprocess.run(words, capture_output=True, check=False)  # noqa: S603


def _end(process: subprocess.Popen[Any]) -> None:
    """Ends a program, at once if it must."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
