"""A daemon of the tests' own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import pinfold


@pytest.fixture(scope="session", autouse=True)
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a daemon that is there for these tests alone."""
    place = tmp_path_factory.mktemp("daemon")
    socket = place / "pinfold.sock"
    program = Path(pinfold.program()).with_name("pinfoldd")
    for name in list(os.environ):
        if name.startswith("PINFOLD_") and name not in ("PINFOLD_PROGRAM", "PINFOLD_PROGRAMS"):
            del os.environ[name]
    options = ["--socket", socket, "--state-dir", place / "state", "--set", "slots.factor=4"]
    # What computes beside the tests takes no slots, whoever runs them.
    options += ["--set", "host.other_load=off"]
    log = place / "log"
    with open(log, "w") as said:
        process = subprocess.Popen([program, *options], stdin=subprocess.DEVNULL, stderr=said)
    while "ready on" not in log.read_text():
        assert process.poll() is None, log.read_text()
        time.sleep(0.01)
    os.environ["PINFOLD_SOCKET"] = str(socket)
    yield socket
    process.terminate()
    assert process.wait() == 0, log.read_text()
