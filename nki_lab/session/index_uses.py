"""Rows that run-time indices select, of transfers whose addresses an index tensor holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.ir import Program, View, access_columns
from nki_lab.kernel_runtime.protocols import IndexUse
from nki_lab.kernel_runtime.tensor import Buffer, NkiTensor
from nki_lab.session.arrays import Array
from nki_lab.session.values import RunValues

_MOST: Final = 1 << 14
"""Indices that are told of one content of a tensor, at most."""

Written = Callable[[int, Buffer], tuple[Array | None, bool]]


class IndexUses:
    """The index tensors of a run. `written` tells which elements of a buffer ops up to one have written, None: all."""

    def __init__(self, values: RunValues, written: Written) -> None:
        self._values = values
        self._program: Program = values.program
        self._written = written

    def at(self, step: int, view: int) -> IndexUse | None:
        """Return what the instruction of a step takes of the index tensor of one of its operands, and which other steps
        take the same; None where an instruction before it failed. ValueError where no index tensor moves the operand.
        """
        if not 0 <= step < len(self._program):
            raise ValueError(f"the run has no step {step}")
        op = int(self._values.order[step])
        if view not in self._ops or op not in self._ops[view]:
            raise ValueError(f"no index tensor moves operand {view} of step {step}")
        moved, index = self._program.views[view], _index_of(self._program.views[view])
        assert index is not None
        last, until = self._values.writers_around(op, index._buffer)
        return self._use(moved, index, last, until)

    def of(self, buffer: Buffer, last: int, until: int) -> tuple[IndexUse, ...]:
        """Return what instructions take of a buffer while it holds what op `last` left, which op `until` changes."""
        found: list[IndexUse] = []
        size = 0
        for view in self._by_buffer.get(buffer.id, ()):
            moved, index = self._program.views[view], _index_of(self._program.views[view])
            if index is None or not any(last < op <= until for op in self._ops[view]):
                continue
            use = self._use(moved, index, last, until)
            size += 0 if use is None else len(use.values) + len(use.steps)
            if size > _MOST:
                break
            found += [] if use is None else [use]
        return tuple(found)

    def _use(self, moved: View, index: NkiTensor, last: int, until: int) -> IndexUse | None:
        indirect = moved.indirect
        assert indirect is not None
        values = self._values.left_by(last, index, until)
        if values is None:
            return None
        ops = [op for op in self._ops[moved.id] if last < op <= until]
        by_columns = any(self._use_order(op) == "columns" for op in ops)
        taken = values.astype(np.int64).reshape(values.shape[0], -1).reshape(-1, order="F" if by_columns else "C")
        count = 1 if indirect.kind == "scalar" else moved.type.shape[0]
        return IndexUse(
            view=moved.id,
            steps=np.sort(self._step_of[ops]).tolist(),
            values=taken[:count].tolist(),
            written=self._is_written(last, index, by_columns=by_columns, count=count),
            stride=indirect.stride,
            lowest=indirect.lowest,
            highest=indirect.highest,
        )

    def _is_written(self, last: int, index: NkiTensor, *, by_columns: bool, count: int) -> bool:
        """Return whether all indices that are taken were written."""
        mask, _ = self._written(last, index._buffer)
        if mask is None:
            return True
        if index._dtype.nbytes != index._buffer.dtype.nbytes:
            return bool(mask.all())
        steps = np.zeros(index._shape, np.int64) + index._offset
        for axis, (size, step) in enumerate(zip(index._shape, index._strides, strict=True)):
            steps += (np.arange(size) * step).reshape([size if other == axis else 1 for other in range(steps.ndim)])
        places = steps.reshape(index._shape[0], -1).reshape(-1, order="F" if by_columns else "C")[:count]
        return bool(mask.reshape(-1)[places].all())

    def _use_order(self, op: int) -> str:
        return self._program.variants[self._program.op_variant[op]].use.index_order

    @cached_property
    def _ops(self) -> dict[int, list[int]]:
        """The ops that access each view which an index tensor moves, ascending."""
        moved = [view.id for view in self._program.views if _index_of(view) is not None]
        accesses = access_columns(self._program, indices=False)
        found: dict[int, list[int]] = {view: [] for view in moved}
        for row in np.flatnonzero(np.isin(accesses.view, moved)).tolist():
            found[int(accesses.view[row])].append(int(accesses.op[row]))
        return found

    @cached_property
    def _by_buffer(self) -> dict[int, list[int]]:
        """The views that each buffer holds the indices of."""
        found: dict[int, list[int]] = {}
        for view in self._ops:
            index = _index_of(self._program.views[view])
            if index is not None:
                found.setdefault(index._buffer.id, []).append(view)
        return found

    @cached_property
    def _step_of(self) -> Array:
        """The step of each op."""
        steps = np.empty(len(self._values.order), np.int64)
        steps[self._values.order] = np.arange(len(steps))
        return steps


def _index_of(view: View) -> NkiTensor | None:
    """Return the tensor with the run-time indices of a view; None where it has none. Tensor indirection has lists for
    groups of partitions, which select no rows.
    """
    indirect = view.indirect
    if indirect is None or indirect.kind == "gather" or not isinstance(indirect.index, NkiTensor):
        return None
    return indirect.index


__all__ = ["IndexUses"]
