"""The widget of a run that is not over: its state as a small traited mapping, its recording as soon as there is one.

`live` is what both sides keep equal: {"state": one of `State`, "kernel", "target", "phase", "done", "total":
instructions or null, "elapsed" and "left": seconds, the latter null where unknown, "rate": instructions a second,
"until": picoseconds up to which everything in the recording is done, null without one, "cancels": whether the kernel
reads messages while it is busy}. `growth` is what is known before there is a recording: {"lanes", "memories": curves as
`nki_lab.timeline.growth` has them, the latter null where there are none}, {} before anything is. The page asks for the
run as it does of a finished one, and gets it when there is a recording. It says {"kind": "cancel"} to stop the run,
which reaches a busy kernel only where that has subshells.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Literal

import traitlets

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.widgets.visualizer import Visualizer
from nki_lab.wire import script

State = Literal["running", "cancelling", "cancelled"]
"""What a run does: it goes on, it was asked to stop, it stopped. One that ended well gives its place to the result."""

_UNASKED: Final = 1.5
"""Seconds after which a page whose messages a busy kernel does not read is taken to be ready for the run."""


class LiveVisualizer(Visualizer):
    """A run while it runs. `cancel` is called, in another thread than the run's, when the page asks for it."""

    live = traitlets.Dict().tag(sync=True)
    growth = traitlets.Dict().tag(sync=True)
    _script = traitlets.Unicode().tag(sync=True)

    @traitlets.default("_script")
    def _brought(self) -> str:
        """Return the views: a busy kernel does not answer pages that ask for them."""
        return script(self.SCRIPT)

    def __init__(self, cancel: Callable[[], object]) -> None:
        self._cancel = cancel
        self._made = time.monotonic()
        self._asked = self._shown = False
        self._lock = threading.Lock()
        super().__init__(None)

    @property
    def hears(self) -> bool:
        """Whether the page's messages came while the run was going on."""
        return self._asked

    @property
    def draws(self) -> bool:
        """Whether there is a recording to draw."""
        return self._messages is not None

    def tell(self, state: Mapping[str, object]) -> None:
        """Tell the page how far the run is."""
        self.live = {**state, "cancels": self._asked}

    def grow(self, growth: Mapping[str, object]) -> None:
        """Show what is known of the run so far."""
        self.growth = dict(growth)

    def show(self, recording: Recording) -> None:
        """Show the run's timeline and memory, at once or when the page asks for them."""
        self.take(recording)
        with self._lock:
            self._shown = False

    def push(self) -> None:
        """Send the run to a page that waits for it, or that cannot ask."""
        with self._lock:
            is_ready = self._asked or time.monotonic() - self._made > _UNASKED
            if self._messages is None or self._shown or not is_ready:
                return
            self._shown = True
        self._load()

    def _answer(self, widget: object, content: object, buffers: object) -> None:
        kind = content.get("kind") if isinstance(content, dict) else None
        if kind == "cancel":
            self._asked = True
            self._cancel()
        elif kind == "load":
            with self._lock:
                self._asked = True
                self._shown = self._messages is not None
            super()._answer(widget, content, buffers)
        else:
            super()._answer(widget, content, buffers)
