"""Owns an Airflow operator that moves data. Needs: pip install godwit apache-airflow."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from airflow.sdk import BaseOperator

import godwit


class GodwitOperator(BaseOperator):
    """Submits a job and waits for it. A try after a lost worker, or after a stop, takes up the same job.

    Without `node`, the node of the worker's machine is asked. A node elsewhere takes the token of the file that
    GODWIT_TOKEN_FILE names on the worker.
    """

    template_fields: Sequence[str] = ("source", "destination", "job_label")

    def __init__(
        self,
        *,
        source: str,
        destination: str,
        job_label: str = "",
        node: Optional[str] = None,
        options: Optional[dict[str, Any]] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.destination = destination
        self.job_label = job_label
        self.node = node
        self.options = options or {}
        self._job: Optional[str] = None

    def execute(self, context: Any) -> str:
        """Moves the data, and gives the id of the job to the next tasks."""
        instance = context["ti"]
        key = f"airflow-{instance.dag_id}-{instance.run_id}-{instance.task_id}-{instance.map_index}"
        with godwit.Client(self.node) as client:
            label = self.job_label or instance.task_id
            # A key is visible ASCII without spaces; a run id may be otherwise.
            key = "".join(sign if 32 < ord(sign) < 127 else "_" for sign in key)
            job = client.submit(self.source, self.destination, label=label, idempotency_key=key, **self.options)
            self._job = job.id
            # The key finds the job of the last try, which may have ended.
            if job.state in ("failed", "partial", "cancelled"):
                job.retry()
            job.wait()
            self.log.info("%s", job)
            return job.id

    def on_kill(self) -> None:
        """Cancels the job of a task that a user stopped."""
        if self._job:
            with godwit.Client(self.node) as client:
                client.job(self._job).cancel("the Airflow task was stopped")
