"""Protocols by which the tensor layer and the views reach the executor of a kernel and the values of a run."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

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

    def shadow(self, step: int, what: Tensor) -> Values | None:
        """The same values in float64, as if nothing had been rounded on the way; what is no float as in the run.

        Where an instruction has no meaning on exact values (comparisons, bits, packed and random numbers), they begin
        again from the run's.
        """
        ...
