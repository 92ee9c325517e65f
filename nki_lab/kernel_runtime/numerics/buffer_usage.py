"""Usage of each buffer by a complete program: counts and positions of its accesses, as columns."""

from __future__ import annotations

import numpy as np

from nki_lab.kernel_runtime.footprint import Column, Mask
from nki_lab.kernel_runtime.ir import Program, access_columns
from nki_lab.kernel_runtime.tensor import NkiTensor

NEVER = np.iinfo(np.int64).max
"""Stands for an op that never comes."""


class BufferUsage:
    """Per buffer: number of writes, first and last write, first read, last access; and whether it outlives the program.

    `first_*` are NEVER where there is none, `last_*` -1. `foreign_reads` counts the reads by instructions other than
    contractions, `is_output` tells which buffers the kernel returns. Index tensors of indirect views (`is_index`) count
    as read by the op, and are read while it runs, when later ops are planned already.
    """

    def __init__(self, program: Program) -> None:
        buffers = len(program.buffers)
        op, _, buffer, is_out = access_columns(program)
        self._op, self._buffer, self._is_out = op, buffer, is_out
        by_matmul = program.ops_where(lambda item: item.instruction.contraction is not None)[op]
        self.writes = np.bincount(buffer[is_out], minlength=buffers)
        self.reads = np.bincount(buffer[~is_out], minlength=buffers)
        self.foreign_reads = np.bincount(buffer[~is_out & ~by_matmul], minlength=buffers)

        def extreme(ufunc: np.ufunc, empty: int, rows: Mask | slice) -> Column:
            out = np.full(buffers, empty, np.int64)
            ufunc.at(out, buffer[rows], op[rows])
            return out

        self.first_write = extreme(np.minimum, NEVER, is_out)
        self.last_write = extreme(np.maximum, -1, is_out)
        self.first_read = extreme(np.minimum, NEVER, ~is_out)
        self.last_access = extreme(np.maximum, -1, slice(None))
        self.is_output = np.zeros(buffers, bool)
        self.is_output[[tensor._buffer.id for tensor in program.outputs]] = True
        indices = [view.indirect.index for view in program.views if view.indirect is not None]
        self.is_index = np.zeros(buffers, bool)
        self.is_index[[index._buffer.id for index in indices if isinstance(index, NkiTensor)]] = True

    def writers(self, buffer: int) -> Column:
        """Return the ops that write a buffer, in order."""
        found: Column = self._op[self._is_out & (self._buffer == buffer)]
        return found

    def accessed_by(self, ops: Mask) -> Mask:
        """Return of each buffer whether some op accesses it of those that `ops` selects."""
        out = np.zeros(len(self.writes), bool)
        out[self._buffer[ops[self._op]]] = True
        return out
