import os

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SrunLauncher
from parsl.providers import SlurmProvider


@parsl.python_app
def square(n):
    import os

    return n * n, os.environ["SLURM_JOB_ID"]


@parsl.python_app
def nap(seconds):
    import time

    time.sleep(seconds)
    return seconds


config = Config(
    executors=[
        HighThroughputExecutor(
            address="127.0.0.1",
            max_workers_per_node=1,
            provider=SlurmProvider(
                partition="pinfold", exclusive=False, cores_per_node=1, mem_per_node=1, walltime="00:10:00",
                init_blocks=1, max_blocks=1, launcher=SrunLauncher(),
            ),
        )
    ]
)
with parsl.load(config):
    results = [square(n) for n in range(5)]
    assert [one.result(timeout=240)[0] for one in results] == [n * n for n in range(5)]
    pause_s = float(os.environ.get("PAUSE_S", "0"))
    assert nap(pause_s).result(timeout=240) == pause_s
