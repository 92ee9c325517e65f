"""A run as a notebook shows it: what front ends choose from, the liveliest that each of them knows."""

from __future__ import annotations

from typing import Any, Final

from nki_lab import widgets
from nki_lab.diagnostic import NkiError
from nki_lab.dialects.environment import NOTEBOOK_VARIABLE, notebook_bytes
from nki_lab.export import picture, words
from nki_lab.export.card import card
from nki_lab.export.text import brief
from nki_lab.result.recorded import Recorded

_MORE: Final = "run.view() opens the visualizer, run.to_html(path) writes it as a page."


def bundle(run: Recorded) -> dict[str, Any]:
    """The MIME bundle of a run: the run itself for the visualizer where it is small enough to be kept in a notebook,
    else a widget that the kernel feeds; and in any case text, a picture, and a card of HTML with both."""
    if not run.has_recording:
        return {"text/plain": str(run)}
    limit = notebook_bytes()
    try:
        return _shown(run, limit)
    except NkiError as error:  # a saved recording that is damaged: the notebook goes on
        return {"text/plain": f"{run.name} cannot be shown\n\n{error}"}


def _shown(run: Recorded, limit: int) -> dict[str, Any]:
    recording = run.recording
    png = picture.png(recording)
    shown: dict[str, Any] = {"text/plain": brief(recording), "image/png": png}
    kept = widgets.pinned(recording, limit, fault=run.fault)
    note = _MORE
    if kept is not None:
        shown[widgets.MIME] = kept
    else:
        note = f"Too large to be kept in a notebook ({NOTEBOOK_VARIABLE}: {words.size(limit)}). {_MORE}"
        try:
            shown = _data(run.view()) | shown
        except NkiError as error:
            note = f"{note} {error.diagnostics[0].message}: {error.diagnostics[0].help}."
    shown["text/html"] = card(recording, png, note)
    return shown


def _data(widget: Any) -> dict[str, Any]:
    """What a widget says of itself, without its text."""
    said = widget._repr_mimebundle_()
    data = said[0] if isinstance(said, tuple) else said
    return {kind: value for kind, value in (data or {}).items() if kind != "text/plain"}
