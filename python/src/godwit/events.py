"""Owns the stream of events: bytes in, events out, and where a broken stream resumes. Touches no socket."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Dict, List, Optional, Union

import httpx

from .api.schemas import JobView, ProgressView
from .errors import AnswerError, GodwitError
from .exchange import is_passing

# The node sends something in this time. A stream that is silent for long is dead.
PING = 10.0
SILENCE = 45.0

# How long new connections are tried: a machine restarts in that time.
RETRY_FOR = 300.0

_EVENT_BYTES = 4 << 20
_PAUSE_FIRST = 0.25
_PAUSE_MAX = 8.0


@dataclass(frozen=True)
class JobChanged:
    """A job changed, or is as it is at the beginning of the stream."""

    job: JobView


@dataclass(frozen=True)
class Progressed:
    """A running job moved on."""

    job: str
    progress: ProgressView


@dataclass(frozen=True)
class Missed:
    """Events were missed: look at the jobs themselves."""


Event = Union[JobChanged, Progressed, Missed]


class Window:
    """The time in which a stream is read, by the monotonic clock. The last connection in it is silent for as long as it lasts."""

    def __init__(self, until: Optional[float]) -> None:
        self._until = until
        self._is_last = False

    @property
    def left(self) -> float:
        """Seconds left."""
        return float("inf") if self._until is None else self._until - time.monotonic()

    def timeout(self) -> httpx.Timeout:
        """The timeout of a new connection."""
        self._is_last = self.left <= PING
        return httpx.Timeout(SILENCE, connect=10.0, read=max(0.01, min(SILENCE, self.left)))

    def must_reopen(self) -> bool:
        """Whether the connection would be silent for longer than the window is open."""
        return self.left <= (0 if self._is_last else PING)


class Follower:
    """One stream over all its connections."""

    def __init__(self, node: str, job: Optional[str]) -> None:
        self._node = node
        self._job = job
        self._last: Optional[str] = None
        self._pause = _PAUSE_FIRST
        self._lost: Optional[float] = None
        self._is_again = False
        self._parser = Parser()

    @property
    def query(self) -> Dict[str, str]:
        """The query of the next connection."""
        return {"topic": "job", **({"job": self._job} if self._job else {})}

    @property
    def headers(self) -> Dict[str, str]:
        """The headers of the next connection."""
        return {"Accept": "text/event-stream", **({"Last-Event-ID": self._last} if self._last else {})}

    def opened(self) -> List[Event]:
        """A connection stands."""
        self._parser = Parser()
        has_gap = self._is_again and self._last is None and self._job is None
        self._is_again, self._lost = True, None
        return [Missed()] if has_gap else []

    def read(self, part: bytes) -> List[Event]:
        """The events that these bytes complete."""
        try:
            raw = self._parser.read(part)
        except ValueError as error:
            raise AnswerError("foreign", f"the events of {self._node} cannot be read: {error}") from error
        found = []
        for one in raw:
            self._pause = _PAUSE_FIRST
            event = self._event(one)
            # Only after the event is read: what was not read comes again.
            self._last = one.id or self._last
            found += [event] if event else []
        return found

    def broke(self, error: Optional[GodwitError], now: float) -> float:
        """The pause until the next connection; raises the error if there is none. Without an error the node ended the stream."""
        if error is not None:
            self._lost = now if self._lost is None else self._lost
            # The first connection shows whether the address is right.
            if not self._is_again or not is_passing(error) or now - self._lost > RETRY_FOR:
                raise error
        pause, self._pause = self._pause, min(self._pause * 2, _PAUSE_MAX)
        return pause

    def _event(self, raw: RawEvent) -> Optional[Event]:
        try:
            if raw.name == "job":
                return JobChanged(json.loads(raw.data))
            if raw.name == "progress":
                data = json.loads(raw.data)
                return Progressed(data["id"], data["progress"]) if data.get("progress") else None
        except (ValueError, KeyError) as error:
            raise AnswerError("foreign", f"an event of {self._node} cannot be read: {error}") from error
        # Other events come from a newer node.
        return Missed() if raw.name == "gone" else None


@dataclass(frozen=True)
class RawEvent:
    """One event before its meaning."""

    name: str
    data: str
    id: Optional[str]


class Parser:
    """Takes a stream of server-sent events apart. Lines end with LF or CRLF."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: Optional[str] = None
        self._id: Optional[str] = None

    def read(self, part: bytes) -> List[RawEvent]:
        """The events that are whole now."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        found = []
        for raw in lines:
            line = raw[:-1].decode("utf-8") if raw.endswith(b"\r") else raw.decode("utf-8")
            event = self._line(line)
            found += [event] if event else []
        if len(self._rest) + len(self._data or "") + len(self._name) > _EVENT_BYTES:
            raise ValueError(f"an event is longer than {_EVENT_BYTES} bytes")
        return found

    def _line(self, line: str) -> Optional[RawEvent]:
        if not line:
            name, data = self._name or "message", self._data
            self._name, self._data = "", None
            return None if data is None else RawEvent(name, data, self._id)
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if field == "event":
            self._name = value
        elif field == "data":
            self._data = value if self._data is None else f"{self._data}\n{value}"
        elif field == "id" and "\0" not in value:
            self._id = value
        return None
