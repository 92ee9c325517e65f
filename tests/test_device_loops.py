"""Kernels with device loops from end to end: results, times along the path, trip counts of the user, the recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab import cli
from nki_lab.diagnostic import NkiError

ROWS = np.arange(8 * 128 * 64, dtype=np.float32).reshape(8, 128, 64) % 97
X, N = nki_lab.spec(ROWS.shape, "float32"), nki_lab.spec((1, 1), "int32")


def number(value: int) -> Any:
    return np.array([[value]], np.int32)


@nki.jit
def picked(x, count):
    """out[i] = 2 * x[i] for i below the count; zeros for the others."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    zero = nl.zeros((128, 64), dtype=x.dtype)
    for row in range(x.shape[0]):
        nl.store(out[row], zero)
    stop = nisa.register_alloc()
    nisa.register_load(stop, nl.load(count))
    tile = nl.ndarray((128, 64), dtype=x.dtype)

    def double(i):
        nisa.dma_copy(dst=tile, src=x.select(0, i))
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
        nisa.dma_copy(dst=out.select(0, i), src=tile)

    nl.fori_loop(0, stop, double)
    return out


@nki.jit
def halved(x, count):
    """x[0] halved until the count, halved as well, is 0."""
    tile = nl.load(x[0])
    left = nl.load(count)
    register = nisa.register_alloc()
    nisa.register_load(register, left)
    while register:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
        nisa.tensor_scalar(dst=left, data=left, op0=nl.right_shift, operand0=1)
        nisa.register_load(register, left)
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("count", [0, 1, 8])
@pytest.mark.parametrize("memory", ["virtual", "physical"])
def test_a_counted_loop_over_data_does_as_many_passes(target: str, count: int, memory: str) -> None:
    done = nki_lab.run(picked, ROWS, number(count), target=target, memory=memory)
    wanted = np.where(np.arange(8)[:, None, None] < count, 2 * ROWS, 0)
    np.testing.assert_array_equal(done.outputs[0], wanted)
    assert not [item for item in done.diagnostics if item.severity != "information"]
    assert done.summary.instructions == len(done.recording) == 11 + 3 * count


@pytest.mark.parametrize("count", [0, 1, 5, 64])
def test_a_conditional_loop_ends_when_its_register_is_zero(count: int) -> None:
    done = nki_lab.run(halved, ROWS, number(count), target="trn2")
    np.testing.assert_array_equal(done.outputs[0], ROWS[0] / 2 ** count.bit_length())
    assert done.summary.instructions == 4 + 3 * count.bit_length()


def test_calls_with_other_data_share_a_program_and_not_its_path() -> None:
    first, second = (nki_lab.run(picked, ROWS, number(count), target="trn2") for count in (2, 5))
    assert first.program is second.program
    assert (len(first.recording), len(second.recording)) == (17, 26)
    assert first.summary.makespan_ns < second.summary.makespan_ns
    assert len(first.recording) == 17


def test_a_profile_with_trip_counts_has_the_times_of_the_run() -> None:
    for kernel, names, count, passes in ((picked, ("i", "double"), 3, 3), (halved, ("register",), 5, 3)):
        done = nki_lab.run(kernel, ROWS, number(count), target="trn2")
        (line,) = [item.line for item in nki_lab.compile(kernel, X, N).diagnostics if item.code == "NKI801"]
        for name in (*names, line, str(line)):
            timed = nki_lab.profile(kernel, X, N, target="trn2", trip_counts={name: passes})
            assert timed.summary.instructions == done.summary.instructions
            assert timed.summary.makespan_ns == pytest.approx(done.summary.makespan_ns, rel=0.05)
            assert not [item for item in timed.diagnostics if item.code == "NKI801"]


def test_without_trip_counts_there_are_no_times_and_a_finding_says_so() -> None:
    timed = nki_lab.profile(picked, X, N, target="trn2")
    (found,) = [item for item in timed.diagnostics if item.code == "NKI801"]
    assert (found.severity, found.outcome) == ("information", "advice")
    assert "trip_counts={'i': 16}" in found.help
    assert not timed.has_recording
    assert "makespan_ns" not in timed.summary
    assert "flops" not in timed.summary
    assert "NKI801" in timed.report()
    with pytest.raises(NkiError, match="NKI023"):
        _ = timed.recording
    assert "NKI801" in [item.code for item in nki_lab.compile(picked, X, N, target="trn2").diagnostics]
    known = nki_lab.compile(picked, X, N, target="trn2", trip_counts={"i": 2})
    assert "NKI801" not in [item.code for item in known.diagnostics]


@pytest.mark.parametrize("counts", [{"i": -1}, {"i": 1.5}, {"i": "3"}, {"j": 3}, {3: 3}, {"i": 10**9}], ids=str)
def test_trip_counts_that_mean_nothing_are_refused(counts: Any) -> None:
    with pytest.raises(NkiError) as caught:
        nki_lab.profile(picked, X, N, target="trn2", trip_counts=counts, max_instructions=100_000)
    assert caught.value.diagnostics[0].code == ("NKI011" if counts == {"i": 10**9} else "NKI012")


def test_a_loop_between_constants_takes_the_time_of_its_unrolled_twin() -> None:
    @nki.jit
    def kernel(x, device):
        tile = nl.load(x[0])
        other = nl.load(x[1])
        for _ in nl.dynamic_range(5) if device else range(5):
            nisa.tensor_tensor(dst=tile, data1=tile, data2=other, op=nl.add)
            nisa.activation(dst=other, op=nl.exp, data=tile)
            nisa.dma_copy(dst=x[2], src=other)
        nl.store(x[0], tile)
        return x

    looped, unrolled = (nki_lab.profile(kernel, X, device, target="trn2") for device in (True, False))
    for name in ("instructions", "makespan_ns", "engine_busy_ns", "dma_bytes", "stall_ns"):
        assert looped.summary[name] == unrolled.summary[name], name


