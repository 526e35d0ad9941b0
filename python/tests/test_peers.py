"""Programs of other users that answer at the socket of a node."""

from __future__ import annotations

import os
import subprocess
import sys

import anyio
import pytest

import godwit
from godwit import peer

STRANGER = 65534
ANSWER = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{"role":"admin"}'

# Listens as another user at a socket that root has made, and prints how many bytes came.
ANSWERER = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
os.setuid(int(sys.argv[2]))
listener.listen()
print("ready", flush=True)
stream, _ = listener.accept()
got = stream.recv(1 << 16)
if got:
    stream.sendall(sys.argv[3].encode())
print(len(got), flush=True)
"""


def ask_at(path, *, awaited):
    if not awaited:
        with godwit.Client(socket=path) as client:
            return client.node.get()["role"]

    async def walk():
        async with godwit.AsyncClient(socket=path) as client:
            return (await client.node.get())["role"]

    return anyio.run(walk)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    ("user", "owner", "answers"),
    [(STRANGER, 0, False), (STRANGER, 1, False), (STRANGER, STRANGER, True), (0, 1, True)],
)
def test_a_socket_of_another_user_gets_no_request(tmp_path, user, owner, answers, awaited):
    path = tmp_path / "at" / "node.sock"
    path.parent.mkdir()
    os.chown(path.parent, owner, -1)
    command = [sys.executable, "-c", ANSWERER, str(path), str(user), ANSWER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as answerer:
        assert answerer.stdout.readline() == "ready\n"
        if answers:
            assert ask_at(path, awaited=awaited) == "admin"
        else:
            with pytest.raises(godwit.SetupError) as refused:
                ask_at(path, awaited=awaited)
            assert refused.value.code == "local_failure"
            assert f"uid {user}" in str(refused.value)
        assert (int(answerer.stdout.readline()) > 0) == answers


def test_only_root_the_caller_and_the_owner_of_the_directory_answer(tmp_path):
    owner = tmp_path.stat().st_uid
    own, stranger = owner + 1, owner + 2
    for by in (0, own, owner):
        assert peer.other_user(tmp_path / "socket", by, own) is None
    assert f"uid {stranger}" in peer.other_user(tmp_path / "socket", stranger, own)
    assert peer.other_user(tmp_path / "none" / "socket", stranger, own)


def test_a_request_whose_connection_was_not_seen_does_not_leave(tmp_path):
    trace = peer.checked(tmp_path / "socket")["trace"]
    trace("connection.connect_unix_socket.started", {})
    with pytest.raises(godwit.SetupError):
        trace("http11.send_request_headers.started", {})
    assert peer.checked(None) == {}
