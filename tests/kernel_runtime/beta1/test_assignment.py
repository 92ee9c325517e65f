"""What a call returns is written where it is assigned: one instruction, the target's dtype and memory."""

from __future__ import annotations

from typing import Any

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.diagnostic import NkiError
from tests.scale import scaled


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def stored(a: Any, tile: Any, dtype: Any = nl.float32) -> Any:
    out = nl.ndarray(tile.shape, dtype=dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


CALLS = {
    "isa": (lambda t: nisa.activation(nl.exp, t), np.exp),
    "language": (nl.exp, np.exp),
    "operator": (lambda t: t * 3.0, lambda x: x * 3),
    "unary operator": (lambda t: -t, lambda x: -x),
    "comparison": (lambda t: t > 0.5, lambda x: (x > 0.5).astype(np.float32)),
    "copy": (nl.copy, lambda x: x),
    "iota": (lambda t: nisa.iota(nl.mgrid[0:8, 0:4].x * 2, dtype=nl.int32), lambda x: np.tile([0, 2, 4, 6], (8, 1))),
    "memset": (lambda t: nisa.memset((8, 4), 2.5, nl.float32), lambda x: np.full((8, 4), 2.5)),
}


@pytest.mark.parametrize("key", CALLS)
def test_an_assigned_call_is_one_instruction_into_the_target(execute: Any, names_of: Any, key: str) -> None:
    call, expected = CALLS[key]

    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        target = nl.ndarray((8, 6), dtype=nl.float32)
        target[0:8, 1:5] = call(tile)
        return stored(a, target[0:8, 1:5])

    source = random(8, 4)
    done = execute(kernel, source)
    np.testing.assert_allclose(done.outputs, expected(source), rtol=1e-6)
    assert len(names_of(done)) == 3
    written = done.program.op(1).views[0]
    assert written.buffer.shape == (8, 6)
    assert written.type.shape == (8, 4)


def test_a_load_is_redirected_too(execute: Any, names_of: Any) -> None:
    def kernel(a: Any) -> Any:
        target = nl.ndarray((8, 4), dtype=a.dtype)
        i_p, i_f = nl.mgrid[0:8, 0:4]
        target[i_p, i_f] = nl.load(a[i_p, i_f])
        return stored(a, target)

    source = random(8, 4)
    done = execute(kernel, source)
    np.testing.assert_array_equal(done.outputs, source)
    assert names_of(done) == ["dma_copy", "dma_copy"]
    assert len(done.program.buffers) == 3


@pytest.mark.parametrize("dtype", ["int32", "bfloat16", "float16"])
def test_the_assigned_tensors_dtype_wins(execute: Any, names_of: Any, dtype: str) -> None:
    def kernel(a: Any) -> Any:
        target = nl.ndarray((8, 4), dtype=getattr(nl, dtype))
        target[...] = nl.multiply(nl.load(a), 10.0, dtype=nl.float32)
        return stored(a, target, getattr(nl, dtype))

    source = random(8, 4)
    done = execute(kernel, source, precise=True)
    want = np.rint(source * 10).astype(np.int32) if dtype == "int32" else (source * 10).astype(done.outputs.dtype)
    np.testing.assert_array_equal(done.outputs, want)
    assert names_of(done) == ["dma_copy", "tensor_scalar", "dma_copy"]


def test_a_named_value_keeps_its_own_tile_and_dtype(execute: Any, names_of: Any) -> None:
    def kernel(a: Any) -> Any:
        value = nl.multiply(nl.load(a), 10.0)
        target = nl.ndarray((8, 4), dtype=nl.int32)
        target[...] = value
        target[...] = 0
        return stored(a, value), stored(a, target, nl.int32)

    source = random(8, 4)
    done = execute(kernel, source)
    np.testing.assert_array_equal(done.outputs[0], source * np.float32(10))
    assert not done.outputs[1].any()
    assert "tensor_copy" in names_of(done)


def test_a_value_from_a_list_keeps_its_own_tile(execute: Any) -> None:
    def kernel(a: Any) -> Any:
        tiles = [nl.exp(nl.load(a))]
        target = nl.ndarray((8, 4), dtype=a.dtype)
        target[...] = tiles[0]
        target[...] = 0.0
        return stored(a, tiles[0])

    source = random(8, 4)
    np.testing.assert_allclose(execute(kernel, source).outputs, np.exp(source), rtol=1e-6)


def test_a_matmul_assigned_to_sbuf_goes_through_psum(execute: Any, names_of: Any) -> None:
    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        target = nl.ndarray((4, 4), dtype=nl.bfloat16)
        target[...] = nisa.nc_matmul(tile, tile)
        return stored(a, target, nl.bfloat16)

    source = random(8, 4)
    done = execute(kernel, source, precise=True)
    np.testing.assert_array_equal(done.outputs, (source.T @ source).astype(done.outputs.dtype))
    assert names_of(done) == ["dma_copy", "nc_matmul", "tensor_copy", "dma_copy"]


def test_an_assigned_matmul_overwrites_what_is_there(execute: Any) -> None:
    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        acc = nl.zeros((4, 4), nl.float32, buffer=nl.psum)
        for _ in nl.sequential_range(3):
            acc[...] = nisa.nc_matmul(tile, tile)
        return stored(a, acc)

    source = random(8, 4)
    np.testing.assert_allclose(execute(kernel, source).outputs, source.T @ source, rtol=1e-5)


@pytest.mark.parametrize("start", ["zeros", "ndarray", "lazy"])
def test_psum_accumulation_needs_no_fill(execute: Any, names_of: Any, start: str) -> None:
    def kernel(a: Any) -> Any:
        if start == "zeros":
            acc = nl.zeros((4, 4), nl.float32, buffer=nl.psum)
        elif start == "lazy":
            acc = nl.zeros((4, 4), nl.float32, buffer=nl.psum, lazy_initialization=True)
        else:
            acc = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
        for k in nl.affine_range(3):
            tile = nl.load(a[k * 8 + nl.arange(8)[:, None], nl.arange(4)[None, :]])
            acc += nisa.nc_matmul(tile, tile)
        return stored(a, acc)

    source = random(24, 4)
    done = execute(kernel, source)
    np.testing.assert_allclose(done.outputs, source.T @ source, rtol=1e-5)
    assert names_of(done).count("nc_matmul") == 3
    assert set(names_of(done)) == {"nc_matmul", "dma_copy", "tensor_copy"}
    assert {item.code for item in done.diagnostics} <= {
        "NKI336",
        "NKI337",
    }  # a helper makes the output, branches the sum


def test_accumulation_into_a_part_keeps_the_zeros_around_it(execute: Any, names_of: Any) -> None:
    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        acc = nl.zeros((4, 8), nl.float32, buffer=nl.psum)
        for _ in nl.affine_range(2):
            acc[0:4, 2:6] += nisa.nc_matmul(tile, tile)
        return stored(a, acc)

    source = random(8, 4)
    done = execute(kernel, source)
    want = np.zeros((4, 8), np.float32)
    want[:, 2:6] = 2 * (source.T @ source)
    np.testing.assert_allclose(done.outputs, want, rtol=1e-5)
    assert names_of(done).count("memset") == 1


def test_accumulation_adds_to_what_another_instruction_wrote(execute: Any) -> None:
    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        acc = nl.ndarray((4, 4), nl.float32, buffer=nl.psum)
        acc[...] = nl.full((4, 4), 5.0, nl.float32)
        acc += nisa.nc_matmul(tile, tile)
        acc += nl.matmul(tile, tile, transpose_x=True)
        return stored(a, acc)

    source = random(8, 4)
    np.testing.assert_allclose(execute(kernel, source).outputs, 5 + 2 * (source.T @ source), rtol=1e-5)


def test_zeros_in_psum_that_no_product_overwrites_are_zeros(execute: Any) -> None:
    def kernel(a: Any) -> Any:
        acc = nl.zeros((4, 4), nl.float32, buffer=nl.psum)
        return stored(a, acc)

    assert not execute(kernel, random(8, 4)).outputs.any()


@pytest.mark.parametrize("operator", ["+=", "-=", "*=", "/="])
@pytest.mark.parametrize("other", ["tile", "number", "column"])
def test_inplace_operators_are_one_instruction(execute: Any, names_of: Any, operator: str, other: str) -> None:
    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        right = {"tile": tile, "number": 3.0, "column": tile[:, 0]}[other]
        target = nl.full((8, 4), 2.0, a.dtype)
        if operator == "+=":
            target += right
        elif operator == "-=":
            target -= right
        elif operator == "*=":
            target *= right
        else:
            target /= right
        return stored(a, target)

    source = random(8, 4)
    right = {"tile": source, "number": np.float32(3), "column": source[:, :1]}[other]
    want = {"+=": 2 + right, "-=": 2 - right, "*=": 2 * right, "/=": 2 / right}[operator] * np.ones_like(source)
    done = execute(kernel, source)
    np.testing.assert_allclose(done.outputs, want, rtol=1e-6)
    extra = 1 if operator == "/=" and other != "number" else 0
    assert len(names_of(done)) == 4 + extra


def test_inplace_on_a_view_changes_the_tensor(execute: Any) -> None:
    def kernel(a: Any) -> Any:
        target = nl.zeros((8, 4), a.dtype)
        i_p, i_f = nl.mgrid[0:8, 0:2]
        target[i_p, 2 * i_f] += nl.load(a)[i_p, i_f]
        target[2:4, 1:2] -= 1.0
        return stored(a, target)

    source = random(8, 4)
    want = np.zeros_like(source)
    want[:, ::2] += source[:, :2]
    want[2:4, 1] -= 1
    np.testing.assert_array_equal(execute(kernel, source).outputs, want)


def test_products_in_psum_are_added_to_sbuf(execute: Any) -> None:
    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        total = nl.zeros((4, 4), nl.float32)
        for _ in nl.sequential_range(2):
            total += nisa.nc_matmul(tile, tile)
        product = nisa.nc_matmul(tile, tile)
        acc = nl.zeros((4, 4), nl.float32, buffer=nl.psum)
        acc += product
        acc -= product
        total += acc
        return stored(a, total)

    source = random(8, 4)
    np.testing.assert_allclose(execute(kernel, source).outputs, 2 * (source.T @ source), rtol=1e-5, atol=1e-5)


def test_loop_reduce_accumulates_in_its_target(execute: Any) -> None:
    def kernel(a: Any) -> Any:
        started = nl.full((4, 4), 1.0, nl.float32)
        fresh = nl.ndarray((4, 4), nl.float32)
        for k in nl.affine_range(3):
            tile = nl.load(a[k * 8 + nl.arange(8)[:, None], nl.arange(4)[None, :]])
            product = nisa.nc_matmul(tile, tile)
            started[...] = nl.loop_reduce(product, op=np.add, loop_indices=[k])
            fresh[0:4, 0:4] = nl.loop_reduce(product, op=nl.max, loop_indices=[k], dtype=nl.float32)
        return stored(a, started), stored(a, fresh)

    source = random(24, 4)
    total, best = execute(kernel, source).outputs
    products = [part.T @ part for part in np.split(source, 3)]
    np.testing.assert_allclose(total, 1 + sum(products), rtol=1e-5)
    np.testing.assert_allclose(best, np.max(products, axis=0), rtol=1e-5)


@pytest.mark.parametrize("shape", [(8, 1), (8, 4)])
def test_a_smaller_value_repeats_along_the_free_dimension(execute: Any, shape: tuple[int, ...]) -> None:
    def kernel(a: Any) -> Any:
        target = nl.ndarray((8, 4), a.dtype)
        target[...] = nl.load(a)
        return stored(a, target)

    source = random(*shape)
    np.testing.assert_array_equal(execute(kernel, source).outputs, np.broadcast_to(source, (8, 4)))


def test_numbers_are_assigned_to_regions_and_elements(execute: Any) -> None:
    def kernel(a: Any) -> Any:
        counts = nl.ndarray((8, 4), nl.int32)
        counts[:, :] = 0.0
        counts[0:2, 3] = np.float32(4)
        for j in nl.static_range(4):
            counts[0, j] = j * 5
        return stored(a, counts, nl.int32)

    want = np.zeros((8, 4), np.int32)
    want[0:2, 3] = 4
    want[0] = [0, 5, 10, 15]
    np.testing.assert_array_equal(execute(kernel, random(1, 1)).outputs, want)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (lambda a: nl.load(a)[:, 0:3], "NKI203"),  # neither equal nor 1
        (lambda a: nl.arange(4)[None, :], "NKI304"),
        (lambda a: nl.arange(4)[None, :] < 2, "NKI304"),
        (lambda a: np.ones((8, 4), np.float32), "NKI013"),
        (lambda a: nl.ndarray((2, nl.par_dim(8), 4), a.dtype), "NKI312"),
    ],
)
def test_what_cannot_be_assigned_is_refused(execute: Any, value: Any, code: str) -> None:
    def kernel(a: Any) -> Any:
        target = nl.ndarray((8, 4), a.dtype)
        target[...] = value(a)

    with pytest.raises(NkiError) as caught:
        execute(kernel, random(8, 4))
    assert caught.value.diagnostics[0].code == code


