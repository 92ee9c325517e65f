"""The widget that draws two runs side by side.

The page says {"kind": "load"} when it is drawn, and gets the message of the comparison, then those of both runs, in
parts as `nki_lab.widgets.visualizer` has them. Each part says what it is of: "of" is "comparison", "before" or "after".
{"kind": "steps", "of": "before", "first": n, "count": m} asks for other rows of a run that is too large to be sent
whole. What is asked has the number of its "view", and so has what comes back: a cell may be drawn several times.

Of many comparisons only the latest keep their runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.widgets.loaded import LoadedWidget
from nki_lab.widgets.parts import parts
from nki_lab.wire import RANGE, Messages

AWAKE: Final = 16
"""Comparisons of a session that keep their runs."""


class ComparisonView(LoadedWidget):
    """Two runs in a notebook cell, drawn side by side."""

    SCRIPT = "comparison_widget.js"

    def __init__(self, comparison: bytes, before: Recording, after: Recording) -> None:
        super().__init__()
        self._comparison = comparison
        self._messages = {"before": Messages(before), "after": Messages(after)}
        self._sent = 0
        self.on_msg(self._answer)
        _awake.append(self)
        while len(_awake) > AWAKE:
            _awake.popleft().rest()

    def rest(self) -> None:
        """Let the runs go."""
        self._comparison, self._messages = b"", {}

    def _answer(self, _widget: object, content: object, _buffers: object) -> None:
        """Send what the page asks for."""
        asked = content if isinstance(content, dict) else {}
        view = asked.get("view")
        if asked.get("kind") == "script":
            self.send_script()
            return
        if not self._messages:
            text = f"Only the last {AWAKE} comparisons keep their runs. Compare them again to see this one."
            self.send({"kind": "failed", "view": view, "text": text})
            return
        try:
            match asked.get("kind"), asked.get("of"), asked.get("first"), asked.get("count"):
                case "load", _, _, _:
                    self._in_parts(view, "comparison", [self._comparison])
                    for name, messages in self._messages.items():
                        self._in_parts(view, name, messages)
                case "steps", "before" | "after" as name, int(first), int(count):
                    self._in_parts(view, name, [self._messages[name].rows(first, min(count, RANGE))])
        except Exception as error:  # noqa: BLE001 - a damaged recording: the page says so, the kernel goes on
            self.send({"kind": "failed", "view": view, "text": str(error)})

    def _in_parts(self, view: object, name: str, messages: Iterable[bytes]) -> None:
        for message in messages:
            self._sent += 1
            for part, content in parts(message, self._sent):
                self.send({**part, "view": view, "of": name}, buffers=[content])


_awake: Final[deque[ComparisonView]] = deque()
"""The comparisons that keep their runs, the latest at the end."""
