"""Neuron Explorer profiles: what is written has the profile's form, and comes back."""

from __future__ import annotations

import itertools
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_lab
from nki_lab.export.explorer.profile import apart
from nki_lab.export.explorer.reading import read_profile
from nki_lab.export.explorer.tables import DEPENDENCIES, TABLES, arrow_schema
from nki_lab.export.explorer.totals import merged
from nki_lab.export.explorer.writing import write as write_profile
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.vocabulary import EDGE_KINDS
from nki_lab.quantities import in_nanoseconds
from tests.recordings import Tables, drawn, synthetic, tables
from tests.scale import scaled

Rows = dict[str, list[dict[str, Any]]]


def profile_of(recording: Recording, where: str | Path) -> Rows:
    """The tables of a profile written from a recording, as rows."""
    folder = Path(where) / "profile"
    write_profile(recording, folder)
    return {file.stem: pq.read_table(file).to_pylist() for file in folder.iterdir()}


# Written


@settings(max_examples=scaled(15))
@given(drawn())
def test_a_profile_has_the_form_and_the_contents_of_its_recording(recording: Recording) -> None:
    with tempfile.TemporaryDirectory() as where:
        write_profile(recording, Path(where) / "profile")
        tables_written = {file.stem: pq.read_table(file) for file in (Path(where) / "profile").iterdir()}
    for name, table in tables_written.items():
        assert table.schema.equals(arrow_schema(name))
        assert len(table) or name == "Instruction"
        for field in TABLES[name]:
            assert not field.required or table.column(field.name).null_count == 0
    found = {name: table.to_pylist() for name, table in tables_written.items()}
    every_row_is_an_instruction_or_a_transfer(recording, found)
    rows_of_a_lane_stay_apart_in_nanoseconds(found)
    dependencies_are_flows_of_their_kind(recording, found.get("Flow", []))


def every_row_is_an_instruction_or_a_transfer(recording: Recording, found: Rows) -> None:
    instructions, transfers = found.get("Instruction", []), found.get("DmaPacketAggregated", [])
    assert sorted(one["id"] for one in instructions + transfers) == list(range(len(recording)))
    for one in instructions + transfers:
        row = recording.row(one["id"])
        assert (one["start_ts"], one["end_ts"]) == (in_nanoseconds(row.start), in_nanoseconds(row.start + row.duration))
        assert one["duration_ns"] == one["end_ts"] - one["start_ts"]
        assert one["pcore_idx"] == row.core
    for one in instructions:
        row = recording.row(one["id"])
        assert (one["opcode"], one["operands"], one["engine"]) == (row.name, row.detail, row.lane)
        assert one["nki_source_location"] == (f"{row.file}:{row.line}" if row.line else None)
        assert abs(one["evt_wait_time_ns"] - row.wait / 1000) <= 1
    for one in transfers:
        row = recording.row(one["id"])
        assert (one["queue_name"], one["transfer_bytes"]) == (row.lane, row.bytes)
        assert one["throughput"] == pytest.approx(1e9 * row.bytes / max(one["duration_ns"], 1), rel=1e-6)
    packets = found.get("DmaPacket", [])
    assert [(one["id"], one["packet_aggregation_id"]) for one in packets] == [
        (one["id"], one["id"]) for one in transfers
    ]


def rows_of_a_lane_stay_apart_in_nanoseconds(found: Rows) -> None:
    by_lane = defaultdict(list)
    for table, key in (("Instruction", "engine"), ("DmaPacketAggregated", "queue_name")):
        for one in found.get(table, []):
            by_lane[one[key]].append((one["start_ts"], one["end_ts"]))
    for spans in by_lane.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def dependencies_are_flows_of_their_kind(recording: Recording, found: list[dict[str, Any]]) -> None:
    edges = recording.table("edges")
    kinds = {lane.number: ("instruction", "dma_block")[lane.kind == "dma"] for lane in recording.lanes}
    lane = recording.rows["lane"][:].tolist()
    expected = [
        (before, row, kinds[lane[before]], kinds[lane[row]], DEPENDENCIES[kind])
        for row, before, kind in zip(*(edges[name][:].tolist() for name in ("row", "before", "kind")), strict=True)
    ]
    assert [
        (one["in_id"], one["out_id"], one["in_table"], one["out_table"], one["dependency_type"]) for one in found
    ] == expected


