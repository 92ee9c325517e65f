"""Figures of a sweep: the latency over a parameter, and latency against SBUF with the points that nothing betters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bokeh.models import AdaptiveTicker, ColumnDataSource, CustomJSTickFormatter, FactorRange, Whisker
from bokeh.plotting import figure

from nki_lab import quantities
from nki_lab.diagnostic import coded_error
from nki_lab.export import formatting
from nki_lab.export.comparison.tables import MEMORY_LABELS
from nki_lab.isa.spelling import did_you_mean
from nki_lab.plots.drawing.canvas import Canvas
from nki_lab.plots.drawing.themes import Theme

_HUES: Final = ("tensor", "vector", "dma", "gpsimd", "scalar", "sync", "cc")
MOST_LINES: Final = len(_HUES)
"""Combinations of the other parameters that have a line each; of more, the best point of each value is drawn."""

_SBUF: Final = MEMORY_LABELS["sbuf_peak_bytes_per_partition"]
_LATENCY: Final = ("latency_low_ns", "latency_ns", "latency_high_ns")


def sweep(
    swept: Any, parameter: str | None = None, *, pareto: bool = False, theme: Theme = "auto", **options: Any
) -> figure:
    """Draw what `nki_lab.sweep` gives: the latency over a parameter, a line for each combination of the others.

    `parameter` is the first one with several values where it is not given. Bars are the 80 % interval; crosses at the
    bottom are points that failed, with their finding. With `pareto`, points stand at their latency and their peak of
    SBUF, and a line joins those of which no other is better in one and as good in the other. `theme` and other options
    are as for `utilisation`. NKI012 for what is no sweep, or a parameter that it has not.
    """
    if not all(hasattr(swept, name) for name in ("rows", "parameters", "pareto")):
        raise coded_error(
            "NKI012", f"a chart of {type(swept).__name__}", operand="swept", limit="what nki_lab.sweep gives"
        )
    rows = [row | {"chosen": _chosen(swept, row)} for row in swept.rows()]
    if pareto:
        return _pareto(swept, rows, theme, options)
    name = parameter or next((key for key in swept.parameters if len({str(row[key]) for row in rows}) > 1), None)
    name = name or next(iter(swept.parameters), "")
    if name not in swept.parameters:
        raise coded_error(
            "NKI012",
            f"the sweep has no parameter {name!r}",
            operand="parameter",
            limit=f"parameters: {', '.join(swept.parameters)}",
            help=did_you_mean(name, swept.parameters),
        )
    return _over(swept, rows, name, theme, options)


def _chosen(swept: Any, row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {row[name]}" for name in swept.parameters)


def _below(swept: Any, rows: Sequence[Mapping[str, Any]]) -> str:
    failed = sum(row["status"] != "ok" for row in rows)
    return f"{swept.name} · {len(rows)} points" + (f", {failed} of them not ok" if failed else "")


def _timed(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["status"] == "ok" and row["latency_ns"] is not None]


def _over(swept: Any, rows: list[Any], name: str, theme: Theme, options: dict[str, Any]) -> figure:
    values = list(dict.fromkeys(row[name] for row in rows))
    is_number = bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    places: dict[str, Any] = {} if is_number else {"x_range": FactorRange(factors=[str(value) for value in values])}
    if is_number and len(values) > 2 and min(values) > 0 and max(values) >= 8 * min(values):
        places["x_axis_type"] = "log"
    title = f"Latency over {name}" if name else "Latency"
    canvas = Canvas(None, title, theme, options, below=_below(swept, rows), **places)
    timed = _timed(rows)
    if not timed:
        return canvas.note("No point of the sweep has a latency.")
    others = [key for key in swept.parameters if key != name]
    groups: dict[str, list[Any]] = {}
    for row in timed:
        groups.setdefault(", ".join(f"{key} = {row[key]}" for key in others), []).append(row)
    if len(groups) > MOST_LINES:
        best = {value: min((row for row in timed if row[name] == value), key=lambda row: row["latency_ns"])
                for value in values if any(row[name] == value for row in timed)}  # fmt: skip
        groups = {f"best of {len(others)} other parameters": list(best.values())}
    unit = _time_axis(canvas, timed, canvas.figure.yaxis)
    items = []
    for number, (label, mine) in enumerate(groups.items()):
        ordered = sorted(mine, key=lambda row: row[name]) if is_number else mine
        items.append((label or "latency", _line(canvas, ordered, name, is_number, _HUES[number])))
    highest = max(row["latency_high_ns"] or row["latency_ns"] for row in timed)
    canvas.figure.y_range.start, canvas.figure.y_range.end = 0, max(1.06 * highest, 1)
    _failures(canvas, [row for row in rows if row["status"] != "ok"], name, is_number)
    made = canvas.figure
    made.xaxis.axis_label = name
    if is_number:
        made.xaxis.ticker = sorted(values)
        made.xaxis.formatter = CustomJSTickFormatter(code="return String(tick)")
    made.yaxis.axis_label = unit
    if len(items) > 1 or items[0][0] != "latency":
        canvas.legend(items)
    return canvas.done()


def _line(canvas: Canvas, rows: list[Any], name: str, is_number: bool, hue: str) -> list[Any]:
    made, paint = canvas.figure, canvas.paint
    data: dict[str, list[Any]] = {
        "at": [row[name] if is_number else str(row[name]) for row in rows],
        **{key: [row[key] if row[key] is not None else row["latency_ns"] for row in rows] for key in _LATENCY},
        **_texts(rows),
    }
    source = ColumnDataSource(data)
    line = made.line("at", "latency_ns", source=source, line_width=1.5)
    dots = made.scatter("at", "latency_ns", source=source, size=8)
    paint.colour(line.glyph, line_color=hue)
    paint.colour(dots.glyph, fill_color=hue, line_color="bg")
    bars = Whisker(base="at", lower="latency_low_ns", upper="latency_high_ns", source=source, line_width=1)
    bars.upper_head.size = bars.lower_head.size = 6
    paint.colour(bars, line_color=hue)
    paint.colour(bars.upper_head, line_color=hue)
    paint.colour(bars.lower_head, line_color=hue)
    made.add_layout(bars)
    canvas.hover([dots], ("", "@chosen"), ("latency", "@time"), (_SBUF, "@sbuf"))
    return [line, dots]


def _texts(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    return {
        "chosen": [row["chosen"] for row in rows],
        "time": [formatting.latency(row) for row in rows],
        "sbuf": [quantities.size(row["sbuf_peak_bytes"] or 0) for row in rows],
    }


def _failures(canvas: Canvas, rows: Sequence[Mapping[str, Any]], name: str, is_number: bool) -> None:
    if not rows or not name:
        return
    source = ColumnDataSource({
        "at": [row[name] if is_number else str(row[name]) for row in rows],
        "chosen": [row["chosen"] for row in rows],
        "why": [" ".join(filter(None, (row["status"], row["code"], row["message"]))) for row in rows],
        "low": [0.0] * len(rows),
    })  # fmt: skip
    marks = canvas.figure.scatter("at", "low", source=source, size=10, marker="x", line_width=2)
    canvas.paint.colour(marks.glyph, line_color="error")
    canvas.hover([marks], ("", "@chosen"), ("", "@why"))


def _time_axis(canvas: Canvas, rows: Sequence[Mapping[str, Any]], axis: Any) -> str:
    """Write an axis of latencies in the unit of the longest one, which is returned."""
    longest = max(row["latency_ns"] for row in rows)
    size, unit = next(((n // 1000, name) for n, name in quantities.TIMES if longest * 1000 >= n), (1, "ns"))
    axis.formatter = CustomJSTickFormatter(code=f"return String(Number((tick / {size}).toPrecision(6)))")
    return unit


def _pareto(swept: Any, rows: list[Any], theme: Theme, options: dict[str, Any]) -> figure:
    canvas = Canvas(None, "Latency and SBUF", theme, options, below=_below(swept, rows))
    timed = [row for row in _timed(rows) if row["sbuf_peak_bytes"] is not None]
    if not timed:
        return canvas.note("No point of the sweep has a latency and a peak of SBUF.")
    made, paint = canvas.figure, canvas.paint
    unit = _time_axis(canvas, timed, made.xaxis)
    front = [(item["latency_ns"], item["sbuf_peak_bytes"]) for item in swept.pareto()]
    line = made.step(*zip(*front, strict=True), mode="after", line_width=1.5)
    paint.colour(line.glyph, line_color="ink3")
    items = []
    for label, hue, is_best in (("no other point is better", "ink", True), ("other points", "faint", False)):
        mine = [row for row in timed if ((row["latency_ns"], row["sbuf_peak_bytes"]) in front) == is_best]
        if not mine:
            continue
        source = ColumnDataSource({
            "x": [row["latency_ns"] for row in mine], "y": [row["sbuf_peak_bytes"] for row in mine], **_texts(mine),
        })  # fmt: skip
        dots = made.scatter("x", "y", source=source, size=9 if is_best else 7)
        paint.colour(dots.glyph, fill_color=hue, line_color="bg")
        canvas.hover([dots], ("", "@chosen"), ("latency", "@time"), (_SBUF, "@sbuf"))
        items.append((label, [dots]))
    made.xaxis.axis_label = unit
    made.yaxis.axis_label = f"{_SBUF}, KiB per partition"
    made.yaxis.formatter = CustomJSTickFormatter(code="return String(Number((tick / 1024).toPrecision(4)))")
    made.yaxis.ticker = AdaptiveTicker(base=2, mantissas=[1], min_interval=1)
    made.y_range.start, made.y_range.end = 0, max(1.1 * max(row["sbuf_peak_bytes"] for row in timed), 1)
    canvas.legend(items)
    return canvas.done()
