"""An evaluation of root in directories of other users: it writes, makes and removes nothing there, and says why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("polars", reason="the extra `evaluate` is not installed")

import godwit
from godwit.evaluate import plan as plans
from godwit.evaluate import report, sets, way
from godwit.evaluate.results import Results

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give directories away")

STRANGER = 4321
ABOUT = {"plan": "", "scale": 1.0, "source": "a:/", "destination": "b:/"}


@pytest.fixture
def foreign(tmp_path):
    """A directory of another user, on the way to what root names."""
    made = tmp_path / "foreign"
    made.mkdir()
    os.chown(made, STRANGER, -1)
    return made


def test_results_follow_no_link_of_another_user(tmp_path, foreign):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    for name in ("about.json", "runs.csv", "runs.parquet", "report.html"):
        (foreign / name).symlink_to(precious)
    with pytest.raises(godwit.SetupError, match=f"uid {STRANGER}"):
        Results(foreign).begin(ABOUT)
    with pytest.raises(godwit.SetupError, match=f"uid {STRANGER}"):
        Results(foreign).put_machines({"near": {}})
    with pytest.raises(godwit.SetupError, match=f"uid {STRANGER}"):
        report.write(foreign)
    assert precious.read_text() == "precious"
    # The directories above count, too.
    with pytest.raises(godwit.SetupError, match=f"uid {STRANGER}"):
        Results(foreign / "out" / "deep").begin(ABOUT)
    assert not (foreign / "out").exists()


def test_sets_are_neither_made_nor_removed_in_a_directory_of_another_user(tmp_path, foreign, monkeypatch):
    monkeypatch.setenv("GODWIT", "/bin/true")
    places = {"source": "here:/data", "destination": "siteB:/data", "source_directory": str(foreign)}
    document = {"data": [{"name": "s", "spec": "1x1KiB"}], "ends": ["disk"], "run": {"repetitions": 1}}
    plan = plans.parse("x", document, places)
    precious = tmp_path / "precious"
    (foreign / ".godwit-evaluate.json.s").symlink_to(precious)
    with pytest.raises(godwit.SetupError, match=f"uid {STRANGER}"):
        sets.make(plan, plan.data[0], 1.0)
    assert not precious.exists()
    precious.write_text("{}")
    (foreign / "s").mkdir()
    with pytest.raises(godwit.SetupError, match=f"uid {STRANGER}"):
        sets.remove_one(plan, plan.data[0])
    assert (foreign / "s").exists() and precious.exists()


def test_links_and_directories_that_others_may_write_are_judged(tmp_path, foreign):
    own = tmp_path / "own"
    own.mkdir(mode=0o755)
    way.check(own / "missing" / "out")
    by_link = tmp_path / "link"
    by_link.symlink_to(own)
    way.check(by_link / "out")
    os.lchown(by_link, STRANGER, -1)
    with pytest.raises(godwit.SetupError, match="link belongs to another user"):
        way.check(by_link / "out")
    into = tmp_path / "into"
    into.symlink_to("foreign")
    with pytest.raises(godwit.SetupError, match="foreign belongs to another user"):
        way.check(into)
    own.chmod(0o777)
    with pytest.raises(godwit.SetupError, match="mode 777"):
        way.check(own / "out")
    # No other user replaces an entry of root in a sticky directory.
    own.chmod(0o1777)
    way.check(own / "out")
    (own / "out").mkdir()
    os.chown(own / "out", STRANGER, -1)
    with pytest.raises(godwit.SetupError, match="out belongs to another user"):
        way.check(own / "out")
    for name, target in (("one", "two"), ("two", "one")):
        (tmp_path / name).symlink_to(target)
    with pytest.raises(godwit.SetupError):
        way.check(tmp_path / "one")


def test_a_shared_directory_takes_a_set_but_no_file_that_others_could_have_linked(tmp_path, monkeypatch):
    monkeypatch.setenv("GODWIT", "/bin/true")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    places = {"source": "here:/data", "destination": "siteB:/data", "source_directory": str(shared)}
    document = {"data": [{"name": "s", "spec": "1x1KiB"}], "ends": ["disk"], "run": {"repetitions": 1}}
    plan = plans.parse("x", document, places)
    mark = shared / ".godwit-evaluate.json.s"
    precious = tmp_path / "precious"
    precious.write_text("{}")
    mark.symlink_to(precious)
    os.lchown(mark, STRANGER, -1)
    for act in (lambda: sets.make(plan, plan.data[0], 1.0), lambda: sets.remove_one(plan, plan.data[0])):
        with pytest.raises(godwit.SetupError, match=f"uid {STRANGER}"):
            act()
    assert precious.read_text() == "{}"
    mark.unlink()
    sets.make(plan, plan.data[0], 1.0)
    assert mark.is_file()
    sets.remove_one(plan, plan.data[0])
    assert not mark.exists()
    # Results have many files, and each of their names is known.
    (shared / "about.json").symlink_to(precious)
    with pytest.raises(godwit.SetupError, match="mode 1777"):
        Results(shared).begin(ABOUT)
    assert precious.read_text() == "{}"
    Results(shared / "out").begin(ABOUT)


def test_another_user_than_root_writes_where_it_may(foreign, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    way.check(Path(foreign))
