"""A recording as a Neuron Explorer profile: a folder with one Parquet file a table.

Times are the nearest nanoseconds, as the schema has whole ones; rows of a lane stay apart. A transfer is one row of
DmaPacketAggregated and one packet: the model does not cut transfers into descriptors. What a recording does not know
is null, or a neutral value where the profile's schema wants one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import numpy as np

from nki_lab.export.explorer import operands, totals
from nki_lab.export.explorer.tables import DEPENDENCIES, ENGINES, INSTRUCTION, TABLES, TRANSFER, VERSION, arrow_schema
from nki_lab.export.files import replacing_folder
from nki_lab.export.findings import queues, source_lines
from nki_lab.export.perfetto import dma_rate
from nki_lab.extras import extra
from nki_lab.file_system import arrow_path
from nki_lab.kernel_runtime.recording import Lane, Recording
from nki_lab.kernel_runtime.recording.columns import Array, pieces
from nki_lab.quantities import in_nanoseconds

Batch = Mapping[str, Any]

_ROWS = 1 << 15
_ALWAYS: Final = "Instruction"
"""The table that is written without rows too, since readers know a profile by it; others are left out then."""
_SIDE_FIELDS: Final = {
    "sbuf_partitions": "partitions", "num_sbuf_partitions": "partition_count", "shape": "shape", "offset": "offset",
    "steps": "steps",
}  # fmt: skip
"""Fields of a transfer's end in the table DmaPacketAggregated, with the attributes of `Side`."""


