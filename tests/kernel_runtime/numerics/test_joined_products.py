"""Products of one sum as one, with values that are read in the argument: the same sums, and only where nothing differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.numerics.executor import Executor
from nki_lab.kernel_runtime.numerics.slab import ULP_BOUND
from nki_lab.kernel_runtime.numerics.slab_product import JOINED_ROWS
from tests.calls import kernel_of, traced
from tests.kernel_runtime.numerics.test_repeating import check_repeats
from tests.tolerances import ulps

Array = np.ndarray[Any, Any]

KEYS, WIDTH = 512, 64
BLOCKS = KEYS // 128
VALUES = "nisa.dma_copy(values, v.ap([[64, 128], [8192, 4], [1, 64]]))\n"
PRODUCT = "nisa.nc_matmul(total, left[:, nl.ds(b * 128, 128)], values[:, b, :])"
PRODUCTS = f"for b in range(4):\n    {PRODUCT}\n"
FRAME = """
def kernel(x, v):
    out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    values = nl.ndarray((128, 4, 64), v.dtype)
    weights = nl.ndarray((128, 512), x.dtype)
    nisa.activation(weights, nl.exp, nl.load(x))
    turned = nl.ndarray((128, 512), x.dtype, buffer=nl.psum)
    for b in range(4):
        nisa.nc_transpose(turned[:, nl.ds(b * 128, 128)], weights[:, nl.ds(b * 128, 128)])
    left = nl.copy(turned)
    other = nl.ndarray((128, 64), nl.float32, buffer=nl.psum)
    total = nl.ndarray((128, 64), nl.float32, buffer=nl.psum)
{body}
    nl.store(out, nl.copy(total))
    return out
"""


@dataclass(frozen=True)
class Sum:
    """A body that loads `values` and adds up `total`, and the rows of the products that are joined."""

    body: str
    rows: list[int]
    keeps: bool = True  # the whole product with the exponentials

    @property
    def text(self) -> str:
        return FRAME.format(body="\n".join("    " + line for line in self.body.strip("\n").split("\n")))


CASES = {
    "blocks of one load": Sum(VALUES + PRODUCTS, [384]),
    "a load a block": Sum(
        "for b in range(4):\n    nisa.dma_copy(values[:, b, :], v[nl.ds(b * 128, 128), :])\n" + PRODUCTS, [384]
    ),
    "halves of blocks": Sum(VALUES + "for b in range(8):\n    rows = nl.ds(b % 2 * 64, 64)\n"
                            "    nisa.nc_matmul(total, left[rows, nl.ds(b // 2 * 128, 128)], values[rows, b // 2, :])\n", [384, 128]),
    "three": Sum(VALUES + PRODUCTS.replace("range(4)", "range(3)"), [384], keeps=False),
    "every second block": Sum(VALUES + PRODUCTS.replace("range(4)", "range(0, 4, 2)"), [], keeps=False),
    "backwards": Sum(VALUES + PRODUCTS.replace("range(4)", "reversed(range(4))"), []),
    "weights backwards": Sum(VALUES + PRODUCTS.replace("nl.ds(b * 128", "nl.ds((3 - b) * 128"), [], keeps=False),
    "values that are copied as well": Sum(
        VALUES + "more = nl.ndarray((128, 64), v.dtype)\nnisa.dma_copy(more, v[0:128, :])\n"
        "nisa.tensor_scalar(more, more, nl.multiply, 2.0)\n" + PRODUCTS, [384],
    ),
    "values that are written first": Sum("nisa.dma_copy(v[0:128, :], v[128:256, :])\n" + VALUES + PRODUCTS, [], keeps=False),
    "values that are written before the products": Sum(
        VALUES + "nisa.dma_copy(v[0:128, :], v[128:256, :])\n" + PRODUCTS, []
    ),
    "one after the other in another tile": Sum(
        VALUES + PRODUCTS + f"for b in range(2):\n    {PRODUCT.replace('total', 'other')}\nnisa.tensor_tensor(total, total, nl.copy(other), nl.add)\n",
        [384, 256], keeps=False,
    ),
    "in turns with another tile": Sum(
        VALUES + PRODUCTS + f"    {PRODUCT.replace('total', 'other')}\nnisa.tensor_tensor(total, total, nl.copy(other), nl.add)\n", [],
        keeps=False,
    ),
    "parts of the tile": Sum(VALUES + "for b in range(4):\n    nisa.nc_matmul(total[nl.ds(b % 2 * 64, 64), :], "
                             "left[:, nl.ds(b * 128, 64)], values[:, b, :])\n", [], keeps=False),
    "started anew": Sum(VALUES + PRODUCTS.replace("values[:, b, :])", "values[:, b, :], accumulate=b not in (0, 3))"), [384],
                        keeps=False),
    "read in between": Sum(
        VALUES + PRODUCTS + "    seen = nl.ndarray((128, 64), nl.float32)\n    nisa.tensor_copy(seen, total)\n", []
    ),
    "something else in between": Sum(VALUES + PRODUCTS + "    nisa.memset(nl.ndarray((128, 8), nl.float32), 1.0)\n", []),
    "a block that changes": Sum(VALUES + "nisa.memset(values[:, 1, :], 0.5)\n" + PRODUCTS, [], keeps=False),
    "a part of the values": Sum("nisa.memset(values, 0.25)\nnisa.dma_copy(values[:, 0, :], v[0:128, :])\n" + PRODUCTS, [],
                                keeps=False),
    "values in an order of their own": Sum(VALUES.replace("[[64, 128], [8192, 4]", "[[256, 128], [64, 4]"), []),
}  # fmt: skip
CASES["values in an order of their own"] = Sum(
    CASES["values in an order of their own"].body + PRODUCTS, [], keeps=False
)


def operands(kind: str = "bfloat16", seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    x, v = rng.standard_normal((128, KEYS), np.float32), rng.standard_normal((KEYS, WIDTH), np.float32)
    dtype = np.float32 if kind == "float32" else ml_dtypes.bfloat16
    return [x.astype(dtype), v.astype(dtype)]


def run(body: Sum, arrays: list[Array], order: str, kind: str = "bfloat16") -> tuple[Executor, Array]:
    program, _ = traced(kernel_of(body.text), arrays, [kind] * 2, "trn2", matmul_order=order)
    executor = Executor(program, dict(enumerate(arrays)))
    executor.run(final=True)
    return executor, executor.read(program.outputs[0])


@pytest.mark.parametrize("name", CASES)
def test_products_are_joined_where_nothing_comes_between(name: str) -> None:
    body = CASES[name]
    executor, _ = run(body, operands(), "slab")
    assert list(executor._joined.values()) == body.rows
    assert max(body.rows, default=0) <= JOINED_ROWS
    assert not run(body, operands(), "tile")[0]._joined


def test_all_are_joined_where_any_order_will_do() -> None:
    executor, _ = run(CASES["blocks of one load"], operands(), "free")
    assert list(executor._joined.values()) == [KEYS]


@pytest.mark.parametrize("kind", ["bfloat16", "float32"])
@pytest.mark.parametrize("order", ["slab", "free"])
@pytest.mark.parametrize("name", CASES)
def test_sums_are_those_of_the_tiles(name: str, order: str, kind: str) -> None:
    body, arrays = CASES[name], operands(kind)
    (_, by_tile), (_, got) = run(body, arrays, "tile", kind), run(body, arrays, order, kind)
    weights, v = np.exp(arrays[0].astype(np.float64)), np.abs(arrays[1].astype(np.float64))
    scale = weights.sum(axis=1, keepdims=True) * v.max() if not body.keeps else weights @ v
    assert ulps(got, by_tile, scale) <= ULP_BOUND
    if body.keeps:
        rounded = np.exp(arrays[0].astype(np.float32)).astype(arrays[0].dtype).astype(np.float64)
        assert (np.abs(got - rounded @ arrays[1].astype(np.float64)) <= 2.0**-15 * scale).all()


@pytest.mark.parametrize("kind", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_calls_by_a_plan_read_the_arguments_of_each(name: str, kind: str) -> None:
    runs = [operands(kind, seed) for seed in range(3)]
    program, _ = traced(kernel_of(CASES[name].text), runs[0], [kind] * 2, "trn2")
    check_repeats(program, runs)


def test_a_large_argument_of_which_little_is_loaded_is_not_converted() -> None:
    body = Sum(VALUES + PRODUCTS, [384])
    arrays = operands()
    wide = np.concatenate([arrays[1]] * 8)
    executor, got = run(body, [arrays[0], wide], "slab")
    assert not executor._joined
    np.testing.assert_array_equal(got, run(body, arrays, "tile")[1])


def test_tiles_are_given_back_after_the_last_of_joined_products() -> None:
    rounds = """
