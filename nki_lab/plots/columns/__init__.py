"""The columns of charts, by chart: a figure draws exactly these, and `run.to_frame` gives them to other libraries.

Times are nanoseconds, exact to the picosecond, in columns that end with `_ns`; sizes are bytes. All columns of a frame
have one length.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from nki_lab.diagnostic import coded_error
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.plots.columns.frame import Frame
from nki_lab.plots.columns.lane_time import stalls, utilisation
from nki_lab.plots.columns.loop_figures import iterations, loops
from nki_lab.plots.columns.memory_use import memory
from nki_lab.plots.columns.operations import roofline, roofs
from nki_lab.plots.columns.transfers import bandwidth, dma_curve, dma_sizes

FRAMES: Final = MappingProxyType(
    {
        function.__name__: function
        for function in (
            utilisation,
            memory,
            bandwidth,
            roofline,
            roofs,
            dma_sizes,
            dma_curve,
            stalls,
            loops,
            iterations,
        )
    }
)
"""The functions that give the columns, by name."""


def frame(recording: Recording, name: str, **options: Any) -> Frame:
    """Return the columns of a chart; NKI012 where there is no such chart, or it has no such option."""
    function: Callable[..., Frame] | None = FRAMES.get(name)
    if function is None:
        raise coded_error(
            "NKI012",
            f"there is no chart {name!r}",
            operand="plot",
            limit=f"one of {', '.join(FRAMES)}",
            help=did_you_mean(name, FRAMES),
        )
    try:
        return function(recording, **options)
    except TypeError as error:
        if options and "keyword argument" in str(error):
            raise coded_error("NKI012", f"the chart {name}: {error}", limit=_options(function)) from None
        raise


def _options(function: Callable[..., object]) -> str:
    names = list(getattr(function, "__kwdefaults__", None) or ())
    return f"options: {', '.join(names)}" if names else "it has no options"


__all__ = ["FRAMES", "Frame", "frame"]
