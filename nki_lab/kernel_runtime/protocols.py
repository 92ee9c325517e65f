"""What the tensor layer and the views ask of whoever executes a kernel or replays a run."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Executor(Protocol):
    """Who owns a trace: answers when a kernel looks at a tensor's values or computes with Python operators.

    A buffer's `owner` is its executor. Views arrive as `nki_lab.kernel_runtime.tensor.NkiTensor`.
    """

    elementwise_operators: bool
    """`==` and `!=` on tensors compute element by element; otherwise they compare identity."""

    has_values: bool
    """`read` can answer now; False while only shapes are known."""

    def read(self, view: Any) -> np.ndarray[Any, Any]:
        """The values of `view` after everything issued so far, in the view's shape and host dtype."""
        ...

    def assign(self, target: Any, value: Any) -> None:
        """Copy `value`, a tensor or a number, into the view `target`."""
        ...

    def operator(self, name: str, tensor: Any, other: Any, reflected: bool) -> Any:
        """The tensor that the Python operator `name` gives: `tensor name other`, swapped where `reflected`.

        Names are those of `nki.language` ("add", "subtract", "less_equal", ...). `other` is None for the unary ones.
        """
        ...

    def sync(self) -> None:
        """Execute what is queued."""
        ...


class ValueSource(Protocol):
    """Who can say what memory held at a step of a finished run."""

    def values(self, view: Any, step: int) -> np.ndarray[Any, Any] | None:
        """The values of `view` after the last writer in program order that had ended at `step`; None: not recorded."""
        ...
