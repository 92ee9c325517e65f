"""A figure of two compared runs: what the critical path of each does."""

from __future__ import annotations

from typing import Any, Final

from bokeh.models import ColumnDataSource, CustomJSTickFormatter, FactorRange
from bokeh.plotting import figure
from bokeh.transform import dodge

from nki_lab import quantities
from nki_lab.comparison import Compared
from nki_lab.diagnostic import coded_error
from nki_lab.export.comparison.message import labels
from nki_lab.export.comparison.sentence import change_text, signed_share
from nki_lab.plots.columns.differences import differences
from nki_lab.plots.drawing.canvas import Canvas
from nki_lab.plots.drawing.rates import durations
from nki_lab.plots.drawing.themes import Theme

MOST: Final = 14
"""Kinds of work and reasons to wait that are drawn, those that change most; of more the title has the number."""

_ROW: Final = 34  # pixels
_AXES: Final = 140


def compare(comparison: Any, *, theme: Theme = "auto", **options: Any) -> figure:
    """Draw what the critical paths of two runs do: work of each engine, solid, and waits by reason, hatched.

    `comparison` is what `run.compare(other)` gives. The earlier run is the lighter, upper bar of each pair. `theme` and
    other options are as for `utilisation`. NKI012 for anything else.
    """
    found = comparison if isinstance(comparison, Compared) else getattr(comparison, "figures", None)
    if not isinstance(found, Compared):
        raise coded_error(
            "NKI012",
            f"a chart of {type(comparison).__name__}",
            operand="comparison",
            limit="what run.compare(other) gives",
        )
    columns = differences(found)
    count = len(columns["label"])
    columns = {name: values[:MOST] for name, values in columns.items()}
    before, after = (round(amount or 0) for amount in (found.latency.before, found.latency.after))
    quotient = found.latency.quotient
    share = "" if not quotient else f" ({signed_share(quotient)})"
    below = f"{quantities.duration(before)} → {quantities.duration(after)}{share}"
    below += f"; {MOST} of {count} shown" if count > MOST else ""
    factors = columns["label"].tolist()
    places = {"y_range": FactorRange(factors=[*reversed(factors)])} if factors else {}
    height = _AXES + _ROW * max(len(factors), 2)
    canvas = Canvas(None, "Critical path of both runs", theme, options, below=below, height=height, **places)
    if not factors:
        return canvas.note("Neither run has a critical path.")
    return _drawn(canvas, found, columns)


def _drawn(canvas: Canvas, found: Compared, columns: dict[str, Any]) -> figure:
    made, paint = canvas.figure, canvas.paint
    longest = max(float(columns["before_ns"].max()), float(columns["after_ns"].max()), 1.0)
    size, unit = next(((n // 1000, name) for n, name in quantities.TIMES if longest * 1000 >= n), (1, "ns"))
    texts = {
        "was": durations(columns["before_ns"]),
        "is": durations(columns["after_ns"]),
        "by": [change_text(change * 1000, "ps") for change in columns["change_ns"].tolist()],
    }
    items = []
    for part in ("works", "waits"):
        mine = columns["part"] == part
        if not mine.any():
            continue
        data = {name: values[mine] for name, values in columns.items()}
        data |= {
            name: [text for text, here in zip(values, mine, strict=True) if here] for name, values in texts.items()
        }
        hue = {"field": "kind", "transform": paint.mapped(data["kind"].tolist())}
        for side, label, offset, alpha in zip(
            ("before_ns", "after_ns"), labels(found), (0.19, -0.19), (0.35, 1.0), strict=True
        ):
            source = ColumnDataSource(data)
            bars = made.hbar(y=dodge("label", offset, range=made.y_range), right=side, height=0.34, source=source)
            bars.glyph.fill_color, bars.glyph.line_color = hue, hue
            bars.glyph.fill_alpha = alpha if part == "works" else 0.06 * alpha
            if part == "waits":
                bars.glyph.hatch_pattern, bars.glyph.hatch_color, bars.glyph.hatch_alpha = "/", hue, alpha
                bars.glyph.hatch_scale, bars.glyph.hatch_weight = 7, 1.3
            bars.glyph.line_alpha = alpha
            canvas.hover(
                [bars], ("", "@label"), (labels(found)[0], "@was"), (labels(found)[1], "@is"), ("change", "@by")
            )
            items.append((f"{label}, {part}", [bars]))
    made.xaxis.axis_label = unit
    made.xaxis.formatter = CustomJSTickFormatter(code=f"return String(Number((tick / {size}).toPrecision(6)))")
    made.x_range.start, made.x_range.end = 0, longest * 1.05
    made.ygrid.visible = False
    made.min_border_left = 230
    made.yaxis.major_tick_line_color = made.yaxis.axis_line_color = None
    paint.colour(made.yaxis[0], major_label_text_color="ink")
    canvas.legend(items)
    return canvas.done()
