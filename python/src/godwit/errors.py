"""Owns the exceptions of the client, each with a code of the catalogue of failures. Decides no retry."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from .api.codes import CATALOGUE, Entry
from .api.schemas import JobView, Problem
from .shown import printable, printable_lines

# A code of a newer node counts like this one: the other side failed for a reason without a code here.
_UNKNOWN = CATALOGUE["peer_failed"]


class GodwitError(Exception):
    """A failure. `code` is a word of the catalogue that never changes."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def entry(self) -> Entry:
        """The entry of the code in the catalogue."""
        return CATALOGUE.get(self.code, _UNKNOWN)

    @property
    def fault(self) -> str:
        """The side whose fault it is."""
        return self.entry.fault

    @property
    def advice(self) -> str:
        """The next step of a user."""
        return self.entry.advice

    @property
    def is_transient(self) -> bool:
        """Whether the same may succeed later without any change."""
        return self.entry.transient

    def __str__(self) -> str:
        # A node, or another user, may have chosen the words.
        return f"{printable_lines(self.message)} [{printable(self.code)}]"


class SetupError(GodwitError):
    """This machine lacks something: a token, a setting, a readable file."""


class CannotReachError(GodwitError):
    """No connection to the node came up, or it broke. `was_sent` says whether the node may have got the request."""

    def __init__(self, code: str, message: str, *, was_sent: bool) -> None:
        super().__init__(code, message)
        self.was_sent = was_sent


class CertificateError(GodwitError):
    """The node showed another certificate than the expected one."""


class AnswerError(GodwitError):
    """The answer is none of the API, or is larger than any answer."""


class RefusedError(GodwitError):
    """The node refused the request."""

    def __init__(self, node: str, problem: Problem, retry_after: Optional[float] = None) -> None:
        said = problem["detail"] or problem["title"]
        super().__init__(problem["code"], f"{node} refused: {said}")
        self.status = problem["status"]
        self.detail = said
        self.request = problem.get("request")
        self.retry_after = retry_after


class JobError(GodwitError):
    """A job ended otherwise than complete. `job` is the job as it ended."""

    def __init__(self, job: JobView) -> None:
        summary: Mapping[str, Any] = job.get("summary") or {}
        reason = job.get("reason")
        code = summary.get("code") if job["state"] != "cancelled" else None
        fallback = reason["code"] if reason else "peer_failed"
        text = reason["text"] if reason else "it gave no reason"
        super().__init__(str(code or fallback), f"job {job['id']} is {job['state']}: {text}")
        self.job = job


class StillRunningError(GodwitError, TimeoutError):
    """The time to wait is over, and the job continues."""

    def __init__(self, job: str, seconds: float) -> None:
        super().__init__("peer_silent", f"job {job} has not ended within {seconds:g} s; it goes on")
        self.job = job


def problem_of(status: int, body: Any, text: str) -> Problem:
    """The problem in an answer; of an answer that holds none, its status and its first words."""
    if isinstance(body, dict) and isinstance(body.get("code"), str):
        return Problem(
            type=str(body.get("type", "")),
            title=str(body.get("title", "")),
            status=status,
            detail=str(body.get("detail", "")),
            code=body["code"],
            request=body.get("request"),
        )
    detail = f"status {status}, {text[:200]!r}"
    return Problem(type="", title="foreign", status=status, detail=detail, code="foreign")
