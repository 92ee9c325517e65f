"""Neuron Explorer profiles as a device gives them: they open as recordings, and what does not map is told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nki_lab
from nki_lab.diagnostic import NkiError
from nki_lab.export.explorer.reading import read_profile
from nki_lab.isa.arch import arch_of
from nki_lab.kernel_runtime.recording import Recording
from tests.recordings import synthetic


def write_table(folder: Path, name: str, columns: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """A profile as a device gives it: pipelined engines, many queues, fields that are nobody's business here."""
    folder = tmp_path / "mlp@latest"
    write_table(
        folder,
        "Instruction",
        {
            "start_ts": [1000, 1050, 1100, 1900], "end_ts": [1100, 1150, 1200, 2000], "duration_ns": [100] * 4,
            "engine": ["Tensor", "Tensor", "Vector", "gpsimd"],
            "opcode": ["LDWEIGHTS", "MATMUL", "TENSOR_TENSOR", "IOTA"],
            "operands": ["", "src=0x1", None, "x"], "id": [7, 8, 9, 10], "evt_wait_time_ns": [None, 5000, 40, 700],
            "nki_source_location": ["['/a/mlp.py:42', '/a/mlp.py:43']", None, "/a/mlp.py:42", ""],
            "bir_debug_info_source_location": [None, "lib.py:7", None, None], "raw_flops": [0, 2**20, 0, 0],
            "layer": ["mlp.0", "mlp.0", None, None], "quantum_flux": [1, 2, 3, 4],
            "pcore_idx": [0, 0, 0, 1],
        },
    )  # fmt: skip
    write_table(
        folder,
        "DmaPacketAggregated",
        {"start_ts": [1020, 1030], "end_ts": [1080, 1090], "id": [7, 70], "queue_name": ["q10", "q2"],
         "op": ["read", "write"], "transfer_bytes": [4096, 2**33], "variable": ["w", ""]},
    )  # fmt: skip
    write_table(
        folder,
        "Flow",
        {"in_id": [7, 7, 8, 99], "out_id": [8, 8, 9, 8], "out_table": ["instruction"] * 4,
         "in_table": ["instruction", "dma_block", "instruction", "instruction"],
         "dependency_type": ["FLOW_DEPENDENCE", "ORDERED", "ANTI_DEPENDENCE", None]},
    )  # fmt: skip
    write_table(folder, "Throttle", {"timestamp": [1], "k": [2]})
    write_table(
        folder,
        "Metadata",
        {
            "profile_schema_version": ["7.4.0"],
            "instance_type": ["trn2.48xlarge"],
            "profile_name": ["mlp"],
            "weird": [None],
        },
    )
    write_table(folder, "Summary", {"hbm_read_bytes": [4096], "mfu_estimated_percent": [12.5]})
    usage = {"partition_0_util_percent": [10.0, None], "partition_64_util_percent": [50.0, 5.0]}
    write_table(folder, "SbufUsage", {"timestamp": [1000, 1500], **usage})
    return folder


def row_named(recording: Recording, name: str) -> int:
    (row,) = (row for row in range(len(recording)) if recording.row(row).name == name)
    return row


def test_a_device_profile_opens(device: Path) -> None:
    recording = read_profile(device)
    assert [(lane.name, lane.core, lane.kind) for lane in recording.lanes] == [
        ("tensor", 0, "engine"), ("tensor 2", 0, "engine"), ("vector", 0, "engine"), ("gpsimd", 1, "engine"),
        ("q2", 0, "dma"), ("q10", 0, "dma"),
    ]  # fmt: skip
    load, matmul = recording.row(row_named(recording, "LDWEIGHTS")), recording.row(row_named(recording, "MATMUL"))
    assert (load.start, load.duration, load.lane, load.file, load.line) == (0, 100_000, "tensor", "/a/mlp.py", 42)
    assert (matmul.lane, matmul.detail, matmul.file, matmul.line) == ("tensor 2", "src=0x1", "lib.py", 7)
    assert matmul.work == 2**19
    assert {recording.row(row).confidence for row in range(len(recording))} == {"measured"}
    assert recording.makespan == 1_000_000
    assert (recording.summary["kernel"], recording.summary["target"], recording.summary["mfu"]) == (
        "mlp",
        "trn2",
        0.125,
    )
    assert recording.summary["profile"]["Metadata"]["instance_type"] == "trn2.48xlarge"


def test_waits_of_a_device_end_where_its_rows_begin(device: Path) -> None:
    recording = read_profile(device)
    matmul, copy = (recording.row(row_named(recording, name)) for name in ("MATMUL", "TENSOR_TENSOR"))
    assert (matmul.wait, matmul.stall) == (50_000, "semaphore")  # no longer than its lane stood still
    assert (copy.wait, copy.stall, copy.setup, copy.setup_stall) == (40_000, "none", 40_000, "semaphore")
    assert recording.row(row_named(recording, "IOTA")).wait == 700_000


def test_dependencies_of_a_device_are_edges(device: Path) -> None:
    recording = read_profile(device)
    load, matmul, copy = (row_named(recording, name) for name in ("LDWEIGHTS", "MATMUL", "TENSOR_TENSOR"))
    read = row_named(recording, "dma read")
    assert sorted(recording.predecessors(matmul)) == sorted([(load, "flow"), (read, "user")])
    assert recording.predecessors(copy) == [(matmul, "anti")]
    # Neither had ended when the matmul began; nothing else could have let it start.
    assert recording.row(matmul).critical_pred == -1


