"""The figures of a run that are shares of a peak, worked out by hand."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nki_lab
from nki_lab.isa.arch import arch_of
from nki_lab.isa.dtype import BF16, F16, F32, FP8, FP8_E4M3, PACKED, TF32
from nki_lab.kernel_runtime.recording.figures import DEFINITIONS, FIGURES, peak_flops_per_ns

TIMES = 40  # products, so that loads are little of the run


def product(stationary: Any, moving: Any, double: bool = False) -> Any:
    """The same product again and again, from tiles that are loaded once."""
    shape = (128, 512)
    out = nl.ndarray(shape, nl.float32, buffer=nl.shared_hbm)
    left, right = nl.load(stationary), nl.load(moving)
    total = nl.ndarray(shape, nl.float32, buffer=nl.psum)
    mode = nisa.matmul_perf_mode.double_row if double else nisa.matmul_perf_mode.none
    for _ in range(TIMES):
        nisa.nc_matmul(dst=total, stationary=left, moving=right, perf_mode=mode)
    nl.store(out, nl.copy(total))
    return out


def packed(stationary: Any, moving: Any) -> Any:
    """The same of MX elements."""
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    operands = {}
    for name, source in (("stationary", stationary), ("moving", moving)):
        columns = source.shape[1]
        block = nl.ndarray((128, columns, 4), nl.bfloat16)
        nisa.memset(dst=block, value=1.0)
        element, scale = nl.ndarray((128, columns), nl.float8_e4m3fn_x4), nl.ndarray((128, columns), nl.uint8)
        nisa.quantize_mx(dst=element, src=block, dst_scale=scale)
        operands |= {name: element, f"{name}_scale": scale}
    total = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
    for _ in range(TIMES):
        nisa.nc_matmul_mx(dst=total, **operands)
    nl.store(out, nl.copy(total))
    return out


def transposed(data: Any) -> Any:
    """One matrix, transposed as products with an identity."""
    out = nl.ndarray((128, 128), data.dtype, buffer=nl.shared_hbm)
    tile, total = nl.load(data), nl.ndarray((128, 128), data.dtype, buffer=nl.psum)
    for _ in range(TIMES):
        nisa.nc_transpose(dst=total, data=tile)
    nl.store(out, nl.copy(total))
    return out


PLAIN, PAIRED = 2 * 128 * 128 * 512 * TIMES, 2 * 256 * 128 * 512 * TIMES


@pytest.mark.parametrize(
    ("target", "dtype", "rows", "flops", "tflops"),
    [
        ("trn1", ml_dtypes.bfloat16, (128,), PLAIN, 91.75),
        ("trn1", np.float32, (128,), PLAIN, 91.75),
        ("trn2", ml_dtypes.bfloat16, (128,), PLAIN, 78.64),
        ("trn2", np.float16, (128,), PLAIN, 78.64),
        ("trn2", np.float32, (128,), PLAIN, 78.64),
        ("trn2", ml_dtypes.float8_e4m3, (128,), PLAIN, 158.0),
        ("trn2", ml_dtypes.float8_e4m3, (128, 2), PAIRED, 158.0),
        ("trn3", ml_dtypes.float8_e4m3, (128, 2), PAIRED, 158.0),
    ],
)
def test_mfu_is_of_the_peak_of_the_dtype(
    target: str, dtype: Any, rows: tuple[int, ...], flops: int, tflops: float
) -> None:
    specs = [nki_lab.spec((*rows, columns), dtype) for columns in (128, 512)]
    summary = nki_lab.profile(nki.jit(product), *specs, len(rows) > 1, target=target).summary
    assert summary.flops == flops
    assert summary.mfu == summary.hfu == pytest.approx(flops / (tflops * 1e3) / summary.makespan_ns)
    assert 0 < summary.mfu < 1


def test_mfu_of_packed_elements_is_of_the_peak_of_mx() -> None:
    specs = [nki_lab.spec((128, columns), ml_dtypes.bfloat16) for columns in (128, 512)]
    summary = nki_lab.profile(nki.jit(packed), *specs, target="trn3").summary
    assert summary.flops == 4 * PLAIN
    assert summary.mfu == pytest.approx(4 * PLAIN / 315e3 / summary.makespan_ns)
    assert 0.1 < summary.mfu < 1


def test_products_of_several_dtypes_each_count_by_their_own_peak() -> None:
    @nki.jit
    def both(a, b, c, d):
        return product(a, b), product(c, d)

    specs = [nki_lab.spec((128, n), kind) for kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3) for n in (128, 512)]
    summary = nki_lab.profile(both, *specs, target="trn2").summary
    assert summary.mfu == pytest.approx((PLAIN / 78.64e3 + PLAIN / 158e3) / summary.makespan_ns)


@pytest.mark.parametrize(("target", "tflops"), [("trn1", 91.75), ("trn2", 78.64), ("trn3", 78.64)])
def test_transposes_count_in_hfu_alone_by_the_rate_that_they_reach(target: str, tflops: float) -> None:
    summary = nki_lab.profile(nki.jit(transposed), nki_lab.spec((128, 128), np.float32), target=target).summary
    assert (summary.flops, summary.mfu) == (0, 0)
    assert summary.hfu == pytest.approx(2 * 128**3 * TIMES / (tflops * 1e3) / summary.makespan_ns)
    assert 0 < summary.hfu < 1


def test_a_narrow_partner_makes_no_wide_product_narrow() -> None:
    arch = arch_of("trn2")
    assert peak_flops_per_ns(arch, FP8_E4M3, BF16) == peak_flops_per_ns(arch, BF16, FP8_E4M3) == 78.64e3
    assert peak_flops_per_ns(arch, TF32, F32) == peak_flops_per_ns(arch, F16, F16) == 78.64e3
    assert peak_flops_per_ns(arch, F32, TF32) == 78.64e3


@given(
    target=st.sampled_from(["trn1", "trn2", "trn3"]),
    dtype=st.sampled_from([BF16, F16, F32, *sorted(FP8, key=str)]),
)
def test_a_peak_is_what_the_array_can_do_in_its_clock(target: str, dtype: Any) -> None:
    arch = arch_of(target)
    rows = 2 if dtype in FP8 and target != "trn1" else 1
    most = 2 * arch.pmax * arch.gemm_stationary_fmax * arch.tensor_ghz * rows
    assert peak_flops_per_ns(arch, dtype, dtype) == pytest.approx(most, rel=0.02)
    assert peak_flops_per_ns(arch, dtype, dtype) >= most * 0.999


def test_a_target_without_mx_has_no_peak_for_it() -> None:
    for dtype in PACKED:
        assert [peak_flops_per_ns(arch_of(target), dtype, dtype) for target in ("trn1", "trn2", "trn3")] == [
            0,
            0,
            315e3,
        ]


def test_each_figure_has_one_definition() -> None:
    assert len(DEFINITIONS) == len(FIGURES) == len({figure.definition for figure in FIGURES})
    assert {"mfu", "hfu", "mbu"} <= set(DEFINITIONS)
