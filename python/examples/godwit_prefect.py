"""Owns a Prefect task that moves data, and a flow that shows it. Needs: pip install godwit prefect."""

from __future__ import annotations

from typing import Any, Optional

from prefect import flow, get_run_logger, task
from prefect.runtime import task_run

import godwit


@task(retries=2, retry_delay_seconds=30)
def transfer(source: str, destination: str, *, node: Optional[str] = None, **options: Any) -> str:
    """Submits a job and waits for it; a task that Prefect runs again takes up the same job."""
    options.setdefault("idempotency_key", f"prefect-{task_run.id}")
    with godwit.Client(node) as client:
        job = client.submit(source, destination, **options)
        get_run_logger().info("job %s: %s to %s", job.id, source, destination)
        if job.state in ("failed", "partial", "cancelled"):
            job.retry()
        return job.wait().id


@flow
def nightly(source: str, destination: str) -> str:
    """One transfer; a real flow has steps before and after it."""
    return transfer(source, destination, label="prefect")
