"""Owns a job as an object: its last known state, and the calls about it. Knows no connection."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, AsyncIterator, Iterator, List, Optional, Union

from typing_extensions import Self

from .api.schemas import ChangeJob, FailureGroup, JobReport, JobState, JobView, LogLine, ProgressView, RateInput, Reason
from .errors import JobError, StillRunningError
from .events import Event, JobChanged, Missed, Progressed
from .progress import Display, display

if TYPE_CHECKING:
    from .async_client import AsyncClient
    from .client import Client

ENDED = frozenset(("complete", "partial", "failed", "cancelled"))

Progress = Union[bool, Display]


class JobBase:
    """A job as it was last heard of."""

    def __init__(self, view: JobView) -> None:
        self.view = view

    @property
    def id(self) -> str:
        """The short id."""
        return self.view["id"]

    @property
    def state(self) -> JobState:
        """The state when the job was last heard of."""
        return self.view["state"]

    @property
    def reason(self) -> Optional[Reason]:
        """Why the job is in its state."""
        return self.view.get("reason")

    @property
    def progress(self) -> Optional[ProgressView]:
        """How far the running attempt is."""
        return self.view.get("progress")

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended, well or not."""
        return self.state in ENDED

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.state}>"

    def _take(self, event: Event) -> bool:
        """Takes news of the job. Returns false if the job must be read again."""
        if isinstance(event, JobChanged) and event.job["id"] == self.id:
            self.view = event.job
        elif isinstance(event, Progressed) and event.job == self.id:
            self.view["progress"] = event.progress
        return not isinstance(event, Missed)

    def _ended(self, *, check: bool) -> Self:
        if check and self.state != "complete":
            raise JobError(self.view)
        return self


def _change(limit: Optional[RateInput], priority: Optional[int], label: Optional[str]) -> ChangeJob:
    made = ChangeJob()
    if limit is not None:
        made["limit"] = limit
    if priority is not None:
        made["priority"] = priority
    if label is not None:
        made["label"] = label
    return made


class Job(JobBase):
    """A job of a node."""

    def __init__(self, client: Client, view: JobView) -> None:
        super().__init__(view)
        self._client = client

    def refresh(self) -> Self:
        """Reads the job again."""
        self.view = self._client.jobs.get(self.id)
        return self

    def wait(self, timeout: Optional[float] = None, *, progress: Progress = False, check: bool = True) -> Self:
        """Waits for the end of the job. An end other than `complete` is raised, unless `check` is false."""
        until = None if timeout is None else time.monotonic() + timeout
        with display(progress, self.view) as shown:
            for event in self._client.events(self.id, until=until):
                if not self._take(event):
                    self.refresh()
                shown.show(self.view)
                if self.has_ended:
                    return self._ended(check=check)
        raise StillRunningError(self.id, timeout or 0)

    def events(self) -> Iterator[Event]:
        """News of the job, until it has ended. The first event is the job as it is."""
        for event in self._client.events(self.id):
            if not self._take(event):
                self.refresh()
            yield event
            if self.has_ended:
                return

    def pause(self) -> Self:
        """Pauses the job. Data that has arrived stays."""
        self.view = self._client.jobs.pause(self.id)
        return self

    def resume(self) -> Self:
        """Resumes the paused job."""
        self.view = self._client.jobs.resume(self.id)
        return self

    def cancel(self, comment: Optional[str] = None) -> Self:
        """Cancels the job."""
        self.view = self._client.jobs.cancel(self.id, {"comment": comment})
        return self

    def retry(self) -> Self:
        """Has the ended job run again."""
        self.view = self._client.jobs.retry(self.id)
        return self

    def change(self, *, limit: Optional[RateInput] = None, priority: Optional[int] = None, label: Optional[str] = None) -> Self:
        """Changes limit, priority or label. A running job obeys at once; the limit `none` removes the limit."""
        self.view = self._client.jobs.change(self.id, _change(limit, priority, label))
        return self

    def log(self) -> Iterator[LogLine]:
        """The lines of the log so far, the oldest first."""
        after = 0
        while True:
            page = self._client.jobs.log(self.id, after=after)
            yield from page["lines"]
            if not page["lines"] or page["next"] <= after:
                return
            after = page["next"]

    def failures(self) -> List[FailureGroup]:
        """The failed entries by reason."""
        return self._client.jobs.failures(self.id)

    def report(self) -> JobReport:
        """All data of the job."""
        return self._client.jobs.report(self.id)

    def save_report(self, path: Union[str, Path]) -> None:
        """Writes all data of the job as one file for people."""
        Path(path).write_text(self._client.jobs.report_html(self.id), encoding="utf-8")


class AsyncJob(JobBase):
    """A job of a node, with calls that are awaited. Each means the same as that of `Job`."""

    def __init__(self, client: AsyncClient, view: JobView) -> None:
        super().__init__(view)
        self._client = client

    async def refresh(self) -> Self:
        """Reads the job again."""
        self.view = await self._client.jobs.get(self.id)
        return self

    async def wait(self, timeout: Optional[float] = None, *, progress: Progress = False, check: bool = True) -> Self:
        """Waits for the end of the job. An end other than `complete` is raised, unless `check` is false."""
        until = None if timeout is None else time.monotonic() + timeout
        with display(progress, self.view) as shown:
            async for event in self._client.events(self.id, until=until):
                if not self._take(event):
                    await self.refresh()
                shown.show(self.view)
                if self.has_ended:
                    return self._ended(check=check)
        raise StillRunningError(self.id, timeout or 0)

    async def events(self) -> AsyncIterator[Event]:
        """News of the job, until it has ended. The first event is the job as it is."""
        async for event in self._client.events(self.id):
            if not self._take(event):
                await self.refresh()
            yield event
            if self.has_ended:
                return

    async def pause(self) -> Self:
        """Pauses the job. Data that has arrived stays."""
        self.view = await self._client.jobs.pause(self.id)
        return self

    async def resume(self) -> Self:
        """Resumes the paused job."""
        self.view = await self._client.jobs.resume(self.id)
        return self

    async def cancel(self, comment: Optional[str] = None) -> Self:
        """Cancels the job."""
        self.view = await self._client.jobs.cancel(self.id, {"comment": comment})
        return self

    async def retry(self) -> Self:
        """Has the ended job run again."""
        self.view = await self._client.jobs.retry(self.id)
        return self

    async def change(
        self, *, limit: Optional[RateInput] = None, priority: Optional[int] = None, label: Optional[str] = None
    ) -> Self:
        """Changes limit, priority or label. A running job obeys at once; the limit `none` removes the limit."""
        self.view = await self._client.jobs.change(self.id, _change(limit, priority, label))
        return self

    async def log(self) -> AsyncIterator[LogLine]:
        """The lines of the log so far, the oldest first."""
        after = 0
        while True:
            page = await self._client.jobs.log(self.id, after=after)
            for line in page["lines"]:
                yield line
            if not page["lines"] or page["next"] <= after:
                return
            after = page["next"]

    async def failures(self) -> List[FailureGroup]:
        """The failed entries by reason."""
        return await self._client.jobs.failures(self.id)

    async def report(self) -> JobReport:
        """All data of the job."""
        return await self._client.jobs.report(self.id)

    async def save_report(self, path: Union[str, Path]) -> None:
        """Writes all data of the job as one file for people."""
        Path(path).write_text(await self._client.jobs.report_html(self.id), encoding="utf-8")
