"""`neuronxcc.nki.isa` is made of the declarations: their order, their result tile, the same `issue`."""

from __future__ import annotations

import inspect
from typing import Any

import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest

from nki_lab.diagnostic import NkiError
from nki_lab.isa.arch import arch_of
from nki_lab.isa.dtype import dtype_of
from nki_lab.isa.spec import TABLE, Beta1
from nki_lab.kernel_runtime.beta1 import Beta1Builder, instruction_names
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.issue.context import recording
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor

LEGACY = [name for name, item in TABLE.items() if isinstance(item.beta1, Beta1)]
ADAPTED = ("memset", "iota", "affine_select")  # Beta 1 passes a shape, or an expression of indices


def builder() -> Beta1Builder:
    return Beta1Builder(Program("test", arch_of("trn2"), Options()))


def tile_of(maker: Beta1Builder, text: str) -> NkiTensor:
    """A tensor from an example's words: memory, dtype, shape."""
    space, dtype, shape = text.split()[:3]
    region = MemoryRegion.shared_hbm if space == "hbm" else MemoryRegion(space)
    return maker.allocate(tuple(map(int, shape.split("x"))), dtype_of(dtype), region)


@pytest.mark.parametrize("name", [name for name in LEGACY if name not in ADAPTED])
def test_the_declared_example_is_the_same_instruction_in_this_spelling(name: str) -> None:
    instruction = TABLE[name]
    face = instruction.beta1
    assert isinstance(face, Beta1)
    maker = builder()
    values = {
        key: tile_of(maker, value) if instruction.operands[key].is_tensor and isinstance(value, str) else value
        for key, value in instruction.example.items()
    }
    for key, value in values.items():
        if isinstance(value, NkiTensor) and key != face.returns and value._buffer.on_chip:
            maker.view_of(value)
    with recording(maker):
        positional = [values.pop(key) for key in face.positional if key in values]
        expected = values.pop(face.returns, None) if face.returns else None
        result = instruction_names()[name](*positional, **values)
        maker.sync()
    (op,) = maker.program.ops()
    assert op.variant.instruction is instruction
    if expected is None:
        assert result is None
        return
    written = op.operand(face.returns)
    assert written is not None
    assert written.buffer is result._buffer
    assert tuple(result.shape) == tuple(expected.shape)
    assert result.buffer is expected.buffer


@pytest.mark.parametrize("name", LEGACY)
def test_signature_and_documentation_are_the_declarations(name: str) -> None:
    face = TABLE[name].beta1
    assert isinstance(face, Beta1)
    door = instruction_names()[name]
    parameters = list(inspect.signature(door).parameters)
    assert parameters[: len(face.positional)] == list(face.positional)
    assert {"dtype", "mask"} <= set(parameters)
    assert TABLE[name].summary in door.__doc__


@pytest.mark.parametrize(
    ("expr", "want"),
    [
        (lambda: nl.arange(0, 6)[None, :], np.arange(6)[None, :]),
        (lambda: 5 + nl.arange(8)[:, None] * 2, 5 + 2 * np.arange(8)[:, None]),
        (lambda: nl.arange(6)[None, :] * -1, -np.arange(6)[None, :]),
        (lambda: nl.mgrid[0:4, 0:3, 0:2].p * 10 + nl.mgrid[0:4, 0:3, 0:2].y, None),
    ],
)
def test_iota_writes_the_index_expression(execute: Any, expr: Any, want: Any) -> None:
    def kernel(a: Any) -> Any:
        tile = nisa.iota(expr(), dtype=nl.int32)
        out = nl.ndarray(tile.shape, nl.float32, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    if want is None:
        grid = np.mgrid[0:4, 0:3, 0:2]
        want = grid[0] * 10 + grid[2]
    np.testing.assert_array_equal(execute(kernel, np.ones((1, 1), np.float32)).outputs, want)


def test_dtype_is_generic_and_numpy_functions_are_operators(execute: Any) -> None:
    source = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)

    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        results = (
            nisa.tensor_scalar(tile, np.subtract, 1.0, reverse0=True, dtype=nl.float32),
            nisa.tensor_scalar(tile, op0=np.multiply, operand0=tile[:, 0], op1=nl.add, operand1=np.float32(2.5)),
            nisa.tensor_tensor(tile, tile[:, 0:1], op=np.multiply),
            nisa.activation(np.square, tile, scale=2.0, bias=tile[:, 1]),
            nisa.tensor_reduce(np.max, tile, axis=[1]),
            nisa.tensor_reduce(nl.max, tile, 1, negate=True, keepdims=True),
            nisa.tensor_reduce(np.sum, tile, axis=(1,)),
        )
        outs = []
        for result in results:
            out = nl.ndarray(result.shape, nl.float32, buffer=nl.shared_hbm)
            nl.store(out, result)
            outs.append(out)
        return tuple(outs)

    first, second = source[:, :1], source[:, 1:2]
    wants = (1 - source, source * first + np.float32(2.5), source * first, np.square(2 * source + second),
             source.max(1, keepdims=True), -source.max(1, keepdims=True), source.sum(1, keepdims=True))  # fmt: skip
    for output, want in zip(execute(kernel, source).outputs, wants, strict=True):
        np.testing.assert_allclose(output, want, rtol=1e-5, atol=1e-6)