for i in range(24):
    weights = nl.ndarray((128, 512), x.dtype)
    nisa.activation(weights, nl.exp, nl.load(x), scale=0.01 * i)
    turned = nl.ndarray((128, 512), x.dtype, buffer=nl.psum)
    for b in range(4):
        nisa.nc_transpose(turned[:, nl.ds(b * 128, 128)], weights[:, nl.ds(b * 128, 128)])
    left = nl.copy(turned)
    total = nl.ndarray((128, 64), nl.float32, buffer=nl.psum)
    for b in range(4):
        nisa.nc_matmul(total, left[:, nl.ds(b * 128, 128)], values[:, b, :])
    nisa.tensor_copy(nl.ndarray((128, 64), nl.float32), total)
"""
    executor, _ = run(Sum(VALUES + rounds, []), operands(), "slab")
    assert len(executor._joined) == 24
    assert executor._pool.nbytes < 8 * 128 * KEYS * 4


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(("total", "other")), st.booleans()), min_size=1, max_size=10),
    st.sampled_from(("slab", "free")),
    st.sampled_from(("bfloat16", "float32")),
)
def test_any_order_of_products_has_the_sums_of_the_tiles(
    steps: list[tuple[int, str, bool]], order: str, kind: str
) -> None:
    lines = ["nisa.memset(total, 0.0)", "nisa.memset(other, 0.0)"]
    for block, tile, reads in steps:
        lines.append(
            PRODUCT.replace("total", tile).replace("b * 128", str(block * 128)).replace("[:, b, :]", f"[:, {block}, :]")
        )
        lines[-1] = lines[-1][:-1] + ", accumulate=True)"
        if reads:
            lines.append(f"nisa.tensor_copy(nl.ndarray((128, 64), nl.float32), {tile})")
    body = Sum(VALUES + "\n".join(lines), [])
    arrays = operands(kind)
    (_, by_tile), (_, got) = run(body, arrays, "tile", kind), run(body, arrays, order, kind)
    scale = (
        10
        * np.exp(arrays[0].astype(np.float64)).sum(axis=1, keepdims=True)
        * np.abs(arrays[1].astype(np.float64)).max()
    )
    assert ulps(got, by_tile, scale) <= ULP_BOUND
