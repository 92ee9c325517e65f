"""Why a lane stands still, or takes longer than its work."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.footprint import Column
from nki_lab.kernel_runtime.vocabulary import DATA_FROM, DEPENDENCES, STALL_REASONS, STALLS

_NUMBER: Final = {name: number for number, name in enumerate(STALL_REASONS)}

NONE: Final = _NUMBER["none"]
SEMAPHORE: Final = _NUMBER["semaphore"]
TABLE: Final = _NUMBER["table load"]
STATIONARY: Final = _NUMBER["stationary load"]
TRIGGER: Final = _NUMBER["dma trigger"]
DMA_START: Final = _NUMBER["dma start"]
QUEUE: Final = _NUMBER["queue interval"]
BANDWIDTH: Final = _NUMBER["bandwidth"]
PORT: Final = _NUMBER["port conflict"]
BANK: Final = _NUMBER["psum bank"]
RAMP: Final = _NUMBER["power ramp"]
LAUNCH: Final = _NUMBER["launch"]
OTHER_RANK: Final = _NUMBER["other rank"]
LOOP: Final = _NUMBER["loop"]

OF_EDGE: Final = tuple(_NUMBER.get(edge.stall, NONE) for edge in DEPENDENCES)
"""The reason of an edge by its kind; a flow edge's (kind 0) is the data of the lane it comes from."""

FROM_PRODUCER: Final = frozenset(number for number, stall in enumerate(STALLS) if stall.by_result)
"""Reasons whose wait ends a while after another row's result is visible; the others end after a row leaves its lane."""

_FACT: Final = {
    SEMAPHORE: "semaphore_ns",
    TABLE: "activation_table_load_ns",
    STATIONARY: "load_stationary_ns",
    TRIGGER: "dge_hardware_ns",
    DMA_START: "dma_start_load_ns",
    QUEUE: "dma_issue_interval_ns",
    BANDWIDTH: "dma_bytes_per_ns",
    RAMP: "power_ramp_floor",
    LAUNCH: "launch_ns",
    LOOP: "loop_overhead_ns",
}


def by_reason(*waits: tuple[NDArray[np.integer], Column]) -> dict[int, int]:
    """Return the total time of each reason in (reasons, times), without zeros."""
    total = np.zeros(len(STALL_REASONS), np.int64)
    for reason, time in waits:
        np.add.at(total, reason.astype(np.intp), time)
    return {reason: time for reason, time in enumerate(total.tolist()) if time}


def data_from(lane_name: str, kind: str) -> int:
    """The number of waiting for a value from a lane."""
    return _NUMBER[DATA_FROM + ("dma" if kind == "dma" else lane_name)]


def confidence_of(arch: Arch, reason: int) -> str:
    """Return how sure the length of a wait is, by the fact behind it; of waits for others, the signal's."""
    return arch.fact(_FACT.get(reason, "semaphore_ns")).confidence
