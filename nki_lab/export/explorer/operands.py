"""The accesses of rows, as Neuron Explorer's tables have it: bytes by memory, and access patterns as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from nki_lab.diagnostic import NkiError
from nki_lab.isa.dtype import dtype_of
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, whole
from nki_lab.kernel_runtime.vocabulary import ROLES

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
