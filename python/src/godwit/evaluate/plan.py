"""Owns the plan of an evaluation: its file, what is wrong with it, and every run that follows from it. Runs nothing."""

from __future__ import annotations

import itertools
import json
import random
import sys
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..errors import SetupError
from ..submission import Setting

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_TOP = {"title", "places", "watch", "data", "variants", "factors", "run", "ends"}
_PLACES = {"source", "destination", "source_directory"}
_RUN = {"repetitions", "seed", "scale", "timeout", "idle_below", "tries", "cold", "seconds"}
# Kinds of ends; only those of memory need no data set on disk.
_ENDS = ("disk", "memory", "back", "source", "destination")
_MEMORY = ("memory", "back")


@dataclass(frozen=True)
class Data:
    """A data set by the specification of `godwit gen`, or so much memory."""

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

    @property
    def setting(self) -> str:
        """All but the repetition, for people."""
        return " ".join([self.data, self.ends, self.variant, *(f"{name}={value}" for name, value in self.factors)])

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
    repetitions: int = 5
    seed: int = 1
    scale: float = 1.0
    timeout: float = 3600.0
    idle_below: float = 0.2
    tries: int = 3
    cold: bool = False
    seconds: float = 0.0
    text: str = field(default="", repr=False)

    def runs(self) -> List[Run]:
        """Every run. Each block has each setting once, in a separate random order, so that a drift meets all settings alike."""
        chance = random.Random(self.seed)  # noqa: S311
        values = [[(name, str(value)) for value in one] for name, one in self.factors.items()]
        settings = [
            (data, ends, variant, factors)
            for data in self.data
            for ends in self.ends
            if (ends in _MEMORY) == bool(data.memory)
            for variant in self.variants
            for factors in itertools.product(*values)
        ]
        found = []
        for block in range(1, self.repetitions + 1):
            order = chance.sample(settings, len(settings))
            found += [Run(data.name, ends, variant, factors, block) for data, ends, variant, factors in order]
        return found


def load(name: str, places: Mapping[str, Optional[str]], *, scale: Optional[float] = None) -> Plan:
    """Reads a plan by its file, or a ready-made one by its name. `places` come before those of the plan."""
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
    return parse(name, document, places, scale=scale, text=text)


def names() -> List[str]:
    """The ready-made plans."""
    return sorted(one.name[: -len(".toml")] for one in _plans().iterdir() if one.name.endswith(".toml"))


def ready_made(name: str) -> str:
    """The text of a ready-made plan."""
    if name not in names():
        raise SetupError("usage", f"{name}: no file, and no ready-made plan; there are {', '.join(names())}")
    return str((_plans() / f"{name}.toml").read_text(encoding="utf-8"))


def parse(
    name: str, document: Dict[str, Any], places: Mapping[str, Optional[str]], *, scale: Optional[float] = None, text: str = ""
) -> Plan:
    """The plan in a document."""
    _known(name, document, _TOP)
    where = {**document.get("places", {}), **{key: value for key, value in places.items() if value}}
    run = dict(document.get("run", {}))
    _known(f"{name}: places", where, _PLACES)
    _known(f"{name}: run", run, _RUN)
    if scale is not None:
        run["scale"] = scale
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
        data=data,
        ends=ends,
        variants=document.get("variants") or {"usual": {}},
        factors=document.get("factors", {}),
        watch=tuple(document.get("watch", ())),
        text=text or json.dumps(document),
        **run,
    )
    if not made.runs():
        raise SetupError(
            "usage", f"{name}: no run follows from it: [[data]] with memory is for ends memory, with spec for others"
        )
    return made


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
