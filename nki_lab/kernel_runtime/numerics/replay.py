"""Values at any point of a finished program: it is executed again from the nearest state that was kept."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nki_lab.kernel_runtime.allocate import Allocation
from nki_lab.kernel_runtime.ir import Program, View, access_columns
from nki_lab.kernel_runtime.numerics.stepping import State, SteppingExecutor
from nki_lab.kernel_runtime.tensor import NkiTensor

Array = NDArray[Any]

_ANSWERS: Final = 8  # one part in so many of the bytes is for answers that are asked for again


class Replay:
    """A program, its arguments and the states kept on the way.

    A state is kept every `interval` ops, so that an answer about what was executed before costs at most about as many.
    States and answers together stay below `limit` bytes: where they would not, every second state is dropped and the
    interval doubled. The first time, a program is executed up to where somebody looks.
    """

    def __init__(
        self, program: Program, arrays: Mapping[int, Array], allocation: Allocation | None, *, interval: int, limit: int
    ) -> None:
        self.program = program
        self.interval = interval
        self.limit = limit - limit // _ANSWERS
        self.executed = 0  # ops, over all answers
        self._executor = SteppingExecutor(program, arrays, allocation)
        self._whole = True  # the executor is where its counters say
        self._states: dict[int, State] = {}
        self._places: list[int] = []
        self._blocks: dict[int, int] = {}  # how many states have a block, by its id
        self._bytes = 0
        self._answers: OrderedDict[Any, Array] = OrderedDict()
        self._answer_bytes = 0
        accesses = access_columns(program)
        rows = np.flatnonzero(accesses.is_out)
        self._write_ops = accesses.op[rows]  # ascending
        self._write_buffers = accesses.buffer[rows]

    @property
    def nbytes(self) -> int:
        """Bytes of the states and answers that are kept."""
        return self._bytes + self._answer_bytes

    @property
    def positions(self) -> list[int]:
        """Where the program stood when a state was kept."""
        return list(self._places)

    def after(self, op: int, view: View | NkiTensor, until: int) -> Array:
        """What a view shows after op `op` and those before it; -1: before the first.

        Until op `until` nothing writes to it again. Raises what the program raises.
        """
        buffer = view.buffer.id if isinstance(view, View) else view._buffer.id
        key = (op, view.id) if isinstance(view, View) else (op, buffer, view._offset, view._shape, view._strides,
                                                            view._dtype)  # fmt: skip
        known = self._answers.get(key)
        if known is None:
            if op < 0:
                known = self._executor.at_start(view)
            else:
                self._go(op, buffer, until if not _is_indirect(view) else op + 1)
                known = self._executor.values(view)
            self._keep_answer(key, known)
        else:
            self._answers.move_to_end(key)
        return known.copy()

    def _go(self, op: int, buffer: int, until: int) -> None:
        """Bring the executor to after `op`, and to before `until`, with the buffer in it."""
        executor = self._executor
        if self._whole and op < executor.done <= until and executor.holds(buffer):
            return
        near = bisect_right(self._places, op) - 1
        start = self._places[near] if near >= 0 else 0
        if not self._whole or executor.done > op or executor.done < start:
            executor.restore(self._states.get(start))
        self._whole = False  # until this has come to its end
        while executor.done <= op:
            following = (executor.done // self.interval + 1) * self.interval
            stop = min(op + 1, following)
            self.executed += stop - executor.done
            executor.advance(stop)
            if executor.done % self.interval == 0 and executor.done > (self._places[-1] if self._places else 0):
                self._keep_state()
        self._whole = True

    # -- what is kept ------------------------------------------------------------------------------------------------

    def _keep_state(self) -> None:
        executor = self._executor
        before = self._states[self._places[-1]] if self._places else None
        low = bisect_left(self._write_ops, before.position if before is not None else 0)
        high = bisect_left(self._write_ops, executor.done)
        state = executor.state(before, np.unique(self._write_buffers[low:high]).tolist())
        self._places.append(executor.done)
        self._states[executor.done] = state
        self._count(state, 1)
        while self._bytes > self.limit:
            self.interval *= 2
            for place in [place for place in self._places if place % self.interval]:
                self._count(self._states.pop(place), -1)
            self._places = sorted(self._states)

    def _count(self, state: State, by: int) -> None:
        """Count the bytes that a state adds, or takes away: blocks are shared."""
        for blocks in state.units.values():
            for block in blocks:
                number = self._blocks.get(id(block), 0)
                if number + by == 0:
                    del self._blocks[id(block)]
                else:
                    self._blocks[id(block)] = number + by
                if 0 in (number, number + by):
                    self._bytes += by * len(block)

    def _keep_answer(self, key: Any, values: Array) -> None:
        workspace = self.limit // (_ANSWERS - 1)
        if values.nbytes > workspace:
            return
        self._answers[key] = values.copy()
        self._answer_bytes += values.nbytes
        while self._answer_bytes > workspace:
            self._answer_bytes -= self._answers.popitem(last=False)[1].nbytes


def _is_indirect(view: View | NkiTensor) -> bool:
    return (view.indirect if isinstance(view, View) else view._indirect) is not None
