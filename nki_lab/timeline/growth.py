"""A run that is still being worked out, coarsely: how busy each kind of lane is, and how full the memories are.

While a kernel is traced its instructions are known in program order, and their times only once they are walked. Both
come into a fixed number of bins that widen, so that looking costs the same however long a run is. What is looked at
changes meanwhile, in another thread: columns are copied before they are read, and nothing here holds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.tensor import MemoryRegion
from nki_lab.kernel_runtime.timing import Walk
from nki_lab.kernel_runtime.vocabulary import KINDS, NO_KIND
from nki_lab.timeline.timeline import Timeline

BINS: Final = 256
"""Bins of a drawing; between half of them and all are in use once there is more than that."""

ROWS: Final = 2048
"""Instructions whose tensors are looked at at a time: of more new ones, the last."""

SAMPLES: Final = 8192
"""Instructions whose times are looked at at a time: of more, so many that chance chooses stand for all."""

_FIRST: Final = 4096
"""Picoseconds of a bin at first."""

_KINDS: Final = tuple(KINDS)
_MEMORIES: Final = ("sbuf", "psum")
_SBUF: Final = MemoryRegion.sbuf

Column = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Curves:
    """The means of some quantities in `count` bins of equal width, as shares of 255: one row for each of `names`.

    They reach up to `until` of what `over` says, instructions in program order or picoseconds, and the last bin ends
    at `end`.
    """

    over: Literal["program", "time"]
    names: tuple[str, ...]
    until: int
    end: int
    count: int
    shares: bytes

    def as_dict(self) -> dict[str, object]:
        """Return the curves as data for messages."""
        return {
            "over": self.over,
            "names": list(self.names),
            "until": self.until,
            "end": self.end,
            "count": self.count,
            "shares": self.shares,
        }


class Steps:
    """Quantities as sums of steps: each changes one of them from some place on. `BINS` bins widen as places ask for it.

    A bin has the heights of its steps, which last from it on, and the part of them that lies within the bin. Both add
    up when two bins become one, so that the means do not depend on when that happened.
    """

    def __init__(self, rows: int, width: int = 1) -> None:
        self.width = width
        self._heights = np.zeros((rows, BINS))
        self._parts = np.zeros((rows, BINS))

    def add(self, rows: Column, places: Column, heights: Column | float) -> None:
        """Add steps of `heights` to quantities `rows` at `places`."""
        if not len(places):
            return
        self.reach(int(places.max()))
        bins = places // self.width
        within = 1.0 - (places - bins * self.width) / self.width
        cells = rows * BINS + bins
        size = self._heights.size
        heights = np.broadcast_to(np.asarray(heights, float), places.shape)
        self._heights += np.bincount(cells, heights, size).reshape(self._heights.shape)
        self._parts += np.bincount(cells, heights * within, size).reshape(self._parts.shape)

    def count(self, rows: Column, places: Column) -> None:
        """Add 1 to quantities `rows`, each at one place only, which `places` has in order."""
        if not len(places):
            return
        self.reach(int(places[-1]))
        found = np.bincount(rows * BINS + places // self.width, minlength=self._parts.size)
        self._parts += found.reshape(self._parts.shape) / self.width

    def reach(self, place: int) -> None:
        """Widen the bins until a place is in one of them."""
        while place >= self.width * BINS:
            self.width *= 2
            empty = np.zeros((len(self._heights), BINS // 2))
            parts = (self._parts[:, ::2] + self._heights[:, ::2] + self._parts[:, 1::2]) / 2
            self._parts = np.hstack((parts, empty))
            self._heights = np.hstack((self._heights[:, ::2] + self._heights[:, 1::2], empty))

    def means(self, until: int) -> NDArray[np.float64]:
        """Return the mean of each quantity in each bin up to `until`; the last one counts as far as that."""
        count = min(BINS, -(-until // self.width))
        before = np.cumsum(self._heights, axis=1) - self._heights
        found = (before + self._parts)[:, :count]
        if count and (last := until - (count - 1) * self.width) < self.width:
            # What goes on behind `until` is not known, and not counted.
            after = (before + self._heights)[:, count - 1] * (1 - last / self.width)
            found[:, -1] = (found[:, -1] - after) * self.width / last
        return found


def _curves(
    over: Literal["program", "time"], names: tuple[str, ...], until: int, end: int, means: NDArray[np.float64]
) -> Curves:
    """Return the quantities that are anywhere above nothing; `means` are shares of what they can be."""
    used = np.flatnonzero(means.max(axis=1, initial=0) > 1e-9)
    shares = np.clip(np.ceil(means[used] * 255 - 1e-6), 0, 255).astype(np.uint8)
    return Curves(over, tuple(names[row] for row in used.tolist()), until, end, means.shape[1], shares.tobytes())


class Order:
    """A program in the order of its instructions, while it grows."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._lanes = Steps(len(_KINDS))
        self._counted = 0
        self._kinds = np.zeros(0, np.int64)  # of variants
        self._memories = Steps(len(_MEMORIES))
        self._seen = 0
        # Pieces of the program whose tensors were looked at: their first rows, and how many rows were seen before.
        self._pieces: tuple[list[int], list[int]] = ([], [])
        self._looked = 0
        self._last: dict[int, int] = {}  # the row that touched a buffer last

    @property
    def rows(self) -> int:
        """The instructions that are complete: the last one may be being written."""
        return max(0, len(self.program.op_access) - 1)

    def advance(self) -> bool:
        """Look at what is new, of the tensors of so many instructions at most; return whether there was any."""
        before = self._counted, self._seen
        self._count()
        self._touch()
        return before != (self._counted, self._seen)

    def lanes(self) -> Curves:
        """Return which share of the instructions each kind of lane has."""
        lanes = self._lanes
        return _curves("program", _KINDS, self._counted, lanes.width * BINS, lanes.means(self._counted))

    def memories(self) -> Curves:
        """Return which share of each memory's partitions the tiles take that were used and will be again, so far.

        Between the pieces of the program that were looked at, it is what it was in the middle of the nearest before.
        """
        arch = self.program.arch
        full = np.array([arch.sbuf_usable_bytes, arch.psum_partition_bytes], float)
        until, width = self._seen, self._lanes.width
        known = self._memories.means(self._looked) / full[:, None]
        middles = np.minimum(np.arange(0, until, width) + width // 2, until - 1)
        firsts, befores = (np.array(column, np.int64) for column in self._pieces)
        piece = np.maximum(0, np.searchsorted(firsts, middles, "right") - 1)
        lengths = np.diff(np.append(befores, self._looked))[piece]
        within = middles - firsts[piece]
        within = np.where((within < 0) | (within >= lengths), lengths // 2, within)
        places = befores[piece] + within
        return _curves("program", _MEMORIES, until, width * BINS, known[:, places // self._memories.width])

    def _count(self) -> None:
        first, end = self._counted, self.rows
        variants = self.program.variants[len(self._kinds) :]
        if variants:
            fresh = [
                _KINDS.index("dma" if item.instruction.dma_route is not None else _kind(item.engine))
                for item in variants
            ]
            self._kinds = np.concatenate((self._kinds, fresh))
        self._lanes.count(self._kinds[_read(self.program.op_variant, first, end)], np.arange(first, end))
        self._counted = end

    def _touch(self) -> None:
        """Follow the tiles that the last instructions touch: each is live from the first of them to the last.

        Rows count from the first piece on, without what lies between two.
        """
        program, end = self.program, self.rows
        first = max(self._seen, end - ROWS)
        if end == first:
            return
        starts = _read(program.op_access, first, end + 1)
        views = _read(program.access_view, int(starts[0]), int(starts[-1]))
        rows = np.repeat(np.arange(self._looked, self._looked + end - first), np.diff(starts))
        if first > self._seen or not self._looked:
            for column, value in zip(self._pieces, (first, self._looked), strict=True):
                column.append(value)
        self._seen, self._looked = end, self._looked + end - first
        numbers, view_of = np.unique(views, return_inverse=True)
        table = program.views
        met = [table[number].buffer for number in numbers.tolist()]
        buffers = [item for item in dict.fromkeys(met) if item.on_chip]
        place_of = {item: place for place, item in enumerate(buffers)}
        touched = np.array([place_of.get(item, -1) for item in met], np.int64)[view_of]
        touched, rows = touched[touched >= 0], rows[touched >= 0]
        begins, ends = np.zeros(len(buffers), np.int64), np.zeros(len(buffers), np.int64)
        begins[touched[::-1]] = rows[::-1]
        ends[touched] = rows
        before = np.array([self._last.get(item.id, -1) for item in buffers], np.int64)
        self._last.update(zip((item.id for item in buffers), ends.tolist(), strict=True))
        memory = np.array([0 if item.space is _SBUF else 1 for item in buffers], np.int64)
        size = np.array([item.partition_bytes for item in buffers], np.int64)
        # A tile that was dead since its last access was not: that step is taken back.
        self._memories.add(memory, np.where(before < 0, begins, before + 1), size)
        self._memories.add(memory, ends + 1, -size)


class Clock:
    """The times of a program, while they are walked or when they are known."""

    def __init__(self, subject: Walk | Timeline) -> None:
        self.subject = subject
        self._until = 0
        lanes = subject.schedule.lanes
        kinds = [_KINDS.index("dma" if lane.kind == "dma" else _kind(lane.name)) for lane in lanes]
        self._kinds = np.array(kinds, np.int64)
        self._width = np.maximum(1.0, np.bincount(self._kinds, minlength=len(_KINDS)))
        self._lanes = Steps(len(_KINDS), _FIRST)
        self._chance = np.random.default_rng(0)
        if isinstance(subject, Timeline):
            self._enter(np.arange(len(subject.schedule)), subject.timing.start, subject.timing.duration, None)
            self._until = subject.timing.makespan
        else:
            self._order = np.concatenate([*subject.schedule.order, np.zeros(0, np.uint32)])
            # Each lane begins where the one before it ends.
            ends = np.cumsum([len(order) for order in subject.schedule.order])
            self._places = [0, *ends[:-1].tolist()][: len(ends)]

    def advance(self) -> bool:
        """Look at the times that are new; return whether there were any."""
        walk = self.subject
        if isinstance(walk, Timeline):
            return False
        before, self._places = self._places, _places(walk, self._places)
        new = np.concatenate(
            [self._order[:0], *(self._order[slice(*pair)] for pair in zip(before, self._places, strict=True))]
        )
        if not len(new):
            return False
        # Columns of a walk keep their length: what looks into them is in nobody's way.
        start, duration = (np.frombuffer(column, np.int64) for column in walk.machine.times[:2])
        self._enter(new, start, duration, walk.rows)
        return True

    def lanes(self) -> Curves:
        """Return which share of the time each kind of lane is busy, of DMA the mean over its queues."""
        lanes = self._lanes
        means = lanes.means(self._until) / self._width[:, None]
        return _curves("time", _KINDS, self._until, lanes.width * BINS, means)

    def _enter(self, ops: Column, start: Column, duration: Column, rows: Column | None) -> None:
        """Enter some ops, which are in the `rows` of the other columns, in their own without."""
        weight = max(1.0, len(ops) / SAMPLES)
        if weight > 1:
            ops = self._chance.choice(ops, SAMPLES)
        places = ops if rows is None else rows[ops]
        kinds, begins = self._kinds[self.subject.schedule.lane[ops]], start[places]
        ends = begins + duration[places]
        self._lanes.add(kinds, begins, weight)
        self._lanes.add(kinds, ends, -weight)
        self._until = max(self._until, int(ends.max(initial=0)))


class Growth:
    """The drawing of the runs that a monitor follows, one after the other."""

    def __init__(self) -> None:
        self._order: Order | None = None
        self._clock: Clock | None = None

    def look(self, subject: object) -> dict[str, object] | None:
        """Return what is known of what a run shows of itself, as data; None where that is what it was before.

        `lanes` are `Curves` over the program, or over time as soon as there are times; `memories` are over the program.
        """
        is_new = False
        if isinstance(subject, Program):
            if self._order is None or self._order.program is not subject:
                self._order, self._clock = Order(subject), None
        elif isinstance(subject, Walk | Timeline) and (self._clock is None or self._clock.subject is not subject):
            self._clock, is_new = Clock(subject), True
        if self._clock is not None:
            is_new |= self._clock.advance()
        if self._order is not None:
            is_new |= self._order.advance()
        if not is_new:
            return None
        shown = self._clock or self._order
        assert shown is not None  # something is new
        memories = None if self._order is None else self._order.memories().as_dict()
        return {"lanes": shown.lanes().as_dict(), "memories": memories}


def _kind(engine: str) -> str:
    """Return the kind of the lane of an engine."""
    return engine if engine in KINDS else NO_KIND


def _read(column: Any, first: int, end: int) -> Column:
    """Return a part of a column that grows: a copy of it, since a column that NumPy looks into cannot."""
    return np.frombuffer(column[first:end], np.uint32).astype(np.int64)


def _places(walk: Walk, begins: list[int]) -> list[int]:
    """Return how far each lane is in the order of its ops, of a queue its data: the last one may be being written."""
    lanes = walk.machine.lanes
    columns = zip(lanes.place, lanes.data_place, lanes.is_queue, begins, strict=True)
    return [max(begin, int(data if queue else place) - 1) for place, data, queue, begin in columns]
