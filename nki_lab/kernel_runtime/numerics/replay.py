"""Values at any point of a finished program: it is executed again from the nearest saved state."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict
from collections.abc import Hashable, Mapping
from itertools import chain
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.footprint import distinct
from nki_lab.kernel_runtime.ir import Program, View, access_columns
from nki_lab.kernel_runtime.numerics import blas
from nki_lab.kernel_runtime.numerics.rounding import Array
from nki_lab.kernel_runtime.numerics.stepping import State, SteppingExecutor
from nki_lab.kernel_runtime.tensor import NkiTensor

_ANSWERS: Final = 8  # one part in so many of the bytes is for answers that are asked for again


class Replay:
    """A program, its arguments and the states saved on the way.

    A state is saved every `interval` ops, so that an answer about an earlier point costs at most about as many. States
    and answers together stay below `limit` bytes: where they would not, every second state is dropped and the interval
    doubled. The first answer executes the program up to the point that it is about. An `executor` of another kind gives
    other values of the same program.
    """

    def __init__(
        self,
        program: Program,
        arrays: Mapping[int, Array],
        allocation: Allocation | None,
        *,
        interval: int,
        limit: int,
        executor: SteppingExecutor | None = None,
    ) -> None:
        self.program = program
        self.interval = interval
        self.limit = limit - limit // _ANSWERS
        self.executed = 0  # ops, over all answers
        self._executor = executor or SteppingExecutor(program, arrays, allocation)
        self._consistent = True  # the executor is where its counters say
        self._states: dict[int, State] = {}
        self.positions: list[int] = []  # the ops before which states were saved
        self._sharers: Counter[int] = Counter()  # how many states have a block, by its id
        self._bytes = 0
        self._answers: OrderedDict[Hashable, Array] = OrderedDict()
        self._answer_bytes = 0
        accesses = access_columns(program)
        rows = np.flatnonzero(accesses.is_out)
        self._write_ops = accesses.op[rows]  # ascending
        self._write_buffers = accesses.buffer[rows]

    @property
    def nbytes(self) -> int:
        """Bytes of the saved states and answers."""
        return self._bytes + self._answer_bytes

    def after(self, op: int, view: View | NkiTensor, until: int) -> Array:
        """Return the values of a view after op `op` and those before it; -1: before the first.

        Until op `until` nothing writes to it again. Raises what the program raises.
        """
        if isinstance(view, View):
            buffer, indirect = view.buffer.id, view.indirect
            key: tuple[Hashable, ...] = (op, view.id)
        else:
            buffer, indirect = view._buffer.id, view._indirect
            key = (op, buffer, view._offset, view._shape, view._strides, view._dtype)
        known = self._answers.get(key)
        if known is not None:
            self._answers.move_to_end(key)
            return known.copy()
        if op < 0:
            values = self._executor.at_start(view)
        else:
            self._advance(op, buffer, until if indirect is None else op + 1)
            values = self._executor.values(view)
        self._keep_answer(key, values)
        return values

    def _advance(self, op: int, buffer: int, until: int) -> None:
        """Bring the executor to after `op`, and to before `until`, with the buffer in it."""
        executor = self._executor
        if self._consistent and op < executor.done <= until and executor.holds(buffer):
            return
        near = bisect_right(self.positions, op) - 1
        start = self.positions[near] if near >= 0 else 0
        if not self._consistent or not start <= executor.done <= op:
            executor.restore(self._states.get(start))
        self._consistent = False  # until this has come to its end
        with blas.single_thread():
            self._run_to(op)
        self._consistent = True

    def _run_to(self, op: int) -> None:
        executor = self._executor
        while executor.done <= op:
            stop = min(op + 1, (executor.done // self.interval + 1) * self.interval)
            self.executed += stop - executor.done
            executor.advance(stop)
            if stop % self.interval == 0 and stop > (self.positions[-1] if self.positions else 0):
                self._keep_state()

    # -- saved states and answers --------------------------------------------------------------------------------------

    def _keep_state(self) -> None:
        executor = self._executor
        before = self._states[self.positions[-1]] if self.positions else None
        low = bisect_left(self._write_ops, before.position if before is not None else 0)
        high = bisect_left(self._write_ops, executor.done)
        state = executor.state(before, distinct(self._write_buffers[low:high]).tolist())
        self.positions.append(executor.done)
        self._states[executor.done] = state
        self._count(state, 1)
        while self._bytes > self.limit:
            self.interval *= 2
            for place in [place for place in self.positions if place % self.interval]:
                self._count(self._states.pop(place), -1)
            self.positions = sorted(self._states)

    def _count(self, state: State, by: int) -> None:
        """Count the bytes that a state adds, or takes away: blocks are shared."""
        for block in chain.from_iterable(state.units.values()):
            before = self._sharers[id(block)]
            self._sharers[id(block)] += by
            if 0 in (before, before + by):
                self._bytes += by * len(block)

    def _keep_answer(self, key: Hashable, values: Array) -> None:
        limit = self.limit // (_ANSWERS - 1)
        if values.nbytes > limit:
            return
        self._answers[key] = values.copy()
        self._answer_bytes += values.nbytes
        while self._answer_bytes > limit:
            self._answer_bytes -= self._answers.popitem(last=False)[1].nbytes
