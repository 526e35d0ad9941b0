"""Owns what a request and its answer are, and which request is sent again when. Touches no socket and no clock."""

from __future__ import annotations

import json
import random
import ssl
from contextlib import suppress
from typing import Any, Dict, List, Optional, TypeVar, cast

import httpx

from .address import Address
from .api.calling import Call
from .errors import AnswerError, CannotReachError, CertificateError, GodwitError, RefusedError, problem_of
from .version import VERSION

T = TypeVar("T")

# A node syncs its state for a change: on a slow disk that takes seconds.
TIMEOUT = httpx.Timeout(60.0, connect=10.0)

# A new connection for each request: an idle one that the node has closed would break a request that may be sent only once.
LIMITS = httpx.Limits(max_keepalive_connections=0)

# The largest answer: a report with a sample for each second of a day.
ANSWER_BYTES = 64 << 20

# Where events come from.
EVENTS = "/api/v1/events"

_PAUSE_FIRST = 0.25
_PAUSE_MAX = 8.0


def headers(address: Address) -> Dict[str, str]:
    """The headers of all requests. An answer is not compressed, so that its bound counts what comes."""
    made = {"User-Agent": f"godwit-python/{VERSION}", "Accept-Encoding": "identity"}
    if address.token:
        made["Authorization"] = f"Bearer {address.token}"
    return made


class Body:
    """The bytes of an answer, bounded."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._parts: List[bytes] = []
        self._left = ANSWER_BYTES

    def take(self, part: bytes) -> None:
        """Takes the next bytes."""
        self._left -= len(part)
        if self._left < 0:
            raise AnswerError("too_large", f"the answer of {self._node} is longer than {ANSWER_BYTES} bytes")
        self._parts.append(part)

    def bytes(self) -> bytes:
        """All bytes."""
        return b"".join(self._parts)


def result(node: str, call: Call[T], response: httpx.Response, body: bytes) -> T:
    """The answer to a call."""
    if response.status_code == 204:
        return cast(T, None)
    if call.is_text:
        return cast(T, body.decode("utf-8", "replace"))
    try:
        return cast(T, json.loads(body))
    except ValueError as error:
        raise AnswerError("foreign", f"{node} gave an answer that is no JSON: {error}; check its address") from error


def refusal(node: str, response: httpx.Response, body: bytes) -> RefusedError:
    """The refusal in an answer."""
    document: Any = None
    with suppress(ValueError):
        document = json.loads(body)
    problem = problem_of(response.status_code, document, body.decode("utf-8", "replace"))
    after = response.headers.get("retry-after", "")
    return RefusedError(node, problem, float(after) if after.isdigit() else None)


def translated(node: str, error: Exception) -> GodwitError:
    """A failure of the connection in the words of the catalogue."""
    cause: Optional[BaseException] = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return CertificateError(
                "unknown_peer",
                f"no authority of this system vouches for the certificate of {node} ({cause.verify_message}). Compare "
                "the fingerprint that the node prints at its start, then run: godwit node trust URL FINGERPRINT",
            )
        if isinstance(cause, FileNotFoundError):
            return CannotReachError("unreachable", f"no node runs: {node}: there is no such socket", was_sent=False)
        cause = cause.__cause__ or cause.__context__
    unsent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
    code = "peer_silent" if isinstance(error, httpx.TimeoutException) else "unreachable"
    what = "cannot be reached" if unsent else "did not answer"
    return CannotReachError(code, f"{node} {what}: {error or type(error).__name__}", was_sent=not unsent)


def is_passing(error: GodwitError) -> bool:
    """Whether the same request may succeed later."""
    if isinstance(error, CannotReachError):
        return True
    if isinstance(error, RefusedError):
        return error.is_transient and (error.status >= 500 or error.status in (408, 429))
    return False


class Tries:
    """The tries of one call. `is_known` says that the node has answered this client before."""

    def __init__(self, call: Call[Any], *, retry_for: float, is_known: bool) -> None:
        self._call = call
        self._left = retry_for
        self._is_known = is_known
        self._pause = _PAUSE_FIRST
        self._may_be_done = False

    def is_done(self, error: GodwitError) -> bool:
        """Whether an earlier try of a removal has succeeded, although no answer came."""
        is_absent = isinstance(error, RefusedError) and error.status == 404
        return self._call.method == "DELETE" and self._may_be_done and is_absent

    def pause(self, error: GodwitError) -> float:
        """The time until the next try; raises the error if there is none."""
        if not self._may_try_again(error):
            raise error
        self._may_be_done |= not isinstance(error, CannotReachError) or error.was_sent
        asked = error.retry_after if isinstance(error, RefusedError) else None
        # Many clients that failed together do not come back together.
        pause = asked if asked is not None else self._pause * random.uniform(0.5, 1.0)  # noqa: S311
        self._pause = min(self._pause * 2, _PAUSE_MAX)
        if pause > self._left:
            raise error
        self._left -= pause
        return pause

    def _may_try_again(self, error: GodwitError) -> bool:
        if not is_passing(error):
            return False
        if isinstance(error, CannotReachError):
            # A wrong address fails at once; a node that is started again is awaited.
            return self._call.twice if error.was_sent else self._is_known
        return self._call.twice or (isinstance(error, RefusedError) and error.status == 429)
