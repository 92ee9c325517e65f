"""The widget: the page asks, the kernel answers with messages of `nki_lab.wire` in parts.

The page says {"kind": "load"} when it is drawn, and gets the opening message of the run and its rows; it says {"kind":
"steps", "first": n, "count": m} for other rows of a run that is too large to be sent whole. Each message is cut into
parts {"kind": "part", "message": its number, "offset": bytes before the part, "total": bytes in all}, each with one
buffer. Before the opening message {"kind": "kept"} has a message of each pinned tile. {"kind": "failed", "text": …}
comes in place of what cannot be read. `nki_lab.widgets.value_answers` says how it asks for values. {"kind": "charts",
"version": bokeh's in the page, or ""} is answered with the charts of the summary, as bokeh's JSON, and its script where
the page has another one. What moves while a user looks is `step` alone, a small number that both sides keep equal.
`channel` is the name under which the page's charts talk with its views, empty where there are none.

Of many widgets only the latest keep their run; the others come to rest: a picture stands in their place.
"""

from __future__ import annotations

import base64
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import traitlets

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.kernel_runtime.protocols import TileSource
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.widgets.about import ABOUT, about
from nki_lab.widgets.loaded import LoadedWidget
from nki_lab.widgets.parts import parts
from nki_lab.widgets.value_answers import Pinning, answer
from nki_lab.wire import RANGE, Messages

Charting = Callable[[str, str], tuple[dict[str, Any], bytes]]
"""Draws the charts of the run for a channel and a page with a version of bokeh: what tells of them, and a script."""

Linking = Callable[[str, tuple[object, ...]], None]
"""Has figures talk with the views of a channel."""

AWAKE: Final = 16
"""Widgets of a session that keep their run."""

SHOWN: Final = 64
"""Widgets of a session that are there at all; those that came to rest before that are closed."""

_SENDING: Final = 0.02
"""Seconds in which the thread of the kernel that sends messages gets a first picture out: beside the work for the next
one, which holds Python's lock most of the time, it takes a third of a second."""

_PICTURE: Final = """export default { render({ el }) {
  const picture = document.createElement('img');
  picture.src = 'data:image/png;base64,%s';
  picture.alt = 'Timeline of the run';
  picture.style.width = '100%%';
  const said = document.createElement('p');
  said.textContent = 'Only the picture of this run is kept, as many runs followed it. Run the cell again to open it.';
  el.append(said, picture);
} };
"""
"""The script of a widget that came to rest, around its picture."""


