"""The server of the Model Context Protocol, driven by its own client over standard input and output."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import anyio
import pytest

mcp = pytest.importorskip("mcp", reason="the package mcp needs Python 3.10 or later")

from mcp_types import ElicitResult  # noqa: E402

READING = {"list_jobs", "show_job", "explain_job", "watch_job", "list_sites", "list_place"}


def drive(sites, walk, *flags, answer=None):
    """Runs `walk` with a client of the installed command."""
    asked = []

    async def elicited(context, parameters):
        asked.append(parameters.message)
        return ElicitResult(action="accept", content={"cancel": answer})

    async def run():
        server = mcp.StdioServerParameters(
            command=str(Path(sys.executable).with_name("godwit-mcp")), args=[*flags], env={"GODWIT_SOCKET": str(sites.a.socket)}
        )
        async with mcp.Client(server, elicitation_callback=elicited if answer is not None else None) as client:
            with anyio.fail_after(120):
                await walk(client)

    anyio.run(run)
    return asked


def test_it_only_reads_unless_it_is_allowed_more(sites):
    async def walk(client):
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == READING
        assert all(tool.annotations.read_only_hint for tool in tools)
        assert (await client.call_tool("submit_job", {"sources": ["here:/data/a"], "destination": "here:/data/b"})).is_error

    drive(sites, walk)


def test_a_job_is_submitted_watched_and_explained(sites):
    sites.a.write("by-mcp/file", 1000)

    async def walk(client):
        made = await client.call_tool(
            "submit_job", {"sources": ["here:/data/by-mcp"], "destination": "siteB:/data/by-mcp", "label": "by mcp"}
        )
        job = made.structured_content["id"]
        ended = (await client.call_tool("watch_job", {"job": job, "seconds": 60})).structured_content
        assert ended["state"] == "complete" and ended["has_ended"]
        listed = (await client.call_tool("list_jobs", {"label": "by mcp"})).structured_content
        assert [one["id"] for one in listed["jobs"]] == [job]
        assert "complete" in (await client.call_tool("explain_job", {"job": job})).content[0].text
        assert (await client.call_tool("show_job", {"job": job})).structured_content["summary"]["bytes"] == 1000
        entries = (await client.call_tool("list_place", {"place": "siteB:/data/by-mcp"})).structured_content["entries"]
        assert [entry["name"] for entry in entries] == ["file"]
        sites_there = (await client.call_tool("list_sites", {})).structured_content["sites"]
        assert [site["name"] for site in sites_there] == ["siteB"]
        bad = await client.call_tool("show_job", {"job": "nosuchjob00"})
        assert bad.is_error and "no_such_job" in bad.content[0].text
        assert not {"cancel_job"} & {tool.name for tool in (await client.list_tools()).tools}

    drive(sites, walk, "--allow-submit")


def test_a_job_that_waits_is_explained(sites, client):
    job = client.submit("here:/data/x", "siteB:/data/x", not_before="2100-01-01T00:00:00Z")

    async def walk(driver):
        printed = (await driver.call_tool("explain_job", {"job": job.id})).content[0].text
        assert "[not_before]" in printed
        began = time.monotonic()
        watched = (await driver.call_tool("watch_job", {"job": job.id, "seconds": 1})).structured_content
        assert not watched["has_ended"] and time.monotonic() - began < 30

    drive(sites, walk)
    job.cancel()


@pytest.mark.parametrize("answer", [True, False, None])
def test_a_job_is_cancelled_only_if_the_user_agrees(sites, client, answer):
    job = client.submit("here:/data/x", "siteB:/data/x", label="to cancel\u202e\nat once", not_before="2100-01-01T00:00:00Z")

    async def walk(driver):
        # Without an answer, the driver cannot ask its user.
        try:
            done = await driver.call_tool("cancel_job", {"job": job.id})
            assert done.is_error != bool(answer)
        except mcp.MCPError:
            assert answer is None

    asked = drive(sites, walk, "--allow-cancel", answer=answer)
    assert bool(asked) == (answer is not None)
    # The label breaks no line of the question, and turns none.
    assert all(job.id in message and r"to cancel\u202e\nat once" in message for message in asked)
    assert all(message.isprintable() for message in asked)
    assert (job.refresh().state == "cancelled") == bool(answer)
    if not answer:
        job.cancel()
