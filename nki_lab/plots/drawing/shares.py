"""Figures of shares of the run: what lanes do with it, and what they wait for."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from bokeh.models import ColumnDataSource, CustomJSTickFormatter, FactorRange
from bokeh.plotting import figure

from nki_lab import quantities
from nki_lab.kernel_runtime.recording.bottlenecks import SENTENCES
from nki_lab.kernel_runtime.vocabulary import KINDS, reason
from nki_lab.plots.columns import Frame, frame
from nki_lab.plots.drawing.canvas import Canvas, recording_of
from nki_lab.plots.drawing.rates import durations
from nki_lab.plots.drawing.themes import Theme

_PARTS: Final = {
    "works": "works",
    "slowed": "slowed",
    "waits": "waits, in the colour of what for",
    "empty": "nothing queued",
}


def stalls(run: Any, *, theme: Theme = "auto", **options: Any) -> figure:
    """Draw what each lane, and the critical path, do with the time of the run: work, waits by reason, nothing queued.

    A wait has the hue of the engine that it is for. `theme` and other options are as for `utilisation`. The columns are
    those of `run.to_frame("stalls")`.
    """
    recording = recording_of(run)
    columns = frame(recording, "stalls")
    lanes = list(dict.fromkeys(columns["lane"].tolist()))
    places = {"y_range": FactorRange(factors=[*reversed(lanes)])} if lanes else {}
    canvas = Canvas(recording, "Where the time goes", theme, options, height=140 + 30 * max(len(lanes), 2), **places)
    if not lanes:
        return canvas.note(SENTENCES["instant"] if len(recording) else SENTENCES["empty"])
    made, paint = canvas.figure, canvas.paint
    columns |= _ends(columns, lanes)
    items = []
    for part, label in _PARTS.items():
        mine = {name: values[columns["part"] == part] for name, values in columns.items()}
        if not len(mine["lane"]):
            continue
        source = ColumnDataSource({
            **mine, "says": _words(mine), "time": durations(mine["time_ns"]),
            "percent": [quantities.share(share) for share in mine["share"].tolist()],
        })  # fmt: skip
        bars = made.hbar(y="lane", left="left", right="right", height=0.62, source=source, line_width=1)
        _fill(canvas, bars.glyph, part, mine)
        canvas.hover([bars], ("lane", "@lane"), ("", "@says"), ("time", "@time, @percent"))
        items.append((label, [bars]))
    made.xaxis.formatter = CustomJSTickFormatter(code="return `${Math.round(100 * tick)}\\u2009%`")
    made.xaxis.axis_label = "share of the run"
    made.x_range.start, made.x_range.end = 0, 1
    made.ygrid.visible = False
    made.yaxis.major_tick_line_color = made.yaxis.axis_line_color = None
    paint.colour(made.yaxis[0], major_label_text_color="ink")
    canvas.legend(items)
    return canvas.done()


def _ends(columns: Frame, lanes: list[str]) -> Frame:
    """Return where each part begins and ends in the bar of its lane."""
    left = np.zeros(len(columns["share"]))
    for lane in lanes:
        mine = columns["lane"] == lane
        left[mine] = np.cumsum(columns["share"][mine]) - columns["share"][mine]
    return {"left": left, "right": left + columns["share"]}


def _fill(canvas: Canvas, glyph: Any, part: str, columns: Frame) -> None:
    """Fill work solidly, what slows it with a lighter tint, and hatch waits."""
    paint = canvas.paint
    if part == "empty":
        paint.colour(glyph, fill_color="sunk", line_color="line")
        return
    hue = {"field": "kind", "transform": paint.mapped(columns["kind"].tolist())}
    glyph.line_color = hue if part == "slowed" else None
    glyph.fill_color, glyph.fill_alpha = hue, {"works": 1.0, "slowed": 0.35, "waits": 0.08}[part]
    if part == "waits":
        glyph.hatch_pattern, glyph.hatch_color, glyph.hatch_scale, glyph.hatch_weight = "/", hue, 7, 1.3
    paint.colour(glyph, **({} if part == "slowed" else {"line_color": "bg"}))


def _words(columns: Frame) -> list[str]:
    """Return what each part is, as text."""
    out = []
    for part, why, kind in zip(*(columns[name].tolist() for name in ("part", "reason", "kind")), strict=True):
        said = {"works": f"{KINDS[kind]} works", "slowed": f"slowed by {reason(why)}", "empty": "nothing queued"}
        out.append(said.get(part, f"waits for {reason(why)}" if why else "waits"))
    return out
