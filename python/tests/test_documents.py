"""The commands and the code of docs/python.md run, with two real nodes. Commands that install are parsed."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import godwit

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text()
# Places of the page, and those of the nodes of the tests.
PLACES = {"siteA:/data/": "here:/data/", "siteB:/archive/": "siteB:/data/archive/"}
# The job of the page must last while it is paused and cancelled.
SLOW = ('limit="300MB/s"', 'limit="200kB/s"')


def commands():
    return [line.strip() for line in PAGE.splitlines() if line.startswith("    ") and not is_fenced(line)]


def is_fenced(line):
    return any(line in block for block in blocks())


def blocks():
    return re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def cells():
    """The code in the tables of the page."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| `") or "| `client" in line]
    return [code for row in rows for code in re.findall(r"`([^`]+)`", row)]


def here(code):
    for page, test in PLACES.items():
        code = code.replace(page, test)
    return code.replace(*SLOW)


@pytest.fixture
def page(sites, monkeypatch, tmp_path):
    for name in ("run42", "a", "b"):
        sites.a.write(f"{name}/file", 3_000_000)
    (sites.b.data / "archive").mkdir(exist_ok=True)
    monkeypatch.setenv("GODWIT_SOCKET", str(sites.a.socket))
    monkeypatch.chdir(tmp_path)
    return sites


def test_the_commands_of_the_page_install_or_start_what_is_there():
    found = commands()
    assert [shlex.split(line, comments=True)[0] for line in found] == ["pip", "pip", "godwit-mcp"]
    extras = set(re.findall(r"^(\w+) = \[", (ROOT / "python" / "pyproject.toml").read_text(), re.MULTILINE))
    for line in found[:2]:
        pip, install, package = shlex.split(line, comments=True)
        assert (pip, install) == ("pip", "install")
        path, _, extra = package.partition("[")
        assert (ROOT / path / "pyproject.toml").is_file()
        assert not extra or extra.rstrip("]") in extras
    for extra in re.findall(r"\./python\[(\w+)\]", PAGE):
        assert extra in extras
    for target in re.findall(r"`make (\w+)`", PAGE):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target


def test_the_server_of_the_page_starts_and_ends_with_its_input(page):
    pytest.importorskip("mcp", reason="the package mcp needs Python 3.10 or later")
    (line,) = [line for line in commands() if line.startswith("godwit-mcp")]
    program, *arguments = shlex.split(line, comments=True)
    path = Path(sys.executable).with_name(program)
    done = subprocess.run([path, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    for flag in re.findall(r"`(--[a-z-]+)`", PAGE):
        shown = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=120, check=True)
        assert flag in shown.stdout, flag


def test_the_first_code_of_the_page_copies(page, capsys):
    exec(compile(here(blocks()[0]), "docs/python.md", "exec"), {})
    assert (page.b.data / "archive" / "run42" / "file").stat().st_size == 3_000_000


def test_each_statement_of_a_job_does_what_the_page_says(page, client):
    """The page lists calls, each for another state of a job: here the job is brought to the state that a call needs."""
    first, *code = ast.parse(here(blocks()[1])).body
    names = {"client": client}

    def run(statement):
        exec(compile(ast.Module([statement], []), "docs/python.md", "exec"), names)

    run(first)
    job = names["job"]
    waits = [statement for statement in code if ast.unparse(statement).startswith("job.wait(")]
    assert len(waits) == 1
    for statement in [one for one in code if one not in waits]:
        text = ast.unparse(statement)
        if text == "job.retry()":
            job.wait(60, check=False)
            assert job.state == "cancelled"
        run(statement)
        if text.startswith("job.change("):
            run(waits[0])
            assert job.state == "complete"
    called = {ast.unparse(statement).split("(")[0] for statement in code}
    assert {"job.pause", "job.resume", "job.cancel", "job.retry", "job.change", "job.report"} <= called
    assert (page.b.data / "archive" / "a" / "file").stat().st_size == 3_000_000


def test_the_calls_of_the_tables_are_taken(page, client):
    job = client.submit("here:/data/run42", "siteB:/data/archive/", manifest=True).wait(60)
    names = {"client": client, "godwit": godwit, "id": job.id}
    calls = [code for code in cells() if code.startswith("client.") and code.endswith(")")]
    assert len(calls) == 5
    for code in calls:
        found = eval(here(code), names)
        if code.startswith("client.ls("):
            assert "run42" in {entry["name"] for entry in found}
    assert Path("run42.manifest").stat().st_size > 0
    taken = set(inspect.signature(godwit.Client).parameters)
    clients = [code for code in cells() if code.startswith("Client(")]
    assert len(clients) == 3
    for code in clients:
        call = ast.parse(code, mode="eval").body
        assert {keyword.arg for keyword in call.keywords} <= taken, code


def test_the_names_of_the_page_exist(client):
    groups = re.findall(r"`client\.(\w+)`", PAGE)
    assert len(groups) >= 10
    for name in groups:
        assert hasattr(client, name), name
    for name in re.findall(r"^\| `(\w+Error)` \|", PAGE, re.MULTILINE):
        assert issubclass(getattr(godwit, name), godwit.GodwitError), name
    for name in re.findall(r"`client\.(\w+)\.(\w+)\(", PAGE):
        assert callable(getattr(getattr(client, name[0]), name[1])), name
    for path in re.findall(r"\]\(\.\./(python/[^)]+)\)", PAGE):
        assert (ROOT / path).exists(), path
    assert os.access(ROOT / "scripts" / "python.sh", os.X_OK)
