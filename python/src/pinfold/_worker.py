"""Runs one call: `python -m pinfold._worker DIRECTORY`.

In the directory are `path` (the modules' path of who calls) and `call` (function and arguments); `result` is written there,
under another name first, so that a result is whole or not there. Never run by people.
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from pathlib import Path
from typing import Any


def _told(error: BaseException) -> tuple[bytes | None, str]:
    """An error, and its traceback as text; the error is left out where it cannot be pickled and read again."""
    import cloudpickle

    text = "".join(traceback.format_exception(error))
    try:
        pickled: bytes = cloudpickle.dumps(error)
        pickle.loads(pickled)
    except Exception:
        return None, text
    return pickled, text


def _call(directory: Path) -> tuple[bool, Any]:
    try:
        for place in reversed(pickle.loads((directory / "path").read_bytes())):
            if place not in sys.path:
                sys.path.insert(0, place)
        import cloudpickle

        function, arguments, keywords = pickle.loads((directory / "call").read_bytes())
        return True, cloudpickle.dumps(function(*arguments, **keywords))
    except Exception as error:
        return False, _told(error)


def main() -> int:
    """Runs the call that the command line names; succeeds if the call did."""
    directory = Path(sys.argv[1])
    succeeded, answer = _call(directory)
    unfinished = directory / f"result.{os.getpid()}"
    with open(unfinished, "wb") as file:
        pickle.dump((succeeded, answer), file)
    unfinished.rename(directory / "result")
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
