"""Jobs between two real nodes: submitted, awaited, steered, and failed."""

from __future__ import annotations

import os
import threading
import time

import pytest

import godwit


def slow(client, sites, name, **options):
    """A job that runs until its limit is taken away."""
    sites.a.write(f"{name}/file", 32 << 20)
    return client.submit(f"here:/data/{name}", f"siteB:/data/{name}", limit="1MB/s", **options)


def until(job, condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition(job.refresh()):
        assert time.monotonic() < end, job.view
        time.sleep(0.05)


def test_a_copy_is_submitted_and_awaited(client, sites):
    for number in range(20):
        sites.a.write(f"night/{number}", 1000 + number)
    job = client.submit("here:/data/night", "siteB:/data/night", label="a copy of twenty", settings={"streams": 2}, manifest=True)
    assert job.wait(60) is job
    assert job.state == "complete" and job.has_ended
    assert (sites.b.data / "night" / "7").read_bytes() == (sites.a.data / "night" / "7").read_bytes()
    assert client.jobs.description(job.id)["settings"]["streams"] == ["2"]
    assert job.report()["bytes_moved"] == sum(range(1000, 1020))
    assert [one.id for one in client.all_jobs(label="a copy of twenty", state=["complete"])] == [job.id]
    assert {entry["name"] for entry in client.ls("siteB:/data/night")} == {str(number) for number in range(20)}
    assert any(line["event"] for line in job.log())
    target = sites.a.home / "manifest"
    client.save_manifest(job.id, target)
    assert target.read_text() == client.jobs.manifest(job.id)


def test_sources_of_two_sites_are_gathered_each_below_its_name(client, sites):
    sites.a.write("gathered/file", 1000)
    sites.b.write("raw/file", 2000)
    (sites.a.data / "all").mkdir()
    job = client.submit(["here:/data/gathered", "siteB:/data/raw"], "here:/data/all", gather=True).wait(60)
    assert job.state == "complete"
    assert job.view["destinations"] == {"total": 2, "complete": 2, "gather": True}
    sizes = {name: (sites.a.data / "all" / name / "file").stat().st_size for name in ("here", "siteB")}
    assert sizes == {"here": 1000, "siteB": 2000}
    report = sites.a.home / "report.html"
    job.save_report(report)
    assert job.id in report.read_text()


def test_the_newest_of_two_files_with_one_name_stays(client, sites):
    sites.a.write("merged-from/file", 1000)
    sites.b.write("merged-raw/file", 2000)
    newest = sites.a.data / "merged-from" / "file"
    os.utime(newest, (2_000_000_000, 2_000_000_000))
    places = ["here:/data/merged-from", "siteB:/data/merged-raw"]
    job = client.submit(places, "here:/data/merged", gather=True, merge="newest").wait(60)
    assert job.state == "complete"
    assert (sites.a.data / "merged" / "file").stat().st_size == 1000
    assert job.report()["description"]["merge"] == "newest"


def test_a_key_submits_once(client, sites):
    sites.a.write("once/file", 10)
    first = client.submit("here:/data/once", "siteB:/data/once", idempotency_key="once-1")
    again = client.submit("here:/data/once", "siteB:/data/once", idempotency_key="once-1")
    other = client.submit("here:/data/once", "siteB:/data/once")
    assert first.id == again.id != other.id
    first.wait(60)
    other.wait(60)


def test_events_come_until_the_end(client, sites):
    job = slow(client, sites, "events")
    seen = []
    for event in job.events():
        seen.append(event)
        if isinstance(event, godwit.Progressed):
            assert event.progress["bytes"] >= 0
            job.change(limit="none")
    assert isinstance(seen[0], godwit.JobChanged)
    assert any(isinstance(event, godwit.Progressed) for event in seen)
    assert job.state == "complete"


def test_a_job_is_paused_resumed_and_cancelled(client, sites):
    job = slow(client, sites, "steered")
    until(job, lambda job: job.progress and job.progress["bytes"] > 0)
    job.pause()
    until(job, lambda job: job.state == "paused")
    assert job.reason["code"] == "paused_by_user"
    with pytest.raises(godwit.StillRunningError) as waited:
        job.wait(0.5)
    assert waited.value.job == job.id
    job.resume()
    until(job, lambda job: job.state == "running")
    cancel = threading.Timer(0.3, client.job(job.id).cancel, ["not needed"])
    cancel.start()
    with pytest.raises(godwit.JobError) as failed:
        job.wait(60)
    cancel.join()
    assert failed.value.code == "cancelled_by_user"
    assert failed.value.job["state"] == "cancelled"
    assert job.wait(check=False).state == "cancelled"
    with pytest.raises(godwit.RefusedError) as refused:
        job.pause()
    assert refused.value.code == "forbidden_transition"


def test_a_retried_job_completes(client, sites):
    job = slow(client, sites, "retried")
    job.cancel()
    job.wait(60, check=False)
    job.retry().change(limit="none")
    assert job.wait(60).state == "complete"


def test_failures_have_the_code_of_the_catalogue(client, sites):
    job = client.submit("here:/data/no-such-thing", "siteB:/data/x", retries_max=0)
    with pytest.raises(godwit.JobError) as failed:
        job.wait(60)
    assert failed.value.code == "no_source"
    assert failed.value.fault == "source"
    assert not failed.value.is_transient
    assert "Check the names of the sources" in failed.value.advice
    sites.a.write("mixed/good", 10)
    (sites.b.data / "mixed" / "bad").mkdir(parents=True)
    sites.a.write("mixed/bad", 10)
    job = client.submit("here:/data/mixed", "siteB:/data/mixed", kind="sync", retries_max=0)
    with pytest.raises(godwit.JobError) as failed:
        job.wait(60)
    assert failed.value.job["state"] == "partial"
    assert [group["reason"]["code"] for group in job.failures()] == ["type"]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda client: client.job("nosuchjob00"), "no_such_job"),
        (lambda client: client.sites.get("nosuch"), "not_found"),
        (lambda client: client.submit("nosuch:/data/a", "here:/data/b"), "unknown_site"),
        (lambda client: client.submit("here:/data/a", "here:/data/b", kind="move"), "invalid"),
        (lambda client: client.places.list("here:/nosuch/"), "no_such_export"),
        (lambda client: client.jobs.list(limit=0), "bad_query"),
    ],
)
def test_refusals_have_the_code_of_the_catalogue(client, call, code):
    with pytest.raises(godwit.RefusedError) as refused:
        call(client)
    assert refused.value.code == code
    assert refused.value.detail in str(refused.value)


def test_an_option_that_is_none_is_refused_here(client):
    with pytest.raises(godwit.SetupError):
        client.submit("here:/data/a", "here:/data/b", priorty=3)
