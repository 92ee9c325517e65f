"""The types of a message's header. `scripts/views_schema.py` derives the page's types from these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict


class Capacity(TypedDict):
    """Bytes of a partition of each memory, partitions, and the bytes a second that HBM gives to the cores of the run,
    which MBU is a share of; zeros where the target is unknown. Messages of older versions have no `hbm`."""

    sbuf: int
    psum: int
    psumBank: int
    partitions: int
    hbm: NotRequired[int]


class Efficiency(TypedDict):
    """The share of the full DMA rate that loads with one run of these `bytes` a partition reach, back to back."""

    bytes: list[int]
    shares: list[float]


class Machine(TypedDict):
    """Facts of the target: the PE array, the DMA engines of a core, the rate of each in bytes a nanosecond."""

    arrayRows: int
    arrayColumns: int
    dmaEngines: int
    dmaEngineRate: float
    dmaEfficiency: Efficiency


class LaneName(TypedDict):
    """A lane; `kind` is one of the lane kinds. Messages of older versions have no `rank`, which is then 0."""

    name: str
    kind: str
    core: int
    rank: NotRequired[int]


class LoopFigures(TypedDict):
    """A loop with its figures, as `nki_lab.kernel_runtime.recording.loops.Loop` has them, times in picoseconds.

    `parent` is a place in the list of loops, -1: none. `source` is -1 and `line` 0 where they are unknown.
    """

    variable: str
    kind: str
    parent: int
    depth: int
    core: int
    source: int
    line: int
    executions: int
    iterations: int
    begin: int
    end: int
    warm_up: int
    outliers: int
    steady: bool
    interval: int
    mean: float
    spread: float
    representative: int


class Source(TypedDict):
    """A source file; its text is empty where it is unknown."""

    path: str
    text: str


class Finding(TypedDict):
    """A diagnostic as `nki-lab check --format json` prints it."""

    code: str
    outcome: str
    severity: str
    message: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    help: str


class PathTime(TypedDict):
    """The time of the critical path: work by engine ("dma" is all queues), waits by reason. They add up to the
    makespan, the largest first."""

    work: Mapping[str, int]
    waits: Mapping[str, int]


class LaneTime(TypedDict):
    """The time of a lane: `busy`, all `waits` and `empty` add up to the makespan.

    `busy` is the time in which it executes; `critical` and `slowed` are parts of that. `slowed`, by reason, is missing
    in messages of 0.1, whose `busy` is less by it. Waits are by reason, the longest first.
    """

    busy: int
    critical: int
    slowed: NotRequired[Mapping[str, int]]
    waits: Mapping[str, int]
    empty: int
    rows: int


class LineTime(TypedDict):
    """The time of a line: on the critical path, on all lanes, its rows, and the lane with most of that time."""

    source: int
    line: int
    critical: int
    busy: int
    rows: int
    lane: int


class Part(TypedDict):
    """A part of a sentence: `text`, or a `share` of 1 in its place.

    Where the text names a lane, `hue` is its kind. `waiting` is the step that waits for what the text names, `line` the
    line of the source file `source`.
    """

    text: NotRequired[str]
    share: NotRequired[float]
    hue: NotRequired[str]
    waiting: NotRequired[int]
    source: NotRequired[int]
    line: NotRequired[int]


class Sentence(TypedDict):
    """A sentence about what holds the run back."""

    parts: list[Part]


class Header(TypedDict):
    """The words and single numbers of a message about a whole run.

    Of the `steps`, `instructions` are executed: the compiler model leaves the others out; messages of older versions
    have no such number. `fault` is the step at which the run failed, -1: it did not; where `fault_after` is true, it
    failed after that step, before another instruction was issued. `dma_busy` is, by core, the time in which any DMA
    queue executes, and `dma_waiting` the time in which none does before one will. Messages of older versions have
    neither, no `bottlenecks` and no `machine`, which is missing of unknown targets too.
    `core_names` has the words for each core where there are several: "core 1", "rank 2". `loops` are those of the run,
    outer ones before inner ones; the table `iterations` numbers them. Messages of older versions have neither.
    `coarse` says that the message has lanes and their sums alone, and that another one with the whole run follows.
    Stretches of the table `zoom`, where there is one, are 2 to the power `zoom_shift` picoseconds wide.
    """

    kernel: str
    target: str
    makespan: int
    steps: int
    instructions: NotRequired[int]
    fault: int
    fault_after: NotRequired[bool]
    capacity: Capacity
    machine: NotRequired[Machine]
    lanes: list[LaneName]
    stalls: list[str]
    names: list[str]
    sources: list[Source]
    summary: Mapping[str, object]
    findings: list[Finding]
    path: PathTime
    lane_times: list[LaneTime]
    dma_busy: NotRequired[Mapping[str, int]]
    dma_waiting: NotRequired[Mapping[str, int]]
    lines: list[LineTime]
    bottlenecks: NotRequired[list[Sentence]]
    core_names: NotRequired[Mapping[str, str]]
    loops: NotRequired[list[LoopFigures]]
    zoom_shift: NotRequired[int]
    coarse: NotRequired[bool]


class RunAbout(TypedDict):
    """The facts of a run in a list: `makespan` in picoseconds, the bounds of its 80 % interval, which those of older
    versions do not have, and how many equal runs in a row it stands for."""

    kernel: str
    target: str
    makespan: int
    interval: NotRequired[list[int]]
    instructions: int
    failed: bool
    times: int


class ValueCounts(TypedDict):
    """How many elements are what; each but `unwritten` only of those that were written."""

    nan: int
    inf: int
    saturated: int
    subnormal: int
    zero: int
    unwritten: int


class ErrorFigures(TypedDict):
    """The relative error of finite elements: the largest, where that is (row and column), and the mean."""

    largest: float
    row: int
    column: int
    mean: float


class IndexUseHeader(TypedDict):
    """Instructions that take a tile's values as run-time indices; see `nki_lab.kernel_runtime.protocols.IndexUse`."""

    view: int
    steps: list[int]
    values: list[int]
    written: bool
    stride: int
    lowest: int
    highest: int