def stored(tile: Any) -> Any:
    """A tensor in shared HBM with the contents of a tile."""
    out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


def test_searches_take_five_dimensions(execute: Any) -> None:
    source = np.random.default_rng(1).permutation(8 * 64).reshape(8, 2, 2, 2, 8).astype(np.float32)

    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        top = nisa.max8(src=tile)
        return stored(top), stored(nisa.nc_find_index8(data=tile, vals=top))

    order = np.argsort(-source.reshape(8, -1), axis=1)[:, :8]
    top, places = execute(kernel, source).outputs
    np.testing.assert_array_equal(top, np.take_along_axis(source.reshape(8, -1), order, axis=1))
    np.testing.assert_array_equal(places, order)


def test_tensor_scalar_reduce_subtracts_too(execute: Any) -> None:
    source = np.arange(24, dtype=np.float32).reshape(4, 6) ** 2

    def kernel(a: Any) -> Any:
        total = nl.ndarray((4, 1), nl.float32)
        tile = nisa.tensor_scalar_reduce(
            data=nl.load(a), op0=np.multiply, operand0=2.0, reduce_op=nl.subtract, reduce_res=total
        )
        return stored(tile), stored(total)

    tile, total = execute(kernel, source).outputs
    np.testing.assert_array_equal(tile, 2 * source)
    np.testing.assert_array_equal(total[:, 0], np.subtract.reduce(2 * source, axis=1))


@pytest.mark.parametrize(("target", "last"), [("trn1", 2**24), ("trn2", 2**24 + 1)])
def test_the_scalar_engine_copies_through_float32_on_v2(execute: Any, target: str, last: int) -> None:
    source = np.array([[3, 2**24, 2**24 + 1]] * 2, np.int32)

    def kernel(a: Any) -> Any:
        return stored(nisa.tensor_copy(nl.load(a), engine=nisa.scalar_engine))

    copied = execute(kernel, source, target=target).outputs
    np.testing.assert_array_equal(copied, [[3, 2**24, last]] * 2)


def test_default_dtypes_are_those_of_beta_1(execute: Any) -> None:
    def kernel(a: Any, b: Any) -> None:
        x, y = nl.load(a), nl.load(b)
        assert nisa.tensor_tensor(x, y, np.add).dtype == nl.float32  # float16 with bfloat16
        assert nisa.tensor_scalar(x, np.multiply, 2.0).dtype == nl.float16
        assert nisa.activation(nl.exp, y).dtype == nl.bfloat16
        assert nisa.scalar_tensor_tensor(data=x, op0=np.add, operand0=1.0, op1=np.add, operand1=y).dtype == nl.float16
        assert nisa.nc_matmul(x, y).dtype == nl.float32
        assert nisa.nc_matmul(x, y).buffer == nl.psum
        assert nisa.nc_transpose(x).dtype == nl.float16
        assert nisa.nc_transpose(x, engine=nisa.vector_engine).buffer == nl.sbuf

    execute(kernel, np.ones((8, 4), np.float16), np.ones((8, 4), nl.bfloat16))