def test_the_recording_tells_passes_of_all_loops() -> None:
    recording = nki_lab.run(picked, ROWS, number(2), target="trn2").recording
    passes = [recording.iteration(row) for row in range(len(recording))]
    assert passes[0] == ()
    assert passes[1:9] == [(("row", row),) for row in range(8)]
    assert passes[11:] == [(("i", i),) for i in range(2) for _ in range(3)]
    row = recording.row(12)
    assert row.iteration == (("i", 0),)


def test_a_recording_with_loops_survives_a_save(tmp_path: Path) -> None:
    done = nki_lab.run(picked, ROWS, number(3), target="trn2")
    done.save(tmp_path / "run")
    again = nki_lab.open(tmp_path / "run").recording
    assert [again.iteration(row) for row in range(len(again))] == [
        done.recording.iteration(row) for row in range(len(again))
    ]
    done.to_perfetto(tmp_path / "run.pftrace")
    assert (tmp_path / "run.pftrace").stat().st_size > 1000


def test_values_are_those_of_the_step_in_its_pass() -> None:
    done = nki_lab.run(picked, ROWS, number(3), target="trn2")
    tile = next(buffer for buffer in done.program.buffers if buffer.on_chip and buffer.id > 4)
    last = done.values.at(len(done.recording), tile)
    assert last is not None
    np.testing.assert_array_equal(last, 2 * ROWS[2])


def test_a_fault_in_a_pass_ends_the_rows_there() -> None:
    done = nki_lab.run(picked, ROWS, number(12), target="trn2", on_error="report")
    assert done.error is not None
    assert done.error.diagnostics[0].code == "NKI310"
    assert "run-time index 8" in str(done.error)
    assert len(done.recording) == 11 + 8 * 3 + 1
    assert done.recording.iteration(len(done.recording) - 1) == (("i", 8),)


def test_an_endless_loop_is_refused_with_its_line() -> None:
    @nki.jit
    def kernel(x):
        register = nisa.register_alloc(1)
        tile = nl.load(x[0])
        while register:
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nl.store(x[0], tile)
        return x

    done = nki_lab.run(kernel, ROWS.copy(), target="trn2", on_error="report", max_instructions=2000)
    assert done.error is not None
    assert done.error.diagnostics[0].code == "NKI011"
    assert done.error.diagnostics[0].line
    with pytest.raises(NkiError, match="NKI011"):
        nki_lab.profile(kernel, X, target="trn2")
    assert "NKI011" in [item.code for item in nki_lab.compile(kernel, X, target="trn2").diagnostics]


SCRIPT = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x, n):
    stop = nisa.register_alloc()
    nisa.register_load(stop, nl.load(n))
    tile = nl.load(x)

    def step(i):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)

    nl.fori_loop(0, stop, step)
    nl.store(x, tile)
    return x
"""


@pytest.mark.parametrize("name", ["i", "step", "15"])
def test_the_command_line_takes_trip_counts(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(SCRIPT)
    command = ["profile", f"{file}::kernel", "--target", "trn2", "--arg", "x=float32[128,64]", "--arg", "n=int32[1,1]",
               "--format", "json"]  # fmt: skip
    assert cli.main([*command, "--trip-count", f"{name}=7"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["instructions"] == 4 + 7
    assert told["makespan_ns"] > 0
    assert cli.main(command) == 0
    assert "makespan_ns" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("count", ["i", "i=", "i=-1", "i=x", "=3", "i=1.5"])
def test_a_trip_count_that_is_none_is_refused(count: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(SCRIPT)
    command = ["profile", f"{file}::kernel", "--arg", "x=float32[128,64]", "--arg", "n=int32[1,1]"]
    assert cli.main([*command, f"--trip-count={count}"]) == 1
    assert f"--trip-count {count} has no NAME=N" in capsys.readouterr().err


def test_a_program_with_loops_as_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(SCRIPT)
    arguments = ["--arg", "x=float32[128,64]", "--arg", "n=int32[1,1]", "--emit", "json"]
    assert cli.main(["compile", f"{file}::kernel", *arguments]) == 0
    (loop,) = json.loads(capsys.readouterr().out)["loops"]
    assert loop == {
        "kind": "for", "first": 3, "end": 4, "parent": -1, "variable": "i", "body": "step", "register": "r1",
        "lower": 0, "upper": "r0", "step": 1, "trip_count": None, "file": str(file), "line": 15, "other_core": None,
    }  # fmt: skip


@nki.jit
def shared(x, count):
    """Each core doubles every second row below the count."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    stop = nisa.register_alloc()
    nisa.register_load(stop, nl.load(count))

    def double(i):
        tile = nl.load(x.select(0, i))
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
        nl.store(out.select(0, i), tile)

    nl.fori_loop(core, stop, double, step=2)
    return out


def test_each_core_has_loops_and_a_path_of_its_own() -> None:
    done = nki_lab.run(shared[2], ROWS, number(7), target="trn2")
    np.testing.assert_array_equal(done.outputs[0][:7], 2 * ROWS[:7])
    assert [region.parent for region in done.program.regions] == [-1, -1]
    passes = [done.recording.iteration(row) for row in range(len(done.recording))]
    assert [item for item in passes if item][::3] == [(("i", row),) for row in (0, 2, 4, 6, 1, 3, 5)]
    timed = nki_lab.profile(shared[2], X, N, target="trn2", trip_counts={"i": 4})
    assert timed.summary.instructions == 2 * (2 + 3 * 4)
