"""Owns the plan of an evaluation: its file, what is wrong with it, and every run that follows from it. Runs nothing."""

from __future__ import annotations

import itertools
import json
import random
import sys
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..errors import SetupError
from ..submission import Setting
from .schedule import Schedule, duration

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_TOP = {"title", "places", "watch", "data", "variants", "factors", "run", "ends", "path"}
_PLACES = {"source", "destination", "source_directory", "destination_directory", "sites"}
_RUN = {"repetitions", "seed", "scale", "timeout", "idle_below", "tries", "cold", "seconds", "fit", "within", "at", "days"}
_PATH = {"rate", "delay", "loss"}
_WATCH = {"name", "node", "socket", "token_file", "fingerprint"}
# A factor that is no setting of a job: buffers of TCP, which only an emulated path sets.
BUFFER_FACTOR = "tcp_buffer"
# Another one: the number of interfaces in use at each end of an emulated path.
INTERFACES_FACTOR = "interfaces"
# The number of nodes of each site that take part. At real sites it is the setting of a job. On an emulated path it is the
# number of nodes that take work at each end. Each of them has one interface.
NODES_FACTOR = "nodes"
_NODES_MAX = 1000
# These factors exist only on an emulated path. Elsewhere, something else decides.
OF_THE_PATH = {
    BUFFER_FACTOR: "the sysctls of each end decide",
    INTERFACES_FACTOR: "the addresses of each node decide",
}
# Each interface takes a network of its path.
_INTERFACES_MAX = 8
# Another one: whether a job is divided among the nodes of its sites.
DIVIDE_FACTOR = "divide"
_DIVIDE = {"auto", "always", "never"}
# The sites of an emulated path.
_EMULATED = {"source": "here:/data", "destination": "far:/data"}
# Kinds of ends; only those of memory need no data set on disk.
_ENDS = ("disk", "memory", "back", "source", "destination")
_MEMORY = ("memory", "back")


@dataclass(frozen=True)
class Data:
    """A data set by the specification of `godwit gen`, or an amount of memory."""

    name: str
    spec: str = ""
    memory: str = ""


@dataclass(frozen=True)
class Run:
    """One run: which data between which ends, under which settings, and the how-manieth time."""

    data: str
    ends: str
    variant: str
    factors: Tuple[Tuple[str, str], ...]
    block: int
    pair: Tuple[str, str] = ("", "")
    """Source and destination, where a plan names more than one pair."""

    @property
    def setting(self) -> str:
        """All but the repetition, for people."""
        pair = [">".join(place.split(":", 1)[0] for place in self.pair)] if any(self.pair) else []
        return " ".join([*pair, self.data, self.ends, self.variant, *(f"{name}={value}" for name, value in self.factors)])

    @property
    def key(self) -> str:
        """The name of the run in the results."""
        return f"{self.block}: {self.setting}"


@dataclass(frozen=True)
class Plan:
    """A plan with its places."""

    title: str
    source: str
    destination: str
    source_directory: Optional[str]
    data: Tuple[Data, ...]
    ends: Tuple[str, ...]
    variants: Mapping[str, Mapping[str, Setting]]
    factors: Mapping[str, List[Setting]]
    watch: Tuple[Mapping[str, str], ...]
    repetitions: int = 8
    seed: int = 1
    scale: float = 1.0
    timeout: float = 3600.0
    idle_below: float = 0.2
    tries: int = 3
    cold: bool = False
    seconds: float = 0.0
    fit: bool = False
    """Sets on disk are made so small that the path moves them within `seconds`."""
    within: float = 0.0
    """The time for all runs, in seconds; 0 is any time."""
    schedule: Optional[Schedule] = None
    path: Optional[Mapping[str, str]] = None
    sites: Tuple[str, ...] = ()
    destination_directory: Optional[str] = None
    text: str = field(default="", repr=False)

    def pairs(self) -> List[Tuple[str, str]]:
        """Source and destination of each pair. A plan with one pair names it in no setting."""
        return [*itertools.permutations(self.sites, 2)] if self.sites else [("", "")]

    def block(self, number: int) -> List[Run]:
        """One repetition: each setting once, in a separate random order, so that a drift meets all settings alike."""
        values = [[(name, str(value)) for value in one] for name, one in self.factors.items()]
        settings = [
            Run(data.name, ends, variant, factors, number, pair)
            for pair in self.pairs()
            for data in self.data
            for ends in self.ends
            if (ends in _MEMORY) == bool(data.memory)
            for variant in self.variants
            for factors in itertools.product(*values)
        ]
        chance = random.Random(f"{self.seed} {number}")  # noqa: S311
        return chance.sample(settings, len(settings))

    def blocks(self) -> Iterator[int]:
        """The numbers of the repetitions. Without a number of repetitions they have no end."""
        return iter(range(1, self.repetitions + 1)) if self.repetitions else itertools.count(1)

    def runs(self) -> List[Run]:
        """Every run; of a plan without a number of repetitions, those of the first one."""
        return [run for number in range(1, max(1, self.repetitions) + 1) for run in self.block(number)]


