"""Traces decoded with Perfetto's own schema: every slice, flow, counter and name of a recording is in them."""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

from nki_lab.diagnostic import NkiError
from nki_lab.export import perfetto
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.vocabulary import lane_label
from nki_lab.quantities import in_nanoseconds
from tests.recordings import drawn, synthetic
from tests.scale import scaled


class Slice:
    """A begin event with its end, names and arguments resolved."""

    def __init__(self, event: Any, begin: int, names: dict[str, dict[int, Any]]) -> None:
        self.begin, self.end = begin, -1
        self.name = names["event_names"][event.name_iid].name
        (category,) = event.category_iids
        self.category = names["event_categories"][category].name
        self.leaving, self.arriving = list(event.flow_ids), list(event.terminating_flow_ids)
        self.arguments: dict[str, Any] = {}
        for argument in event.debug_annotations:
            key = names["debug_annotation_names"][argument.name_iid].name
            assert key not in self.arguments
            kind = argument.WhichOneof("value")
            value = getattr(argument, kind)
            if kind == "string_value_iid":
                value = names["debug_annotation_string_values"][value].str.decode()
            self.arguments[key] = value
        self.place = names["source_locations"].get(event.source_location_iid)


class Decoded:
    """A trace as a reader sees it. Fails on whatever a reader would have to drop."""

    def __init__(self, data: bytes) -> None:
        trace = protos.Trace.FromString(data)
        self.tracks: dict[int, Any] = {}
        self.slices: dict[int, list[Slice]] = defaultdict(list)
        self.counters: dict[int, list[tuple[int, float]]] = defaultdict(list)
        names: dict[str, dict[int, Any]] = defaultdict(dict)
        last: dict[int, int] = defaultdict(int)
        for number, packet in enumerate(trace.packet):
            assert packet.trusted_packet_sequence_id
            cleared = packet.sequence_flags & protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
            assert bool(cleared) == (number == 0)
            for field, values in packet.interned_data.ListFields():
                for value in values:
                    assert value.iid and value.iid not in names[field.name]
                    names[field.name][value.iid] = value
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                assert track.uuid not in self.tracks
                assert not track.parent_uuid or track.parent_uuid in self.tracks
                self.tracks[track.uuid] = track
            if not packet.HasField("track_event"):
                continue
            event = packet.track_event
            assert packet.HasField("timestamp") and packet.timestamp >= 0
            assert packet.sequence_flags & protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
            assert event.track_uuid in self.tracks
            assert packet.timestamp >= last[event.track_uuid], "a track goes back in time"
            last[event.track_uuid] = packet.timestamp
            mine = self.slices[event.track_uuid]
            if event.type == protos.TrackEvent.TYPE_SLICE_BEGIN:
                assert not mine or mine[-1].end >= 0, "slices of a lane do not nest"
                mine.append(Slice(event, packet.timestamp, names))
            elif event.type == protos.TrackEvent.TYPE_SLICE_END:
                assert mine[-1].end < 0
                mine[-1].end = packet.timestamp
            else:
                assert event.type == protos.TrackEvent.TYPE_COUNTER
                kind = event.WhichOneof("counter_value_field")
                self.counters[event.track_uuid].append((packet.timestamp, getattr(event, kind)))
        assert all(one.end >= one.begin for slices in self.slices.values() for one in slices)

    def track(self, name: str) -> list[Slice]:
        return [one for uuid, track in self.tracks.items() if track.name == name for one in self.slices[uuid]]

    def counter(self, name: str) -> list[tuple[int, float]]:
        (uuid,) = (uuid for uuid, track in self.tracks.items() if track.name == name)
        assert self.tracks[uuid].HasField("counter")
        return self.counters[uuid]


def decoded(recording: Recording) -> Decoded:
    with tempfile.TemporaryDirectory() as where:
        file = Path(where) / "run.pftrace"
        perfetto.write(recording, file)
        return Decoded(file.read_bytes())


