#!/usr/bin/env python3
"""Owns the generated modules of the client: `godwit/api/` from docs/openapi.json and docs/failures.md.

usage: generate.py [--check]; with --check, it only says which files are not as they would be made
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from operations import BY_HAND, LEFT_OUT, NAMES
from render import group_module, schemas_module

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
API = HERE.parent / "src" / "godwit" / "api"
METHODS = ("get", "put", "post", "patch", "delete")
ROW = re.compile(r"^\| `(\w+)` \| (\d) \| `(\w+)` \| (\w+) \| (.*) \| (.*) \|$")


def operations(document: dict) -> dict[str, list[tuple[str, str, dict]]]:
    """The operations by group: path, HTTP method and description of each."""
    groups: dict[str, list[tuple[str, str, dict]]] = {}
    for path, item in document["paths"].items():
        for method in METHODS:
            if method not in item:
                continue
            operation = item[method]
            known = operation["operationId"]
            if known in NAMES:
                groups.setdefault(NAMES[known].split(".")[0], []).append((path, method, operation))
            elif known not in BY_HAND and known not in LEFT_OUT:
                sys.exit(f"generate.py: {known} ({method.upper()} {path}) has no name: give it one in operations.py")
    return groups


def catalogue(text: str) -> str:
    """The module of failure codes, from the tables of docs/failures.md."""
    rows = [match.groups() for match in map(ROW.match, text.splitlines()) if match]
    if not rows:
        sys.exit("generate.py: docs/failures.md has no row that could be read")
    lines = [
        '"""Owns the catalogue of failure codes. Generated from docs/failures.md by tools/generate.py."""',
        "from __future__ import annotations",
        "from typing import Dict, NamedTuple",
        "class Entry(NamedTuple):",
        '    """One code: the exit status of commands, whose fault it is, whether a retry may help, and words for people."""',
        "    exit: int",
        "    fault: str",
        "    transient: bool",
        "    meaning: str",
        "    advice: str",
        "# fmt: off",
        "CATALOGUE: Dict[str, Entry] = {",
    ]
    for code, status, fault, retry, meaning, advice in rows:
        words = ", ".join(json.dumps(word) for word in (meaning, advice))
        lines.append(f'    "{code}": Entry({status}, "{fault}", {retry == "transient"}, {words}),')
    lines.append("}")
    return "\n".join(lines) + "\n"


def index(groups: dict[str, list[tuple[str, str, dict]]]) -> str:
    """The module that joins the groups."""
    lines = [
        '"""Owns the operations of the API as typed methods. Generated from docs/openapi.json by tools/generate.py."""',
        "from __future__ import annotations",
        "from . import " + ", ".join(sorted(groups)),
        "from .calling import AsyncSender, Sender",
    ]
    for prefix, sender in (("", "Sender"), ("Async", "AsyncSender")):
        lines.append(f"class {prefix}Groups:")
        lines.append('    """The groups of operations of a client."""')
        lines.append(f"    def __init__(self, sender: {sender}) -> None:")
        lines.extend(f"        self.{name} = {name}.{prefix}{name.title()}(sender)" for name in sorted(groups))
    return "\n".join(lines) + "\n"


def formatted(text: str) -> str:
    ruff = Path(sys.executable).with_name("ruff")
    command = [str(ruff), "format", "--config", str(HERE.parent / "pyproject.toml"), "-"]
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


def modules() -> dict[str, str]:
    """The text of each generated module, by the name of its file."""
    document = json.loads((ROOT / "docs" / "openapi.json").read_text())
    groups = operations(document)
    made = {
        "schemas.py": schemas_module(document["components"]["schemas"]),
        "codes.py": catalogue((ROOT / "docs" / "failures.md").read_text()),
        "__init__.py": index(groups),
    }
    for name, members in groups.items():
        made[f"{name}.py"] = group_module(name, members)
    return {name: formatted(text) for name, text in made.items()}


def stale() -> list[str]:
    """The names of the files that are not as they would be made."""
    made = modules()
    hand_written = {"calling.py"}
    there = {path.name for path in API.glob("*.py")} - hand_written
    wrong = [name for name, text in made.items() if name not in there or (API / name).read_text() != text]
    return sorted(set(wrong) | (there - set(made)))


def main() -> None:
    if sys.argv[1:] == ["--check"]:
        wrong = stale()
        if wrong:
            sys.exit(f"generate.py: not as they would be made: {', '.join(wrong)}; run python/tools/generate.py")
        return
    for name, text in modules().items():
        (API / name).write_text(text)


if __name__ == "__main__":
    main()
