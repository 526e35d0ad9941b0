"""Texts that others chose, where a user sees them: none steers the terminal, becomes markup, or turns its direction."""

from __future__ import annotations

import io
from typing import Any

import pytest

import godwit
from godwit import errors, progress
from godwit.shown import printable, printable_lines

EVIL = "\x1b]0;title\x07[/]\u202egpj.exe\r\nnext"
SHOWN = "\\x1b]0;title\\x07[/]\\u202egpj.exe\\r\\nnext"


def view(label: str) -> Any:
    return {"id": "j1", "label": label, "state": "running", "progress": {"bytes": 1, "bytes_total": 2, "bottleneck": EVIL}}


def test_lines_stay_lines_and_letters_stay_letters():
    assert printable(EVIL) == SHOWN
    assert printable_lines("Größe\t1\nétude") == "Größe\t1\nétude"


def test_a_label_steers_no_terminal():
    out = io.StringIO()
    progress.Lines(out).show(view(EVIL))
    assert SHOWN in out.getvalue() and "\x1b" not in out.getvalue() and out.getvalue().count("\n") == 1


def test_a_label_is_no_markup_of_a_bar(capfd):
    pytest.importorskip("rich")
    with progress.Rich(view(EVIL)) as bar:
        # A closing mark without an opening one would be an error.
        bar.show(view(EVIL))
    assert "\u202e" not in capfd.readouterr().err


def test_the_words_of_a_node_steer_no_terminal():
    problem = errors.problem_of(400, {"code": "x\x1b", "detail": EVIL, "title": ""}, "")
    refused = errors.RefusedError("the node", problem)
    assert isinstance(refused, godwit.GodwitError)
    assert "\x1b" not in str(refused) and "\u202e" not in str(refused)
    # A program gets the characters unchanged.
    assert refused.detail == EVIL
