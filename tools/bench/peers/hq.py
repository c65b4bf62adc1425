"""HyperQueue (https://it4innovations.github.io/hyperqueue) as a launcher: a server and a worker of its own.

Usage: hq.py SLOTS DIRECTORY. Says `ready` when the worker is up. For each line `shell FILE` or `plain FILE` on
standard input it runs the lines of FILE as tasks, by a shell or as plain words, and says `done` when all have ended.
"""

import sys
from pathlib import Path

from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig

slots, directory = int(sys.argv[1]), sys.argv[2]
with LocalCluster(directory) as cluster:
    cluster.start_worker(WorkerConfig(cores=slots))
    client = cluster.client()

    def run(tasks):
        # A failed task must not take the others with it; what it ended with is in the bench's own journal.
        job = Job(default_workdir=directory, max_fails=None)
        for words in tasks:
            job.program(words, stdout=None, stderr=None)
        client.wait_for_jobs([client.submit(job)], raise_on_error=False)

    # The first task waits for the worker.
    run([["/bin/true"]])
    print("ready", flush=True)
    for line in sys.stdin:
        how, file = line.rstrip("\n").split(" ", 1)
        lines = Path(file).read_text().splitlines()
        # Its progress bar goes to standard error, which nobody reads.
        run([["/bin/sh", "-c", text] if how == "shell" else text.split() for text in lines])
        print("done", flush=True)
