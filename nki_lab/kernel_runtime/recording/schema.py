"""The tables and columns of a recording, declared once.

Arrays, Parquet files, their checks and the page in the documentation are all made from `TABLES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from nki_lab.kernel_runtime.vocabulary import (
    ARRANGEMENTS,
    BUFFER_KINDS,
    CONFIDENCES,
    DESCRIPTOR_MODES,
    EDGE_KINDS,
    INDIRECTIONS,
    LANE_KINDS,
    LOOP_KINDS,
    ORIGINS,
    ROLES,
    SPACES,
)

VERSION: Final = (1, 4)
"""Major and minor number of this layout. A reader takes its own major number with any minor one: a higher minor number
only adds tables, columns with a default, and choices, or changes indices that a reader computes where they are
missing."""

FULL_EFFICIENCY: Final = 65535
"""The pace of a row whose duration is all its own work."""
LAST_PICOSECOND: Final = (1 << 62) - 1
"""The latest time, so that sums of two fit into 64 bits: 53 days."""
LARGEST: Final = 1 << 46
"""The most bytes or elements of anything, and the farthest step between two: 70 TB."""
LONGEST_TEXT: Final = 1 << 20
"""Bytes of a text, as UTF-8; those of whole files and results may be longer."""
LONGEST_FILE: Final = 1 << 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column.

    `dtype` is a NumPy integer type, "name" (a number of the table `names`, kept as `<u4`; builders may give strings)
    or "text". `to` is the table whose rows the values number. `optional` columns may hold -1 for "none"; `default` is
    what a builder need not give, None where it must. `choices` are the meanings of the values 0, 1, … `since` is the
    minor version that added the column; older recordings have its default.

    These hold of every value, built or opened: it lies between `least` and `most`, which times and sizes have by their
    unit, and of an `ordered` column it is not less than the one before. A value of a column with `into` is a place in
    that table from which on there are as many rows as the column `count` says; the place behind the last row is one
    too. A text has at most `longest` bytes.
    """

    name: str
    dtype: str
    doc: str
    unit: str = ""
    to: str = ""
    optional: bool = False
    default: int | None = None
    choices: tuple[str, ...] = ()
    since: int = 0
    least: int | None = None
    most: int | None = None
    ordered: bool = False
    into: str = ""
    count: str = ""
    longest: int = LONGEST_TEXT

    @property
    def range(self) -> tuple[int, int]:
        """The least and the greatest value that the column may hold; of one that numbers rows, whatever fits in."""
        kept = np.iinfo(self.storage)
        low, high = int(kept.min), int(kept.max)
        if self.unit == "ps":
            low, high = 0, min(high, LAST_PICOSECOND)
        elif self.unit in ("bytes", "elements"):
            low, high = max(low, -LARGEST if self.unit == "elements" else 0), min(high, LARGEST)
        elif self.choices:
            low, high = 0, len(self.choices) - 1
        elif self.to or self.into:
            low = 0
        low = low if self.least is None else self.least
        return -1 if self.optional else low, high if self.most is None else self.most

    @property
    def is_text(self) -> bool:
        return self.dtype == "text"

    @property
    def storage(self) -> np.dtype[np.integer]:
        """The dtype of the array; not for text."""
        return np.dtype("<u4" if self.dtype == "name" else self.dtype)


NUMBER: Final = "#"
"""In place of a column of a rule: the numbers of the rows themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A fault of single rows: `broken` gives, for arrays of the `columns`, which rows have it."""

    fault: str
    columns: tuple[str, ...]
    broken: Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table. A `derived` one is worked out from the others where the builder does not give it; an `index` one is
    always worked out, serves queries only and is no part of a recording's hash or size. No row breaks one of
    `rules`, and there are at most `most` rows.
    """

    name: str
    doc: str
    columns: tuple[Column, ...]
    rules: tuple[Rule, ...] = ()
    most: int = 1 << 32
    derived: bool = False
    index: bool = False

    def __getitem__(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in memory, text apart."""
        return sum(column.storage.itemsize for column in self.columns if not column.is_text)


