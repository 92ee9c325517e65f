"""Figures of rates: the roofline of a run, and its DMA transfers against the efficiency of their sizes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from bokeh.models import ColumnDataSource, CustomJSTickFormatter, FixedTicker, Label, LogTicker, Whisker
from bokeh.plotting import figure

from nki_lab import quantities
from nki_lab.export import formatting
from nki_lab.kernel_runtime.recording.columns import Array
from nki_lab.kernel_runtime.vocabulary import KINDS
from nki_lab.plots.columns import Frame, frame
from nki_lab.plots.drawing.canvas import FONT, SMALL, Canvas, recording_of
from nki_lab.plots.drawing.themes import Theme

_PLAIN: Final = "return String(Number(tick.toPrecision(3)))"
_UNITS: Final = {"tensor": "TFLOP/s"}
_ELEMENTS: Final = "T elements/s"


def roofline(run: Any, *, theme: Theme = "auto", **options: Any) -> figure:
    """Draw the run and its lines as points below the roofs of the target: Tensor Engine, Vector Engine and HBM.

    The run's point has its interval. A line's point is at the rate at which it works while it does, and is to be
    compared with the roof of its engine. `theme` and other options are as for `utilisation`. The columns are those of
    `run.to_frame("roofline")` and `run.to_frame("roofs")`.
    """
    recording = recording_of(run)
    points, roofs = frame(recording, "roofline"), frame(recording, "roofs")
    drawn = np.isfinite(points["intensity"]) & (points["intensity"] > 0) & (points["tera_per_s"] > 0)
    points = {name: values[drawn] for name, values in points.items()}
    kinds = {"x_axis_type": "log", "y_axis_type": "log"} if drawn.any() else {}
    canvas = Canvas(recording, "Roofline", theme, options, height=380, **kinds)
    if not drawn.any():
        return canvas.note("No line computes, or nothing moves to or from HBM.")
    made = canvas.figure
    low, high = _ranges(points, roofs)
    made.x_range.start, made.x_range.end, made.y_range.start, made.y_range.end = low[0], high[0], low[1], high[1]
    made.xaxis.axis_label = "operations per byte of HBM traffic"
    made.yaxis.axis_label = "TFLOP/s, or T elements/s"
    for axis in (*made.xaxis, *made.yaxis):
        axis.ticker, axis.formatter = LogTicker(num_minor_ticks=0), CustomJSTickFormatter(code=_PLAIN)
    _roofs(canvas, roofs, low, high)
    _points(canvas, points, roofs)
    return canvas.done()


def _ranges(points: Frame, roofs: Frame) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the least and the greatest intensity and rate to show."""
    peaks = roofs["tera_per_s"][np.isfinite(roofs["tera_per_s"])]
    hbm = roofs["gb_s"][np.isfinite(roofs["gb_s"])]
    ridge = peaks.max() * 1e3 / hbm.max() if len(peaks) and len(hbm) else points["intensity"].max()
    return (
        (points["intensity"].min() / 3, points["tera_per_s"].min() / 3),
        (8 * max(points["intensity"].max(), ridge), 2.5 * max(points["tera_per_s"].max(), *peaks, 0)),
    )


def _roofs(canvas: Canvas, roofs: Frame, low: tuple[float, float], high: tuple[float, float]) -> None:
    """Draw the roofs, each with its name and its value."""
    made, paint = canvas.figure, canvas.paint
    bandwidth = [value for value in roofs["gb_s"].tolist() if np.isfinite(value)]
    highest = max([value for value in roofs["tera_per_s"].tolist() if np.isfinite(value)], default=high[1])
    for kind, name, peak in zip(*(roofs[column].tolist() for column in ("kind", "label", "tera_per_s")), strict=True):
        if not np.isfinite(peak):
            continue
        begin = max(peak * 1e3 / bandwidth[0], low[0]) if bandwidth else low[0]
        line = made.line([begin, high[0]], [peak, peak], line_width=1.5, line_dash=[5, 4] if "," in name else "solid")
        paint.colour(line.glyph, line_color=kind)
        _text(
            canvas,
            high[0],
            peak,
            f"{name} {quantities.significant(peak)} {_UNITS.get(kind, _ELEMENTS)}",
            kind,
            text_align="right",
            x_offset=-4,
        )
    if bandwidth:
        ends = [low[0], highest * 1e3 / bandwidth[0]]
        line = made.line(ends, [value * bandwidth[0] / 1e3 for value in ends], line_width=1.5)
        paint.colour(line.glyph, line_color="dma")
        first = max(low[0], low[1] * 1e3 / bandwidth[0])
        at = first * (ends[1] / first) ** 0.6
        name = f"HBM {quantities.significant(bandwidth[0])} GB/s"
        _text(canvas, at, at * bandwidth[0] / 1e3, name, "dma", text_align="right", x_offset=-8)


