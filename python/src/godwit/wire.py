"""Owns the connections of the client whose calls block. `exchange` and `events` decide on requests and retries."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import Any, Iterator, Optional, TypeVar

import httpx

from . import exchange, peer, trust
from .address import Address
from .api.calling import Call
from .errors import GodwitError
from .events import Event, Follower, Window

T = TypeVar("T")


class Wire:
    """Connections to one node."""

    def __init__(self, address: Address, *, fingerprint: Optional[str], retry_for: float) -> None:
        self._node = str(address)
        self._socket = address.socket
        self._retry_for = retry_for
        self._is_known = False
        verify: Any = True if address.socket else trust.context(address.host_port, fingerprint)
        uds = str(address.socket) if address.socket else None
        self._http = httpx.Client(
            base_url=address.url,
            headers=exchange.headers(address),
            timeout=exchange.TIMEOUT,
            transport=httpx.HTTPTransport(uds=uds, verify=verify, limits=exchange.LIMITS),
            trust_env=False,
        )

    def send(self, call: Call[T]) -> T:
        """Sends a call, again if that does no harm."""
        tries = exchange.Tries(call, retry_for=self._retry_for, is_known=self._is_known)
        while True:
            try:
                return self._once(call)
            except GodwitError as error:
                if tries.is_done(error):
                    return None  # type: ignore[return-value]
                time.sleep(tries.pause(error))

    def events(self, job: Optional[str], until: Optional[float]) -> Iterator[Event]:
        """Events until this time of the monotonic clock. A broken stream resumes where it broke."""
        follower, window = Follower(self._node, job), Window(until)
        while window.left > 0:
            error: Optional[GodwitError] = None
            try:
                with self._open("GET", exchange.EVENTS, follower.headers, follower.query, window.timeout()) as response:
                    yield from follower.opened()
                    for part in response.iter_raw():
                        yield from follower.read(part)
                        if window.must_reopen():
                            break
            except GodwitError as failure:
                error = failure
            pause = follower.broke(error, time.monotonic())
            time.sleep(max(0.0, min(pause, window.left)))

    def pieces(self, call: Call[str]) -> Iterator[bytes]:
        """A long answer, piece by piece."""
        with self._open(call.method, call.path, call.headers, call.parameters()) as response:
            yield from response.iter_raw()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def _once(self, call: Call[T]) -> T:
        body = exchange.Body(self._node)
        with self._open(call.method, call.path, call.headers, call.parameters(), body=call.body) as response:
            for part in response.iter_raw():
                body.take(part)
            return exchange.result(self._node, call, response, body.bytes())

    @contextmanager
    def _open(
        self,
        method: str,
        path: str,
        headers: Any,
        query: Any,
        timeout: httpx.Timeout = exchange.TIMEOUT,
        body: Any = None,
    ) -> Iterator[httpx.Response]:
        """An answer that is no refusal."""
        extensions = peer.checked(self._socket)
        try:
            with self._http.stream(
                method, path, params=query, headers=headers, json=body, timeout=timeout, extensions=extensions
            ) as response:
                self._is_known = True
                if not response.is_success:
                    refused = exchange.Body(self._node)
                    for part in response.iter_raw():
                        refused.take(part)
                    raise exchange.refusal(self._node, response, refused.bytes())
                yield response
        except httpx.TransportError as error:
            raise exchange.translated(self._node, error) from error
