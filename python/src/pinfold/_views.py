"""What is known of a job: what it used, and why it is as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Usage:
    """What a job used, from `pinfold report --json`; so far, while it runs."""

    job_id: int
    state: str
    queued_s: float
    #: From start to end; `None`: it has not started.
    wall_s: float | None
    #: How much of that it was frozen.
    suspended_s: float
    cpu_user_s: float
    cpu_system_s: float
    #: The most anonymous and shared memory it held at once.
    memory_peak_bytes: int
    memory_mean_bytes: int
    swap_peak_bytes: int
    io_read_bytes: int
    io_write_bytes: int
    exit_code: int | None
    signal: int | None
    #: The whole report.
    report: Mapping[str, Any]

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> Usage:
        """The figures of a report."""
        names = [name for name in cls.__dataclass_fields__ if name not in ("job_id", "report")]
        return cls(job_id=report["job"], report=report, **{name: report[name] for name in names})


@dataclass(frozen=True)
class Decision:
    """A decision of the daemon's about a job."""

    time_s: float
    action: str
    #: In words.
    reason: str


@dataclass(frozen=True)
class Why:
    """Why a job is in its state, from `pinfold why --json`."""

    job_id: int
    state: str
    cause: str
    #: What would change it.
    change: str
    decisions: tuple[Decision, ...]
    #: The whole answer.
    answer: Mapping[str, Any]

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Why:
        """The parts of an answer."""
        decisions = tuple(
            Decision(one["time_s"], one["action"], one.get("text") or one.get("reason", "")) for one in answer["decisions"]
        )
        return cls(answer["job"], answer["state"], answer["cause"], answer["change"], decisions, answer)

    def __str__(self) -> str:
        return f"{self.cause}; {self.change}" if self.change else self.cause
