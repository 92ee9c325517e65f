"""Recordings of runs that the compiler model changed: rows of the program keep their numbers."""

from __future__ import annotations

from typing import Any

import neuronxcc.nki.language as nl
import numpy as np
import pytest
from neuronxcc import nki

import nki_lab
from nki_lab.kernel_runtime.vocabulary import ORIGINS
from nki_lab.wire.rows import Steps
from tests.kernel_runtime.backend import test_broadcasts

SQUARE = np.ones((128, 128), np.float32)
STATES = np.ones((2, 128, 64), np.float32)
MANY = np.random.default_rng(1).normal(size=(52, 128, 1024)).astype(np.float32)


@nki.jit
def kernel(a, b):
    """Load tiles twice, keep more of them than SBUF holds, copy them, and compute a small tile four times."""
    out = nl.ndarray((52, 128, 1024), a.dtype, buffer=nl.shared_hbm)
    kept = nl.ndarray((52, nl.par_dim(128), 1024), a.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(52):
        kept[i] = nl.exp(nl.load(a[i]))
    for i in nl.affine_range(52):
        again = nl.load(a[i])
        nl.store(out[i], nl.copy(nl.add(kept[i], again)))
    small = nl.ndarray((4, 128, 64), b.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        nl.store(small[i], nl.exp(nl.load(b)))
    return out, small


def run(model: str) -> Any:
    return nki_lab.run(kernel, MANY, MANY[0, :, :64], target="trn1", compiler_model=model)


@pytest.fixture(scope="module")
def both() -> tuple[Any, Any]:
    return run("all"), run("none")


def test_rows_of_the_program_come_first_and_keep_their_places(both: tuple[Any, Any]) -> None:
    on, off = (item.recording.table("rows") for item in both)
    count = len(off)
    assert len(on) > count
    for name in ("site", "iteration", "access"):
        np.testing.assert_array_equal(on[name][:count], off[name][:])
    changes = both[0].recording.table("changes")
    row, origin = changes["row"][:], changes["origin"][:]
    np.testing.assert_array_equal(row[row >= count], np.arange(count, len(on)))
    assert {ORIGINS[number] for number in origin[row >= count].tolist()} == {"inserted"}
    assert {ORIGINS[number] for number in origin[row < count].tolist()} <= {"source", "moved", "left out"}
    assert not len(both[1].recording.table("changes"))


def test_rows_that_are_left_out_take_no_time(both: tuple[Any, Any]) -> None:
    recording = both[0].recording
    changes = recording.table("changes")
    out = changes["origin"][:] == ORIGINS.index("left out")
    assert out.any()
    assert not recording.table("rows")["duration"][changes["row"][:][out]].any()
    assert not changes["stands_for"][:][out].any()


def test_values_at_the_end_are_those_without_the_model(both: tuple[Any, Any]) -> None:
    on, off = both
    for one, other in zip(on.outputs, off.outputs, strict=True):
        np.testing.assert_array_equal(one, other)
    last = len(on.recording.table("rows"))
    for number, buffer in enumerate(off.program.buffers[:8]):
        mine = on.values.at(last, on.program.buffers[number])
        np.testing.assert_array_equal(mine, off.values.at(len(off.program), buffer))


def test_the_summary_tells_the_time_without_the_model(both: tuple[Any, Any]) -> None:
    on, off = both
    assert on.summary.makespan_without_compiler_model_ns == off.summary.makespan_ns
    assert on.summary.compiler_model["tiles saved to HBM"] > 0
    assert "compiler_model" not in off.summary
    assert "compiler model: " in on.report()
    assert "compiler model: " not in off.report()


def test_a_spill_is_a_warning_that_says_what_the_model_moves(both: tuple[Any, Any]) -> None:
    for item in both:
        assert "NKI315" not in [found.code for found in item.diagnostics]
    found = next(item for item in both[0].diagnostics if item.code == "NKI318")
    assert found.severity == "warning"
    assert "tiles saved to HBM" in found.note


def test_saved_recordings_are_read_back(both: tuple[Any, Any], tmp_path: Any) -> None:
    both[0].save(tmp_path / "run.nkirec")
    again = nki_lab.open(tmp_path / "run.nkirec")
    np.testing.assert_array_equal(
        again.recording.table("changes")["row"][:], both[0].recording.table("changes")["row"][:]
    )


def test_messages_say_it_of_the_same_rows_whatever_their_range(both: tuple[Any, Any]) -> None:
    recording = both[0].recording
    changes = recording.table("changes")
    wanted = {
        int(row): (int(origin), int(count))
        for row, origin, count in zip(changes["row"][:], changes["origin"][:], changes["stands_for"][:], strict=True)
    }
    steps, found = Steps(recording), {}
    for first in range(0, len(recording), 100):
        told = steps.tables(first, 100)["changes"]
        for place, origin, count in zip(told["place"], told["origin"], told["stands_for"], strict=True):
            found[int(steps.order[first + place])] = (int(origin), int(count))
    assert found == wanted
    assert not len(Steps(both[1].recording).tables(0, 100)["changes"]["place"])


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [
        (test_broadcasts.scaled, (SQUARE, SQUARE[:1], 3)),
        (test_broadcasts.of_states, (STATES, SQUARE)),
        (test_broadcasts.of_tiles, (STATES, SQUARE)),
    ],
)
def test_rows_of_the_program_keep_their_operands(kernel: Any, arguments: tuple[Any, ...]) -> None:
    """Products in place of transfers have three operands, the transfers that the kernel wrote have two."""
    on, off = (
        nki_lab.profile(kernel, *arguments, target="trn1", compiler_model=model).recording for model in ("all", "none")
    )
    assert len(on) > len(off)
    for row in range(len(off)):
        assert on.accesses(row) == off.accesses(row)
    assert len(on.table("accesses")) == sum(len(on.accesses(row)) for row in range(len(on)))
