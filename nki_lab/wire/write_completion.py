"""When each buffer is wholly there: after what fills it, however often it is written anew."""

from __future__ import annotations

from typing import Final

import numpy as np

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, whole
from nki_lab.kernel_runtime.vocabulary import ROLES

_READ: Final = ROLES.index("read")
_NEVER: Final = np.iinfo(np.int64).max


class WriteCompletion:
    """The times of a recording's buffers, from its accesses: piece by piece of steps, from the last to the first.

    A buffer is filled by all writes before its first read, and by those first writes of a part of it that come before
    its elements are complete. Later writes change what is there.
    """

    def __init__(self, recording: Recording) -> None:
        self.buffer_of = whole(recording.table("views")["buffer"])
        self.recording = recording
        buffers = len(recording.table("buffers"))
        self.before_reads = np.full(buffers, -1, np.int64)
        self.first_write = np.full(buffers, -1, np.int64)
        self.part_step = np.full(len(self.buffer_of), -1, np.int64)
        self.part_ready = np.full(len(self.buffer_of), -1, np.int64)

    def see(self, step: Array, view: Array, role: Array, ready: Array) -> None:
        """The accesses of some steps in their order; `ready` is when the results of each are visible."""
        buffer = self.buffer_of[view]
        reads, writes = np.flatnonzero(role == _READ)[::-1], np.flatnonzero(role != _READ)[::-1]
        # Backwards, so that of several values for one place the earliest stays.
        read = np.full(len(self.before_reads), _NEVER, np.int64)
        read[buffer[reads]] = step[reads]
        self.before_reads[read < _NEVER] = -1
        target, when = buffer[writes], ready[writes]
        early = step[writes] < read[target]
        np.maximum.at(self.before_reads, target[early], when[early])
        self.first_write[target] = when
        self.part_step[view[writes]] = step[writes]
        self.part_ready[view[writes]] = when

    def times(self) -> Array:
        """Of each buffer when it is filled; -1: nothing writes it."""
        out = np.maximum(self.before_reads, self.first_write)
        parts = np.flatnonzero(self.part_step >= 0)
        parts = parts[np.lexsort((self.part_step[parts], self.buffer_of[parts]))]
        if not len(parts):
            return out
        sizes, buffer = self._elements(), self.buffer_of[parts]
        size = sizes[whole(self.recording.table("views")["pattern"])[parts]]
        before = np.cumsum(size) - size
        first = np.flatnonzero(np.diff(buffer, prepend=-1))
        before -= np.repeat(before[first], np.diff(np.append(first, len(parts))))
        pattern = whole(self.recording.table("buffers")["pattern"])[buffer]
        missing = before < np.where(pattern < 0, _NEVER, sizes[pattern])
        np.maximum.at(out, buffer[missing], self.part_ready[parts[missing]])
        return out

    def _elements(self) -> Array:
        """The elements of each pattern."""
        patterns, size = self.recording.table("patterns"), whole(self.recording.table("dims")["size"])
        first, rank = whole(patterns["dim"]).astype(np.int64), whole(patterns["rank"]).astype(np.int64)
        out = np.ones(len(first), np.int64)
        for level in range(int(rank.max(initial=0))):
            deep = rank > level
            out[deep] *= size[first[deep] + level]
        return out
