"""What goes wrong with memory, time and recordings: each said with a code, and the process goes on."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nki_lab
from nki_lab import NkiError

X = np.ones((128, 2048), np.float32)


@nki.jit
def hoarding(x):
    """Forty-one tiles of 8 KiB a partition are in use at once; SBUF has 224 KiB."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = []
    for _ in range(40):
        tiles.append(nl.load(x))  # noqa: PERF401 - comprehensions are no part of the language
    total = nl.load(x)
    for tile in tiles:
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    nl.store(out, total)
    return out


@nki.jit
def crowded_psum(x):
    """Nine banks of PSUM are in use at once; there are eight."""
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.load(x)
    sums = []
    for _ in range(9):
        total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=a[:, 0:128], moving=a[:, 0:512])
        sums.append(total)
    result = nl.copy(sums[0])
    for n in range(1, 9):
        nisa.tensor_tensor(dst=result, data1=result, data2=sums[n], op=nl.add)
    nl.store(out, result)
    return out


@nki.jit
def empty(x):
    return x


@nki.jit
def nothing_moved(x):
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[:, 0:0], src=x[:, 0:0])


@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out


# -- kernels ----------------------------------------------------------------------------------------------------------


def test_a_kernel_that_overflows_sbuf_names_the_live_tensors_and_goes_on() -> None:
    run = nki_lab.run(hoarding, X, target="trn2")
    (found,) = run.diagnostics
    assert (found.code, found.outcome, found.severity) == ("NKI315", "reject", "error")
    assert "229376" in found.message
    assert "SBUF" in found.message
    assert found.help
    named = [item for item in found.related if "(128, 2048) float32" in item.message]
    assert named
    assert all("8192 bytes" in item.message and item.span is not None for item in named)
    assert (run.outputs[0] == 41).all(), "values are computed all the same"
    assert run.summary.makespan_ns > 0
    assert run.summary.sbuf_peak_bytes_per_partition == 41 * 8192
    with pytest.raises(NkiError, match="NKI315"):
        nki_lab.run(hoarding, X, target="trn2", strict=True)


def test_a_kernel_that_overflows_psum_is_said_too() -> None:
    run = nki_lab.run(crowded_psum, X, target="trn2")
    assert [item.code for item in run.diagnostics] == ["NKI315"]
    assert "PSUM" in run.diagnostics[0].message
    assert (run.outputs[0] == 9 * 128).all()


@pytest.mark.parametrize("call", [nki_lab.run, nki_lab.profile, nki_lab.compile])
@pytest.mark.parametrize("target", ["trn9", "TRN", "", 2])
def test_an_unknown_target_is_said_by_every_call(call: Any, target: Any) -> None:
    with pytest.raises(ValueError, match="NKI004"):
        call(copied, X, target=target)


def test_a_kernel_without_instructions_takes_no_time(tmp_path: Path) -> None:
    for done in (nki_lab.run(empty, X, target="trn2"), nki_lab.profile(empty, X, target="trn2")):
        assert (done.summary.instructions, done.summary.makespan_ns, len(done.recording)) == (0, 0, 0)
        assert sum(done.summary.engine_busy_ns.values()) == done.summary.mfu == 0
        assert done.report().startswith("empty on trn2: 0 ns, 0 instructions\nNo instruction was recorded.\n")
        assert "No instruction was recorded." in done.to_html(tmp_path / "report.html").read_text(encoding="utf-8")
        assert done.to_perfetto(tmp_path / "trace.pftrace").exists()
        opened = nki_lab.open(done.save(tmp_path / "run.nkirec"))
        assert opened.report() == done.report()


def test_a_transfer_of_nothing_is_refused_where_it_is_written() -> None:
    for call in (nki_lab.run, nki_lab.profile):
        with pytest.raises(IndexError, match="NKI303") as caught:
            call(nothing_moved, X, target="trn2")
        assert caught.value.diagnostics[0].file == __file__


# -- recordings -------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return nki_lab.profile(copied, X, target="trn2").save(tmp_path / "run.nkirec")


def refused(path: Path | str, code: str) -> str:
    """What is said where a recording opens or is used."""
    with pytest.raises(OSError, match=code) as caught:
        opened = nki_lab.open(path)
        opened.report()
        opened.recording.hash()
    assert isinstance(caught.value, NkiError)
    assert [item.code for item in caught.value.diagnostics] == [code]
    return str(caught.value)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    assert "none.nkirec" in refused(tmp_path / "none.nkirec", "NKI018")
    file = tmp_path / "file"
    file.write_text("text", encoding="utf-8")
    refused(file, "NKI018")


def test_a_folder_of_something_else_is_said(tmp_path: Path) -> None:
    refused(tmp_path, "NKI019")
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "nki_lab_rows.parquet")
    refused(tmp_path, "NKI019")
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "Instruction.parquet")
    refused(tmp_path, "NKI019")


def test_every_file_that_is_missing_short_or_changed_is_noticed(saved: Path, tmp_path: Path) -> None:
    for number, file in enumerate(sorted(saved.iterdir())):
        for spoil in ("missing", "empty", "half", "changed"):
            copy = tmp_path / f"copy {number} {spoil}"
            shutil.copytree(saved, copy)
            content = bytearray((copy / file.name).read_bytes())
            (copy / file.name).unlink()
            if spoil != "missing":
                content[len(content) // 2] ^= 0x55
                kept = {"empty": 0, "half": len(content) // 2, "changed": len(content)}[spoil]
                (copy / file.name).write_bytes(content[:kept])
            refused(copy, "NKI019")


def test_a_recording_of_a_later_version_is_said(saved: Path) -> None:
    manifest = saved / "nki_lab.json"
    content = json.loads(manifest.read_text(encoding="utf-8"))
    content["version"] = [99, 0]
    manifest.write_text(json.dumps(content), encoding="utf-8")
    refused(saved, "NKI020")


@pytest.mark.parametrize("act", ["save", "to_html", "to_perfetto"])
def test_what_cannot_be_written_is_said_and_leaves_nothing(act: str, tmp_path: Path) -> None:
    run = nki_lab.profile(copied, X, target="trn2")
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(OSError, match="NKI021"):
        getattr(run, act)(tmp_path / "file" / "out")
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("act", ["save", "to_explorer"])
def test_a_disk_that_fills_up_keeps_no_folder(act: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run = nki_lab.profile(copied, X, target="trn2")
    monkeypatch.setattr(pq, "ParquetWriter", full)
    with pytest.raises(OSError, match="NKI021"):
        getattr(run, act)(tmp_path / "new" / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000])
def test_what_is_no_path_is_said(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = nki_lab.profile(copied, X, target="trn2")
    for act in (run.save, run.to_html, run.to_csv, run.to_explorer, run.to_perfetto):
        with pytest.raises(OSError, match="NKI021"):
            act(path)
    refused(path, "NKI018")
    assert not list(tmp_path.iterdir())


def test_the_process_goes_on_after_all_of_it() -> None:
    assert (nki_lab.run(copied, X, target="trn2").outputs[0] == 1).all()
