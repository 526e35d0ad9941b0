"""Owns the part of the report that describes the machines of both ends, and says what is not known of them, and why."""

from __future__ import annotations

import json
from typing import Any, List, Mapping

from ..progress import size
from . import markup

# Facts that only a program on the machine can read; no API gives them.
_ON_IT_ALONE = "kernel, processor model, governor, interrupt affinity, mounts and sysctls"


def machines(about: Mapping[str, Any]) -> str:
    """The nodes as their APIs describe them, this machine, and those that described themselves."""
    named = {"asked": about["node"], **about.get("watched", {})}
    rows = [_row(name, node) for name, described in named.items() for node in described["cluster"]["nodes"]]
    table = markup.rows(["node", "program", "cores", "memory", "interfaces", "free at exports"], rows)
    here, others = about["machine"], about.get("machines", {})
    said = [*_facts("This machine", here), *(fact for name, other in others.items() for fact in _facts(name, other))]
    said += [
        f"Of {'further' if others else 'other'} machines, {_ON_IT_ALONE} are missing, because no API gives them.",
        "To add them, run godwit-evaluate machine there, and godwit-evaluate report FOLDER --machine NAME=FILE here.",
        "A site that [[watch]] does not name is missing, because only a client of its node may ask for its description.",
    ]
    if about.get("path") is not None:
        said.append(f"Both sites ran on this machine, joined by an emulated path: {json.dumps(about['path'])}.")
        said.append("Interfaces and sysctls of the network are those of the namespaces of both sites.")
    parts = {"machine": here, "node": about["node"], "watched": about.get("watched", {}), "machines": others}
    if "far_machine" in about:
        parts["far_machine"] = about["far_machine"]
    whole = json.dumps(parts, indent=1)
    folded = f"<details><summary>All of it</summary><pre>{markup.text(whole)}</pre></details>"
    return markup.section("Machines of both ends", table + markup.listed(said) + folded)


def _facts(name: str, machine: Mapping[str, Any]) -> List[str]:
    facts = [(key, machine.get(key)) for key in ("kernel", "processor", "cores", "governor")]
    affinity = [f"{one['name']} to {one['cores']}" for one in machine.get("interrupts") or ()]
    return [
        f"{name}: " + ", ".join(f"{key} {value or 'unknown'}" for key, value in facts) + ".",
        f"Interrupts of its interfaces, as they are: {'; '.join(affinity) or 'none is that of a device'}.",
    ]


def _row(name: str, node: Mapping[str, Any]) -> List[str]:
    has: Mapping[str, Any] = node.get("resources") or {}
    interfaces = [
        one["name"] + (f" {one['bits_per_second'] / 1e9:g} Gbit/s" if one.get("bits_per_second") else "")
        for one in has.get("interfaces") or ()
    ]
    free = [f"{one['export']} {size(one['free_bytes'])}" for one in has.get("room") or () if one.get("free_bytes") is not None]
    memory = size(has["memory_bytes"]) if has.get("memory_bytes") else "-"
    known = [str(has.get("cores", "-")), memory, ", ".join(interfaces) or "-", ", ".join(free) or "-"]
    return [f"{name}: {node.get('name', '')}", str(node.get("version", "-")), *known]
