"""Connections: credentials, pinned certificates, restarts, and what is sent again."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import anyio
import httpx
import pytest

import godwit
from godwit import address, exchange, trust
from godwit.api.calling import Call
from godwit.errors import CannotReachError, RefusedError, problem_of


@pytest.fixture
def token_file(sites, tmp_path):
    path = tmp_path / "token"
    path.write_text(sites.a.command("token", "create", "--role", "admin") + "\n")
    path.chmod(0o600)
    return path


def test_a_node_elsewhere_takes_a_token_and_a_pinned_key(sites, token_file, monkeypatch):
    pin = sites.a.fingerprint()
    with godwit.Client(sites.a.url, token_file=token_file, fingerprint=pin) as client:
        assert client.node.get()["role"] == "admin"
        sites.a.write("by-tls/file", 10)
        client.submit("here:/data/by-tls", "siteB:/data/by-tls").wait(60)
    monkeypatch.setenv("GODWIT_TOKEN", token_file.read_text().strip())
    with godwit.Client(sites.a.url, fingerprint=pin.replace("sha256:", "").upper()) as client:
        assert client.node.get()["role"] == "admin"

    async def awaited():
        async with godwit.AsyncClient(sites.a.url, token_file=token_file, fingerprint=pin) as client:
            return (await client.node.get())["role"]

    monkeypatch.delenv("GODWIT_TOKEN")
    assert anyio.run(awaited) == "admin"


def test_a_trusted_node_is_that_of_the_command(sites, token_file, tmp_path, monkeypatch):
    monkeypatch.setenv("GODWIT_HOME", str(tmp_path))
    monkeypatch.setenv("GODWIT_NODE", sites.a.url)
    monkeypatch.setenv("GODWIT_TOKEN_FILE", str(token_file))
    (tmp_path / "known_web").write_text(f"# ours\n\n{sites.a.address} {sites.a.fingerprint()}\n")
    with godwit.Client() as client:
        assert client.node.get()["role"] == "admin"


def test_another_certificate_gets_no_token(sites, token_file):
    wrong = "sha256:" + "0" * 64
    with godwit.Client(sites.a.url, token_file=token_file, fingerprint=wrong) as client:
        with pytest.raises(godwit.CertificateError) as refused:
            client.node.get()
    assert refused.value.code == "identity_changed"
    assert sites.a.fingerprint() in str(refused.value)
    with godwit.Client(sites.a.url, token_file=token_file) as client, pytest.raises(godwit.CertificateError) as refused:
        client.node.get()
    assert refused.value.code == "unknown_peer"

    async def awaited():
        async with godwit.AsyncClient(sites.a.url, token_file=token_file, fingerprint=wrong) as client:
            await client.node.get()

    with pytest.raises(godwit.CertificateError):
        anyio.run(awaited)


def test_a_wrong_token_is_refused(sites, monkeypatch):
    monkeypatch.setenv("GODWIT_TOKEN", "gwt_wrong")
    with godwit.Client(sites.a.url, fingerprint=sites.a.fingerprint()) as client:
        with pytest.raises(godwit.RefusedError) as refused:
            client.node.get()
    assert refused.value.status == 401
    assert "gwt_wrong" not in repr(client.address)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o622])
def test_a_token_file_that_others_can_read_is_refused(tmp_path, mode):
    path = tmp_path / "token"
    path.write_text("gwt_abc")
    path.chmod(mode)
    with pytest.raises(godwit.SetupError) as refused:
        godwit.Client("https://dtn1.example.org", token_file=path)
    assert "chmod 600" in str(refused.value) and "gwt_abc" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"\n", b"two words", b"two\nlines", b"\xff", b"x" * 4097])
def test_a_token_is_one_word(tmp_path, content):
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(godwit.SetupError):
        address.read_secret(path)


def test_the_node_of_the_command_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    own = tmp_path / ".local/share/godwit/run/node.sock"
    own.parent.mkdir(parents=True)
    own.touch()
    assert address.find().socket == own
    monkeypatch.setenv("GODWIT_HOME", "/g")
    assert address.find().socket == Path("/g/run/node.sock")
    monkeypatch.setenv("GODWIT_SOCKET", "/s")
    assert address.find().socket == Path("/s")
    for text, shown in (
        ("https://DTN1.example.org", "https://dtn1.example.org:7272"),
        ("https://dtn1:443/", "https://dtn1:443"),
        ("https://[::1]:7300", "https://[::1]:7300"),
    ):
        assert address.find(text, token="x").url == shown
    for text in ("dtn1", "http://dtn1", "https://dtn1/api", "https://user@dtn1", "https://", "https://dtn1:99999"):
        with pytest.raises(godwit.SetupError):
            address.find(text, token="x")
    with pytest.raises(godwit.SetupError):
        address.find("https://dtn1")


def test_fingerprints_are_read_in_each_usual_form():
    lower = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    upper = ":".join(lower.upper()[at : at + 2] for at in range(0, 64, 2))
    for text in (lower, f"SHA256:{upper}", f"sha256:{lower}"):
        assert trust.parse_fingerprint(text).hex() == lower
    for text in ("", "sha256:", lower[1:], "gw1-abc"):
        with pytest.raises(godwit.SetupError):
            trust.parse_fingerprint(text)


def test_a_node_that_does_not_run_is_named_at_once(tmp_path):
    began = time.monotonic()
    with godwit.Client(socket=tmp_path / "none.sock") as client, pytest.raises(CannotReachError) as refused:
        client.node.get()
    assert "no node runs" in str(refused.value) and refused.value.code == "unreachable"
    assert time.monotonic() - began < 10


def test_a_submission_and_its_events_outlive_a_killed_node(own_node):
    own_node.write("run/file", 64 << 20)
    with own_node.client(retry_for=60) as client:
        job = client.submit("here:/data/run", "here:/data/copy", limit="4MB/s")
        states = []

        def watch():
            for event in job.events():
                states.append((type(event), job.state))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        end = time.monotonic() + 60
        while not any(kind is godwit.Progressed for kind, _ in states):
            assert time.monotonic() < end, states
            time.sleep(0.02)
        own_node.kill()
        starter = threading.Thread(target=own_node.start)
        starter.start()
        # Sent while the node is away: both kinds of requests that may be sent twice.
        again = client.submit("here:/data/run", "here:/data/other", label="meanwhile")
        assert client.job(again.id).view["label"] == "meanwhile"
        starter.join()
        client.job(job.id).change(limit="none")
        watcher.join(120)
        assert not watcher.is_alive()
        assert states[-1] == (godwit.JobChanged, "complete")
        assert again.wait(60).state == "complete"
        assert [one.id for one in client.all_jobs(label="meanwhile")] == [again.id]


def test_a_wait_with_a_timeout_ends_in_time(own_node):
    with own_node.client() as client:
        job = client.submit("here:/data/none", "here:/data/copy", not_before="2100-01-01T00:00:00Z")
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            job.wait(12)
        assert 12 <= time.monotonic() - began < 16


def test_a_job_is_awaited(sites):
    async def walk():
        async with godwit.AsyncClient(socket=sites.a.socket) as client:
            job = await client.submit("here:/data/awaited", "siteB:/data/awaited", label="awaited")
            assert (await job.wait(60)).state == "complete"
            assert [one.id async for one in client.all_jobs(label="awaited")] == [job.id]
            assert [entry["name"] async for entry in client.ls("siteB:/data/awaited")] == ["file"]
            assert [type(event) async for event in job.events()] == [godwit.JobChanged]
            path = sites.a.home / "awaited.html"
            await job.save_report(path)
            assert job.id in path.read_text()
            bad = await client.submit("here:/data/no-such", "siteB:/data/x", retries_max=0)
            with pytest.raises(godwit.JobError) as failed:
                await bad.wait(60)
            assert failed.value.code == "no_source"
            late = await client.submit("here:/data/x", "siteB:/data/x", not_before="2100-01-01T00:00:00Z")
            with pytest.raises(godwit.StillRunningError):
                await late.wait(0.5)
            assert (await late.cancel("a test")).state == "cancelled"

    sites.a.write("awaited/file", 1000)
    anyio.run(walk)


def refused(status, code):
    return RefusedError("the node", problem_of(status, {"code": code, "detail": "no"}, ""))


def lost(*, was_sent):
    return CannotReachError("unreachable", "gone", was_sent=was_sent)


@pytest.mark.parametrize(
    ("twice", "is_known", "error", "again"),
    [
        (True, True, lost(was_sent=True), True),
        (False, True, lost(was_sent=True), False),
        (False, True, lost(was_sent=False), True),
        (True, False, lost(was_sent=False), False),
        (True, True, refused(503, "no_leader"), True),
        (False, True, refused(503, "no_leader"), False),
        (False, True, refused(429, "too_many_changes"), True),
        (True, True, refused(500, "state_unreadable"), False),
        (True, True, refused(409, "conflict"), False),
        (True, True, refused(404, "no_such_job"), False),
        (True, True, godwit.CertificateError("identity_changed", "other"), False),
    ],
)
def test_only_a_harmless_request_is_sent_again(twice, is_known, error, again):
    tries = exchange.Tries(Call("POST", "/x", twice=twice), retry_for=30, is_known=is_known)
    if again:
        assert 0 < tries.pause(error) <= 0.25
    else:
        with pytest.raises(type(error)):
            tries.pause(error)


def test_tries_end_and_obey_the_node():
    tries = exchange.Tries(Call("GET", "/x", twice=True), retry_for=5, is_known=True)
    answered = RefusedError("the node", problem_of(429, {"code": "too_many_requests"}, ""), retry_after=4)
    assert tries.pause(answered) == 4
    with pytest.raises(RefusedError):
        tries.pause(answered)


def test_a_removal_whose_answer_was_lost_is_done():
    tries = exchange.Tries(Call("DELETE", "/x", twice=True), retry_for=30, is_known=True)
    absent = refused(404, "not_found")
    assert not tries.is_done(absent)
    tries.pause(lost(was_sent=True))
    assert tries.is_done(absent)


def test_an_answer_is_bounded_and_must_be_json():
    body = exchange.Body("the node")
    with pytest.raises(godwit.AnswerError):
        for _ in range(65):
            body.take(b"x" * (1 << 20))
    with pytest.raises(godwit.AnswerError):
        exchange.result("the node", Call("GET", "/x"), httpx.Response(200), b"<html>")
    foreign = exchange.refusal("the node", httpx.Response(502), b"<html>proxy")
    assert foreign.code == "foreign" and "proxy" in str(foreign)