class ValuesHeader(TypedDict):
    """The words and single numbers of a message of a tile's values.

    The tile is seen as `rows` (its first `lead` dimensions: the partitions, in HBM all but the last) of `columns`. A
    cell stands for `row_bin` × `column_bin` elements. `when` is one of `VALUE_TIMES`; `against` names a reference,
    empty without one. Of floats, elements are saturated from `largest` on, and subnormal below `smallest`; both are 0
    where a dtype has no such thing. `digits` are those that tell all numbers of the dtype apart, `mantissa` its stored
    bits; `width` is the number of bits of an element. `low` and `high` are the least and the greatest finite element,
    missing where there is none, and the ends of the histogram. `block` is how many rows and columns share a scale,
    empty without scales. `excerpt` is where the table `excerpt` begins, and its rows and columns. `indices` are those
    that instructions take of a tile that was pinned.
    """

    request: int
    step: int
    buffer: int
    when: str
    against: str
    references: list[str]
    dtype: str
    kind: str
    shape: list[int]
    lead: int
    rows: int
    columns: int
    row_bin: int
    column_bin: int
    width: int
    digits: int
    mantissa: int
    largest: float
    smallest: float
    counts: ValueCounts
    low: NotRequired[float]
    high: NotRequired[float]
    mean: NotRequired[float]
    std: NotRequired[float]
    error: NotRequired[ErrorFigures]
    block: list[int]
    excerpt: list[int]
    written_known: bool
    indices: NotRequired[list[IndexUseHeader]]


class Change(TypedDict):
    """An amount of two runs in its unit: "ps", "bytes", "count" or "share" of 1; null where a run does not have it.

    `name` is a kind of lane or a reason to wait where the table is of these. `within_error` is missing where no error
    is known.
    """

    name: str
    label: str
    unit: str
    before: float | None
    after: float | None
    within_error: NotRequired[bool]


class EngineChange(TypedDict):
    """The time in which an engine of all cores executes, and in which it waits."""

    busy: Change
    waiting: Change


class PlaceChange(TypedDict):
    """A line of source in both runs: line 0 says that a run has no such line, an empty file that no line accounts
    for it. `critical` is its time on the critical path, `rows` its instructions."""

    file: str
    line: int
    text: str
    other_file: str
    other_line: int
    other_text: str
    state: str
    critical: NotRequired[Change]
    rows: NotRequired[Change]


class ComparisonHeader(TypedDict):
    """The words and single numbers of a message that compares two runs; their own messages go beside it.

    `labels` tell the runs apart in a few words, `sides` say what each is. `work` is by kind of lane, `waits` by
    reason: both are of the critical path, and add up to the latency. `stalls` are the waits of all lanes.
    """

    sentence: str
    notes: list[str]
    labels: list[str]
    sides: list[str]
    same_kernel: bool
    latency: Change
    work: list[Change]
    waits: list[Change]
    engines: list[EngineChange]
    stalls: list[Change]
    memory: list[Change]
    lines: list[PlaceChange]
    edits: list[PlaceChange]
    paired: int
    only_before: int
    only_after: int
    loops: list[str]
