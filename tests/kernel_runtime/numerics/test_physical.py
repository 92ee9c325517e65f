"""Physical memory: the same values as virtual memory where nothing overlaps, the chip's where something does."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab import session
from nki_lab.kernel_runtime.options import Options
from tests.draws import Seeded
from tests.fuzz import repeated


@nki.jit
def mixed(x, y):
    out = nl.ndarray((256, 256), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(2):
        a = nl.load(x[i * 128 : (i + 1) * 128, :])
        b = nl.load(y)
        turned = nl.ndarray((128, 128), x.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=a[:, 0:128])
        left = nl.copy(turned)
        acc = nl.ndarray((128, 256), nl.float32, buffer=nl.psum)
        for k in range(2):
            nisa.nc_matmul(dst=acc, stationary=left, moving=b[:, k * 256 : (k + 1) * 256])
        soft = nl.ndarray((128, 256), nl.float32)
        nisa.activation(dst=soft, op=nl.gelu, data=acc, scale=0.125)
        count = nl.ndarray((128, 256), nl.int32)
        nisa.iota(dst=count, pattern=[[1, 256]], channel_multiplier=3)
        total = nl.add(soft, count)
        nl.store(out[i * 128 : (i + 1) * 128, :], nl.copy(total, dtype=x.dtype))
    return out


@nki.jit
def overlapping(x):
    """Two placed tiles on the same bytes: the second write destroys the first tile."""
    a = nl.ndarray((128, 64), nl.float32, address=(0, 0))
    b = nl.ndarray((128, 64), nl.float32, address=(0, 128))
    nisa.dma_copy(dst=a, src=x)
    nisa.memset(dst=b, value=7.0)
    out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    nl.store(out, a)
    return out


@pytest.mark.parametrize("kind", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_without_overlaps_physical_memory_computes_what_virtual_memory_does(kind: Any, target: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((256, 256)).astype(kind)
    y = rng.standard_normal((128, 512)).astype(kind)
    virtual = nki_lab.run(mixed, x, y, target=target, matmul_order="tile")
    physical = nki_lab.run(mixed, x, y, target=target, matmul_order="tile", memory="physical")
    assert not [item for item in physical.diagnostics if item.severity != "information"]
    assert virtual.outputs[0].tobytes() == physical.outputs[0].tobytes()


@pytest.mark.parametrize("memory", ["virtual", "physical"])
def test_tensors_on_the_same_bytes_overwrite_each_other_in_both_modes(memory: Any) -> None:
    x = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    run = nki_lab.run(overlapping, x, target="trn2", memory=memory)
    assert np.array_equal(run.outputs[0][:, :32], x[:, :32])
    assert (run.outputs[0][:, 32:] == 7).all()
    assert "NKI317" in [item.code for item in run.diagnostics]


def test_a_kernel_that_looks_at_values_computes_the_same_in_physical_memory(capsys: Any) -> None:
    @nki.jit
    def looking(x):
        a = nl.load(x)
        print(a.numpy().sum())
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(a, a))
        return out

    x = np.ones((4, 4), np.float32)
    assert np.array_equal(nki_lab.run(looking, x, target="trn2", memory="physical").outputs[0], 2 * x)
    assert capsys.readouterr().out == "16.0\n"


def test_an_unknown_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="physical"):
        Options(memory="real")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(128, 48), (128, 6, 8)])
def test_a_load_of_dense_memory_goes_into_each_partition(kind: Any, shape: tuple[int, ...]) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, 48), nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 48), x.dtype)
        wide = nl.ndarray((128, 48), nl.float32)
        nisa.dma_copy(dst=tile.reshape(shape), src=x.reshape(shape))
        nisa.tensor_copy(dst=wide, src=tile)
        nisa.dma_copy(dst=out, src=wide)
        return out

    x = np.arange(128 * 48).reshape(128, 48) % 100
    run = nki_lab.run(kernel, x.astype(kind), target="trn2", memory="physical")
    np.testing.assert_array_equal(run.output, x.astype(np.float32))
    load = run.program.op(0)
    np.testing.assert_array_equal(run.values.after_op(0, load.writes[0]).reshape(128, 48), x.astype(kind))


UNINITIALISED = ("NKI301", "NKI302", "NKI401")


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_drawn_programs_compute_the_same_in_physical_memory(first: int) -> None:
    compared = 0
    for number in range(first, first + 50):
        drawn = (repeated.program, repeated.gather, repeated.cores)[number % 3](Seeded(number))
        made = []
        for memory in ("virtual", "physical"):
            session.forget()
            options = Options(**{**drawn.options, "matmul_order": "tile", "memory": memory})
            launch = session.Launch(repeated.function_of(drawn.text), drawn.target, options, grid=drawn.grid)
            made.append(repeated.call(launch, drawn.calls[0]))
        if not any(code in found for found in made[0].findings for code in UNINITIALISED):
            compared += 1
            assert made[0].bits == made[1].bits, drawn.text
    assert compared > 20
