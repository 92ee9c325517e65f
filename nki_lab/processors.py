"""The processors that this process may use."""

from __future__ import annotations

import os


def processor_count() -> int:
    """Return how many there are, at least 1."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1
