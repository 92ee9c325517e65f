"""A run as a notebook shows it: what front ends choose from, the liveliest that each of them knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nki_lab import widgets
from nki_lab.diagnostic import NkiError
from nki_lab.dialects.environment import NOTEBOOK_VARIABLE
from nki_lab.export import formatting, picture
from nki_lab.export.card import card
from nki_lab.export.text import brief
from nki_lab.kernel_runtime.recording import Recording

_MORE: Final = "run.view() opens the visualizer, run.to_html(path) writes it as a page."


def bundle(recording: Recording, limit: int, fault: int, view: Callable[[], Any]) -> dict[str, Any]:
    """Return the MIME bundle of a run: text, a picture, a card of HTML with both, and what the visualizer draws.

    That is the run itself where it takes at most `limit` bytes, else the widget that `view` gives, fed by the kernel.
    """
    png = picture.png(recording)
    shown: dict[str, Any] = {"text/plain": brief(recording), "image/png": png}
    kept = widgets.pinned(recording, limit, fault=fault)
    note = _MORE
    if kept is not None:
        shown[widgets.MIME] = kept
    else:
        note = f"Too large to be kept in a notebook ({NOTEBOOK_VARIABLE}: {formatting.size(limit)}). {_MORE}"
        try:
            shown = _data(view()) | shown
        except NkiError as error:
            note = f"{note} {error.diagnostics[0].message}: {error.diagnostics[0].help}."
    shown["text/html"] = card(recording, png, note)
    return shown


def _data(widget: Any) -> dict[str, Any]:
    """What a widget says of itself, without its text."""
    said = widget._repr_mimebundle_()
    data = said[0] if isinstance(said, tuple) else said
    return {kind: value for kind, value in (data or {}).items() if kind != "text/plain"}
