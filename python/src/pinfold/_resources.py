"""What a call asks for, as options of `pinfold submit`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, Literal

Size = int | str
"""Bytes, or a text with a unit: ``"2GiB"``."""

Duration = float | timedelta | str
"""Seconds, a `timedelta`, or a text with a unit: ``"1h30m"``."""


def _size(value: Size) -> str:
    return value if isinstance(value, str) else f"{value}B"


def _duration(value: Duration) -> str:
    if isinstance(value, str):
        return value
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return f"{round(seconds * 1_000_000)}us"


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a call asks for. `None`, or false: what `pinfold submit` has without that option."""

    #: A name for the job; else the function's.
    name: str | None = None
    #: The project it belongs to.
    project: str | None = None
    #: 1 to 16, larger is more important.
    priority: int | None = None
    #: Whole cores it needs.
    cores: int | None = None
    #: Memory it is expected to need.
    mem: Size | None = None
    #: Memory it may not exceed.
    mem_limit: Size | None = None
    #: A directory in memory of this size, named in its TMPDIR.
    tmp: Size | None = None
    #: How long it may wait before it expires.
    ttl: Duration | None = None
    #: How long it is expected to run.
    time: Duration | None = None
    #: How long it may run, frozen time not counted, before it is ended.
    timeout: Duration | None = None
    #: `primary`: wait for a home core; `backfill`: idle cycles alone; `exclusive`: the whole host.
    job_class: Literal["primary", "backfill", "exclusive"] | None = None
    #: The set of cores to run in (`pinfold sets`).
    within: str | None = None
    #: Never freeze it by the host's own choice.
    no_suspend: bool = False
    #: If memory can be had in no other way, end it and begin it anew later.
    requeue: bool = False
    #: Refuse what does not hold on this host.
    strict: bool = False
    #: Further options of `pinfold submit`, as they are typed there.
    options: Sequence[str] = ()

    def with_(self, **changes: Any) -> Resources:
        """The same with these changes."""
        known = {field.name for field in fields(self)}
        for name in changes:
            if name not in known:
                raise TypeError(f"{name!r} is no resource; there are {', '.join(sorted(known))}")
        return replace(self, **changes)

    def arguments(self) -> list[str]:
        """The options for the command line."""
        said: list[str] = []
        texts = {"--name": self.name, "--project": self.project, "--in": self.within}
        numbers = {"--priority": self.priority, "--cores": self.cores}
        sizes = {"--mem": self.mem, "--mem-limit": self.mem_limit, "--tmp": self.tmp}
        durations = {"--ttl": self.ttl, "--time": self.time, "--timeout": self.timeout}
        switches = {"--no-suspend": self.no_suspend, "--requeue": self.requeue, "--strict": self.strict}
        said += [f"{option}={text}" for option, text in texts.items() if text is not None]
        said += [f"{option}={number}" for option, number in numbers.items() if number is not None]
        said += [f"{option}={_size(size)}" for option, size in sizes.items() if size is not None]
        said += [f"{option}={_duration(time)}" for option, time in durations.items() if time is not None]
        said += [option for option, on in switches.items() if on]
        if self.job_class is not None:
            said.append(f"--{self.job_class}")
        return [*said, *self.options]
