"""A kernel's signature: the arguments of one way it is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from nki_lab.diagnostic import Span
from nki_lab.kernel_runtime.frontend.evaluator.values import Value
from nki_lab.kernel_runtime.frontend.scheduling import Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One way a kernel is called: TensorSpecs for arrays, other values as they are.

    `grid` is the launch grid, `schedule` the edges of `with_schedule`, `span` the call in the source where it was
    found.
    """

    args: tuple[Value, ...] = ()
    kwargs: Mapping[str, Value] = field(default_factory=dict)
    grid: tuple[int, ...] = ()
    schedule: tuple[Pair, ...] = ()
    span: Span | None = None

    def __str__(self) -> str:
        parts = [_shown(item) for item in self.args]
        parts += [f"{name}={_shown(item)}" for name, item in self.kwargs.items()]
        grid = f"[{', '.join(map(str, self.grid))}]" if self.grid else ""
        return f"{grid}({', '.join(parts)})"


def _shown(value: Value) -> str:
    if isinstance(value, tuple | list) and len(value) <= 8:
        return f"({', '.join(_shown(item) for item in value)})"
    if isinstance(value, np.dtype):
        return value.name
    return repr(value)[:60]
