"""Figures as pages that need no network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import bokeh
from bokeh.embed import components, file_html, json_item
from bokeh.models import UIElement
from bokeh.resources import INLINE, Resources

from nki_lab.diagnostic import coded_error
from nki_lab.export.colours import COLOURS
from nki_lab.export.files import replacing
from nki_lab.export.html import POLICY, VIEWS
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.plots.drawing.linking import link
from nki_lab.plots.drawing.over_time import bandwidth, memory, utilisation
from nki_lab.plots.drawing.rates import dma_sizes, roofline
from nki_lab.plots.drawing.shares import stalls

_CHANNEL: Final = "page"
_CHARTS: Final = "box-sizing: border-box; max-width: 2560px; margin: 0 auto; padding: 0 16px 16px"
_STYLE: Final = (
    f"<style>:root {{ color-scheme: light dark }} body {{ margin: 16px; background: {COLOURS['bg'].light} }}\n"
    f"@media (prefers-color-scheme: dark) {{ body {{ background: {COLOURS['bg'].dark} }} }}</style>\n"
)


def save(figures: Any, path: str | os.PathLike[str], *, title: str = "NKI charts") -> Path:
    """Write a figure, or several below each other, as one HTML file that needs no network; return its path.

    NKI012 of what is no figure, NKI021 where the disk does not take the file.
    """
    parts = list(figures) if isinstance(figures, Sequence) else [figures]
    if not parts or not all(isinstance(part, UIElement) for part in parts):
        raise coded_error("NKI012", "save takes bokeh figures", operand="figures", limit="a figure, or a list of them")
    page = file_html(parts, INLINE, title).replace("</head>", f"{_STYLE}</head>", 1)
    with replacing(path) as stream:
        stream.write(page.encode())
    return Path(path)


def with_charts(page: str, recording: Recording) -> str:
    """Return a run's page with charts below its views, linked with them: engines, HBM, memory, stalls, roofline, DMA.

    They add bokeh's script, 1.3 MB; bokeh's callbacks need a policy that lets scripts make scripts.
    """
    code, places = components(_figures(recording, _CHANNEL))
    script = Resources(mode="inline", components=["bokeh"]).render_js()
    section = f'<section aria-label="Charts" style="{_CHARTS}">{"".join(places)}</section>\n{script}\n{code}\n'
    policy = POLICY.replace("script-src", "script-src 'unsafe-eval'")
    page = page.replace(POLICY, policy, 1).replace(VIEWS, VIEWS.replace("<div", f'<div data-channel="{_CHANNEL}"'), 1)
    head, end = page.rsplit("</body>", 1)
    return f"{head}{section}</body>{end}"


def for_summary(recording: Recording, channel: str, version: str) -> tuple[dict[str, Any], bytes]:
    """Return the charts of `with_charts` as the summary of a widget embeds them, and the script that draws them.

    The charts are bokeh's JSON under "items", with the "version" of bokeh. The script is empty where the page has that
    `version`. Charts over time are linked with the views of `channel`.
    """
    items = [json_item(made) for made in _figures(recording, channel)]
    known = version == bokeh.__version__
    script = "" if known else "\n".join(Resources(mode="inline", components=["bokeh"]).js_raw)
    return {"version": bokeh.__version__, "items": items}, script.encode()


def _figures(recording: Recording, channel: str) -> list[Any]:
    """Return the charts of a run; those over time are linked with the views of a channel."""
    over_time = (utilisation(recording), bandwidth(recording), memory(recording))
    link(channel, tuple(made for made in over_time if made.tags))  # of nothing there is a note, which has no time
    return [*over_time, stalls(recording), roofline(recording), dma_sizes(recording)]
