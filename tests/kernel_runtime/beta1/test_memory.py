"""Tensors of Beta 1: block dimensions, loads and stores, constants, views, allocators."""

from __future__ import annotations

import functools
from typing import Any

import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.language as nl
import numpy as np
import pytest
from neuronxcc import nki

import nki_lab
from nki_lab.diagnostic import NkiError


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def test_shapes_equal_lists_and_tuples_and_show_plain_sizes(execute: Any) -> None:
    def kernel(a: Any) -> None:
        grid = nl.ndarray((2, 3, nl.par_dim(4), 5), dtype=a.dtype)
        assert grid.shape == [2, 3, 4, 5]
        assert grid.shape == (2, 3, 4, 5)
        assert repr(grid.shape) == "(2, 3, 4, 5)"
        assert grid[1].shape == (3, 4, 5)
        assert grid[1][2].shape == grid[1, 2].shape == (4, 5)
        assert nl.ndarray((nl.par_dim(4), 5), a.dtype).shape == [4, 5]
        assert nl.ndarray([2, nl.par_dim(4), 5], a.dtype, buffer=nl.shared_hbm).shape == [2, 4, 5]

    execute(kernel, random(1, 1))


def test_blocks_are_tiles_with_storage_of_their_own(execute: Any) -> None:
    source = random(3, 2, 8, 4)

    def kernel(a: Any) -> Any:
        grid = nl.ndarray((3, 2, nl.par_dim(8), 4), dtype=a.dtype)
        powers = nl.zeros((3, 2, nl.par_dim(8), 4), dtype=a.dtype)
        out = nl.ndarray((3, 2, nl.par_dim(8), 4), dtype=a.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(3):
            for j in nl.affine_range(2):
                i_p, i_f = nl.mgrid[0:8, 0:4]
                grid[i, j, i_p, i_f] = nl.load(a[i, j])
                powers[i][j, :, 0:4] += nl.exp(grid[i, j])
        powers[0] = 5.0
        for i in nl.affine_range(3):
            for j in nl.affine_range(2):
                nl.store(out[i, j], value=powers[i, j])
        return out

    want = np.exp(source)
    want[0] = 5
    np.testing.assert_allclose(execute(kernel, source).outputs, want, rtol=1e-6)


def test_a_grid_larger_than_the_memory_is_no_fault(execute: Any) -> None:
    """How many blocks exist at a time is the allocator's business."""

    def kernel(a: Any) -> Any:
        grid = nl.ndarray((64, nl.par_dim(128), 8192), dtype=nl.float32)
        grid[63] = 1.0
        out = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, grid[63, :, 0:4])
        return out

    assert execute(kernel, random(1, 1)).outputs.all()


@pytest.mark.parametrize(
    ("use", "code"),
    [
        (nl.exp, "NKI312"),
        (lambda t: nl.store(t[0], 1.0), "NKI312"),
        (lambda t: t[0:1], "NKI312"),
        (lambda t: t[nl.arange(2)[:, None], 0], "NKI312"),
        (lambda t: t[2], "NKI303"),
        (lambda t: t[-1], "NKI303"),
        (lambda t: nl.ndarray((), nl.float32), "NKI307"),
        (lambda t: nl.exp(nl.ndarray((128,), nl.float32)), "NKI307"),
        (lambda t: nl.zeros((nl.par_dim(128),), nl.float32), "NKI307"),
        (lambda t: nl.zeros((128,), nl.float32, buffer=nl.psum), "NKI307"),
        (lambda t: nl.exp(nl.ndarray((2, nl.par_dim(128)), nl.float32)[0]), "NKI307"),
        (lambda t: nl.ndarray((128, 4), nl.float32, buffer="dram"), "NKI311"),
        (lambda t: nl.load(t[0, 0]), "NKI201"),
        (lambda t: nl.store(t[0, 0], 1.0), "NKI201"),
        (lambda t: nl.broadcast_to(t[0, 0], shape=(8, 5)), "NKI203"),
        (lambda t: t[0, 0].assert_shape((8, 5)), "NKI203"),
    ],
)
def test_misuse_of_tensors_is_refused(execute: Any, use: Any, code: str) -> None:
    def kernel(a: Any) -> None:
        use(nl.zeros((2, 3, nl.par_dim(8), 4), dtype=a.dtype))

    with pytest.raises(NkiError) as caught:
        execute(kernel, random(1, 1))
    assert caught.value.diagnostics[0].code == code


def test_a_vector_on_the_chip_may_be_made_and_its_name_given_away(execute: Any) -> None:
    def kernel(bias: Any) -> Any:
        column = nl.ndarray((nl.par_dim(128),), dtype=bias.dtype, buffer=nl.sbuf)
        assert column.shape == (128,)
        column = nl.load(bias[0:128])
        out = nl.ndarray((128, 1), dtype=bias.dtype, buffer=nl.shared_hbm)
        nl.store(out, column)
        return out

    source = random(200)
    np.testing.assert_array_equal(execute(kernel, source).outputs[:, 0], source[:128])


