"""submitit on pinfold, where submitit is installed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

import pinfold

submitit = pytest.importorskip("submitit", reason="submitit is not installed")


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """submitit sends what is in a module by its name, so jobs must be able to import this one."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def executor(place: Path, **parameters: object) -> submitit.AutoExecutor:
    made = submitit.AutoExecutor(folder=place / "it's %j", cluster="pinfold")
    made.update_parameters(**parameters)
    return made


class Resumes:
    """Waits to be told to write a checkpoint, and is over once it was started again."""

    def __init__(self, started: str = "first") -> None:
        self.started = started

    def __call__(self, place: str) -> str:
        Path(place, self.started).touch()
        while self.started == "first":
            time.sleep(0.02)
        return f"{self.started} in job {os.environ['PINFOLD_JOB_ID']}"

    def checkpoint(self, place: str) -> object:
        return submitit.helpers.DelayedSubmission(Resumes("second"), place)


def fails() -> None:
    raise ValueError("as it should")


def test_results_and_errors(tmp_path: Path) -> None:
    made = executor(tmp_path, name="mine", timeout_min=5, mem_gb=1, pinfold_priority=4)
    job = made.submit(pow, 3, 4)
    assert job.result() == 81
    report = pinfold.ask("report", job.job_id)
    assert (report["name"], report["claim_bytes"], report["priority"]) == ("mine", 1 << 30, 4)
    assert "Job completed successfully" in job.stderr() + (job.stdout() or "")
    error = made.submit(fails).exception()
    assert "as it should" in str(error)
    with pytest.raises(ValueError, match="no GPUs"):
        made.update_parameters(gpus_per_node=1)
    assert submitit.AutoExecutor(folder=tmp_path).cluster != "pinfold"


def test_many_and_tasks(tmp_path: Path) -> None:
    jobs = executor(tmp_path, timeout_min=5).map_array(pow, [2, 3, 4], [2, 2, 2])
    assert [job.result() for job in jobs] == [4, 9, 16]
    tasks = executor(tmp_path, timeout_min=5, tasks_per_node=2, cpus_per_task=1).submit(os.getenv, "PINFOLD_TASK_ID")
    assert tasks.results() == ["0", "1"]


def test_it_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    job = executor(tmp_path, timeout_min=60).submit(Resumes(), str(tmp_path))
    while not (tmp_path / "first").exists():
        time.sleep(0.02)
    job._interrupt()
    assert job.result() == f"second in job {job.job_id}"


def test_a_second_signal_does_not_end_it_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    from pinfold.submitit import REQUEUE, PinfoldJobEnvironment

    monkeypatch.setenv("PINFOLD_JOB_ID", "7")
    before = signal.getsignal(signal.SIGUSR2)
    try:
        with pytest.raises(SystemExit) as ended:
            PinfoldJobEnvironment()._requeue(1)
        os.kill(os.getpid(), signal.SIGUSR2)
        assert (ended.value.code, signal.getsignal(signal.SIGUSR2)) == (REQUEUE, signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_cancel(tmp_path: Path) -> None:
    job = executor(tmp_path, timeout_min=60).submit(Resumes(), str(tmp_path))
    while not (tmp_path / "first").exists():
        time.sleep(0.02)
    job.cancel()
    while not job.done(force_check=True):
        time.sleep(0.1)
    assert job.state in ("CANCELLED", "FAILED")
