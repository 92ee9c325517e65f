"""A figure in the style of the views: a title with the time of the run, quiet axes, units, a note where it is empty."""

from __future__ import annotations

from typing import Any, Final

from bokeh.models import CustomJSTickFormatter, HoverTool, Label, Legend, LegendItem, Renderer, Title
from bokeh.plotting import figure

from nki_lab import quantities
from nki_lab.diagnostic import coded_error
from nki_lab.export import formatting
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.plots.drawing.themes import Paint, Theme

FONT: Final = "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
SMALL: Final = "11px"
_HEIGHT: Final = 280
_EMPTY: Final = 130
_LEFT: Final = 104
"""Pixels left of the axes: figures over each other have their times at the same places."""

OVER_TIME: Final = "nki-over-time"
"""The tag of figures whose horizontal axis is the time of the run, in nanoseconds."""

_TOOLS: Final = "xpan,xwheel_zoom,box_zoom,reset,save"
_TIME_UNITS: Final = (*((size // 1000, unit) for size, unit in quantities.TIMES), (1, "ns"))


def recording_of(run: Any) -> Recording:
    """Return the recording of what a chart is given: a run, a saved one, or a recording; NKI023 without times."""
    found = run if isinstance(run, Recording) else getattr(run, "recording", None)
    if not isinstance(found, Recording):
        raise coded_error(
            "NKI012",
            f"a chart of {type(run).__name__}",
            operand="run",
            limit="what nki_lab.run, nki_lab.profile or nki_lab.open gives",
        )
    return found


_NARROWEST: Final = 280
"""Pixels of a figure in a layout that gives it no width of its own, as a column without `sizing_mode` does."""


class Canvas:
    """A figure that is being drawn, with its colours."""

    def __init__(
        self, recording: Recording | None, title: str, theme: Theme, options: dict[str, Any], *, below: str = "",
        **defaults: Any
    ) -> None:  # fmt: skip
        self._recording = recording
        self._below = below
        self.paint = Paint(theme)
        wide = {"sizing_mode": "stretch_width", "min_width": _NARROWEST}
        chosen = {"height": _HEIGHT, **wide, "tools": _TOOLS, **defaults, **options}
        if "width" in options and "sizing_mode" not in options:
            for name in wide.keys() - options:
                chosen.pop(name)
        self.figure = figure(**chosen)
        self._style()
        self._titles(title)

    @property
    def recording(self) -> Recording:
        """The recording that is drawn; a figure of several has none."""
        if self._recording is None:
            raise ValueError("this figure is of no single run")
        return self._recording

    def _style(self) -> None:
        made, colour = self.figure, self.paint.colour
        made.toolbar.logo = None
        made.toolbar.autohide = True
        made.min_border_left, made.min_border_right = _LEFT, 16
        made.margin = (0, 0, 16, 0)
        made.outline_line_color = None
        colour(made, background_fill_color="bg", border_fill_color="bg")
        for axis in (*made.xaxis, *made.yaxis):
            axis.axis_label_text_font = axis.major_label_text_font = FONT
            axis.axis_label_text_font_size = axis.major_label_text_font_size = SMALL
            axis.axis_label_text_font_style = "normal"
            axis.minor_tick_line_color = None
            axis.major_tick_in, axis.major_tick_out = 0, 4
            colour(axis, axis_label_text_color="ink3", major_label_text_color="ink3", axis_line_color="line2")
            colour(axis, major_tick_line_color="line2")
        for grid in (*made.xgrid, *made.ygrid):
            colour(grid, grid_line_color="line")

    def _titles(self, title: str) -> None:
        made = self.figure
        above = Title(text=title, text_font=FONT, text_font_size="13px", text_font_style="bold")
        below = Title(text=self._below or self._run(), text_font=FONT, text_font_size=SMALL, text_font_style="normal")
        self.paint.colour(above, text_color="ink")
        self.paint.colour(below, text_color="ink3")
        made.title = above
        made.add_layout(below, "above")

    def _run(self) -> str:
        summary = self.recording.summary
        target = summary.get("target")
        name = str(summary.get("kernel") or "run") + (f" on {target}" if target else "")
        return f"{name} · {formatting.makespan(summary, self.recording.makespan)}"

    def time_axis(self) -> None:
        """Let the horizontal axis be time, in the unit of the run, from its begin to its end."""
        made, end = self.figure, max(self.recording.makespan / 1000, 1.0)
        made.tags.append(OVER_TIME)
        size, unit = next(pair for pair in _TIME_UNITS if end >= pair[0])
        made.xaxis.axis_label = unit
        made.xaxis.formatter = CustomJSTickFormatter(code=f"return String(Number((tick / {size}).toPrecision(6)))")
        made.xgrid.visible = False
        made.x_range.start, made.x_range.end = 0, end
        made.x_range.bounds = (0, end)

    def hover(self, renderers: list[Renderer], *tooltips: tuple[str, str], **options: Any) -> None:
        """Show a card with these lines over some renderers."""
        self.figure.add_tools(HoverTool(renderers=renderers, tooltips=list(tooltips), **options))

    def legend(self, items: list[tuple[str, list[Renderer]]], rows: dict[str, int] | None = None) -> None:
        """Put a legend below the figure, where it covers nothing; a click hides and shows what it names.

        `rows` are the rows of renderers' data that give entries their colours, by label.
        """
        made = Legend(items=[
            LegendItem(label=label, renderers=parts, index=(rows or {}).get(label)) for label, parts in items
        ])  # fmt: skip
        made.orientation, made.location, made.click_policy = "horizontal", "left", "hide"
        made.label_text_font, made.label_text_font_size = FONT, SMALL
        made.glyph_height = made.glyph_width = 12
        made.spacing, made.padding, made.margin = 12, 0, 4
        made.border_line_color = None
        self.paint.colour(made, label_text_color="ink2", background_fill_color="bg")
        self.figure.add_layout(made, "below")

    def note(self, text: str) -> figure:
        """Say why there is nothing to draw, and return the figure without axes."""
        made = self.figure
        made.height = min(made.height or _EMPTY, _EMPTY)
        for part in (*made.xaxis, *made.yaxis, *made.xgrid, *made.ygrid):
            part.visible = False
        made.x_range.start, made.x_range.end, made.y_range.start, made.y_range.end = 0, 1, 0, 1
        label = Label(x=0.5, y=0.5, text=text, text_align="center", text_baseline="middle", text_font=FONT)
        label.text_font_size = "12px"
        self.paint.colour(label, text_color="ink3")
        made.add_layout(label)
        return self.done()

    def done(self) -> figure:
        """Return the figure, which follows the theme from here on."""
        self.paint.follow(self.figure)
        return self.figure
