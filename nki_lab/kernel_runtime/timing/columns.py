"""Columns that the walk writes: one entry an op, cheap to write one by one."""

from __future__ import annotations

from array import array


class Columns:
    """Times of ops in picoseconds.

    `start`, `duration`: when an op takes its lane, and for how long. `ready`: when its result is visible, -1 before
    that is known. `stall`: what its lane waited for before it, `critical_pred`: the op whose end let it start (-1:
    none). `setup`: the last stretch of that wait, which the lane spent on `setup_reason`. `busy`: its own work within
    `duration`; the rest went to `throttle_reason`.
    """

    __slots__ = (
        "busy",
        "critical_pred",
        "duration",
        "ready",
        "setup",
        "setup_reason",
        "stall",
        "start",
        "throttle_reason",
    )

    def __init__(self, count: int) -> None:
        nothing = bytes(8 * count)
        self.start = array("q", nothing)
        self.duration = array("q", nothing)
        self.ready = array("q", b"\xff" * (8 * count))
        self.critical_pred = array("q", b"\xff" * (8 * count))
        self.busy = array("q", nothing)
        self.setup = array("q", nothing)
        self.setup_reason = bytearray(count)
        self.stall = bytearray(count)
        self.throttle_reason = bytearray(count)
