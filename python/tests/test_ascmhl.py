"""Owns the judgement of another program: `ascmhl` of PyPI and the command read the histories of each other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BINARY

pytest.importorskip("ascmhl", reason="the package ascmhl needs Python 3.11 or later")

COMPLETE, DIFFERENT = 0, 3
# Exit codes of `ascmhl`: files are missing, a digest differs.
MISSING, FAILED = 10, 11
KINDS = ("c4", "md5", "sha1", "xxh128", "xxh3", "xxh64")


@pytest.fixture
def card(tmp_path, monkeypatch):
    monkeypatch.setenv("GODWIT_HOME", str(tmp_path / "home"))
    root = tmp_path / "card"
    (root / "reel" / "deep").mkdir(parents=True)
    (root / "clip & <1>.mov").write_bytes(b"one")
    (root / "reel" / "a").write_bytes(bytes(3 << 20))
    (root / "reel" / "deep" / "empty").touch()
    (root / "reel" / "deep" / "ümläut 'name'").write_bytes(b"two")
    (root / "reel" / "link *").symlink_to("a")
    (root / "down").symlink_to("reel")
    return root


def run(code, *words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def godwit(code, *words):
    return run(code, BINARY, *words)


def ascmhl(code, *words):
    return run(code, Path(sys.executable).with_name("ascmhl"), *words)


def generations(root):
    return sorted((root / "ascmhl").glob("*.mhl"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_sealed_copy_is_good_for_the_other_program(card, kind):
    copy = card.with_name("copy")
    godwit(COMPLETE, "cp", "--manifest", "ascmhl", "--ascmhl-digest", kind, card, copy)
    ascmhl(COMPLETE, "diff", copy)
    said = ascmhl(COMPLETE, "create", "-v", "-h", kind, copy)
    assert said.count("OK") == 4, said
    first, second = (path.read_text() for path in generations(copy))
    # Both programs compute the same digests of directories.
    for name in ("roothash", "directoryhash"):
        assert digests_in(first, name) == digests_in(second, name) != []
    godwit(COMPLETE, "verify", "--extra", copy / "ascmhl", card)


def digests_in(text, name):
    from lxml import etree

    tree = etree.fromstring(text.encode())
    found = tree.iter("{*}" + name)
    return sorted((one.findtext("{*}path"), [leaf.text for leaf in one.iter() if not len(leaf)][-2:]) for one in found)


def test_a_copy_that_a_job_sealed_is_good_for_the_other_program(client, sites):
    sites.a.write("card/clip", 3)
    sites.a.write("card/reel/a", 1 << 20)
    settings = {"manifest": "ascmhl", "ascmhl-digest": "sha1"}
    job = client.submit("here:/data/card", "siteB:/data/", settings=settings).wait(60)
    assert job.state == "complete", job.view
    copy = sites.b.data / "card"
    assert len(generations(copy)) == 1
    ascmhl(COMPLETE, "diff", copy)
    said = ascmhl(COMPLETE, "create", "-v", "-h", "sha1", copy)
    assert said.count("OK") == 2, said


def test_both_programs_continue_one_history(card):
    ascmhl(COMPLETE, "create", "-h", "md5", "-i", "/down", "-i", "/reel/link*", card)
    copy = card.with_name("copy")
    godwit(COMPLETE, "cp", "--manifest", "ascmhl", card, copy)
    assert len(generations(copy)) == 2
    ascmhl(COMPLETE, "create", "-h", "xxh3", copy)
    godwit(COMPLETE, "manifest", copy, "ascmhl")
    ascmhl(COMPLETE, "diff", copy)
    assert len(generations(copy)) == 4


def test_both_programs_find_what_changed(card):
    godwit(COMPLETE, "manifest", card, "ascmhl")
    (card / "clip & <1>.mov").write_bytes(b"0ne")
    assert "content" in godwit(DIFFERENT, "verify", card / "ascmhl", card)
    assert "hash mismatch" in ascmhl(FAILED, "create", "-h", "xxh64", card)
    godwit(DIFFERENT, "manifest", card, "ascmhl")
    (card / "reel" / "a").unlink()
    assert "missing" in godwit(DIFFERENT, "verify", card / "ascmhl", card)
    ascmhl(MISSING, "diff", card)


def test_histories_below_are_good_for_the_other_program(card):
    godwit(COMPLETE, "manifest", "--ascmhl-digest", "c4", card / "reel", "ascmhl")
    godwit(COMPLETE, "manifest", "--ascmhl-digest", "md5,xxh64", card, "ascmhl")
    ascmhl(COMPLETE, "diff", card)
    ascmhl(COMPLETE, "create", "-h", "xxh128", card)
    godwit(COMPLETE, "verify", "--extra", card / "ascmhl", card)
    assert [len(generations(root)) for root in (card, card / "reel")] == [2, 3]
