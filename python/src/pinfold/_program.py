"""The program `pinfold`: where it is, and what it says as JSON. Nothing else of the daemon is used here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any


#: The exit code of the program where no daemon can be reached.
NO_DAEMON = 4
#: In place of an exit code: the program cannot be started. A shell's status for that.
NO_PROGRAM = 126


class PinfoldError(Exception):
    """What pinfold said when it could not do what it was asked."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        #: The exit code of the program: 2 wrong usage, 3 no permission, 4 no daemon, 5 refused or expired; 126, it cannot
        #: be started.
        self.code = code


def program() -> str:
    """The path of `pinfold`: $PINFOLD_PROGRAM, else the one installed with this package, else the first in PATH."""
    named = os.environ.get("PINFOLD_PROGRAM")
    if named:
        return named
    beside = Path(sysconfig.get_path("scripts")) / "pinfold"
    if beside.is_file():
        return str(beside)
    found = shutil.which("pinfold")
    if found is None:
        raise PinfoldError(f"the program `pinfold` is neither in {beside.parent} nor in PATH; set PINFOLD_PROGRAM")
    return found


def run(arguments: Sequence[str]) -> str:
    """Standard output of `pinfold ARGUMENTS`.

    Raises:
        PinfoldError: with what it said on standard error, when it fails; with the code `NO_PROGRAM`, when it cannot be
            started, as while it is being replaced.
    """
    words = [program(), *arguments]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, check=False, encoding="utf-8", errors="replace"
        )
    except OSError as error:
        raise PinfoldError(f"{words[0]} cannot be started: {error}", NO_PROGRAM) from error
    if done.returncode != 0:
        said = done.stderr.strip().removeprefix("pinfold: ")
        raise PinfoldError(said or f"pinfold {arguments[0]}: exit code {done.returncode}", done.returncode)
    return done.stdout


def ask(*arguments: str) -> dict[str, Any]:
    """The JSON object that `pinfold ARGUMENTS --json` prints."""
    said = run([arguments[0], "--json", *arguments[1:]])
    try:
        answer = json.loads(said)
    except ValueError as error:
        raise PinfoldError(f"pinfold {arguments[0]} --json: {error}") from error
    if not isinstance(answer, dict):
        raise PinfoldError(f"pinfold {arguments[0]} --json: an object is expected, not {type(answer).__name__}")
    return answer


def states(jobs: Sequence[int]) -> dict[int, dict[str, Any]]:
    """How these jobs stand, as `pinfold status --json` has each. One that the daemon does not know has the state `exited`
    with neither exit code nor signal, and the daemon's words as its reason.

    Raises:
        PinfoldError: when no daemon answers, or one refuses.
    """
    if not jobs:
        return {}
    try:
        return {view["job"]: view for view in ask("status", *map(str, jobs))["jobs"]}
    except PinfoldError as error:
        if error.code != 1 or "there is no job" not in str(error):
            raise
        if len(jobs) == 1:
            return {jobs[0]: {"job": jobs[0], "state": "exited", "exit_code": None, "signal": None, "reason": str(error)}}
    # One of many is not known, and the answer is about none of them.
    return {job: view for one in jobs for job, view in states([one]).items()}
