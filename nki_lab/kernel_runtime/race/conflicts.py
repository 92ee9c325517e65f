"""Accesses of two cores to the same bytes, of which one writes, that nothing orders.

For each access the other core's accesses of the same cell within its interval (`order`) are counted, sorted by cell and
op: that is n log n. An access with an address from run time meets for certain only what covers all of the tensor; two
such accesses are never said to meet. Only where something is left are writes compared by value (`values`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nki_lab.isa import enums
from nki_lab.kernel_runtime.footprint import cells_of
from nki_lab.kernel_runtime.ir import Accesses, Program, access_columns
from nki_lab.kernel_runtime.race.order import Column, Interval, Synchronizations
from nki_lab.kernel_runtime.race.values import write_numbers

_MOST_PLACES: Final = 64  # instructions of the source with accesses in conflict that are looked at, for each core
_MOST_ACCESSES: Final = 16  # accesses of each of these, where those that come first meet nothing after all
_MOST_LOOKED_AT: Final = 64  # accesses of the other core, for each access
_MOST_OTHERS: Final = 4  # instructions of the other core that are named with it

_Flags = NDArray[np.bool_]


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
    writes: _Flags
    loose: _Flags  # the address comes from run time

    def of(self, rows: Column | _Flags) -> _Events:
        return _Events._make(column[rows] for column in self)


class Conflicts:
    """The conflicts of a program on several cores."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._step = len(program) + 2
        self.events = _events(program, shared_accesses(program))
        self._numbers: Column | None = None
        self._works: dict[tuple[int, int], tuple[int, int, int, int]] = {}
        self._own = np.full(len(self.events.op), -1, np.int64)  # the last write of its core before each read
        self._local: Column | None = None

    def unordered(self) -> list[Conflict]:
        """Those that no synchronization orders."""
        if not len(self.events.op):
            return []
        interval = self._intervals(Synchronizations(self.program))
        if not self._any(interval, None):
            return []
        return [*self._astray(interval, None, reads=True), *self._last_writes(interval)]

    def unnamed(self, waits: Callable[[int, int], bool]) -> list[Conflict]:
        """Return conflicts that synchronizations order, but no barrier of the tensor, and no op that `waits`."""
        events, program = self.events, self.program
        if not len(events.op) or not program.synchronizations:
            return []
        naming: dict[int, list[int]] = {}
        for row, (op, _) in enumerate(program.synchronizations):
            shown = program.op(op)
            if shown.variant.instruction.only_orders:
                naming.setdefault(shown.views[0].buffer.id, []).append(row)
        all_of_them = self._intervals(Synchronizations(program))
        low, high = all_of_them.low.copy(), all_of_them.high.copy()
        for number in np.unique(events.buffer).tolist():
            rows = np.flatnonzero(events.buffer == number)
            low[rows], high[rows] = self._intervals(Synchronizations(program, naming.get(number, [])), rows)
        interval = Interval(low, high)
        if not self._any(interval, all_of_them):
            return []
        self._waits = waits
        return self._astray(interval, all_of_them)

    _waits: Callable[[int, int], bool] | None = None

    # -- counting ------------------------------------------------------------------------------------------------------

    def _intervals(self, synchronizations: Synchronizations, rows: Column | None = None) -> Interval:
        core, op = (
            (self.events.core, self.events.op) if rows is None else (self.events.core[rows], self.events.op[rows])
        )
        low, high = np.empty(len(op), np.int64), np.empty(len(op), np.int64)
        for number in np.unique(core).tolist():
            mine = core == number
            low[mine], high[mine] = synchronizations.interval(number, op[mine])
        return Interval(low, high)

    def _astray(self, interval: Interval, inner: Interval | None, *, reads: bool = False) -> list[Conflict]:
        """Accesses, or `reads` only, that meet a write within `interval`, but not within `inner`."""
        cores = np.unique(self.events.core).tolist()
        rows = np.concatenate([self._differing(core, interval, inner) for core in cores])
        return list(self._pairs(rows[~self.events.writes[rows]] if reads else rows, interval, inner))

    def _last_writes(self, interval: Interval) -> list[Conflict]:
        """Writes of two cores that meet, and that neither core itself writes over while the other one may still write.

        Of writes that are followed by others of their core which meet the same ones, these others count.
        """
        events, numbers = self.events, self.numbers
        sites = np.frombuffer(self.program.op_site, np.uint32)
        found: dict[tuple[int, int], tuple[int, int]] = {}
        cores = np.unique(events.core).tolist()
        for core, other in itertools.combinations(cores, 2):
            mine, theirs = (np.flatnonzero(events.writes & (events.core == one)) for one in (core, other))
            if not len(mine) or not len(theirs):
                continue
            again = np.append(events.cell[mine[1:]] == events.cell[mine[:-1]], False)
            until = np.where(again, interval.low[np.append(mine[1:], mine[-1:])], self._step)
            keys = events.cell[theirs] * self._step + events.op[theirs]
            place = np.searchsorted(keys, events.cell[mine] * self._step + interval.high[mine], "left") - 1
            row = theirs[np.maximum(place, 0)]
            meets = (place >= 0) & (events.cell[row] == events.cell[mine]) & (events.op[row] > interval.low[mine])
            meets &= (
                (events.op[row] <= until) & (numbers[row] != numbers[mine]) & ~(events.loose[row] & events.loose[mine])
            )
            for one, two in zip(mine[meets].tolist(), row[meets].tolist(), strict=True):
                key = int(sites[events.op[one]]), int(sites[events.op[two]])
                found.setdefault(key, (one, two))
        return [self._pair(*rows) for rows in list(found.values())[:_MOST_PLACES]]

    def _any(self, interval: Interval, inner: Interval | None) -> bool:
        """Whether anything meets, whatever the values."""
        events = self.events
        for core in np.unique(events.core).tolist():
            others = events.core != core
            for writes in (True, False):
                for loose in (True, False):
                    rows = np.flatnonzero((events.core == core) & (events.writes == writes) & (events.loose == loose))
                    against = others & (events.writes | writes) & ~(events.loose & loose)
                    if len(rows) and self._count(rows, np.flatnonzero(against), interval, inner).any():
                        return True
        return False

    def _count(self, rows: Column, against: Column, interval: Interval, inner: Interval | None) -> Column:
        """For each of `rows` how many of `against`, which are sorted, are in its cell and interval."""
        events = self.events
        keys = events.cell[against] * self._step + events.op[against]
        found = _within(keys, events.cell[rows] * self._step, Interval(*(column[rows] for column in interval)))
        if inner is not None:
            found = found - _within(keys, events.cell[rows] * self._step, Interval(*(column[rows] for column in inner)))
        return found

    # -- values --------------------------------------------------------------------------------------------------------

    @property
    def numbers(self) -> Column:
        """The number of each write; of each read that of the last write of its own core, which it should find."""
        if self._numbers is None:
            events = self.events
            out = np.zeros(len(events.op), np.int64)
            rows = np.flatnonzero(events.writes)
            out[rows] = write_numbers(self.program, events.op[rows], events.view[rows])
            for core in np.unique(events.core).tolist():
                mine = np.flatnonzero(events.core == core)
                place = np.where(events.writes[mine], np.arange(len(mine)), -1)
                # A read of an op that also writes comes before: the last write is that of an earlier op.
                last = np.maximum.accumulate(np.concatenate((np.full(1, -1), place)))[:-1]
                reads = ~events.writes[mine]
                known = reads & (last >= 0)
                known[known] = events.cell[mine[last[known]]] == events.cell[mine[known]]
                self._own[mine[known]] = mine[last[known]]
                out[mine[known]] = out[mine[last[known]]]
            self._numbers = out
        return self._numbers

    def _differing(self, core: int, interval: Interval, inner: Interval | None) -> Column:
        """The accesses of a core that meet one of another core which writes something else, or reads at all."""
        events, numbers = self.events, self.numbers
        theirs = np.flatnonzero((events.core != core) & events.writes)
        value = events.cell * np.int64(-7046029254386353131) + numbers
        kinds = np.unique(value[theirs])
        out = []
        for loose in (True, False):
            rows = np.flatnonzero((events.core == core) & (events.loose == loose))
            against = theirs[~(events.loose[theirs] & loose)]
            met = self._count(rows, against, interval, inner)
            rows, met = rows[met > 0], met[met > 0]
            place = np.minimum(np.searchsorted(kinds, value[rows]), max(len(kinds) - 1, 0))
            same = np.zeros(len(rows), np.int64)
            alike = np.flatnonzero(kinds[place] == value[rows]) if len(kinds) else np.zeros(0, np.int64)
            order = np.lexsort((events.op[against], value[against]))
            keys = np.searchsorted(kinds, value[against][order]) * self._step + events.op[against][order]
            for shown, sign in ((interval, 1), (inner, -1)):
                if shown is not None:
                    cut = Interval(*(column[rows[alike]] for column in shown))
                    same[alike] += sign * _within(keys, place[alike] * self._step, cut)
            out.append(rows[met > same])
        return np.concatenate(out)

    # -- pairs ---------------------------------------------------------------------------------------------------------

    def _pairs(self, rows: Column, interval: Interval, inner: Interval | None) -> Iterator[Conflict]:
        """A few pairs for each instruction in the source that has accesses in `rows`, which meet something."""
        events, program = self.events, self.program
        sites = np.frombuffer(program.op_site, np.uint32)[events.op[rows]].astype(np.int64)
        key = (sites * program.cores + events.core[rows]) * 2 + events.writes[rows]
        order = np.lexsort((events.op[rows], key))
        groups = np.split(rows[order], np.flatnonzero(np.diff(key[order])) + 1)
        for group in groups[: _MOST_PLACES * program.cores]:
            for row in group[:_MOST_ACCESSES].tolist():
                said: set[int] = set()
                for other in self._others(row, interval, inner):
                    site = program.op_site[int(events.op[other])]
                    if site not in said and len(said) < _MOST_OTHERS and not self._is_ordered(row, other):
                        said.add(site)
                        yield self._pair(row, other)
                if said:
                    break

    def _is_ordered(self, row: int, other: int) -> bool:
        """Whether one of two accesses waits for the other one all the same."""
        if self._waits is None:
            return False
        one, two = int(self.events.op[row]), int(self.events.op[other])
        return self._waits(one, two) or self._waits(two, one)

    def _others(self, row: int, interval: Interval, inner: Interval | None) -> Iterator[int]:
        """The accesses that an access meets."""
        events, numbers = self.events, self.numbers
        low = int(np.searchsorted(events.cell, events.cell[row]))
        high = int(np.searchsorted(events.cell, events.cell[row], "right"))
        op = events.op[low:high]
        there = (op > interval.low[row]) & (op < interval.high[row])
        if inner is not None:
            there &= ~((op > inner.low[row]) & (op < inner.high[row]))
        there &= (events.core[low:high] != events.core[row]) & events.writes[low:high]
        there &= (numbers[low:high] != numbers[row]) & ~(events.loose[low:high] & events.loose[row])
        yield from (low + np.flatnonzero(there)[:_MOST_LOOKED_AT]).tolist()

    def _pair(self, row: int, other: int) -> Conflict:
        events = self.events
        if self._local is None:
            self._local = _local(self.program)
        # Where both have come equally far, the read is what comes late.
        ends = sorted((row, other), key=lambda end: (int(self._local[events.op[end]]), not events.writes[end]))  # type: ignore[index]
        early, late = ((int(events.op[end]), int(events.view[end])) for end in ends)
        early_writes, late_writes = (bool(events.writes[end]) for end in ends)
        if early_writes and late_writes:
            return Conflict(early, late, True, True, False)
        read, write = ends if late_writes else ends[::-1]
        own = int(self._own[read])
        certain = own < 0 or self.works[self._key(own)] != self.works[self._key(write)]
        return Conflict(early, late, early_writes, late_writes, certain)

    @property
    def works(self) -> dict[tuple[int, int], tuple[int, int, int, int]]:
        """What is the same where two cores do the same work: place in the source, part of the tensor, how often by now.

        By op and view of the writes.
        """
        if not self._works:
            events, program = self.events, self.program
            done: dict[tuple[int, int, int, int], int] = {}
            rows = np.flatnonzero(events.writes)
            for row in rows[np.argsort(events.op[rows], kind="stable")].tolist():
                key = self._key(row)
                if key not in self._works:
                    view = program.views[key[1]]
                    work = (program.op_site[key[0]], view.offset, view.type.id)
                    count = done[program.core_of(key[0]), *work] = done.get((program.core_of(key[0]), *work), 0) + 1
                    self._works[key] = (*work, count)
        return self._works

    def _key(self, row: int) -> tuple[int, int]:
        return int(self.events.op[row]), int(self.events.view[row])


