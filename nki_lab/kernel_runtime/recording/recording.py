"""A run as columns: what ran where and when, what it waited for, and the memory it used."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Final, TypeVar

import numpy as np

from nki_lab.extras import extra
from nki_lab.kernel_runtime.recording import build, check, derive, results, schema, zoom
from nki_lab.kernel_runtime.recording.columns import (
    Array,
    Column,
    Columns,
    Json,
    Side,
    pieces,
    place_in,
    search,
    whole,
)
from nki_lab.kernel_runtime.recording.lifetimes import lifetimes
from nki_lab.kernel_runtime.vocabulary import CONFIDENCES, EDGE_KINDS, LANE_KINDS, ORIGINS, ROLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """An engine or a DMA queue."""

    number: int
    name: str
    kind: str
    core: int
    rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row for a reader: numbers resolved into names.

    Times in picoseconds. `wait` includes `setup`; `efficiency` is the row's own work as a share of
    its duration, the rest of which went to `throttle_reason`; the end of row `critical_pred` let it start (-1: none).
    `line` is 0 where it is unknown.
    """

    number: int
    name: str
    detail: str
    lane: str
    core: int
    start: int
    duration: int
    ready: int
    wait: int
    stall: str
    setup: int
    setup_stall: str
    efficiency: float
    throttle_reason: str
    file: str
    line: int
    function: str
    iteration: tuple[tuple[str, int], ...]
    critical_pred: int
    work: int
    bytes: int
    confidence: str


T = TypeVar("T")

CHECKED_AT_ONCE: Final = 1 << 18
"""Rows, accesses or edges up to which a recording is checked as a whole when it is opened, within some 50 ms."""