def _c(name: str, dtype: str, doc: str, unit: str = "", **more: object) -> Column:
    if more.get("optional"):
        more.setdefault("default", -1)
    return Column(name=name, dtype=dtype, doc=doc, unit=unit, **more)  # type: ignore[arg-type]  # the fields above


def _t(
    name: str,
    doc: str,
    *columns: Column,
    rules: tuple[Rule, ...] = (),
    most: int = 1 << 32,
    derived: bool = False,
    index: bool = False,
) -> Table:
    return Table(name=name, doc=doc, columns=columns, rules=rules, most=most, derived=derived, index=index)


def _rule(fault: str, columns: str, broken: Callable[..., Any]) -> Rule:
    return Rule(fault=fault, columns=tuple(columns.split()), broken=broken)


def _is_unexplained(setup: Any, stall: Any) -> Any:
    return (setup > 0) & (stall == 0)


def _is_late(access: Any, number: Any) -> Any:
    return (number == 0) & (access > 0)


_ROWS = _t(
    "rows",
    "One executed instruction or transfer. A row's number is its place in program order.",
    _c("start", "<i8", "When it takes its lane, counted from the start of the kernel.", "ps"),
    _c("duration", "<i8", "How long it keeps its lane; rows of one lane do not overlap.", "ps"),
    _c("ready", "<i8", "When its results are visible to others; not before start.", "ps"),
    _c("setup", "<u4", "How much of the time just before start its lane spent on `setup_stall`.", "ps", default=0),
    _c("op", "<u4", "What was executed.", to="ops"),
    _c("site", "<i4", "The place in the source.", to="sites", optional=True),
    _c(
        "iteration",
        "<i4",
        "The innermost loop iteration it belongs to.",
        to="iterations",
        optional=True,
    ),
    _c(
        "access",
        "<u4",
        "Its first access; the others follow, up to the first of the next row.",
        default=0,
        into="accesses",
        ordered=True,
    ),
    _c("after", "<i4", "The row whose end let this one start.", to="rows", optional=True),
    _c("work", "<u4", "How much it computes, in the `work_unit` of its op.", default=0),
    _c("bytes", "<u4", "Bytes that it moved.", "bytes", default=0),
    _c("lane", "<u2", "Where it ran.", to="lanes"),
    _c(
        "pace",
        "<u2",
        "Its own work as a share of its duration; the rest went to `held`.",
        "1/65535",
        default=FULL_EFFICIENCY,
    ),
    _c(
        "stall",
        "u1",
        "What its lane waited for since its last row; 0: it had nothing to do.",
        to="stalls",
        default=0,
    ),
    _c("setup_stall", "u1", "What the end of the wait went to: a preparation of its own.", to="stalls", default=0),
    _c("held", "u1", "What made it take longer than its own work.", to="stalls", default=0),
    _c("confidence", "u1", "How sure its cost is.", choices=CONFIDENCES, default=len(CONFIDENCES) - 1),
    rules=(
        _rule("rows.ready is before start", "ready start", np.less),
        _rule("rows.setup without a setup_stall", "setup setup_stall", _is_unexplained),
        _rule("rows.after is the row itself", "after #", np.equal),
        _rule(
            "rows.access: the first access is not that of the first row",
            "access #",
            _is_late,
        ),
    ),
)

