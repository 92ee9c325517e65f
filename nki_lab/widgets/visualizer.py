"""The widget: the page asks, the kernel answers with messages of `nki_lab.wire` in parts.

The page says {"kind": "load"} when it is drawn, and gets the opening message of the run and its rows; it says
{"kind": "steps", "first": n, "count": m} for other rows of a run that is too large to be sent whole. Each message is
cut into parts {"kind": "part", "message": its number, "offset": bytes before the part, "total": bytes in all}, each
with one buffer. Before the opening message {"kind": "kept"} has a message of each pinned tile. {"kind": "failed",
"text": …} comes in place of what cannot be read. `nki_lab.widgets.value_answers` says how it asks for values. What
moves while a user looks is `step` alone, a small number that both sides keep equal. `channel` is the name under which
the page's charts talk with its views, empty where there are none.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import anywidget
import traitlets

from nki_lab.diagnostic import coded_error
from nki_lab.kernel_runtime.protocols import TileSource
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.widgets.parts import parts
from nki_lab.widgets.value_answers import Pinning, answer
from nki_lab.wire import RANGE, STATIC, Messages

Linking = Callable[[str, tuple[object, ...]], None]
"""Has figures talk with the views of a channel."""


class Visualizer(anywidget.AnyWidget):
    """A run in a notebook cell. `step` is the current step from 0 on, -1 before one is chosen; set it to go there.

    `link(figure)` has a chart of `nki_lab.plots` move with the view, and move it.
    """

    _esm: ClassVar[Path] = STATIC / "widget.js"
    step = traitlets.Int(-1).tag(sync=True)
    channel = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        recording: Recording,
        *,
        fault: int = -1,
        step: int = -1,
        tiles: TileSource | None = None,
        pins: Sequence[bytes] = (),
        pin: Pinning | None = None,
        linking: Linking | None = None,
    ) -> None:
        super().__init__(step=step)
        self._linking = linking
        self._tiles, self._pins, self._pin = tiles, tuple(pins), pin
        self._messages = Messages(recording, fault=fault)
        self._sent = 0
        self.on_msg(self._answer)

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

    def _answer(self, _widget: object, content: object, _buffers: object) -> None:
        """Send what the page asks for."""
        asked = content if isinstance(content, dict) else {}
        values = answer(self._tiles, asked, self._pin)
        if values is not None:
            if asked["kind"] == "pin" and values[1] is not None:
                self._pins = (*self._pins, values[1])
            self.send(values[0], buffers=None if values[1] is None else [values[1]])
            return
        match asked.get("kind"), asked.get("first"), asked.get("count"):
            case "load", _, _:
                if self._pins:
                    self.send({"kind": "kept"}, buffers=list(self._pins))
                messages: Iterable[bytes] = self._messages
            case "steps", int(first), int(count):
                messages = (self._messages.rows(*at) for at in [(first, min(count, RANGE))])  # encoded in the try
            case _:
                return
        try:
            for message in messages:
                self._in_parts(message)
        except Exception as error:  # noqa: BLE001 - a damaged recording: the page says so, the kernel goes on
            self.send({"kind": "failed", "text": str(error)})

    def _in_parts(self, message: bytes) -> None:
        self._sent += 1
        for part, content in parts(message, self._sent):
            self.send(part, buffers=[content])
