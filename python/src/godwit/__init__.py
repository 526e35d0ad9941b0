"""Owns the names of the package: a client of Godwit, the open data mover."""

from .async_client import AsyncClient
from .client import Client
from .errors import (
    AnswerError,
    CannotReachError,
    CertificateError,
    GodwitError,
    JobError,
    RefusedError,
    SetupError,
    StillRunningError,
)
from .events import Event, JobChanged, Missed, Progressed
from .job import AsyncJob, Job
from .version import VERSION

__version__ = VERSION

__all__ = [
    "AnswerError",
    "AsyncClient",
    "AsyncJob",
    "CannotReachError",
    "CertificateError",
    "Client",
    "Event",
    "GodwitError",
    "Job",
    "JobChanged",
    "JobError",
    "Missed",
    "Progressed",
    "RefusedError",
    "SetupError",
    "StillRunningError",
    "__version__",
]
