"""A call that was handed over: a future that knows its job."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future as _Future
from pathlib import Path
from typing import Any, TypeVar

from . import _html, _program
from ._program import PinfoldError
from ._views import Usage, Why

T = TypeVar("T")


class JobFailed(PinfoldError):
    """A job that ended without a result: killed, out of memory, refused by the host, or ended by `sys.exit`."""

    def __init__(self, message: str, job_id: int, view: Mapping[str, Any], stderr: str) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.exit_code: int | None = view["exit_code"]
        self.signal: int | None = view["signal"]
        #: What ended it, where that was not itself: `timeout`, `dependency`.
        self.end: str | None = view.get("end")
        #: The end of what it wrote to standard error.
        self.stderr = stderr


class EndNotRecorded(PinfoldError):
    """What a job used is not known as a whole: its call is over, and its end was not recorded in time."""

    def __init__(self, name: str, usage: Usage, timeout: float | None) -> None:
        super().__init__(
            f"{name}: the call is over, but the end of job {usage.job_id} was not recorded within {timeout} s (it is "
            f"{usage.state}), so its exit status and its last figures are missing; `pinfold why {usage.job_id}` says more"
        )
        self.job_id = usage.job_id
        #: What it used so far.
        self.usage = usage


class RemoteError(Exception):
    """A call's own error, where that could not be brought over; as the cause of one that could, its traceback there."""

    def __init__(self, traceback: str) -> None:
        super().__init__(traceback)
        self.traceback = traceback

    def __str__(self) -> str:
        return f"\n{self.traceback}"


class Future(_Future[T]):
    """The result to come of a call, as `concurrent.futures.Future`, and its job.

    It counts as pending until its result is there, so that `cancel` works while the job runs, too; `running` tells
    whether it does.
    """

    def __init__(self, name: str, directory: Path, forget: Callable[[Future[T]], None]) -> None:
        super().__init__()
        self._name = name
        self._directory = directory
        self._forget = forget
        self._job_id: int | None = None
        self._job_state = "waiting"
        # Cancelled or settled: whichever is first tells whoever waits.
        self._first = threading.RLock()

    def __repr__(self) -> str:
        return f"<pinfold.Future {self._name} job={self._job_id} {self.state}>"

    def _repr_html_(self) -> str:
        """What a notebook shows of it, from what is known here: the daemon is not asked."""
        rows: list[tuple[str, object]] = [("call", self._name), ("job", self._job_id or "-"), ("state", self.state)]
        error = self.exception() if self.done() and not self.cancelled() else None
        if error is not None:
            rows.append((type(error).__name__, str(error).strip()))
        return _html.table(rows)

    @property
    def job_id(self) -> int | None:
        """The job's number; `None`: the call has not been handed over yet."""
        return self._job_id

    @property
    def state(self) -> str:
        """As last seen: `waiting` (not handed over yet), `queued`, `held`, `running`, `frozen`, `parked`; when it is over
        `done`, `failed` or `cancelled`."""
        if self.cancelled():
            return "cancelled"
        if self.done():
            return "failed" if self.exception() is not None else "done"
        return self._job_state

    def running(self) -> bool:
        """Whether its job has started and is not over; frozen ones have."""
        return not self.done() and self._job_state in ("running", "frozen", "parked")

    def cancel(self) -> bool:
        """Ends the job, also one that runs (SIGTERM, and SIGKILL 10 s later). False: the result is there already."""
        with self._first:
            before = self.cancelled()
            if not super().cancel():
                return False
            if not before:
                # Whoever waits for it is told.
                self.set_running_or_notify_cancel()
        if not before:
            self._forget(self)
        return True

    def _settle(self, value: T | None, error: BaseException | None) -> None:
        """Gives it its result, or its error, unless it was cancelled."""
        with self._first:
            if self.cancelled():
                return
            self.set_running_or_notify_cancel()
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(value)  # type: ignore[arg-type]

    def usage(self, timeout: float | None = 30) -> Usage:
        """What its job used; so far, while it runs. Of one whose result is there, or that was cancelled, the whole.

        That is known once the job's end is recorded, as a rule a moment after the result is there; it takes longer where
        the job's processes go on after that. Then it is waited for, at most `timeout` seconds; `None`: for as long as it
        takes. One that is cancelled is killed after 10 s.

        Raises:
            EndNotRecorded: when the end is not recorded by then; with the figures so far.
            PinfoldError: when the call was not handed over, or pinfold cannot be asked.
        """
        job = self._known()
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.02
        while True:
            usage = self._report(job)
            if not self.done() or usage.state == "exited":
                return usage
            if deadline is not None and time.monotonic() >= deadline:
                raise EndNotRecorded(self._name, usage, timeout)
            time.sleep(pause)
            pause = min(pause * 1.5, 0.5)

    def why(self) -> Why:
        """Why its job is in its state, what would change that, and the decisions about it so far."""
        return Why.of(_program.ask("why", str(self._known())))

    def stdout(self) -> str:
        """What it wrote to standard output so far."""
        return self._said("out")

    def stderr(self) -> str:
        """What it wrote to standard error so far."""
        return self._said("err")

    def _report(self, job: int) -> Usage:
        return Usage.of(_program.ask("report", str(job)))

    def _known(self) -> int:
        if self._job_id is None:
            raise PinfoldError(f"{self._name}: it was not handed over, so pinfold knows nothing of it")
        return self._job_id

    def _said(self, stream: str) -> str:
        try:
            return (self._directory / stream).read_text(errors="replace")
        except OSError:
            return ""
