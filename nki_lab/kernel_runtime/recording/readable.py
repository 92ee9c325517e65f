"""Single lanes and rows for a reader, with numbers resolved into names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """An engine or a DMA queue."""

    number: int
    name: str
    kind: str
    core: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row for a reader: numbers resolved into names.

    Times in picoseconds. `wait` includes `setup`; `efficiency` is the row's own work as a share of
    its duration, the rest of which went to `throttle_reason`; the end of row `critical_pred` let it start (-1: none).
    `line` is 0 where it is unknown.
    """

    number: int
    name: str
    detail: str
    lane: str
    core: int
    start: int
    duration: int
    ready: int
    wait: int
    stall: str
    setup: int
    setup_stall: str
    efficiency: float
    throttle_reason: str
    file: str
    line: int
    function: str
    iteration: tuple[tuple[str, int], ...]
    critical_pred: int
    work: int
    bytes: int
    confidence: str
