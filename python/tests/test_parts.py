"""What needs no daemon: options, the display, the program."""

from __future__ import annotations

import io
import sys
import types
from collections import Counter
from concurrent.futures import Future as PlainFuture
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

import pinfold
from pinfold import PinfoldError, Resources
from pinfold._future import Future
from pinfold._progress import Line, Notebook, words


def test_resources_are_options() -> None:
    assert Resources().arguments() == []
    resources = Resources(
        name="a b", cores=2, mem=1 << 30, mem_limit="2GiB", time=90, ttl=timedelta(hours=1), job_class="backfill",
        no_suspend=True, within="db", options=["--private-tmp"],
    )  # fmt: skip
    assert resources.arguments() == [
        "--name=a b", "--in=db", "--cores=2", "--mem=1073741824B", "--mem-limit=2GiB", "--ttl=3600000000us",
        "--time=90000000us", "--no-suspend", "--backfill", "--private-tmp",
    ]  # fmt: skip
    assert resources.with_(cores=None, mem=None).cores is None


def test_the_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PINFOLD_PROGRAM", "/opt/pinfold")
    assert pinfold.program() == "/opt/pinfold"
    monkeypatch.delenv("PINFOLD_PROGRAM")
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(PinfoldError, match="set PINFOLD_PROGRAM"):
        pinfold.program()
    (tmp_path / "pinfold").write_text("")
    assert pinfold.program() == str(tmp_path / "pinfold")


def finished(result: int) -> Future[int]:
    future: Future[int] = Future("f", Path("none"), lambda _: None)
    future.set_running_or_notify_cancel()
    future.set_result(result)
    return future


def test_progress_on_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    # No time passes, however busy the machine is.
    monkeypatch.setattr("pinfold._progress.time", types.SimpleNamespace(monotonic=lambda: 7.0))
    out = io.StringIO()
    futures = [finished(1), finished(2)]
    assert sorted(future.result() for future in pinfold.progress(futures, file=out)) == [1, 2]
    shown = out.getvalue().split("\r")
    assert shown[-1].rstrip() == "2/2 [####################] 2 done, 0:00" and shown[-1].endswith("\n")
    assert list(pinfold.progress([], file=out)) == []


def test_a_shorter_line_covers_the_one_before() -> None:
    out = io.StringIO()
    line = Line(out)
    line.show(Counter(running=10, waiting=5), 15, 61)
    line.show(Counter(done=15), 15, 62)
    line.close()
    first, second = out.getvalue().split("\r")[1:]
    assert first.endswith("10 running, 5 waiting, 1:01") and len(second.rstrip("\n")) == len(first)


def test_progress_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    handle = types.SimpleNamespace(update=shown.append)

    def display(text: str, display_id: bool) -> types.SimpleNamespace:
        assert display_id
        shown.append(text)
        return handle

    shell = types.SimpleNamespace(kernel=object())
    ipython = types.SimpleNamespace(
        get_ipython=lambda: shell, display=types.SimpleNamespace(HTML=str, display=display)
    )
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert [future.result() for future in pinfold.progress([finished(3)])] == [3]
    assert shown[0].startswith('<progress value="1" max="1">') and "1/1 1 done" in shown[-1]
    assert isinstance(Notebook(ipython), object) and words(Counter(failed=1), 5) == "1 failed, 0:05"


#: What would be markup, close a quoted attribute, turn the direction of writing, or fill the page.
HOSTILE = "<script>alert(1)</script>\"' onload=x &amp; \u202eabc\n" + "y" * 10_000


class Page(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.said = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.said += data


def test_a_future_in_a_notebook() -> None:
    page = Page(finished(1)._repr_html_())
    assert page.said == "callfjob-statedone" and page.tags == ["table"] + ["tr", "th", "td"] * 3
    future: Future[int] = Future(HOSTILE, Path("none"), lambda _: None)
    future.set_running_or_notify_cancel()
    future.set_exception(type(HOSTILE[:60], (Exception,), {})(HOSTILE))
    page = Page(future._repr_html_())
    assert set(page.tags) == {"table", "tr", "th", "td"} and set(page.attributes) == {"style"}
    assert page.said.count("<script>alert(1)</script>\"' onload=x &amp; \ufffdabc\ufffdyyy") == 3
    assert len(page.said) < 600 and "\u202e" not in page.said
    cancelled: Future[int] = Future("f", Path("none"), lambda _: None)
    cancelled.cancel()
    assert "cancelled" in Page(cancelled._repr_html_()).said


def test_an_executor_in_a_notebook() -> None:
    with pinfold.Executor(name=HOSTILE, options=["--comment", "<b>"]) as executor:
        page = Page(executor._repr_html_())
    assert page.said.startswith(" 0/0 each call asks for--name=<script>") and "open" in page.said
    assert set(page.tags) == {"progress", "table", "tr", "th", "td"}
    assert set(page.attributes) == {"style", "value", "max"}
    assert "closed" in executor._repr_html_()


REPORT = {
    "job": 7, "state": "running", "queued_s": 0.5, "wall_s": 2.0, "suspended_s": 0.0, "cpu_user_s": 1.5, "cpu_system_s": 0.5,
    "memory_peak_bytes": 9, "memory_mean_bytes": 8, "swap_peak_bytes": 0, "io_read_bytes": 0, "io_write_bytes": 0,
    "exit_code": None, "signal": None,
}  # fmt: skip


def reports(monkeypatch: pytest.MonkeyPatch, *states: str) -> list[str]:
    """The states that reports have, one after the other; the last one from then on. What is left of them."""
    left = list(states)

    def ask(*arguments: str) -> dict[str, object]:
        assert arguments == ("report", "7")
        return REPORT | {"state": left.pop(0) if len(left) > 1 else left[0]}

    monkeypatch.setattr("pinfold._program.ask", ask)
    return left


def test_usage_waits_for_the_end_to_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    future = finished(1)
    future._job_id = 7
    left = reports(monkeypatch, "running", "running", "exited")
    assert future.usage(timeout=None).state == "exited" and left == ["exited"]
    assert future.usage(timeout=0).state == "exited", "nothing is missing, so nothing is waited for"


def test_an_end_that_is_not_recorded_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    future = finished(1)
    future._job_id = 7
    reports(monkeypatch, "running")
    for timeout in (0, 0.05):
        with pytest.raises(pinfold.EndNotRecorded, match=f"end of job 7 was not recorded within {timeout} s") as told:
            future.usage(timeout=timeout)
        assert (told.value.job_id, told.value.usage.state, told.value.usage.memory_peak_bytes) == (7, "running", 9)
    assert isinstance(told.value, PinfoldError)


def test_usage_of_a_call_that_is_not_over_is_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    future: Future[int] = Future("f", Path("none"), lambda _: None)
    future._job_id = 7
    left = reports(monkeypatch, "running", "exited")
    assert future.usage(timeout=0).state == "running" and left == ["exited"], "asked once"


def test_progress_is_not_written_into_pipes(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(list(pinfold.progress([finished(1)]))) == 1
    assert capsys.readouterr() == ("", "")


def test_a_future_is_one_of_the_standard_library() -> None:
    assert issubclass(pinfold.Future, PlainFuture)
    assert repr(finished(1)) == "<pinfold.Future f job=None done>"
