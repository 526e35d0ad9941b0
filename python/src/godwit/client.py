"""Owns the client whose calls block: the calls that are shorter than the API's own. Opens no connection."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator, Optional, Sequence, Union

from typing_extensions import Self, Unpack

from . import address
from .address import PathLike
from .api import Groups
from .api.calling import Call, escaped
from .api.schemas import EntryView, JobState
from .events import Event
from .job import Job
from .submission import Options, description
from .wire import Wire


class Client(Groups):
    """A client of one node. Without arguments it finds the node as the command `godwit` does.

    `node` is the URL of a node elsewhere, `socket` the Unix socket of one here. A token comes from `token_file`, or from
    GODWIT_TOKEN_FILE or GODWIT_TOKEN in the environment. `fingerprint` pins the certificate of the node, or its key.
    Requests that do no harm twice are tried again for `retry_for` seconds.
    """

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
        self._wire = Wire(self.address, fingerprint=fingerprint, retry_for=retry_for)
        super().__init__(self._wire)

    def submit(self, sources: Union[str, Sequence[str]], destination: str, **options: Unpack[Options]) -> Job:
        """Submits a job: a copy, unless `kind` says `sync` or `verify`."""
        key = options.get("idempotency_key")
        return Job(self, self.jobs.create(description(sources, destination, options), idempotency_key=key))

    def job(self, id: str) -> Job:  # noqa: A002
        """The job with this id."""
        return Job(self, self.jobs.get(id))

    def all_jobs(
        self,
        *,
        state: Optional[Sequence[JobState]] = None,
        owner: Optional[str] = None,
        site: Optional[str] = None,
        label: Optional[str] = None,
    ) -> Iterator[Job]:
        """Jobs, the newest first, over all pages."""
        states, cursor = [*state] if state else None, None
        while True:
            page = self.jobs.list(state=states, owner=owner, site=site, label=label, cursor=cursor, limit=1000)
            yield from (Job(self, view) for view in page["jobs"])
            cursor = page.get("next")
            if not cursor:
                return

    def ls(self, place: str) -> Iterator[EntryView]:
        """The entries of a directory, over all pages."""
        cursor = None
        while True:
            page = self.places.list(place, cursor=cursor, limit=1000)
            yield from page["entries"]
            cursor = page.get("next")
            if not cursor:
                return

    def events(self, job: Optional[str] = None, *, until: Optional[float] = None) -> Iterator[Event]:
        """Events of all jobs, or of one, until this time of `time.monotonic`. A broken stream resumes where it broke."""
        return self._wire.events(job, until)

    def save_manifest(self, job: str, path: PathLike) -> None:
        """Writes the manifest of a job to a file, piece by piece."""
        call = Call[str]("GET", f"/api/v1/jobs/{escaped(job)}/manifest")
        with Path(path).open("wb") as file:
            for piece in self._wire.pieces(call):
                file.write(piece)

    def close(self) -> None:
        """Closes the client."""
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