_RECORDED = (
    _ROWS,
    _t(
        "changes",
        "Rows with which the compiler model did something, in their order; others are executed as the program says.",
        _c("row", "<u4", "The row.", to="rows", ordered=True),
        _c("origin", "u1", "What it did.", choices=ORIGINS),
        _c(
            "stands_for",
            "<u4",
            "How many rows of the program its execution stands for, itself included; 0 of one left out or inserted.",
        ),
    ),
    _t(
        "accesses",
        "An operand of a row, in the order of the instruction's operands; in the order of the rows.",
        _c("view", "<u4", "What it touches.", to="views"),
        _c("role", "u1", "Whether it is read or written.", choices=ROLES),
    ),
    _t(
        "edges",
        "A row that must wait for another; in the order of `row`. Order within a lane needs no edge.",
        _c("row", "<u4", "The row that waits.", to="rows", ordered=True),
        _c("before", "<u4", "The row that it waits for.", to="rows"),
        _c("kind", "u1", "Why.", choices=EDGE_KINDS),
        rules=(_rule("edges: a row waits for itself", "row before", np.equal),),
    ),
    _t(
        "views",
        "A part of a buffer, as an operand addresses it.",
        _c("buffer", "<u4", "The storage.", to="buffers"),
        _c("pattern", "<u4", "Shape, steps and dtype.", to="patterns"),
        _c("offset", "<i8", "Where it begins, counted in its dtype from the buffer's start.", "elements"),
        _c("indirect", "u1", "How run-time indices move it.", choices=INDIRECTIONS, default=0),
        _c("index", "<i4", "The tensor that holds its run-time indices.", to="views", optional=True, since=2),
    ),
    _t(
        "patterns",
        "A shape with steps and a dtype.",
        _c("dtype", "name", "Element type.", to="names"),
        _c(
            "dim",
            "<u4",
            "Its first dimension; on-chip that is the partition dimension.",
            into="dims",
            count="rank",
        ),
        _c("rank", "u1", "How many dimensions it has.", most=32),
    ),
    _t(
        "dims",
        "A dimension of a pattern.",
        _c("size", "<i8", "How many elements.", "elements", least=0),
        _c("step", "<i8", "How far from one to the next.", "elements"),
    ),
    _t(
        "buffers",
        "An allocation.",
        _c("name", "name", "The user's name for it; empty where there is none.", to="names"),
        _c("space", "u1", "The memory it is in.", choices=SPACES),
        _c("kind", "u1", "What it is to the kernel.", choices=BUFFER_KINDS, default=0),
        _c("pattern", "<i4", "Its shape and dtype.", to="patterns", optional=True),
        _c("partition", "<i2", "First partition it was given on-chip.", optional=True),
        _c("partitions", "<i4", "Partitions it takes; 1 in HBM.", default=1, least=0, most=1 << 15),
        _c("byte", "<i8", "First byte it was given, within each partition.", "bytes", optional=True),
        _c("partition_bytes", "<i8", "Bytes it takes in each partition.", "bytes"),
        _c("site", "<i4", "Where it was made.", to="sites", optional=True),
        _c("core", "<u2", "The NeuronCore in whose memory it is; 0 for shared HBM.", default=0),
    ),
    _t(
        "lanes",
        "Something that runs one row at a time: an engine or a DMA queue. In drawing order.",
        _c("name", "name", "Engine or queue: tensor, vector, scalar, gpsimd, sync, dma q0.", to="names"),
        _c("kind", "u1", "What it is.", choices=LANE_KINDS),
        _c("core", "<u2", "The NeuronCore it belongs to; those of several ranks are counted on.", default=0),
        _c("rank", "<u2", "The rank that it belongs to.", default=0, since=4),
        most=1 << 14,
    ),
    _t(
        "stalls",
        "A reason to wait. The first is no wait at all.",
        _c("name", "name", "What is waited for.", to="names"),
        most=1 << 8,
    ),
    _t(
        "ops",
        "An instruction with its attributes.",
        _c("name", "name", "The instruction as NKI spells it.", to="names"),
        _c("detail", "name", "Its attributes and operand types, as text.", to="names", default=0),
        _c(
            "work_unit",
            "name",
            "The unit of its rows' `work`; empty where it is unknown.",
            to="names",
            default=0,
            since=1,
        ),
        _c(
            "operands",
            "name",
            "The names of its operands in the order of its rows' accesses, with spaces between.",
            to="names",
            default=0,
            since=2,
        ),
        _c("arrangement", "u1", "Where elements of its result come from.", choices=ARRANGEMENTS, default=0, since=2),
        _c("stationary", "i1", "Which operand the PE array holds, from 0.", optional=True, since=2),
        _c("moving", "i1", "Which operand streams through the PE array, from 0.", optional=True, since=2),
        _c("mode", "u1", "Who writes its descriptors.", choices=DESCRIPTOR_MODES, default=0, since=2),
        _c("descriptors", "<u4", "How many descriptors it has; 0: it is no transfer.", default=0, since=2),
        _c("descriptor_bytes", "<u4", "The contiguous run that each of them moves.", "bytes", default=0, since=2),
        _c("engines", "<u4", "The DMA engines of its core that take part, as bits.", default=0, since=2),
        _c(
            "cadence",
            "<i8",
            "From one such transfer to the next where they follow each other without a pause.",
            "ps",
            default=0,
            since=2,
        ),
        _c(
            "making",
            "<u4",
            "How long the generator of its descriptors is busy with them, from the row's time in `triggers` on.",
            "ps",
            default=0,
            since=2,
        ),
    ),
    _t(
        "sites",
        "A place in the source.",
        _c("source", "<u4", "The file.", to="sources"),
        _c("line", "<i4", "First line, from 1.", least=0),
        _c("column", "<i4", "UTF-8 bytes before it on that line.", default=0, least=0),
        _c("end_line", "<i4", "Last line.", default=0, least=0),
        _c("end_column", "<i4", "UTF-8 bytes up to its end on that line.", default=0, least=0),
        _c("function", "name", "The function around it.", to="names", default=0),
    ),
    _t(
        "sources",
        "A source file.",
        _c("path", "text", "Where it was read."),
        _c("text", "text", "Its content; empty where that is unknown.", longest=LONGEST_FILE),
    ),
    _t(
        "iterations",
        "An iteration of a loop.",
        _c("parent", "<i4", "The iteration of the loop around it.", to="iterations", optional=True),
        _c("loop", "name", "The loop's variable.", to="names"),
        _c("value", "<i8", "The variable's value in this iteration."),
        _c("site", "<i4", "Where the loop stands.", to="sites", optional=True),
        _c("kind", "u1", "Where the loop runs.", choices=LOOP_KINDS, default=0, since=4),
        rules=(_rule("iterations: an iteration within a later one", "parent #", np.greater_equal),),
    ),
    _t(
        "names",
        "A text that other tables refer to. The first is empty.",
        _c("text", "text", "It."),
    ),
    _t(
        "summary",
        "A result for the whole run.",
        _c("name", "text", "What it is."),
        _c("json", "text", "Its value, as JSON.", longest=LONGEST_FILE),
    ),
)

