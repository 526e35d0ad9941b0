"""Owns the tools of the server: what each reads or does, and that the user agrees before a job is cancelled."""

# The annotations are read at run time, in this function's scope: they must not become texts.
import time
from contextlib import contextmanager
from typing import Annotated, Any, Iterator, List, Optional

import anyio
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from ..api.schemas import JobState
from ..client import Client
from ..errors import GodwitError, StillRunningError
from ..explain import outline, why
from ..shown import printable
from ..version import VERSION

READS = ToolAnnotations(read_only_hint=True)
SUBMITS = ToolAnnotations(read_only_hint=False, destructive_hint=True)
CANCELS = ToolAnnotations(read_only_hint=False, destructive_hint=True)

_LISTED = 200
_WATCH_SECONDS = 600

# Entries of a directory in one answer.
_ENTRIES = 200


class Agreement(BaseModel):
    """The answer of the user."""

    cancel: bool = Field(description="Whether to cancel the job.")


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except GodwitError as error:
        raise ToolError(f"{error} {error.advice}") from error


def build(client: Client, *, may_submit: bool, may_cancel: bool) -> MCPServer:
    """The server with the tools that are allowed."""
    server = MCPServer(
        "godwit",
        version=VERSION,
        instructions="Jobs of a Godwit node, which moves data between sites. A place is SITE:/EXPORT/PATH; `here:` is the node.",
    )
    _add_reading(server, client)
    if may_submit:
        _add_submit(server, client)
    if may_cancel:
        _add_cancel(server, client)
    return server


def _add_reading(server: MCPServer, client: Client) -> None:
    @server.tool(annotations=READS)
    def list_jobs(
        state: Optional[List[JobState]] = None, label: Optional[str] = None, site: Optional[str] = None, limit: int = 20
    ) -> dict[str, Any]:
        """Lists jobs, the newest first. `label` is a part of the label."""
        with _told():
            page = client.jobs.list(state=state, label=label, site=site, limit=max(1, min(limit, _LISTED)))
            return {"jobs": [outline(view) for view in page["jobs"]], "has_more": bool(page.get("next"))}

    @server.tool(annotations=READS)
    def show_job(job: str) -> dict[str, Any]:
        """Shows a job: its state, the reason of the state, and how far it is."""
        with _told():
            view = client.jobs.get(job)
            return {**outline(view), "progress": view.get("progress"), "summary": view.get("summary")}

    @server.tool(annotations=READS)
    def explain_job(job: str) -> str:
        """Says why a job is slow, waits or failed: what limits it, its rates, lost connections, failed entries."""
        with _told():
            return "\n".join(why(client.jobs.report(job)))

    @server.tool(annotations=READS)
    async def watch_job(job: str, context: Context, seconds: int = 60) -> dict[str, Any]:
        """Waits until a job has ended, for at most the given seconds, and shows the job."""
        until = time.monotonic() + max(1, min(seconds, _WATCH_SECONDS))

        def waited() -> dict[str, Any]:
            with _told():
                found = client.job(job)
                try:
                    found.wait(max(0.1, until - time.monotonic()), check=False)
                except StillRunningError:
                    found.refresh()
                return {**outline(found.view), "has_ended": found.has_ended}

        async def ping() -> None:
            while True:
                await anyio.sleep(1)
                await context.report_progress(max(0.0, seconds - (until - time.monotonic())), seconds)

        async with anyio.create_task_group() as group:
            group.start_soon(ping)
            shown = await anyio.to_thread.run_sync(waited)
            group.cancel_scope.cancel()
        return shown

    @server.tool(annotations=READS)
    def list_sites() -> dict[str, Any]:
        """Lists the sites that the node knows, and the exports of the node itself."""
        with _told():
            return {"sites": client.sites.list(), "exports": client.exports.list()}

    @server.tool(annotations=READS)
    def list_place(place: str, cursor: Optional[str] = None) -> dict[str, Any]:
        """Lists a directory, for example `siteB:/archive/`; `SITE:/` lists exports."""
        with _told():
            return dict(client.places.list(place, cursor=cursor, limit=_ENTRIES))


def _add_submit(server: MCPServer, client: Client) -> None:
    @server.tool(annotations=SUBMITS)
    def submit_job(
        sources: List[str], destination: str, label: str = "", limit: Optional[str] = None, manifest: bool = False
    ) -> dict[str, Any]:
        """Submits a job that copies the sources to the destination. Files of the same name there are replaced."""
        with _told():
            said: dict[str, Any] = {"label": label, "manifest": manifest, **({"limit": limit} if limit else {})}
            return outline(client.submit(sources, destination, **said).view)


def _add_cancel(server: MCPServer, client: Client) -> None:
    def ask(job: str) -> Elicit[Agreement]:
        with _told():
            view = client.jobs.get(job)
        said = f"{', '.join(view['sources'])} to {view['destination']}"
        asked = f"Cancel job {view['id']} ({view['label'] or 'no label'}) of {view['owner']}: {said}?"
        # Another user chose the label: it must not break the line, or turn its direction.
        return Elicit(printable(asked), Agreement)

    @server.tool(annotations=CANCELS)
    def cancel_job(job: str, agreement: Annotated[Agreement, Resolve(ask)], comment: Optional[str] = None) -> dict[str, Any]:
        """Cancels a job, once the user of this program has agreed. Complete files stay at the destination."""
        if not agreement.cancel:
            raise ToolError("the user did not agree; the job goes on")
        with _told():
            return outline(client.job(job).cancel(comment).view)
