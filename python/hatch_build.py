"""Puts `pinfold` and `pinfoldd` into the wheel, as programs beside Python's own.

They are taken from the directory that PINFOLD_PROGRAMS names, else from the release build of the source tree. With
PINFOLD_PROGRAMS=none the wheel has none of them, and whoever installs it has `pinfold` in PATH by other means.
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = ("pinfold", "pinfoldd")


def newest_glibc(files: list[Path]) -> int:
    """The newest minor version of glibc's symbols that these programs ask for; 17 is the oldest that wheels name."""
    versions = [int(minor) for file in files for minor in re.findall(rb"\0GLIBC_2\.(\d+)\b", file.read_bytes())]
    return max([17, *versions])


class ProgramsHook(BuildHookInterface[Any]):
    """See the module."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        named = os.environ.get("PINFOLD_PROGRAMS")
        if named == "none" or version == "editable":
            return
        place = Path(named) if named else Path(self.root).parent / "target" / "release"
        files = [place / name for name in PROGRAMS]
        missing = [str(file) for file in files if not file.is_file()]
        if missing:
            raise FileNotFoundError(
                f"{', '.join(missing)}: not there; build them by `cargo build --release -p pinfold-cli -p pinfold-daemon`, "
                "name their directory in PINFOLD_PROGRAMS, or say PINFOLD_PROGRAMS=none for a wheel without them"
            )
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_{newest_glibc(files)}_{platform.machine()}"
        build_data["shared_scripts"].update({str(file): file.name for file in files})
