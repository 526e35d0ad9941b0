"""The generated modules say what the documents say, and each operation is there or left out by name."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import godwit
from godwit.api import AsyncGroups, Groups
from godwit.api.codes import CATALOGUE

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "tools"))

import generate  # noqa: E402
from operations import BY_HAND, LEFT_OUT, NAMES, NOT_TWICE  # noqa: E402

DOCUMENT = json.loads((ROOT / "docs" / "openapi.json").read_text())
OPERATIONS = {
    operation["operationId"]: (method, path, operation)
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
}


class Recorder:
    """Takes calls in place of a node."""

    def send(self, call):
        self.call = call


def test_the_modules_are_as_the_documents_make_them():
    assert generate.stale() == []


def test_each_operation_is_in_one_table():
    tables = (NAMES, BY_HAND, LEFT_OUT)
    assert set(OPERATIONS) == set().union(*tables)
    assert sum(map(len, tables)) == len(OPERATIONS)
    assert set(NOT_TWICE) <= set(NAMES)
    assert callable(godwit.Client.events)


@pytest.mark.parametrize("known", sorted(NAMES))
def test_each_method_sends_the_request_of_its_operation(known):
    method, path, operation = OPERATIONS[known]
    group, name = NAMES[known].split(".")
    recorder = Recorder()
    parameters = operation.get("parameters", [])
    in_path = [one["name"] for one in parameters if one["in"] == "path"]
    required = [one["name"] for one in parameters if one["in"] == "query" and one.get("required")]
    optional = {one["name"]: "x" for one in parameters if one["in"] == "query" and not one.get("required")}
    body = [{}] if "requestBody" in operation else []
    made = getattr(getattr(Groups(recorder), group), name)
    made(*[f"{one}/ü?" for one in in_path], *["x" for _ in required], *body, **optional)
    call = recorder.call
    assert call.method == method.upper()
    for one in in_path:
        path = path.replace(f"{{{one}}}", f"{one}%2F%C3%BC%3F")
    assert call.path == path
    assert call.parameters() == {**dict.fromkeys(required, "x"), **optional}
    assert (call.body is not None) == bool(body)
    assert hasattr(getattr(AsyncGroups(recorder), group), name)


def test_no_text_leaves_its_part_of_a_path():
    recorder = Recorder()
    for text, part in (("..", "%2E%2E"), ("a.b", "a.b"), ("a/b?c=d&e#f", "a%2Fb%3Fc%3Dd%26e%23f")):
        Groups(recorder).jobs.get(text)
        assert recorder.call.path == f"/api/v1/jobs/{part}"


def test_a_submission_takes_each_field_of_a_job():
    from godwit.api.schemas import NewJob
    from godwit.submission import Options, description

    fields = {*NewJob.__annotations__} - {"sources", "destination"}
    assert fields == {*Options.__annotations__} - {"idempotency_key"}
    texts = {name: {} if name == "settings" else [] if name in ("list", "more_destinations") else "x" for name in fields}
    assert {*description("a:/b", "c:/d", texts)} == fields | {"sources", "destination"}  # type: ignore[arg-type]


def test_the_catalogue_is_that_of_the_document():
    rows = re.findall(r"^\| `(\w+)` \| (\d) \|", (ROOT / "docs" / "failures.md").read_text(), re.MULTILINE)
    assert {code: entry.exit for code, entry in CATALOGUE.items()} == {code: int(status) for code, status in rows}
    assert len(rows) > 100


def test_the_version_is_that_of_the_workspace():
    cargo = (ROOT / "Cargo.toml").read_text()
    assert re.search(r'^version = "(.*)"', cargo, re.MULTILINE)[1] == godwit.__version__
    assert DOCUMENT["info"]["version"] == godwit.__version__
