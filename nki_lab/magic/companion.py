"""The process beside a notebook's that checks cells: light to load, so that it can be started with the extension."""

from __future__ import annotations

import atexit
import sys
from contextlib import suppress
from typing import Final

from nki_lab.contained import Companion

CHECKING: Final = "nki_lab.magic.checking"
companion: Final = Companion(CHECKING)
atexit.register(companion.close)


def start() -> None:
    """Start the process, where there can be one: it is ready when the first cell runs."""
    if sys.executable:
        with suppress(OSError):
            companion.start()