def test_bytes_are_counted_by_memory_and_direction(tmp_path: Path) -> None:
    recording = Recording(
        {
            "rows": {"start": [0, 2000], "duration": [1000, 1000], "lane": [0, 1], "op": [0, 1], "access": [0, 3],
                     "bytes": [0, 256]},
            "accesses": {"view": [1, 0, 0, 2, 0], "role": [1, 0, 2, 0, 1]},
            "views": {"buffer": [0, 1, 2], "pattern": [0, 1, 0], "offset": [0, 0, 64]},
            "patterns": {"dtype": ["bfloat16", "float32"], "dim": [0, 0], "rank": [2, 2]},
            "dims": {"size": [4, 32], "step": [32, 1]},
            "buffers": {"name": ["tile", "acc", "x"], "space": [0, 1, 3], "partition": [0, 32, -1],
                        "partition_bytes": [64, 128, 8192], "kind": [0, 0, 1], "pattern": [0, 1, 0]},
            "lanes": {"name": ["tensor", "dma q0"], "kind": [0, 1]},
            "ops": {"name": ["nc_matmul", "dma_copy"]},
        }
    )  # fmt: skip
    found = profile_of(recording, tmp_path)
    (one,) = found["Instruction"]
    assert (one["sbuf_read_bytes"], one["sbuf_write_bytes"]) == (512, 256)
    assert (one["psum_read_bytes"], one["psum_write_bytes"]) == (0, 512)
    (transfer,) = found["DmaPacketAggregated"]
    assert (transfer["source"], transfer["dest"], transfer["variable"], transfer["op"]) == (
        "[HBM]",
        "[SB]",
        "x",
        "read",
    )
    assert (transfer["read_shape"], transfer["read_offset"], transfer["read_steps"]) == ("[4, 32]", "[0x40]", "[32, 1]")
    assert (transfer["write_sbuf_partitions"], transfer["write_num_sbuf_partitions"]) == ("0-3", 4)
    (tensor,) = found["TensorInfo"]
    assert (tensor["variable_name"], tensor["type"], tensor["shape"], tensor["size"]) == ("x", "IN", "4 32", 8192)


def test_activity_and_totals_are_those_of_the_lanes(tmp_path: Path) -> None:
    recording = Recording(synthetic(3000), {"target": "trn2", "kernel": "flash_fwd", "flops": 5e9, "mfu": 0.25})
    found = profile_of(recording, tmp_path)
    (summary,) = found["Summary"]
    assert summary["total_time"] == pytest.approx(recording.makespan / 1e12, rel=1e-6)
    assert summary["mfu_estimated_percent"] == 25
    assert summary["hardware_flops"] == 5_000_000_000
    busy = int(recording.lane_times[0, 0])
    assert summary["tensor_engine_active_time"] == pytest.approx(busy / 1e12, rel=1e-6)
    active = sum(one["duration_ns"] for one in found["ActiveTime"] if one["engine"] == "Tensor")
    rows = int((recording.rows["lane"][:] == 0).sum())
    assert active == pytest.approx(busy / 1000, abs=rows)
    counted = sum(one["instruction_count"] for one in found["OpcodeSummary"] if one["engine"] == "Tensor")
    assert counted == summary["tensor_engine_instruction_count"] == rows
    (metadata,) = found["Metadata"]
    arch = arch_of("trn2")
    assert (metadata["instance_type"], metadata["is_simulation"]) == ("trn2", True)
    assert metadata["tensor_engine_clock_freq"] == pytest.approx(arch.tensor_ghz)