_DERIVED = (
    _t(
        "triggers",
        "When the descriptors of a transfer begin to be made, for those rows whose generator is known. Empty where a"
        " profile does not give it.",
        _c("row", "<u4", "The transfer.", to="rows"),
        _c("start", "<i8", "When its generator begins with it.", "ps"),
        derived=True,
    ),
    _t(
        "exchanges",
        "The part of a rank in a call of a collective; in the order of `call`, then of `rank`. Empty of a run of one"
        " rank.",
        _c("call", "<u4", "The call; the ranks that exchange data in it have one number."),
        _c("rank", "<u2", "The rank."),
        _c("what", "name", "The collective.", to="names"),
        _c("source", "<i4", "The rank that it receives from, -1: from all others, -2: from none.", default=-1),
        _c("sent", "<i8", "When its data is there.", "ps"),
        _c("sends", "<i4", "The row whose result is the last of it.", to="rows", optional=True),
        _c("row", "<i4", "The first row that brings what arrives.", to="rows", optional=True),
        _c("bytes", "<i8", "Bytes that it hands in.", "bytes", default=0),
        derived=True,
    ),
    _t(
        "lifetimes",
        "When a buffer is in use, from its first access to the end of its last; in the order of `start`.",
        _c("buffer", "<u4", "The buffer.", to="buffers"),
        _c("start", "<i8", "Start of its first access.", "ps", ordered=True),
        _c("end", "<i8", "When the last read of it ends and the last write to it is visible.", "ps"),
        _c("first", "<i4", "First row that accesses it.", to="rows", optional=True),
        _c("last", "<i4", "Last row that accesses it.", to="rows", optional=True),
        rules=(_rule("lifetimes.end is before start", "start end", np.greater),),
        derived=True,
    ),
    _t(
        "usage",
        "Memory in use from a time on, until the next row's time.",
        _c("time", "<i8", "From when on.", "ps", ordered=True),
        _c("sbuf", "<i8", "Bytes in use in the fullest partition of any core's SBUF.", "bytes"),
        _c("psum", "<i8", "The same of PSUM.", "bytes"),
        derived=True,
    ),
    _t(
        "critical",
        "The critical path, from the first row to the one that ends last.",
        _c("row", "<u4", "A row on it.", to="rows"),
        derived=True,
    ),
)