def load(
    name: str,
    places: Mapping[str, Any],
    *,
    run: Optional[Mapping[str, Any]] = None,
    factors: Sequence[str] = (),
    watch: Sequence[str] = (),
    emulate: Optional[Mapping[str, str]] = None,
) -> Plan:
    """Reads a plan by its file, or a ready-made one by its name. Arguments take precedence over the plan."""
    path = Path(name)
    if path.suffix == ".toml" or path.exists():
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise SetupError("usage", f"cannot read {path}: {error.strerror}") from error
    else:
        text = ready_made(name)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SetupError("usage", f"{name}: {error}") from None
    # A plan with another number of repetitions, or more time, is the same plan and may be resumed. The scale is kept beside the
    # plan.
    document["run"] = {**document.get("run", {}), **(run or {})}
    document["factors"] = {**document.get("factors", {}), **dict(_factor(one) for one in factors)}
    # A watched node changes no run: the plan stays the same.
    document["watch"] = [*document.get("watch", ()), *map(_watch, watch)]
    if emulate:
        document["path"] = {**document.get("path", {}), **emulate}
    given = (("factors", [*factors]), ("fit", (run or {}).get("fit")), ("path", document.get("path")))
    same = {key: value for key, value in given if value}
    return parse(name, document, places, text=text + (f"\n# also given: {json.dumps(same)}\n" if same else ""))


def names() -> List[str]:
    """The ready-made plans."""
    return sorted(one.name[: -len(".toml")] for one in _plans().iterdir() if one.name.endswith(".toml"))


def ready_made(name: str) -> str:
    """The text of a ready-made plan."""
    if name not in names():
        raise SetupError("usage", f"{name}: no file, and no ready-made plan; there are {', '.join(names())}")
    return str((_plans() / f"{name}.toml").read_text(encoding="utf-8"))


def parse(name: str, document: Dict[str, Any], places: Mapping[str, Any], *, text: str = "") -> Plan:
    """The plan in a document."""
    _known(name, document, _TOP)
    where = {**document.get("places", {}), **{key: value for key, value in places.items() if value}}
    run = dict(document.get("run", {}))
    _known(f"{name}: places", where, _PLACES)
    _known(f"{name}: run", run, _RUN)
    path = document.get("path")
    sites = tuple(str(one).rstrip("/") for one in where.get("sites", ()))
    if path is not None:
        _emulated(name, path, where, sites)
        where.update(_EMULATED)
    elif sites:
        _sites(name, sites)
        where["source"], where["destination"] = sites[:2]
    for key in ("source", "destination"):
        if ":" not in str(where.get(key, "")):
            raise SetupError("usage", f"{name}: places: {key} is missing: write SITE:/EXPORT/PATH, or give --{key}")
    data = tuple(_data(name, one) for one in document.get("data", []))
    ends = tuple(document.get("ends", ["disk"]))
    _check(name, data, ends, where)
    made = Plan(
        title=str(document.get("title", name)),
        source=where["source"].rstrip("/"),
        destination=where["destination"].rstrip("/"),
        source_directory=where.get("source_directory"),
        destination_directory=where.get("destination_directory"),
        sites=sites,
        path=path,
        data=data,
        ends=ends,
        variants=document.get("variants") or {"usual": {}},
        factors=document.get("factors", {}),
        watch=tuple(_watched(name, one) for one in document.get("watch", ())),
        text=text or json.dumps(document),
        schedule=Schedule.parse(name, run.pop("at", ()), run.pop("days", ())),
        within=duration(name, run.pop("within", 0)),
        **run,
    )
    _bounded(name, made)
    return made


def _bounded(name: str, plan: Plan) -> None:
    if not plan.runs():
        raise SetupError(
            "usage", f"{name}: no run follows from it: [[data]] with memory is for ends memory, with spec for others"
        )
    if not plan.repetitions and not plan.within:
        raise SetupError("usage", f"{name}: run: it has no end: give repetitions, or within")
    _check_factors(name, plan)
    if plan.fit and not plan.seconds:
        raise SetupError("usage", f"{name}: run: fit needs seconds")


