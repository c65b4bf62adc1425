"""Calls as jobs, end to end, against a daemon. What must happen is waited for; nothing is measured."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pinfold
from pinfold import Executor, Future, JobFailed, RemoteError

PATIENCE = 120.0


def square(number: int) -> int:
    return number * number


def until(path: Path) -> str:
    """Waits for a file with something in it: one that is just being written is empty."""
    while not (path.exists() and (text := path.read_text())):
        time.sleep(0.01)
    return text


def eventually(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def executor() -> Iterator[Executor]:
    executor = Executor()
    yield executor
    # A test that failed may have left a call that waits for what it did not do.
    executor.shutdown(cancel_futures=True)


def test_results(executor: Executor) -> None:
    futures = [executor.submit(square, number) for number in range(5)]
    assert [future.result(PATIENCE) for future in futures] == [0, 1, 4, 9, 16]
    assert set(concurrent.futures.as_completed(futures)) == set(futures)
    assert len({future.job_id for future in futures}) == 5
    assert all(future.state == "done" for future in futures)


def test_what_cannot_be_imported_is_sent_as_a_whole(executor: Executor) -> None:
    factor = 3

    class Own:
        def __init__(self, number: int) -> None:
            self.number = number

    result = executor.submit(lambda own: Own(own.number * factor), Own(5)).result(PATIENCE)
    assert isinstance(result, Own) and result.number == 15


def test_a_notebook_shows_how_many_are_over(executor: Executor, tmp_path: Path) -> None:
    def waits() -> None:
        (tmp_path / "runs").write_text("it runs")
        threading.Event().wait()

    assert executor.submit(square, 3).result(PATIENCE) == 9
    assert isinstance(executor.submit(int, "no number").exception(PATIENCE), ValueError)
    slow = executor.submit(waits)
    until(tmp_path / "runs")
    eventually(lambda: "2/3 1 done, 1 failed, 1 running" in executor._repr_html_())
    slow.cancel()
    assert "3/3 1 done, 1 failed, 1 cancelled" in executor._repr_html_()


def test_map_keeps_the_order(executor: Executor) -> None:
    assert list(executor.map(square, range(7), chunksize=3)) == [number * number for number in range(7)]
    assert list(executor.map(pow, [2, 3], [3, 2])) == [8, 9]
    assert list(executor.map(square, [], chunksize=3)) == []
    with pytest.raises(ValueError, match="chunksize"):
        executor.map(square, [1], chunksize=0)


def test_errors_come_back(executor: Executor) -> None:
    class OwnError(Exception):
        pass

    def fails() -> None:
        raise OwnError("no such thing", 7)

    error = executor.submit(fails).exception(PATIENCE)
    assert isinstance(error, OwnError) and error.args == ("no such thing", 7)
    assert isinstance(error.__cause__, RemoteError) and "in fails" in str(error.__cause__)

    def fails_oddly() -> None:
        error = ValueError("holds what cannot be sent")
        error.lock = threading.Lock()  # type: ignore[attr-defined]
        raise error

    odd = executor.submit(fails_oddly).exception(PATIENCE)
    assert isinstance(odd, RemoteError) and "holds what cannot be sent" in str(odd)
    with pytest.raises(TypeError, match="pickle"):
        executor.submit(threading.Lock).result(PATIENCE)
    with pytest.raises(TypeError, match="pickle"):
        executor.submit(square, threading.Lock())  # type: ignore[arg-type]


def test_a_job_without_a_result(executor: Executor) -> None:
    def leaves() -> None:
        print("what it said", file=sys.stderr)
        sys.exit(3)

    future = executor.submit(leaves)
    error = future.exception(PATIENCE)
    assert isinstance(error, JobFailed) and (error.exit_code, error.signal) == (3, None)
    assert error.job_id == future.job_id and error.stderr == "what it said" and "what it said" in str(error)
    killed = executor.submit(lambda: os.kill(os.getpid(), signal.SIGKILL)).exception(PATIENCE)
    assert isinstance(killed, JobFailed) and killed.signal == 9 and "SIGKILL" in str(killed)


def test_a_timeout(executor: Executor, tmp_path: Path) -> None:
    error = executor.with_resources(timeout=0.2).submit(until, tmp_path / "never").exception(PATIENCE)
    assert isinstance(error, JobFailed) and error.end == "timeout" and "timeout" in str(error)


def test_resources(executor: Executor) -> None:
    small = executor.with_resources(mem="100MiB", name="small one", priority=3)
    future = small.submit(os.getenv, "PINFOLD_JOB_ID")
    assert future.result(PATIENCE) == str(future.job_id)
    report = future.usage(PATIENCE).report
    assert (report["name"], report["claim_bytes"], report["priority"]) == ("small one", 100 << 20, 3)
    plain = executor.submit(square, 3)
    assert plain.result(PATIENCE) == 9
    assert (plain.usage(PATIENCE).report["name"], plain.usage(PATIENCE).report["claim_bytes"]) == ("square", None)
    with pytest.raises(TypeError, match="'memory' is no resource; there are cores"):
        executor.with_resources(memory=1)
    refused = executor.with_resources(priority=99).submit(square, 1)
    with pytest.raises(pinfold.PinfoldError, match="`99` is not a whole number from 1 to 16") as told:
        refused.result(PATIENCE)
    assert told.value.code == 2 and refused.job_id is None
    with pytest.raises(pinfold.PinfoldError, match="was not handed over"):
        refused.usage()


def test_usage_and_why(executor: Executor, tmp_path: Path) -> None:
    def works() -> int:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
        print("heard", flush=True)
        return until(tmp_path / "go") and len(bytearray(50 << 20))

    future = executor.submit(works)
    eventually(lambda: future.running())
    assert future.why().state == "running"
    eventually(lambda: "heard" in future.stdout())
    (tmp_path / "go").write_text("x")
    assert future.result(PATIENCE) == 50 << 20
    eventually(lambda: future.usage(PATIENCE).state == "exited")
    usage = future.usage(PATIENCE)
    assert (usage.state, usage.exit_code, usage.job_id) == ("exited", 0, future.job_id)
    assert usage.cpu_user_s + usage.cpu_system_s >= 0.2
    assert usage.wall_s is not None and usage.wall_s >= 0.2
    why = future.why()
    assert why.state == "exited" and why.decisions and all(decision.reason for decision in why.decisions)
    assert why.cause in str(why)


def test_cancel(executor: Executor, tmp_path: Path) -> None:
    held = executor.with_resources(options=["--hold"]).submit(square, 2)
    eventually(lambda: held.state == "held")
    assert not held.running() and held.cancel() and held.cancel() and held.cancelled()
    assert held.usage(PATIENCE).exit_code is None
    running = executor.submit(until, tmp_path / "never")
    eventually(running.running)
    assert running.cancel() and running.state == "cancelled"
    with pytest.raises(concurrent.futures.CancelledError):
        running.result(PATIENCE)
    eventually(lambda: running.usage(PATIENCE).state == "exited")
    assert running.usage(PATIENCE).signal == signal.SIGTERM
    done = executor.submit(square, 2)
    assert done.result(PATIENCE) == 4 and not done.cancel()
    assert concurrent.futures.wait([held, running, done], PATIENCE).not_done == set()


def test_at_most_so_many_at_once(tmp_path: Path) -> None:
    with Executor(max_workers=1) as executor:
        first = executor.submit(until, tmp_path / "go")
        second = executor.with_resources(name="second").submit(square, 2)
        third = executor.submit(square, 3)
        eventually(first.running)
        assert second.job_id is None and second.state == "waiting"
        assert third.cancel()
        (tmp_path / "go").write_text("gone")
        assert (first.result(PATIENCE), second.result(PATIENCE)) == ("gone", 4)
        assert third.job_id is None
    with pytest.raises(ValueError, match="max_workers"):
        Executor(max_workers=0)


def test_a_hidden_directory_is_refused(executor: Executor) -> None:
    hidden = executor.with_resources(options=["--private-tmp"]).submit(square, 1)
    if str(executor._core.directory).startswith("/tmp/"):
        with pytest.raises(ValueError, match="name another `directory`"):
            hidden.result(PATIENCE)
    else:
        assert hidden.result(PATIENCE) == 1


def test_a_directory_with_signs_that_stand_for_something(tmp_path: Path) -> None:
    place = tmp_path / "90%acc %j 'two words'\nand a line"
    place.mkdir()
    with Executor(directory=place) as executor:
        future = executor.submit(print, "said")
        assert future.result(PATIENCE) is None
        eventually(lambda: future.stdout() == "said\n")


def test_shutdown(tmp_path: Path) -> None:
    executor = Executor(directory=tmp_path)
    left = executor.submit(square, 4)
    executor.shutdown()
    assert left.result(0) == 16 and list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(square, 1)
    other = Executor(max_workers=1)
    futures = [other.submit(until, tmp_path / "never") for _ in range(3)]
    eventually(futures[0].running)
    other.shutdown(cancel_futures=True)
    assert all(future.cancelled() for future in futures)


def test_the_interpreter_waits_for_results(tmp_path: Path) -> None:
    script = f"import pinfold; pinfold.Executor().submit(open, {str(tmp_path / 'made')!r}, 'w')"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=PATIENCE)
    assert (tmp_path / "made").exists()


def test_asyncio(executor: Executor, tmp_path: Path) -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        wrapped = asyncio.wrap_future(executor.submit(square, 2))
        assert await asyncio.gather(wrapped, executor.run(square, 3), loop.run_in_executor(executor, square, 4)) == [4, 9, 16]
        future: Future[str] = executor.submit(until, tmp_path / "never")
        waits = asyncio.wrap_future(future)
        await asyncio.sleep(0)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        await asyncio.to_thread(concurrent.futures.wait, [future], PATIENCE)
        assert future.cancelled()
        async with Executor() as own:
            result = own.run(square, 5)
            assert await result == 25

    asyncio.run(work())


def test_the_daemon_goes_away(executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    future = executor.submit(until, tmp_path / "go")
    eventually(future.running)
    with monkeypatch.context() as away:
        # As it looks while a daemon is started anew: nobody answers.
        away.setenv("PINFOLD_SOCKET", str(tmp_path / "none.sock"))
        away.setenv("PINFOLD_PROGRAM", "/bin/false")
        (tmp_path / "go").write_text("all the same")
        assert future.result(PATIENCE) == "all the same"
    assert executor.submit(square, 6).result(PATIENCE) == 36


def test_a_program_that_is_being_replaced(executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    future = executor.submit(until, tmp_path / "go")
    eventually(future.running)
    asked = threading.Semaphore(0)

    def gone() -> str:
        asked.release()
        return str(tmp_path / "no program")

    with monkeypatch.context() as away:
        away.setattr("pinfold._program.program", gone)
        for _ in range(2):
            assert asked.acquire(timeout=PATIENCE)
        with pytest.raises(pinfold.PinfoldError, match="cannot be started") as told:
            pinfold.run(["status"])
        assert told.value.code == 126
    assert all(thread.is_alive() for thread in executor._core.threads)
    (tmp_path / "go").write_text("all the same")
    assert future.result(PATIENCE) == "all the same"


def test_what_is_no_answer_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "pinfold"
    program.write_text("#!/bin/sh\necho '{\"job\":'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PINFOLD_PROGRAM", str(program))
    with pytest.raises(pinfold.PinfoldError, match="status --json"):
        pinfold.ask("status")


def test_a_call_is_cancelled_while_the_daemon_is_away(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    future = executor.submit(until, tmp_path / "never")
    eventually(future.running)
    calls = tmp_path / "calls"
    program = tmp_path / "pinfold"
    program.write_text(f"#!/bin/sh\necho $1 >>{calls}\nexit 4\n")
    program.chmod(0o755)
    with monkeypatch.context() as away:
        away.setenv("PINFOLD_PROGRAM", str(program))
        assert future.cancel()
        # Nobody waits for that: it is tried again and again.
        eventually(lambda: calls.exists() and calls.read_text().split().count("cancel") >= 2)
    eventually(lambda: future.usage(PATIENCE).state == "exited")
    assert future.usage(PATIENCE).signal == signal.SIGTERM


def test_cancelling_waits_for_no_program(executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    futures = [executor.submit(until, tmp_path / "never") for _ in range(3)]
    eventually(lambda: all(future.running() for future in futures))
    ends = threading.Event()
    run = pinfold._program.run

    def slow(arguments: list[str]) -> str:
        if arguments[0] == "cancel":
            assert ends.wait(PATIENCE)
        return run(arguments)

    with monkeypatch.context() as slowly:
        slowly.setattr("pinfold._program.run", slow)
        assert all(future.cancel() for future in futures)
        ends.set()
        eventually(lambda: all(future.usage(PATIENCE).state == "exited" for future in futures))


def test_states_of_jobs(executor: Executor) -> None:
    future = executor.submit(square, 2)
    assert future.result(PATIENCE) == 4 and future.job_id is not None
    eventually(lambda: future.usage(PATIENCE).state == "exited")
    views = pinfold.states([future.job_id, 4_000_000])
    assert views[future.job_id]["exit_code"] == 0
    unknown = views[4_000_000]
    assert (unknown["state"], unknown["exit_code"]) == ("exited", None) and "there is no job" in unknown["reason"]
    assert pinfold.states([]) == {}
