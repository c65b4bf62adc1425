# pinfold's hook for OpenPBS and PBS Professional, run by MoM as root on the host:
#   execjob_launch      the job asks pinfold before it executes, and waits until that lets it go
#   execjob_end         what is left of it is told in MoM's log
#   exechost_periodic   the host offers as many processors as pinfold has slots
# If pinfold is away the job runs unmanaged. No word of a user's gets to a shell.
import json
import os
import subprocess

import pbs

PINFOLD = @PINFOLD_LIST@
ENTER = @ENTER_LIST@
STRUCK_OFF = 5


def log(text):
    pbs.logmsg(pbs.LOG_WARNING, "pinfold: " + text)


def run(words):
    """What a program says, and its exit status; 127: it cannot be run."""
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    except OSError as error:
        return 127, "", str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace").strip()


def number_of(job):
    return str(job.id).split(".")[0]


def launch(event):
    words = ENTER + ["--external", "pbs:" + number_of(event.job), "--pid", str(os.getppid())]
    try:
        pus = int(event.job.Resource_List["ncpus"])
    except (KeyError, TypeError, ValueError):
        pus = 0
    if pus > 0:
        words += ["--pus", str(pus)]
    name = getattr(event.job, "Job_Name", None)
    if name:
        words.append("--name=" + str(name))
    status, said, wrong = run(words)
    if status == STRUCK_OFF:
        event.reject("pinfold: " + wrong)
    if status != 0:
        log("job %s runs unmanaged: %s" % (event.job.id, wrong))
    elif wrong:
        log("job %s: %s" % (event.job.id, wrong))
    for line in said.splitlines():
        name, found, value = line.partition("=")
        if found and (name == "TMPDIR" or name.startswith("PINFOLD_")):
            event.env[name] = value


def end(event):
    status, said, _ = run(PINFOLD + ["status", "pbs:" + number_of(event.job), "--json"])
    if status == 0:
        left = [job for job in json.loads(said)["jobs"] if job["state"] != "exited"]
        for job in left:
            log("job %s is over for PBS, and %d processes of it are left" % (event.job.id, len(job["pids"])))


def offer(event):
    status, said, _ = run(PINFOLD + ["wlm", "capacity", "--json"])
    if status == 0:
        capacity = json.loads(said)
        node = event.vnode_list[pbs.get_local_nodename()]
        node.resources_available["ncpus"] = capacity["slots_total"]


def handle(event):
    if event.type == pbs.EXECJOB_LAUNCH:
        launch(event)
    elif event.type == pbs.EXECJOB_END:
        end(event)
    elif event.type == pbs.EXECHOST_PERIODIC:
        offer(event)
    event.accept()


handle(pbs.event())
