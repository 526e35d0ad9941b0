"""Owns the data sets on disk: makes them by `godwit gen`, measures and removes them. Knows no run."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Callable, Tuple

from ..client import Client
from ..errors import GodwitError, SetupError
from . import way
from .plan import Data, Plan

Say = Callable[[str], None]

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("kMGTP", 1):
    _UNITS[f"{_letter}B"] = _UNITS[f"{_letter.upper()}B"] = 1000**_power
    _UNITS[f"{_letter.upper()}iB"] = 1024**_power

_MARK = ".godwit-evaluate.json"


def parse_size(text: str) -> int:
    """Reads `64GiB`, `300MB` or a number of bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMGTP]?i?B?)", text)
    if not match or match[2] not in _UNITS:
        raise SetupError("usage", f"{text!r} is no size: write for example 64GiB")
    return int(float(match[1]) * _UNITS[match[2]])


def directory(plan: Plan, data: Data) -> Path:
    """Where a set is on this machine."""
    return Path(plan.source_directory or ".") / data.name


def make(plan: Plan, data: Data, scale: float) -> Tuple[int, int]:
    """Makes a set unless it is there, and says its files and bytes."""
    target = directory(plan, data)
    wanted = {"spec": data.spec, "scale": scale, "seed": plan.seed}
    mark = target.parent / f"{_MARK}.{data.name}"
    way.check(target)
    way.check(mark)
    if not (mark.exists() and json.loads(mark.read_text()) == wanted):
        if target.exists():
            raise SetupError("usage", f"{target} is there, and is not the set {data.spec}: remove it, or name another directory")
        target.parent.mkdir(parents=True, exist_ok=True)
        # In a directory of all users, such as /tmp, another one may have made it meanwhile.
        way.check(target)
        _generate(data.spec, plan.seed, scale, str(target))
        way.write(mark, json.dumps(wanted))
    sizes = [path.lstat().st_size for path in target.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


@functools.lru_cache
def foretell(spec: str, seed: int, scale: float) -> int:
    """The bytes of a set before it is made."""
    return int(json.loads(_generate(spec, seed, scale, "--dry-run", "--json"))["bytes"])


def _generate(spec: str, seed: int, scale: float, *more: str) -> str:
    program = os.environ.get("GODWIT", "godwit")
    command = [program, "gen", "--seed", str(seed), "--scale", f"{scale:.12f}", spec, *more]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:
        raise SetupError("local_failure", f"cannot run {program}: {error.strerror}; name it by GODWIT") from error
    if done.returncode != 0:
        raise SetupError("local_failure", f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def drop_from_cache(plan: Plan, name: str) -> None:
    """Drops a set from the cache of this machine, so that the next run reads the storage. In memory, nothing drops."""
    for path in (Path(plan.source_directory or ".") / name).rglob("*"):
        if path.is_file() and not path.is_symlink():
            file = os.open(path, os.O_RDONLY)
            try:
                # Only what is written may be dropped.
                os.fsync(file)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)


def remove(plan: Plan) -> None:
    """Removes the sets that this plan has made."""
    for data in plan.data:
        if data.spec:
            remove_one(plan, data)


def remove_one(plan: Plan, data: Data) -> None:
    """Removes a set if a plan has made it."""
    mark = directory(plan, data).parent / f"{_MARK}.{data.name}"
    if mark.exists():
        way.check(mark)
        way.check(directory(plan, data))
        shutil.rmtree(directory(plan, data), ignore_errors=True)
        mark.unlink()


def distribute(client: Client, plan: Plan, say: Say) -> None:
    """Brings the sets from the site of this machine to the others of a matrix, so that each can send them."""
    first, *others = plan.sites
    for data in plan.data:
        for site in others if data.spec else ():
            say(f"data set {data.name}: to {site}")
            client.places.mkdir({"place": site, "parents": True})
            client.submit(f"{first}/{data.name}", f"{site}/{data.name}", label="evaluate: sets").wait(plan.timeout)


def take_back(client: Client, plan: Plan, say: Say) -> None:
    """Removes the sets from the other sites of a matrix."""
    for site in plan.sites[1:]:
        for data in plan.data:
            if data.spec:
                try:
                    client.places.remove({"place": f"{site}/{data.name}", "recursive": True})
                except GodwitError as error:
                    if error.code != "not_found":
                        say(f"{site}/{data.name} stays: {error}")
