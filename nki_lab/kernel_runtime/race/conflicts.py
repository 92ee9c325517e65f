"""Accesses of two cores to the same bytes, of which one writes, that nothing orders.

For each access the other core's accesses of the same cell within its interval (`order`) are counted, sorted by cell and
op: that is n log n. An access with an address from run time is in conflict only with accesses of the whole tensor. Only
where conflicts are left are writes compared by value (`values`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from nki_lab.isa import enums
from nki_lab.kernel_runtime.footprint import Column, Mask, cells_of, distinct
from nki_lab.kernel_runtime.ir import Accesses, Program, access_columns
from nki_lab.kernel_runtime.race.values import write_numbers


class Interval(NamedTuple):
    """For some ops of a core the ops of the other core that no synchronization orders: after `low`, before `high`."""

    low: Column
    high: Column


class Synchronizations:
    """The synchronizations, seen from either core; `chosen` are rows of `Program.synchronizations`, by default all."""

    def __init__(self, program: Program, chosen: list[int] | None = None) -> None:
        pairs = np.array(program.synchronizations, np.int64).reshape(-1, 2)
        pairs = pairs if chosen is None else pairs[chosen]
        cores = program.core_column()
        self._end = len(program)
        self._sides: dict[int, tuple[Column, Column, Column]] = {}
        for core in distinct(cores[pairs].reshape(-1)).tolist():
            mine = np.where(cores[pairs[:, 0]] == core, pairs[:, 0], pairs[:, 1])
            order = np.argsort(mine)
            mine, other = mine[order], (pairs.sum(axis=1) - mine)[order]
            # The latest op that the other core has come to by then, and the earliest that waits.
            self._sides[core] = (mine, np.maximum.accumulate(other), np.minimum.accumulate(other[::-1])[::-1])

    def interval(self, core: int, op: Column) -> Interval:
        """The stretch of the other core that is side by side with each of `op`, which are ops of `core`."""
        mine, latest, earliest = self._sides.get(core, (np.zeros(0, np.int64),) * 3)
        return Interval(
            np.concatenate((np.full(1, -1), latest))[np.searchsorted(mine, op, "right")],
            np.concatenate((earliest, np.full(1, self._end)))[np.searchsorted(mine, op, "left")],
        )


_MOST_PLACES: Final = 64  # instructions of the source with accesses in conflict that are looked at, for each core
_MOST_ACCESSES: Final = 16  # accesses of each of these, where those that come first meet nothing after all
_MOST_LOOKED_AT: Final = 64  # accesses of the other core, for each access
_MOST_OTHERS: Final = 4  # instructions of the other core that are named with it

Bounds = tuple[Interval, ...]
"""An interval for each access, and the part of it that does not count, if any."""


class Conflict(NamedTuple):
    """Two accesses (op, view) of different cores that meet; `late` is further on in its core than `early`.

    It is `certain` where one reads, and its core has not just done itself what the other one does.
    """

    early: tuple[int, int]
    late: tuple[int, int]
    early_writes: bool
    late_writes: bool
    certain: bool


class _Events(NamedTuple):
    """Accesses cell by cell, sorted by cell and op."""

    cell: Column
    op: Column
    view: Column
    buffer: Column
    core: Column
    writes: Mask
    loose: Mask  # the address comes from run time

    def of(self, rows: Column | Mask) -> _Events:
        return _Events._make(column[rows] for column in self)


class Conflicts:
    """The conflicts of a program on several cores."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._step = len(program) + 2
        self.events = _events(program, shared_accesses(program))
        self._own = np.full(len(self.events.op), -1, np.int64)  # the last write of its core before each read

    def unordered(self) -> list[Conflict]:
        """Return conflicts that no synchronization orders."""
        interval = self._intervals(Synchronizations(self.program))
        if not self._any((interval,)):
            return []
        return [*self._conflicts((interval,), reads=True), *self._last_writes(interval)]

    def unnamed(self, waits: Callable[[int, int], bool]) -> list[Conflict]:
        """Return conflicts that synchronizations order, but no barrier of the tensor, and no op that `waits`."""
        events, program = self.events, self.program
        naming: dict[int, list[int]] = {}
        for row, (op, _) in enumerate(program.synchronizations):
            if program.variant_of(op).instruction.only_orders:
                naming.setdefault(program.views_of(op)[0].buffer.id, []).append(row)
        inner = self._intervals(Synchronizations(program))
        outer = Interval(*(column.copy() for column in inner))
        for number in distinct(events.buffer).tolist():
            rows = np.flatnonzero(events.buffer == number)
            chosen = Synchronizations(program, naming.get(number, []))
            outer.low[rows], outer.high[rows] = self._intervals(chosen, events.of(rows))
        bounds = (outer, inner)
        return self._conflicts(bounds, waits) if program.synchronizations and self._any(bounds) else []

    # -- counting ------------------------------------------------------------------------------------------------------

    def _intervals(self, synchronizations: Synchronizations, events: _Events | None = None) -> Interval:
        events = self.events if events is None else events
        out = Interval(np.empty(len(events.op), np.int64), np.empty(len(events.op), np.int64))
        for core in self._cores:
            mine = events.core == core
            out.low[mine], out.high[mine] = synchronizations.interval(core, events.op[mine])
        return out

    @cached_property
    def _cores(self) -> list[int]:
        return list(distinct(self.events.core).tolist())

    def _conflicts(
        self, bounds: Bounds, waits: Callable[[int, int], bool] | None = None, *, reads: bool = False
    ) -> list[Conflict]:
        """Return accesses, or `reads` only, with a write of another core within `bounds`."""
        rows = np.concatenate([self._differing(core, bounds) for core in self._cores])
        return list(self._pairs(rows[~self.events.writes[rows]] if reads else rows, bounds, waits))

    def _last_writes(self, interval: Interval) -> list[Conflict]:
        """Return writes of two cores without order, which neither core writes over while the other may still write.

        A later write of the same core counts in place of an earlier one that conflicts with the same writes.
        """
        events, numbers = self.events, self.numbers
        sites = np.frombuffer(self.program.op_site, np.uint32)
        found: dict[tuple[int, int], tuple[int, int]] = {}
        for pair in itertools.combinations(self._cores, 2):
            mine, theirs = (np.flatnonzero(events.writes & (events.core == core)) for core in pair)
            if not len(mine) or not len(theirs):
                continue
            again = np.append(events.cell[mine[1:]] == events.cell[mine[:-1]], False)
            until = np.where(again, interval.low[np.append(mine[1:], mine[-1:])], self._step)
            place = np.searchsorted(self._key(theirs), self._base(mine) + interval.high[mine], "left") - 1
            row = theirs[np.maximum(place, 0)]
            conflicting = (
                (place >= 0)
                & (events.cell[row] == events.cell[mine])
                & (events.op[row] > interval.low[mine])
                & (events.op[row] <= until)
                & (numbers[row] != numbers[mine])
                & ~(events.loose[row] & events.loose[mine])
            )
            for ends in zip(mine[conflicting].tolist(), row[conflicting].tolist(), strict=True):
                one, other = sites[events.op[list(ends)]].tolist()
                found.setdefault((one, other), ends)
        return [self._pair(*ends) for ends in list(found.values())[:_MOST_PLACES]]

    def _any(self, bounds: Bounds) -> bool:
        """Check whether any accesses are in conflict, whatever the values."""
        events = self.events
        for core, writes, loose in itertools.product(self._cores, (True, False), (True, False)):
            rows = np.flatnonzero((events.core == core) & (events.writes == writes) & (events.loose == loose))
            against = (events.core != core) & (events.writes | writes) & ~(events.loose & loose)
            if len(rows) and self._count(rows, np.flatnonzero(against), bounds).any():
                return True
        return False

    def _count(self, rows: Column, against: Column, bounds: Bounds) -> Column:
        """Return for each of `rows` how many of `against`, which are sorted, are in its cell and its bounds."""
        return _within(self._key(against), self._base(rows), rows, bounds)

    def _base(self, rows: Column) -> Column:
        base: Column = self.events.cell[rows] * self._step
        return base

    def _key(self, rows: Column) -> Column:
        """Return a number for each access, in the order of cells and ops."""
        return self._base(rows) + self.events.op[rows]

    # -- values --------------------------------------------------------------------------------------------------------

    @cached_property
    def numbers(self) -> Column:
        """The number of each write; of each read that of the last write of its own core, which it should find."""
        events = self.events
        out = np.zeros(len(events.op), np.int64)
        rows = np.flatnonzero(events.writes)
        out[rows] = write_numbers(self.program, events.op[rows], events.view[rows])
        for core in self._cores:
            mine = np.flatnonzero(events.core == core)
            place = np.where(events.writes[mine], np.arange(len(mine)), -1)
            # A read of an op that also writes comes before: the last write is that of an earlier op.
            last = np.maximum.accumulate(np.concatenate((np.full(1, -1), place)))[:-1]
            known = ~events.writes[mine] & (last >= 0)
            known[known] = events.cell[mine[last[known]]] == events.cell[mine[known]]
            self._own[mine[known]] = mine[last[known]]
            out[mine[known]] = out[mine[last[known]]]
        return out

    def _differing(self, core: int, bounds: Bounds) -> Column:
        """Return the accesses of a core that are in conflict with one of another core that writes another value."""
        events, numbers = self.events, self.numbers
        theirs = np.flatnonzero((events.core != core) & events.writes)
        value = events.cell * np.int64(-7046029254386353131) + numbers
        kinds = distinct(value[theirs])
        out = []
        for loose in (True, False):
            rows = np.flatnonzero((events.core == core) & (events.loose == loose))
            against = theirs[~(events.loose[theirs] & loose)]
            met = self._count(rows, against, bounds)
            rows, met = rows[met > 0], met[met > 0]
            place = np.minimum(np.searchsorted(kinds, value[rows]), max(len(kinds) - 1, 0))
            same = np.zeros(len(rows), np.int64)
            alike = np.flatnonzero(kinds[place] == value[rows]) if len(kinds) else np.zeros(0, np.int64)
            order = np.lexsort((events.op[against], value[against]))
            keys = np.searchsorted(kinds, value[against][order]) * self._step + events.op[against][order]
            same[alike] = _within(keys, place[alike] * self._step, rows[alike], bounds)
            out.append(rows[met > same])
        return np.concatenate(out)

    # -- pairs ---------------------------------------------------------------------------------------------------------

    def _pairs(self, rows: Column, bounds: Bounds, waits: Callable[[int, int], bool] | None) -> Iterator[Conflict]:
        """Yield a few pairs for each instruction in the source that has accesses in `rows`."""
        events, program = self.events, self.program
        sites = np.frombuffer(program.op_site, np.uint32)[events.op[rows]].astype(np.int64)
        key = (sites * program.cores + events.core[rows]) * 2 + events.writes[rows]
        order = np.lexsort((events.op[rows], key))
        for group in np.split(rows[order], np.flatnonzero(np.diff(key[order])) + 1)[: _MOST_PLACES * program.cores]:
            for row in group[:_MOST_ACCESSES].tolist():
                seen: set[int] = set()
                for other in self._others(row, bounds):
                    one, two = int(events.op[row]), int(events.op[other])
                    site = program.op_site[two]
                    if site in seen or len(seen) == _MOST_OTHERS:
                        continue
                    if waits is None or not (waits(one, two) or waits(two, one)):
                        seen.add(site)
                        yield self._pair(row, other)
                if seen:
                    break

    def _others(self, row: int, bounds: Bounds) -> Iterator[int]:
        """Yield the accesses that an access is in conflict with."""
        events, numbers = self.events, self.numbers
        span = slice(*(int(np.searchsorted(events.cell, events.cell[row], side)) for side in ("left", "right")))
        op = events.op[span]
        inside, *excluded = ((op > interval.low[row]) & (op < interval.high[row]) for interval in bounds)
        for part in excluded:
            inside &= ~part
        inside &= (events.core[span] != events.core[row]) & events.writes[span]
        inside &= (numbers[span] != numbers[row]) & ~(events.loose[span] & events.loose[row])
        yield from (span.start + np.flatnonzero(inside)[:_MOST_LOOKED_AT]).tolist()

    def _pair(self, row: int, other: int) -> Conflict:
        events = self.events
        # Where both have come equally far, the read is what comes late.
        ends = sorted((row, other), key=lambda end: (int(self._local[events.op[end]]), not events.writes[end]))
        early, late = ((int(events.op[end]), int(events.view[end])) for end in ends)
        early_writes, late_writes = (bool(events.writes[end]) for end in ends)
        if early_writes and late_writes:
            return Conflict(early, late, True, True, False)
        read, write = ends if late_writes else ends[::-1]
        own = int(self._own[read])
        certain = own < 0 or self.works[self._access(own)] != self.works[self._access(write)]
        return Conflict(early, late, early_writes, late_writes, certain)

    @cached_property
    def works(self) -> dict[tuple[int, int], tuple[int, int, int, int]]:
        """Facts that are equal where two cores do the same work: place in the source, part of the tensor,
        how often by now; by op and view of the writes."""
        events, program = self.events, self.program
        out: dict[tuple[int, int], tuple[int, int, int, int]] = {}
        done: Counter[tuple[int, ...]] = Counter()
        rows = np.flatnonzero(events.writes)
        for row in rows[np.argsort(events.op[rows], kind="stable")].tolist():
            op, number = self._access(row)
            if (op, number) not in out:
                view = program.views[number]
                work = program.op_site[op], view.offset, view.type.id
                done[program.core_of(op), *work] += 1
                out[op, number] = (*work, done[program.core_of(op), *work])
        return out

    def _access(self, row: int) -> tuple[int, int]:
        return int(self.events.op[row]), int(self.events.view[row])

    @cached_property
    def _local(self) -> Column:
        """The place of each op among those of its own core."""
        out = np.empty(len(self.program), np.int64)
        cores = self.program.core_column()
        for core in range(self.program.cores):
            mine = np.flatnonzero(cores == core)
            out[mine] = np.arange(len(mine))
        return out


