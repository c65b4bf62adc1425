"""Python functions as jobs of pinfold, which makes one Linux machine finish more batch work."""

from ._executor import Executor
from ._future import EndNotRecorded, Future, JobFailed, RemoteError
from ._program import PinfoldError, ask, program, run, states
from ._progress import progress
from ._resources import Resources
from ._views import Decision, Usage, Why

__all__ = [
    "Decision",
    "EndNotRecorded",
    "Executor",
    "Future",
    "JobFailed",
    "PinfoldError",
    "RemoteError",
    "Resources",
    "Usage",
    "Why",
    "ask",
    "program",
    "progress",
    "run",
    "states",
]
