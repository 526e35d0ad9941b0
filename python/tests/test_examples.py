"""The examples run, each with its tool and a real node. A tool that is not installed is named as skipped."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
MISSING = "%s is not installed here (GODWIT_EXAMPLE_TOOLS=1 scripts/python.sh installs it beside the others)"


def needs(module):
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=MISSING % module)


def arranged(sites, name):
    sites.a.write(f"{name}/file", 5000)
    return {**os.environ, "GODWIT_SOCKET": str(sites.a.socket)}


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
    run(f"from snakemake.cli import main; main({arguments!r})", tmp_path, environment)
    arrived(sites, client, "snakemake", "snakemake")
    assert (tmp_path / "sum.txt").read_text() == "5000 file\n"


@needs("prefect")
def test_the_prefect_task_runs(sites, client, tmp_path):
    environment = {**arranged(sites, "prefect"), "PREFECT_HOME": str(tmp_path / "prefect"), "PYTHONPATH": str(EXAMPLES)}
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
