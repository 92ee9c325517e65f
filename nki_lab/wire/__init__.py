"""Recordings as messages to the views: binary columns that a page reads without parsing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Final

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array
from nki_lab.wire import overview, rows
from nki_lab.wire.header_types import Header
from nki_lab.wire.labels import Names
from nki_lab.wire.message import VERSION, Delta, compact, message
from nki_lab.wire.overview import LIFETIMES, USAGE, header, sums, tables
from nki_lab.wire.preview import FROM, preview
from nki_lab.wire.rows import Steps, Tables

STATIC: Final = Path(__file__).parents[1] / "widgets" / "static"
"""`visualizer.js` draws the message that a page carries in itself, `widget.js` is the notebook widget."""


@cache
def script(name: str) -> str:
    """The text of a built script."""
    return (STATIC / name).read_text(encoding="utf-8")


WHOLE: Final = 1_000_000
"""Rows up to which a run is sent whole."""
RANGE: Final = 1 << 18
"""Rows of a range of a run that is larger."""
CHUNK: Final = 1 << 17
"""Rows of a message where several follow each other: some 8 MB, a tenth of a second."""
BUCKETS: Final = 2048
"""Stretches of a run that is sent whole: as many as a wide screen has pixels."""
MANY_BUCKETS: Final = 16384
"""The same where rows are loaded a range at a time and what lies between a screen and a range is drawn from sums."""

TABLES: Final = {
    **rows.TABLES,
    **overview.TABLES,
    "iterations": (*overview.TABLES["iterations"], *overview.ITERATIONS),
    "lifetimes": LIFETIMES,
    "usage": USAGE,
    "exchanges": overview.EXCHANGES,
}
"""Columns of the tables of messages; sums of lanes (`zoom`) apart."""


class Messages:
    """The messages of one recording: an opening one, with which a page paints lanes, sums and memory, and ranges of
    rows.

    `fault` is the row at which the run failed, -1: it did not.
    """

    def __init__(self, recording: Recording, *, fault: int = -1) -> None:
        self.recording = recording
        self._fault = fault
        self._steps = Steps(recording)

    def __len__(self) -> int:
        """Rows of the run."""
        return len(self.recording)

    def __iter__(self) -> Iterator[bytes]:
        """The opening message, then the rows in chunks: all of them, or the first range of a larger run."""
        yield self.opening()
        count = len(self) if len(self) <= WHOLE else RANGE
        for first in range(0, count, CHUNK):
            yield self.rows(first, min(CHUNK, count - first))

    @cached_property
    def _whole(self) -> tuple[Header, Tables]:
        names = Names(self._steps)
        fault = int(self._steps.step_of[self._fault]) if 0 <= self._fault < len(self) else -1
        return header(self.recording, names, fault, self._steps.step_of), tables(self._steps, names)

    def preview(self) -> bytes | None:
        """Lanes and sums alone, for a first picture while the rest is worked out; None where that takes no time."""
        if len(self) < FROM or self._fault >= 0:
            return None
        return preview(self.recording, TABLES)

    @property
    def _buckets(self) -> int:
        return BUCKETS if len(self) <= WHOLE else MANY_BUCKETS

    def opening(self) -> bytes:
        """Everything but the rows, with sums of every lane in their place."""
        return self.whole(0, 0)

    def rows(self, first: int, count: int) -> bytes:
        """A range of steps alone, cut to those that there are."""
        first, count = self._clipped(first, count)
        return message(self._range(first, count), self._steps.tables(first, count))

    def whole(self, first: int, count: int) -> bytes:
        """Everything of the run and a range of its steps in one message; sums too where rows are missing."""
        first, count = self._clipped(first, count)
        head, common = self._whole
        columns: dict[str, Mapping[str, Array | Delta]] = {**common, **self._steps.tables(first, count)}
        if count < len(self):
            shift, zoom = sums(self.recording, self._buckets)
            head, columns = {**head, "zoom_shift": shift}, {**columns, **zoom}
        return message({**head, **self._range(first, count)}, columns)

    def _clipped(self, first: int, count: int) -> tuple[int, int]:
        begin = min(max(0, first), len(self))
        return begin, max(0, min(first + count, len(self)) - begin)

    def _range(self, first: int, count: int) -> dict[str, int]:
        begin, until = self._steps.span(first, count)
        return {"first": first, "count": count, "from": begin, "until": until}


def encode(recording: Recording, *, steps: range | None = None, fault: int = -1) -> bytes:
    """The one message of a recording: everything of the run, and its rows in the order of steps or a range of them.

    The other arguments are those of `Messages`.
    """
    chosen = range(len(recording)) if steps is None else steps
    return Messages(recording, fault=fault).whole(chosen.start, len(chosen))


__all__ = ["CHUNK", "RANGE", "TABLES", "VERSION", "WHOLE", "Messages", "compact", "encode"]
