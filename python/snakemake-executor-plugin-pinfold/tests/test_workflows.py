"""The plugin interface's own suite, and workflows that fail, ask for something and are cancelled from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pinfold
import pytest
from snakemake.common.tests import TestWorkflowsLocalStorageBase
from snakemake_executor_plugin_pinfold import ExecutorSettings, request, split
from snakemake_interface_common.exceptions import WorkflowError

PATIENCE = 300


class TestWorkflows(TestWorkflowsLocalStorageBase):
    """As the interface has it for every executor."""

    __test__ = True

    def get_executor(self) -> str:
        return "pinfold"

    def get_executor_settings(self) -> ExecutorSettings:
        return ExecutorSettings()


def snakemake(place: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "snakemake", "--executor", "pinfold", "--jobs", "3", "--latency-wait", "5", *arguments]
    return subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_what_rules_ask_for(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(
        "rule all:\n  input: 'out'\n"
        "rule asks:\n  output: 'out'\n  threads: 2\n"
        "  resources: mem_mb=300, runtime=7, pinfold_options='--priority 3'\n"
        "  shell: 'echo $PINFOLD_JOB_ID > {output}; echo told; echo told as well >&2'\n"
    )
    running = snakemake(tmp_path, "--pinfold-options=--place compact", "--cores", "2")
    said = running.communicate(timeout=PATIENCE)[0]
    assert running.returncode == 0, said
    job = (tmp_path / "out").read_text().strip()
    report = pinfold.ask("report", job)
    assert (report["name"], report["claim_bytes"], report["priority"]) == ("asks", 300 << 20, 3), report
    log = (tmp_path / ".snakemake/pinfold/asks" / f"{job}.log").read_text()
    assert "told\n" in log and "told as well\n" in log


PLAIN = """
import os
MARK = "it's marked"
rule all:
  input: "sum", "nested"
rule one:
  output: "deep/{number}.txt"
  log: "logs/{number}.log"
  threads: 2
  shell: "cat /proc/$PPID/cmdline > {log:q}; echo {wildcards.number} {threads} $OMP_NUM_THREADS {MARK:q} $TMPDIR {resources.tmpdir} > {output:q}"
rule sum:
  input: "deep/1.txt", "deep/2 b.txt"
  output: "sum"
  resources: shell_exec="sh"
  shell: "cat {input:q} > {output}; false; echo $0 >> {output}"
rule nested:
  output: "nested"
  run:
    with open(output[0], "w") as out:
      out.write(os.environ["PINFOLD_JOB_ID"])
rule stops:
  output: "kept"
  shell: "echo half > {output}; false | true; echo whole >> {output}"
"""


def test_a_plain_shell_command_needs_no_snakemake(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(PLAIN)
    # What an earlier run left in the way of an output goes before the job begins.
    (tmp_path / "sum").mkdir()
    running = snakemake(tmp_path, "--forcerun", "sum", "--cores", "2")
    said = running.communicate(timeout=PATIENCE)[0]
    assert running.returncode == 0, said
    here = tempfile.gettempdir()
    expected = [f"{number} 2 2 it's marked {here} {here}" for number in ("1", "2 b")]
    assert (tmp_path / "sum").read_text().splitlines() == [*expected, "sh"]
    # Its parent is the job's keeper, and no Snakemake.
    assert "-m\0snakemake" not in (tmp_path / "logs/1.log").read_text()
    assert (tmp_path / "nested").read_text().isdigit()


def test_a_plain_shell_command_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(PLAIN)
    running = snakemake(tmp_path, "--cores", "2", "stops")
    said = running.communicate(timeout=PATIENCE)[0]
    assert running.returncode == 1 and not (tmp_path / "kept").exists(), said


def test_every_job_may_start_snakemake_once_more(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text("rule one:\n  output: 'out'\n  shell: 'cat /proc/$PPID/cmdline > {output}'\n")
    running = snakemake(tmp_path, "--pinfold-nested")
    said = running.communicate(timeout=PATIENCE)[0]
    assert running.returncode == 0, said
    assert "-m\0snakemake" in (tmp_path / "out").read_text()


def test_a_rule_that_fails(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text("rule fails:\n  output: 'out'\n  shell: 'echo it went wrong; exit 3'\n")
    running = snakemake(tmp_path)
    said = running.communicate(timeout=PATIENCE)[0]
    assert running.returncode == 1 and "of pinfold: its command ended with exit code 3" in said, said


def test_a_job_that_is_cancelled_from_outside(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(
        "rule waits:\n  output: 'out'\n  shell: 'echo $PINFOLD_JOB_ID > number.new; mv number.new number; sleep 1000'\n"
    )
    running = snakemake(tmp_path)
    try:
        deadline = time.monotonic() + PATIENCE
        while not (tmp_path / "number").exists():
            assert time.monotonic() < deadline and running.poll() is None
            time.sleep(0.05)
        pinfold.run(["cancel", (tmp_path / "number").read_text().strip()])
        said = running.communicate(timeout=PATIENCE)[0]
    finally:
        running.kill()
    assert running.returncode == 1 and "cancel" in said, said


def test_options_in_a_text() -> None:
    assert split("--place 'a b'", "x") == ["--place", "a b"] and split(None, "x") == []
    with pytest.raises(WorkflowError, match="x: \"'\""):
        split("'", "x")

    class Job:
        threads = 4
        resources = {"mem_mb": "<TBD>", "runtime": 0}

    assert request(Job()) == ["--cores=4"]  # type: ignore[arg-type]
    assert os.environ["PINFOLD_SOCKET"]
