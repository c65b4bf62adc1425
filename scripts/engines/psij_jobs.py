import os
from datetime import timedelta
from pathlib import Path

from psij import Job, JobAttributes, JobExecutor, JobSpec, JobState, ResourceSpecV1
from psij.executors.batch.batch_scheduler_executor import BatchSchedulerExecutorConfig

# Looks often: the usual 30 s are for clusters.
config = BatchSchedulerExecutorConfig(queue_polling_interval=1, initial_queue_polling_delay=1)
executor = JobExecutor.get_instance("slurm", config=config)


def job(*words, output=None):
    spec = JobSpec(executable=words[0], arguments=list(words[1:]), stdout_path=output)
    spec.resources = ResourceSpecV1(node_count=1, processes_per_node=1, cpu_cores_per_process=1)
    spec.attributes = JobAttributes(duration=timedelta(minutes=5))
    return Job(spec)


pause = os.environ.get("PAUSE_S", "0")
good = job("/bin/sh", "-c", f"sleep {pause}; echo here", output=Path("out").absolute())
bad, gone = job("/bin/false"), job("/bin/sleep", "1000")
for one in (good, bad, gone):
    executor.submit(one)
assert good.wait(timedelta(seconds=120)).state == JobState.COMPLETED, good.status
assert Path("out").read_text() == "here\n"
assert bad.wait(timedelta(seconds=120)).state == JobState.FAILED, bad.status
gone.wait(timedelta(seconds=120), target_states=[JobState.ACTIVE])
gone.cancel()
assert gone.wait(timedelta(seconds=120)).state == JobState.CANCELED, gone.status
