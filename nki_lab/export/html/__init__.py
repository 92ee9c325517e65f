"""A recording as one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

import json
import os
from pathlib import Path

from bokeh.embed import json_item
from bokeh.resources import Resources

from nki_lab.export.files import replacing
from nki_lab.export.html.figures import drawings
from nki_lab.export.html.page import page
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.digest import digest

_FOLDER = Path(__file__).parent


def html(recording: Recording) -> str:
    """The report of a recording: what it took, what held it back, timeline, memory, costly lines, findings."""
    told = digest(recording)
    style = (_FOLDER / "page.css").read_text(encoding="utf-8")
    if not recording.makespan or not len(recording):
        return page(recording, told, style=style)
    drawn = drawings(recording, told)
    figures = json.dumps(json_item(drawn.model, "drawing"))
    scripts = [*Resources(mode="inline", components=["bokeh"]).js_raw, (_FOLDER / "page.js").read_text("utf-8")]
    return page(
        recording,
        told,
        style=style,
        figures=figures,
        scripts=scripts,
        note=". ".join(filter(None, (f"in {drawn.unit}", drawn.note))),
    )


def write(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write the report of a recording into a file. Raises NKI021 if the disk does not take it."""
    content = html(recording).encode()
    with replacing(path) as stream:
        stream.write(content)


__all__ = ["html", "write"]
