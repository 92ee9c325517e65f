"""Why a lane stands still, or takes longer than its work."""

from __future__ import annotations

from typing import Final

from nki_lab.isa.arch import Arch

STALL_REASONS: Final = (
    "none",
    "data from tensor",
    "data from vector",
    "data from scalar",
    "data from gpsimd",
    "data from sync",
    "data from dma",
    "anti-dependency",
    "output order",
    "memory reuse",
    "user order",
    "semaphore",
    "table load",
    "stationary load",
    "dma trigger",
    "dma start",
    "queue interval",
    "bandwidth",
    "port conflict",
    "psum bank",
    "power ramp",
    "launch",
    "other core",
)
"""Reasons by number; the first is no wait at all.

*data from X*: a value that X has yet to produce. *anti-dependency*, *output order*: an earlier read or write of the
same bytes. *memory reuse*: bytes of another tensor that is still in use. *user order*: an edge of the user's schedule.
*semaphore*: everything is ready but the signal of it. *table load*, *stationary load*: an engine's own preparation.
*dma trigger*: the descriptor generator is at work for other transfers. *dma start*: from trigger to first data. *queue
interval*: what a DMA queue needs from one transfer to the next. *bandwidth*: DMA engines shared with other queues, or
HBM with another core. *port conflict*, *psum bank*: another engine has the memory. *power ramp*: the Tensor Engine's
clock has yet to rise. *launch*: before and after the kernel. *other core*: what the other core has yet to come to, in
an exchange or a barrier.
"""

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
OTHER_CORE: Final = _NUMBER["other core"]

_EDGES: Final = ("anti-dependency", "output order", "memory reuse", "user order", "other core")
OF_EDGE: Final = (0, *(_NUMBER[name] for name in _EDGES))
"""The reason of an edge by its kind in a Schedule; a flow edge's (kind 0) is the data of the lane it comes from."""

FROM_PRODUCER: Final = frozenset((*range(1, _NUMBER["semaphore"] + 1), TRIGGER, OTHER_CORE))
"""Reasons whose wait ends a while after another row's result is visible; the others end after a row leaves its lane."""

_FACT: Final = {
    SEMAPHORE: "semaphore_ns",
    TABLE: "activation_table_load_ns",
    STATIONARY: "load_stationary_ns",
    TRIGGER: "dge_hardware_ns",
    DMA_START: "dma_start_hardware_ns",
    QUEUE: "dma_issue_interval_ns",
    BANDWIDTH: "dma_bytes_per_ns",
    RAMP: "power_ramp_floor",
    LAUNCH: "launch_ns",
}


def data_from(lane_name: str, kind: str) -> int:
    """The number of waiting for a value from a lane."""
    return _NUMBER["data from dma" if kind == "dma" else f"data from {lane_name}"]


def confidence_of(arch: Arch, reason: int) -> str:
    """How sure the length of a wait is, by the fact that it follows from; of waits for others, their signal's."""
    return arch.fact(_FACT.get(reason, "semaphore_ns")).confidence
