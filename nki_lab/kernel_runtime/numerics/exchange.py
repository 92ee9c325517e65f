"""Exchange between the cores of a launch: a copy of one core's tile, kept until the other core takes it."""

from __future__ import annotations

import numpy as np

from nki_lab.kernel_runtime.ir import View
from nki_lab.kernel_runtime.numerics.pool import Bound
from nki_lab.kernel_runtime.numerics.rounding import Array, from_shadow, to_shadow, to_storage
from nki_lab.kernel_runtime.numerics.storage import SHADOW, view_array

Mail = dict[int, tuple[int, Array]]
"""Kind of binding and values of a tile on its way, by the op that takes it."""


def collect(mail: Mail, receiver: int, bound: Bound, view: View) -> None:
    """Keep the present values of a view for op `receiver`."""
    mail[receiver] = (bound.kind, view_array(bound, view).copy())


def deliver(mail: Mail, receiver: int, bound: Bound, view: View, on_grid: bool) -> None:
    """Write the values for op `receiver` to a view of the same dtype; `on_grid`: no value needs rounding."""
    kind, values = mail.pop(receiver)
    dtype = view.type.dtype
    if kind == SHADOW and bound.kind != SHADOW:
        values = to_storage(values, dtype) if on_grid else from_shadow(values, dtype).view(dtype.storage)
    elif kind != SHADOW and bound.kind == SHADOW:
        values = to_shadow(values, dtype)
    np.copyto(view_array(bound, view), values)
