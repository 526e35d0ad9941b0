"""The stream of events, byte by byte."""

from __future__ import annotations

import pytest

import godwit
from godwit.errors import CannotReachError
from godwit.events import Follower, Parser, RawEvent

LOST = CannotReachError("unreachable", "gone", was_sent=True)


def test_events_are_the_same_in_whatever_parts_they_come():
    text = b': hello\n\nevent: job\r\nid: 7\r\ndata: {"a":\r\ndata: 1}\r\n\r\n'
    text += b"data:plain\n\nevent: gone\n\nretry: 9\nid\ndata\n\nevent: cut\ndata: off"
    expected = [RawEvent("job", '{"a":\n1}', "7"), RawEvent("message", "plain", "7"), RawEvent("message", "", "")]
    for part in range(1, len(text) + 1):
        parser = Parser()
        found = [event for at in range(0, len(text), part) for event in parser.read(text[at : at + part])]
        assert found == expected, part


@pytest.mark.parametrize("begin", [b"", b"data: "])
def test_an_event_that_never_ends_is_refused(begin):
    follower = Follower("the node", None)
    with pytest.raises(godwit.AnswerError):
        for _ in range(5):
            follower.read(begin + b"x" * (1 << 20) + (b"\n" if begin else b""))


@pytest.mark.parametrize("data", [b"event: job\ndata: {\n\n", b"event: progress\ndata: {}\n\n", b"data: \xff\n\n"])
def test_invalid_events_are_refused_or_ignored(data):
    follower = Follower("the node", None)
    if b"progress" in data:
        assert follower.read(data) == []
    else:
        with pytest.raises(godwit.AnswerError):
            follower.read(data)


def test_a_stream_goes_on_after_the_last_event():
    follower = Follower("the node", None)
    assert "Last-Event-ID" not in follower.headers and follower.query == {"topic": "job"}
    assert follower.opened() == []
    assert follower.broke(LOST, 0) == 0.25
    assert follower.opened() == [godwit.Missed()]
    follower.read(b'event: job\nid: 9\ndata: {"id": "a"}\n\n')
    assert follower.broke(None, 1) == 0.25
    assert follower.headers["Last-Event-ID"] == "9"
    assert follower.opened() == []
    assert follower.read(b"event: gone\nid: 12\ndata: {}\n\n") == [godwit.Missed()]
    assert follower.headers["Last-Event-ID"] == "12"


def test_a_node_that_stays_away_is_given_up():
    follower = Follower("the node", "a")
    with pytest.raises(CannotReachError):
        follower.broke(LOST, 0)
    follower.opened()
    assert [follower.broke(LOST, at) for at in range(0, 300, 50)] == [0.25, 0.5, 1, 2, 4, 8]
    with pytest.raises(CannotReachError):
        follower.broke(LOST, 301)
