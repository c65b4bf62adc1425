"""Snakemake's jobs as jobs of pinfold."""

import re
import shlex
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import pinfold
from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

from .direct import shell_words

#: How often jobs are looked at, in seconds: one question for all of them. With many jobs the answer takes longer, and the
#: next question waits so many times as long.
CHECK_EVERY = 0.25
CHECK_PART = 20

common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_default_storage_provider_args=True,
    pass_default_resources_args=True,
    # A job has the environment of whoever submits it.
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
    init_seconds_before_status_checks=0,
)


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """Settings for all jobs, each as `--pinfold-NAME`. Snakemake reads the types: of values it knows `Optional` alone, of switches `bool`."""

    project: Optional[str] = field(default=None, metadata={"help": "The project that jobs belong to"})
    options: Optional[str] = field(
        default=None, metadata={"help": "Further options of `pinfold submit` for all jobs, as in a shell"}
    )
    logdir: Optional[Path] = field(
        default=None, metadata={"help": "Where logs of jobs are written; unless said .snakemake/pinfold"}
    )
    nested: bool = field(
        default=False,
        metadata={"help": "Start Snakemake once more for each job, also for plain shell commands, which do not need it"},
    )


def request(job: JobExecutorInterface) -> list[str]:
    """What a job asks for, as options of `pinfold submit`."""
    resources = job.resources
    said = [f"--cores={max(1, int(job.threads))}"]
    # What is not known yet is no number.
    if isinstance(memory := resources.get("mem_mb"), int) and memory > 0:
        said.append(f"--mem={memory}MiB")
    if isinstance(minutes := resources.get("runtime"), int) and minutes > 0:
        said.append(f"--time={minutes}m")
    return said + split(resources.get("pinfold_options"), "pinfold_options")


def split(options: object, name: str) -> list[str]:
    """Options in one text, split as a shell would."""
    try:
        return shlex.split(str(options)) if options else []
    except ValueError as error:
        raise WorkflowError(f"{name}: {options!r}: {error}") from error


class Executor(RemoteExecutor):
    """Hands jobs over by `pinfold submit`, and looks for their ends by `pinfold status`."""

    def __post_init__(self) -> None:
        settings = self.workflow.executor_settings or ExecutorSettings()
        self.common_options = split(settings.options, "--pinfold-options")
        if settings.project is not None:
            self.common_options.append(f"--project={settings.project}")
        # Absolute: a rule may have a directory of its own.
        self.logs = Path(settings.logdir or ".snakemake/pinfold").absolute()
        self.nested = bool(settings.nested)

    def run_job(self, job: JobExecutorInterface) -> None:
        """Hands a job over."""
        logs = self.logs / re.sub(r"[^\w.-]", "_", job.name)
        logs.mkdir(parents=True, exist_ok=True)
        command = None if self.nested else shell_words(self.workflow, job)
        if command is None:
            command = ["/bin/sh", "-c", self.format_job_exec(job)]
        else:
            # What Snakemake would do within the job: directories are made, and what was left of an earlier run goes.
            self.workflow.async_run(job.prepare())
        # Both streams in one file, in the order in which they were written.
        # A sign of percent in the path stands for itself.
        log = str(logs).replace("%", "%%") + "/%j.log"
        files = ["-o", log, "-e", log]
        words = [f"--name={job.name}", *request(job), *self.common_options, *files, "--", *command]
        try:
            number = str(pinfold.ask("submit", *words)["job"])
        except pinfold.PinfoldError as error:
            raise WorkflowError(f"pinfold takes no job of rule {job.name}: {error}") from error
        log = str(logs / f"{number}.log")
        self.logger.info(f"Job {job.jobid} is pinfold's job {number} (log: {log}).")
        self.report_job_submission(SubmittedJobInfo(job, external_jobid=number, aux={"log": log}))

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Reports jobs that are over, and gives the others."""
        self.next_seconds_between_status_checks = CHECK_EVERY
        if not active_jobs:
            return
        async with self.status_rate_limiter:
            asked = time.monotonic()
            views = self.look([job.external_jobid for job in active_jobs])
            self.next_seconds_between_status_checks = max(CHECK_EVERY, CHECK_PART * (time.monotonic() - asked))
        for job in active_jobs:
            view = views.get(job.external_jobid)
            if view is None or view["state"] != "exited":
                yield job
            elif view["exit_code"] == 0:
                self.report_job_success(job)
            else:
                reason = view["reason"] or "it failed"
                message = f"Job {job.external_jobid} of pinfold: {reason}."
                self.report_job_error(job, msg=message, aux_logs=[job.aux["log"]])

    def look(self, numbers: list[str]) -> dict[str, dict[str, Any]]:
        """How these jobs stand, as far as a daemon tells."""
        try:
            return {str(job): view for job, view in pinfold.states([int(number) for number in numbers]).items()}
        except pinfold.PinfoldError as error:
            self.logger.warning(f"pinfold does not answer, jobs are taken to run on: {error}")
            return {}

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Ends jobs."""
        for job in active_jobs:
            try:
                pinfold.run(["cancel", job.external_jobid])
            except pinfold.PinfoldError as error:
                # It is over already, as a rule.
                self.logger.debug(f"pinfold cancel {job.external_jobid}: {error}")
