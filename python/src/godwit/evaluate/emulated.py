"""Owns an emulated path: two nodes of this machine in network namespaces, and the line between them. Measures nothing.

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
from .plan import INTERFACES_FACTOR, Plan
from .sets import parse_size

FAR = "far"

# The last number of an address says the end, the one before it the cable. The first cable leads to the site.
_LAST = {"near": 1, "far": 2}
_START_SECONDS = 120
_SIGN = {"near": "a", FAR: "b"}
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
        self._directories = {"near": plan.source_directory, FAR: plan.destination_directory}
        self._undo = ExitStack()
        self._homes: Dict[str, Path] = {}
        self.namespaces: Dict[str, str] = {}
        self._usual: Dict[str, str] = {}
        self._buffers = "default"
        self._cables = max((int(str(number)) for number in plan.factors.get(INTERFACES_FACTOR, ())), default=1)
        self._interfaces = self._cables

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
        """The socket of the near node."""
        return self._socket("near")

    def watch(self) -> List[Dict[str, str]]:
        """Both nodes, for a plan's `[[watch]]`."""
        return [{"name": name, "socket": str(self._socket(end))} for name, end in (("here", "near"), (FAR, FAR))]

    def machine(self, end: str) -> Dict[str, Any]:
        """This machine as the node of an end sees it: interfaces and sysctls of the network are those of its namespace."""
        # Only `ip netns exec` shows the devices of the namespace in /sys.
        seen: Dict[str, Any] = json.loads(_run("ip", "netns", "exec", self.namespaces[end], *describing()))
        return seen

    def set_buffers(self, size: str) -> None:
        """Fixes the buffers of new connections at both ends to a size, or gives them what they had."""
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

    def _socket(self, end: str) -> Path:
        return self._homes[end] / "run" / "node.sock"

    def _make(self) -> None:
        root = Path(self._undo.enter_context(tempfile.TemporaryDirectory(prefix="godwit-evaluate.")))
        for end in ("near", FAR):
            name = f"godwit-{os.getpid()}-{_SIGN[end]}"
            _run("ip", "netns", "add", name)
            self._undo.callback(_quietly, "ip", "netns", "del", name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
            self.namespaces[end] = name
            self._homes[end] = root / end
        for cable in range(self._cables):
            self._join(cable)
        self._usual = {name: _run(*self._entering("near"), "sysctl", "-n", name).strip() for name in _BUFFERS}
        serving = {end: self._serve(end, root / f"{end}.log") for end in ("near", FAR)}
        self._command(FAR, "access", "allow", self._command("near", "id"), "--all-exports", "--read", "--write")
        address = f"{_address(FAR, 0)}:{serving[FAR].rsplit(':', 1)[1]}"
        self._command("near", "site", "add", FAR, address, "--identity", self._command(FAR, "id"))

    def _join(self, cable: int) -> None:
        """By tc where the kernel can delay, else by the program `wanlink`."""
        near, far, device = self.namespaces["near"], self.namespaces[FAR], f"c{cable}"
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

    def _serve(self, end: str, log: Path) -> str:
        directory = Path(self._directories[end] or "")
        way.check(directory)
        directory.mkdir(parents=True, exist_ok=True)
        words = ["serve", "--listen", "0.0.0.0:0", "--encryption", "any", "--jobs", _JOBS, "--export", f"data={directory}"]
        with log.open("wb") as file:
            node = subprocess.Popen(  # noqa: S603
                [*self._inside(end), *words], env=self._environment(end), stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )
        self._undo.callback(_end, node)
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until and node.poll() is None:
            listening = re.search(r"^listening on (\S+) as ", log.read_text(encoding="utf-8"), re.MULTILINE)
            if listening and self._answers(end):
                return listening[1]
            time.sleep(0.05)
        raise SetupError("local_failure", f"the node of the site {end} did not start: {log.read_text(encoding='utf-8')[-2000:]}")

    def _answers(self, end: str) -> bool:
        try:
            with Client(socket=self._socket(end), retry_for=0) as client:
                client.node.ready()
        except GodwitError:
            return False
        return True

    def _command(self, end: str, *words: str) -> str:
        return _run(*self._inside(end), *words, environment=self._environment(end)).strip()

    def _inside(self, end: str) -> List[str]:
        return [*self._entering(end), os.environ.get("GODWIT", "godwit")]

    def _entering(self, end: str) -> List[str]:
        return ["nsenter", f"--net=/run/netns/{self.namespaces[end]}", "--"]

    def _environment(self, end: str) -> Dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GODWIT_")}
        return {**kept, "GODWIT_HOME": str(self._homes[end])}


def describing() -> List[str]:
    """The command that describes the machine as its namespace shows it.

    It finds modules where this program finds them. By `-m` root would run modules of a working directory that others may write.
    """
    return [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; from {__package__} import machine; machine.tell()"]


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
