#!/usr/bin/env python3
"""Writes the licences of all packages of others that are in the program: a table, then each text once, with the packages that it covers.

usage: licences.py FILE

cargo's metadata and the lock file of the page name the packages. Tests, build scripts and macros are not shipped, so their packages are
left out. A package without a text keeps its row, and the row says so.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ("licen", "copying", "copyright", "notice", "unlicense")
HEAD = """\
Licences of the packages that the program `godwit` contains
===========================================================

Godwit is under the Apache License 2.0 (LICENSE). The program also contains the packages below, and Rust's standard library
(MIT OR Apache-2.0). The static program contains musl, too (MIT).
"""


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    licence: str
    place: Path

    def texts(self) -> list[str]:
        """The texts of the licence in the package, by the names of their files."""
        if not self.place.is_dir():
            return []
        files = [file for file in self.place.iterdir() if is_text(file)]
        return [file.read_text(errors="replace").strip("\n") for file in sorted(files)]


def is_text(file: Path) -> bool:
    name = file.name.lower()
    return file.is_file() and name.startswith(TEXTS) and not name.endswith((".toml", ".json", ".rs", ".js"))


def of_the_program() -> list[Package]:
    """The crates of others that `godwit` links on Linux. Features of all members of the workspace count, so the list may have more."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [ident for ident, package in packages.items() if package["name"] == "godwit"]
    seen = set()
    while waiting:
        ident = waiting.pop()
        macro = any("proc-macro" in target["kind"] for target in packages[ident]["targets"])
        if ident in seen or macro:
            continue
        seen.add(ident)
        # A dependency of tests or of a build script has a kind.
        linked = (one["pkg"] for one in nodes[ident]["deps"] if any(kind["kind"] is None for kind in one["dep_kinds"]))
        waiting.extend(linked)
    return [
        Package(one["name"], one["version"], one["license"] or "see the text", Path(one["manifest_path"]).parent)
        for one in (packages[ident] for ident in seen)
        if one["source"] is not None
    ]


def of_the_page() -> list[Package]:
    """The packages of the page, which is a part of the program."""
    lock = json.loads((ROOT / "ui" / "package-lock.json").read_text())
    return [
        Package(place.rpartition("node_modules/")[2], one["version"], one.get("license", "see the text"), ROOT / "ui" / place)
        for place, one in lock["packages"].items()
        if place and not one.get("dev") and not one.get("optional")
    ]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: licences.py FILE")
    parts = {"Crates": of_the_program(), "Packages of the page": of_the_page()}
    covers: dict[str, list[str]] = defaultdict(list)
    lines = [HEAD]
    for title, packages in parts.items():
        if not packages:
            sys.exit(f"licences: no packages found for: {title}")
        lines += [title, "-" * len(title), ""]
        for one in sorted(packages, key=lambda one: (one.name, one.version)):
            texts = one.texts()
            for text in texts:
                covers[text].append(f"{one.name} {one.version}")
            lines.append(f"{one.name} {one.version}: {one.licence}" + ("" if texts else " (no text here)"))
        lines.append("")
    for text, names in covers.items():
        lines += ["=" * 80, *names, "=" * 80, "", text, ""]
    Path(sys.argv[1]).write_text("\n".join(lines))


if __name__ == "__main__":
    main()