_INDICES = (
    _t(
        "steps",
        "Rows in order of start, equal ones in program order. A step is a place in this order.",
        _c("row", "<u4", "The row of this step.", to="rows"),
        index=True,
    ),
    _t(
        "lane_rows",
        "Rows by lane, within a lane in order of start, with what a timeline draws of them.",
        _c("row", "<u4", "The row.", to="rows"),
        _c("start", "<i8", "Its start.", "ps"),
        _c("duration", "<i8", "Its duration.", "ps"),
        _c("wait", "<i8", "How long its lane waited before it, `setup` included.", "ps"),
        _c("setup", "<u4", "Its setup.", "ps"),
        _c("stall", "u1", "Its stall.", to="stalls"),
        _c("setup_stall", "u1", "Its setup's.", to="stalls"),
        index=True,
    ),
    _t(
        "lane_spans",
        "Where each lane's rows lie in `lane_rows`; in the order of `lanes`.",
        _c("first", "<u4", "Place of its first row.", into="lane_rows", count="rows"),
        _c("rows", "<u4", "How many rows it has."),
        index=True,
    ),
    _t(
        "lane_sums",
        "Time per bucket and lane, exact, at several widths; without zeros. By level, bucket, lane, reason.",
        _c("bucket", "<u4", "Which bucket, from time 0 on."),
        _c("lane", "<u2", "The lane.", to="lanes"),
        _c("reason", "u1", "0: work. Else the stall that was waited for.", to="stalls"),
        _c("time", "<i8", "Work or wait within it.", "ps"),
        _c("rows", "<u4", "Rows that start in it, in the entry of their work."),
        index=True,
    ),
    _t(
        "lane_sum_levels",
        "Where the buckets of one width lie in `lane_sums`, from fine to coarse.",
        _c("shift", "u1", "The buckets are 2 to this power picoseconds wide.", most=62, ordered=True),
        _c("first", "<u4", "Place of the first entry.", into="lane_sums", count="entries"),
        _c("entries", "<u4", "How many entries."),
        index=True,
    ),
)

TABLES: Final = MappingProxyType({table.name: table for table in (*_RECORDED, *_DERIVED, *_INDICES)})


def markdown() -> str:
    """The schema as the tables of a document."""
    out = []
    for table in TABLES.values():
        out += [f"## `{table.name}`", "", table.doc]
        if table.derived:
            out[-1] += " Worked out from the other tables where a profile does not give it."
        if table.index:
            out[-1] += " An index: worked out for queries."
        out += ["", "| column | type | unit | meaning |", "|-|-|-|-|"]
        out += [f"| `{c.name}` | {_type_text(c)} | {c.unit} | {_meaning(c)} |" for c in table.columns]
        out.append("")
    return "\n".join(out)


def _type_text(column: Column) -> str:
    if column.is_text:
        return "text"
    storage = column.storage
    return f"{'u' if storage.kind == 'u' else ''}int{8 * storage.itemsize}"


def _meaning(column: Column) -> str:
    text = column.doc
    if column.choices:
        text += " " + ", ".join(f"{number} {name}" for number, name in enumerate(column.choices)) + "."
    if column.to:
        text += f" Row of `{column.to}`" + (", -1 for none." if column.optional else ".")
    elif column.optional:
        text += " -1: none."
    return text
