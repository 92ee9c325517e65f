"""A recording as a trace for the Perfetto viewer: lanes as tracks, dependencies as flows, memory and DMA as counters.

Perfetto counts nanoseconds. Slices begin and end at the nearest one; the exact picoseconds are among their arguments.
"""

from __future__ import annotations

import os
from typing import Any, BinaryIO, Final

import numpy as np

from nki_lab.export.files import replacing
from nki_lab.export.findings import queues, source_lines
from nki_lab.extras import extra
from nki_lab.kernel_runtime.recording import Recording, schema
from nki_lab.kernel_runtime.recording.columns import Array, pieces
from nki_lab.kernel_runtime.vocabulary import CONFIDENCES, lane_label
from nki_lab.quantities import in_nanoseconds
from nki_lab.wire.rows import Steps

_BASE: Final = 0x6E6B69_00000000
"""Tracks of this program have numbers above this one, so that traces can be joined with others."""
_SEQUENCE: Final = 1
_BATCH: Final = 4096
_ARGUMENTS: Final = (
    "row", "step", "detail", "iteration", "start_ps", "duration_ps", "ready_ps", "waited_ps", "waited_for", "setup_ps",
    "setup_for", "pace", "held_by", "work", "bytes", "confidence", "critical",
)  # fmt: skip
_CATEGORIES: Final = ("work", "wait", "critical")
_ROW_COLUMNS: Final = (
    "start", "duration", "ready", "setup", "op", "site", "iteration", "work", "bytes", "lane", "pace", "stall",
    "setup_stall", "held", "confidence",
)  # fmt: skip


