"""A Neuron Explorer profile as a recording, so that what a device did opens in the same views.

The recording has instructions and transfers with their times, waits, places in the source and bytes; dependencies;
memory in use and allocations; tensors; the profile's own summary and metadata, under "profile" in its summary.
Three things are inferred. Rows that overlap on an engine or a queue (a device pipelines) get lanes of their own,
"vector 2" beside "vector". Program order is order of start. The critical predecessor of a row is the last to end of the
rows that it depends on and the one before it on its lane.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from nki_lab.export.explorer.operands import PARTITIONS
from nki_lab.export.explorer.profile import (
    ProfileTable,
    Texts,
    critical_predecessors,
    lane_name,
    lanes_of,
    open_profile,
    sites_of,
    unreadable,
)
from nki_lab.export.explorer.tables import DEPENDENCIES, INSTRUCTION, TRANSFER
from nki_lab.export.explorer.totals import SUMMARY_FIELDS, known_arch
from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime.recording import Recording, derive, schema
from nki_lab.kernel_runtime.recording.columns import Array
from nki_lab.kernel_runtime.vocabulary import CONFIDENCES, EDGE_KINDS, SPACES
from nki_lab.printable import on_one_line

STALLS: Final = ("none", "semaphore")
MOST_OPS: Final = 65_536
"""Different instructions with operands; beyond this number, operands are left out."""
SAMPLED: Final = 32
"""Partitions that a sampled partition of SbufAllocation stands for."""
_NONE: Final = np.zeros(0, np.int64)
_EDGE_KINDS: Final = {text: kind for kind, text in reversed([*enumerate(DEPENDENCIES)])}  # of alike texts the first
_MOST: Final = np.iinfo(np.uint32).max
_LAST: Final = schema.LAST_PICOSECOND // 1000


def read_profile(path: str | os.PathLike[str]) -> Recording:
    """Return the profile in the folder `path`. Raises NKI018 where there is none, NKI019 if it cannot be read."""
    folder = Path(path)
    return _Reader(folder, open_profile(folder)).read()


@dataclass(slots=True, kw_only=True)
class _Events:
    """Rows of one table before they are put in order: nanoseconds, and the names of lanes and ops as texts."""

    table: str
    identity: Array
    start: Array
    end: Array
    lane: list[tuple[int, str]]
    name: Texts
    detail: Texts
    place: list[str]
    wait: Array
    work: Array
    bytes: Array
    is_dma: bool


class _Reader:
    def __init__(self, folder: Path, tables: dict[str, ProfileTable]) -> None:
        self._folder = folder
        self._tables = tables
        self._given: dict[str, dict[str, Any]] = {}

    def read(self) -> Recording:
        events = [self._instructions(), self._transfers()]
        given = [event for event in events if event is not None]
        present = [event for event in given if len(event.start)]
        metadata, results = self._one_row("Metadata"), self._one_row("Summary")
        simulated = metadata.get("is_simulation") is True
        if not present and not simulated:
            raise unreadable(self._folder, "the profile has no instructions and no transfers")
        base, end = self._bounds(present, metadata if simulated else {})
        self._given |= self._rows(present or given, base, "guess" if simulated else "measured")
        self._flows(present)
        arch = known_arch(str(metadata.get("instance_type", "")).partition(".")[0])
        self._buffers(base)
        self._usage(arch, base)
        try:
            return Recording(self._given, self._summary(metadata, results, arch), 1000 * (end - base))
        except ValueError as error:
            raise unreadable(self._folder, f"the tables do not fit together: {error}") from error

    def _bounds(self, present: list[_Events], metadata: dict[str, Any]) -> tuple[int, int]:
        """Return when the run begins and ends, in nanoseconds: with its first row and its last one, or before and
        after them where the `metadata` of a simulation say so. The clock of a device's metadata is another one.
        """
        known = [metadata.get(name) for name in ("first_hw_timestamp", "last_hw_timestamp")]
        told = [time for time in known if isinstance(time, int) and 0 <= time <= _LAST]
        first = told if len(told) == len(known) else []
        base = min([*(int(event.start.min()) for event in present), *first], default=0)
        end = max([*(max(int(event.start.max()), int(event.end.max())) for event in present), *first], default=base)
        if base < 0 or end - base > _LAST or any(int(event.end.min()) < 0 for event in present):
            raise unreadable(self._folder, f"damaged: times from {base} to {end} ns are no run")
        return base, end

    # Rows

    def _instructions(self) -> _Events | None:
        table = self._tables.get("Instruction")
        if table is None:
            return None
        table.require("start_ts", "engine", "opcode")
        start, end = _span(table)
        cores, tracks = table.numbers("pcore_idx").tolist(), _first_known(table, "timeline_track", "engine")
        places = _first_known(table, "nki_source_location", "bir_debug_info_source_location")
        return _Events(
            table=INSTRUCTION,
            identity=table.numbers("id", -1),
            start=start,
            end=end,
            lane=list(zip(cores, map(lane_name, tracks), strict=True)),
            name=table.texts("opcode"),
            detail=table.texts("operands"),
            place=places,
            wait=table.numbers("evt_wait_time_ns"),
            work=table.numbers("raw_flops") // 2,
            bytes=table.numbers("hbm_read_bytes") + table.numbers("hbm_write_bytes"),
            is_dma=False,
        )

    def _transfers(self) -> _Events | None:
        """Aggregated transfers, or where there are none the packets."""
        table = self._tables.get("DmaPacketAggregated", self._tables.get("DmaPacket"))
        if table is None:
            return None
        table.require("start_ts", "transfer_bytes")
        start, end = _span(table)
        cores, queues = table.numbers("pcore_idx").tolist(), table.texts("queue_name").all()
        none = np.zeros(len(table), np.int64)
        return _Events(
            table=TRANSFER,
            identity=table.numbers("id", -1),
            start=start,
            end=end,
            lane=[(core, queue or "dma") for core, queue in zip(cores, queues, strict=True)],
            name=table.texts("op"),
            detail=table.texts("variable"),
            place=[""] * len(table),
            wait=none,
            work=none,
            bytes=table.numbers("transfer_bytes"),
            is_dma=True,
        )

    def _rows(self, events: list[_Events], base: int, confidence: str) -> dict[str, dict[str, Any]]:
        start = 1000 * (np.concatenate([one.start for one in events]) - base)
        duration = 1000 * np.concatenate([np.maximum(one.end - one.start, 0) for one in events])
        lane, lanes = lanes_of([(one.is_dma, *key) for one in events for key in one.lane], start, duration)
        op, ops = self._ops(events)
        site, sites, sources = sites_of([place for one in events for place in one.place])
        order = np.lexsort((np.arange(len(start)), start))
        self._row_of = np.empty(len(order), np.int64)
        self._row_of[order] = np.arange(len(order))
        columns: dict[str, Array] = {
            "start": start[order],
            "duration": duration[order],
            "lane": lane[order],
            "op": op[order],
            "site": site[order],
            "confidence": np.full(len(order), CONFIDENCES.index(confidence)),
        }
        for name in ("work", "bytes"):
            columns[name] = np.clip(np.concatenate([getattr(one, name) for one in events])[order], 0, _MOST)
        wait = 1000 * np.clip(np.concatenate([one.wait for one in events])[order], 0, _LAST)
        columns |= self._waits(columns, wait, len(lanes["name"]))
        return {
            "rows": columns,
            "lanes": lanes,
            "ops": ops,
            "sites": sites,
            "sources": sources,
            "stalls": {"name": STALLS},
        }

    def _waits(self, rows: dict[str, Array], wait: Array, lanes: int) -> dict[str, Array]:
        """`stall` where a wait takes up the whole gap before a row, else `setup`, for its last part."""
        places, firsts = derive.lane_rows(rows["lane"], rows["start"], rows["duration"], lanes)
        gap = np.zeros(len(wait), np.int64)
        gap[places] = derive.gaps(places, firsts, rows["start"], rows["duration"])
        first = places[firsts[firsts < len(places)]]
        wait = np.minimum(wait, gap)
        whole_gap = (wait == gap) & (gap > 0)
        part = np.where(whole_gap, 0, np.minimum(wait, _MOST))
        self._previous = np.full(len(wait), -1)
        self._previous[places[1:]] = places[:-1]
        self._previous[first] = -1
        return {"stall": whole_gap.astype(int), "setup": part, "setup_stall": (part > 0).astype(int)}

    def _ops(self, events: list[_Events]) -> tuple[Array, dict[str, Any]]:
        numbers: dict[tuple[str, str], int] = {}
        columns = []
        for one in events:
            # Texts by number: pairs of numbers are few, rows are many.
            pairs, place = np.unique(np.stack((one.name.codes, one.detail.codes)), axis=1, return_inverse=True)
            if pairs.shape[1] > MOST_OPS:
                pairs[1] = -1
            found = []
            for name, detail in pairs.T.tolist():
                text = one.name.values[name] if name >= 0 else ""
                key = (f"dma {text}".strip() if one.is_dma else text, one.detail.values[detail] if detail >= 0 else "")
                found.append(numbers.setdefault(key, len(numbers)))
            columns.append(np.array(found, np.int64)[place.reshape(-1)])
        return np.concatenate(columns), {"name": [name for name, _ in numbers], "detail": [text for _, text in numbers]}

    def _flows(self, events: list[_Events]) -> None:
        """Edges of rows that are there, and from them each row's critical predecessor."""
        rows = self._given["rows"]
        edges = dict.fromkeys(("row", "before", "kind"), _NONE)
        table = self._tables.get("Flow")
        if table is not None:
            table.require("in_id", "out_id", "in_table", "out_table")
            finder = _RowFinder(events, self._row_of)
            before = finder.find(table.texts("in_table"), table.numbers("in_id"))
            after = finder.find(table.texts("out_table"), table.numbers("out_id"))
            kinds = table.texts("dependency_type")
            number = np.array([_EDGE_KINDS.get(text, EDGE_KINDS.index("user")) for text in (*kinds.values, "")])[
                kinds.codes
            ]
            known = (before >= 0) & (after >= 0) & (before != after)
            order = np.lexsort((before[known], after[known]))
            edges = {
                name: column[known][order] for name, column in (("row", after), ("before", before), ("kind", number))
            }
        self._given["edges"] = edges
        rows["after"] = critical_predecessors(rows, edges, self._previous)

    # Memory

    def _buffers(self, base: int) -> None:
        columns: dict[str, list[object]] = {
            name: [] for name in ("name", "space", "kind", "partition", "partitions", "byte", "partition_bytes", "core")
        }
        lifetimes: dict[str, list[int]] = {name: [] for name in ("buffer", "start", "end")}
        tensors = self._tables.get("TensorInfo")
        if tensors is not None:
            kinds = [("in", 1), ("out", 2), ("weight", 3)]
            for name, text, size in zip(
                tensors.texts("variable_name").all(),
                tensors.texts("type").all(),
                tensors.numbers("size").tolist(),
                strict=True,
            ):
                kind = next((number for word, number in kinds if word in text.lower()), 0)
                _append(columns, name, SPACES.index("shared_hbm"), kind, -1, 1, -1, max(size, 0), 0)
        allocations = self._tables.get("SbufAllocation")
        if allocations is not None:
            allocations.require("start_ts", "end_ts", "start_address", "end_address", "partition")
            for (start, end, low, high, core, name), partitions in _alike(allocations).items():
                first, last = min(partitions), max(partitions)
                lifetimes["buffer"].append(len(columns["name"]))
                begin = max(0, 1000 * (start - base))
                lifetimes["start"].append(begin)
                lifetimes["end"].append(max(begin, 1000 * (end - base)))
                _append(columns, name, 0, 0, first, last - first + SAMPLED, low, max(0, high - low + 1), core)
        if max(lifetimes["end"], default=0) > schema.LAST_PICOSECOND:
            raise unreadable(self._folder, "damaged: times of SbufAllocation are beyond those of a run")
        order = np.argsort(np.array(lifetimes["start"], np.int64), kind="stable")
        self._given["buffers"] = columns
        self._given["lifetimes"] = {name: np.array(values, np.int64)[order] for name, values in lifetimes.items()}

    def _usage(self, arch: Arch | None, base: int) -> None:
        """Memory in use, from percentages of the chip's memory; unknown where the chip is."""
        levels: dict[str, tuple[Array, Array]] = {"sbuf": (_NONE, _NONE), "psum": (_NONE, _NONE)}
        if arch is not None:
            banks = range(arch.psum_banks)
            for name, table, fields, capacity, combined in (
                ("sbuf", "SbufUsage", [f"partition_{n}" for n in PARTITIONS], arch.sbuf_partition_bytes, np.max),
                ("psum", "PsumUsage", [f"bank_{n}" for n in banks], arch.psum_bank_bytes, np.sum),
            ):
                if found := self._tables.get(table):
                    used = np.stack([found.fractions(f"{field}_util_percent") for field in fields]) * capacity / 100
                    level = np.round(combined(np.clip(np.nan_to_num(used), 0, schema.LARGEST), axis=0)).astype(np.int64)
                    time = 1000 * np.clip(np.maximum(found.numbers("timestamp"), base) - base, 0, _LAST)
                    levels[name] = _fullest(time, level, found.numbers("pcore_idx"))
        usage = {"time": np.unique(np.concatenate([time for time, _ in levels.values()]))}
        for name, (time, level) in levels.items():
            usage[name] = _at(usage["time"], time, level)
        self._given["usage"] = usage

    # The rest

    def _one_row(self, name: str) -> dict[str, Any]:
        table = self._tables.get(name)
        return table.first_row() if table is not None else {}

    def _summary(self, metadata: dict[str, Any], results: dict[str, Any], arch: Arch | None) -> dict[str, Any]:
        version = str(metadata.get("profile_schema_version", "unknown"))
        summary: dict[str, Any] = {
            "kernel": str(metadata.get("profile_name") or on_one_line(self._folder.name)),
            "source": f"Neuron Explorer profile, schema {version}",
            "instructions": len(self._given["rows"]["start"]),
            "profile": {"Metadata": metadata, "Summary": results},
        }
        if metadata.get("is_simulation") is True:
            summary["simulated"] = True
        if arch is not None:
            summary["target"] = arch.target
        for name, field, factor in SUMMARY_FIELDS:
            if isinstance(value := results.get(field), int | float) and not isinstance(value, bool):
                summary[name] = value * factor
        return summary