class Visualizer(LoadedWidget):
    """A run in a notebook cell. `step` is the current step from 0 on, -1 before one is chosen; set it to go there.

    Without a recording there is nothing to draw until `take` gives one.

    `link(figure)` has a chart of `nki_lab.plots` move with the view, and move it. Of more than 16 in a session the one
    that was asked for its run the longest ago comes to rest.
    """

    SCRIPT = "widget.js"

    step = traitlets.Int(-1).tag(sync=True)
    channel = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        recording: Recording | None,
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
    ) -> None:
        super().__init__(step=step)
        self._linking, self._charting = linking, charting
        self._tiles, self._pins, self._pin = tiles, tuple(pins), pin
        self._messages = None if recording is None else Messages(recording, fault=fault)
        self._about = None if recording is None else about(recording)
        self._picture, self._texts = picture, texts
        self._is_at_rest = False
        self._sent = 0
        self.on_msg(self._answer)
        _use(self)

    @property
    def rests(self) -> bool:
        """Whether only a picture is left."""
        return self._is_at_rest

    def rest(self) -> None:
        """Let the run go, and show its picture in its place."""
        if self.rests:
            return
        picture = b"" if self._picture is None else self._picture()
        self._is_at_rest = True
        self._tiles = self._pin = self._picture = self._texts = self._messages = self._charting = None
        self._pins = ()
        self._esm = _PICTURE % base64.b64encode(picture).decode("ascii")

    def close(self) -> None:
        """Take the widget from the page."""
        _forget(self)
        super().close()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        found = super()._repr_mimebundle_(**kwargs)
        if isinstance(found, tuple) and self._about is not None:
            found[0][ABOUT] = [self._about]
        if isinstance(found, tuple) and self._texts is not None:
            found[0].update(self._texts())  # for pages without widgets
        return found

    def link(self, *figures: object) -> None:
        """Link figures over time of `nki_lab.plots` with this view, wherever in the page they are shown.

        A tap in a figure moves the step, its zoom and pan move what the view shows; the step of the view is a line in
        the figures, which show the times that it shows. NKI012 for a figure without time, NKI022 without bokeh.
        """
        if self._linking is None:
            raise coded_error("NKI012", "this view links no figures", limit="run.view() gives one that does")
        channel = self.channel or uuid.uuid4().hex
        self._linking(channel, figures)
        self.channel = channel

    def take(self, recording: Recording, *, fault: int = -1) -> None:
        """Draw this recording when the page asks next."""
        self._messages = Messages(recording, fault=fault)
        self._about = about(recording)

    def _answer(self, _widget: object, content: object, _buffers: object) -> None:
        """Send what the page asks for."""
        asked = content if isinstance(content, dict) else {}
        if self._messages is None:
            return
        if asked.get("kind") == "script":
            self.send_script()
            return
        if asked.get("kind") == "charts":
            self._charts(str(asked.get("version", "")))
            return
        values = answer(self._tiles, asked, self._pin)
        if values is not None:
            if asked["kind"] == "pin" and values[1] is not None:
                self._pins = (*self._pins, values[1])
            self.send(values[0], buffers=None if values[1] is None else [values[1]])
            return
        match asked.get("kind"), asked.get("first"), asked.get("count"):
            case "load", _, _:
                _use(self)
                self._load()
            case "steps", int(first), int(count) if self._messages is not None:
                known = self._messages
                self._send_all(known.rows(*at) for at in [(first, min(count, RANGE))])  # encoded in the try
            case _:
                return

    def _charts(self, version: str) -> None:
        """Send the charts of the summary to a page that has a version of bokeh, or say what they need."""
        if self._charting is None:
            self.send({"kind": "charts", "text": "There are no charts of this run."})
            return
        channel = self.channel or uuid.uuid4().hex
        try:
            told, script = self._charting(channel, version)
        except NkiError as error:
            first = error.diagnostics[0]
            self.send({"kind": "charts", "text": f"{first.message}: {first.help}" if first.help else first.message})
            return
        self.channel = channel
        self.send({"kind": "charts", **told}, buffers=[script])

    def _load(self) -> None:
        """Send the run, if there is one yet."""
        if self._pins:
            self.send({"kind": "kept"}, buffers=list(self._pins))
        if self._messages is not None:
            self._send_all(item for item in self._pictures(self._messages) if item is not None)

    def _pictures(self, messages: Messages) -> Iterator[bytes | None]:
        """Yield what draws a run: of a large one its lanes first, while the rest is worked out."""
        first = messages.preview()
        yield first
        if first is not None:
            time.sleep(_SENDING)
        yield from messages

    def _send_all(self, messages: Iterable[bytes]) -> None:
        try:
            for message in messages:
                self._in_parts(message)
        except Exception as error:  # noqa: BLE001 - a damaged recording: the page says so, the kernel goes on
            self.send({"kind": "failed", "text": str(error)})

    def _in_parts(self, message: bytes) -> None:
        self._sent += 1
        for part, content in parts(message, self._sent):
            self.send(part, buffers=[content])


_known: Final[OrderedDict[str, Visualizer]] = OrderedDict()
"""The widgets of this process, the one that was used last at the end."""

_lock: Final = threading.RLock()


def _use(widget: Visualizer) -> None:
    """Note that a widget is used; others may have to come to rest."""
    with _lock:
        if widget.model_id is None:
            return
        _known[widget.model_id] = widget
        _known.move_to_end(widget.model_id)
        resting = [item for item in _known.values() if item.rests]
        awake = [item for item in _known.values() if not item.rests]
        for item in awake[:-AWAKE]:
            item.rest()
        for item in resting[: max(0, len(_known) - SHOWN)]:
            item.close()


def _forget(widget: Visualizer) -> None:
    with _lock:
        for name in [name for name, item in _known.items() if item is widget]:
            del _known[name]
