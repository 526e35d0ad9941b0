"""Owns the check of the user that answers at a socket, by the rule of the command `godwit`. Opens no connection."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from typing import Any, Awaitable, Callable, Dict, Mapping, Optional

from .errors import SetupError

_ROOT = 0

# The event of a request whose connection is there.
_CONNECTED = "connection.connect_unix_socket.complete"

# Process, user and group: `struct ucred` of Linux.
_CREDENTIALS = struct.Struct("iII")


def checked(path: Optional[Path]) -> Dict[str, Callable[[str, Mapping[str, Any]], None]]:
    """The extensions of a request whose call blocks; a socket is checked before the request leaves."""
    if path is None:
        return {}
    answerer = _Answerer(path)

    def trace(event: str, details: Mapping[str, Any]) -> None:
        try:
            answerer.observe(event, details)
        except SetupError:
            stream = details.get("return_value")
            if stream is not None:
                stream.close()
            raise

    return {"trace": trace}


def checked_awaited(path: Optional[Path]) -> Dict[str, Callable[[str, Mapping[str, Any]], Awaitable[None]]]:
    """The extensions of a request whose call is awaited."""
    if path is None:
        return {}
    answerer = _Answerer(path)

    async def trace(event: str, details: Mapping[str, Any]) -> None:
        try:
            answerer.observe(event, details)
        except SetupError:
            stream = details.get("return_value")
            if stream is not None:
                await stream.aclose()
            raise

    return {"trace": trace}


def other_user(path: Path, by: int, own: int) -> Optional[str]:
    """Why the user `by` may not answer at a socket. Root, the calling user `own`, and the owner of its directory may."""
    # Any other user may have made a socket of this name while the node was down.
    try:
        owner: Optional[int] = path.parent.stat().st_uid
    except OSError:
        owner = None
    if by in (_ROOT, own, owner):
        return None
    return (
        f"a program of another user (uid {by}) answers there, who owns neither the directory nor this program; "
        "have the node serve a socket in a directory of its user: godwit serve --socket"
    )


class _Answerer:
    """One request, and the connection that it makes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_known = False

    def observe(self, event: str, details: Mapping[str, Any]) -> None:
        if event == _CONNECTED:
            self._check(details["return_value"].get_extra_info("socket"))
            self._is_known = True
        elif not self._is_known and not event.startswith("connection."):
            # The library has other events than those known here: the request must not leave unchecked.
            raise SetupError("local_failure", f"the node at {self._path}: this httpx does not show who answers there")

    def _check(self, connected: Any) -> None:
        try:
            credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError as error:
            raise SetupError("local_failure", f"the node at {self._path}: {error.strerror}") from error
        why = other_user(self._path, _CREDENTIALS.unpack(credentials)[1], os.geteuid())
        if why:
            raise SetupError("local_failure", f"the node at {self._path}: {why}")
