"""Owns the sentences that say what a job does, why it waits, and what limits it. Asks no node."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from .api.schemas import JobReport, JobView
from .progress import sentence, size

# Events of the log that say why a job was slow or stopped.
_TROUBLES = ("connection_lost", "error", "note", "tuning")
_TROUBLES_SHOWN = 5


def outline(view: JobView) -> Dict[str, Any]:
    """The facts of a job that a reader needs first."""
    reason = view.get("reason")
    made: Dict[str, Any] = {
        "id": view["id"],
        "label": view["label"],
        "state": view["state"],
        "owner": view["owner"],
        "sources": view["sources"],
        "destination": view["destination"],
        "said": sentence(view),
    }
    if reason:
        made["reason"] = f"{reason['text']} [{reason['code']}]"
    if view.get("next_attempt"):
        made["next_attempt"] = view["next_attempt"]
    return made


def why(report: JobReport) -> List[str]:
    """Why the job is not faster, or why it does not move, sentence by sentence."""
    job = report["job"]
    said = [sentence(job) + "."]
    reason = job.get("reason")
    if reason:
        said.append(f"Its state has a reason: {reason['text']} [{reason['code']}].")
    progress = job.get("progress")
    summary: Mapping[str, Any] = job.get("summary") or {}
    advice = (progress.get("bottleneck_text") if progress else None) or _advice(summary)
    if advice:
        said.append(str(advice))
    shares = sorted(report["bottlenecks"].items(), key=lambda one: -one[1])
    if shares:
        named = ", ".join(f"{stage} {share:.0%}" for stage, share in shares)
        said.append(f"Share of the samples that each stage limited: {named}.")
    rates = sorted(sample["bytes_per_second"] for sample in report["samples"])
    if rates:
        median = rates[len(rates) // 2]
        said.append(f"Rates: lowest {size(rates[0])}/s, median {size(median)}/s, highest {size(rates[-1])}/s.")
    again = report.get("bytes_again", 0)
    if again:
        said.append(f"{size(again)} were sent more than once.")
    said.extend(_troubles(report))
    for group in report["failures"]:
        said.append(f"{group['count']} entries failed: {group['reason']['text']} [{group['reason']['code']}].")
    for missing in report.get("missing", []):
        said.append(f"The part of node {missing['node']} is missing: {missing['why']}")
    return said


def _advice(summary: Mapping[str, Any]) -> str:
    finding = summary.get("bottleneck_evidence")
    if not isinstance(finding, dict):
        return ""
    return " ".join(str(finding[name]) for name in ("figure", "advice") if finding.get(name))


def _troubles(report: JobReport) -> List[str]:
    found = []
    for line in report["time_line"]:
        event = line["event"]
        if event.get("event") in _TROUBLES:
            said = event.get("message") or event.get("why") or event.get("reason") or ""
            found.append(f"{line['at']} {event['event']}: {said}")
    return found[-_TROUBLES_SHOWN:]
