"""A recording as a small picture, drawn without a browser: lanes over time, and SBUF below them."""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki_lab.export.colours import COLOURS
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array, whole
from nki_lab.kernel_runtime.recording.digest import digest
from nki_lab.kernel_runtime.recording.zoom import largest
from nki_lab.kernel_runtime.vocabulary import KINDS, kind_of_lane, kind_of_stall

WIDTH: Final = 960
LANES: Final = 12
"""Rows that are drawn at most: engines, then all DMA queues of a core as one."""

LANE: Final = 16
"""Pixels of a row."""

# Of those:
_BAR: Final = 10  # its work
_FOOT: Final = 2  # how much of the time it waits, below
_AREA: Final = 24
_GAP: Final = 4

Pixels = NDArray[np.float32]


class Line(NamedTuple):
    """A row of the picture: its name, the kind of its hue, its lanes, and the share of the run in which it works."""

    name: str
    kind: str
    lanes: tuple[int, ...]
    busy: float


def lines(recording: Recording) -> list[Line]:
    """The rows of the picture from top to bottom: engines with work, then DMA, `LANES` of them at most."""
    return busy_lines(recording)[:LANES]


def busy_lines(recording: Recording) -> list[Line]:
    """The rows of engines with work, then those of DMA, also where there are too many for the picture."""
    times, found = digest(recording), dict[tuple[bool, int, str], tuple[str, list[int]]]()
    for lane in recording.lanes:
        kind = kind_of_lane(lane.name, lane.kind)
        name = KINDS["dma"] if kind == "dma" else KINDS.get(lane.name, lane.name)
        shown = ", ".join(filter(None, (name, recording.core_names[lane.core])))
        found.setdefault((kind == "dma", lane.core, shown), (kind, []))[1].append(lane.number)
    end = max(1, recording.makespan)
    busy = [times.dma.get(lane.core, 0) if lane.kind == "dma" else lane.busy for lane in times.lanes]
    made = [
        Line(name, kind, tuple(numbers), max(busy[number] for number in numbers) / end)
        for (_, _, name), (kind, numbers) in sorted(found.items(), key=lambda item: item[0][:2])
    ]
    return [line for line in made if line.busy]


def height(count: int) -> int:
    """Pixels of a picture of `count` rows."""
    return count * LANE + _GAP + _AREA


def png(recording: Recording, width: int = WIDTH) -> bytes:
    """The picture as a PNG file of a few kilobytes: opacity is the share of time at work, as in the timeline."""
    drawn = lines(recording)
    image: Pixels = np.full((height(len(drawn)), width, 3), 255, np.float32)
    end = max(1, recording.makespan)
    shift, sums = recording.sums(0, end, 4 * width)
    time = np.zeros((len(recording.lanes), len(recording.stalls), (end >> shift) + 2))
    time[sums.lane, sums.reason, sums.bucket] = sums.time
    edges = np.minimum(np.arange(time.shape[2] + 1, dtype=np.int64) << shift, end)
    for place, line in enumerate(drawn):
        image[(place + 1) * LANE - 1] = _colour("line")
        _line(image[place * LANE : (place + 1) * LANE], recording, line, time[list(line.lanes)], edges)
    _usage(image[-_AREA:], recording, end)
    return _file(image.round().astype(np.uint8))


def _line(part: Pixels, recording: Recording, line: Line, time: Array, edges: Array) -> None:
    """Work as a bar, and the waits of a single lane as a foot in the colour of what most of them are for.

    `time` is picoseconds by lane, reason and bucket, `edges` are those of the buckets.
    """
    bounds = np.linspace(0, edges[-1], part.shape[1] + 1)
    span = bounds[1] - bounds[0]
    top = (LANE - _BAR - _FOOT) // 2
    busy, waits = time[:, 0].sum(axis=0), time[0, 1:]
    if len(line.lanes) == 1 and len(waits):
        cause = 1 + waits.argmax(axis=0)
        hues = np.array([_colour(kind_of_stall(name)) for name in recording.stalls], np.float32)
        found = cause[np.clip(np.searchsorted(edges, bounds[:-1], "right") - 1, 0, len(cause) - 1)]
        _mix(part[top + _BAR : top + _BAR + _FOOT], hues[found], _resampled(edges, waits.sum(axis=0), bounds) / span)
    _mix(part[top : top + _BAR], _colour(line.kind), _resampled(edges, busy, bounds) / span)


def _usage(part: Pixels, recording: Recording, end: int) -> None:
    """SBUF in use over time, as an area that fills the height at the run's peak."""
    height, width = part.shape[:2]
    usage = recording.table("usage")
    used = largest(whole(usage["time"]), whole(usage["sbuf"]), np.linspace(0, end, width + 1))
    peak = max(1, int(used.max(initial=0)))
    part[np.arange(height)[:, None] >= height - np.round(used * (height - 1) / peak)] = _colour("line2")


def _resampled(edges: Array, sums: Array, bounds: Array) -> Array:
    """Sums between `edges` as sums between `bounds`, each spread evenly over its bucket."""
    return np.diff(np.interp(bounds, edges, np.concatenate(([0], np.cumsum(sums)))))


def _mix(part: Pixels, colour: Array, share: Array) -> None:
    """Lay a colour over a stripe; what is at work for an instant can still be seen."""
    opacity = np.where(share > 0.001, 0.2 + 0.8 * np.minimum(share, 1), 0)[None, :, None]
    part[:] = part * (1 - opacity) + colour * opacity


def _colour(name: str) -> Array:
    value = int(COLOURS[name].light[1:], 16)
    return np.array([value >> 16, value >> 8 & 255, value & 255], np.float32)


def _file(image: NDArray[np.uint8]) -> bytes:
    """RGB pixels as a PNG file; each line is stored as its difference from the line above."""
    height, width = image.shape[:2]
    flat = image.reshape(height, -1)
    lines = np.hstack((np.full((height, 1), 2, np.uint8), flat - np.vstack((np.zeros_like(flat[:1]), flat[:-1]))))
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