def _within(keys: Column, base: Column, interval: Interval) -> Column:
    """How many of the sorted `keys` lie between `base` + low and `base` + high, both exclusive."""
    found: Column = np.searchsorted(keys, base + interval.high, "left") - np.searchsorted(
        keys, base + interval.low, "right"
    )
    return found


def _local(program: Program) -> Column:
    """How far each op is in its own core."""
    out = np.empty(len(program), np.int64)
    cores = program.core_column()
    for core in range(program.cores):
        mine = np.flatnonzero(cores == core)
        out[mine] = np.arange(len(mine))
    return out


def shared_accesses(program: Program) -> Accesses:
    """The accesses of what several cores access and one of them writes; those of barriers move nothing."""
    accesses = access_columns(program, indices=False)
    cores = program.core_column()[accesses.op]
    variant = np.frombuffer(program.op_variant, np.uint32)[accesses.op]
    moves = ~program.variants_where(lambda item: item.instruction.only_orders)[variant]
    # Such an instruction may move nothing at all.
    skips = program.variants_where(lambda item: item.use.attrs.get("oob_mode") is enums.oob_mode.skip)
    moves &= ~(skips[variant] & _moved(program)[accesses.view])
    count = len(program.buffers)
    users = np.zeros(count, np.int64)
    for core in range(program.cores):
        users[np.unique(accesses.buffer[moves & (cores == core)])] += 1
    written = np.zeros(count, bool)
    written[accesses.buffer[accesses.is_out & moves]] = True
    kept = moves & (users > 1)[accesses.buffer] & written[accesses.buffer]
    return Accesses._make(column[kept] for column in accesses)


def _moved(program: Program) -> _Flags:
    """The views with addresses from run time; `access_columns` has listed them."""
    out = np.zeros(len(program.views), bool)
    out[[view.id for view in program.view_columns[1]]] = True
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
    program: Program, accesses: Accesses, loose: _Flags, access: Column, cell: Column
) -> tuple[Column, Column]:
    """One cell more for each tensor that is accessed with addresses from run time: of these, and of all of it."""
    numbers = np.unique(accesses.buffer[loose])
    if not len(numbers):
        return access, cell
    full = np.array([view.full and view.indirect is None for view in program.views], bool)
    rows = np.flatnonzero(np.isin(accesses.buffer, numbers) & (loose | full[accesses.view]))
    more = int(cell.max(initial=-1)) + 1 + np.searchsorted(numbers, accesses.buffer[rows])
    return np.concatenate((access, rows)), np.concatenate((cell, more))
