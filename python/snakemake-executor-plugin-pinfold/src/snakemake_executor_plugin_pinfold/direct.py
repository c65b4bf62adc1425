"""The shell command of a job that needs nothing of Snakemake's but that, as its local executor would execute it.

Each other job starts Snakemake once more, which reads the Snakefile again before the command begins.
"""

import os
from typing import Any, Optional

from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import SharedFSUsage
from snakemake_interface_executor_plugins.workflow import WorkflowExecutorInterface

#: A longer command does not fit into one argument of a program (Linux: 128 KiB).
COMMAND_MAX_BYTES = 100_000

#: What libraries for linear algebra read, as Snakemake's local executor sets it.
THREADS = (
    "OMP_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
DIRECTORIES = ("TMPDIR", "TMP", "TEMPDIR", "TEMP")


def shell_words(workflow: WorkflowExecutorInterface, job: JobExecutorInterface) -> Optional[list[str]]:
    """The words of a program that does the job's work, once `prepare` has been called; `None`: Snakemake has to be started."""
    if job.is_group() or not is_plain(workflow, job):
        return None
    try:
        from snakemake.shell import shell

        # What depends on where the job runs is left open by Snakemake: here it runs on the same host.
        resources = job.rule.expand_resources(job.wildcards_dict, job.input, job.attempt)
        executable = resources.get("shell_exec") or shell.get_executable() or "/bin/sh"
        command = job.format_wildcards(job.rule.shellcmd, resources=resources)
        text = f"{shell._get_process_prefix(executable)} {command} {shell._process_suffix}".strip()
    except (AttributeError, ImportError, TypeError):
        # Another version of Snakemake: what every version has is starting it.
        return None
    if "<TBD>" in text or len(text.encode()) > COMMAND_MAX_BYTES:
        return None
    variables = dict.fromkeys(THREADS, str(job.threads))
    directory = resources.get("tmpdir")
    if directory:
        os.makedirs(directory, exist_ok=True)
        variables |= dict.fromkeys(DIRECTORIES, str(directory))
    said = [f"{name}={value}" for name, value in variables.items()]
    return ["/usr/bin/env", *said, str(executable), "-c", text]


def is_plain(workflow: Any, job: Any) -> bool:
    """Whether a job is a shell command on files of this host, without an environment, a container, or a measurement by
    Snakemake."""
    rule = job.rule
    remote = workflow.remote_execution_settings
    try:
        needs = (
            not job.is_shell,
            job.is_shadow,
            job.benchmark is not None,
            workflow.deployment_settings.deployment_method,
            workflow.workflow_settings.cache is not None and rule.cache,
            remote.precommand,
            remote.immediate_submit,
            any(file.is_storage for file in [*job.input, *job.output, *job.log]),
            set(SharedFSUsage) - set(workflow.storage_settings.shared_fs_usage),
        )
    except AttributeError:
        return False
    return not any(needs)