def test_a_transposed_result_of_another_dtype_is_cast_by_a_copy(execute: Any, names_of: Any) -> None:
    source = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)

    def kernel(a: Any) -> Any:
        turned = nisa.nc_transpose(nl.load(a), dtype=nl.bfloat16)
        out = nl.ndarray((6, 8), nl.bfloat16, buffer=nl.shared_hbm)
        nl.store(out, turned)
        return out

    done = execute(kernel, source, precise=True)
    np.testing.assert_array_equal(done.outputs, source.T.astype(nl.bfloat16))
    assert names_of(done)[:2] == ["dma_copy", "nc_transpose"]


def test_low_precision_columns_become_float32_scalars(execute: Any) -> None:
    source = np.random.default_rng(0).normal(size=(8, 6)).astype(nl.bfloat16)

    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        out = nl.ndarray((8, 6), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nisa.tensor_scalar(tile, np.multiply, tile[:, 2], dtype=nl.float32))
        return out

    want = source.astype(np.float32) * source[:, 2:3].astype(np.float32)
    np.testing.assert_array_equal(execute(kernel, source).outputs, want)


def test_products_have_the_free_dimensions_of_their_moving_tile(execute: Any, names_of: Any) -> None:
    rng = np.random.default_rng(0)
    image, weights = rng.normal(size=(16, 6, 8)).astype(np.float32), rng.normal(size=(16, 12)).astype(np.float32)

    def kernel(a: Any, b: Any, flat: bool) -> Any:
        tile, filters = nl.load(a), nl.load(b)
        total = nl.zeros((12, 20) if flat else (12, 4, 5), nl.float32, buffer=nl.psum)
        for i in nl.affine_range(2):
            total += nisa.nc_matmul(filters, tile[:, i : i + 4, i : i + 5])
        product = nisa.nc_matmul(filters, tile[:, 0:4, 0:5])
        assert product.shape == (12, 4, 5)
        out = nl.ndarray((2, 12, 4, 5), nl.float32, buffer=nl.shared_hbm)
        nl.store(out[0], total.reshape((12, 4, 5)))
        nl.store(out[1], product)
        return out

    first, second = (np.einsum("km,kij->mij", weights, image[:, i : i + 4, i : i + 5]) for i in (0, 1))
    for flat in (False, True):
        done = execute(kernel, image, weights, flat)
        np.testing.assert_allclose(done.outputs, [first + second, first], rtol=1e-4, atol=1e-5)
        assert names_of(done).count("nc_matmul") == 3


def test_a_column_repeats_over_all_free_dimensions(execute: Any) -> None:
    rng = np.random.default_rng(0)
    image, bias = rng.normal(size=(16, 3, 4)).astype(np.float32), rng.normal(size=(16, 2)).astype(np.float32)

    def kernel(a: Any, b: Any) -> Any:
        out = nl.ndarray(a.shape, nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nisa.tensor_tensor(nl.load(a), nl.load(b)[:, 1], op=nl.add))
        return out

    np.testing.assert_array_equal(execute(kernel, image, bias).outputs, image + bias[:, 1, None, None])


def test_double_row_products_take_pairs_of_rows(execute: Any) -> None:
    rng = np.random.default_rng(0)
    left = rng.integers(-2, 3, (16, 2, 8)).astype(nl.float8_e5m2)
    right = rng.integers(-2, 3, (16, 2, 12)).astype(nl.float8_e5m2)

    def kernel(a: Any, b: Any) -> Any:
        out = nl.ndarray((8, 12), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nisa.nc_matmul(nl.load(a), nl.load(b), perf_mode="double_row_gen3"))
        return out

    done = execute(kernel, left, right)
    want = np.einsum("kli,klj->ij", left.astype(np.float32), right.astype(np.float32))
    np.testing.assert_array_equal(done.outputs, want)
    assert not done.diagnostics


