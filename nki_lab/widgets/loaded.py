"""Widgets whose views the page loads once for all of them.

A widget brings the small loader along. It asks with {"kind": "script"} for the views that `_views` tells from others,
and is answered with one buffer.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import ClassVar

import anywidget
import traitlets

from nki_lab.wire import script


class LoadedWidget(anywidget.AnyWidget):
    """A widget that is drawn by the built script `SCRIPT`."""

    SCRIPT: ClassVar[str]

    # A text, no path: anywidget follows the file of a path, and what it tells of changes holds every widget for ever.
    _esm = traitlets.Unicode(script("loader.js")).tag(sync=True)
    _views = traitlets.Unicode().tag(sync=True)

    @traitlets.default("_views")
    def _version(self) -> str:
        """Return the name of these views."""
        return _digest(self.SCRIPT)

    @property
    def closed(self) -> bool:
        """Whether the widget was taken from the page for good."""
        return self.comm is None

    def send_script(self) -> None:
        """Send the views."""
        self.send({"kind": "script"}, buffers=[script(self.SCRIPT).encode()])


@cache
def _digest(name: str) -> str:
    return hashlib.sha256(script(name).encode()).hexdigest()[:16]