def _check_factors(name: str, plan: Plan) -> None:
    """The factors that are no settings of a job: a node checks the others."""
    for factor, why in OF_THE_PATH.items():
        if factor in plan.factors and plan.path is None:
            raise SetupError("usage", f"{name}: factors: {factor} is for an emulated path: elsewhere, {why}")
    # Each node of an emulated path has an interface.
    bounds = {INTERFACES_FACTOR: _INTERFACES_MAX, NODES_FACTOR: _NODES_MAX if plan.path is None else _INTERFACES_MAX}
    for factor, most in bounds.items():
        if not {str(one) for one in plan.factors.get(factor, ())} <= {str(number) for number in range(1, most + 1)}:
            raise SetupError("usage", f"{name}: factors: {factor}: write numbers from 1 to {most}")
    if {INTERFACES_FACTOR, NODES_FACTOR} <= {*plan.factors}:
        raise SetupError("usage", f"{name}: factors: write interfaces or nodes: each of several nodes has one interface")
    if not {str(one) for one in plan.factors.get(DIVIDE_FACTOR, ())} <= _DIVIDE:
        raise SetupError("usage", f"{name}: factors: {DIVIDE_FACTOR}: there are {', '.join(sorted(_DIVIDE))}")


def _emulated(name: str, path: Mapping[str, Any], where: Mapping[str, Any], sites: Sequence[str]) -> None:
    """An emulated path has its two sites: only their directories are named."""
    _known(f"{name}: path", path, _PATH)
    if sites or any(where.get(key, _EMULATED[key]) != _EMULATED[key] for key in _EMULATED):
        raise SetupError("usage", f"{name}: path: the sites of an emulated path are made: name no source, destination or sites")
    for key in ("source_directory", "destination_directory"):
        if not where.get(key):
            raise SetupError("usage", f"{name}: places: {key} is missing: both ends of an emulated path are on this machine")


def _sites(name: str, sites: Sequence[str]) -> None:
    labels = [place.split(":", 1)[0] for place in sites]
    if len(sites) < 2 or len({*labels}) < len(labels) or any(":" not in place for place in sites):
        raise SetupError("usage", f"{name}: places: sites: write two or more different ones, each as SITE:/EXPORT/PATH")


def _factor(given: str) -> Tuple[str, List[Setting]]:
    """`streams=1,4` as a factor with its values."""
    key, _, values = given.partition("=")
    if not key or not values:
        raise SetupError("usage", f"--factor: write NAME=VALUE,VALUE and not {given!r}")
    return key, [*values.split(",")]


def _watch(given: str) -> Dict[str, str]:
    """`siteB=https://dtn1.siteb.org,TOKEN_FILE` as a node that is watched."""
    name, _, rest = given.partition("=")
    address, *others = rest.split(",")
    if not name or not address or len(others) > 2:
        raise SetupError("usage", f"--watch: write NAME=URL,TOKEN_FILE or NAME=SOCKET and not {given!r}")
    return {
        "name": name,
        "socket" if address.startswith("/") else "node": address,
        **dict(zip(("token_file", "fingerprint"), others)),
    }


def _watched(name: str, one: Mapping[str, str]) -> Mapping[str, str]:
    _known(f"{name}: watch", one, _WATCH)
    if not one.get("name") or bool(one.get("node")) == bool(one.get("socket")):
        raise SetupError("usage", f"{name}: watch: each node has a name, and either node or socket")
    return one


def _check(name: str, data: Tuple[Data, ...], ends: Tuple[str, ...], where: Mapping[str, Any]) -> None:
    unknown = set(ends) - set(_ENDS)
    if unknown or not ends:
        raise SetupError("usage", f"{name}: ends: write some of {', '.join(_ENDS)}")
    if any(one.spec for one in data) and not where.get("source_directory"):
        raise SetupError(
            "usage",
            f"{name}: places: source_directory is missing: the directory on this machine that the source is, for godwit gen",
        )
    if len({one.name for one in data}) < len(data):
        raise SetupError("usage", f"{name}: data: two sets have one name")


def _data(name: str, one: Dict[str, Any]) -> Data:
    _known(f"{name}: data", one, {"name", "spec", "memory"})
    if bool(one.get("spec")) == bool(one.get("memory")) or not one.get("name"):
        raise SetupError("usage", f"{name}: data: each set has a name, and either spec or memory")
    return Data(**one)


def _known(name: str, table: Mapping[str, Any], keys: Any) -> None:
    unknown = sorted(set(table) - set(keys))
    if unknown:
        raise SetupError("usage", f"{name}: unknown: {', '.join(unknown)}; there are {', '.join(sorted(keys))}")


def _plans() -> Any:
    return resources.files("godwit.evaluate") / "plans"
