"""Owns the description of a new job: what a caller may say, as the document of the API. Sends nothing."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import List, Mapping, Sequence, Union

from typing_extensions import TypedDict

from .api.schemas import Divide, Merge, NewJob, RateInput, Relay, Selection
from .errors import SetupError

Setting = Union[str, int, bool, Sequence[str]]
Moment = Union[str, datetime]


class Options(TypedDict, total=False):
    """The options of a submission beside sources and destination. Each has the name and the meaning of the API."""

    kind: str
    label: str
    limit: RateInput
    priority: int
    settings: Mapping[str, Setting]
    """Settings of the transfer by their names in docs/settings.md, such as `{"streams": 8, "verify": True}`."""
    selection: Selection
    list: List[str]
    manifest: bool
    retries_max: int
    deadline: Moment
    not_before: Moment
    divide: Divide
    more_destinations: List[str]
    """Further places to copy to, by a job for each."""
    relay: Relay
    """Whether destinations take data from complete ones: "never", "auto" (after a failure), or "first" (from the beginning)."""
    remove_source_after: int
    """Removes files of the source that so many destinations have, as their digests prove, after all have ended."""
    gather: bool
    """Gathers sources of several sites, each below the name of its site in the destination, by a job for each."""
    merge: Merge
    """Where gathered sources go: "by_site", or all into the destination itself by the rule "refuse" or "newest"."""
    idempotency_key: str
    """A name of this submission. Without a key the client makes one, which covers all tries of this call."""


def description(sources: Union[str, Sequence[str]], destination: str, options: Options) -> NewJob:
    """The document of a new job."""
    unknown = set(options) - set(Options.__annotations__)
    if unknown:
        raise SetupError("usage", f"no such option of a job: {', '.join(sorted(unknown))}")
    made = NewJob(sources=[sources] if isinstance(sources, str) else [*sources], destination=destination)
    for name in (
        "kind",
        "label",
        "limit",
        "priority",
        "selection",
        "list",
        "manifest",
        "retries_max",
        "divide",
        "more_destinations",
        "relay",
        "remove_source_after",
        "gather",
        "merge",
    ):
        if name in options:
            made[name] = options[name]
    for name in ("deadline", "not_before"):
        if name in options:
            made[name] = _moment(options[name])  # type: ignore[literal-required]
    if "settings" in options:
        made["settings"] = {name: _values(value) for name, value in options["settings"].items()}
    return made


def _values(value: Setting) -> List[str]:
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, (str, int)):
        return [str(value)]
    return [str(one) for one in value]


def _moment(value: Moment) -> str:
    if isinstance(value, str):
        return value
    if value.tzinfo is None:
        raise SetupError("usage", f"{value} has no time zone: the node may be in another one")
    return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
