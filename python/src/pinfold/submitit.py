"""A plug-in of submitit: `submitit.AutoExecutor(folder, cluster="pinfold")`.

submitit finds the two classes by the entry points of this package (group `submitit`). Jobs are handed over by
`pinfold submit`; how all of them stand is one question. Time limits, checkpoints and requeuing are as on Slurm: a job gets
USR2 before its time is over, writes its checkpoint, and is started again within the same job of pinfold.
"""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from submitit.core import core, job_environment, logger

from . import _program
from ._program import PinfoldError

#: The status by which a job asks its script to be started again, as submitit's local executor has it.
REQUEUE = 144

#: States of pinfold in the words that submitit knows from Slurm; a job that the host suspended is running.
_STATES = {"queued": "PENDING", "held": "PENDING", "running": "RUNNING", "frozen": "RUNNING", "parked": "RUNNING"}


def _state(view: Mapping[str, Any]) -> str:
    if view["state"] != "exited":
        return _STATES.get(view["state"], "UNKNOWN")
    if view.get("end") == "timeout":
        return "TIMEOUT"
    if view["exit_code"] is None:
        return "CANCELLED"
    return "COMPLETED" if view["exit_code"] == 0 else "FAILED"


class PinfoldInfoWatcher(core.InfoWatcher):
    """Asks how jobs stand, all of them at once."""

    def update(self) -> None:
        """Asks for those that are not known to be over."""
        jobs = sorted(int(job) for job in self._registered - self._finished)
        if not jobs:
            return
        self._num_calls += 1
        try:
            for job, view in _program.states(jobs).items():
                self._info_dict[str(job)] = {"State": _state(view), "Reason": view["reason"] or ""}
        except PinfoldError as error:
            logger.get_logger().warning("pinfold does not answer, jobs are taken to run on: %s", error)
        self._last_status_check = time.time()
        self._finished |= {str(job) for job in jobs if self.is_done(str(job), mode="cache")}

    def get_state(self, job_id: str, mode: str = "standard") -> str:
        """The state of a job, in Slurm's words."""
        return self.get_info(job_id, mode=mode).get("State") or "UNKNOWN"


class PinfoldJob(core.Job[core.R]):
    """A job of pinfold's."""

    watcher = PinfoldInfoWatcher(delay_s=2)

    def cancel(self, check: bool = True) -> None:
        """Ends the job: SIGTERM, and SIGKILL 10 s later."""
        try:
            _program.run(["cancel", self.job_id])
        except PinfoldError:
            if check:
                raise

    def _interrupt(self, timeout: bool = False) -> None:
        """Sends the signal for a time limit or a preemption, for tests."""
        _program.run(["cancel", "--signal", PinfoldJobEnvironment.USR_SIG, self.job_id])


class PinfoldJobEnvironment(job_environment.JobEnvironment):
    """What a job knows of itself."""

    _env: ClassVar[dict[str, str]] = {
        "job_id": "PINFOLD_JOB_ID",
        "num_tasks": "PINFOLD_NTASKS",
        "num_nodes": "SUBMITIT_PINFOLD_NODES",
        "node": "SUBMITIT_PINFOLD_NODE",
        "global_rank": "PINFOLD_TASK_ID",
        "local_rank": "PINFOLD_TASK_ID",
    }

    def _requeue(self, countdown: int) -> NoReturn:
        # It comes twice, to the whole job and from `timeout`; the second one would end Python while that exits.
        signal.signal(signal.Signals["SIG" + self.USR_SIG], signal.SIG_IGN)
        logger.get_logger().info(f"Requeued job {self.job_id} ({countdown} remaining timeouts)")
        sys.exit(REQUEUE)


