import os
import time

from toil.common import Toil
from toil.job import Job


def square(job, n):
    time.sleep(float(os.environ.get("PAUSE_S", "0")))
    return n * n


def total(job, parts):
    return sum(parts)


def start(job, kind):
    if kind == "bad":
        raise ValueError("on purpose")
    parts = [job.addChildJobFn(square, n).rv() for n in (1, 2, 3)]
    return job.addFollowOnJobFn(total, parts).rv()


if __name__ == "__main__":
    parser = Job.Runner.getDefaultArgumentParser()
    parser.add_argument("--kind")
    options = parser.parse_args()
    with Toil(options) as toil:
        print(toil.start(Job.wrapJobFn(start, options.kind)))
