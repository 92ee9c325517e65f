"""What a complete program does with each buffer: counts and positions of its accesses, as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_lab.kernel_runtime.ir import Program, access_columns

_NEVER = np.iinfo(np.int64).max


class BufferUsage:
    """Per buffer: number of writes, first and last write, first read, last access; per op: its accesses.

    `first_read` is a very large number where there is no read; `last_*` are -1 where there is none. `foreign_reads`
    counts reads by instructions other than contractions. Index tensors of indirect views count as read by their op.
    """

    __slots__ = (
        "_accesses",
        "_is_out",
        "first_read",
        "first_write",
        "foreign_reads",
        "last_access",
        "last_write",
        "writes",
    )

    def __init__(self, program: Program) -> None:
        buffers = len(program.buffers)
        op, _, buffer, is_out = access_columns(program)
        self._accesses, self._is_out = (op, buffer), is_out
        variants = np.frombuffer(program.op_variant, np.uint32).astype(np.int64)
        matmul = program.variants_where(lambda item: item.instruction.contraction is not None)
        by_matmul = matmul[variants[op]] if len(op) else np.zeros(0, bool)
        self.writes = np.bincount(buffer[is_out], minlength=buffers)
        self.first_write = _extreme(np.minimum, _NEVER, buffer[is_out], op[is_out], buffers)
        self.last_write = _extreme(np.maximum, -1, buffer[is_out], op[is_out], buffers)
        self.first_read = _extreme(np.minimum, _NEVER, buffer[~is_out], op[~is_out], buffers)
        self.last_access = _extreme(np.maximum, -1, buffer, op, buffers)
        self.foreign_reads = np.bincount(buffer[~is_out & ~by_matmul], minlength=buffers)

    def writers(self, buffer: int) -> NDArray[np.int64]:
        """The ops that write a buffer, in order."""
        op, touched = self._accesses
        found: NDArray[np.int64] = op[self._is_out & (touched == buffer)]
        return found

    def touched(self, ops: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The buffers that some of the ops access; `ops` tells which, for each op of the program."""
        op, buffer = self._accesses
        out = np.zeros(len(self.writes), bool)
        out[buffer[ops[op]]] = True
        return out

    def never_read(self, buffer: int) -> bool:
        """Whether no op reads a buffer."""
        return bool(self.first_read[buffer] == _NEVER)


def _extreme(ufunc: np.ufunc, empty: int, buffer: NDArray[Any], op: NDArray[Any], buffers: int) -> NDArray[np.int64]:
    out = np.full(buffers, empty, np.int64)
    ufunc.at(out, buffer, op)
    return out
