"""The MIME bundle of a run for notebooks, of which a front end shows the richest form that it knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from nki_lab import widgets
from nki_lab.diagnostic import NkiError
from nki_lab.dialects.environment import NOTEBOOK_VARIABLE
from nki_lab.export import formatting, picture
from nki_lab.export.card import card
from nki_lab.export.text import brief
from nki_lab.kernel_runtime.recording import Recording

if TYPE_CHECKING:
    from nki_lab.widgets.visualizer import Visualizer

_MORE: Final = "run.view() opens the visualizer, run.to_html(path) writes it as a page."


def bundle(
    recording: Recording, limit: int, fault: int, view: Callable[[], Visualizer], values: Sequence[bytes] = ()
) -> dict[str, object]:
    """Return the MIME bundle of a run: text, a picture, a card of HTML with both, and what the visualizer draws.

    That is the run itself where it takes at most `limit` bytes, else the widget that `view` gives, fed by the kernel.
    `values` are messages of pinned tiles.
    """
    png = picture.png(recording)
    outputs: dict[str, object] = {"text/plain": brief(recording), "image/png": png}
    saved = widgets.pinned(recording, limit, fault=fault, values=values)
    note = _MORE
    if saved is not None:
        outputs[widgets.MIME] = saved
    else:
        note = f"Too large to be kept in a notebook ({NOTEBOOK_VARIABLE}: {formatting.size(limit)}). {_MORE}"
        try:
            outputs = widgets.data(view()) | outputs
        except NkiError as error:
            note = f"{note} {error.diagnostics[0].message}: {error.diagnostics[0].help}."
    outputs["text/html"] = card(recording, png, note)
    return outputs
