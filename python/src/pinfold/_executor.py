"""`Executor`: calls as jobs.

Three threads serve it. The first hands calls over (`pinfold submit`), at most `max_workers` at a time. The second looks for
results: files in the executor's directory, which cost no question to the daemon, and once a second the states of the jobs
that have none (`pinfold status`). The third ends the jobs of cancelled calls (`pinfold cancel`), so that no caller waits for
that, an event loop above all. They end with the executor.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor as _Executor
from concurrent.futures import Future as _Future
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import cloudpickle

from . import _html, _program
from ._future import Future, JobFailed, RemoteError
from ._program import PinfoldError
from ._progress import summary
from ._resources import Resources

T = TypeVar("T")
P = ParamSpec("P")

_LOG = logging.getLogger("pinfold")

#: How often results are looked for, at first and at most, in seconds.
_LOOK = (0.005, 0.1)
#: How often the daemon is asked for states.
_ASK = 1.0
#: How much of what a failed job wrote is in its error.
_TAIL = 2000
#: How long it is tried to end a job while no daemon answers, and how often, in seconds.
_END = (60.0, 0.5)
#: How many calls are with the daemon at once, unless it is said: each has a keeper process.
_AT_ONCE = 256


class _Core:
    """What all views of one executor share: the queue, the jobs, the directory, the threads."""

    def __init__(self, max_workers: int, directory: str | os.PathLike[str] | None) -> None:
        self.max_workers = max_workers
        self.directory = Path(tempfile.mkdtemp(prefix="pinfold-", dir=directory)).absolute()
        self.changed = threading.Condition()
        self.waiting: deque[tuple[Future[Any], Resources, bytes]] = deque()
        self.handed_over: dict[int, Future[Any]] = {}
        self.submitting: Future[Any] | None = None
        #: Jobs of cancelled calls, to be ended.
        self.ending: list[int] = []
        self.closed = False
        self.made = 0
        #: How many calls ended in which state. Its lock is taken with no other inside.
        self.ended: Counter[str] = Counter()
        self.counting = threading.Lock()
        self.threads = [
            threading.Thread(target=serve, name=f"pinfold-{what}", daemon=True)
            for what, serve in (("submit", self.hand_over), ("watch", self.watch), ("end", self.end_jobs))
        ]
        for thread in self.threads:
            thread.start()

    def pending(self) -> int:
        """Calls without a result."""
        return len(self.waiting) + len(self.handed_over) + (self.submitting is not None)

    def add(self, name: str, resources: Resources, call: bytes) -> Future[Any]:
        with self.changed:
            if self.closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self.made += 1
            future: Future[Any] = Future(name, self.directory / str(self.made), self.forget)
            self.waiting.append((future, resources, call))
            self.changed.notify_all()
        future.add_done_callback(self.count)
        return future

    def count(self, future: _Future[Any]) -> None:
        """A call is over."""
        with self.counting:
            self.ended["cancelled" if future.cancelled() else "failed" if future.exception() else "done"] += 1

    def counts(self) -> Counter[str]:
        """How many calls are in which state, as last seen."""
        with self.changed:
            left = [item[0] for item in self.waiting] + list(self.handed_over.values())
            left += [self.submitting] if self.submitting is not None else []
            # One that has just ended is counted by its end.
            counts = Counter(future.state for future in left if not future.done())
        with self.counting:
            counts.update(self.ended)
        return counts

    # The thread that hands over.

    def hand_over(self) -> None:
        while (item := self.next_call()) is not None:
            future, resources, call = item
            job = None
            try:
                job = self.submit(future, resources, call)
            except Exception as error:
                future._settle(None, error)
            with self.changed:
                self.submitting = None
                if job is not None:
                    future._job_id = job
                    future._job_state = "queued"
                    if future.cancelled():
                        self.ending.append(job)
                    else:
                        self.handed_over[job] = future
                self.changed.notify_all()

    def next_call(self) -> tuple[Future[Any], Resources, bytes] | None:
        with self.changed:
            while True:
                while self.waiting and self.waiting[0][0].cancelled():
                    self.waiting.popleft()
                    self.changed.notify_all()
                if self.waiting and len(self.handed_over) < self.max_workers:
                    item = self.waiting.popleft()
                    self.submitting = item[0]
                    return item
                if self.closed and not self.waiting:
                    return None
                self.changed.wait()

    def submit(self, future: Future[Any], resources: Resources, call: bytes) -> int:
        place = future._directory
        if "--private-tmp" in resources.options and place.is_relative_to("/tmp"):
            raise ValueError(f"--private-tmp hides {self.directory}, where the call is; name another `directory`")
        place.mkdir(mode=0o700)
        (place / "path").write_bytes(pickle.dumps(sys.path))
        (place / "call").write_bytes(call)
        # A sign of percent in the path stands for itself.
        out, err = (str(place / name).replace("%", "%%") for name in ("out", "err"))
        files = ["-o", out, "-e", err]
        worker = [sys.executable, "-m", "pinfold._worker", str(place)]
        answer = _program.ask("submit", *resources.with_(name=future._name).arguments(), *files, "--", *worker)
        return int(answer["job"])

    # The thread that looks for results.

    def watch(self) -> None:
        pause, asked = _LOOK[0], 0.0
        while True:
            with self.changed:
                if not self.handed_over:
                    if self.closed and not self.waiting and self.submitting is None:
                        return
                    self.changed.wait()
                    pause = _LOOK[0]
                    continue
                jobs = dict(self.handed_over)
            found = [job for job, future in jobs.items() if self.has_result(future)]
            for job in found:
                self.finish(job, jobs.pop(job))
            if time.monotonic() - asked >= _ASK and jobs:
                self.ask(jobs)
                asked = time.monotonic()
            pause = _LOOK[0] if found else min(pause * 1.5, _LOOK[1])
            with self.changed:
                self.changed.wait(pause)

    @staticmethod
    def has_result(future: Future[Any]) -> bool:
        return (future._directory / "result").exists()

    def ask(self, jobs: dict[int, Future[Any]]) -> None:
        """Looks how the jobs stand that have no result yet."""
        try:
            views = _program.states(list(jobs))
        except PinfoldError as error:
            # A daemon that is away: the jobs run on, and the next one knows them.
            _LOG.debug("status: %s", error)
            return
        for job, view in views.items():
            future = jobs[job]
            if view["state"] != "exited":
                future._job_state = view["state"]
            elif self.has_result(future):
                self.finish(job, future)
            else:
                self.fail(job, future, view)

    def finish(self, job: int, future: Future[Any]) -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            succeeded, answer = pickle.loads((future._directory / "result").read_bytes())
            if succeeded:
                value = pickle.loads(answer)
            else:
                pickled, text = answer
                remote = RemoteError(text)
                error = remote if pickled is None else pickle.loads(pickled)
                if error is not remote and error is not None:
                    error.__cause__ = remote
        except Exception as trouble:
            error = trouble
        self.settle(job, future, value, error)

    def fail(self, job: int, future: Future[Any], view: dict[str, Any]) -> None:
        ended = view["reason"] or "it ended without a result"
        if view["signal"] is not None:
            name = signal.Signals(view["signal"]).name if view["signal"] in set(signal.Signals) else view["signal"]
            ended = f"ended by {name} ({ended})"
        elif view["exit_code"] is not None:
            ended = f"exit code {view['exit_code']} ({ended})"
        said = future.stderr()[-_TAIL:].strip()
        message = f"job {job} ({future._name}): {ended}" + (f"; it said:\n{said}" if said else "")
        self.settle(job, future, None, JobFailed(message, job, view, said))

    def settle(self, job: int, future: Future[Any], value: Any, error: BaseException | None) -> None:
        with self.changed:
            if self.handed_over.pop(job, None) is None:
                return
            self.changed.notify_all()
        future._settle(value, error)
        for name in ("call", "path", "result"):
            # What cannot be removed now goes with the directory.
            with contextlib.suppress(OSError):
                (future._directory / name).unlink(missing_ok=True)

    def forget(self, future: Future[Any]) -> None:
        """A future was cancelled: so is its job. One that is just being handed over is ended after that."""
        with self.changed:
            job = future._job_id
            if job is not None and self.handed_over.pop(job, None) is not None:
                self.ending.append(job)
            self.changed.notify_all()

    # The thread that ends jobs.

    def end_jobs(self) -> None:
        while jobs := self.next_to_end():
            deadline = time.monotonic() + _END[0]
            while not end(jobs):
                if time.monotonic() >= deadline:
                    _LOG.warning("no daemon answers: jobs of cancelled calls run on: %s", jobs)
                    break
                time.sleep(_END[1])

    def next_to_end(self) -> list[int]:
        """The jobs to be ended next; none: there will be no more."""
        with self.changed:
            while not self.ending and not (self.closed and self.pending() == 0):
                self.changed.wait()
            jobs, self.ending = self.ending, []
            return jobs

    def close(self, wait: bool, cancel_futures: bool) -> None:
        with self.changed:
            self.closed = True
            cancelled = [future for future, _, _ in self.waiting] if cancel_futures else []
            if cancel_futures and self.submitting is not None:
                cancelled.append(self.submitting)
            cancelled += self.handed_over.values() if cancel_futures else []
            self.changed.notify_all()
        for future in cancelled:
            future.cancel()
        if wait:
            for thread in self.threads:
                thread.join()
            shutil.rmtree(self.directory, ignore_errors=True)
            _CORES.discard(self)


def end(jobs: list[int]) -> bool:
    """Ends jobs; one that is over already needs no end. False: there was no daemon to tell."""
    try:
        _program.run(["cancel", *map(str, jobs)])
    except PinfoldError as error:
        _LOG.debug("cancel %s: %s", jobs, error)
        return error.code not in (_program.NO_DAEMON, _program.NO_PROGRAM)
    return True


#: Those that are not shut down.
_CORES: set[_Core] = set()


@atexit.register
def _close_all() -> None:
    """At the end of the interpreter calls are waited for, as other executors do."""
    for core in list(_CORES):
        core.close(wait=True, cancel_futures=False)


class Executor(_Executor):
    """Runs calls as jobs of pinfold, each in a Python process of its own.

    Args:
        max_workers: The most calls handed over to the daemon at once; the others wait here. How many of them run, the
            host decides. Each call that is handed over has a small process of its own that waits with it.
        directory: Where calls, results and what calls print are kept until `shutdown`; a new directory is made there.
        resources: What each call asks for; keywords say the same: `Executor(mem="2GiB", cores=2)`.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        directory: str | os.PathLike[str] | None = None,
        resources: Resources | None = None,
        **changes: Any,
    ) -> None:
        if max_workers is not None and max_workers < 1:
            raise ValueError("max_workers must be greater than 0")
        self._resources = (resources or Resources()).with_(**changes)
        self._core = _Core(max_workers or _AT_ONCE, directory)
        _CORES.add(self._core)

    @property
    def resources(self) -> Resources:
        """What each call asks for."""
        return self._resources

    def _repr_html_(self) -> str:
        """What a notebook shows of it, from what is known here: the daemon is not asked."""
        asked = " ".join(self._resources.arguments()) or "-"
        rows = [("each call asks for", asked), ("closed" if self._core.closed else "open", self._core.directory)]
        return f"{summary(self._core.counts())}{_html.table(rows)}"

    def with_resources(self, **changes: Any) -> Executor:
        """The same executor, whose calls ask for something else: `executor.with_resources(mem="2GiB", cores=2)`.

        Its calls count towards the same `max_workers`; `shutdown` of either ends both.
        """
        view = object.__new__(type(self))
        view._resources = self._resources.with_(**changes)
        view._core = self._core
        return view

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Hands a call over; the future has its result, and its job.

        Raises:
            RuntimeError: after `shutdown`.
            pickle.PicklingError, TypeError: when function or arguments cannot be sent.
        """
        name = self._resources.name or getattr(fn, "__name__", None) or type(fn).__name__
        call = cloudpickle.dumps((fn, args, kwargs))
        return self._core.add(name, self._resources, call)

    def map(
        self, fn: Callable[..., T], /, *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[T]:
        """As `concurrent.futures.Executor.map`; with `chunksize` so many calls are one job."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        chunks = super().map(_Chunk(fn), _chunks(zip(*iterables), chunksize), timeout=timeout)
        return (value for chunk in chunks for value in chunk)

    async def run(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of a call, for asyncio; a task that is cancelled ends its job."""
        return await asyncio.wrap_future(self.submit(fn, *args, **kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more calls. `wait`: until all have their results; `cancel_futures`: ends all, those that run, too."""
        self._core.close(wait, cancel_futures)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.shutdown)


class _Chunk:
    """Calls a function with each of several lists of arguments."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.__name__ = getattr(fn, "__name__", type(fn).__name__)

    def __call__(self, chunk: list[tuple[Any, ...]]) -> list[Any]:
        return [self.fn(*arguments) for arguments in chunk]


def _chunks(items: Iterator[tuple[Any, ...]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    while chunk := list(islice(items, size)):
        yield chunk