def _text(canvas: Canvas, x: float, y: float, text: str, colour: str, **more: Any) -> None:
    label = Label(
        x=x, y=y, text=text, text_font=FONT, text_font_size=SMALL, text_baseline="bottom", **{"y_offset": 2, **more}
    )
    label.background_fill_alpha = 0.8
    canvas.paint.colour(label, text_color=colour, background_fill_color="bg")
    canvas.figure.add_layout(label)


def _points(canvas: Canvas, points: Frame, roofs: Frame) -> None:
    """Draw lines as rings in the hues of their engines, and the run as a disc with its interval."""
    made, paint = canvas.figure, canvas.paint
    is_line = points["what"] == "line"
    peaks = {
        kind: peak
        for kind, peak in reversed(list(zip(roofs["kind"].tolist(), roofs["tera_per_s"].tolist(), strict=True)))
        if np.isfinite(peak)
    }
    items: list[tuple[str, list[Any]]] = []
    rows: dict[str, int] = {}
    for what in (True, False):
        mine = {name: values[is_line == what] for name, values in points.items()}
        if not len(mine["what"]):
            continue
        source = ColumnDataSource({**mine, **_words(mine, peaks)})
        if what:
            hue = {"field": "kind", "transform": paint.mapped(mine["kind"].tolist())}
            drawn = made.scatter(
                "intensity",
                "tera_per_s",
                source=source,
                size=10,
                line_width=2,
                line_color=hue,
                fill_color=hue,
                fill_alpha=0.25,
            )
            rows = {
                f"lines of {KINDS[kind]}": mine["kind"].tolist().index(kind)
                for kind in dict.fromkeys(mine["kind"].tolist())
            }
            items += [(label, [drawn]) for label in rows]
            tips = [("line", "@where"), ("", "@text"), ("instructions", "@instructions, @busy")]
        else:
            drawn = made.scatter("intensity", "tera_per_s", source=source, size=8, line_color=None)
            paint.colour(drawn.glyph, fill_color="ink")
            _interval(canvas, mine, source)
            _name(canvas, mine, source.data["rate"][0])
            tips = [("run", "@text"), ("interval", "@interval")]
            items.insert(0, ("the run", [drawn]))
        canvas.hover([drawn], *tips, ("rate", "@rate"), ("intensity", "@intensity{0.000} a byte"))
    canvas.legend(items, rows)


def _name(canvas: Canvas, points: Frame, rate: str) -> None:
    """Write the name and the rate of the run beside its point, on the side that has room."""
    made, x = canvas.figure, float(points["intensity"][0])
    is_right = x * x > made.x_range.start * made.x_range.end
    side = {"text_align": "right", "x_offset": -12} if is_right else {"text_align": "left", "x_offset": 12}
    _text(canvas, x, float(points["tera_per_s"][0]), f"{points['text'][0]} {rate}", "ink", **{**side, "y_offset": -7})


def _words(points: Frame, peaks: dict[str, float]) -> dict[str, list[str]]:
    """Return the texts of the cards of points."""
    kinds, rates = points["kind"].tolist(), points["tera_per_s"].tolist()
    rate = [
        f"{quantities.significant(value)} {_UNITS.get(kind, _ELEMENTS)}"
        + (f", {quantities.share(value / peaks[kind])} of the roof" if kind in peaks else "")
        for kind, value in zip(kinds, rates, strict=True)
    ]
    bounds = zip(points["low_tera_per_s"].tolist(), points["high_tera_per_s"].tolist(), strict=True)
    return {
        "rate": rate,
        "where": places(points),
        "engine": [KINDS[kind] for kind in kinds],
        "busy": durations(points["time_ns"]),
        "interval": [_between(low, high) for low, high in bounds],
    }