def _within(keys: Column, base: Column, rows: Column, bounds: Bounds) -> Column:
    """Return how many of the sorted `keys` minus `base` lie within the bounds of `rows`."""
    outer, *inner = (
        np.searchsorted(keys, base + interval.high[rows], "left")
        - np.searchsorted(keys, base + interval.low[rows], "right")
        for interval in bounds
    )
    found: Column = outer - sum(inner)
    return found


def shared_accesses(program: Program) -> Accesses:
    """The accesses of what several cores access and one of them writes; those of barriers move nothing."""
    accesses = access_columns(program, indices=False)
    cores = program.core_column()[accesses.op]
    moves = ~program.ops_where(lambda item: item.instruction.only_orders)[accesses.op]
    # Such an instruction may move nothing at all.
    skips = program.ops_where(lambda item: item.use.attrs.get("oob_mode") is enums.oob_mode.skip)[accesses.op]
    moves &= ~(skips & _moved(program)[accesses.view])
    count = len(program.buffers)
    users = np.zeros(count, np.int64)
    for core in range(program.cores):
        users[distinct(accesses.buffer[moves & (cores == core)])] += 1
    written = np.zeros(count, bool)
    written[accesses.buffer[accesses.is_out & moves]] = True
    kept = moves & (users > 1)[accesses.buffer] & written[accesses.buffer]
    return Accesses._make(column[kept] for column in accesses)