def test_a_vector_on_the_chip_is_refused_where_it_is_used(execute: Any) -> None:
    def kernel(bias: Any) -> None:
        column = nl.ndarray((nl.par_dim(128),), dtype=bias.dtype, buffer=nl.sbuf)
        column[...] = nl.load(bias)

    with pytest.raises(NkiError, match=r"NKI307 an on-chip tensor of shape \(128,\)") as caught:
        execute(kernel, random(128))
    assert "(128, 1)" in caught.value.diagnostics[0].help
    assert caught.value.diagnostics[0].span.line == kernel.__code__.co_firstlineno + 2


def test_a_missing_method_is_an_attribute_error(execute: Any) -> None:
    def kernel(a: Any) -> None:
        assert not hasattr(a, "ravel")
        nl.load(a).ravel()

    with pytest.raises(AttributeError, match="NKI006 tensors have no attribute ravel"):
        execute(kernel, random(2, 2))


def test_a_parameter_is_true_and_a_tile_is_no_condition(execute: Any) -> None:
    def kernel(a: Any, b: Any = None) -> None:
        assert a
        assert not b
        if nl.load(a):
            pass

    with pytest.raises(NkiError, match="NKI017 the tile"):
        execute(kernel, random(2, 2))


def test_arguments_that_are_stored_to_change_in_place(execute: Any) -> None:
    source, result = random(8, 4), np.zeros((8, 4), np.float32)

    def kernel(a: Any, out: Any) -> None:
        nl.store(out, value=nl.exp(nl.load(a)))

    done = execute(kernel, source, result)
    assert done.outputs is None
    np.testing.assert_allclose(result, np.exp(source), rtol=1e-6)


def test_results_in_any_memory_are_writeable_arrays(execute: Any) -> None:
    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        private = nl.ndarray(a.shape, a.dtype, buffer=nl.hbm)
        nl.store(private, tile)
        return private, nl.exp(tile), nl.matmul(tile, tile, transpose_x=True)

    source = random(8, 4)
    private, powers, product = execute(kernel, source).outputs
    np.testing.assert_array_equal(private, source)
    np.testing.assert_allclose(powers, np.exp(source), rtol=1e-6)
    np.testing.assert_allclose(product, source.T @ source, rtol=1e-5)
    private[0:2] = 0


def test_one_dimensional_tensors_are_loaded_as_columns(execute: Any) -> None:
    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        assert tile.shape == (6, 1)
        out = nl.ndarray((6,), a.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile * 2.0)
        return out

    source = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(execute(kernel, source).outputs, source * 2)


@pytest.mark.parametrize("shape", [(1, 6), (4, 1), (1, 1)])
def test_smaller_values_are_repeated_into_hbm(execute: Any, shape: tuple[int, int]) -> None:
    def kernel(a: Any) -> Any:
        out = nl.ndarray((4, 6), a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a))
        return out

    source = random(*shape)
    np.testing.assert_array_equal(execute(kernel, source).outputs, np.broadcast_to(source, (4, 6)))


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_a_row_that_is_repeated_into_hbm_is_timed_as_reads_of_one_partition(target: str) -> None:
    def kernel(a: Any, whole: bool) -> Any:
        out = nl.ndarray((64, 512), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a) if whole else nl.load(a[0:1, :]))
        return out

    source = random(64, 512)
    run, whole = (nki_lab.run(nki.jit(kernel), source, whole, target=target) for whole in (False, True))
    run.check(np.repeat(source[:1], 64, axis=0))
    assert run.summary["makespan_ns"] > whole.summary["makespan_ns"]


def test_constants_become_tensors(execute: Any) -> None:
    table = np.arange(12).reshape(3, 4)

    def kernel(a: Any) -> Any:
        constant = nl.load(nl.shared_constant(table.astype(np.int32), dtype=nl.float32))
        identity = nl.load(nl.shared_identity_matrix(n=4), dtype=nl.float32)
        out = nl.ndarray((3, 4), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, constant + nl.full((3, 4), np.float32(0.5), nl.float32))
        square = nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)
        nl.store(square, identity)
        return out, square

    out, square = execute(kernel, random(1, 1)).outputs
    np.testing.assert_array_equal(out, table + 0.5)
    np.testing.assert_array_equal(square, np.identity(4))


def test_transposing_loads_and_views(execute: Any) -> None:
    source = random(8, 6)

    def kernel(a: Any) -> Any:
        turned = nl.load_transpose2d(a, dtype=nl.float32)
        assert nl.expand_dims(turned, 2).shape == (6, 8, 1)
        assert a.reshape((4, 12)).shape == (4, 12)
        assert turned.broadcast_to((6, 8)).shape == turned.astype(nl.bfloat16).shape == turned.shape
        assert turned.assert_shape((6, 8)) is turned
        wide = nl.load(a[0:1, :]).broadcast_to((5, 6))
        repeated = nl.broadcast_to(nl.load(a)[:, 0:1], shape=(8, 6))
        outs = []
        for tile in (turned, wide, repeated):
            out = nl.ndarray(tile.shape, a.dtype, buffer=nl.shared_hbm)
            nl.store(out, tile)
            outs.append(out)
        return outs

    turned, wide, repeated = execute(kernel, source).outputs
    np.testing.assert_array_equal(turned, source.T)
    np.testing.assert_array_equal(wide, np.repeat(source[:1], 5, axis=0))
    np.testing.assert_array_equal(repeated, np.repeat(source[:, :1], 6, axis=1))


