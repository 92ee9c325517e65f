"""Tensors of a run by name: what the views show, what is ambiguous, what is unknown."""

from __future__ import annotations

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab.diagnostic import NkiError
from nki_lab.result import Run


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for i in range(2):
        for j in range(3):
            part = nl.ndarray((128, 32), nl.bfloat16, buffer=nl.sbuf)
            nisa.dma_copy(dst=part, src=x[i, j])
            acc = nl.ndarray((128, 32), nl.float32, buffer=nl.sbuf, name="sum")
            nisa.tensor_scalar(dst=acc, data=part, op0=nl.multiply, operand0=float(1 + i))
            nisa.dma_copy(dst=out[i, j], src=acc)
    last = nl.ndarray((128, 32), nl.float8_e4m3, buffer=nl.sbuf)
    nisa.tensor_copy(dst=last, src=acc)
    again = [nl.ndarray((128, 8), nl.int32, buffer=nl.sbuf) for _ in range(2)]
    for tile in again:
        nisa.memset(dst=tile, value=7)
    part = nl.ndarray((128, 8), nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=part, value=3)
    return out


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((2, 3, 128, 32)).astype(np.float32)


@pytest.fixture(scope="module")
def run(data: np.ndarray) -> Run:
    return nki_lab.run(kernel, data, target="trn2")


def refused(run: Run, *args: object, **keywords: object) -> str:
    with pytest.raises(NkiError) as caught:
        run.tile(*args, **keywords)
    (item,) = caught.value.diagnostics
    assert item.code == "NKI027"
    return f"{item.message}; {item.help}"


def test_a_name_gives_the_values_at_the_end_in_the_dtype_of_the_tensor(run: Run, data: np.ndarray) -> None:
    found = run.tile("part[1, 2]")
    assert found.dtype == ml_dtypes.bfloat16
    assert (found == data[1, 2].astype(ml_dtypes.bfloat16)).all()
    assert run.tile("last").dtype == ml_dtypes.float8_e4m3
    assert np.array_equal(run.tile("out"), run.outputs[0])
    assert np.array_equal(run.tile("x"), data)


def test_loops_whose_value_does_not_change_are_left_out_of_a_label(run: Run) -> None:
    labels = run._tensors.labels
    assert {"part[0, 0]", "part[1, 2]", "sum[0, 1]", "last"} <= set(labels)
    assert [label for label in labels if label.startswith("again")] == ["again[0]", "again[1]"]


def test_a_step_shows_the_past(run: Run) -> None:
    writes = [row for row in range(len(run.recording)) if run.recording.row(row).name == "tensor_scalar"]
    step = run.recording.step_of(writes[0])
    before = run.tile("sum[0, 0]", step=step)
    assert np.isnan(before).all()
    assert np.isfinite(run.tile("sum[0, 0]")).all()
    assert not run.tile("out", step=0).any() or np.isnan(run.tile("out", step=0)).all()


def test_an_ambiguous_name_lists_what_it_may_mean_with_steps(run: Run) -> None:
    text = refused(run, "sum")
    assert text.startswith("6 tensors are called 'sum'")
    assert "sum[0, 0] (number " in text
    assert "steps " in text


def test_a_step_decides_between_tensors_of_one_name(run: Run) -> None:
    used = run._tensors._used
    numbers = [n for n, label in enumerate(run._tensors.labels) if label.startswith("sum")]
    live = {step: [n for n in numbers if used[n][0] <= step <= used[n][1]] for step in range(len(run.program))}
    lonely = {step: found[0] for step, found in live.items() if len(found) == 1}
    assert lonely
    for step, number in lonely.items():
        assert np.array_equal(run.tile("sum", step=step), run.tile(number, step=step), equal_nan=True)


def test_an_unknown_name_gets_the_nearest(run: Run) -> None:
    assert "did you mean last?" in refused(run, "lest")
    assert "it has x, out, part, sum" in refused(run, "qqq")
    assert "numbers go from 0" in refused(run, 10**6)
    assert "no tensor -1" in refused(run, -1)


def test_an_unknown_step_is_refused(run: Run) -> None:
    for step in (-1, len(run.program) + 1):
        assert f"no step {step}" in refused(run, "last", step=step)
    run.tile("last", step=len(run.program))


def test_numbers_buffers_tensors_and_views_are_taken_as_they_are(run: Run) -> None:
    number = run._tensors.labels.index("last")
    buffer = run.program.buffers[number]
    wanted = run.tile("last")
    view = next(view for view in run.program.views if view.buffer is buffer)
    for what in (number, buffer, view):
        assert np.array_equal(run.tile(what), wanted)
    assert np.array_equal(run.tile(run.program.outputs[0]), run.outputs[0])


def test_a_name_with_markup_is_text() -> None:
    @nki.jit
    def odd(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, nl.float32, buffer=nl.sbuf, name="<img src=x>")
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=out, src=tile)
        return out

    done = nki_lab.run(odd, np.ones((128, 4), np.float32), target="trn2")
    assert (done.tile("<img src=x>") == 1).all()


def test_values_after_a_device_loop_are_found_by_name() -> None:
    @nki.jit
    def loops(x):
        out = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.shared_hbm)
        acc = nl.ndarray(x.shape[1:], nl.float32, buffer=nl.sbuf, name="acc")
        nisa.memset(dst=acc, value=0.0)
        for n in nl.dynamic_range(x.shape[0]):
            data = nl.load(x[n])
            nisa.tensor_tensor(dst=acc, data1=acc, data2=data, op=nl.add)
        nl.store(out, acc)
        return out

    x = np.random.default_rng(0).standard_normal((3, 128, 8)).astype(np.float32)
    done = nki_lab.run(loops, x, target="trn2")
    np.testing.assert_allclose(done.tile("acc"), x.sum(axis=0), rtol=1e-5)
    step = done.recording.step_of(next(r for r in range(len(done.recording)) if "memset" in done.recording.row(r).name))
    assert np.isnan(done.tile("acc", step=step)).all()


def test_a_shadow_is_unrounded_and_integers_are_those_of_the_run(run: Run, data: np.ndarray) -> None:
    end = len(run.program)
    labels, buffers = run._tensors.labels, run.program.buffers
    exact = run.values.shadow(end, buffers[labels.index("sum[1, 2]")])
    assert exact.dtype == np.float64
    assert np.array_equal(exact, data[1, 2].astype(np.float64) * 2)
    assert np.array_equal(run.values.shadow(end, buffers[labels.index("last")]), exact)
    assert (run.values.shadow(end, buffers[labels.index("again[1]")]) == 7).all()
    assert np.array_equal(run.values.shadow(0, run.program.inputs[0]), data)
    with pytest.raises(IndexError):
        run.values.shadow(end + 1, buffers[0])
