"""Owns the operations of the group `jobs`. Generated from docs/openapi.json by tools/generate.py."""

from __future__ import annotations
from typing import List, Optional, Union
from . import schemas
from .calling import AsyncGroup, Call, Group, escaped, new_key


class Jobs(Group):
    """The operations of the group `jobs`."""

    def list(
        self,
        *,
        state: Optional[List[schemas.JobState]] = None,
        id: Optional[str] = None,
        owner: Optional[str] = None,
        site: Optional[str] = None,
        label: Optional[str] = None,
        parent: Optional[str] = None,
        since: Optional[schemas.Timestamp] = None,
        until: Optional[schemas.Timestamp] = None,
        cursor: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> schemas.JobList:
        """Lists jobs, the newest first."""
        return self._send(
            Call[schemas.JobList](
                "GET",
                "/api/v1/jobs",
                query={
                    "state": state,
                    "id": id,
                    "owner": owner,
                    "site": site,
                    "label": label,
                    "parent": parent,
                    "since": since,
                    "until": until,
                    "cursor": cursor,
                    "limit": limit,
                },
                twice=True,
            )
        )

    def create(self, body: schemas.NewJob, *, idempotency_key: Optional[str] = None) -> schemas.JobView:
        """Submits a job. The caller owns it. A repeated idempotency key submits once."""
        return self._send(
            Call[schemas.JobView](
                "POST", "/api/v1/jobs", headers={"Idempotency-Key": idempotency_key or new_key()}, body=body, twice=True
            )
        )

    def get(self, id: str) -> schemas.JobView:
        """Shows a job."""
        return self._send(Call[schemas.JobView]("GET", f"/api/v1/jobs/{escaped(id)}", twice=True))

    def change(self, id: str, body: schemas.ChangeJob) -> schemas.JobView:
        """Changes limit, priority or label of a job. A running job applies them at once."""
        return self._send(Call[schemas.JobView]("PATCH", f"/api/v1/jobs/{escaped(id)}", body=body))

    def attempts(self, id: str) -> List[schemas.AttemptView]:
        """Lists the attempts of a job, oldest first."""
        return self._send(Call[List[schemas.AttemptView]]("GET", f"/api/v1/jobs/{escaped(id)}/attempts", twice=True))

    def cancel(self, id: str, body: Optional[schemas.CancelJob] = None) -> schemas.JobView:
        """Cancels a job."""
        return self._send(Call[schemas.JobView]("POST", f"/api/v1/jobs/{escaped(id)}/cancel", body=body))

    def description(self, id: str) -> schemas.NewJob:
        """Shows the description that the job was submitted with."""
        return self._send(Call[schemas.NewJob]("GET", f"/api/v1/jobs/{escaped(id)}/description", twice=True))

    def failures(self, id: str) -> List[schemas.FailureGroup]:
        """Lists the failed entries of a job by reason."""
        return self._send(Call[List[schemas.FailureGroup]]("GET", f"/api/v1/jobs/{escaped(id)}/failures", twice=True))

    def log(self, id: str, *, after: Optional[int] = None, limit: Optional[int] = None) -> schemas.LogPage:
        """Lists lines of the job's log, the oldest first."""
        return self._send(
            Call[schemas.LogPage]("GET", f"/api/v1/jobs/{escaped(id)}/log", query={"after": after, "limit": limit}, twice=True)
        )

    def manifest(self, id: str) -> str:
        """Returns the manifest that a job wrote, in the format of `docs/manifest.md`."""
        return self._send(Call[str]("GET", f"/api/v1/jobs/{escaped(id)}/manifest", twice=True, is_text=True))

    def pause(self, id: str) -> schemas.JobView:
        """Pauses a job. Data that has arrived stays."""
        return self._send(Call[schemas.JobView]("POST", f"/api/v1/jobs/{escaped(id)}/pause"))

    def report(self, id: str) -> schemas.JobReport:
        """Returns all data of a job as one document."""
        return self._send(Call[schemas.JobReport]("GET", f"/api/v1/jobs/{escaped(id)}/report", twice=True))

    def report_html(self, id: str) -> str:
        """Returns all data of a job as one file for people."""
        return self._send(Call[str]("GET", f"/api/v1/jobs/{escaped(id)}/report.html", twice=True, is_text=True))

    def resume(self, id: str) -> schemas.JobView:
        """Resumes a paused job."""
        return self._send(Call[schemas.JobView]("POST", f"/api/v1/jobs/{escaped(id)}/resume"))

    def retry(self, id: str) -> schemas.JobView:
        """Runs an ended job again, or starts the next attempt of a job that waits after a failure."""
        return self._send(Call[schemas.JobView]("POST", f"/api/v1/jobs/{escaped(id)}/retry"))

    def samples(self, id: str) -> List[schemas.SampleView]:
        """Lists the samples of the job, the oldest first."""
        return self._send(Call[List[schemas.SampleView]]("GET", f"/api/v1/jobs/{escaped(id)}/samples", twice=True))

    def work(self, id: str) -> schemas.WorkView:
        """Shows the work of a divided job: its controller, its senders, and the work that each node holds."""
        return self._send(Call[schemas.WorkView]("GET", f"/api/v1/jobs/{escaped(id)}/work", twice=True))


class AsyncJobs(AsyncGroup):
    """The operations of the group `jobs`."""

    async def list(
        self,
        *,
        state: Optional[List[schemas.JobState]] = None,
        id: Optional[str] = None,
        owner: Optional[str] = None,
        site: Optional[str] = None,
        label: Optional[str] = None,
        parent: Optional[str] = None,
        since: Optional[schemas.Timestamp] = None,
        until: Optional[schemas.Timestamp] = None,
        cursor: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> schemas.JobList:
        """Lists jobs, the newest first."""
        return await self._send(
            Call[schemas.JobList](
                "GET",
                "/api/v1/jobs",
                query={
                    "state": state,
                    "id": id,
                    "owner": owner,
                    "site": site,
                    "label": label,
                    "parent": parent,
                    "since": since,
                    "until": until,
                    "cursor": cursor,
                    "limit": limit,
                },
                twice=True,
            )
        )

    async def create(self, body: schemas.NewJob, *, idempotency_key: Optional[str] = None) -> schemas.JobView:
        """Submits a job. The caller owns it. A repeated idempotency key submits once."""
        return await self._send(
            Call[schemas.JobView](
                "POST", "/api/v1/jobs", headers={"Idempotency-Key": idempotency_key or new_key()}, body=body, twice=True
            )
        )

    async def get(self, id: str) -> schemas.JobView:
        """Shows a job."""
        return await self._send(Call[schemas.JobView]("GET", f"/api/v1/jobs/{escaped(id)}", twice=True))

    async def change(self, id: str, body: schemas.ChangeJob) -> schemas.JobView:
        """Changes limit, priority or label of a job. A running job applies them at once."""
        return await self._send(Call[schemas.JobView]("PATCH", f"/api/v1/jobs/{escaped(id)}", body=body))

    async def attempts(self, id: str) -> List[schemas.AttemptView]:
        """Lists the attempts of a job, oldest first."""
        return await self._send(Call[List[schemas.AttemptView]]("GET", f"/api/v1/jobs/{escaped(id)}/attempts", twice=True))

    async def cancel(self, id: str, body: Optional[schemas.CancelJob] = None) -> schemas.JobView:
        """Cancels a job."""
        return await self._send(Call[schemas.JobView]("POST", f"/api/v1/jobs/{escaped(id)}/cancel", body=body))

    async def description(self, id: str) -> schemas.NewJob:
        """Shows the description that the job was submitted with."""
        return await self._send(Call[schemas.NewJob]("GET", f"/api/v1/jobs/{escaped(id)}/description", twice=True))

    async def failures(self, id: str) -> List[schemas.FailureGroup]:
        """Lists the failed entries of a job by reason."""
        return await self._send(Call[List[schemas.FailureGroup]]("GET", f"/api/v1/jobs/{escaped(id)}/failures", twice=True))

    async def log(self, id: str, *, after: Optional[int] = None, limit: Optional[int] = None) -> schemas.LogPage:
        """Lists lines of the job's log, the oldest first."""
        return await self._send(
            Call[schemas.LogPage]("GET", f"/api/v1/jobs/{escaped(id)}/log", query={"after": after, "limit": limit}, twice=True)
        )

    async def manifest(self, id: str) -> str:
        """Returns the manifest that a job wrote, in the format of `docs/manifest.md`."""
        return await self._send(Call[str]("GET", f"/api/v1/jobs/{escaped(id)}/manifest", twice=True, is_text=True))

    async def pause(self, id: str) -> schemas.JobView:
        """Pauses a job. Data that has arrived stays."""
        return await self._send(Call[schemas.JobView]("POST", f"/api/v1/jobs/{escaped(id)}/pause"))

    async def report(self, id: str) -> schemas.JobReport:
        """Returns all data of a job as one document."""
        return await self._send(Call[schemas.JobReport]("GET", f"/api/v1/jobs/{escaped(id)}/report", twice=True))

    async def report_html(self, id: str) -> str:
        """Returns all data of a job as one file for people."""
        return await self._send(Call[str]("GET", f"/api/v1/jobs/{escaped(id)}/report.html", twice=True, is_text=True))

    async def resume(self, id: str) -> schemas.JobView:
        """Resumes a paused job."""
        return await self._send(Call[schemas.JobView]("POST", f"/api/v1/jobs/{escaped(id)}/resume"))

    async def retry(self, id: str) -> schemas.JobView:
        """Runs an ended job again, or starts the next attempt of a job that waits after a failure."""
        return await self._send(Call[schemas.JobView]("POST", f"/api/v1/jobs/{escaped(id)}/retry"))

    async def samples(self, id: str) -> List[schemas.SampleView]:
        """Lists the samples of the job, the oldest first."""
        return await self._send(Call[List[schemas.SampleView]]("GET", f"/api/v1/jobs/{escaped(id)}/samples", twice=True))

    async def work(self, id: str) -> schemas.WorkView:
        """Shows the work of a divided job: its controller, its senders, and the work that each node holds."""
        return await self._send(Call[schemas.WorkView]("GET", f"/api/v1/jobs/{escaped(id)}/work", twice=True))
