"""Memory over time: bytes of live and of dead tiles in the fullest partition, by core."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, whole
from nki_lab.kernel_runtime.recording.derive import fill
from nki_lab.kernel_runtime.vocabulary import SPACES
from nki_lab.plots.columns.frame import Frame, arch_of_run, nanoseconds

MEMORIES: Final = ("sbuf", "psum")
_NEVER: Final = np.iinfo(np.int64).max


def memory(recording: Recording) -> Frame:
    """Return the bytes of live and of dead tiles of each core's SBUF and PSUM; each row holds until the next one.

    Both are of the partition that has most of them, which need not be the same one. `capacity_bytes` of a partition is
    0 where the target is not known. The most live bytes are those of the summary.
    """
    usage = recording.usage_by_core()
    arch = arch_of_run(recording)
    parts = []
    for core in np.unique(usage["core"]).tolist():
        here = usage["core"] == core
        for space in MEMORIES:
            capacity = 0 if arch is None else int(getattr(arch, f"{space}_partition_bytes"))
            live = usage["time"][here].astype(np.int64), usage[space][here].astype(np.int64)
            dead = dead_bytes(recording, space, core)
            times = np.unique(np.concatenate(([0], live[0], dead[0], [recording.makespan])))
            times = times[times <= recording.makespan]
            parts.append((space, core, capacity, times, _at(*live, times), _at(*dead, times)))
    empty = np.zeros(0, np.int64)
    return {
        "memory": np.concatenate([np.zeros(0, "<U4"), *(np.full(len(part[3]), part[0]) for part in parts)]),
        "core": np.concatenate([empty, *(np.full(len(part[3]), part[1]) for part in parts)]),
        "time_ns": nanoseconds(np.concatenate([empty, *(part[3] for part in parts)])),
        "live_bytes": np.concatenate([empty, *(part[4] for part in parts)]),
        "dead_bytes": np.concatenate([empty, *(part[5] for part in parts)]),
        "capacity_bytes": np.concatenate([empty, *(np.full(len(part[3]), part[2]) for part in parts)]),
    }


def _at(times: Array, values: Array, when: Array) -> Array:
    """Return the values in force at some times, of values that hold until the next one; 0 before the first."""
    out: Array = np.concatenate(([0], values))[np.searchsorted(times, when, "right")]
    return out


def dead_bytes(recording: Recording, space: str, core: int) -> tuple[Array, Array]:
    """Return times, and from each on the bytes of dead tiles in the partition of a core's memory with most of them.

    A tile is dead from the end of its life until another tile takes a byte of it. One without an address has none.
    """
    lifetimes, buffers = recording.table("lifetimes"), recording.table("buffers")
    buffer = whole(lifetimes["buffer"])
    names = ("space", "core", "partition", "partitions", "byte", "partition_bytes")
    column = {name: whole(buffers[name])[buffer].astype(np.int64) for name in names}
    chosen = (column["space"] == SPACES.index(space)) & (column["core"] == core)
    chosen &= (column["byte"] >= 0) & (column["partition"] >= 0) & (column["partition_bytes"] > 0)
    places = np.flatnonzero(chosen)
    places = places[np.lexsort((buffer[places], whole(lifetimes["start"])[places]))]
    top, low = column["partition"][places], column["byte"][places]
    count, size = column["partitions"][places], column["partition_bytes"][places]
    start = whole(lifetimes["start"])[places].astype(np.int64)
    end = np.maximum(whole(lifetimes["end"])[places].astype(np.int64), start)
    taken = np.minimum(
        _taken(np.stack((low, low + size, top, top + count), axis=1), start, end), recording.makespan + 1
    )
    dies = taken > end
    parts = (part[dies] for part in (end, taken, column["core"][places], top, count, size))
    return fill(*parts)


def _taken(rectangle: Array, start: Array, end: Array) -> Array:
    """Return when another tile takes a byte of each tile, not before its own end, of tiles in order of start.

    `rectangle` has the bytes and the partitions of each: low, high, top, bottom. Tiles of one rectangle share a list of
    those that still have their bytes.
    """
    out = np.full(len(start), _NEVER, np.int64)
    kinds, kind = np.unique(rectangle, axis=0, return_inverse=True) if len(rectangle) else (rectangle, start)
    low, high, top, bottom = kinds.T if len(kinds) else (start,) * 4
    kept: list[list[int]] = [[] for _ in range(len(kinds))]
    near: dict[int, list[int]] = {}
    for tile, mine in enumerate(np.asarray(kind).reshape(-1).tolist()):
        if mine not in near:
            meets = (low < high[mine]) & (low[mine] < high) & (top < bottom[mine]) & (top[mine] < bottom)
            near[mine] = np.flatnonzero(meets).tolist()
        for other in near[mine]:
            _end_of(kept[other], out, start[tile], end)
            kept[other].clear()
        kept[mine].append(tile)
    return out


def _end_of(tiles: Iterable[int], taken: Array, time: int, end: Array) -> None:
    """Note that some tiles lose their bytes to one that starts at a time."""
    for tile in tiles:
        taken[tile] = max(end[tile], time)