def test_views_of_too_many_dimensions_take_several_instructions(execute: Any, names_of: Any) -> None:
    source = np.random.default_rng(0).normal(size=(8, 3, 4, 5, 6)).astype(np.float32)

    def kernel(a: Any) -> Any:
        tile = nl.load(a)
        i_p, i_a, i_b, i_c, i_d, i_e, i_f = nl.mgrid[0:8, 0:2, 0:2, 0:2, 0:2, 0:2, 0:3]
        turned = nl.ndarray((8, 2 * 4 * 4 * 3), dtype=a.dtype)
        turned[i_p, ((i_f * 4 + 2 * i_e + i_c) * 4 + 2 * i_d + i_b) * 2 + i_a] = (
            2.0 * tile[i_p, i_a + 1, i_b + 2 * i_c, i_d + 3 * i_e, 2 * i_f]
        )
        out = nl.ndarray(turned.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, turned)
        return out

    i_p, i_a, i_b, i_c, i_d, i_e, i_f = np.mgrid[0:8, 0:2, 0:2, 0:2, 0:2, 0:2, 0:3]
    want = np.zeros((8, 96), np.float32)
    want[i_p, ((i_f * 4 + 2 * i_e + i_c) * 4 + 2 * i_d + i_b) * 2 + i_a] = (
        2 * source[i_p, i_a + 1, i_b + 2 * i_c, i_d + 3 * i_e, 2 * i_f]
    )
    done = execute(kernel, source)
    np.testing.assert_array_equal(done.outputs, want)
    assert names_of(done).count("tensor_scalar") == 4


def test_a_name_is_kept_in_the_program(execute: Any) -> None:
    def kernel(a: Any) -> None:
        nisa.activation(nl.exp, nl.load(a), name="powers")
        nisa.tensor_copy(nl.load(a), name="twice")

    done = execute(kernel, np.ones((8, 4), np.float32))
    assert sorted(op.name for op in done.program.ops() if op.name) == ["powers", "twice"]


def test_an_ignored_keyword_is_an_advice(execute: Any) -> None:
    def kernel(a: Any) -> None:
        nisa.activation(nl.exp, nl.load(a), some_hint=True)

    done = execute(kernel, np.ones((8, 4), np.float32))
    assert [item.code for item in done.diagnostics] == ["NKI604"]


@pytest.mark.parametrize(
    ("call", "code", "exception"),
    [
        (lambda t: nisa.activation(nl.exp), "NKI003", TypeError),
        (lambda t: nisa.activation(nl.exp, t, t, t), "NKI002", TypeError),
        (lambda t: nisa.activation(nl.exp, t, op=nl.exp), "NKI002", TypeError),
        (lambda t: nisa.activation(nl.exp, 3.0), "NKI013", TypeError),
        (lambda t: nisa.tensor_reduce(np.add, t, axis=[0]), "NKI217", AssertionError),
        (lambda t: nisa.tensor_tensor(t, t[:, 0:3], np.add), "NKI203", AssertionError),
        (lambda t: nisa.dma_copy(dst=t, src=t, dst_rmw_op=np.multiply), "NKI215", AssertionError),
        (lambda t: nisa.iota(nl.arange(5), dtype=nl.int32), "NKI216", AssertionError),
        (lambda t: nisa.activation(nl.exp, t, mask=3.0), "NKI012", ValueError),
        (lambda t: nisa.nc_matmul(t, nl.ndarray((8, 600), nl.float32)), "NKI213", AssertionError),
    ],
)
def test_wrong_calls_are_refused_at_the_call(execute: Any, call: Any, code: str, exception: type[Exception]) -> None:
    def kernel(a: Any) -> None:
        tile = nl.load(a)
        tile += 1.0
        with pytest.raises(exception) as caught:
            call(tile)
        assert isinstance(caught.value, NkiError)
        assert caught.value.diagnostics[0].code == code

    execute(kernel, np.ones((8, 4), np.float32))


def test_the_compiler_copies_a_psum_tile_to_sbuf_where_the_instruction_reads_sbuf() -> None:
    maker = builder()
    with recording(maker):
        nisa.nc_matmul(tile_of(maker, "psum bfloat16 128x128"), tile_of(maker, "sbuf bfloat16 128x512"))
        maker.sync()
    copy, product = maker.program.ops()
    assert (copy.variant.instruction.role, product.variant.instruction.name) == ("copy", "nc_matmul")
    assert [note.code for note in maker.notes] == ["NKI609"]


def test_no_copy_is_inserted_for_a_tensor_in_hbm() -> None:
    maker = builder()
    with recording(maker), pytest.raises(NkiError, match="NKI201"):
        nisa.nc_matmul(tile_of(maker, "hbm bfloat16 128x128"), tile_of(maker, "sbuf bfloat16 128x512"))
