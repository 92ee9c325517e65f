"""The content of memory at a step of a run: the program is executed again on copies of its arguments, up to there."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.footprint import Column, distinct
from nki_lab.kernel_runtime.ir import Program, View, access_columns
from nki_lab.kernel_runtime.numerics.nonfinite import Search, first_nonfinite
from nki_lab.kernel_runtime.numerics.precision import Errors, rounding_errors
from nki_lab.kernel_runtime.numerics.replay import Replay
from nki_lab.kernel_runtime.numerics.wide import TOO_LARGE, WideExecutor
from nki_lab.kernel_runtime.protocols import ValueSource
from nki_lab.kernel_runtime.tensor import Buffer, NkiTensor, VirtualRegister, whole
from nki_lab.session.arguments import Input
from nki_lab.session.arrays import Array
from nki_lab.timeline.timeline import Timeline


@dataclass(frozen=True, repr=False)
class NotRecorded:
    """The absence of values, with the reason."""

    reason: str

    def at(self, step: int, what: object) -> None:
        """Return None: there are no values."""

    def __repr__(self) -> str:
        return f"<no values: {self.reason}>"

    def shadow(self, step: int, what: object, *, after: bool = False) -> None:
        """Return None: there are no values."""


NOTHING: Final = NotRecorded("values not recorded: the kernel did not run")


class RunValues:
    """The values of a run that computed some; see `ValueSource`.

    The values are those of a run with `matmul_order="tile"`, and lie within its bound of the run's own. The program is
    executed again up to the requested step; on the way its state is saved every `replay_instructions`, so that a later
    request costs at most as many, as long as states, answers and copies of the arguments fit into `replay_bytes`.
    Several threads may call `at`.
    """

    reason = ""

    def __init__(self, timeline: Timeline, arrays: Mapping[int, Array]) -> None:
        self._timeline = timeline
        self._arrays = arrays
        self._lock = threading.RLock()

    def at(self, step: int, what: Any) -> Array | None:
        """See `ValueSource.at`."""
        return self._at(step, what, self.replay, after=False)

    def after(self, step: int, what: Any) -> Array | None:
        """Return the values when the instruction of a step has written: after it and everything before it in the
        program; where it does not write to `what`, those that `at` gives.
        """
        return self._at(step, what, self.replay, after=True)

    def shadow(self, step: int, what: Any, *, after: bool = False) -> Array | None:
        """See `ValueSource.shadow`. NKI028 where the float64 values take more than `replay_bytes`."""
        return self._at(step, what, self.wide_replay, after=after)

    def _at(self, step: int, what: Any, replay: Replay, *, after: bool) -> Array | None:
        if not 0 <= step <= len(self.order):
            raise IndexError(f"step {step} of {len(self.order)}")
        view = self._view(what)
        with self._lock:
            op, until = self.last_writer(step, view.buffer if isinstance(view, View) else view._buffer, after=after)
            try:
                return replay.after(op, view, until)
            except NkiError as error:  # where the run failed, or an index that leads nowhere yet
                if error.diagnostics[0].code == TOO_LARGE:
                    raise
                return None

    def after_op(self, op: int, view: View) -> Array | None:
        """Return the values of a view right after an op that writes to it."""
        with self._lock:
            try:
                return self.replay.after(op, view, op + 1)
            except NkiError:
                return None

    def left_by(self, op: int, what: View | NkiTensor, until: int) -> Array | None:
        """Return the values that op `op`, and those before it, left in a view, which `until` is the next to change."""
        with self._lock:
            try:
                return self.replay.after(op, what, until)
            except NkiError:
                return None

    @property
    def program(self) -> Program:
        """The program that is executed: a row for each step."""
        return self._timeline.program

    def overlapping(self, buffer: Buffer) -> list[int]:
        """Return a buffer and those that the user placed over it."""
        return [buffer.id] if self._allocation is not None else self._overlapping(buffer.id)

    @cached_property
    def wide_replay(self) -> Replay:
        """The replay of the program in float64."""
        options = self._timeline.program.options
        limit = max(0, options.replay_bytes - sum(array.nbytes for array in self._arrays.values()))
        program = self._timeline.program
        executor = WideExecutor(program, dict(self._arrays), self._allocation, limit=limit)
        return Replay(
            program,
            self._arrays,
            self._allocation,
            interval=options.replay_instructions,
            limit=limit,
            executor=executor,
        )

    def rounding_errors(self, tolerance: float, *, seconds: float = math.inf, stop: bool = False) -> Errors:
        """Return the rounding errors of the run; see `numerics.precision.rounding_errors`."""
        return rounding_errors(
            self._timeline.program,
            self._arrays,
            self._allocation,
            tolerance,
            limit=self._timeline.program.options.replay_bytes,
            seconds=seconds,
            stop=stop,
        )

    def first_nonfinite(self, *, seconds: float = math.inf) -> Search:
        """Return the first instruction that writes NaN, or an infinity from finite numbers."""
        return first_nonfinite(self._timeline.program, self._arrays, self._allocation, seconds=seconds)

    @cached_property
    def replay(self) -> Replay:
        """The replay of the program."""
        options = self._timeline.program.options
        return Replay(
            self._timeline.program,
            self._arrays,
            self._allocation,
            interval=options.replay_instructions,
            limit=max(0, options.replay_bytes - sum(array.nbytes for array in self._arrays.values())),
        )

    @property
    def _allocation(self) -> Allocation | None:
        """The addresses of tensors, for a run in physical memory."""
        return self._timeline.allocation if self._timeline.program.options.memory == "physical" else None

    def _view(self, what: Any) -> View | NkiTensor:
        program = self._timeline.program
        buffer = what if isinstance(what, Buffer) else what.buffer if isinstance(what, View) else what._buffer
        if not (0 <= buffer.id < len(program.buffers)) or program.buffers[buffer.id] is not buffer:
            raise ValueError(f"{buffer!r} is no buffer of this run")
        return whole(what) if isinstance(what, Buffer) else what

    # -- last writers -----------------------------------------------------------------------------------------------

    def last_writer(self, step: int, buffer: Buffer, *, after: bool = False) -> tuple[int, int]:
        """Return the last op in program order that wrote to a buffer and had ended at a step, and the next one that
        writes; `after` it, the op of the step itself where it writes.
        """
        line = self._timeline
        now = line.start[self.order[step]] if step < len(self.order) else line.timing.makespan
        writers = self._writers(buffer)
        ended = np.flatnonzero(line.ready[writers] <= now)
        place = int(ended[-1]) if len(ended) else -1
        if after and step < len(self.order):
            own = int(np.searchsorted(writers, self.order[step]))
            place = own if own < len(writers) and writers[own] == self.order[step] else place
        until = int(writers[place + 1]) if place + 1 < len(writers) else len(line.program)
        return (int(writers[place]) if place >= 0 else -1), until

    def writers_around(self, op: int, buffer: Buffer) -> tuple[int, int]:
        """Return the last op before `op` in the program that writes to a buffer, -1: none, and the next that does."""
        writers = self._writers(buffer)
        place = int(np.searchsorted(writers, op))
        until = int(writers[place]) if place < len(writers) else len(self._timeline.program)
        return (int(writers[place - 1]) if place > 0 else -1), until

    def _writers(self, buffer: Buffer) -> Column:
        """Return the ops that write to a buffer, also through tensors that lie over it, ascending."""
        op, start = self._writes
        return distinct(np.concatenate([op[start[n] : start[n + 1]] for n in self._overlapping(buffer.id)]))

    @cached_property
    def order(self) -> Column:
        """The op of each step."""
        return np.argsort(self._timeline.start, kind="stable")

    @cached_property
    def _writes(self) -> tuple[Column, Column]:
        """The writing ops sorted by buffer, and the index of each buffer's first one."""
        program = self._timeline.program
        accesses = access_columns(program)
        rows = np.flatnonzero(accesses.is_out)
        rows = rows[np.argsort(accesses.buffer[rows], kind="stable")]
        return accesses.op[rows], np.searchsorted(accesses.buffer[rows], np.arange(len(program.buffers) + 1))

    @cached_property
    def _boxes(self) -> Column:
        """The memory, partitions and bytes of buffers that may overlap: those that users placed, in physical memory
        all.
        """
        allocation, rows = self._allocation, []
        for buffer in self._timeline.program.buffers:
            partition, byte = buffer.address or (-1, -1)
            if allocation is not None and buffer.on_chip:
                partition, byte = int(allocation.partition[buffer.id]), int(allocation.byte[buffer.id])
            memory = 2 * buffer.core + (buffer.space.value == "psum") if buffer.on_chip and partition >= 0 else -1
            rows.append((memory, partition, partition + buffer.partitions, byte, byte + buffer.partition_bytes))
        return np.array(rows, np.int64).reshape(-1, 5)

    def _overlapping(self, buffer: int) -> list[int]:
        """Return a buffer and the buffers that overlap it."""
        memory, top, bottom, low, high = self._boxes[buffer].tolist()
        if memory < 0:
            return [buffer]
        memories, tops, bottoms, lows, highs = self._boxes.T
        overlaps = (memories == memory) & (tops < bottom) & (top < bottoms) & (lows < high) & (low < highs)
        return np.flatnonzero(overlaps).tolist()


