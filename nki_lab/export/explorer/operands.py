"""Accesses of rows and memory over time as Neuron Explorer's tables have them: bytes, and access patterns as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from nki_lab.diagnostic import NkiError
from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import dtype_of
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, whole
from nki_lab.kernel_runtime.vocabulary import ROLES, SPACES
from nki_lab.quantities import in_nanoseconds

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
        self.core = whole(buffers["core"])[self.buffer].astype(np.int64)

    def over_time(self, shares: Mapping[str, Array]) -> dict[str, Array]:
        """For each named share of each lifetime, the sum of those that live, at each time that changes them.

        Each core has rows of its own, one core after the other.
        """
        parts = [self._of_core(core, shares) for core in np.unique(self.core).tolist() or [0]]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _of_core(self, core: int, shares: Mapping[str, Array]) -> dict[str, Array]:
        mine = self.core == core
        times, place = np.unique(np.concatenate((self.start[mine], self.end[mine])), return_inverse=True)
        out = {"timestamp": in_nanoseconds(times), "pcore_idx": np.full(len(times), core)}
        for name, share in shares.items():
            change = np.zeros(len(times))
            np.add.at(change, place, np.concatenate((share[mine], -share[mine])))
            out[name] = np.maximum(np.round(np.cumsum(change), 6), 0)
        # Of several times with the same nanosecond the last one counts.
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
                "start_ts": in_nanoseconds(int(placed.start[number])),
                "end_ts": in_nanoseconds(int(placed.end[number])),
                "start_address": byte,
                "end_address": byte + int(placed.bytes[number]) - 1,
                "partition": partition,
                "op_source_type": None if lane is None else "dma" if transfer else "instruction",
                "opcode": None if lane is None or transfer else ops[int(rows["op"][first])],
                "queue_name": lane.name if lane is not None and transfer else None,
                "tensor_name": names[buffer] or None,
                "pcore_idx": int(placed.core[number]),
            }
            for name, value in values.items():
                out.setdefault(name, []).append(value)
    return out


MEMORIES: Final = ("sbuf", "psum", "hbm")
_MEMORY_OF_SPACE: Final = np.array([0, 1, 2, 2])
_SHOWN: Final = ("SB", "PSUM", "HBM")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One end of a transfer, as text."""

    memory: str = ""
    variable: str = ""
    shape: str = ""
    offset: str = ""
    steps: str = ""
    partitions: str = ""
    partition_count: int = 0
    bytes: int = 0


class Operands:
    """The accesses of a recording's rows, with what they amount to."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._bounds = np.append(whole(recording.rows["access"]).astype(np.int64), len(recording.table("accesses")))
        self._sizes = np.array([_nbytes(recording, n) for n in range(len(recording.table("patterns")))], np.int64)
        self.side = lru_cache(maxsize=65536)(self._side)

    def moved(self, low: int, high: int) -> Array:
        """Bytes by row, memory (in the order of MEMORIES) and direction (read, write) of some rows."""
        accesses, views = self._recording.table("accesses"), self._recording.table("views")
        span = slice(int(self._bounds[low]), int(self._bounds[high]))
        row = np.repeat(np.arange(high - low), np.diff(self._bounds[low : high + 1]))
        view, role = accesses["view"][span], accesses["role"][span]
        size = self._sizes[whole(views["pattern"])[view]]
        memory = _MEMORY_OF_SPACE[whole(self._recording.table("buffers")["space"])[whole(views["buffer"])[view]]]
        out = np.zeros((high - low, len(MEMORIES), 2), np.int64)
        for direction, other in ((0, "write"), (1, "read")):
            some = role != ROLES.index(other)
            np.add.at(out, (row[some], memory[some], direction), size[some])
        return out

    def ends(self, row: int) -> tuple[Side, Side]:
        """Return the source and the target of a transfer; the first of each, where there are several."""
        source = target = Side()
        for view, role in reversed(self._recording.accesses(row)):
            if role != "write":
                source = self.side(view)
            if role != "read":
                target = self.side(view)
        return source, target

    def _side(self, view: int) -> Side:
        recording = self._recording
        views, buffers = recording.table("views"), recording.table("buffers")
        buffer, pattern = int(views["buffer"][view]), int(views["pattern"][view])
        _, sizes, steps = recording.pattern(pattern)
        memory = int(_MEMORY_OF_SPACE[int(buffers["space"][buffer])])
        first, count = int(buffers["partition"][buffer]), sizes[0] if sizes else 0
        on_chip = memory != MEMORIES.index("hbm") and first >= 0
        return Side(
            memory=f"[{_SHOWN[memory]}]",
            variable=recording.names[int(buffers["name"][buffer])],
            shape=_listed(sizes),
            offset=f"[{hex(int(views['offset'][view]))}]",
            steps=_listed(steps),
            partitions=f"{first}-{first + count - 1}" if on_chip and count else "",
            partition_count=count if on_chip else 0,
            bytes=int(self._sizes[pattern]),
        )


def _listed(values: Sequence[int]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _nbytes(recording: Recording, pattern: int) -> int:
    """Bytes of a pattern; 0 where its dtype is unknown."""
    name, sizes, _ = recording.pattern(pattern)
    try:
        size = dtype_of(name).nbytes
    except NkiError:
        return 0
    return math.prod(sizes, start=size)
