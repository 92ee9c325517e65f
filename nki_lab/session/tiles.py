"""The contents of buffers for views: values at a step, what was written of them, scales, references, and where NaN come
from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np

from nki_lab.isa.element_values import element_values
from nki_lab.isa.ops.mx import scale_row
from nki_lab.kernel_runtime.footprint import WrittenPart, distinct, rect_of
from nki_lab.kernel_runtime.footprint.runs import Column
from nki_lab.kernel_runtime.ir import Program, View, access_columns
from nki_lab.kernel_runtime.protocols import ErrorGrowth, IndexUse, Search, TileContent, ValueSource
from nki_lab.kernel_runtime.tensor import Buffer, whole
from nki_lab.session.arrays import Array
from nki_lab.session.index_uses import IndexUses
from nki_lab.session.values import RunValues

SHADOW: Final = "shadow"
"""The values of the same program in higher precision."""
CHECKED: Final = "checked"
"""What `Run.check` compared the outputs with."""

_SCALES: Final = "_scale"  # operands `x` and `x_scale` of an instruction belong together
_E8M0_BIAS: Final = 127
_E8M0_NAN: Final = 255


class RunTiles:
    """The tiles of a run with values; see `TileSource`. `checked` are reference outputs by their buffers."""

    reason = ""

    def __init__(self, values: RunValues, checked: Mapping[int, Array], growth: Callable[[], ErrorGrowth]) -> None:
        self._values = values
        self.growth = growth
        self._program: Program = values.program
        self._checked = checked
        self._indices = IndexUses(values, self.written)

    @property
    def references(self) -> tuple[str, ...]:
        """See `TileSource.references`."""
        return (SHADOW, CHECKED) if self._checked else (SHADOW,)

    def content(self, step: int, buffer: int, *, after: bool) -> TileContent | None:
        """See `TileSource.content`."""
        tensor = self._buffer(buffer)
        values = self._values.after(step, tensor) if after else self._values.at(step, tensor)
        if values is None:
            return None
        written, known = self.written(self._values.last_writer(step, tensor, after=after)[0], tensor)
        rows = 1 if tensor.on_chip else max(1, len(tensor.shape) - 1)
        scales = self._scales(step, tensor, after=after) if tensor.dtype.kind == "packed" else None
        return TileContent(
            dtype=tensor.dtype, values=values, rows=rows, written=written, is_written_known=known, scales=scales
        )

    def indices(self, step: int, view: int) -> IndexUse | None:
        """See `TileSource.indices`."""
        return self._indices.at(step, view)

    def index_uses(self, step: int, buffer: int) -> tuple[IndexUse, ...]:
        """See `TileSource.index_uses`."""
        tensor = self._buffer(buffer)
        return self._indices.of(tensor, *self._values.last_writer(step, tensor, after=True))

    def reference(self, step: int, buffer: int, against: str, *, after: bool) -> Array | None:
        """See `TileSource.reference`."""
        tensor = self._buffer(buffer)
        if against == CHECKED:
            return self._checked.get(buffer)
        return self._values.shadow(step, tensor, after=after) if against == SHADOW else None

    def next_nonfinite(self, step: int, until: int, seconds: float) -> Search:
        """See `TileSource.next_nonfinite`."""
        end = time.monotonic() + seconds
        op, view = self._writes_in_order
        first = until if until >= 0 else (int(self._values.order[step]) + 1 if 0 <= step < len(self._program) else 0)
        for place in range(int(np.searchsorted(op, first)), len(op)):
            number = int(op[place])
            if time.monotonic() > end and number > first:
                return Search(-1, number)
            access = self._program.views[int(view[place])]
            if access.type.dtype.kind in {"float", "packed"} and self._writes_nonfinite(number, access):
                return Search(int(np.flatnonzero(self._values.order == number)[0]), -1)
        return Search(-1, -1)

    def _writes_nonfinite(self, op: int, view: View) -> bool:
        values = self._values.after_op(op, view)
        return values is not None and not bool(np.isfinite(element_values(values, view.type.dtype)).all())

    def written(self, op: int, tensor: Buffer) -> tuple[Array | None, bool]:
        """Return the elements of a tensor that ops up to `op` have written, None: all; and whether that is known."""
        if tensor.kind in {"input", "const"}:
            return None, True
        if len(self._values.overlapping(tensor)) > 1:
            return None, False
        ops, views, start = self._writes_by_buffer
        low, high = int(start[tensor.id]), int(start[tensor.id + 1])
        used = distinct(views[low : low + int(np.searchsorted(ops[low:high], op, "right"))])
        accesses = [self._program.views[number] for number in used.tolist()]
        if any(view.indirect is not None for view in accesses):
            return None, False
        is_odd = any(view.type.dtype.nbytes != tensor.dtype.nbytes for view in accesses)
        part = WrittenPart(tensor, tensor.dtype.nbytes if is_odd else 1)
        for view in accesses:
            part.write(view, None if is_odd else rect_of(view))
        if part.complete:
            return None, True
        mask: Array = np.all(part.bits().reshape(*tensor.shape, -1), axis=-1)
        return (None if bool(mask.all()) else mask), True

    def _scales(self, step: int, tensor: Buffer, *, after: bool) -> Array | None:
        """Return the powers of two of a packed tensor's blocks, from the instruction that takes both."""
        pair = self._scale_pairs.get(tensor.id)
        if pair is None:
            return None
        data, scale = pair
        moved = scale.buffer.id != tensor.id and data.full and scale.offset == 0 and scale.type.shape[0] >= 4
        raw = self._values.after(step, scale.buffer) if after else self._values.at(step, scale.buffer)
        if not moved or raw is None or raw.ndim != 2 or raw.dtype.itemsize != 1:
            return None
        rows = scale_row(np.arange(0, tensor.shape[0], 8))
        codes = raw.view(np.uint8)
        if rows.max(initial=0) >= codes.shape[0] or codes.shape[1] < tensor.row_elements:
            return None
        taken = codes[rows, : tensor.row_elements].astype(np.float32)
        return np.where(taken == _E8M0_NAN, np.float32(np.nan), taken - _E8M0_BIAS)

    # -- of the program ----------------------------------------------------------------------------------------------

    def _buffer(self, number: int) -> Buffer:
        if not 0 <= number < len(self._program.buffers):
            raise ValueError(f"the run has no tensor {number}")
        return self._program.buffers[number]

    @cached_property
    def _writes_in_order(self) -> tuple[Column, Column]:
        """The writes of all ops, as ops and views."""
        accesses = access_columns(self._program, indices=False)
        return accesses.op[accesses.is_out], accesses.view[accesses.is_out]

    @cached_property
    def _writes_by_buffer(self) -> tuple[Column, Column, Column]:
        """The writes sorted by buffer, as ops and views, and the index of each buffer's first one."""
        accesses = access_columns(self._program, indices=False)
        rows = np.flatnonzero(accesses.is_out)
        rows = rows[np.argsort(accesses.buffer[rows], kind="stable")]
        start = np.searchsorted(accesses.buffer[rows], np.arange(len(self._program.buffers) + 1))
        return accesses.op[rows], accesses.view[rows], start

    @cached_property
    def _scale_pairs(self) -> Mapping[int, tuple[View, View]]:
        """Of each packed buffer the first access that comes with scales, and that of the scales."""
        program = self._program
        paired = {
            variant.id: [
                (place, variant.names.index(name + _SCALES))
                for place, name in enumerate(variant.names)
                if name + _SCALES in variant.names
            ]
            for variant in program.variants
        }
        pairs: dict[int, tuple[View, View]] = {}
        for op in np.flatnonzero(
            np.isin(program.variant_column(), [number for number, pair in paired.items() if pair])
        ):
            first = program.op_access[int(op)]
            for data, scale in paired[program.op_variant[int(op)]]:
                view = program.views[program.access_view[first + data]]
                pairs.setdefault(view.buffer.id, (view, program.views[program.access_view[first + scale]]))
        return pairs