@settings(max_examples=scaled(60))
@given(drawn(), st.sampled_from([2, 7, 4096]))
def test_every_row_is_a_slice_with_all_that_is_known_of_it(recording: Recording, batch: int) -> None:
    with mock.patch.object(perfetto, "_BATCH", batch):
        trace = decoded(recording)
    found = {one.arguments["row"]: (lane, one) for lane in recording.lanes for one in trace.track(lane_label(lane.name))
             if one.category == "work"}  # fmt: skip
    assert sorted(found) == list(range(len(recording)))
    critical = set(recording.critical_path[:].tolist())
    for number, (lane, one) in found.items():
        row = recording.row(number)
        assert (one.name, lane.name, lane.core) == (row.name, row.lane, row.core)
        assert one.begin == in_nanoseconds(row.start)
        assert one.end == in_nanoseconds(row.start + row.duration)
        expected: dict[str, Any] = {
            "row": number, "step": recording.step_of(number), "start_ps": row.start, "duration_ps": row.duration,
            "ready_ps": row.ready, "waited_ps": row.wait, "waited_for": row.stall, "setup_ps": row.setup,
            "setup_for": row.setup_stall, "pace": row.efficiency, "held_by": row.throttle_reason, "work": row.work, "bytes": row.bytes,
            "confidence": row.confidence, "critical": int(number in critical),
        }  # fmt: skip
        if row.detail:
            expected["detail"] = row.detail
        if row.iteration:
            expected["iteration"] = ", ".join(f"{name}={value}" for name, value in row.iteration)
        assert one.arguments == expected
        if row.line:
            assert (one.place.file_name, one.place.line_number) == (row.file, row.line)
            assert one.place.function_name == row.function
        else:
            assert one.place is None


@given(drawn())
def test_every_wait_is_a_slice_before_its_row(recording: Recording) -> None:
    trace = decoded(recording)
    for lane in recording.lanes:
        found = [(one.name, one.begin, one.end) for one in trace.track(lane_label(lane.name)) if one.category == "wait"]
        expected = []
        mine = np.flatnonzero(recording.rows["lane"][:] == lane.number).tolist()
        for row in map(recording.row, sorted(mine, key=recording.step_of)):
            end, middle, begin = row.start, row.start - row.setup, row.start - row.wait
            if row.wait > row.setup:
                expected.append((f"waits: {row.stall}", in_nanoseconds(begin), in_nanoseconds(middle)))
            if row.setup:
                expected.append((f"waits: {row.setup_stall}", in_nanoseconds(middle), in_nanoseconds(end)))
        assert found == expected


@settings(max_examples=scaled(40))
@given(recording=drawn())
def test_every_flow_leads_from_a_row_to_the_one_that_waits_for_it(recording: Recording) -> None:
    trace = decoded(recording)
    work = [one for lane in recording.lanes for one in trace.track(lane_label(lane.name)) if one.category == "work"]
    leaving = [(flow, one.arguments["row"]) for one in work for flow in one.leaving]
    arriving = [(flow, one.arguments["row"]) for one in work for flow in one.arriving]
    assert len({flow for flow, _ in leaving}) == len(leaving)
    assert {flow for flow, _ in leaving} == {flow for flow, _ in arriving}
    ends = dict(arriving)
    path = recording.critical_path[:].tolist()
    expected = list(itertools.pairwise(path))
    edges = recording.table("edges")
    expected += list(zip(edges["before"][:].tolist(), edges["row"][:].tolist(), strict=True))
    assert sorted((before, ends[flow]) for flow, before in leaving) == sorted(expected)
    assert all(not one.leaving and not one.arriving for one in trace.track("critical path"))


@given(drawn())
def test_the_critical_path_has_a_track(recording: Recording) -> None:
    found = decoded(recording).track("critical path")
    path = recording.critical_path[:].tolist()
    assert [one.arguments["row"] for one in found] == path
    assert [one.name for one in found] == [recording.row(row).name for row in path]