def write(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write a trace of the recording, with flows for every dependency and for the critical path.

    Raises NKI021 if the file cannot be written, NKI022 where the package perfetto is not installed.
    """
    protos = _protos()
    with replacing(path) as stream:
        _Trace(recording, protos, stream).write()


def _protos() -> Any:
    with extra("perfetto", "a trace for Perfetto needs", operand="to_perfetto"):
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    return perfetto_trace_pb2


class _Trace:
    """A trace being written, packet by packet."""

    def __init__(self, recording: Recording, protos: Any, stream: BinaryIO) -> None:
        self._recording = recording
        self._protos = protos
        self._stream = stream
        self._batch = protos.Trace()
        self._packets = 0
        self._argument = {name: number for number, name in enumerate(_ARGUMENTS, start=1)}
        self._category = {name: number for number, name in enumerate(_CATEGORIES, start=1)}
        ops, stalls = len(recording.table("ops")), len(recording.stalls)
        # Numbers of interned names: instructions, then "waits for …" of each stall.
        self._wait_name = ops + 1
        texts = dict.fromkeys((*recording.stalls, *CONFIDENCES, *recording.texts("ops", "detail")))
        self._text = {text: number for number, text in enumerate(texts, start=1)}
        self._critical_track = _BASE + 2
        self._lane_track = _BASE + 16
        self._core_track = _BASE + 0x100000
        self._counter_track = _BASE + 0x200000
        assert ops + stalls < 0x7FFFFFFF  # interned names have as many numbers

    def write(self) -> None:
        """Write all packets, in the order in which things happened."""
        self._write_names()
        self._write_tracks()
        self._write_rows()
        self._write_critical()
        self._write_counters()
        self._flush()

    def _packet(self) -> Any:
        self._packets += 1
        packet = self._batch.packet.add()
        packet.trusted_packet_sequence_id = _SEQUENCE
        return packet

    def _flush_full_batch(self) -> None:
        if self._packets >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        # Messages one after the other are one message: readers join their repeated fields.
        self._stream.write(self._batch.SerializeToString())
        self._batch = self._protos.Trace()  # a cleared message keeps the memory of all that it ever held
        self._packets = 0

    def _write_names(self) -> None:
        """Write the names that events refer to by number."""
        recording, packet = self._recording, self._packet()
        packet.sequence_flags = self._protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        interned = packet.interned_data
        for number, name in enumerate(recording.texts("ops", "name"), start=1):
            interned.event_names.add(iid=number, name=name)
        for number, name in enumerate(recording.stalls):
            interned.event_names.add(iid=self._wait_name + number, name=f"waits: {name}")
        for name, number in self._argument.items():
            interned.debug_annotation_names.add(iid=number, name=name)
        for name, number in self._category.items():
            interned.event_categories.add(iid=number, name=name)
        for text, number in self._text.items():
            interned.debug_annotation_string_values.add(iid=number, str=text.encode())
        for number, ((file, line), function) in enumerate(
            zip(source_lines(recording), recording.texts("sites", "function"), strict=True), start=1
        ):
            interned.source_locations.add(iid=number, file_name=file, function_name=function, line_number=max(line, 0))

    def _write_tracks(self) -> None:
        recording = self._recording
        target = recording.summary.get("target")
        title = str(recording.summary.get("kernel", "kernel")) + (f" on {target}" if target else "")
        self._track(_BASE + 1, title, 0, 0)
        self._track(self._critical_track, "critical path", _BASE + 1, 0)
        cores = sorted({lane.core for lane in recording.lanes})
        for core in cores if len(cores) > 1 else ():
            self._track(self._core_track + core, recording.core_names[core], _BASE + 1, core + 1)
        for lane in recording.lanes:
            parent = self._core_track + lane.core if len(cores) > 1 else _BASE + 1
            self._track(self._lane_track + lane.number, lane_label(lane.name), parent, lane.number + 1)

    def _track(self, number: int, name: str, parent: int, rank: int) -> Any:
        track = self._packet().track_descriptor
        track.uuid, track.name, track.sibling_order_rank = number, name, rank
        track.child_ordering = self._protos.TrackDescriptor.EXPLICIT
        if parent:
            track.parent_uuid = parent
        return track

    def _event(self, time: int, kind: int, track: int) -> Any:
        packet = self._packet()
        packet.timestamp = in_nanoseconds(time)
        packet.sequence_flags = self._protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        event = packet.track_event
        event.type, event.track_uuid = kind, track
        return event

    def _slice(self, begin: int, end: int, track: int, name: int, category: str) -> Any:
        """Write a slice; return its first event, which may be added to until the next slice is written."""
        self._flush_full_batch()
        event = self._event(begin, self._protos.TrackEvent.TYPE_SLICE_BEGIN, track)
        event.name_iid = name
        event.category_iids.append(self._category[category])
        self._event(end, self._protos.TrackEvent.TYPE_SLICE_END, track)
        return event

    def _number(self, event: Any, name: str, value: int) -> None:
        event.debug_annotations.add(name_iid=self._argument[name], int_value=value)

    def _interned(self, event: Any, name: str, text: str) -> None:
        event.debug_annotations.add(name_iid=self._argument[name], string_value_iid=self._text[text])

    def _write_rows(self) -> None:
        recording = self._recording
        rows, details, steps = recording.rows, recording.texts("ops", "detail"), Steps(recording)
        flows = _FlowEnds(recording)
        in_lanes = recording.table("lane_rows")["row"]  # a row of no duration comes before one that starts with it
        for low, high in pieces(len(recording), _BATCH):
            places = in_lanes[low:high]
            places = places[recording.executed[places]]
            columns = [rows[name][places].tolist() for name in _ROW_COLUMNS]
            known = (steps.step_of[places], places, steps.waits[places], steps.critical[places])
            for step, row, wait, marked, *fields in zip(*(column.tolist() for column in known), *columns, strict=True):
                value = dict(zip(_ROW_COLUMNS, fields, strict=True))
                self._write_wait(value, wait)
                event = self._write_row(step, row, value, details)
                self._number(event, "waited_ps", wait)
                self._number(event, "critical", marked)
                event.flow_ids.extend(flows.of(row, 0))
                event.terminating_flow_ids.extend(flows.of(row, 1))

    def _write_row(self, step: int, row: int, value: dict[str, int], details: list[str]) -> Any:
        begin, track = value["start"], self._lane_track + value["lane"]
        event = self._slice(begin, begin + value["duration"], track, value["op"] + 1, "work")
        if value["site"] >= 0:
            event.source_location_iid = value["site"] + 1
        for name, number in (
            ("row", row),
            ("step", step),
            ("start_ps", begin),
            ("duration_ps", value["duration"]),
            ("ready_ps", value["ready"]),
            ("setup_ps", value["setup"]),
            ("work", value["work"]),
            ("bytes", value["bytes"]),
        ):
            self._number(event, name, number)
        event.debug_annotations.add(
            name_iid=self._argument["pace"], double_value=value["pace"] / schema.FULL_EFFICIENCY
        )
        self._interned(event, "confidence", CONFIDENCES[value["confidence"]])
        for name, column in (("waited_for", "stall"), ("setup_for", "setup_stall"), ("held_by", "held")):
            self._interned(event, name, self._recording.stalls[value[column]])
        if details[value["op"]]:
            self._interned(event, "detail", details[value["op"]])
        if value["iteration"] >= 0:
            text = ", ".join(f"{loop}={number}" for loop, number in self._recording.iteration(row))
            event.debug_annotations.add(name_iid=self._argument["iteration"], string_value=text)
        return event

    def _write_wait(self, value: dict[str, int], wait: int) -> None:
        begin, setup, track = value["start"], value["setup"], self._lane_track + value["lane"]
        if wait > setup:
            self._slice(begin - wait, begin - setup, track, self._wait_name + value["stall"], "wait")
        if setup:
            self._slice(begin - setup, begin, track, self._wait_name + value["setup_stall"], "wait")

    def _write_critical(self) -> None:
        """The critical path on a track of its own. A row that outlasts the start of the next one is cut there."""
        recording = self._recording
        path = recording.critical_path
        for low, high in pieces(len(path), _BATCH):
            places = path[low : min(high + 1, len(path))]
            starts = recording.rows["start"][places].tolist()
            ends = (recording.rows["start"][places] + recording.rows["duration"][places]).tolist()
            ops = recording.rows["op"][places].tolist()
            for number in range(high - low):
                end = min(ends[number], starts[number + 1]) if number + 1 < len(starts) else ends[number]
                event = self._slice(min(starts[number], end), end, self._critical_track, ops[number] + 1, "critical")
                self._number(event, "row", int(places[number]))

    def _write_counters(self) -> None:
        recording = self._recording
        usage = recording.table("usage")
        for number, column in enumerate(("sbuf", "psum")):
            track = self._counter(number, f"{column.upper()} in use, fullest partition", "")
            for low, high in pieces(len(usage), _BATCH):
                self._count(track, usage["time"][low:high], usage[column][low:high], "counter_value")
        track = self._counter(2, "DMA", "GB/s")
        self._count(track, *dma_rate(recording), "double_counter_value")

    def _count(self, track: int, times: Array, values: Array, field: str) -> None:
        for time, value in zip(times.tolist(), values.tolist(), strict=True):
            self._flush_full_batch()
            setattr(self._event(time, self._protos.TrackEvent.TYPE_COUNTER, track), field, value)

    def _counter(self, number: int, name: str, unit: str) -> int:
        track = self._track(self._counter_track + number, name, _BASE + 1, len(self._recording.lanes) + 2 + number)
        if unit:
            track.counter.unit_name = unit
        else:
            track.counter.unit = self._protos.CounterDescriptor.UNIT_SIZE_BYTES
        return self._counter_track + number


class _FlowEnds:
    """The flows at each row. An edge's flow has its place in `edges`, those of the critical path follow."""

    def __init__(self, recording: Recording) -> None:
        edges, path = recording.table("edges"), recording.critical_path[:]
        self._ends = [
            self._by_row(np.concatenate((edges[name][:], part)), len(recording))
            for name, part in (("before", path[:-1]), ("row", path[1:]))
        ]

    @staticmethod
    def _by_row(ends: Array, rows: int) -> tuple[Array, Array]:
        order = np.argsort(ends, kind="stable")
        return order + 1, np.searchsorted(ends[order], np.arange(rows + 1))

    def of(self, row: int, end: int) -> list[int]:
        """Return the flows that leave a row (`end` 0) or reach it (1)."""
        flows, bounds = self._ends[end]
        return flows[bounds[row] : bounds[row + 1]].tolist()


def dma_rate(recording: Recording) -> tuple[Array, Array]:
    """Times at which DMA queues begin or end a transfer, and GB/s of all of them together from each on.

    A transfer moves its bytes evenly over its duration.
    """
    dma = queues(recording)
    begins, ends, rates = ([np.zeros(0, np.int64)] for _ in range(3))
    for low, high in pieces(len(recording)):
        start, duration, moved = (recording.rows[name][low:high] for name in ("start", "duration", "bytes"))
        chosen = np.isin(recording.rows["lane"][low:high], dma) & (duration > 0) & (moved > 0)
        begins.append(start[chosen])
        ends.append((start + duration)[chosen])
        rates.append(1000 * moved[chosen] / duration[chosen])
    begin, end, rate = np.concatenate(begins), np.concatenate(ends), np.concatenate(rates)
    times, place = np.unique(np.concatenate((begin, end)), return_inverse=True)
    change, active = np.zeros(len(times)), np.zeros(len(times), np.int64)
    np.add.at(change, place, np.concatenate((rate, -rate)))
    np.add.at(active, place, np.repeat([1, -1], len(begin)))
    return times, np.where(np.cumsum(active) > 0, np.round(np.cumsum(change), 6), 0.0)
