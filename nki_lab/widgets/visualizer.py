"""The widget: the page asks, the kernel answers with messages of `nki_lab.wire` in parts.

The page says {"kind": "load"} when it is drawn, and gets the opening message of the run and its rows; it says
{"kind": "steps", "first": n, "count": m} for other rows of a run that is too large to be sent whole. Each message is
cut into parts {"kind": "part", "message": its number, "offset": bytes before the part, "total": bytes in all}, each
with one buffer. Before the opening message {"kind": "kept"} has a message of each pinned tile. {"kind": "failed",
"text": …} comes in place of what cannot be read. `nki_lab.widgets.value_answers` says how it asks for values. What
moves while a user looks is `step` alone, a small number that both sides keep equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Final

import anywidget
import traitlets

from nki_lab.kernel_runtime.protocols import TileSource
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.widgets.value_answers import Pinning, answer
from nki_lab.wire import RANGE, STATIC, Messages

PART: Final = 4 * 2**20
"""Bytes of a part: the page can draw, and the user interrupt, between two."""


class Visualizer(anywidget.AnyWidget):
    """A run in a notebook cell. `step` is the current step from 0 on, -1 before one is chosen; set it to go there.

    Without a recording there is nothing to draw until `take` gives one.
    """

    _esm: ClassVar[Path] = STATIC / "widget.js"
    step = traitlets.Int(-1).tag(sync=True)

    def __init__(
        self,
        recording: Recording | None,
        *,
        fault: int = -1,
        step: int = -1,
        tiles: TileSource | None = None,
        pins: Sequence[bytes] = (),
        pin: Pinning | None = None,
    ) -> None:
        super().__init__(step=step)
        self._tiles, self._pins, self._pin = tiles, tuple(pins), pin
        self._messages = None if recording is None else Messages(recording, fault=fault)
        self._sent = 0
        self.on_msg(self._answer)

    def take(self, recording: Recording, *, fault: int = -1) -> None:
        """Draw this recording when the page asks next."""
        self._messages = Messages(recording, fault=fault)

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
                self._load()
            case "steps", int(first), int(count) if self._messages is not None:
                known = self._messages
                self._send_all(known.rows(*at) for at in [(first, min(count, RANGE))])  # encoded in the try
            case _:
                return

    def _load(self) -> None:
        """Send the run, if there is one yet."""
        if self._pins:
            self.send({"kind": "kept"}, buffers=list(self._pins))
        if self._messages is not None:
            self._send_all(self._messages)

    def _send_all(self, messages: Iterable[bytes]) -> None:
        try:
            for message in messages:
                self._in_parts(message)
        except Exception as error:  # noqa: BLE001 - a damaged recording: the page says so, the kernel goes on
            self.send({"kind": "failed", "text": str(error)})

    def _in_parts(self, message: bytes) -> None:
        self._sent += 1
        view = memoryview(message)
        for offset in range(0, len(message), PART):
            part = {"kind": "part", "message": self._sent, "offset": offset, "total": len(message)}
            self.send(part, buffers=[view[offset : offset + PART]])