@given(drawn())
def test_counters_follow_memory_in_use(recording: Recording) -> None:
    trace, usage = decoded(recording), recording.table("usage")
    for name, column in (("SBUF", "sbuf"), ("PSUM", "psum")):
        times, values = in_nanoseconds(usage["time"][:]).tolist(), usage[column][:].tolist()
        assert trace.counter(f"{name} in use, fullest partition") == list(zip(times, values, strict=True))


@given(drawn())
def test_the_dma_counter_adds_up_to_the_bytes_moved(recording: Recording) -> None:
    times, rates = perfetto.dma_rate(recording)
    assert decoded(recording).counter("DMA") == list(zip(in_nanoseconds(times).tolist(), rates.tolist(), strict=True))
    queues = [lane.number for lane in recording.lanes if lane.kind == "dma"]
    rows = recording.rows
    moving = np.isin(rows["lane"][:], queues) & (rows["duration"][:] > 0)
    total = int(rows["bytes"][:][moving].sum(dtype=np.int64))
    area = float(np.sum(rates[:-1] * np.diff(times))) / 1000 if len(times) else 0.0
    assert area == pytest.approx(total, rel=1e-5, abs=1e-3 * (recording.makespan / 1e6 + 1))
    assert not len(rates) or rates[-1] == 0


def test_tracks_are_grouped_by_core_in_drawing_order() -> None:
    tables = synthetic(100)
    tables["lanes"]["core"] = [0] * 5 + [1] * 16
    recording = Recording(tables, {"kernel": "flash_fwd", "target": "trn2"})
    tracks = decoded(recording).tracks
    children = defaultdict(list)
    for track in tracks.values():
        children[tracks[track.parent_uuid].name if track.parent_uuid else ""].append(track)
    assert [track.name for track in children[""]] == ["flash_fwd on trn2"]
    top = sorted(children["flash_fwd on trn2"], key=lambda track: track.sibling_order_rank)
    assert [track.name for track in top][:3] == ["critical path", "core 0", "core 1"]
    assert [track.name for track in children["core 0"]] == ["Tensor", "Vector", "Scalar", "GpSimd", "Sync"]
    assert len(children["core 1"]) == 16
    assert all(track.child_ordering == protos.TrackDescriptor.EXPLICIT for track in tracks.values())


def test_memory_counts_bytes_and_dma_gigabytes_a_second() -> None:
    tracks = {track.name: track for track in decoded(Recording(synthetic(100))).tracks.values()}
    assert tracks["SBUF in use, fullest partition"].counter.unit == protos.CounterDescriptor.UNIT_SIZE_BYTES
    assert tracks["DMA"].counter.unit_name == "GB/s"


def test_an_empty_run_is_a_trace() -> None:
    trace = decoded(Recording({}))
    assert not any(trace.slices.values())
    assert "critical path" in {track.name for track in trace.tracks.values()}


def test_a_trace_of_many_batches_is_one(tmp_path: Path) -> None:
    recording = Recording(synthetic(20_000))
    perfetto.write(recording, tmp_path / "run.pftrace")
    trace = Decoded((tmp_path / "run.pftrace").read_bytes())
    assert sum(one.category == "work" for slices in trace.slices.values() for one in slices) == 20_000


def test_a_batch_that_is_written_is_let_go(tmp_path: Path) -> None:
    """A message keeps the memory of all that it held, so that each batch needs one of its own."""
    with mock.patch.object(protos, "Trace", wraps=protos.Trace) as made:
        perfetto.write(Recording(synthetic(20_000)), tmp_path / "run.pftrace")
    assert made.call_count > 2 * 20_000 // perfetto._BATCH


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)
    with pytest.raises(ImportError, match=r"nki-lab\[perfetto\]") as caught:
        perfetto.write(Recording({}), tmp_path / "run.pftrace")
    assert isinstance(caught.value, NkiError)
    assert caught.value.diagnostics[0].code == "NKI022"
    assert not list(tmp_path.iterdir())