class Recording:
    """A finished run. Built from arrays, or opened from a folder, whose columns are then read when asked for.

    `tables` gives columns by table and column name, as `schema.TABLES` declares them: arrays or lists of numbers, and
    texts where a column numbers the table `names`. Tables and columns that have defaults may be left out. `lifetimes`,
    `usage` and `critical` follow from the rows unless given. `summary` is anything that JSON can say, by name.
    `makespan` is the end of the run in picoseconds where something follows the last row. ValueError where the tables
    do not fit together.
    """

    def __init__(
        self, tables: build.Given, summary: Mapping[str, Json] | None = None, makespan: int | None = None
    ) -> None:
        self._tables = build.build(tables, summary or {}, makespan)
        rows = self._tables["rows"]
        check.check_ranges(self._tables)
        check.check_rows(self._tables)
        results.check(summary or {})
        lane, start, duration = (whole(rows[name]) for name in ("lane", "start", "duration"))
        places, firsts = derive.lane_rows(lane, start, duration, len(self._tables["lanes"]))
        gaps = derive.gaps(places, firsts, start, duration)
        check.check_lanes(rows, places, gaps)
        self._tables["lane_rows"] = derive.lane_table(rows, places, gaps)
        self._tables["lane_spans"] = derive.table("lane_spans", derive.spans(places, firsts))
        self._check_whole: Callable[[], None] | None = None
        self._as_read: Recording | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Recording:
        """The recording in a folder. Raises NKI018 where there is none, NKI019 if it cannot be read, NKI020 if it was
        written by a newer version, NKI022 without the package pyarrow. Values are read when asked for; damaged ones
        raise NKI019 then.

        A folder may be from anybody: what its tables say is held against the schema, at once or, of a large run, before
        somebody reads more of it than single rows and sums.
        """
        with extra("save", "opening a saved run needs", operand="open"):
            from nki_lab.kernel_runtime.recording import folder

        self = cls.__new__(cls)
        self._tables = folder.load(path)
        self._check_whole = partial(folder.check_whole, path, dict(self._tables))
        self._as_read = self._with_tables(self._tables)
        if max(len(self._tables[name]) for name in ("rows", "accesses", "edges")) <= CHECKED_AT_ONCE:
            self.require_checked()
        return self

    def require_checked(self) -> None:
        """Raise NKI019 where an opened recording does not keep to the schema."""
        if self._check_whole is not None:
            self._check_whole()
            self._check_whole = None

    @property
    def as_read(self) -> Recording:
        """The recording with its tables as they are, whether an opened one has been checked as a whole or not."""
        return self._as_read or self

    def before_check(self, work: Callable[[Recording], T]) -> T:
        """Return what `work` makes of the recording as it is read, for what nobody should wait for until a large one is
        checked: if wrong tables end in an exception there, NKI019 tells what is wrong with them.
        """
        try:
            return work(self.as_read)
        except Exception:
            self.require_checked()
            raise

    def save(self, path: str | os.PathLike[str], pins: Sequence[bytes] = ()) -> None:
        """Write the recording into a folder, in place of the one that may be there, with the pictures of pinned tiles.

        Whatever interrupts this, the folder holds the old recording or the new one, whole. Raises NKI021 if the disk
        does not take it, NKI022 without pyarrow.
        """
        with extra("save", "saving a run needs", operand="save", otherwise='write a page with run.to_html("run.html")'):
            from nki_lab.kernel_runtime.recording import folder

        folder.store({name: self.table(name) for name in schema.TABLES}, path, pins)

    def with_summary(self, more: Mapping[str, Json]) -> Recording:
        """Return the same recording with more in its summary, or other values there."""
        self.require_checked()
        return self._with_tables({**self._tables, "summary": build.summary_table({**self.summary, **more})})

    def without_places(self, rows: Array) -> Recording:
        """Return the same recording without the places in the source of some rows, which truth values choose."""
        table = self.rows
        sites = np.where(rows, -1, whole(table["site"]))
        columns = {column.name: table[column.name] for column in table.spec.columns} | {"site": sites}
        return self._with_tables({**self._tables, "rows": Columns(table.spec, columns, len(table))})

    @staticmethod
    def _with_tables(tables: dict[str, Columns]) -> Recording:
        """Return a recording of tables that need no check."""
        other = Recording.__new__(Recording)
        other._tables = tables
        other._check_whole = other._as_read = None
        return other

    # Tables

    def table(self, name: str) -> Columns:
        """The table of that name in `schema.TABLES`."""
        self.require_checked()
        return self._table(name)

    def _table(self, name: str) -> Columns:
        """The table of that name, of which single stretches are read."""
        if name not in self._tables:
            self._derive(name)
        return self._tables[name]

    def _derive(self, name: str) -> None:
        rows = self._tables["rows"]
        derived: dict[str, dict[str, Array]]
        match name:
            case "steps":
                derived = {name: {"row": derive.steps(whole(rows["start"]))}}
            case "triggers" | "changes" | "exchanges":
                columns = schema.TABLES[name].columns
                derived = {name: {column.name: np.zeros(0, column.storage) for column in columns}}
            case "critical":
                derived = {name: {"row": derive.critical(rows)}}
            case "lifetimes":
                derived = {name: lifetimes(self._tables)}
            case "usage":
                derived = {name: derive.usage(self.table("lifetimes"), self.table("buffers"))}
            case "lane_sums" | "lane_sum_levels":
                sums, levels = zoom.levels(self.table, self.makespan)
                derived = {"lane_sums": sums, "lane_sum_levels": levels}
            case _:
                raise KeyError(f"a recording has no table {name!r}")
        self._tables |= {known: derive.table(known, columns) for known, columns in derived.items()}

    def usage_by_core(self) -> dict[str, Array]:
        """The columns `time`, `sbuf` and `psum` of the table `usage` for each core, and its number as `core`.

        Rows are in the order of core and time; each holds until the next one of its core. Cores that use no memory have
        none.
        """
        return derive.usage_by_core(self.table("lifetimes"), self.table("buffers"), self.table("usage"))

    @property
    def rows(self) -> Columns:
        """The table `rows`: a row's number is its place in program order."""
        return self.table("rows")

    def __len__(self) -> int:
        return len(self._tables["rows"])

    @cached_property
    def executed(self) -> Array:
        """Whether each row is executed: those that the compiler model leaves out are not."""
        out = np.ones(len(self), np.bool_)
        out[whole(self.table("changes")["row"])[self._left_out()]] = False
        return out

    @cached_property
    def instructions(self) -> int:
        """The number of rows that are executed, which reports and views call the instructions of the run."""
        return len(self) - int(np.count_nonzero(self._left_out()))

    def _left_out(self) -> Array:
        """Whether each row of the table `changes` is about a row that is not executed."""
        left_out: Array = self.first_column("changes", "origin") == ORIGINS.index("left out")
        return left_out

    @cached_property
    def names(self) -> Sequence[str]:
        """The texts that other tables number."""
        return self._tables["names"].texts("text")

    def first_column(self, table: str, column: str) -> Array:
        """Return a column before the recording was checked as a whole; its values are within the schema's ranges."""
        return whole(self._table(table)[column])

    def texts(self, table: str, column: str) -> list[str]:
        """A column of texts, or of numbers of texts, as texts."""
        columns = self._table(table)
        if columns.spec[column].is_text:
            return list(columns.texts(column))
        return [self.names[number] for number in whole(columns[column]).tolist()]

    @cached_property
    def lanes(self) -> tuple[Lane, ...]:
        """Engines and DMA queues, in drawing order."""
        numbers = (whole(self._tables["lanes"][name]).tolist() for name in ("kind", "core", "rank"))
        columns = zip(self.texts("lanes", "name"), *numbers, strict=True)
        return tuple(
            Lane(number=number, name=name, kind=LANE_KINDS[kind], core=core, rank=rank)
            for number, (name, kind, core, rank) in enumerate(columns)
        )

    @cached_property
    def ranks(self) -> int:
        """The number of ranks that were recorded together; 1 of a run of its own."""
        return 1 + max((lane.rank for lane in self.lanes), default=0)

    @cached_property
    def core_names(self) -> Mapping[int, str]:
        """The words for each core by its number: "core 1", "rank 2", or "rank 2, core 1"; empty where there is one.

        The cores of a rank are counted from 0.
        """
        cores: dict[int, set[int]] = {}
        for lane in self.lanes:
            cores.setdefault(lane.rank, set()).add(lane.core)
        out = {}
        for rank, mine in cores.items():
            for place, core in enumerate(sorted(mine)):
                words = [f"rank {rank}"] if self.ranks > 1 else []
                words += [f"core {place if self.ranks > 1 else core}"] if len(mine) > 1 else []
                out[core] = ", ".join(words)
        return out

    @cached_property
    def stalls(self) -> tuple[str, ...]:
        """The reasons to wait; the first is no wait."""
        return tuple(self.texts("stalls", "name"))

    @cached_property
    def summary(self) -> dict[str, Json]:
        """The results for the whole run, by name."""
        table = self._tables["summary"]
        return results.loaded(table.texts("name"), table.texts("json"))

    @cached_property
    def makespan(self) -> int:
        """Picoseconds until the run ends: not before the last row has ended and the last result is visible."""
        return int(self.summary[results.MAKESPAN])

    @property
    def nbytes(self) -> int:
        """Bytes of the recorded tables with every column in memory; indices, which queries build, are apart."""
        return sum(table.nbytes for name, table in self._tables.items() if not schema.TABLES[name].index)

    @property
    def index_nbytes(self) -> int:
        """Bytes of the indices built so far; of `lane_rows` that is rows and waits, the rest is of `rows`."""
        return sum(
            12 * len(table) if name == "lane_rows" else table.nbytes
            for name, table in self._tables.items()
            if schema.TABLES[name].index
        )

    def hash(self) -> str:
        """SHA-256 of everything recorded, in hexadecimal. Equal recordings have equal hashes, saved or not."""
        digest = hashlib.sha256(f"nki_lab recording {schema.VERSION[0]}".encode())
        recorded = (self.table(name) for name, spec in schema.TABLES.items() if not spec.index)
        for part in chain.from_iterable(map(_bytes_of, recorded)):
            digest.update(part)
        return digest.hexdigest()

    # Steps

    @property
    def order(self) -> Column:
        """The row of each step: rows in order of start, equal ones in program order."""
        return self._table("steps")["row"]

    def step(self, number: int) -> int:
        """The row of a step; IndexError beyond the last."""
        if not 0 <= number < len(self):
            raise IndexError(f"step {number} of {len(self)}")
        return int(self.order[number])

    def at(self, time: int) -> int:
        """The last step that has started at `time` picoseconds; -1 before the first."""
        return self._started(time, "right") - 1

    def _started(self, time: int, side: Side) -> int:
        start = self._tables["lane_rows"]["start"]
        spans = [self.lane_span(lane) for lane in range(len(self.lanes))]
        return sum(search(start, time, low, high, side) - low for low, high in spans)

    def step_of(self, row: int) -> int:
        """The step of a row."""
        start = int(self._tables["rows"]["start"][self._checked(row)])
        low, high = self._started(start, "left"), self._started(start, "right")
        return low + place_in(self.order[low:high], row, "left")

    def _checked(self, row: int) -> int:
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        return row

    def lane_span(self, lane: int) -> tuple[int, int]:
        """The places of a lane's rows in `lane_rows`: the first, and the one behind the last."""
        spans = self._tables["lane_spans"]
        low = int(spans["first"][lane])
        return low, low + int(spans["rows"][lane])

    def _place(self, row: int) -> int:
        """Return the place of a row in `lane_rows`."""
        lanes, start = self._tables["lane_rows"], int(self._tables["rows"]["start"][self._checked(row)])
        low, high = self.lane_span(int(self._tables["rows"]["lane"][row]))
        first = search(lanes["start"], start, low, high, "left")
        found = lanes["row"][first : search(lanes["start"], start, first, high, "right")] == row
        if not found.any():
            self.require_checked()  # its lanes are not those of the rows: NKI019
        return first + int(np.argmax(found))

    # Sums over time

    def sums(self, begin: int, end: int, buckets: int) -> tuple[int, zoom.Sums]:
        """Return a shift, and what the lanes do between two times in picoseconds, in buckets of 2**shift of them.

        There are at most `buckets` + 1, the first and the last of which may reach beyond the two times.
        """
        return zoom.sums(self._table, begin, end, buckets)

    @cached_property
    def lane_times(self) -> Array:
        """Picoseconds by lane and reason: rows in column 0, then the waits by stall. What is missing to the makespan
        is time with nothing to do."""
        lanes, spans = self.table("lane_rows"), self.table("lane_spans")
        out = np.zeros((len(self.lanes), len(self.stalls)), np.int64)
        for lane, (first, count) in enumerate(zip(spans["first"][:].tolist(), spans["rows"][:].tolist(), strict=True)):
            for low, high in pieces(count):
                stretch = slice(first + low, first + high)
                lanes.prefetch(("duration", "wait", "setup", "stall", "setup_stall"), stretch.start, stretch.stop)
                setup = lanes["setup"][stretch].astype(np.int64)
                np.add.at(out[lane], lanes["stall"][stretch], lanes["wait"][stretch] - setup)
                np.add.at(out[lane], lanes["setup_stall"][stretch], setup)
                out[lane, 0] += lanes["duration"][stretch].sum()
        return out

    def waits(self) -> Array:
        """Picoseconds that the lane of each row waited just before it, in program order."""
        lanes = self.table("lane_rows")
        out = np.zeros(len(self), np.int64)
        for low, high in pieces(len(self)):
            lanes.prefetch(("row", "wait"), low, high)
            out[lanes["row"][low:high]] = lanes["wait"][low:high]
        return out

    # Rows and what belongs to them

    def row(self, number: int) -> Row:
        """A row for a reader."""
        rows = self._tables["rows"]
        value = {column.name: int(rows[column.name][self._checked(number)]) for column in rows.spec.columns}
        lane = self.lanes[value["lane"]]
        ops, sites = self._tables["ops"], self._tables["sites"]
        site = value["site"]
        return Row(
            number=number,
            name=self.names[int(ops["name"][value["op"]])],
            detail=self.names[int(ops["detail"][value["op"]])],
            lane=lane.name,
            core=lane.core,
            start=value["start"],
            duration=value["duration"],
            ready=value["ready"],
            wait=int(self._tables["lane_rows"]["wait"][self._place(number)]),
            stall=self.stalls[value["stall"]],
            setup=value["setup"],
            setup_stall=self.stalls[value["setup_stall"]],
            efficiency=value["pace"] / schema.FULL_EFFICIENCY,
            throttle_reason=self.stalls[value["held"]],
            file=self._tables["sources"].texts("path")[int(sites["source"][site])] if site >= 0 else "",
            line=int(sites["line"][site]) if site >= 0 else 0,
            function=self.names[int(sites["function"][site])] if site >= 0 else "",
            iteration=self.iteration(number),
            critical_pred=value["after"],
            work=value["work"],
            bytes=value["bytes"],
            confidence=CONFIDENCES[value["confidence"]],
        )

    def iteration(self, row: int) -> tuple[tuple[str, int], ...]:
        """Return the loop iterations around a row, outermost first: variable and value."""
        iterations = self._tables["iterations"]
        place = int(self._tables["rows"]["iteration"][self._checked(row)])
        out = []
        while place >= 0:
            out.append((self.names[int(iterations["loop"][place])], int(iterations["value"][place])))
            place = int(iterations["parent"][place])
        return tuple(reversed(out))

    def accesses(self, row: int) -> list[tuple[int, str]]:
        """The operands of a row in the instruction's order: view and role."""
        accesses, first = self._tables["accesses"], self._tables["rows"]["access"]
        low = int(first[self._checked(row)])
        high = int(first[row + 1]) if row + 1 < len(self) else len(accesses)
        views, roles = accesses["view"][low:high].tolist(), accesses["role"][low:high].tolist()
        return [(view, ROLES[role]) for view, role in zip(views, roles, strict=True)]

    def pattern(self, number: int) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
        """A row of `patterns`: dtype, sizes, steps."""
        patterns, dims = self._tables["patterns"], self._tables["dims"]
        low = int(patterns["dim"][number])
        high = low + int(patterns["rank"][number])
        dtype = self.names[int(patterns["dtype"][number])]
        return dtype, tuple(dims["size"][low:high].tolist()), tuple(dims["step"][low:high].tolist())

    def predecessors(self, row: int) -> list[tuple[int, str]]:
        """The rows that a row waits for, other than those before it on its lane, and why."""
        edges = self._tables["edges"]
        low = search(edges["row"], self._checked(row), 0, len(edges), "left")
        high = search(edges["row"], row, low, len(edges), "right")
        kinds = edges["kind"][low:high].tolist()
        return [(before, EDGE_KINDS[k]) for before, k in zip(edges["before"][low:high].tolist(), kinds, strict=True)]

    def successors(self, row: int) -> list[tuple[int, str]]:
        """The rows that wait for a row, and why. Looks through all edges."""
        edges = self._tables["edges"]
        found = np.flatnonzero(whole(edges["before"]) == self._checked(row))
        return [(int(edges["row"][place]), EDGE_KINDS[int(edges["kind"][place])]) for place in found.tolist()]

    @property
    def critical_path(self) -> Column:
        """The rows of the critical path, in order of time."""
        return self.table("critical")["row"]


def _bytes_of(table: Columns) -> Iterator[bytes]:
    yield f"{table.spec.name} {len(table)}".encode()
    for column in table.spec.columns:
        yield column.name.encode()
        if column.is_text:
            for text in table.texts(column.name):
                encoded = text.encode()
                yield len(encoded).to_bytes(8, "little") + encoded
        else:
            values = table[column.name]
            for low, high in pieces(len(table)):
                yield np.ascontiguousarray(values[low:high], values.dtype.newbyteorder("<")).tobytes()
