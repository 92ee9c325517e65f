"""What a complete program does with each buffer: counts and positions of its accesses, as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_lab.kernel_runtime.ir import Program

_NEVER = np.iinfo(np.int64).max


class Survey:
    """Per buffer: number of writes, first and last write, first read, last access; per op: its accesses.

    `first_read` is a very large number where there is no read; `last_*` are -1 where there is none. `foreign_reads`
    counts reads by instructions other than nc_matmul. Index tensors of indirect views count as read by their op.
    """

    __slots__ = ("first_read", "first_write", "foreign_reads", "last_access", "last_write", "writes")

    def __init__(self, program: Program) -> None:
        buffers = len(program.buffers)
        views = program.views
        view_buffer = np.fromiter((view.buffer.id for view in views), np.int64, len(views))
        accesses = np.frombuffer(program.access_view, np.uint32).astype(np.int64)
        variants = np.frombuffer(program.op_variant, np.uint32).astype(np.int64)
        starts = np.frombuffer(program.op_access, np.uint32).astype(np.int64)
        sizes = np.fromiter((len(v.names) for v in program.variants), np.int64, len(program.variants))
        counts = sizes[variants]
        op = np.repeat(np.arange(len(variants), dtype=np.int64), counts)
        roles = np.concatenate([np.array(v.outs, bool) for v in program.variants] or [np.zeros(0, bool)])
        role_start = np.concatenate(([0], np.cumsum(sizes)))[:-1]
        position = np.arange(len(accesses), dtype=np.int64) - np.repeat(starts, counts)
        is_out = roles[np.repeat(role_start[variants], counts) + position]
        buffer = view_buffer[accesses]
        op, buffer, is_out = _with_indices(program, op, buffer, is_out, accesses)
        matmul = np.array([v.instruction.name == "nc_matmul" for v in program.variants], bool)
        by_matmul = matmul[variants[op]] if len(op) else np.zeros(0, bool)
        self.writes = np.bincount(buffer[is_out], minlength=buffers)
        self.first_write = _extreme(np.minimum, _NEVER, buffer[is_out], op[is_out], buffers)
        self.last_write = _extreme(np.maximum, -1, buffer[is_out], op[is_out], buffers)
        self.first_read = _extreme(np.minimum, _NEVER, buffer[~is_out], op[~is_out], buffers)
        self.last_access = _extreme(np.maximum, -1, buffer, op, buffers)
        self.foreign_reads = np.bincount(buffer[~is_out & ~by_matmul], minlength=buffers)


def _with_indices(program: Program, op: NDArray[Any], buffer: NDArray[Any], is_out: NDArray[Any],
                  accesses: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:  # fmt: skip
    indexed = {
        view.id: view.indirect.index._buffer.id
        for view in program.views
        if view.indirect is not None and hasattr(view.indirect.index, "_buffer")
    }
    if not indexed:
        return op, buffer, is_out
    rows = np.flatnonzero(np.isin(accesses, list(indexed)))
    extra = np.array([indexed[int(accesses[row])] for row in rows], np.int64)
    return (
        np.concatenate((op, op[rows])),
        np.concatenate((buffer, extra)),
        np.concatenate((is_out, np.zeros(len(rows), bool))),
    )


def _extreme(ufunc: np.ufunc, empty: int, buffer: NDArray[Any], op: NDArray[Any], buffers: int) -> NDArray[np.int64]:
    out = np.full(buffers, empty, np.int64)
    ufunc.at(out, buffer, op)
    return out
