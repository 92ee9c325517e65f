"""Figures over time that move with a visualizer of the page, and move it: by a tap, by zoom and pan.

Both talk by events of the page's document, so that it does not matter whether a figure is a widget of jupyter_bokeh,
was shown by `bokeh.io.show`, or stands in a page without any kernel. labextension/src/linking.ts is the other side.
"""

from __future__ import annotations

from typing import Any, Final

from bokeh.models import CustomJS, Span
from bokeh.plotting import figure

from nki_lab.diagnostic import coded_error
from nki_lab.plots.drawing.canvas import OVER_TIME
from nki_lab.plots.drawing.themes import Paint

_LINK: Final = """
const tag = `nki-linked ${channel}`;
if (!figure.tags.includes(tag)) {
  figure.tags.push(tag);
  const name = 'nki-lab-link', range = figure.x_range;
  const from = `chart ${Math.random()}`;
  let follows = false;
  const send = detail => document.dispatchEvent(new CustomEvent(name, {detail: {channel, from, ...detail}}));
  const shown = () => { if (!follows) send({window: [1000 * range.start, 1000 * range.end]}); };
  range.properties.start.change.connect(shown);
  range.properties.end.change.connect(shown);
  figure.on_event('tap', event => send({time: 1000 * event.x}));
  document.addEventListener(name, ({detail}) => {
    if (detail.channel !== channel || detail.from === from) return;
    if (detail.time !== undefined) {
      cursor.location = detail.time / 1000;
      cursor.visible = true;
    }
    if (detail.window === undefined) return;
    follows = true;
    range.setv({start: detail.window[0] / 1000, end: detail.window[1] / 1000});
    follows = false;
  });
  send({asks: true});
}
"""


def link(channel: str, figures: tuple[Any, ...]) -> None:
    """Link figures over time with the visualizers of a channel: tap moves the step, zoom and pan move what is shown,
    and the other way round. NKI012 for what is no figure over time.
    """
    for made in figures:
        if not isinstance(made, figure) or OVER_TIME not in made.tags:
            kind = "a chart without time" if isinstance(made, figure) else f"a {type(made).__name__}"
            raise coded_error(
                "NKI012",
                f"{kind} is linked with a view",
                operand="figures",
                limit="figures of nki_lab.plots over time: utilisation, memory, bandwidth",
            )
    for made in figures:
        cursor = Span(dimension="height", line_width=1.5, level="overlay", visible=False)
        paint = Paint("auto")
        paint.colour(cursor, line_color="ink")
        made.add_layout(cursor)
        paint.follow(made)
        args: dict[str, Any] = {"figure": made, "cursor": cursor, "channel": channel}
        made.js_on_change("inner_width", CustomJS(args=args, code=_LINK))  # set once it is laid out in a page