@settings(max_examples=scaled(20))
@given(st.lists(st.sampled_from(["exp", "scale", "copy", "window", "add", "read"]), min_size=1, max_size=6))
def test_assignments_in_any_order_do_what_numpy_does(execute: Any, steps: list[str]) -> None:
    """A tile that is assigned, updated and looked at, against the same steps on an array."""

    def work(tile: Any, source: Any, module: Any, seen: list[Any]) -> None:
        for step in steps:
            match step:
                case "exp":
                    tile[:, 1:3] = module.exp(tile[:, 0:2])
                case "scale":
                    tile[0:4, :] = tile[0:4, :] * 0.5
                case "copy":
                    tile[...] = module.copy(source)
                case "window":
                    tile[:, 0:3] = tile[:, 1:4] - tile[:, 0:3]
                case "add":
                    tile[:, 3:4] += source[:, 0:1]
                case "read":
                    seen.append(np.array(tile))

    looks: list[Any] = []

    def kernel(a: Any) -> Any:
        source = nl.load(a)
        tile = nl.zeros((8, 4), a.dtype)
        work(tile, source, nl, looks)
        return stored(a, tile)

    source = random(8, 4)
    want, expected = np.zeros_like(source), []
    work(want, source, np, expected)
    np.testing.assert_allclose(execute(kernel, source).outputs, want, rtol=1e-5)
    for look, theirs in zip(looks, expected, strict=True):
        np.testing.assert_allclose(look, theirs, rtol=1e-5)