def test_a_device_s_memory_is_in_bytes(device: Path) -> None:
    usage = read_profile(device).table("usage")
    size = arch_of("trn2").sbuf_partition_bytes
    assert usage["sbuf"][:].tolist()[:2] == [size // 2, round(size * 0.05)]


def test_waits_that_overlap_other_rows_count_from_their_end(tmp_path: Path) -> None:
    columns = {"start_ts": [0, 150], "end_ts": [100, 200], "engine": ["Vector"] * 2, "opcode": ["A", "B"]}
    for wait in (50, 51):
        write_table(tmp_path / "p", "Instruction", {**columns, "evt_wait_time_ns": [1000, wait]})
        assert read_profile(tmp_path / "p").row(1).wait == 50_000


def test_a_profile_of_a_newer_schema_is_read(device: Path) -> None:
    write_table(device, "Metadata", {"profile_schema_version": ["12.0.1"]})
    recording = read_profile(device)
    assert "12.0.1" in recording.summary["source"]
    assert len(recording) == 6
    assert len(recording.table("usage")) == 0  # the profile names no known instance type


def test_a_table_in_several_files_is_one(device: Path) -> None:
    whole = read_profile(device)
    table = pq.read_table(device / "Instruction.parquet")
    (device / "Instruction.parquet").unlink()
    for number, (low, high) in enumerate(((0, 1), (1, 4))):
        pq.write_table(table.slice(low, high - low), device / f"Instruction_{number}.parquet")
    assert read_profile(device).hash() == whole.hash()


def test_a_profile_in_several_files_opens_as_a_run(device: Path) -> None:
    for file in list(device.glob("*.parquet")):
        file.rename(device / f"{file.stem}_0.parquet")
    assert len(nki_lab.open(device).recording) == 6


def test_a_clock_of_the_device_does_not_stretch_its_run(device: Path) -> None:
    clock = {"first_hw_timestamp": [0], "last_hw_timestamp": [10**9], "is_simulation": [False]}
    write_table(device, "Metadata", {"profile_name": ["mlp"], **clock})
    assert read_profile(device).makespan == 1_000_000


def test_a_table_in_eleven_files_is_in_their_order(tmp_path: Path) -> None:
    for number in range(11):
        write_table(tmp_path / "p", f"Instruction_{number}", {"start_ts": [number * 10], "end_ts": [number * 10 + 5],
                    "engine": ["Vector"], "opcode": [f"op{number}"]})  # fmt: skip
    recording = read_profile(tmp_path / "p")
    assert [recording.row(row).name for row in range(11)] == [f"op{number}" for number in range(11)]


def test_packets_stand_in_for_transfers(device: Path) -> None:
    (device / "DmaPacketAggregated.parquet").rename(device / "DmaPacket.parquet")
    assert row_named(read_profile(device), "dma read") >= 0


def test_a_profile_may_have_instructions_only(tmp_path: Path) -> None:
    write_table(
        tmp_path / "p", "Instruction", {"start_ts": [5], "duration_ns": [3], "engine": ["Sync"], "opcode": ["DRAIN"]}
    )
    recording = read_profile(tmp_path / "p")
    assert (recording.makespan, recording.lanes[0].name) == (3000, "sync")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"start_ts": [1], "engine": ["PE"]}, "has no field opcode"),
        ({"start_ts": [1], "engine": ["PE"], "opcode": ["A"]}, "has no field duration_ns"),
        ({"start_ts": ["soon"], "end_ts": [1], "engine": ["PE"], "opcode": ["A"]}, "damaged"),
        ({"start_ts": pa.array([], pa.int64()), "end_ts": [], "engine": [], "opcode": []}, "no instructions"),
    ],
)
def test_a_table_that_is_none_is_told(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    write_table(tmp_path / "p", "Instruction", columns)
    with pytest.raises(OSError, match=message) as caught:
        read_profile(tmp_path / "p")
    assert isinstance(caught.value, NkiError)
    assert caught.value.diagnostics[0].code == "NKI019"


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 1000])
def test_a_damaged_file_is_told(device: Path, content: bytes) -> None:
    (device / "Flow.parquet").write_bytes(content)
    with pytest.raises(OSError, match=r"Flow\.parquet: damaged"):
        read_profile(device)


@pytest.mark.extended
def test_a_file_with_one_wrong_bit_is_read_or_told(device: Path) -> None:
    path = device / "Flow.parquet"
    content = path.read_bytes()
    told: set[str] = set()
    for bit in range(0, 8 * len(content), 23):
        changed = bytearray(content)
        changed[bit >> 3] ^= 1 << (bit & 7)
        path.write_bytes(changed)
        try:
            read_profile(device)
        except NkiError as error:
            assert error.diagnostics[0].code == "NKI019"
            told.add(re.sub(r"\d+", "N", error.diagnostics[0].message))
    assert any("values in N rows" in message for message in told)


def test_what_is_no_profile_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="NKI018"):
        read_profile(tmp_path / "nothing")
    with pytest.raises(OSError, match=r"NKI019.*no table Instruction"):
        read_profile(tmp_path)


def test_a_recording_is_no_profile(tmp_path: Path) -> None:
    Recording(synthetic(30)).save(tmp_path / "run")
    with pytest.raises(OSError, match="NKI019"):
        read_profile(tmp_path / "run")


def test_a_profile_saved_as_a_recording_stays_the_same(device: Path, tmp_path: Path) -> None:
    profile = read_profile(device)
    assert isinstance(profile, Recording)
    profile.save(tmp_path / "run")
    opened = Recording.open(tmp_path / "run")
    assert opened.hash() == profile.hash()
    assert json.loads(json.dumps(opened.summary)) == opened.summary