def copied_arguments(inputs: Iterable[Input], limit: int) -> dict[int, Array] | None:
    """Return the arguments' values by buffer, safe from changes by the caller; None above `limit` bytes."""
    values = {item.tensor._buffer.id: (item.values, item.original) for item in inputs}
    arrays = {number: array for number, (array, _) in values.items() if array is not None}
    if len(arrays) < len(values) or sum(array.nbytes for array in arrays.values()) > limit:
        return None
    return {
        number: array if array.flags.owndata and array is not values[number][1] else array.copy()
        for number, array in arrays.items()
    }


def _has_moved_views(program: Program) -> bool:
    """Whether an access lies where a register says, in the program as it was laid out."""
    if not program.registers:
        return False
    moved = [
        view.id
        for view in program.views
        if view.indirect is not None and isinstance(view.indirect.index, VirtualRegister)
    ]
    return bool(np.isin(np.frombuffer(program.access_view, np.uint32), moved).any())


def values_of(timeline: Timeline | None, arguments: Mapping[int, Array] | None, *, computed: bool) -> ValueSource:
    """Return the source of the values of a run: `arguments` as `copied_arguments` gave them."""
    if not computed:
        return NotRecorded("values not recorded: a profile computes none")
    if timeline is None:
        return NotRecorded("values not recorded: the run has no times, and so no steps")
    if arguments is None:
        return NotRecorded("values not recorded: copies of the arguments take more than replay_bytes")
    if _has_moved_views(timeline.program):
        return NotRecorded("values not recorded: a register holds an address outside its tensor, or none that is known")
    return RunValues(timeline, arguments)
