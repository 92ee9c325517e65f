"""`nki.baremetal`, `nki.benchmark` and `nki.profile`: what a call leaves and which files it writes."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from neuronxcc import nki
from neuronxcc.nki import language as nl
from neuronxcc.nki import typing as nt

import nki_lab
from nki_lab.diagnostic import NkiError
from nki_lab.dialects.launches import observed_by
from tests.every import for_each

X = np.arange(128 * 512, dtype=np.float32).reshape(128, 512)


def double(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a) * 2)
    return out


def instance(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    i = nl.program_id(0)
    nl.store(out[i], nl.load(a[i]))
    return out


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")


def listed(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def p50(kernel: Any) -> float:
    return kernel.benchmark_result.nc_latency.get_latency_percentile(50)


def test_a_benchmark_computes_once_and_leaves_the_predicted_time_with_launch(
    capsys: pytest.CaptureFixture[str],
) -> None:
    timed = nki.benchmark(warmup=5, iters=10)(double)
    np.testing.assert_array_equal(timed(X), X * 2)
    latency = timed.benchmark_result.nc_latency
    found = {latency.get_latency_percentile(percent) for percent in (0, 1, 10, 25, 50, 90, 99, 100)}
    run = nki_lab.profile(nki.jit(double), nki_lab.spec(X.shape, "float32"), target="trn2", launch_overhead=True)
    assert found == {run.summary.makespan_ns / 1e3}
    assert run.summary.launch_ns > 0
    assert p50(timed) > nki_lab.profile(nki.jit(double), X, target="trn2").summary.makespan_ns / 1e3
    shown = capsys.readouterr().out
    assert shown.count("a prediction, not a measurement") == 1
    assert f"{p50(timed):,.2f} us" in shown
    low, high = latency.interval
    assert low < p50(timed) < high
    assert "prediction" in repr(timed.benchmark_result)


def test_shapes_are_timed_and_give_no_results() -> None:
    timed = nki.benchmark(double)
    assert timed(nt.tensor[[128, 512], nl.float32]) is None
    shapes = p50(timed)
    assert timed(X) is not None
    assert p50(timed) == shapes
    assert timed(a=nt.tensor[[128, 64], nl.bfloat16]) is None
    assert p50(timed) < shapes


def test_each_launch_grid_has_its_own_latency_and_the_kernel_the_last() -> None:
    timed = nki.benchmark(instance)
    one, four = timed[1], timed[4]
    source = np.ones((4, 128, 512), np.float32)
    one(source)
    four(source)
    assert p50(one) < p50(four) == p50(timed)


def test_mode_benchmark_of_jit_is_a_benchmark() -> None:
    timed = nki.jit(double, mode="benchmark", platform_target="trn1")
    timed(X)
    assert timed.benchmark_result.nc_latency.get_latency_percentile(99) > 0


def test_a_kernel_that_was_not_called_or_failed_has_no_latency() -> None:
    @nki.benchmark
    def failing(a):
        raise ValueError("no")

    with pytest.raises(NkiError, match=r"NKI023 failing\.benchmark_result: the kernel has not been called"):
        p50(failing)
    with pytest.raises(ValueError, match="no"):
        failing(X)
    with pytest.raises(NkiError, match="NKI023"):
        p50(failing)
    timed = nki.benchmark(double)
    timed(X)
    before = p50(timed)
    with pytest.raises(NkiError):
        timed(X, X)
    assert p50(timed) == before


@for_each([95, -1, "p50", None])
def test_another_percentile_is_refused_with_those_that_there_are(percent: Any) -> None:
    timed = nki.benchmark(double)
    timed(X[:2])
    with pytest.raises(NkiError, match=r"NKI012 get_latency_percentile(.|\n)*one of 0, 1, 10, 25, 50, 90, 99, 100"):
        timed.benchmark_result.nc_latency.get_latency_percentile(percent)


def test_a_benchmark_writes_recording_and_profile_under_their_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    timed = nki.benchmark(save_neff_name="file.neff", save_trace_name=Path("profile.ntff"))(double)
    np.testing.assert_array_equal(timed(X), X * 2)
    assert listed(tmp_path) == ["file.neff", "profile.ntff"]
    saved, profile = nki_lab.open(tmp_path / "file.neff"), nki_lab.open(tmp_path / "profile.ntff")
    assert saved.summary.makespan_ns / 1e3 == p50(timed)
    assert len(profile.recording) == len(saved.recording)
    shown = capsys.readouterr().out
    assert "file.neff: a folder with the recording of double in place of a NEFF" in shown
    assert (
        "profile.ntff: a folder with Neuron Explorer tables of the prediction for double in place of an NTFF" in shown
    )
    timed(X)  # a second call replaces them
    assert listed(tmp_path) == ["file.neff", "profile.ntff"]


def test_baremetal_writes_what_it_is_asked_for(tmp_path: Path) -> None:
    np.testing.assert_array_equal(nki.baremetal(double)(X), X * 2)
    assert listed(tmp_path) == []
    kernel = nki.baremetal(
        double, save_neff_name=str(tmp_path / "deep" / "neff_1.neff"), artifacts_dir=tmp_path / "empty"
    )
    kernel(X)
    assert nki_lab.open(tmp_path / "deep" / "neff_1.neff").name == "double"
    assert "dma_copy" in (tmp_path / "empty" / "double.nki-ir.txt").read_text()
    with pytest.raises(NkiError, match=r"NKI021 (.|\n)*empty exists(.|\n)*artifacts_dir"):
        kernel(X)


def test_simulate_kernel_and_run_write_nothing(tmp_path: Path) -> None:
    kernel = nki.baremetal(double, save_neff_name="file.neff", artifacts_dir="a")
    np.testing.assert_array_equal(nki.simulate_kernel(kernel, X), X * 2)
    assert nki_lab.run(kernel, X).ok
    assert listed(tmp_path) == []


def test_a_profile_goes_to_its_working_directory(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    profiled = nki.profile(working_directory=folder, profile_nth=10, num_execs=20)(double)
    assert profiled(nt.tensor[[128, 512], nl.float32]) is None
    assert listed(folder) == ["file.neff", "json_reports", "profile_exec_10.ntff", "profile_exec_20.ntff"]
    assert listed(folder / "json_reports") == ["profile_exec_10.json", "profile_exec_20.json"]
    report = json.loads((folder / "json_reports" / "profile_exec_20.json").read_text())["double"]
    saved = nki_lab.open(folder / "file.neff")
    assert report["total_time"] == saved.summary.makespan_ns / 1e9
    assert report["note"] == "a prediction, not a measurement"
    assert report["instructions"] == len(saved.recording)
    assert saved.summary.launch_ns == 0


def test_a_profile_replaces_only_what_it_may(tmp_path: Path) -> None:
    names = {"save_neff_name": "a.neff", "save_trace_name": "b.ntff"}
    calls = []

    def counted(a):
        calls.append(1)
        return double(a)

    nki.profile(working_directory=str(tmp_path), **names)(counted)(X)
    before, first = (tmp_path / "a.neff" / "nki_lab.json").read_bytes(), len(calls)
    with pytest.raises(NkiError, match=r"NKI021 (.|\n)*a\.neff exists(.|\n)*overwrite=True"):
        nki.profile(working_directory=str(tmp_path), **names)(counted)(X)
    assert len(calls) == first  # known before the kernel runs
    assert (tmp_path / "a.neff" / "nki_lab.json").read_bytes() == before
    nki.profile(working_directory=str(tmp_path), overwrite=True, **names)(counted)(X)
    assert (tmp_path / "a.neff" / "nki_lab.json").read_bytes() != before


def test_other_files_in_the_way_stay_and_the_kernel_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "profile.ntff").mkdir()
    mine = tmp_path / "profile.ntff" / "notes.txt"
    mine.write_text("mine")
    (tmp_path / "file.neff").write_text("mine too")
    for name in ("save_trace_name", "save_neff_name"):
        kernel = nki.benchmark(**{name: "profile.ntff" if name == "save_trace_name" else "file.neff"})(double)
        with pytest.raises(NkiError, match="NKI021"):
            kernel(X)
        with pytest.raises(NkiError, match="NKI023"):
            p50(kernel)
    assert mine.read_text() == "mine"
    assert (tmp_path / "file.neff").read_text() == "mine too"


@for_each(
    [
        (lambda f: nki.profile(f)(X), "NKI003 .*working_directory"),
        (lambda f: nki.profile(f, save_neff_name="x")(X), "NKI003 .*working_directory"),
        (nki.profile(working_directory="reports"), "NKI012 .*working_directory is 'reports'(.|\n)*an absolute path"),
        (nki.profile(working_directory=Path("x").absolute(), profile_nth=0), "NKI012 .*profile_nth is 0"),
        (nki.benchmark(warmup=-1), "NKI012 .*warmup is -1"),
        (nki.benchmark(iters=0), "NKI012 .*iters is 0"),
        (nki.benchmark(iters=1.5), "NKI012 .*iters is 1.5"),
        (nki.benchmark(save_neff_name=3), "NKI012 .*save_neff_name is 3"),
        (nki.baremetal(save_trace_name=""), "NKI012 .*save_trace_name is ''"),
        (lambda f: nki.benchmark(f, save_nef_name="x"), "NKI002 .*save_nef_name(.|\n)*save_neff_name"),
        (lambda f: nki.jit(f, mode="simulated"), "NKI012 .*mode is 'simulated'(.|\n)*simulation"),
    ]
)
def test_options_are_checked_before_anything_runs(case: tuple[Any, str]) -> None:
    make, message = case
    with pytest.raises(NkiError) as caught:
        make(double)
    assert re.search(message, str(caught.value)), str(caught.value)


def test_mode_simulation_raises_the_index_error_of_numpy() -> None:
    @nki.jit(mode="simulation")
    def gather(table, rows):
        index = nl.load(rows)
        out = nl.ndarray((4, 8), table.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(table[index, nl.arange(8)[None, :]]))
        return out

    table, rows = np.zeros((16, 8), np.float32), np.array([[0], [1], [16], [3]], np.int32)
    with pytest.raises(IndexError) as caught:
        gather(table, rows)
    assert type(caught.value) is IndexError
    assert str(caught.value) == "index 128 is out of bounds for axis 0 with size 128"
    assert "NKI310" in str(caught.value.__cause__)


class Collector:
    """An observer that keeps what it gets, as a notebook cell does."""

    def __init__(self) -> None:
        self.inputs, self.timed, self.interactive = None, True, True
        self.got: list[Any] = []

    def add(self, run: Any) -> None:
        self.got.append(run)

    def launched(self, name: str, execution: Any, arguments: tuple[Any, ...]) -> None:
        self.got.append((name, execution))


def test_a_notebook_cell_gets_the_run_and_the_kernel_its_latency(capsys: pytest.CaptureFixture[str]) -> None:
    timed, cell = nki.benchmark(double), Collector()
    with observed_by(cell):
        np.testing.assert_array_equal(timed(X), X * 2)
        assert timed(nt.tensor[[128, 512], nl.float32]) is None
    assert [name for name, _ in cell.got] == ["double", "double"]
    assert {run.timeline.summary.makespan_ns / 1e3 for _, run in cell.got} == {p50(timed)}
    assert capsys.readouterr().out == ""  # the cell shows the time


def test_without_pyarrow_files_are_refused_before_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(NkiError, match=r"NKI022 (.|\n)*pyarrow(.|\n)*nki-lab\[save\]"):
        nki.baremetal(double, save_neff_name="file.neff")(X)
    assert listed(tmp_path) == []
    timed = nki.benchmark(double)
    timed(X)
    assert p50(timed) > 0
    assert "prediction" in capsys.readouterr().out


def test_a_file_in_the_place_of_a_folder_is_found_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "reports").write_text("a file")
    calls: list[int] = []

    def counted(a):
        calls.append(1)
        return double(a)

    for kernel in (
        nki.profile(counted, working_directory=tmp_path / "reports"),
        nki.benchmark(counted, save_trace_name="reports/profile.ntff"),
        nki.baremetal(counted, artifacts_dir="reports"),
    ):
        with pytest.raises(NkiError, match=r"NKI021 (.|\n)*reports"):
            kernel(X)
    assert not calls
    assert (tmp_path / "reports").read_text() == "a file"


def test_a_folder_that_may_not_be_written_to_is_found_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "locked").mkdir()
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place).name != "locked")  # root may write everywhere
    with pytest.raises(NkiError, match=r"NKI021 (.|\n)*locked may not be written to"):
        nki.benchmark(double, save_neff_name="locked/file.neff")(X)
