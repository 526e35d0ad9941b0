"""The examples run, each with its tool and a real node. A tool that is not installed is named as skipped."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
MISSING = "%s is not installed here (GODWIT_EXAMPLE_TOOLS=1 scripts/python.sh runs each with its tool)"


def needs(module):
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=MISSING % module)


def arranged(sites, name):
    sites.a.write(f"{name}/file", 5000)
    return {**os.environ, "GODWIT_SOCKET": str(sites.a.socket)}


# At 1 MB/s, a job of this size is not done before it is cancelled.
SLOW_BYTES = 3_000_000


def stopped(sites, client, name, **options):
    """A job that a user stopped before its end."""
    sites.a.write(f"{name}/file", SLOW_BYTES)
    client.limits.put("site", "siteB", {"rate": "1MB/s"})
    try:
        job = client.submit(f"here:/data/{name}", f"siteB:/data/{name}", **options)
        job.cancel("the test stopped it")
        assert job.wait(60, check=False).state == "cancelled"
    finally:
        client.limits.remove("site", "siteB")


def arrived(sites, client, name, label):
    assert (sites.b.data / name / "file").stat().st_size == 5000
    assert [job.state for job in client.all_jobs(label=label)] == ["complete"]


def run(program, directory, environment):
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@needs("nbclient")
def test_the_notebook_runs(sites, client, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    environment = arranged(sites, "notebook")
    monkeypatch.setenv("GODWIT_SOCKET", environment["GODWIT_SOCKET"])
    monkeypatch.setenv("EXAMPLE_SOURCE", "here:/data/notebook")
    monkeypatch.setenv("EXAMPLE_DESTINATION", "siteB:/data/notebook")
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    nbformat.validate(notebook)
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("FloatProgress" in str(output) or "HBox" in str(output) for output in outputs)
    assert any("no_source source" in str(output) for output in outputs)
    arrived(sites, client, "notebook", "notebook")


@needs("snakemake")
def test_the_snakemake_rule_runs(sites, client, tmp_path):
    environment = arranged(sites, "snakemake")
    shutil.copy(EXAMPLES / "snakemake" / "Snakefile", tmp_path)
    # A job from elsewhere comes here: the site of the other node is asked for by this one.
    settings = ["source=here:/data/snakemake", "place=siteB:/data/snakemake"]
    arguments = ["--cores", "1", "--config", *settings]
    program = f"from snakemake.cli import main; main({arguments!r})"
    run(program, tmp_path, environment)
    arrived(sites, client, "snakemake", "snakemake")
    assert (tmp_path / "sum.txt").read_text() == "5000 file\n"
    assert not (tmp_path / "fetched.key").exists()
    # A rule that was stopped left its key: started again, it runs the job of that key.
    for result in ("fetched.job", "sum.txt"):
        (tmp_path / result).unlink()
    (tmp_path / "fetched.key").write_text("snakemake-key")
    stopped(sites, client, "again", label="snakemake", idempotency_key="snakemake-key")
    run(program.replace("data/snakemake", "data/again"), tmp_path, environment)
    assert [job.state for job in client.all_jobs(label="snakemake")] == ["complete", "complete"]
    assert (sites.b.data / "again" / "file").stat().st_size == SLOW_BYTES


@needs("prefect")
def test_the_prefect_task_runs(sites, client, tmp_path):
    environment = {**arranged(sites, "prefect"), "PREFECT_HOME": str(tmp_path / "prefect"), "PYTHONPATH": str(EXAMPLES)}
    # Its server starts slowly beside other work.
    environment["PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"] = "300"
    program = "from godwit_prefect import nightly; nightly('here:/data/prefect', 'siteB:/data/prefect')"
    run(program, tmp_path, environment)
    arrived(sites, client, "prefect", "prefect")


@needs("airflow")
def test_the_airflow_operator_runs(sites, client, tmp_path):
    environment = {**arranged(sites, "airflow"), "AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": str(EXAMPLES)}
    environment["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "example.py").write_text(
        """
from airflow.sdk import DAG
from godwit_airflow import GodwitOperator

with DAG("example"):
    GodwitOperator(task_id="move", source="here:/data/airflow", destination="siteB:/data/airflow", job_label="airflow")
"""
    )
    for words in ("db migrate", "dags reserialize", "dags test example"):
        run(f"import sys; from airflow.__main__ import main; sys.argv[1:] = {words.split()!r}; main()", tmp_path, environment)
    arrived(sites, client, "airflow", "airflow")


def bare(*_: object, **__: object):
    """A decorator that leaves the function as it is."""
    return lambda function: function


def test_a_task_that_is_started_after_a_stop_runs_the_same_job_again(sites, client, monkeypatch):
    """Stands in for the two tools, because neither is installed everywhere. It has only the parts that the examples call."""
    monkeypatch.setenv("GODWIT_SOCKET", str(sites.a.socket))
    monkeypatch.syspath_prepend(str(EXAMPLES))

    class BaseOperator:
        log = logging.getLogger("airflow")

        def __init__(self, task_id: str) -> None:
            self.task_id = task_id

    stand_ins = {
        "airflow": {},
        "airflow.sdk": {"BaseOperator": BaseOperator},
        "prefect": {"flow": lambda function: function, "task": bare, "get_run_logger": logging.getLogger},
        "prefect.runtime": {"task_run": SimpleNamespace(id="a-run")},
    }
    for name, content in stand_ins.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**content))
    for name in ("godwit_airflow", "godwit_prefect"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    stopped(sites, client, "stopped-airflow", label="move", idempotency_key="airflow-dag-run-move-0")
    operator = importlib.import_module("godwit_airflow").GodwitOperator(
        task_id="move", source="here:/data/stopped-airflow", destination="siteB:/data/stopped-airflow"
    )
    operator.execute({"ti": SimpleNamespace(dag_id="dag", run_id="run", task_id="move", map_index=0)})

    stopped(sites, client, "stopped-prefect", label="flow", idempotency_key="prefect-a-run")
    transfer = importlib.import_module("godwit_prefect").transfer
    transfer("here:/data/stopped-prefect", "siteB:/data/stopped-prefect", label="flow")
    for name, label in (("airflow", "move"), ("prefect", "flow")):
        assert [job.state for job in client.all_jobs(label=label)] == ["complete"]
        assert (sites.b.data / f"stopped-{name}" / "file").stat().st_size == SLOW_BYTES
        sys.modules.pop(f"godwit_{name}")