def test_fullness_is_in_percent_of_the_chip(tmp_path: Path) -> None:
    arch = arch_of("trn2")
    given_tables: Tables = {
        "rows": {"start": [0], "duration": [5000], "lane": [0], "op": [0]},
        "lanes": {"name": ["vector"], "kind": [0]},
        "ops": {"name": ["tensor_copy"]},
        "buffers": {
            "name": ["a", "b", "acc"], "space": [0, 0, 1], "partition": [0, 64, 0], "partitions": [128, 64, 128],
            "byte": [0, 4096, arch.psum_bank_bytes],
            "partition_bytes": [arch.sbuf_partition_bytes // 4, 4096, arch.psum_bank_bytes],
        },
        "lifetimes": {"buffer": [0, 1, 2], "start": [0, 1000, 2000], "end": [5000, 3000, 4000]},
    }  # fmt: skip
    found = profile_of(Recording(given_tables, {"target": "trn2"}), tmp_path)
    at = {one["timestamp"]: one for one in found["SbufUsage"]}
    small = 100 * 4096 / arch.sbuf_partition_bytes
    assert at[0]["partition_0_util_percent"] == at[0]["avg_util_percent"] == 25
    assert at[1]["partition_0_util_percent"] == 25
    assert at[1]["partition_96_util_percent"] == pytest.approx(25 + small, rel=1e-5)
    assert at[1]["avg_util_percent"] == pytest.approx(25 + small / 2, rel=1e-5)
    assert at[5]["avg_util_percent"] == 0
    banks = {one["timestamp"]: one for one in found["PsumUsage"]}
    assert (banks[2]["bank_0_util_percent"], banks[2]["bank_1_util_percent"]) == (0, 100)
    places = {(one["tensor_name"], one["partition"]): one for one in found["SbufAllocation"]}
    assert sorted(places) == [("a", 0), ("a", 32), ("a", 64), ("a", 96), ("b", 64), ("b", 96)]
    assert (places["b", 64]["start_address"], places["b", 64]["end_address"]) == (4096, 8191)
    assert (places["b", 64]["start_ts"], places["b", 64]["end_ts"]) == (1, 3)


def test_the_memory_of_each_core_is_its_own(tmp_path: Path) -> None:
    part = arch_of("trn2").sbuf_partition_bytes // 4
    given_tables: Tables = {
        "rows": {"start": [0, 0], "duration": [5000, 5000], "lane": [0, 1], "op": [0, 0]},
        "lanes": {"name": ["vector", "vector"], "kind": [0, 0], "core": [0, 1]},
        "ops": {"name": ["tensor_copy"]},
        "buffers": {"name": ["a", "b"], "space": [0, 0], "partition": [0, 0], "partitions": [128, 128], "byte": [0, 0],
                    "partition_bytes": [part, 3 * part], "core": [0, 1]},
        "lifetimes": {"buffer": [0, 1], "start": [0, 1000], "end": [5000, 3000]},
    }  # fmt: skip
    found = profile_of(recording := Recording(given_tables, {"target": "trn2"}), tmp_path)
    full = [(one["pcore_idx"], one["timestamp"], one["avg_util_percent"]) for one in found["SbufUsage"]]
    assert full == [(0, 0, 25), (0, 5, 0), (1, 1, 75), (1, 3, 0)]
    assert {(one["tensor_name"], one["pcore_idx"]) for one in found["SbufAllocation"]} == {("a", 0), ("b", 1)}
    back = read_profile(tmp_path / "profile")
    for one in (recording, back):
        usage = one.table("usage")
        assert [usage[name][:].tolist() for name in ("time", "sbuf")] == [
            [0, 1000, 3000, 5000],
            [part, 3 * part, part, 0],
        ]
    assert back.table("buffers")["core"][:].tolist() == [0, 1]


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(OSError, match="NKI021"):
        write_profile(Recording(synthetic(30)), tmp_path / "mine")
    assert [file.name for file in tmp_path.rglob("*")] == ["mine", "notes.txt"]


def test_an_earlier_profile_is_replaced_whole(tmp_path: Path) -> None:
    for count in (300, 30):
        write_profile(Recording(synthetic(count)), tmp_path / "p")
    assert len(read_profile(tmp_path / "p")) == 30
    assert [file.name for file in tmp_path.iterdir()] == ["p"]


# There and back


@settings(max_examples=scaled(20))
@given(tables())
def test_what_maps_comes_back(given_tables: Tables) -> None:
    """To the nanosecond, which here is exact: times are made multiples of one."""
    rows = given_tables["rows"]
    for name in ("start", "duration", "ready", "setup"):
        rows[name] = np.asarray(rows[name]) * 1000
    rows["setup"] = np.minimum(rows["setup"], 2**32 - 1000)
    given_tables["sites"]["line"] = [max(1, int(line)) for line in given_tables["sites"]["line"]]
    recording = Recording(given_tables, {"target": "trn2", "kernel": "k"})
    if not len(recording):
        return
    with tempfile.TemporaryDirectory() as where:
        write_profile(recording, Path(where) / "p")
        profile = read_profile(Path(where) / "p")
    back = profile
    assert len(back) == len(recording)
    assert back.makespan == in_nanoseconds(recording.makespan) * 1000

    def key(one: Recording, number: int) -> tuple[Any, ...]:
        row = one.row(number)
        transfer = next(lane.kind for lane in one.lanes if lane.name == row.lane) == "dma"
        return (
            row.start, row.duration, row.lane, row.core, row.bytes if transfer else 0, row.file, row.line,
            "" if transfer else row.name, "" if transfer else row.detail,
        )  # fmt: skip

    # A profile has no places for transfers.
    ours = sorted(key(recording, number) for number in range(len(recording)))
    theirs = sorted(key(back, number) for number in range(len(back)))
    dma = {lane.name for lane in recording.lanes if lane.kind == "dma"}
    strip = [one if one[2] not in dma else (*one[:5], "", 0, *one[7:]) for one in ours]
    assert theirs == sorted(strip)
    assert len(back.table("edges")) == len(recording.table("edges"))
    assert back.summary["target"] == "trn2"
    assert back.summary["kernel"] == "k"
    assert {back.row(number).confidence for number in range(len(back))} == {"guess"}


@pytest.mark.parametrize("rows", [0, 1, 9])
def test_a_run_of_transfers_only_and_an_empty_one_come_back(rows: int, tmp_path: Path) -> None:
    tables = {
        "rows": {"start": [5000 + 2000 * row for row in range(rows)], "duration": [1000] * rows, "lane": [0] * rows,
                 "op": [0] * rows},
        "lanes": {"name": ["dma q0"], "kind": [1]},
        "ops": {"name": ["dma_copy"]},
    }  # fmt: skip
    write_profile(Recording(tables, {"target": "trn2", "kernel": "k"}, 90_000), tmp_path / "p")
    back = nki_lab.open(tmp_path / "p")
    assert (back.name, len(back.recording), back.recording.makespan) == ("k", rows, 90_000)
    assert back.report().startswith("k on trn2: 90 ns")


def test_memory_comes_back(tmp_path: Path) -> None:
    tables_of_run = synthetic(2000)
    tables_of_run["buffers"]["byte"] = np.arange(116) * 1024
    recording = Recording(tables_of_run, {"target": "trn2"})
    write_profile(recording, tmp_path / "p")
    back = read_profile(tmp_path / "p")
    assert back.table("usage").limits("sbuf")[1] == pytest.approx(recording.table("usage").limits("sbuf")[1], rel=1e-5)
    sbuf = recording.table("buffers")["space"][:][recording.table("lifetimes")["buffer"][:]] == 0
    assert len(back.table("lifetimes")) == int(sbuf.sum())
    assert set(back.table("buffers")["partitions"][:].tolist()) == {128}


# Parts


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=40))
def test_as_few_lanes_as_keep_rows_apart(spans: list[tuple[int, int]]) -> None:
    spans = sorted(spans)
    start = np.array([begin for begin, _ in spans], np.int64)
    duration = np.array([length for _, length in spans], np.int64)
    number = apart(start, duration)
    for one in set(number.tolist()):
        mine = np.flatnonzero(number == one)
        assert (start[mine][1:] >= (start + duration)[mine][:-1]).all()
    deepest = max((sum(b <= t < b + n for b, n in spans) for t, n in spans if n), default=1)
    assert len(set(number.tolist())) <= max(deepest, 1) + any(not n for _, n in spans)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=40))
def test_merged_intervals_cover_the_same_times(spans: list[tuple[int, int]]) -> None:
    spans = sorted(spans)
    begin, end = merged(np.array([b for b, _ in spans], np.int64), np.array([b + n for b, n in spans], np.int64))
    assert {t for b, n in spans for t in range(b, b + n)} == {
        t for b, e in zip(begin, end, strict=True) for t in range(b, e)
    }
    assert (begin[1:] > end[:-1]).all()


def test_edge_kinds_all_have_a_name_in_a_profile() -> None:
    assert len(DEPENDENCIES) == len(EDGE_KINDS)
