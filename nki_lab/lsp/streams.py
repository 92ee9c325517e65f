"""Standard input and output, for the messages of one process alone."""

from __future__ import annotations

import os
from typing import BinaryIO


def own_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return standard input and output for the process alone.

    What anything prints goes to the log from then on, and no child reads the other side's messages.
    """
    source, output = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)
    return source, output