def _between(low: float, high: float) -> str:
    return "none" if np.isnan(low) else f"{quantities.significant(low)} to {quantities.significant(high)}"


def places(columns: Frame) -> list[str]:
    """Return file and line of each row as text."""
    pairs = zip(columns["file"].tolist(), columns["line"].tolist(), strict=True)
    return [f"{formatting.file_name(file)}:{line:.0f}" if file else "" for file, line in pairs]


def durations(nanoseconds: Array) -> list[str]:
    """Return times as text."""
    return [quantities.duration(round(time * 1000)) for time in nanoseconds.tolist()]


def _interval(canvas: Canvas, points: Frame, source: ColumnDataSource) -> None:
    if not np.isfinite(points["low_tera_per_s"]).all():
        return
    bar = Whisker(base="intensity", lower="low_tera_per_s", upper="high_tera_per_s", source=source, line_width=1.5)
    for head in (bar.upper_head, bar.lower_head):
        head.size = 16
        canvas.paint.colour(head, line_color="ink")
    canvas.paint.colour(bar, line_color="ink")
    canvas.figure.add_layout(bar)


def dma_sizes(run: Any, *, theme: Theme = "auto", **options: Any) -> figure:
    """Draw the DMA transfers of each line at the size of their contiguous runs, against the efficiency of sizes.

    A point's area is the bytes that its transfers move. `theme` and other options are as for `utilisation`. The columns
    are those of `run.to_frame("dma_sizes")` and `run.to_frame("dma_curve")`.
    """
    recording = recording_of(run)
    points, curve = frame(recording, "dma_sizes"), frame(recording, "dma_curve")
    drawn = np.isfinite(points["efficiency"]) & (points["descriptor_bytes"] > 0)
    points = {name: values[drawn] for name, values in points.items()}
    kinds = {"x_axis_type": "log"} if drawn.any() else {}
    canvas = Canvas(recording, "DMA efficiency by contiguous run", theme, options, height=320, **kinds)
    if not drawn.any():
        return canvas.note("No DMA transfer was recorded.")
    made, paint = canvas.figure, canvas.paint
    sizes = [*points["descriptor_bytes"].tolist(), *curve["descriptor_bytes"].tolist()]
    ticks = [1 << power for power in range(int(np.log2(min(sizes))), int(np.ceil(np.log2(max(sizes)))) + 1)]
    made.xaxis.ticker = FixedTicker(ticks=ticks)
    made.xaxis.major_label_overrides = {tick: quantities.size(tick) for tick in ticks}
    made.xaxis.axis_label = "contiguous run of a descriptor"
    made.yaxis.axis_label = "share of the engines’ peak, back to back"
    made.yaxis.formatter = CustomJSTickFormatter(code="return `${Math.round(100 * tick)}\\u2009%`")
    made.x_range.start, made.x_range.end = ticks[0] / 1.6, ticks[-1] * 1.6
    made.y_range.start, made.y_range.end = 0, max(1.1, float(points["efficiency"].max()) * 1.1)
    line = made.line("descriptor_bytes", "efficiency", source=ColumnDataSource(curve), line_width=1.5)
    paint.colour(line.glyph, line_color="ink3")
    moved = points["bytes"]
    area = 8 + 28 * np.sqrt(moved / moved.max())
    source = ColumnDataSource({
        **points, "diameter": area, "where": places(points),
        "moved": [quantities.size(size) for size in moved.tolist()],
        "run": [quantities.size(size) for size in points["descriptor_bytes"].tolist()],
        "percent": [quantities.share(share) for share in points["efficiency"].tolist()],
        "time": durations(points["busy_ns"]),
    })  # fmt: skip
    dots = made.scatter(
        "descriptor_bytes", "efficiency", size="diameter", source=source, fill_alpha=0.35, line_width=1.5
    )
    paint.colour(dots.glyph, fill_color="dma", line_color="dma")
    canvas.hover(
        [dots], ("line", "@where"), ("", "@text"), ("instruction", "@instruction"),
        ("transfers", "@transfers, @moved in @time"), ("runs", "@run, @percent of the peak"),
    )  # fmt: skip
    canvas.legend([("transfers of a line, by bytes", [dots]), ("loads of one run a partition", [line])])
    return canvas.done()
