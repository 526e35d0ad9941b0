"""Owns one request to a node as data, and what its two senders share. Sends nothing."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any, Dict, Generic, Mapping, Protocol, TypeVar

T = TypeVar("T")

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_~")


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request whose answer is a `T`.

    `twice` says that sending it again does no harm. `is_text` says that the answer is a text and no document.
    """

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    twice: bool = False
    is_text: bool = False

    def parameters(self) -> Dict[str, str]:
        """The query as texts, without what was not given."""
        return {name: _text(value) for name, value in self.query.items() if value is not None}


class Sender(Protocol):
    """Sends a call and waits for its answer."""

    def send(self, call: Call[T]) -> T:
        """Sends a call."""
        ...


class AsyncSender(Protocol):
    """Sends a call; its answer is awaited."""

    async def send(self, call: Call[T]) -> T:
        """Sends a call."""
        ...


class Group:
    """A group of operations."""

    def __init__(self, sender: Sender) -> None:
        self._send = sender.send


class AsyncGroup:
    """A group of operations whose answers are awaited."""

    def __init__(self, sender: AsyncSender) -> None:
        self._send = sender.send


def escaped(text: str) -> str:
    """A text as one part of a path. No text can leave its part."""
    plain = _PLAIN if text in (".", "..") else _PLAIN | {ord(".")}
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in text.encode())


def new_key() -> str:
    """A new idempotency key."""
    return secrets.token_hex(16)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(_text(one) for one in value)
    return str(value)