def test_likes_are_in_sbuf_unless_told_otherwise(execute: Any) -> None:
    def kernel(a: Any) -> None:
        assert nl.zeros_like(a).buffer == nl.sbuf
        assert nl.empty_like(a, buffer=nl.hbm).buffer == nl.hbm
        assert nl.zeros_like(nl.load(a), dtype=nl.int32).dtype == nl.int32
        assert nl.ones((4, 4), nl.float32, buffer="psum").buffer == nl.psum

    execute(kernel, random(4, 4))


def test_host_side_values() -> None:
    assert nl.fp32.min == float(np.finfo(np.float32).min)
    assert nl.bfp16.min == -np.inf
    assert nl.finfo(nl.bfloat16).max > 3e38
    assert nl.static_cast(3, "float16").dtype == np.float16
    assert nl.constants.sizeinbytes(nl.bfloat16) == 2
    assert (nl.tile_size.pmax, nl.tile_size.psum_fmax, nl.tile_size.gemm_moving_fmax) == (128, 512, 512)
    assert list(nl.affine_range(2, 8, 3, precise_schedule=True)) == [2, 5]
    assert list(nl.sequential_range(2, directives=ncc.multi_buffer(2))) == [0, 1]


def test_device_print_shows_values_where_the_call_stands(execute: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def kernel(a: Any) -> None:
        tile = nl.load(a)
        nl.device_print("first", tile)
        tile *= 2.0
        nl.device_print("second", tile, mask=False)

    execute(kernel, np.ones((1, 2), np.float32))
    assert capsys.readouterr().out == "first [[1. 1.]]\n"


def test_tensors_show_values_of_grids(execute: Any) -> None:
    looks = []

    def kernel(a: Any) -> None:
        grid = nl.ndarray((2, nl.par_dim(4), 3), a.dtype)
        for i in range(2):
            grid[i] = nl.load(a[i])
        looks.append(np.array(grid))

    source = random(2, 4, 3)
    execute(kernel, source)
    np.testing.assert_array_equal(looks[0], source)


def test_allocators_place_tiles_and_wrap_around(execute: Any) -> None:
    def place(index: tuple[int, ...], rows: int, width: int) -> tuple[int, int, int]:
        assert (rows, width) == (8, 16)
        return index[0] % 2, 0, 0

    def kernel(a: Any) -> Any:
        tiles = nl.ndarray((4, nl.par_dim(8), 4), a.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=64, num_free_tiles=(2,)))
        banks = nl.ndarray((4, nl.par_dim(8), 4), nl.float32, buffer=ncc.psum.alloc(place))
        auto = nl.ndarray((nl.par_dim(8), 4), a.dtype, buffer=ncc.sbuf.auto_alloc())
        out = nl.ndarray((4, 8, 4), a.dtype, buffer=nl.shared_hbm)
        for i in range(4):
            tiles[i] = nl.load(a[i])
            banks[i] = nl.copy(tiles[i])
            auto[...] = nl.copy(banks[i])
            nl.store(out[i], auto)
        assert [tiles[i].address for i in range(4)] == [(0, 64), (0, 80), (0, 64), (0, 80)]
        assert [banks[i].address for i in range(4)] == [(0, 0), (0, 2048), (0, 0), (0, 2048)]
        assert auto.address is None
        return out

    source = random(4, 8, 4)
    np.testing.assert_array_equal(execute(kernel, source).outputs, source)


def test_an_allocation_function_gets_its_arguments_by_their_documented_names(execute: Any) -> None:
    """AWS's allocated attention gives its first parameter with functools.partial: the others go by name."""

    def bank(bank_map: Any, idx: Any, pdim_size: int, fdim_size: int) -> tuple[int, int, int]:
        assert (pdim_size, fdim_size) == (8, 16)
        return bank_map[idx], 0, 0

    def kernel(a: Any) -> Any:
        place = functools.partial(bank, bank_map={(0,): 3, (1,): 1})
        banks = nl.ndarray((2, nl.par_dim(8), 4), nl.float32, buffer=ncc.psum.alloc(place))
        out = nl.ndarray((2, 8, 4), a.dtype, buffer=nl.shared_hbm)
        for i in range(2):
            banks[i] = nl.copy(nl.load(a[i]))
            nl.store(out[i], nl.copy(banks[i]))
        assert [banks[i].address for i in range(2)] == [(0, 6144), (0, 2048)]
        return out

    source = random(2, 8, 4)
    np.testing.assert_array_equal(execute(kernel, source).outputs, source)
