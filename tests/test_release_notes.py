"""What the release notes of NKI 0.5 and 0.6 say is so: numerics, limits and messages, a test for each statement.

The number in a test's name is the statement's: R6xx of release 0.6, R5xx of 0.5.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab.diagnostic import NkiError

Array = np.ndarray[Any, Any]
E4, E5, F4 = nl.float8_e4m3fn_x4, nl.float8_e5m2_x4, nl.float4_e2m1fn_x4


def run(kernel: Any, *arrays: Array, target: str = "trn3", **more: Any) -> Any:
    """What a kernel returns."""
    return nki_lab.run(kernel, *arrays, target=target, **more).output


def findings(kernel: Any, *arrays: Array, target: str = "trn3", **more: Any) -> list[str]:
    """The codes of all that is found, the fault included."""
    kept = nki_lab.run(kernel, *arrays, target=target, on_error="report", **more)
    return [item.code for item in kept.diagnostics]


def rows(*values: Any, dtype: Any = np.float32) -> Array:
    return np.array([values], dtype)


def normal(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def sbuf(shape: Any, dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def psum(shape: Any, dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def filled(shape: Any, value: Any, dtype: Any = nl.float32, buffer: Any = nl.sbuf) -> Any:
    made = nl.ndarray(shape, dtype=dtype, buffer=buffer)
    nisa.memset(made, value)
    return made


ONE = np.ones((128, 64), np.float32)


# -- 0.6 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "values", "wanted"),
    [
        (nl.int32, (2.5, 3.5, -2.5, 1e10, -1e10), (2, 4, -2, 2147483647, -2147483648)),
        (nl.uint8, (300.7, -1.0, 2.5), (255, 0, 2)),
        (nl.int8, (127.5, -200.0, 0.5), (127, -128, 0)),
    ],
)
def test_r601_casts_to_integers_round_to_even_and_stop_at_the_ends(dtype: Any, values: Any, wanted: Any) -> None:
    assert run(lambda x: nl.copy(nl.load(x), dtype), rows(*values)).tolist() == [list(wanted)]


def test_r602_repeated_values_are_replaced_with_the_last_of_their_columns_first() -> None:
    def kernel(x, v):
        data, values, index = nl.load(x), nl.load(v), sbuf((1, 8), nl.uint32)
        nisa.nc_match_replace8(data, data, values, 0.0, index)
        return data, index

    data, index = run(kernel, rows(3, 7, 3, 1, 9, 2, 4, 6), rows(3, 3, 7, 50, 51, 52, 53, 54))
    assert data.tolist() == [[0, 0, 0, 1, 9, 2, 4, 6]]
    assert index[0, :3].tolist() == [2, 0, 1]


@pytest.mark.parametrize(("dtype", "missing"), [(nl.uint32, 2**32 - 1), (nl.uint16, 2**16 - 1)])
def test_r603_r604_found_places_ascend_and_what_is_missing_is_all_ones(dtype: Any, missing: int) -> None:
    def kernel(x, v):
        index = sbuf((1, 8), dtype)
        nisa.nc_find_index8(index, nl.load(x), nl.load(v))
        return index

    index = run(kernel, rows(3, 7, 3, 1, 9, 2, 4, 6), rows(3, 3, 3, 7, 50, 1, 9, 6))
    assert index.tolist() == [[0, 2, missing, 1, missing, 3, 4, 7]]


def test_r605_a_reduction_into_a_view_of_dst_is_there_afterwards() -> None:
    def kernel(x):
        tile, add = sbuf((1, 4)), nisa.reduce_cmd.reset_reduce
        nisa.activation(tile, nl.copy, nl.load(x), reduce_op=nl.add, reduce_res=tile[:, 0:1], reduce_cmd=add)
        return tile

    assert run(kernel, rows(1, 2, 3, 4)).tolist() == [[10, 2, 3, 4]]


@pytest.mark.parametrize("first", [4, 8, 12])
def test_r606_scales_go_to_a_slice_of_a_quadrant_and_nowhere_else(first: int) -> None:
    def kernel(x):
        scales = filled((32, 4), 7, nl.uint8)
        nisa.quantize_mx(sbuf((32, 4), E4), nl.load(x), scales[first : first + 4])
        return scales

    scales = run(kernel, np.ones((32, 16), ml_dtypes.bfloat16))
    wanted = np.full((32, 4), 7)
    wanted[first : first + 4] = 120
    np.testing.assert_array_equal(scales, wanted)


@pytest.mark.parametrize("first", [4, 8, 12])
def test_r607_scales_in_a_slice_scale_the_product(first: int) -> None:
    def kernel(x, y):
        packed, scales = [sbuf((32, 4), E4), sbuf((32, 4), E4)], [filled((32, 4), 0, nl.uint8) for _ in range(2)]
        for source, tile, scale in zip((x, y), packed, scales, strict=True):
            nisa.quantize_mx(tile, nl.load(source), scale[first : first + 4])
        result = psum((4, 4))
        nisa.nc_matmul_mx(result, *packed, scales[0][first : first + 4], scales[1][first : first + 4])
        return nl.copy(result)

    left, right = (np.round(normal(32, 16, seed=n) * 4).astype(ml_dtypes.bfloat16) for n in (1, 2))
    numbers = [item.astype(np.float32).reshape(32, 4, 4).transpose(0, 2, 1).reshape(128, 4) for item in (left, right)]
    np.testing.assert_allclose(run(kernel, left, right), numbers[0].T @ numbers[1], rtol=1e-6)


def test_r608_double_row_sums_both_halves() -> None:
    def kernel(x, y):
        mode, result = nisa.matmul_perf_mode.double_row, psum((16, 24))
        nisa.nc_matmul(result, nl.load(x), nl.load(y), perf_mode=mode)
        return nl.copy(result)

    left, right = (np.round(normal(64, 2, n, seed=n)).astype(ml_dtypes.float8_e5m2) for n in (16, 24))
    wanted = np.einsum("krm,krn->mn", left.astype(np.float32), right.astype(np.float32))
    np.testing.assert_array_equal(run(kernel, left, right), wanted)


def test_r609_overlapping_results_add_where_they_overlap() -> None:
    def kernel(x):
        tile, result = nl.load(x), filled((8, 12), 5.0, buffer=nl.psum)
        nisa.nc_matmul(result[:, 0:8], tile, tile)
        nisa.nc_matmul(result[:, 4:12], tile, tile)
        return nl.copy(result)

    x = np.round(normal(16, 8))
    wanted = np.zeros((8, 12), np.float32)
    wanted[:, 0:8] += x.T @ x
    wanted[:, 4:12] += x.T @ x
    np.testing.assert_array_equal(run(kernel, x), wanted)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_r610_r505_accumulating_on_what_no_matmul_wrote_is_reported(target: str) -> None:
    def kernel(x, prepared=False):
        tile, result = nl.load(x), psum((8, 8))
        if prepared:
            nisa.memset(result, 0.0)
        nisa.nc_matmul(result, tile, tile, accumulate=True)
        return nl.copy(result)

    x = normal(16, 8)
    assert "NKI401" in findings(kernel, x, target=target)
    assert "NKI401" in findings(kernel, x, prepared=True, target=target)


def test_r611_a_flat_source_goes_into_a_tile_of_more_dimensions() -> None:
    def kernel(x):
        tile, chosen = nl.load(x), filled((2, 2, 2, 2), 1, nl.uint8)
        copied, selected = filled((2, 2, 2, 2), 0.0), sbuf((2, 2, 2, 2))
        nisa.tensor_copy_predicated(copied, tile, chosen)
        nisa.select_reduce(selected, chosen, tile, 0.0)
        return copied, selected

    x = normal(2, 8)
    for found in run(kernel, x):
        np.testing.assert_array_equal(found.reshape(2, 8), x)


def test_r612_the_lowest_float_may_be_a_python_float() -> None:
    lowest = float(np.finfo(np.float32).min)

    def kernel(x):
        tile, ranged, affine, bound = nl.load(x), sbuf((1, 4)), sbuf((1, 4)), filled((1, 1), 2.0)
        nisa.range_select(ranged, tile, nl.less, nl.less, bound, bound, on_false_value=lowest)
        nisa.affine_select(affine, [[1, 4]], 0, tile, lowest, nl.less, -2)
        return ranged, affine

    for found in run(kernel, rows(1, 2, 3, 4)):
        assert found.tolist() == [[1, 2, lowest, lowest]]


@pytest.mark.parametrize("engine", ["vector", "scalar", "gpsimd", "tensor"])
def test_r613_more_than_128_partitions_are_refused_by_operand_and_size(engine: str) -> None:
    def kernel(x):
        tile = sbuf((129, 64))
        if engine == "vector":
            nisa.tensor_tensor(tile, tile, tile, nl.add)
        elif engine == "scalar":
            nisa.activation(tile, nl.exp, tile)
        elif engine == "gpsimd":
            nisa.iota(tile, [[1, 64]])
        else:
            nisa.nc_matmul(psum((64, 64)), tile, tile)

    with pytest.raises(NkiError) as caught:
        run(kernel, ONE)
    assert caught.value.diagnostics[0].operand in ("dst", "data1", "data", "stationary")
    assert "129" in str(caught.value)


@pytest.mark.parametrize("shape", [(16, 64), (1, 16, 64), (2, 8, 128), (4, 4, 64), (8, 2, 64), (16, 3, 64)])
def test_r614_hardware_transposes_take_small_first_dimensions(shape: tuple[int, ...]) -> None:
    axes = (1, 0) if len(shape) == 2 else (2, 1, 0)

    def kernel(x):
        turned = sbuf(tuple(shape[axis] for axis in axes), nl.bfloat16)
        nisa.dma_transpose(turned, x, dge_mode=nisa.dge_mode.hwdge)
        return turned

    x = normal(*shape, dtype=ml_dtypes.bfloat16)
    np.testing.assert_array_equal(run(kernel, x, target="trn2"), x.transpose(axes))


def test_r614_hardware_transposes_refuse_longer_rows() -> None:
    def kernel(x):
        made = nl.ndarray((129, 16), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        nisa.dma_transpose(made, x, dge_mode=nisa.dge_mode.hwdge)

    assert "NKI222" in findings(kernel, normal(16, 129, dtype=ml_dtypes.bfloat16), target="trn2")


def test_r615_a_reduction_goes_on_over_calls() -> None:
    def kernel(x, y):
        result, scratch = sbuf((2, 1)), sbuf((2, 8))
        nisa.tensor_scalar_reduce(scratch, nl.load(x), nl.add, 0.0, nl.add)
        more = nisa.reduce_cmd.reduce
        nisa.tensor_scalar_reduce(scratch, nl.load(y), nl.add, 0.0, nl.add, reduce_res=result, reduce_cmd=more)
        return result

    x, y = np.round(normal(2, 8, seed=1) * 9), np.round(normal(2, 8, seed=2) * 9)
    np.testing.assert_array_equal(run(kernel, x, y), np.hstack([x, y]).sum(1, keepdims=True))


def test_r616_copies_of_large_integers_are_exact_and_of_psum_lie_in_sbuf() -> None:
    def kernel(x):
        copied = nl.copy(filled((4, 2, 3), 1.0, buffer=nl.psum))
        assert copied.buffer == nl.sbuf
        assert copied.shape == (4, 2, 3)
        return nl.copy(nl.load(x))

    x = rows(2**24 + 1, -(2**30) - 1, 2**31 - 1, dtype=np.int32)
    np.testing.assert_array_equal(run(kernel, x), x)


def test_r617_loops_as_statements_run_and_are_deprecated() -> None:
    def counted(x):
        tile = nl.load(x)
        for _i in nl.dynamic_range(3):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        return tile

    def asked(x):
        tile, register, none = nl.load(x), nisa.register_alloc(1), filled((1, 1), 0, nl.int32)
        while register:
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
            nisa.register_load(register, none)
        return tile

    assert run(counted, rows(1)).tolist() == [[4]]
    assert run(asked, rows(1)).tolist() == [[2]]
    assert "NKI601" in findings(counted, rows(1))
    assert "NKI601" in findings(asked, rows(1))


def test_r618_a_while_loop_of_zero_never_runs() -> None:
    def kernel(x):
        tile = nl.load(x)

        def body(register):
            nisa.memset(tile, 0.0)
            return register

        nl.while_loop(nisa.register_alloc(0), body)
        return tile

    assert run(kernel, rows(1)).tolist() == [[1]]


def test_r618_tiles_of_a_body_stay_inside_and_bodies_return_nothing() -> None:
    def leaking(x):
        made = []

        def body(i):
            made.append(filled((1, 1), 0.0))

        nl.fori_loop(0, 2, body)
        return nl.copy(made[0])

    def returning(x):
        nl.fori_loop(0, 2, lambda i: 1)

    assert "NKI314" in findings(leaking, rows(1))
    assert "NKI115" in findings(returning, rows(1))


def test_r619_picks_that_do_not_fill_dst_are_reported() -> None:
    def kernel(x, columns):
        index = filled((16, 1), 2, nl.uint16)
        picked = sbuf((16, columns))
        nisa.local_gather(picked, nl.load(x), index, 2, 16)
        return picked

    x = normal(16, 8)
    assert "NKI203" in findings(kernel, x, 31)
    np.testing.assert_array_equal(run(kernel, x, 32), np.tile(x[:, 2:4], 16))


# -- 0.5 ---------------------------------------------------------------------------------------------------------------


def test_r501_r407_packed_elements_are_copied_row_by_row() -> None:
    def kernel(x, at):
        tile, index = sbuf((4, 8), E4), nl.load(at)
        table = x.view(E4)
        nisa.dma_copy(tile, table.vector_select(0, index), oob_mode=nisa.oob_mode.skip)
        return tile.view(nl.uint32)

    x = np.arange(64, dtype=np.uint32).reshape(8, 8) * 16909060
    at = np.array([[7], [0], [3], [3]], np.int32)
    np.testing.assert_array_equal(run(kernel, x, at), x[at[:, 0]])


def test_r502_r404_operands_of_more_dimensions_are_flattened() -> None:
    def kernel(x, y):
        result = psum((12, 2, 20))
        nisa.nc_matmul(result, nl.load(x), nl.load(y))
        return nl.copy(result)

    x, y = np.round(normal(16, 3, 4)), np.round(normal(16, 5, 8))
    wanted = x.reshape(16, 12).T @ y.reshape(16, 40)
    np.testing.assert_array_equal(run(kernel, x, y).reshape(12, 40), wanted)


def test_r503_a_while_loop_ends_when_its_register_is_loaded_with_zero() -> None:
    def kernel(x):
        tile, left = nl.load(x), filled((1, 1), 3, nl.int32)

        def body(register):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
            nisa.tensor_scalar(left, left, nl.subtract, 1)
            nisa.register_load(register, left)
            return register

        nl.while_loop(nisa.register_alloc(1), body)
        return tile

    assert run(kernel, rows(0)).tolist() == [[3]]


def test_r504_rows_outside_leave_a_gathered_transpose_as_it_was() -> None:
    def kernel(x, at):
        turned, index = filled((8, 16), 7.0, nl.bfloat16), nl.load(at)
        skip = nisa.oob_mode.skip
        nisa.dma_transpose(turned, x.ap([[8, 16], [1, 8]], vector_offset=index, indirect_dim=0), oob_mode=skip)
        return turned

    x = normal(32, 8, dtype=ml_dtypes.bfloat16)
    at = np.arange(16, dtype=np.uint32)[:, None]
    at[3] = 99
    wanted = x[:16].T.copy()
    wanted[:, 3] = 7
    np.testing.assert_array_equal(run(kernel, x, at), wanted)


@pytest.mark.parametrize(("dtype", "byte"), [(E4, 120), (E5, 113)])
def test_r506_r405_a_scale_is_the_exponent_less_that_of_the_format_plus_one(dtype: Any, byte: int) -> None:
    def kernel(x):
        scales = filled((32, 8), 9, nl.uint8)
        nisa.quantize_mx(sbuf((32, 8), dtype), nl.load(x), scales)
        return scales

    x = np.zeros((32, 32), ml_dtypes.bfloat16)
    x[:8, :4] = 1.0
    scales = run(kernel, x)
    assert scales[0, 0] == byte
    assert not scales[1:4].any()
    assert not scales[0, 1:].any()


def test_r507_a_reshape_keeps_the_number_of_elements() -> None:
    assert findings(lambda x: nl.load(x).reshape((128, 63)), ONE) == ["NKI305"]


def test_r508_rsqrt_takes_no_psum_tile_and_the_activation_does() -> None:
    def by_function(x):
        return nl.rsqrt(filled((1, 1), 4.0, buffer=nl.psum))

    def by_instruction(x):
        result = sbuf((1, 1))
        nisa.activation(result, nl.rsqrt, filled((1, 1), 4.0, buffer=nl.psum))
        return result

    assert "NKI201" in findings(by_function, rows(1))
    assert run(by_instruction, rows(1)).tolist() == [[0.5]]


def test_r509_a_transpose_at_a_run_time_address_may_skip() -> None:
    def kernel(x):
        turned, start = sbuf((8, 16), nl.bfloat16), filled((1, 1), 4, nl.int32)
        view = x.ap([[8, 16], [1, 8]], scalar_offset=start, indirect_dim=0)
        nisa.dma_transpose(turned, view, oob_mode=nisa.oob_mode.skip)
        return turned

    x = normal(32, 8, dtype=ml_dtypes.bfloat16)
    np.testing.assert_array_equal(run(kernel, x), x[4:20].T)


@pytest.mark.parametrize(("dtype", "most"), [(nl.bfloat16, 8192), (nl.float32, 4096)])
def test_r511_a_matmul_of_the_fourth_generation_fills_psum(dtype: Any, most: int) -> None:
    def kernel(x, columns):
        tile = nl.load(x)
        nisa.nc_matmul(psum((64, columns), dtype), tile[:, 0:64], sbuf((128, columns), nl.bfloat16))

    x = np.ones((128, 64), ml_dtypes.bfloat16)
    assert not {"NKI213", "NKI313"} & set(findings(kernel, x, most))
    assert {"NKI213", "NKI313"} & set(findings(kernel, x, most + 1))


def test_r512_selected_rows_are_not_reinterpreted() -> None:
    def kernel(x):
        return x.vector_select(0, filled((4, 1), 0, nl.int32)).view(nl.int32)

    assert findings(kernel, ONE) == ["NKI309"]


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_r510_collectives_have_names_that_schedules_use(target: str) -> None:
    def kernel(x):
        made = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = sbuf(x.shape)
        nisa.dma_copy(tile, x, name="before")
        ncc.all_reduce([x], [made], ncc.ReplicaGroup([[0]]), nl.add, name="joined")
        return made

    scheduled = nki.jit(kernel).with_schedule([("joined", "before")])
    np.testing.assert_array_equal(run(scheduled, ONE, target=target), ONE)
    assert "NKI403" in findings(nki.jit(kernel).with_schedule([("joined", "other")]), ONE, target=target)
