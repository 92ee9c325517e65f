"""Protocols by which the tensor layer and the views reach the executor of a kernel and the values of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa.dtype import DType

Tensor = Any
"""An NkiTensor, a buffer or a register: they lie above this module."""
Values = NDArray[Any]


class Executor(Protocol):
    """The owner of a trace: answers when a kernel looks at a tensor's values or computes with Python operators.

    A buffer's `owner` is its executor. Views arrive as `nki_lab.kernel_runtime.tensor.NkiTensor`.
    """

    elementwise_operators: bool
    """`==` and `!=` on tensors compute element by element; otherwise they compare identity."""

    has_values: bool
    """`read` can answer now; False while only shapes are known."""

    def read(self, view: Tensor) -> Values:
        """The values of `view` after everything issued so far, in the view's shape and host dtype."""
        ...

    def assign(self, target: Tensor, value: Tensor | float) -> None:
        """Copy `value`, a tensor or a number, into the view `target`."""
        ...

    def operator(self, name: str, tensor: Tensor, other: Tensor, reflected: bool) -> Tensor:
        """The tensor that the Python operator `name` gives: `tensor name other`, swapped where `reflected`.

        Names are those of `nki.language` ("add", "subtract", "less_equal", ...). `other` is None for the unary ones.
        """
        ...

    def sync(self) -> None:
        """Execute what is queued."""
        ...

    def condition(self, register: Tensor) -> bool | None:
        """Whether the `while register:` that asks goes on; None where the register is tested otherwise."""
        ...


class ValueSource(Protocol):
    """A source of the contents of memory at a step of a finished run; steps are those of its recording."""

    @property
    def reason(self) -> str:
        """The reason why there are no values, in words for the user; empty where there are."""
        ...

    def at(self, step: int, what: Tensor) -> Values | None:
        """The values of `what`, a buffer, a tensor or a view of the program, in its shape and host dtype: a copy.

        Of the writers of its buffer, and of what lies over it, those count that had ended when the step's row started
        (the step after the last one is the end of the run): the values are those after the last of them in program
        order and everything before it in the program. Memory that nothing had written reads as the machine's poison.
        None: not recorded. IndexError where there is no such step, ValueError for what belongs to another run.
        """
        ...

    def shadow(self, step: int, what: Tensor, *, after: bool = False) -> Values | None:
        """The same values in float64, as if nothing had been rounded on the way; what is no float as in the run.

        Where an instruction has no meaning on exact values (comparisons, bits, packed and random numbers), they begin
        again from the run's. With `after` they are those after the instruction of the step.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TileContent:
    """The values of a buffer at a step.

    `values` have the buffer's shape and host dtype. `rows` is how many of its dimensions count its rows: that of the
    partitions, or in HBM all but the last. `written` says of each element whether anything has written it; None: all of
    them. `is_written_known` is False where a write went to places that only a run knows: then elements that nothing
    wrote may count as written. `scales` are the powers of two of MX blocks: one for each 8 partitions and each
    packed element; NaN: unknown.
    """

    dtype: DType
    values: Values
    rows: int = 1
    written: NDArray[np.bool_] | None = None
    is_written_known: bool = True
    scales: Values | None = None


class IndexUse(NamedTuple):
    """The run-time indices that move an operand.

    `view` is the operand as its recording numbers it, `steps` are those whose instructions take these indices, `values`
    the indices in order of the operand's rows, one where a single index moves it whole. An index of 1 moves by `stride`
    elements; those from `lowest` to `highest` lie in the tensor. `written` is False where nothing had written some.
    """

    view: int
    steps: list[int]
    values: list[int]
    written: bool
    stride: int
    lowest: int
    highest: int


class Search(NamedTuple):
    """How far a search came: the `step` that was found, -1: none; `until` is where to go on, -1: all was searched."""

    step: int
    until: int


class ErrorGrowth(NamedTuple):
    """The largest relative error so far after some steps, and the `first` step that introduces more than `tolerance`.

    `first` is -1 where none does. `text` says which instruction that is, and why.
    """

    steps: list[int]
    errors: list[float]
    tolerance: float
    first: int
    text: str


class TileSource(Protocol):
    """The values of buffers at steps of a run, for views: buffers are the numbers of its recording."""

    @property
    def reason(self) -> str:
        """The reason why there are no values; empty where there are."""
        ...

    @property
    def references(self) -> tuple[str, ...]:
        """The names of references that values can be compared with."""
        ...

    def content(self, step: int, buffer: int, *, after: bool) -> TileContent | None:
        """The content of a buffer before a step, or after it; None where it is unknown, as after a fault."""
        ...

    def reference(self, step: int, buffer: int, against: str, *, after: bool) -> Values | None:
        """Return the reference of a buffer, in its shape; None where there is none."""
        ...

    def indices(self, step: int, view: int) -> IndexUse | None:
        """Return the run-time indices that move an operand of a step; None where they are unknown, as after a fault."""
        ...

    def index_uses(self, step: int, buffer: int) -> Sequence[IndexUse]:
        """Return what instructions take as run-time indices of the content that a buffer has after a step."""
        ...

    def next_nonfinite(self, step: int, until: int, seconds: float) -> Search:
        """Find the first instruction after that of `step`, in program order, that writes NaN or an infinity.

        `until` is what an earlier search returned, -1: a new search. It ends after about so many seconds.
        """
        ...

    def growth(self) -> ErrorGrowth:
        """Return how the errors of the run grow from step to step."""
        ...