class PinfoldExecutor(core.PicklingExecutor):
    """Hands functions over as jobs of pinfold.

    Parameters of `update_parameters`: submitit's own `name`, `timeout_min`, `mem_gb`, `cpus_per_task`, `tasks_per_node`,
    `stderr_to_stdout`, and `pinfold_project`, `pinfold_priority`, `pinfold_signal_delay_s` (30), `pinfold_setup` (shell
    commands before the function) and `pinfold_options` (further options of `pinfold submit`).
    """

    job_class = PinfoldJob

    def __init__(
        self,
        folder: str | Path,
        max_num_timeout: int = 3,
        max_pickle_size_gb: float = 1.0,
        python: str | None = None,
    ) -> None:
        super().__init__(folder, max_num_timeout=max_num_timeout, max_pickle_size_gb=max_pickle_size_gb)
        self.python = shlex.quote(sys.executable) if python is None else python
        # Nothing here is a cluster that many submissions at once could harm.
        self._throttling = 0.0

    @classmethod
    def affinity(cls) -> int:
        """Taken when it is named, never by itself."""
        return 0 if shutil.which(_program.program()) else -1

    @classmethod
    def _valid_parameters(cls) -> set[str]:
        return {"project", "priority", "signal_delay_s", "setup", "options"}

    def _internal_update_parameters(self, **kwargs: Any) -> None:
        if kwargs.get("nodes", 1) != 1:
            raise ValueError(f"nodes={kwargs['nodes']}: pinfold has one host; say nodes=1")
        if kwargs.get("gpus_per_node", 0):
            raise ValueError(f"gpus_per_node={kwargs['gpus_per_node']}: pinfold hands out no GPUs")
        super()._internal_update_parameters(**kwargs)

    @property
    def _submitit_command_str(self) -> str:
        return f"{self.python} -u -m submitit.core._submit {shlex.quote(str(self.folder))}"

    def _num_tasks(self) -> int:
        return int(self.parameters.get("tasks_per_node", 1))

    def _log(self, ending: str) -> str:
        """Where a task's output goes, as a shell's word: submitit's tags stand for what the job knows of itself."""
        path = f"{Path(self.folder).expanduser().absolute()}/%j_%t_log.{ending}".replace("%A", "%j")
        word = "'" + path.replace("'", "'\"'\"'") + "'"
        for tag, variable in (("%j", "PINFOLD_JOB_ID"), ("%t", "PINFOLD_TASK_ID")):
            word = word.replace(tag, f"'\"${variable}\"'")
        return word

    def _make_submission_file_text(self, command: str, uid: str) -> str:
        seconds = round(60 * float(self.parameters.get("timeout_min", 5)))
        delay = min(int(self.parameters.get("signal_delay_s", 30)), max(seconds - 1, 0))
        signal = PinfoldJobEnvironment.USR_SIG
        errors = "2>&1" if self.parameters.get("stderr_to_stdout", False) else f"2>>{self._log('err')}"
        setup: Sequence[str] = self.parameters.get("setup") or ()
        lines = [
            "#!/bin/sh",
            f"out={self._log('out')}",
            'mkdir -p "${out%/*}"',
            f'exec >>"$out" {errors}',
            "export SUBMITIT_EXECUTOR=pinfold",
            # The signal is for the function, also where it is sent to the whole job.
            f"trap : {signal}",
            *setup,
            "while :; do",
            f"  timeout --preserve-status --signal={signal} --kill-after={max(delay, 1)} {seconds - delay} {command}",
            "  status=$?",
            f'  if [ "$status" -ne {REQUEUE} ]; then exit "$status"; fi',
            "done",
        ]
        return "\n".join(lines) + "\n"

    def _make_submission_command(self, submission_file_path: Path) -> list[str]:
        said = [f"--name={self.parameters.get('name', 'submitit')}"]
        pairs = {
            "--project": self.parameters.get("project"),
            "--priority": self.parameters.get("priority"),
            "--ntasks": self.parameters.get("tasks_per_node"),
            "--cpus-per-task": self.parameters.get("cpus_per_task"),
        }
        said += [f"{option}={value}" for option, value in pairs.items() if value is not None]
        if (gigabytes := self.parameters.get("mem_gb")) is not None:
            said.append(f"--mem={gigabytes}GiB")
        said += self.parameters.get("options") or ()
        nowhere = ["-o", "/dev/null", "-e", "/dev/null"]
        return [_program.program(), "submit", *said, *nowhere, "--", "/bin/sh", str(submission_file_path)]

    @staticmethod
    def _get_job_id_from_submission_command(string: bytes | str) -> str:
        text = string if isinstance(string, str) else string.decode()
        return str(int(text.strip()))
