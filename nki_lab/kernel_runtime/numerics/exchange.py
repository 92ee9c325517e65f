"""What the cores of a launch hand to each other: a copy of one core's tile, kept until the other core takes it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki_lab.kernel_runtime.ir import View
from nki_lab.kernel_runtime.numerics.rounding import from_shadow, to_shadow, to_storage
from nki_lab.kernel_runtime.numerics.storage import SHADOW, Bound, window

Array = NDArray[Any]
Mail = dict[int, tuple[int, Array]]


def collect(mail: Mail, receiver: int, bound: Bound, view: View) -> None:
    """Keep what a view shows now for op `receiver`."""
    mail[receiver] = (bound.kind, np.array(_window(bound, view)))


def deliver(mail: Mail, receiver: int, bound: Bound, view: View, on_grid: bool) -> None:
    """Write what was kept for op `receiver` to a view of the same dtype; `on_grid`: no value needs rounding."""
    kind, values = mail.pop(receiver)
    dtype = view.type.dtype
    if kind == SHADOW and bound.kind != SHADOW:
        values = to_storage(values, dtype) if on_grid else from_shadow(values, dtype).view(dtype.storage)
    elif kind != SHADOW and bound.kind == SHADOW:
        values = to_shadow(values, dtype)
    np.copyto(_window(bound, view), values)


def _window(bound: Bound, view: View) -> Array:
    return window(bound, view.type.dtype, view.offset, view.type.shape, view.type.strides)
