"""Shows how calls get on: as a table in a notebook, as a line in a terminal, and not at all where nobody would see it."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, wait
from typing import Any, Protocol, TextIO, TypeVar

from . import _html
from ._future import Future

T = TypeVar("T")

#: In which order states are shown.
_STATES = ("done", "failed", "cancelled", "running", "frozen", "parked", "queued", "held", "waiting")
#: How often the display is made anew at most, in seconds.
_EVERY = 0.5


class Display(Protocol):
    """Where progress is shown."""

    def show(self, counts: Counter[str], total: int, elapsed: float) -> None:
        """Shows it instead of what was shown before."""

    def close(self) -> None:
        """Leaves what was shown last."""


class Line:
    """One line of a terminal, written over and over."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.width = 0

    def show(self, counts: Counter[str], total: int, elapsed: float) -> None:
        text = f"{over(counts)}/{total} " + _bar(over(counts), total, 20) + " " + words(counts, elapsed)
        self.file.write("\r" + text.ljust(self.width))
        self.file.flush()
        self.width = len(text)

    def close(self) -> None:
        if self.width:
            self.file.write("\n")
            self.file.flush()


class Notebook:
    """An output of a notebook's cell, replaced over and over."""

    def __init__(self, ipython: Any) -> None:
        self.ipython = ipython
        self.handle: Any = None

    def show(self, counts: Counter[str], total: int, elapsed: float) -> None:
        text = f"{_html.bar(over(counts), total)} {_html.text(words(counts, elapsed))}"
        shown = self.ipython.display.HTML(text)
        if self.handle is None:
            self.handle = self.ipython.display.display(shown, display_id=True)
        else:
            self.handle.update(shown)

    def close(self) -> None:
        pass


class Nowhere:
    """No display: standard error is a file or a pipe."""

    def show(self, counts: Counter[str], total: int, elapsed: float) -> None:
        pass

    def close(self) -> None:
        pass


def over(counts: Counter[str]) -> int:
    """How many calls are over."""
    return sum(counts[state] for state in ("done", "failed", "cancelled"))


def words(counts: Counter[str], elapsed: float) -> str:
    """How many calls are in each state, and how long it took so far."""
    minutes, seconds = divmod(int(elapsed), 60)
    return ", ".join([*_each(counts), f"{minutes}:{seconds:02}"])


def summary(counts: Counter[str]) -> str:
    """As HTML: how many calls are over, and how many are in each state."""
    return f"{_html.bar(over(counts), counts.total())} {_html.text(', '.join(_each(counts)))}"


def _each(counts: Counter[str]) -> list[str]:
    return [f"{counts[state]} {state}" for state in _STATES if counts[state]]


def _bar(done: int, total: int, width: int) -> str:
    filled = width * done // max(total, 1)
    return "[" + "#" * filled + "." * (width - filled) + "]"


def _display(file: TextIO | None) -> Display:
    # Where a notebook runs this, IPython is there already.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if file is None and shell is not None and getattr(shell, "kernel", None) is not None:
        return Notebook(ipython)
    out = sys.stderr if file is None else file
    return Line(out) if file is not None or out.isatty() else Nowhere()


def progress(futures: Iterable[Future[T]], *, file: TextIO | None = None) -> Iterator[Future[T]]:
    """The futures as they are over, with a display of how many are in which state.

    In a notebook it is an output of the cell; elsewhere a line on `file`, or on standard error if that is a terminal.
    """
    everyone = list(futures)
    pending = set(everyone)
    display, began = _display(file), time.monotonic()

    def show() -> None:
        display.show(Counter(future.state for future in everyone), len(everyone), time.monotonic() - began)

    try:
        show()
        while pending:
            done = wait(pending, timeout=_EVERY, return_when=FIRST_COMPLETED).done
            show()
            for future in everyone:
                if future in done:
                    pending.discard(future)
                    yield future
    finally:
        display.close()
