"""Charts of runs: functions that return bokeh figures, to restyle, combine and save.

`nki_lab.plots.utilisation(run)` draws the columns that `run.to_frame("utilisation")` gives to other libraries. Colours
and units are those of the views. bokeh is loaded when a chart is asked for; `pip install nki-lab[plots]` brings it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nki_lab.extras import extra

if TYPE_CHECKING:
    from nki_lab.plots.drawing.differences import compare
    from nki_lab.plots.drawing.linking import link
    from nki_lab.plots.drawing.over_time import bandwidth, memory, utilisation
    from nki_lab.plots.drawing.pages import for_summary, save, with_charts
    from nki_lab.plots.drawing.rates import dma_sizes, roofline
    from nki_lab.plots.drawing.shares import stalls
    from nki_lab.plots.drawing.sweeps import sweep

__all__ = [
    "bandwidth", "compare", "dma_sizes", "for_summary", "link", "memory", "roofline", "save", "stalls", "sweep",
    "utilisation", "with_charts",
]  # fmt: skip

_PLACES = {
    "bandwidth": "nki_lab.plots.drawing.over_time",
    "compare": "nki_lab.plots.drawing.differences",
    "dma_sizes": "nki_lab.plots.drawing.rates",
    "for_summary": "nki_lab.plots.drawing.pages",
    "link": "nki_lab.plots.drawing.linking",
    "memory": "nki_lab.plots.drawing.over_time",
    "roofline": "nki_lab.plots.drawing.rates",
    "save": "nki_lab.plots.drawing.pages",
    "stalls": "nki_lab.plots.drawing.shares",
    "sweep": "nki_lab.plots.drawing.sweeps",
    "utilisation": "nki_lab.plots.drawing.over_time",
    "with_charts": "nki_lab.plots.drawing.pages",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'nki_lab.plots' has no attribute {name!r}; it has {', '.join(__all__)}")
    with extra("plots", "charts need", operand=name, otherwise='take the columns: run.to_frame("utilisation")'):
        value = getattr(importlib.import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
