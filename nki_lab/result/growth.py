"""How the errors of a run grow from step to step, for views."""

from __future__ import annotations

from typing import Final

import numpy as np

from nki_lab.kernel_runtime.protocols import ErrorGrowth
from nki_lab.result.blame import Blame

_POINTS: Final = 400
"""Points of the curve, at most: each is the largest error of its stretch of steps."""
_JUMP: Final = 0.2
"""A step that adds a larger share of the error has a point of its own."""


def error_growth(found: Blame) -> ErrorGrowth:
    """Return the largest error of the results of all steps up to each."""
    most = np.maximum.accumulate(np.where(np.isfinite(found.total), found.total, 0.0))
    count = len(most)
    even = np.linspace(0, max(0, count - 1), min(_POINTS, count)).astype(np.int64)
    jumps = np.flatnonzero(np.diff(most, prepend=0.0) > _JUMP * most)[:_POINTS]
    steps: list[int] = np.union1d(even, jumps).tolist()
    return ErrorGrowth(
        steps=steps,
        errors=[float(most[step]) for step in steps],
        tolerance=float(found.tolerance),
        first=-1 if found.step is None else int(found.step),
        text=found.headline,
    )
