"""HTML for notebooks. Names and messages are somebody's text, never markup."""

from __future__ import annotations

import html
from collections.abc import Iterable

#: How much of a text is shown.
_TEXT = 200


def text(said: object) -> str:
    """A text as HTML shows it: no markup, nothing that turns the direction of writing, and not too long."""
    whole = str(said)
    cut = whole[:_TEXT] + ("…" if len(whole) > _TEXT else "")
    return html.escape("".join(one if one.isprintable() else "�" for one in cut))


def bar(done: int, total: int) -> str:
    """How many of so many are over."""
    return f'<progress value="{done}" max="{max(total, 1)}"></progress> {done}/{total}'


def table(rows: Iterable[tuple[str, object]]) -> str:
    """A row for each name and value; the first column is its name."""
    lines = (f'<tr><th style="text-align:left">{text(name)}</th><td>{text(value)}</td></tr>' for name, value in rows)
    return f"<table>{''.join(lines)}</table>"
