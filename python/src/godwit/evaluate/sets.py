"""Owns the data sets on disk: makes them by `godwit gen`, measures and removes them. Knows no run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Tuple

from ..errors import SetupError
from .plan import Data, Plan

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


def make(plan: Plan, data: Data) -> Tuple[int, int]:
    """Makes a set unless it is there, and says its files and bytes."""
    target = directory(plan, data)
    wanted = {"spec": data.spec, "scale": plan.scale, "seed": plan.seed}
    mark = target.parent / f"{_MARK}.{data.name}"
    if not (mark.exists() and json.loads(mark.read_text()) == wanted):
        if target.exists():
            raise SetupError("usage", f"{target} is there, and is not the set {data.spec}: remove it, or name another directory")
        target.parent.mkdir(parents=True, exist_ok=True)
        program = os.environ.get("GODWIT", "godwit")
        command = [program, "gen", data.spec, str(target), "--seed", str(plan.seed), "--scale", str(plan.scale)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        except OSError as error:
            raise SetupError("local_failure", f"cannot run {program}: {error.strerror}; name it by GODWIT") from error
        if done.returncode != 0:
            raise SetupError("local_failure", f"{' '.join(command)}: {done.stderr.strip()}")
        mark.write_text(json.dumps(wanted))
    sizes = [path.lstat().st_size for path in target.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


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
            mark = directory(plan, data).parent / f"{_MARK}.{data.name}"
            if mark.exists():
                shutil.rmtree(directory(plan, data), ignore_errors=True)
                mark.unlink()