def _moved(program: Program) -> Mask:
    """The views with addresses from run time; `access_columns` has listed them."""
    out = np.zeros(len(program.views), bool)
    out[[view.id for view in program.view_columns.moved]] = True
    return out


def _events(program: Program, accesses: Accesses) -> _Events:
    cores = program.core_column()
    loose = _moved(program)[accesses.view]
    firm = np.flatnonzero(~loose)
    found = cells_of(program, Accesses._make(column[firm] for column in accesses), apart=True)
    access, cell = _with_loose(program, accesses, loose, firm[found.access], found.cell)
    op = accesses.op[access]
    order = np.lexsort((accesses.is_out[access], op, cell))
    access, cell, op = access[order], cell[order], op[order]
    return _Events(
        cell, op, accesses.view[access], accesses.buffer[access], cores[op], accesses.is_out[access], loose[access]
    )


def _with_loose(
    program: Program, accesses: Accesses, loose: Mask, access: Column, cell: Column
) -> tuple[Column, Column]:
    """One cell more for each tensor that is accessed with addresses from run time: of these, and of all of it."""
    numbers = distinct(accesses.buffer[loose])
    if not len(numbers):
        return access, cell
    full = np.array([view.full and view.indirect is None for view in program.views], bool)
    rows = np.flatnonzero(np.isin(accesses.buffer, numbers) & (loose | full[accesses.view]))
    more = int(cell.max(initial=-1)) + 1 + np.searchsorted(numbers, accesses.buffer[rows])
    return np.concatenate((access, rows)), np.concatenate((cell, more))
