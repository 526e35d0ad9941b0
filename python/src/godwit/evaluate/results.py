"""Owns the folder of results: a line for each run as it ends, and the tables made from the lines. Measures nothing."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import os
import secrets
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping

import polars as pl

from ..errors import SetupError
from . import way
from .sampler import Sample

_RUNS = "runs.jsonl"
_SAMPLES = "samples.jsonl"
_ABOUT = "about.json"
_MARK = "mark"

_SAMPLE_COLUMNS = {"key": pl.String, "site": pl.String, "at": pl.Float64, "figure": pl.String, "value": pl.Float64}

# All results of a folder have these in common.
_SAME = ("plan", "scale", "source", "destination")


class Results:
    """A folder of results."""

    def __init__(self, directory: Path, *, must_be_new: bool = False) -> None:
        self.directory = directory
        self._must_be_new = must_be_new

    def begin(self, about: Dict[str, Any]) -> bool:
        """Makes the folder, or takes up one of the same plan. Says whether it is new."""
        way.check_folder(self.directory)
        try:
            self.directory.mkdir(parents=True, exist_ok=not self._must_be_new)
        except FileExistsError:
            raise SetupError("usage", f"{self.directory} is there already: name a folder with --out") from None
        # In a directory of all users, such as /tmp, another one may have made it meanwhile.
        way.check_folder(self.directory)
        path = self.directory / _ABOUT
        if path.exists():
            before = self.about()
            if any(before[name] != about[name] for name in _SAME):
                raise SetupError("usage", f"{self.directory} holds results of another plan: name another folder with --out")
            return False
        path.write_text(json.dumps(about, indent=1, sort_keys=True), encoding="utf-8")
        return True

    def forget(self) -> None:
        """Removes a folder that holds no run yet."""
        (self.directory / _ABOUT).unlink()
        # The user may have put something there.
        with contextlib.suppress(OSError):
            self.directory.rmdir()

    def about(self) -> Dict[str, Any]:
        """The plan and the machines."""
        try:
            made: Dict[str, Any] = json.loads((self.directory / _ABOUT).read_text(encoding="utf-8"))
        except OSError as error:
            raise SetupError("usage", f"{self.directory} holds no results: {error.strerror}") from error
        return made

    def keep(self, name: str, find: Callable[[], Any]) -> Any:
        """A value that is found at the first start and never changes, such as the bytes of timed runs."""
        about = self.about()
        if name not in about:
            about[name] = find()
            (self.directory / _ABOUT).write_text(json.dumps(about, indent=1, sort_keys=True), encoding="utf-8")
        return about[name]

    def put_machines(self, machines: Mapping[str, Any]) -> None:
        """Keeps the descriptions of other machines, beside those of earlier calls."""
        if machines:
            way.check_folder(self.directory)
            about = self.about()
            about["machines"] = {**about.get("machines", {}), **machines}
            (self.directory / _ABOUT).write_text(json.dumps(about, indent=1, sort_keys=True), encoding="utf-8")

    def add(self, run: Dict[str, Any], samples: Iterable[Sample]) -> None:
        """Adds a run. The samples are written first, so that a recorded run has all its samples.

        A kill between the two leaves samples without a run, which is then measured again. A mark connects a run with its samples.
        """
        mark = secrets.token_hex(6)
        self._append(_SAMPLES, ({"key": run["key"], _MARK: mark, **sample._asdict()} for sample in samples))
        self._append(_RUNS, [{**run, _MARK: mark}])

    def each_run(self) -> Iterator[Dict[str, Any]]:
        """The lines of runs, one at a time. A run that was measured again has two. A line that a kill cut off does not count."""
        return self._lines(_RUNS)

    def runs(self) -> List[Dict[str, Any]]:
        """The runs, each by its last line."""
        return list({run["key"]: run for run in self.each_run()}.values())

    def samples(self) -> Iterator[Dict[str, Any]]:
        """The samples of all runs, one at a time: those of a week need more memory than a machine has."""
        marks = {run["key"]: run.get(_MARK) for run in self.each_run()}
        for sample in self._lines(_SAMPLES):
            if sample["key"] in marks and marks[sample["key"]] == sample.get(_MARK):
                yield sample

    def tables(self) -> None:
        """Writes runs and samples as Parquet and CSV, a part at a time."""
        last = {run["key"]: number for number, run in enumerate(self.each_run())}
        runs = (run for number, run in enumerate(self.each_run()) if last[run["key"]] == number)
        columns: Dict[str, Any] = {}
        for run in self.each_run():
            columns.update({name: _type(value, columns.get(name)) for name, value in run.items() if value is not None})
        self._table("runs", columns, runs)
        self._table("samples", _SAMPLE_COLUMNS, self.samples())

    def _table(self, name: str, columns: Dict[str, Any], rows: Iterator[Dict[str, Any]]) -> None:
        first = next(rows, None)
        if first is None:
            return
        path = self.directory / f"{name}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [*columns], extrasaction="ignore")
            writer.writeheader()
            for row in itertools.chain([first], rows):
                writer.writerow(_flat(row))
        pl.scan_csv(path, schema=columns).sink_parquet(path.with_suffix(".parquet"))

    def _lines(self, name: str) -> Iterator[Dict[str, Any]]:
        path = self.directory / name
        if not path.exists():
            return
        with path.open(encoding="utf-8") as file:
            for line in file:
                try:
                    yield json.loads(line)
                except ValueError:
                    continue

    def _append(self, name: str, rows: Iterable[Dict[str, Any]]) -> None:
        path = self.directory / name
        cut_off = _is_cut_off(path)
        with path.open("a", encoding="utf-8") as file:
            file.write("\n" if cut_off else "")
            for row in rows:
                file.write(json.dumps(row, sort_keys=True) + "\n")
            file.flush()
            os.fsync(file.fileno())


def _is_cut_off(path: Path) -> bool:
    """Whether the last line has no end."""
    if not path.exists() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def _type(value: Any, known: Any) -> Any:
    """The type of a column that held `known` before it held this value."""
    if isinstance(value, bool):
        found: Any = pl.Boolean
    elif isinstance(value, int):
        found = pl.Int64
    elif isinstance(value, float):
        found = pl.Float64
    else:
        return pl.String
    if known in (None, found):
        return found
    return pl.Float64 if {known, found} == {pl.Int64, pl.Float64} else pl.String


def _flat(row: Dict[str, Any]) -> Dict[str, Any]:
    """Nested values as texts, for a CSV has none, and truths as polars reads them."""
    made = {}
    for name, value in row.items():
        if isinstance(value, bool):
            made[name] = str(value).lower()
        else:
            made[name] = json.dumps(value) if isinstance(value, (dict, list)) else value
    return made
