"""Figures over time: utilisation by engine, memory, and the bandwidth of HBM."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, Span
from bokeh.plotting import figure

from nki_lab import quantities
from nki_lab.diagnostic import coded_error
from nki_lab.kernel_runtime.recording.bottlenecks import SENTENCES
from nki_lab.kernel_runtime.recording.columns import Array
from nki_lab.kernel_runtime.vocabulary import MEMORIES
from nki_lab.plots.columns import frame
from nki_lab.plots.columns.frame import BINS
from nki_lab.plots.drawing.canvas import Canvas, recording_of
from nki_lab.plots.drawing.themes import Theme

_LANE: Final = 34  # pixels of a lane
_FULL: Final = 0.8  # of a lane's height, at a share of 1
_SEAM: Final = 0.7  # pixels of an outline, without which gaps show between bars
_AXES: Final = 110  # pixels of titles and axis


def utilisation(
    run: Any, *, bins: int = BINS, bin_ns: float | None = None, theme: Theme = "auto", **options: Any
) -> figure:
    """Draw how busy each engine and the DMA queues of each core are over time, a lane each.

    The run is cut into `bins` bins, or into those of `bin_ns` nanoseconds. `theme` is `light`, `dark`, or `auto`: that
    of the page. Other options go to `bokeh.plotting.figure`. The columns are those of `run.to_frame("utilisation")`.
    """
    recording = recording_of(run)
    columns = frame(recording, "utilisation", bins=bins, bin_ns=bin_ns)
    lanes = list(dict.fromkeys(columns["lane"].tolist()))
    canvas = Canvas(recording, "Utilisation", theme, options, height=_AXES + _LANE * max(len(lanes), 2))
    if not len(columns["lane"]):
        return canvas.note(_empty(recording))
    made, paint = canvas.figure, canvas.paint
    canvas.time_axis()
    place = {lane: len(lanes) - 1 - number for number, lane in enumerate(lanes)}
    low = np.array([place[lane] for lane in columns["lane"].tolist()], float)
    source = ColumnDataSource({
        **columns, "low": low, "high": low + _FULL * columns["share"], "time": _spans(columns),
        "percent": [quantities.share(share) for share in columns["share"].tolist()],
    })  # fmt: skip
    mapper = paint.mapped(columns["kind"].tolist())
    colour = {"field": "kind", "transform": mapper}
    bars = made.quad(
        left="begin_ns", right="end_ns", bottom="low", top="high", source=source, fill_color=colour, line_color=colour,
        line_width=_SEAM,
    )  # fmt: skip
    for at in place.values():
        ground = Span(location=at, dimension="width", line_width=1, level="underlay")
        paint.colour(ground, line_color="line2")
        made.add_layout(ground)
    busy = {lane: columns["busy_ns"][columns["lane"] == lane].sum() for lane in lanes}
    end = recording.makespan / 1000
    made.yaxis.ticker = FixedTicker(ticks=[at + _FULL / 2 for at in place.values()])
    made.yaxis.major_label_overrides = {
        at + _FULL / 2: f"{lane}  {quantities.share(quantities.ratio(busy[lane], end))}" for lane, at in place.items()
    }
    made.yaxis.major_tick_line_color = made.yaxis.axis_line_color = made.ygrid.grid_line_color = None
    made.y_range.start, made.y_range.end = -0.05, len(lanes) - 0.1
    canvas.hover([bars], ("lane", "@lane"), ("time", "@time"), ("busy", "@percent"))
    return canvas.done()


def _empty(recording: Any) -> str:
    return SENTENCES["instant"] if len(recording) else SENTENCES["empty"]


def _spans(columns: dict[str, Array]) -> list[str]:
    """Return the begin and the end of each bin as text."""
    bounds = (np.rint(columns[name] * 1000).astype(np.int64).tolist() for name in ("begin_ns", "end_ns"))
    return [f"{quantities.duration(low)} – {quantities.duration(high)}" for low, high in zip(*bounds, strict=True)]


def memory(run: Any, *, space: str = "sbuf", core: int | None = None, theme: Theme = "auto", **options: Any) -> figure:
    """Draw the live and the dead bytes of a partition over time, with its capacity, of SBUF or PSUM.

    The fullest partition counts, of each core, or of the one given. `theme` and other options are as for
    `utilisation`. The columns are those of `run.to_frame("memory")`.
    """
    if space not in ("sbuf", "psum"):
        raise coded_error("NKI012", f"space is {space!r}", operand="space", limit="sbuf or psum")
    recording = recording_of(run)
    columns = frame(recording, "memory")
    here = columns["memory"] == space
    if core is not None:
        here &= columns["core"] == core
    columns = {name: values[here] for name, values in columns.items()}
    capacity = int(columns["capacity_bytes"].max(initial=0))
    of = f", of {quantities.size(capacity)} per partition" if capacity else ", per partition"
    canvas = Canvas(recording, f"{MEMORIES[space]} in use{of}", theme, options)
    if not columns["live_bytes"].any():
        return canvas.note(f"{MEMORIES[space]} is not used.")
    canvas.time_axis()
    cores = np.unique(columns["core"]).tolist()
    items = []
    for number, one in enumerate(cores):
        mine = {name: values[columns["core"] == one] for name, values in columns.items()}
        called = recording.core_names.get(one, "") or f"core {one}"
        items += _memory_of(canvas, mine, f", {called}" if len(cores) > 1 else "", number)
    if len(cores) > _NAMED:
        parts = [[part for _, renderers in items[at::2] for part in renderers] for at in range(2)]
        each = "rank" if recording.ranks > 1 else "core"
        items = list(zip((f"live, of each {each}", f"dead, of each {each}"), parts, strict=True))
    _bytes_axis(canvas, capacity, int(max(columns["live_bytes"].max(), columns["dead_bytes"].max())))
    canvas.legend(items)
    return canvas.done()


_OF_CORES: Final = ("ink2", "faint")
_NAMED: Final = 4
"""Cores that a legend has room for; where there are more, what is under the pointer says whose it is."""


def _memory_of(canvas: Canvas, columns: dict[str, Array], suffix: str, number: int) -> list[tuple[str, list[Any]]]:
    """Draw the memory of a core, and return the entries of the legend."""
    made, paint = canvas.figure, canvas.paint
    when = [quantities.duration(time) for time in np.rint(columns["time_ns"] * 1000).astype(np.int64).tolist()]
    sizes = {
        f"{name}_text": [quantities.size(size) for size in columns[f"{name}_bytes"].tolist()]
        for name in ("live", "dead")
    }
    source = ColumnDataSource({**columns, "when": when, **sizes})
    hue = _OF_CORES[number % len(_OF_CORES)]
    live = made.varea_step(x="time_ns", y1=0, y2="live_bytes", source=source, step_mode="after", fill_alpha=0.25)
    edge = made.step(x="time_ns", y="live_bytes", source=source, mode="after", line_width=1.5)
    dead = made.step(x="time_ns", y="dead_bytes", source=source, mode="after", line_width=1.2, line_dash=[4, 3])
    paint.colour(live.glyph, fill_color=hue)
    paint.colour(edge.glyph, line_color=hue)
    paint.colour(dead.glyph, line_color=hue)
    canvas.hover(
        [edge], ("time", "from @when on"), (f"live{suffix}", "@live_text"), (f"dead{suffix}", "@dead_text"),
        mode="vline", line_policy="prev",
    )  # fmt: skip
    return [(f"live{suffix}", [live, edge]), (f"dead{suffix}", [dead])]


def _bytes_axis(canvas: Canvas, capacity: int, most: int) -> None:
    """Scale the axis in whole powers of two, up to the capacity where that is in sight."""
    made = canvas.figure
    shown = capacity if capacity and most * 4 >= capacity else 0
    top = max(most, shown) * 1.08
    step = 1
    while top / step > 8:
        step *= 2
    ticks = [step * count for count in range(int(top // step) + 1)]
    made.yaxis.ticker = FixedTicker(ticks=ticks)
    made.yaxis.major_label_overrides = {tick: quantities.size(tick) for tick in ticks}
    made.y_range.start, made.y_range.end = 0, top
    if shown:
        _across(canvas, capacity)


def _across(canvas: Canvas, value: float) -> None:
    """Draw a dashed line across the figure: what there is at most."""
    line = Span(location=value, dimension="width", line_dash="dashed", line_width=1)
    canvas.paint.colour(line, line_color="ink3")
    canvas.figure.add_layout(line)


def bandwidth(
    run: Any, *, bins: int = BINS, bin_ns: float | None = None, theme: Theme = "auto", **options: Any
) -> figure:
    """Draw the rate at which all cores read from HBM and write there, over time, with what HBM gives to them.

    Options are those of `utilisation`. The columns are those of `run.to_frame("bandwidth")`.
    """
    recording = recording_of(run)
    columns = frame(recording, "bandwidth", bins=bins, bin_ns=bin_ns)
    moved = int(columns["read_bytes"].sum() + columns["written_bytes"].sum())
    limit, mean = float(columns["limit_gb_s"].max(initial=0)), quantities.ratio(1000 * moved, recording.makespan)
    of = f", {quantities.share(mean / limit)} of {quantities.significant(limit)}" if limit else ""
    title = f"HBM bandwidth: mean {quantities.significant(mean)} GB/s{of}" if moved else "HBM bandwidth"
    canvas = Canvas(recording, title, theme, options)
    if not moved:
        return canvas.note("Nothing moves to or from HBM." if len(recording) else SENTENCES["empty"])
    canvas.time_axis()
    made, paint = canvas.figure, canvas.paint
    total = columns["read_gb_s"] + columns["written_gb_s"]
    source = ColumnDataSource({
        **columns, "total_gb_s": total, "time": _spans(columns),
        **{f"{name}_text": [quantities.size(size) for size in columns[f"{name}_bytes"].tolist()]
           for name in ("read", "written")},
    })  # fmt: skip
    read = made.quad(left="begin_ns", right="end_ns", bottom=0, top="read_gb_s", source=source, line_width=_SEAM)
    written = made.quad(
        left="begin_ns", right="end_ns", bottom="read_gb_s", top="total_gb_s", source=source, line_color=None,
        fill_alpha=0.5,
    )  # fmt: skip
    paint.colour(read.glyph, fill_color="dma", line_color="dma")
    paint.colour(written.glyph, fill_color="dma")
    made.yaxis.axis_label = "GB/s"
    made.y_range.start, made.y_range.end = 0, 1.08 * max(limit, float(total.max()))
    if limit:
        _across(canvas, limit)
    canvas.hover(
        [read, written], ("time", "@time"), ("read", "@read_gb_s{0.0} GB/s, @read_text"),
        ("written", "@written_gb_s{0.0} GB/s, @written_text"),
    )  # fmt: skip
    canvas.legend([("read", [read]), ("written", [written])])
    return canvas.done()
