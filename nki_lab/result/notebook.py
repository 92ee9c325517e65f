"""The MIME bundle of a run for notebooks, of which a front end shows the richest form that it knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

from nki_lab import quantities, widgets
from nki_lab.diagnostic import NkiError
from nki_lab.dialects.environment import NOTEBOOK_VARIABLE, notebook_bytes
from nki_lab.export import picture
from nki_lab.export.card import card
from nki_lab.export.text import brief
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.wire.header_types import RunAbout

if TYPE_CHECKING:
    from nki_lab.widgets.visualizer import Visualizer

_MORE: Final = "run.view() opens the visualizer, run.to_html(path) writes it as a page."


@dataclass(frozen=True, slots=True)
class Drawn:
    """A run of a cell that is drawn beside the cell's last one: its recording, and a line about it.

    `fault` is the row at which it failed, -1: it did not. `pins` are messages of tiles. It stands for `times` equal
    runs in a row.
    """

    recording: Recording
    fault: int
    pins: Sequence[bytes]
    line: str
    times: int = 1

    def bundle(self) -> dict[str, object]:
        """Return the MIME bundle of this run alone; where it is too large to be kept, without the run itself."""
        png = picture.png(self.recording)
        saved = widgets.pinned(self.recording, notebook_bytes(), fault=self.fault, values=self.pins)
        kept = {} if saved is None else {widgets.MIME: saved}
        about = {widgets.ABOUT: [widgets.about(self.recording, times=self.times)]} if kept else {}
        text = {"text/plain": brief(self.recording), "text/html": card(self.recording, png)}
        return {**text, "image/png": png, **kept, **about}


@dataclass(frozen=True, slots=True)
class Beside:
    """The runs of a cell that are drawn beside its last one, in order, and how many equal runs that one stands for."""

    earlier: tuple[Drawn, ...] = ()
    times: int = 1


ALONE: Final = Beside()


def texts(recording: Recording) -> dict[str, str]:
    """Return what is shown of a recording where nothing livelier can be: a line, and a picture with its numbers.

    A page draws the livelier one beside it, which says what is wrong with a large run that is yet to be checked.
    """
    return recording.before_check(
        lambda given: {"text/plain": brief(given), "text/html": card(given, picture.png(given))}
    )


def bundle(
    recording: Recording,
    limit: int,
    fault: int,
    view: Callable[[], Visualizer],
    values: Sequence[bytes] = (),
    beside: Beside = ALONE,
) -> dict[str, object]:
    """Return the MIME bundle of a run: text, a picture, a card of HTML with both, and what the visualizer draws.

    That is the run itself where it takes at most `limit` bytes, else the widget that `view` gives, fed by the kernel.
    `values` are messages of pinned tiles. Earlier runs of the cell go along, at most `limit` bytes of them, the latest
    first: the visualizer shows them as tabs, a card each as what can be unfolded.
    """
    png = picture.png(recording)
    texts = [item.line for item in beside.earlier]
    outputs: dict[str, object] = {"text/plain": "\n".join([*texts, brief(recording)]), "image/png": png}
    saved = widgets.pinned(recording, limit, fault=fault, values=values)
    earlier = list(_kept(beside.earlier, limit))
    abouts = [about for about, _ in earlier]
    note = _MORE
    if saved is not None:
        tabs = [run for _, run in earlier]
        outputs[widgets.MIME] = saved | ({"earlier": tabs} if tabs else {})
    else:
        abouts = []
        note = f"Too large to be kept in a notebook ({NOTEBOOK_VARIABLE}: {quantities.size(limit)}). {_MORE}"
        try:
            outputs = widgets.data(view()) | outputs
        except NkiError as error:
            note = f"{note} {error.diagnostics[0].message}: {error.diagnostics[0].help}."
    if saved is not None:
        outputs[widgets.ABOUT] = [*abouts, widgets.about(recording, times=beside.times)]
    cards = [_unfolded(item) for item in beside.earlier]
    outputs["text/html"] = "".join([*cards, card(recording, png, note)])
    return outputs


def _kept(earlier: Sequence[Drawn], limit: int) -> Iterator[tuple[RunAbout, dict[str, object]]]:
    """Give the latest of some runs, in order, that fit into `limit` bytes: what is told about each, and its message."""
    found = []
    left = limit
    for item in reversed(earlier):
        saved = widgets.pinned(item.recording, left, fault=item.fault, values=item.pins)
        if saved is None:
            break
        left -= len(str(saved["message"]))
        found.append((widgets.about(item.recording, times=item.times), saved))
    yield from reversed(found)


def _unfolded(item: Drawn) -> str:
    """Return a line that unfolds to the card of a run."""
    return (
        f"<details><summary>{escape(item.line)}</summary>{card(item.recording, picture.png(item.recording))}</details>"
    )