class _RowFinder:
    """Rows by the profile's table and number."""

    def __init__(self, events: list[_Events], row_of: Array) -> None:
        self._tables: dict[str, tuple[Array, Array]] = {}
        first = 0
        for one in events:
            order = np.argsort(one.identity, kind="stable")
            self._tables[one.table] = one.identity[order], row_of[first + order]
            first += len(one.identity)

    def find(self, table: Texts, number: Array) -> Array:
        """The row of each pair; -1 where there is none."""
        out = np.full(len(number), -1)
        for code, text in enumerate(table.values):
            identity, rows = self._tables.get(text.lower(), (_NONE, _NONE))
            mine = np.flatnonzero(table.codes == code)
            if len(mine) and len(identity):
                place = np.minimum(np.searchsorted(identity, number[mine]), len(identity) - 1)
                out[mine] = np.where(identity[place] == number[mine], rows[place], -1)
        return out


def _fullest(time: Array, level: Array, core: Array) -> tuple[Array, Array]:
    """Return the times of all cores in order, and what is in use in the fullest one from each on."""
    order = np.argsort(time, kind="stable")
    time, level, core = time[order], level[order], core[order]
    times = np.unique(time)
    cores = [_at(times, time[core == one], level[core == one]) for one in np.unique(core).tolist()]
    return times, np.max(cores, axis=0, initial=0) if cores else times


