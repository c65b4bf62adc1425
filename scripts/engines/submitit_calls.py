import os
import subprocess
import sys
import time

import submitit


def add(a, b):
    return a + b, os.environ["SLURM_JOB_ID"]


def fail():
    raise ValueError("on purpose")


def nap(seconds):
    time.sleep(seconds)
    return seconds


# Functions of the main program are handed over by value.
executor = submitit.AutoExecutor(folder="log", cluster="slurm")
executor.update_parameters(timeout_min=5, mem_gb=0.1, cpus_per_task=1, slurm_array_parallelism=2, slurm_job_name="calls")
one = executor.submit(add, 1, 2)
assert one.result()[0] == 3, one.stderr()
many = executor.map_array(add, range(4), range(4))
results = [job.result() for job in many]
assert [total for total, _ in results] == [0, 2, 4, 6], results
bad = executor.submit(fail)
error = bad.exception()
assert error is not None and "on purpose" in str(error), error
gone = executor.submit(nap, 1000)
while gone.state != "RUNNING":
    time.sleep(0.2)
gone.cancel()
while gone.state != "CANCELLED":
    time.sleep(0.2)
pause_s = float(os.environ.get("PAUSE_S", "0"))
assert executor.submit(nap, pause_s).result() == pause_s
# To submitit a suspended job would be over, with no result.
slow = executor.submit(nap, 3)
while slow.state != "RUNNING":
    time.sleep(0.2)
pinfold = os.environ.get("PINFOLD", "pinfold")
subprocess.run([pinfold, "suspend", slow.job_id], check=True)
time.sleep(5)
assert not slow.done(force_check=True), slow.state
subprocess.run([pinfold, "resume", slow.job_id], check=True)
assert slow.result() == 3
sys.exit(0)
