"""The visualizer in notebooks: a widget that is fed by the kernel, and what a saved notebook keeps of a run."""

from __future__ import annotations

import base64
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from nki_lab.extras import extra
from nki_lab.kernel_runtime.protocols import TileSource
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.widgets.about import ABOUT, about
from nki_lab.widgets.value_answers import Pinning
from nki_lab.wire import VERSION, compact, encode

if TYPE_CHECKING:
    from nki_lab.widgets.comparison import ComparisonView
    from nki_lab.widgets.live import LiveVisualizer
    from nki_lab.widgets.visualizer import Charting, Linking, Visualizer

MIME: Final = "application/vnd.nki-lab.run+json"
"""The data for the JupyterLab extension: {"version": of the message, "message": base64 of it in the zlib format}. The
messages of pinned tiles are in "values", in the same form; earlier runs of its cell are in "earlier", like itself."""

COMPARISON_MIME: Final = "application/vnd.nki-lab.comparison+json"
"""The same of two runs: {"version", "messages": each with its "message" and what that is "of", as
`nki_lab.widgets.comparison` has it}."""

_LEAST: Final = 4  # compressed bytes of a row; a run that cannot fit is not encoded to find out


def view(
    recording: Recording,
    *,
    fault: int = -1,
    step: int = -1,
    tiles: TileSource | None = None,
    pins: Sequence[bytes] = (),
    pin: Pinning | None = None,
    linking: Linking | None = None,
    charting: Charting | None = None,
    picture: Callable[[], bytes] | None = None,
    texts: Callable[[], Mapping[str, str]] | None = None,
) -> Visualizer:
    """The widget that draws a recording, at a step where one is given; NKI022 where the notebook packages are missing.

    `fault` is the row at which the run failed, -1: it did not. `tiles` answer for values while the kernel lives.
    `pins` are messages of tiles; `pin` keeps one more, of a buffer after a step, and returns its message. `linking`
    has figures talk with the view, `charting` draws those of its summary. `picture` gives the PNG that stands for the
    widget when many others follow it, `texts` what stands for it on pages that show no widgets, by MIME type.
    """
    with extra("widgets", "the visualizer needs", otherwise='write a page with run.to_html("run.html")'):
        module = importlib.import_module("nki_lab.widgets.visualizer")
    made: Visualizer = module.Visualizer(
        recording,
        fault=fault,
        step=step,
        tiles=tiles,
        pins=pins,
        pin=pin,
        linking=linking,
        charting=charting,
        picture=picture,
        texts=texts,
    )
    return made


def view_of_running(cancel: Callable[[], object]) -> LiveVisualizer:
    """The widget of a run that is not over; `cancel` stops it. NKI022 where the notebook packages are missing."""
    with extra("widgets", "the visualizer needs"):
        module = importlib.import_module("nki_lab.widgets.live")
    made: LiveVisualizer = module.LiveVisualizer(cancel)
    return made


def pinned(
    recording: Recording, limit: int, *, fault: int = -1, values: Sequence[bytes] = ()
) -> dict[str, object] | None:
    """The run as a notebook keeps it, under `MIME`; None where that would be more than `limit` bytes.

    `values` are messages of tiles; they have a limit of their own, that of `Run.pin`.
    """
    if len(recording) * _LEAST > limit:
        return None
    message = base64.b64encode(compact(encode(recording, fault=fault))).decode("ascii")
    if len(message) > limit:
        return None
    kept = {"values": [base64.b64encode(compact(item)).decode("ascii") for item in values]} if values else {}
    return {"version": VERSION, "message": message, **kept}


def compare(comparison: bytes, before: Recording, after: Recording) -> ComparisonView:
    """The widget that draws two recordings, of which `comparison` is the message; NKI022 where packages are missing."""
    with extra("widgets", "the view needs", otherwise='write a page with comparison.to_html("compared.html")'):
        module = importlib.import_module("nki_lab.widgets.comparison")
    made: ComparisonView = module.ComparisonView(comparison, before, after)
    return made


def pinned_comparison(comparison: bytes, before: Recording, after: Recording, limit: int) -> dict[str, object] | None:
    """Two runs as a notebook keeps them, under `COMPARISON_MIME`; None where that would be more than `limit` bytes."""
    if (len(before) + len(after)) * _LEAST > limit:
        return None
    given = {"comparison": comparison, "before": encode(before), "after": encode(after)}
    kept = [
        {"of": name, "message": base64.b64encode(compact(message)).decode("ascii")} for name, message in given.items()
    ]
    if sum(len(item["message"]) for item in kept) > limit:
        return None
    return {"version": VERSION, "messages": kept}


def data(widget: Visualizer | ComparisonView) -> dict[str, object]:
    """Return the MIME bundle of a widget, without its text."""
    found = widget._repr_mimebundle_()
    bundle = found[0] if isinstance(found, tuple) else found
    return {kind: value for kind, value in (bundle or {}).items() if kind != "text/plain"}


__all__ = [
    "ABOUT",
    "COMPARISON_MIME",
    "MIME",
    "about",
    "compare",
    "data",
    "pinned",
    "pinned_comparison",
    "view",
    "view_of_running",
]