def _at(times: Array, known: Array, level: Array) -> Array:
    """Return the level at some times: the one of the last time that is known by then, 0 before the first."""
    return np.concatenate(([0], level))[np.searchsorted(known, times, "right")]


def _first_known(table: ProfileTable, *fields: str) -> list[str]:
    """Return the text of each row in the first of some fields that has one."""
    return [first or second for first, second in zip(*(table.texts(name).all() for name in fields), strict=True)]


def _span(table: ProfileTable) -> tuple[Array, Array]:
    start = table.numbers("start_ts")
    if "end_ts" in table.fields:
        return start, table.numbers("end_ts")
    table.require("duration_ns")
    return start, start + table.numbers("duration_ns")


def _alike(table: ProfileTable) -> dict[tuple[int, int, int, int, int, str], list[int]]:
    """Sampled partitions of the allocations that are alike but for their partition."""
    out: dict[tuple[int, int, int, int, int, str], list[int]] = {}
    fields = [table.numbers(name) for name in ("start_ts", "end_ts", "start_address", "end_address", "partition")]
    cores = np.clip(table.numbers("pcore_idx"), 0, np.iinfo(np.uint16).max)
    columns = [field.tolist() for field in (*fields, cores)]
    for start, end, low, high, partition, core, name in zip(*columns, table.texts("tensor_name").all(), strict=True):
        out.setdefault((start, end, low, high, core, name), []).append(partition)
    return out


def _append(columns: dict[str, list[object]], *values: object) -> None:
    for column, value in zip(columns.values(), values, strict=True):
        column.append(value)
