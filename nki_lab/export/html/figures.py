"""The drawings of a report: what every lane does over time, and the memory in use. Bokeh models, times in one unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from bokeh.layouts import column
from bokeh.models import (
    BasicTickFormatter,
    CategoricalColorMapper,
    ColumnDataSource,
    FixedTicker,
    HoverTool,
    Label,
    Model,
    Range1d,
    Span,
    WheelZoomTool,
)
from bokeh.plotting import figure

from nki_lab.export import words
from nki_lab.export.found import capacities
from nki_lab.export.html import bars
from nki_lab.export.html.bars import Bars
from nki_lab.export.html.colours import KINDS
from nki_lab.kernel_runtime.recording import MemoryBuckets, Recording
from nki_lab.kernel_runtime.recording.digest import Digest

_UNITS: Final = ((1_000_000_000_000, "s"), (1_000_000_000, "ms"), (1_000_000, "µs"), (1_000, "ns"))
_GUTTER: Final = 140
_LANE: Final = 24  # pixels
_LABEL: Final = 16  # characters
_MEMORY: Final = 104
_FONT: Final = "Inter, system-ui, sans-serif"
_STEPS: Final = 3000  # of memory that are drawn one by one
_BUCKETS: Final = 1000
_FLAT: Final = 0.125  # a peak below this share of the capacity would be a line on the ground
# The card lies beyond the reach of the page's style sheet. Bokeh escapes what it fills in.
_HOVER: Final = """<div style="max-width: 340px; white-space: pre-line; overflow-wrap: anywhere; color: #4A515B;
font: 12px/1.5 Inter, system-ui, sans-serif"><b style="color: #14161A">@what</b>
@told</div>"""


@dataclass(frozen=True)
class Drawn:
    """The drawings as one model, and what is to be said about them."""

    model: Model
    unit: str
    note: str


def drawings(recording: Recording, told: Digest) -> Drawn:
    """Timeline and memory over time of a run that takes some time."""
    per_unit, unit = _unit(recording.makespan)
    end = recording.makespan / per_unit
    time = Range1d(0, end, bounds=(0, end), name="time")
    drawn = bars.of_recording(recording, told, per_unit)
    timeline = _timeline(told, drawn, time)
    memories = [
        _memory(recording, space, peak, capacity, time, per_unit)
        for space, peak, capacity in capacities(recording.summary)
        if peak
    ]
    return Drawn(column([timeline, *memories], sizing_mode="stretch_width"), unit, drawn.note)


def _unit(makespan: int) -> tuple[int, str]:
    """Picoseconds of the unit that a run of this length is drawn in, and its name."""
    return next((pair for pair in _UNITS if makespan >= pair[0]), _UNITS[-1])


def _figure(height: int, time: Range1d, low: float, high: float, **more: Any) -> Any:
    plot = figure(
        height=height, sizing_mode="stretch_width", x_range=time, y_range=Range1d(low, high),
        tools="xbox_zoom", toolbar_location=None,
        min_border_left=_GUTTER, min_border_right=16, min_border_top=4, min_border_bottom=8,
        outline_line_color=None, background_fill_alpha=0, border_fill_alpha=0, lod_threshold=None, **more,
    )  # fmt: skip
    _paint(plot.grid, grid_line_color="line")
    _paint(plot.axis, major_label_text_color="ink2", axis_label_text_color="ink3", axis_line_color="line2",
           major_tick_line_color="line2")  # fmt: skip
    plot.axis.major_label_text_font_size = plot.axis.axis_label_text_font_size = "11.5px"
    plot.axis.major_label_text_font = plot.axis.axis_label_text_font = _FONT
    plot.axis.axis_label_text_font_style = "normal"
    plot.axis.minor_tick_line_color = None
    # Without a modifier the wheel scrolls the page.
    plot.add_tools(WheelZoomTool(dimensions="width", modifiers="ctrl"))
    return plot


def _paint(models: Any, **tokens: str) -> None:
    """Have the page colour properties of models with tokens of its style sheet."""
    for model in models if isinstance(models, Sequence) else [models]:
        model.tags = [*model.tags, *(f"{name}={token}" for name, token in tokens.items())]


def _mapper() -> Any:
    """Colours by kind, which the page chooses."""
    mapper = CategoricalColorMapper(factors=list(KINDS), palette=["#888888"] * len(KINDS), tags=["palette"])
    return {"field": "kind", "transform": mapper}


def _timeline(told: Digest, drawn: Bars, time: Range1d) -> Any:
    cores = len({lane.core for lane in told.lanes})
    shown = [told.lanes[number] for number in drawn.lanes]
    labels = {0: "Critical path"} | {
        place: f"{_plain(words.lane_name(lane, cores))}  {words.share(words.ratio(lane.busy, told.makespan))}"
        for place, lane in enumerate(shown, start=1)
    }
    plot = _figure(
        (len(labels) + 1) * _LANE + 12, time, len(labels) - 0.4, -0.6, x_axis_location="above", name="timeline"
    )
    plot.yaxis.ticker = FixedTicker(ticks=list(labels))
    plot.yaxis.major_label_overrides = labels
    plot.yaxis.major_tick_line_color = plot.yaxis.axis_line_color = plot.ygrid.grid_line_color = None
    plot.yaxis.tags = [tag for tag in plot.yaxis.tags if tag.startswith("major_label")]
    plot.ygrid.tags = []
    plot.xaxis.formatter = BasicTickFormatter(use_scientific=False)
    colour = _mapper()
    waits = _source(drawn.waits)
    plot.quad("left", "right", "top", "bottom", source=waits, fill_alpha=0, line_color=None, hatch_color=colour,
              hatch_alpha=0.5, hatch_pattern="right_diagonal_line", hatch_scale=7, hatch_weight=1.5)  # fmt: skip
    feet = _source(drawn.feet)
    plot.quad("left", "right", "top", "bottom", source=feet, fill_color=colour, fill_alpha="alpha", line_color=None)
    work = plot.quad("left", "right", "top", "bottom", source=_source(drawn.work), fill_color=colour,
                     fill_alpha="alpha", line_color=None, hover_line_color="#888888")  # fmt: skip
    critical = plot.quad("left", "right", "top", "bottom", source=_source(drawn.marks), line_color=None)
    _paint([critical.glyph], fill_color="ink")
    plot.add_tools(HoverTool(renderers=[work], tooltips=_HOVER, point_policy="follow_mouse"))
    return plot


def _source(columns: bars.Columns) -> ColumnDataSource:
    """Columns for drawing, numbers packed."""
    packed = {name: np.array(values, np.float32) for name, values in columns.items() if name in bars.NUMBERS}
    return ColumnDataSource({**columns, **packed})


def _plain(text: str) -> str:
    """A text for an axis, shortened to its room. Dollar signs, which would make it a formula, look the same."""
    return (text if len(text) <= _LABEL else f"{text[: _LABEL - 1]}…").replace("$", "\uff04")


def _memory(recording: Recording, space: str, peak: int, capacity: int, time: Range1d, per_unit: int) -> Any:
    found = recording.memory(0, recording.makespan, limit=_STEPS, buckets=_BUCKETS)
    begin = found.edges[:-1] if isinstance(found, MemoryBuckets) else found.time
    values = (found.sbuf if space == "SBUF" else found.psum) / 1024
    highest = max(float(values.max(initial=0)), peak / 1024)
    cropped = not capacity or highest < _FLAT * capacity / 1024
    top = 1.7 * highest if cropped else 1.12 * max(capacity / 1024, highest)
    plot = _figure(_MEMORY, time, 0, top, name=f"memory of {space}")
    plot.xaxis.visible = False
    plot.yaxis.axis_label = f"{space}, KiB"
    plot.yaxis.ticker.desired_num_ticks = 3
    steps = ColumnDataSource({
        "time": np.append(begin, recording.makespan) / per_unit, "used": np.append(values, values[-1:]),
    })  # fmt: skip
    area = plot.varea_step(x="time", y1=0, y2="used", source=steps, step_mode="after", fill_alpha=0.18)
    line = plot.step(x="time", y="used", source=steps, mode="after", line_width=1.25)
    _paint([area.glyph], fill_color="ink3")
    _paint([line.glyph], line_color="ink2")
    if capacity:
        over = highest > capacity / 1024
        height = 0.94 * top if cropped else capacity / 1024
        text = f"capacity {words.size(capacity)} per partition, at most {words.size(1024 * highest)} in use at one time"
        limit = Span(location=height, dimension="width", line_dash="dashed", line_width=1)
        label = Label(x=6, y=height, x_units="screen", text=f"{text}; not to scale" if cropped else text,
                      text_baseline="top", y_offset=-3, text_font_size="11px", text_font=_FONT, padding=1,
                      background_fill_alpha=0.85)  # fmt: skip
        _paint([limit], line_color="error" if over else "ink3")
        _paint([label], text_color="error" if over else "ink3", background_fill_color="bg")
        plot.add_layout(limit)
        plot.add_layout(label)
    return plot