def write(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write the recording as a profile into the folder `path`, in place of an earlier profile.

    Raises NKI021 if it cannot be written, as into a folder that holds other files. A recording whose summary names no
    known target gets no tables of memory fullness, which are in percent of a chip's memory, and no Metadata.
    """
    with extra("save", "a profile for Neuron Explorer needs", operand="to_explorer"):
        import pyarrow.parquet  # noqa: F401

    with replacing_folder(path, [f"{table}.parquet" for table in TABLES]) as folder:
        _write(recording, folder)


def _write(recording: Recording, folder: Path) -> None:
    profile = _Profile(recording)
    tables: dict[str, Iterator[Batch]] = {
        "Instruction": profile.instructions(),
        "DmaPacketAggregated": profile.transfers(),
        "DmaPacket": profile.packets(),
        "DmaQueuesInfo": profile.queues(),
        "Flow": profile.flows(),
        "ActiveTime": iter([totals.active_time(recording)]),
        "OpcodeSummary": iter([totals.opcodes(recording)]),
        "TensorInfo": profile.tensors(),
        "DmaUsage": profile.dma_usage(),
        "SbufAllocation": iter([operands.sbuf_allocations(recording)]),
        "Summary": iter([totals.summary(recording)]),
        "SchemaFields": iter([_schema_fields()]),
    }
    arch = totals.known_arch(str(recording.summary.get("target")))
    if arch is not None:
        tables["SbufUsage"] = iter([operands.sbuf_usage(recording, arch)])
        tables["PsumUsage"] = iter([operands.psum_usage(recording, arch)])
        tables["Metadata"] = iter([totals.metadata(recording, arch)])
    for name, batches in tables.items():
        _write_table(folder / f"{name}.parquet", name, batches)


def _write_table(path: Path, table: str, batches: Iterator[Batch]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    layout = arrow_schema(table)
    parts = _parts(table, layout, batches)
    first = list(islice(parts, 1))
    if not first and table != _ALWAYS:
        return
    with pa.OSFile(arrow_path(path), "wb") as stream, pq.ParquetWriter(stream, layout, compression="zstd") as writer:
        for part in chain(first, parts):
            writer.write_table(part)


def _parts(table: str, layout: Any, batches: Iterator[Batch]) -> Iterator[Any]:
    """Yield the batches that have rows as Arrow tables."""
    import pyarrow as pa

    for batch in batches:
        length = len(next(iter(batch.values()), ()))
        if not length:
            continue
        columns = []
        for field in layout:
            values = batch.get(field.name)
            if values is None and not field.nullable:
                raise ValueError(f"{table}.{field.name} is required")
            columns.append(pa.nulls(length, field.type) if values is None else pa.array(values, field.type))
        yield pa.table(columns, schema=layout)


_JSON_TYPES: Final = {"string": "string", "bool": "boolean", "int32": "integer", "int64": "integer"}


def _schema_fields() -> Batch:
    rows = [(table, field) for table, fields in TABLES.items() for field in fields]
    return {
        "table_name": [table for table, _ in rows],
        "table_description": [f"{table} of the profile schema {VERSION}" for table, _ in rows],
        "field_name": [field.name for _, field in rows],
        "field_description": [f"{table}.{field.name} of the profile schema {VERSION}" for table, field in rows],
        "field_type": [_JSON_TYPES.get(field.kind, "number") for _, field in rows],
        "field_required": [field.required for _, field in rows],
        "field_format": [None if field.kind in ("string", "bool") else field.kind for _, field in rows],
    }


class _Profile:
    """The tables with a row for each row of the recording, in batches."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._operands = operands.Operands(recording)
        self._names = recording.texts("ops", "name")
        self._details = recording.texts("ops", "detail")
        self._is_dma = np.array([lane.kind == "dma" for lane in recording.lanes], bool)
        self._queue = {lane: index for index, lane in enumerate(queues(recording))}

    def _batches(self, dma: bool) -> Iterator[Array]:
        """Executed rows of the DMA queues, or of the engines, in program order."""
        for low, high in pieces(len(self._recording), _ROWS):
            is_chosen = self._is_dma[self._recording.rows["lane"][low:high]] == dma
            found = np.flatnonzero(is_chosen & self._recording.executed[low:high])
            if len(found):
                yield found + low

    def _times(self, rows: Array) -> dict[str, Array]:
        begin = self._recording.rows["start"][rows]
        start, end = map(in_nanoseconds, (begin, begin + self._recording.rows["duration"][rows]))
        return {"start_ts": start, "end_ts": end, "duration_ns": end - start}

    def _lanes(self, rows: Array) -> list[Lane]:
        return [self._recording.lanes[lane] for lane in self._recording.rows["lane"][rows].tolist()]

    def instructions(self) -> Iterator[Batch]:
        recording = self._recording
        waits = recording.waits()
        places = [
            *(f"{file}:{line}" for file, line in source_lines(recording)),
            None,
        ]  # the last one is that of no site
        counters = np.zeros(len(recording.lanes), np.int64)
        for rows in self._batches(dma=False):
            lanes, ops = self._lanes(rows), recording.rows["op"][rows].tolist()
            moved = self._operands.moved(int(rows[0]), int(rows[-1]) + 1)[rows - int(rows[0])]
            engines = [ENGINES.get(lane.name, lane.name) for lane in lanes]
            yield {
                **self._times(rows),
                "engine": engines,
                "timeline_track": engines,
                "pcore_idx": [lane.core for lane in lanes],
                "opcode": [self._names[op] for op in ops],
                "operands": [self._details[op] for op in ops],
                "id": rows,
                "pc": _count(counters, recording.rows["lane"][rows].tolist()),
                "bir_id": [str(row) for row in rows.tolist()],
                "evt_wait_time_ns": in_nanoseconds(recording.rows["start"][rows])
                - in_nanoseconds(recording.rows["start"][rows] - waits[rows]),
                "nki_source_location": [places[site] for site in recording.rows["site"][rows].tolist()],
                **{
                    f"{name}_{word}_bytes": moved[:, number, direction]
                    for number, name in enumerate(operands.MEMORIES)
                    for direction, word in enumerate(("read", "write"))
                },
            }

    def _transfer(self, rows: Array) -> dict[str, Any]:
        """Return the fields that both DMA tables have."""
        times, lanes = self._times(rows), self._lanes(rows)
        ends = [self._operands.ends(row) for row in rows.tolist()]
        moved = self._recording.rows["bytes"][rows].astype(np.int64)
        # A transfer within one nanosecond counts as one of a nanosecond, so that it has a rate.
        return times | {
            "id": rows,
            "pcore_idx": [lane.core for lane in lanes],
            "queue_idx": [self._queue[lane.number] for lane in lanes],
            "queue_name": [lane.name for lane in lanes],
            "queue_type": ["unknown"] * len(lanes),
            "variable": [  # the tensor in HBM, or else the one that is read
                (target if target.memory == "[HBM]" and source.memory != "[HBM]" else source).variable
                for source, target in ends
            ],
            "read_bytes": [source.bytes or size for (source, _), size in zip(ends, moved.tolist(), strict=True)],
            "write_bytes": [target.bytes or size for (_, target), size in zip(ends, moved.tolist(), strict=True)],
            "transfer_bytes": moved,
            "throughput": moved * 1e9 / np.maximum(times["duration_ns"], 1),
            "ends": ends,
        }

    def transfers(self) -> Iterator[Batch]:
        for rows in self._batches(dma=True):
            shared = self._transfer(rows)
            ends = shared["ends"]
            sides = {"read": [source for source, _ in ends], "write": [target for _, target in ends]}
            yield shared | {
                "block_id": rows,
                "op": ["write" if target.memory == "[HBM]" else "read" for _, target in ends],
                "source": [source.memory for source, _ in ends],
                "dest": [target.memory for _, target in ends],
                "semaphore_id": [""] * len(rows),
                **{
                    f"{way}_{field}": [getattr(side, name) for side in found]
                    for way, found in sides.items()
                    for field, name in _SIDE_FIELDS.items()
                },
            }

    def packets(self) -> Iterator[Batch]:
        for rows in self._batches(dma=True):
            none = np.zeros(len(rows), np.int64)
            yield self._transfer(rows) | {"packet_idx": none, "packet_aggregation_id": rows, "crc": none}

    def queues(self) -> Iterator[Batch]:
        lanes = [self._recording.lanes[number] for number in self._queue]
        none = [0] * len(lanes)
        yield {
            "name": [lane.name for lane in lanes],
            "type": ["unknown"] * len(lanes),
            "pcore_idx": [lane.core for lane in lanes],
            "idx": range(len(lanes)),
            "engine_idx": none,
            "axi_port": none,
            "dram_channel": none,
        }

    def flows(self) -> Iterator[Batch]:
        edges, rows, executed = self._recording.table("edges"), self._recording.rows, self._recording.executed
        names = np.array([INSTRUCTION, TRANSFER])
        for low, high in pieces(len(edges), _ROWS):
            before, after, kinds = (edges[name][low:high] for name in ("before", "row", "kind"))
            are_executed = executed[before] & executed[after]
            before, after, kinds = (column[are_executed] for column in (before, after, kinds))
            yield {
                "in_id": before,
                "out_id": after,
                "in_table": names[self._is_dma[rows["lane"][before]].astype(int)],
                "out_table": names[self._is_dma[rows["lane"][after]].astype(int)],
                "dependency_type": [DEPENDENCIES[kind] for kind in kinds.tolist()],
                "gap_time": in_nanoseconds(rows["start"][after])
                - in_nanoseconds(rows["start"][before] + rows["duration"][before]),
            }

    def tensors(self) -> Iterator[Batch]:
        recording, buffers = self._recording, self._recording.table("buffers")
        kinds = buffers["kind"][:].tolist()
        some = [number for number, kind in enumerate(kinds) if kind]
        patterns = [int(buffers["pattern"][number]) for number in some]
        shapes = [recording.pattern(pattern)[1] if pattern >= 0 else () for pattern in patterns]
        yield {
            "variable_name": [recording.names[int(buffers["name"][number])] for number in some],
            "type": [("", "IN", "OUT", "WEIGHT")[kinds[number]] for number in some],
            "shape": [" ".join(map(str, shape)) for shape in shapes],
            "size": [int(buffers["partitions"][n]) * int(buffers["partition_bytes"][n]) for n in some],
            "pcore_idx": [0] * len(some),
        }

    def dma_usage(self) -> Iterator[Batch]:
        times, rates = dma_rate(self._recording)
        moved = np.concatenate(([0.0], np.cumsum(rates[:-1] * np.diff(times) / 1000)))[: len(times)]
        yield {
            "timestamp": in_nanoseconds(times),
            "current_throughput": rates * 1e9,
            "total_transfer_bytes": np.round(moved).astype(np.int64),
        }


def _count(counters: Array, lanes: Sequence[int]) -> list[int]:
    """The place of each row among those of its lane, in program order."""
    out = []
    for lane in lanes:
        out.append(int(counters[lane]))
        counters[lane] += 1
    return out
