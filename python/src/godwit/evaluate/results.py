"""Owns the folder of results: a line for each run as it ends, and the tables made from the lines. Measures nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List

import polars as pl

from ..errors import SetupError
from .sampler import Sample

_RUNS = "runs.jsonl"
_SAMPLES = "samples.jsonl"
_ABOUT = "about.json"

# All results of a folder have these in common.
_SAME = ("plan", "scale", "source", "destination")


class Results:
    """A folder of results."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def begin(self, about: Dict[str, Any]) -> None:
        """Makes the folder, or takes up one of the same plan."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / _ABOUT
        if path.exists():
            before = self.about()
            if any(before[name] != about[name] for name in _SAME):
                raise SetupError("usage", f"{self.directory} holds results of another plan: name another folder with --out")
            return
        path.write_text(json.dumps(about, indent=1, sort_keys=True), encoding="utf-8")

    def about(self) -> Dict[str, Any]:
        """The plan and the machines."""
        try:
            made: Dict[str, Any] = json.loads((self.directory / _ABOUT).read_text(encoding="utf-8"))
        except OSError as error:
            raise SetupError("usage", f"{self.directory} holds no results: {error.strerror}") from error
        return made

    def sizes(self, find: Callable[[], Dict[str, int]]) -> Dict[str, int]:
        """The bytes of timed runs: found at the first start, and the same ever after."""
        about = self.about()
        if "sizes" not in about:
            about["sizes"] = find()
            (self.directory / _ABOUT).write_text(json.dumps(about, indent=1, sort_keys=True), encoding="utf-8")
        return {str(ends): int(size) for ends, size in about["sizes"].items()}

    def add(self, run: Dict[str, Any], samples: Iterable[Sample]) -> None:
        """Adds a run. The samples come first, so that a run that is there has all of them."""
        rows = [{"key": run["key"], **sample._asdict()} for sample in samples]
        self._append(_SAMPLES, rows)
        self._append(_RUNS, [run])

    def runs(self) -> List[Dict[str, Any]]:
        """The runs, each by its last line. A line that a kill cut off does not count."""
        return list({run["key"]: run for run in self._lines(_RUNS)}.values())

    def samples(self) -> List[Dict[str, Any]]:
        """The samples of all runs."""
        return self._lines(_SAMPLES)

    def tables(self) -> None:
        """Writes runs and samples as Parquet and CSV."""
        for name, rows in (("runs", self.runs()), ("samples", self.samples())):
            if rows:
                table = pl.DataFrame([_flat(row) for row in rows], infer_schema_length=None)
                table.write_parquet(self.directory / f"{name}.parquet")
                table.write_csv(self.directory / f"{name}.csv")

    def _lines(self, name: str) -> List[Dict[str, Any]]:
        path = self.directory / name
        if not path.exists():
            return []
        found = []
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def _append(self, name: str, rows: List[Dict[str, Any]]) -> None:
        path = self.directory / name
        cut_off = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
        with path.open("a", encoding="utf-8") as file:
            file.write("\n" if cut_off else "")
            file.writelines(json.dumps(row, sort_keys=True) + "\n" for row in rows)
            file.flush()
            os.fsync(file.fileno())


def _flat(row: Dict[str, Any]) -> Dict[str, Any]:
    """Nested values as texts: a CSV has none."""
    return {name: json.dumps(value) if isinstance(value, (dict, list)) else value for name, value in row.items()}