class NoTiles:
    """No values, with the reason; see `TileSource`."""

    references = ()

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def content(self, step: int, buffer: int, *, after: bool) -> None:
        """Return None: there are no values."""

    def reference(self, step: int, buffer: int, against: str, *, after: bool) -> None:
        """Return None: there are no values."""

    def indices(self, step: int, view: int) -> None:
        """Return None: there are no values."""

    def index_uses(self, step: int, buffer: int) -> tuple[IndexUse, ...]:
        """Return none: there are no values."""
        return ()

    def next_nonfinite(self, step: int, until: int, seconds: float) -> Search:
        """Find nothing."""
        return Search(-1, -1)

    def growth(self) -> ErrorGrowth:
        """Return nothing."""
        return no_growth()


def no_growth() -> ErrorGrowth:
    """Return that nothing is known of how errors grow."""
    return ErrorGrowth(steps=[], errors=[], tolerance=0.0, first=-1, text="The errors of this run are not known.")


def tiles_of(
    values: ValueSource,
    checked: Mapping[int, Array] | None = None,
    growth: Callable[[], ErrorGrowth] = no_growth,
) -> RunTiles | NoTiles:
    """Return the tiles of a run for views; `growth` tells how its errors grow."""
    return RunTiles(values, checked or {}, growth) if isinstance(values, RunValues) else NoTiles(values.reason)


def checked_outputs(program: Program, expected: list[Any]) -> dict[int, Array]:
    """Return the reference outputs of a run by the buffers that they are compared with; those of other shapes are left
    out.
    """
    found: dict[int, Array] = {}
    for tensor, want in zip(program.outputs, expected, strict=False):
        array = np.array(want)
        if tensor._buffer.shape == array.shape and whole(tensor._buffer)._shape == tensor._shape:
            found[tensor._buffer.id] = array
    return found
