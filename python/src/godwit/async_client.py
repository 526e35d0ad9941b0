"""Owns the client whose calls are awaited: the calls that are shorter than the API's own. Opens no connection."""

from __future__ import annotations

from pathlib import Path
from typing import AsyncIterator, Optional, Sequence, Union

from typing_extensions import Self, Unpack

from . import address
from .address import PathLike
from .api import AsyncGroups
from .api.calling import Call, escaped
from .api.schemas import EntryView, JobState
from .async_wire import AsyncWire
from .events import Event
from .job import AsyncJob
from .submission import Options, description


class AsyncClient(AsyncGroups):
    """A client of one node, with calls that are awaited. It is made as `godwit.Client` is."""

    def __init__(
        self,
        node: Optional[str] = None,
        *,
        socket: Optional[PathLike] = None,
        token: Optional[str] = None,
        token_file: Optional[PathLike] = None,
        fingerprint: Optional[str] = None,
        retry_for: float = 30.0,
    ) -> None:
        self.address = address.find(node, socket=socket, token=token, token_file=token_file)
        self._wire = AsyncWire(self.address, fingerprint=fingerprint, retry_for=retry_for)
        super().__init__(self._wire)

    async def submit(self, sources: Union[str, Sequence[str]], destination: str, **options: Unpack[Options]) -> AsyncJob:
        """Submits a job: a copy, unless `kind` says `sync` or `verify`."""
        key = options.get("idempotency_key")
        return AsyncJob(self, await self.jobs.create(description(sources, destination, options), idempotency_key=key))

    async def job(self, id: str) -> AsyncJob:  # noqa: A002
        """The job with this id."""
        return AsyncJob(self, await self.jobs.get(id))

    async def all_jobs(
        self,
        *,
        state: Optional[Sequence[JobState]] = None,
        owner: Optional[str] = None,
        site: Optional[str] = None,
        label: Optional[str] = None,
    ) -> AsyncIterator[AsyncJob]:
        """Jobs, the newest first, over all pages."""
        states, cursor = [*state] if state else None, None
        while True:
            page = await self.jobs.list(state=states, owner=owner, site=site, label=label, cursor=cursor, limit=1000)
            for view in page["jobs"]:
                yield AsyncJob(self, view)
            cursor = page.get("next")
            if not cursor:
                return

    async def ls(self, place: str) -> AsyncIterator[EntryView]:
        """The entries of a directory, over all pages."""
        cursor = None
        while True:
            page = await self.places.list(place, cursor=cursor, limit=1000)
            for entry in page["entries"]:
                yield entry
            cursor = page.get("next")
            if not cursor:
                return

    def events(self, job: Optional[str] = None, *, until: Optional[float] = None) -> AsyncIterator[Event]:
        """Events of all jobs, or of one, until this time of `time.monotonic`. A broken stream resumes where it broke."""
        return self._wire.events(job, until)

    async def save_manifest(self, job: str, path: PathLike) -> None:
        """Writes the manifest of a job to a file, piece by piece."""
        call = Call[str]("GET", f"/api/v1/jobs/{escaped(job)}/manifest")
        with Path(path).open("wb") as file:
            async for piece in self._wire.pieces(call):
                file.write(piece)

    async def close(self) -> None:
        """Closes the client."""
        await self._wire.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
