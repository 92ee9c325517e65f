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

    Times in picoseconds. `wait` includes `setup`; `pace` is the share of the duration that is the row's own work.
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
    pace: float
    held: str
    file: str
    line: int
    function: str
    iteration: tuple[tuple[str, int], ...]
    after: int
    work: int
    bytes: int
    confidence: str
