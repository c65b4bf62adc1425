"""Plays a job log with AccaSim (https://accasim.readthedocs.io): `accasim_play.py LOG PROCESSORS fcfs|easy DIRECTORY`.

Prints the start of each job as JSON, in seconds since the log's first one was submitted.
"""

import collections
import collections.abc
import json
import os
import sys
from datetime import datetime, timezone

# AccaSim 1.1.3 was written for earlier versions of Python, in which these stood here.
for name in ("Mapping", "Sequence", "Iterable", "Callable"):
    setattr(collections, name, getattr(collections.abc, name))

from accasim.base.allocator_class import FirstFit  # noqa: E402
from accasim.base.scheduler_class import EASYBackfilling, FirstInFirstOut  # noqa: E402
from accasim.base.simulator_class import Simulator  # noqa: E402

log, processors, rule, directory = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
os.chdir(directory)
with open("system.json", "w") as file:
    json.dump({"groups": {"one": {"core": 1}}, "resources": {"one": processors}}, file)
rules = {"fcfs": FirstInFirstOut, "easy": EASYBackfilling}
results = os.path.join(directory, "results")
simulator = Simulator(
    log,
    "system.json",
    rules[rule](FirstFit()),
    statistics_output=False,
    show_statistics=False,
    LOG_LEVEL="CRITICAL",
    RESULTS_FOLDER_PATH=results,
)
simulator.start_simulation()
starts = {}
with open(os.path.join(results, "sched-" + os.path.basename(log))) as schedule:
    for line in schedule:
        # NUMBER;USER;SUBMITTED__PLACES__START;END;...
        before, _, after = line.split("__")
        start = datetime.strptime(after.split(";")[0], "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
        starts[before.split(";")[0]] = start.timestamp()
json.dump(starts, sys.stdout)
