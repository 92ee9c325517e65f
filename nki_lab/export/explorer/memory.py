"""Memory as Neuron Explorer's tables have it: fullness in percent over time, and which addresses hold what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, whole
from nki_lab.kernel_runtime.vocabulary import SPACES

PARTITIONS: Final = (0, 32, 64, 96)
"""The partitions of SBUF that profiles sample."""


class _Placed:
    """The lifetimes of the buffers of one memory that have a place, as columns."""

    def __init__(self, recording: Recording, space: str) -> None:
        life, buffers = recording.table("lifetimes"), recording.table("buffers")
        buffer = whole(life["buffer"])
        chosen = (whole(buffers["space"])[buffer] == SPACES.index(space)) & (
            (whole(buffers["partition"])[buffer] >= 0) & (whole(buffers["byte"])[buffer] >= 0)
        )
        self.buffer = buffer[chosen]
        self.start, self.end, self.first = (whole(life[name])[chosen] for name in ("start", "end", "first"))
        self.low = whole(buffers["partition"])[self.buffer].astype(np.int64)
        self.high = self.low + whole(buffers["partitions"])[self.buffer]
        self.byte = whole(buffers["byte"])[self.buffer]
        self.bytes = whole(buffers["partition_bytes"])[self.buffer]

    def over_time(self, shares: Mapping[str, Array]) -> dict[str, Array]:
        """For each named share of each lifetime, the sum of those that live, at each time that changes them."""
        times, place = np.unique(np.concatenate((self.start, self.end)), return_inverse=True)
        out = {"timestamp": times // 1000}
        for name, share in shares.items():
            change = np.zeros(len(times))
            np.add.at(change, place, np.concatenate((share, -share)))
            out[name] = np.maximum(np.round(np.cumsum(change), 6), 0)
        # Of several times within a nanosecond the last one counts.
        keep = np.append(out["timestamp"][1:] != out["timestamp"][:-1], True) if len(times) else np.zeros(0, bool)
        return {name: column[keep] for name, column in out.items()}


def sbuf_usage(recording: Recording, arch: Arch) -> dict[str, Array]:
    """The columns of SbufUsage."""
    placed = _Placed(recording, "sbuf")
    percent = 100 * placed.bytes / arch.sbuf_partition_bytes
    shares = {"avg_util_percent": percent * (placed.high - placed.low) / arch.pmax}
    for partition in PARTITIONS:
        here = (placed.low <= partition) & (partition < placed.high)
        shares[f"partition_{partition}_util_percent"] = np.where(here, percent, 0.0)
    return placed.over_time(shares)


def psum_usage(recording: Recording, arch: Arch) -> dict[str, Array]:
    """The columns of PsumUsage; a bank is full when all its bytes in all partitions are."""
    placed = _Placed(recording, "psum")
    part = (placed.high - placed.low) / arch.pmax
    shares = {"avg_util_percent": 100 * placed.bytes / arch.psum_partition_bytes * part}
    for bank in range(arch.psum_banks):
        low = bank * arch.psum_bank_bytes
        inside = np.minimum(placed.byte + placed.bytes, low + arch.psum_bank_bytes) - np.maximum(placed.byte, low)
        shares[f"bank_{bank}_util_percent"] = 100 * np.maximum(inside, 0) / arch.psum_bank_bytes * part
    return placed.over_time(shares)


def sbuf_allocations(recording: Recording) -> dict[str, list[object]]:
    """The columns of SbufAllocation: one row a lifetime and sampled partition, addresses within the partition."""
    placed = _Placed(recording, "sbuf")
    rows, lanes = recording.rows, recording.lanes
    names, ops = recording.texts("buffers", "name"), recording.texts("ops", "name")
    out: dict[str, list[object]] = {}
    for number, buffer in enumerate(placed.buffer.tolist()):
        first = int(placed.first[number])
        lane = lanes[int(rows["lane"][first])] if first >= 0 else None
        transfer = lane is not None and lane.kind == "dma"
        byte = int(placed.byte[number])
        for partition in PARTITIONS:
            if not int(placed.low[number]) <= partition < int(placed.high[number]):
                continue
            values = {
                "start_ts": int(placed.start[number]) // 1000,
                "end_ts": int(placed.end[number]) // 1000,
                "start_address": byte,
                "end_address": byte + int(placed.bytes[number]) - 1,
                "partition": partition,
                "op_source_type": None if lane is None else "dma" if transfer else "instruction",
                "opcode": None if lane is None or transfer else ops[int(rows["op"][first])],
                "queue_name": lane.name if lane is not None and transfer else None,
                "tensor_name": names[buffer] or None,
                "pcore_idx": lane.core if lane is not None else 0,
            }
            for name, value in values.items():
                out.setdefault(name, []).append(value)
    return out
