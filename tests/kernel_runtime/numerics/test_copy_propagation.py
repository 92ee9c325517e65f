"""Products that read their operands where they were computed: the same sums, and only where nothing else is seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.kernel_runtime.numerics.executor import Executor
from nki_lab.kernel_runtime.numerics.program_plan import plan_program
from nki_lab.kernel_runtime.numerics.slab import ULP_BOUND
from tests.calls import kernel_of, traced
from tests.kernel_runtime.numerics.test_repeating import check_repeats
from tests.tolerances import ulps

Array = np.ndarray[Any, Any]

FRAME = """
def kernel(x, v):
    out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    {values}
    weights = nl.ndarray((128, 256), {dtype})
    nisa.activation(weights, nl.exp, nl.load(x))
    turned = nl.ndarray((128, 256), {dtype}, buffer=nl.psum)
    left = nl.ndarray((128, 256), {dtype})
    total = nl.ndarray((128, 64), nl.float32, buffer=nl.psum)
{body}
    nl.store(out, nl.copy(total))
    return {results}
"""

TRANSPOSES = """
for b in range(2):
    nisa.nc_transpose(turned[:, nl.ds(b * 128, 128)], weights[:, nl.ds(b * 128, 128)])
"""
COPY = "nisa.activation(left, nl.copy, turned)\n"
PRODUCTS = """
for b in range(2):
    nisa.nc_matmul(total, left[:, nl.ds(b * 128, 128)], values[:, b, :])
"""
ATTENTION = TRANSPOSES + COPY + PRODUCTS


@dataclass(frozen=True)
class Moved:
    """A body, the moves that are left out of its run, and whether it is the whole product with the exponentials."""

    body: str
    gone: int
    results: str = "out"
    target: str = "trn2"
    dtype: str = "nl.bfloat16"
    keeps: bool = True
    blocks: bool = False  # of values are loaded beside each other: not all of a row of SBUF is one in HBM

    @property
    def text(self) -> str:
        body = "\n".join("    " + line for line in self.body.strip("\n").split("\n"))
        values = "values = nl.load(v)"
        if self.blocks:
            values = "values = nl.ndarray(v.shape, v.dtype)\n    nisa.dma_copy(values, v.ap([[64, 128], [8192, 2], [1, 64]]))"
        if self.dtype == "nl.float32":
            values = "values = nl.ndarray(v.shape, nl.float32)\n    nisa.tensor_copy(values, nl.load(v))"
        return FRAME.format(body=body, results=self.results, values=values, dtype=self.dtype)


CASES = {
    "attention": Moved(ATTENTION, 3),
    "float32": Moved(ATTENTION, 4, dtype="nl.float32"),
    "copied by the Vector Engine": Moved(ATTENTION.replace(COPY, "nisa.tensor_copy(left, turned)\n"), 3),
    "copied in halves": Moved(
        TRANSPOSES + "for b in range(2):\n    nisa.tensor_copy(left[:, nl.ds(b * 128, 128)], turned[:, nl.ds(b * 128, 128)])\n"
        + PRODUCTS, 4,
    ),
    "copied across the halves": Moved(
        TRANSPOSES + "nisa.tensor_copy(left[:, 0:64], turned[:, 0:64])\nnisa.tensor_copy(left[:, 64:192], turned[:, 64:192])\n"
        "nisa.tensor_copy(left[:, 192:256], turned[:, 192:256])\nfor b in range(4):\n    nisa.nc_matmul("
        "total[nl.ds(b % 2 * 64, 64), :], left[:, nl.ds(b * 64, 64)], values[:, b // 2, :])\n", 5,
    ),
    "part of a transpose": Moved(
        ATTENTION.replace("left[:, nl.ds(b * 128, 128)], values[:, b, :]", "left[32:96, nl.ds(b * 128, 128)], values[32:96, b, :]"),
        3, keeps=False,
    ),
    "a tile a block": Moved("""
for b in range(2):
    half = nl.ndarray((128, 128), weights.dtype, buffer=nl.psum)
    nisa.nc_transpose(half, weights[:, nl.ds(b * 128, 128)])
    nisa.nc_matmul(total, nl.copy(half), values[:, b, :])
""", 4),
    "as moving": Moved("""
flipped = nl.ndarray((64, 128), weights.dtype, buffer=nl.psum)
nisa.nc_transpose(flipped, weights[:, 0:64])
small = nl.copy(flipped)
square = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
nisa.nc_matmul(square, small, small)
nisa.tensor_copy(total, square[:, 0:64])
""", 2, keeps=False),
    "turned back": Moved("""
nisa.nc_transpose(turned[:, 0:128], weights[:, 0:128])
nisa.tensor_copy(left[:, 0:128], turned[:, 0:128])
again = nl.ndarray((128, 128), weights.dtype, buffer=nl.psum)
nisa.nc_transpose(again, left[:, 0:128])
nisa.nc_matmul(total, nl.copy(again), values[:, 0, :])
""", 4, keeps=False),
    "by the Vector Engine": Moved("""
for i in range(4):
    for j in range(4):
        nisa.nc_transpose(left[nl.ds(i * 32, 32), nl.ds(j * 32, 32)], weights[nl.ds(j * 32, 32), nl.ds(i * 32, 32)])
nisa.nc_matmul(total, left[:, 0:128], values[:, 0, :])
""", 0, keeps=False),
    "rounded": Moved(ATTENTION.replace("left[:, nl.ds", "narrow[:, nl.ds").replace(COPY, """
narrow = nl.ndarray((128, 256), nl.bfloat16)
nisa.tensor_copy(narrow, turned)
""").replace("values[", "fewer[").replace(TRANSPOSES, TRANSPOSES + "fewer = nl.load(v)\n"), 1, dtype="nl.float32", keeps=False),
    "scaled": Moved(ATTENTION.replace("nl.copy, turned", "nl.copy, turned, scale=2.0"), 0, keeps=False),
    "summed on the way": Moved(ATTENTION.replace(COPY, """
sums = nl.ndarray((128, 1), nl.float32)
nisa.activation(left, nl.copy, turned, reduce_op=nl.add, reduce_res=sums, reduce_cmd=nisa.reduce_cmd.reset_reduce)
more = nl.ndarray((128, 1), nl.float32, buffer=nl.shared_hbm)
nl.store(more, sums)
"""), 0, results="out, more"),
    "turned is a result": Moved(ATTENTION + "more = nl.ndarray((128, 256), weights.dtype, buffer=nl.shared_hbm)\n"
                                "nl.store(more, nl.copy(turned))\n", 1, results="out, more"),
    "left is a result": Moved(ATTENTION + "more = nl.ndarray((128, 256), weights.dtype, buffer=nl.shared_hbm)\n"
                              "nl.store(more, left)\n", 0, results="out, more"),
    "weights change before the product": Moved(ATTENTION.replace(PRODUCTS, "nisa.memset(weights, 1.0)\n" + PRODUCTS), 0),
    "weights change after the product": Moved(ATTENTION + "nisa.memset(weights, 1.0)\n", 0),
    "left is filled twice": Moved(TRANSPOSES + "nisa.memset(left, 0.0)\n" + COPY + PRODUCTS, 0),
    "left changes": Moved(ATTENTION.replace(PRODUCTS, "nisa.tensor_scalar(left, left, nl.multiply, 2.0)\n" + PRODUCTS), 0, keeps=False),
    "one half for both": Moved(ATTENTION.replace("turned[:, nl.ds(b * 128, 128)]", "turned[:, 0:128]").replace(
        "turned)", "turned)\nnisa.memset(turned, 0.0)"), 0, keeps=False),
    "read before it is filled": Moved(PRODUCTS + ATTENTION, 0, keeps=False),
    "half of it filled": Moved(ATTENTION.replace("for b in range(2):\n    nisa.nc_transpose", "for b in range(1):\n    nisa.nc_transpose", 1),
                               0, keeps=False),
    "NeuronCore-v2": Moved(ATTENTION, 0, target="trn1"),
    "unread": Moved("nisa.nc_transpose(turned[:, 0:128], weights[:, 0:128])\n"
                    "nisa.nc_matmul(total, weights[:, 0:128], values[:, 0, :])\n", 1, keeps=False),
}  # fmt: skip


def operands(seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    x, v = rng.standard_normal((128, 256), np.float32), rng.standard_normal((128, 2, 64), np.float32)
    return [x.astype(ml_dtypes.bfloat16), v.astype(ml_dtypes.bfloat16)]


def run(moved: Moved, arrays: list[Array], order: str) -> tuple[Executor, list[Array]]:
    program, _ = traced(kernel_of(moved.text), arrays, ["bfloat16"] * 2, moved.target, matmul_order=order)
    executor = Executor(program, dict(enumerate(arrays)))
    executor.run(final=True)
    return executor, [executor.read(tensor) for tensor in program.outputs]


def moves_of(executor: Executor) -> list[str]:
    """The names of the instructions that a run left out, but for loads that are elided."""
    program = executor.program
    plan = plan_program(program, executor.tracker.result.add, executor._shadowed)
    left_out = set(range(len(program))) - set(plan.rows.tolist())
    names = [program.variant_of(op).instruction.name for op in sorted(left_out)]
    return [name for name in names if name != "dma_copy"]


@pytest.mark.parametrize("name", CASES)
def test_moves_are_left_out_where_nothing_else_is_seen(name: str) -> None:
    moved, arrays = CASES[name], operands()
    executor, _ = run(moved, arrays, "slab")
    assert len(moves_of(executor)) == moved.gone
    assert bool(executor._propagated) == (moved.gone > 0 and name not in ("unread", "rounded"))  # nobody reads these
    assert not run(moved, arrays, "tile")[0]._propagated


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("order", ["slab", "free"])
def test_results_are_those_of_the_tiles(name: str, order: str) -> None:
    moved, arrays = CASES[name], operands()
    _, (by_tile, *others) = run(moved, arrays, "tile")
    _, (got, *others_got) = run(moved, arrays, order)
    for one, two in zip(others, others_got, strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(by_tile))
    weights, v = np.exp(arrays[0].astype(np.float64)), np.abs(arrays[1].astype(np.float64))
    if moved.keeps:
        scale = weights @ v.transpose(1, 0, 2).reshape(256, 64)
        assert ulps(got, by_tile, scale) <= ULP_BOUND
        x, values = arrays[0].astype(np.float32), arrays[1].astype(np.float64)
        rounded = np.exp(x) if moved.dtype == "nl.float32" else np.exp(x).astype(ml_dtypes.bfloat16)
        exact = rounded.astype(np.float64) @ values.transpose(1, 0, 2).reshape(256, 64)
        assert (np.abs(got - exact) <= 2.0**-15 * scale).all()
    else:
        finite = np.isfinite(by_tile)
        np.testing.assert_allclose(got[finite], by_tile[finite], rtol=2e-5, atol=2e-4)


def test_nan_and_infinity_go_where_they_went() -> None:
    arrays = operands()
    arrays[0][3, 7], arrays[0][100, 200] = np.nan, np.inf
    moved = CASES["attention"]
    (by_tile,), (got,) = (run(moved, arrays, order)[1] for order in ("tile", "slab"))
    assert np.isnan(got[3]).all()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(by_tile))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(by_tile))


def test_memory_is_not_used_again_before_the_last_product() -> None:
    body = """
kept = []
for i in range(6):
    tile = nl.ndarray((128, 128), nl.bfloat16)
    nisa.activation(tile, nl.exp, nl.load(x[:, 0:128]), scale=0.1 * (i + 1))
    psum = nl.ndarray((128, 128), nl.bfloat16, buffer=nl.psum)
    nisa.nc_transpose(psum, tile)
    kept.append(nl.copy(psum))
for i in range(20):
    other = nl.ndarray((128, 128), nl.bfloat16)
    nisa.memset(other, 3.0)
    nisa.tensor_scalar(other, other, nl.multiply, 2.0)
for i in range(6):
    nisa.nc_matmul(total, kept[i], values[:, 0, :])
    other = nl.ndarray((128, 128), nl.bfloat16)
    nisa.memset(other, 5.0)
"""
    moved = Moved(body, 12)
    executor, (got,) = run(moved, operands(), "slab")
    assert len(moves_of(executor)) == moved.gone
    _, (by_tile,) = run(moved, operands(), "tile")
    np.testing.assert_allclose(got, by_tile, rtol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_plans_for_other_arguments_read_those(name: str) -> None:
    moved, runs = CASES[name], [operands(seed) for seed in range(3)]
    program, _ = traced(kernel_of(moved.text), runs[0], ["bfloat16"] * 2, moved.target)
    check_repeats(program, runs)


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """Statements that move parts of `weights` about, with products of parts of what they make."""
    lines, tiles, count = list[str](), ["weights"], 0
    for _ in range(draw(st.integers(1, 8))):
        source = draw(st.sampled_from(tiles))
        kind = draw(st.sampled_from(("transpose", "copy", "activation", "fill", "product")))
        rows, columns = (draw(st.sampled_from((32, 64, 128))) for _ in range(2))
        row = draw(st.sampled_from(range(0, 129 - rows, 32)))
        column = draw(st.integers(0, 256 - columns))
        part = f"{source}[{row}:{row + rows}, {column}:{column + columns}]"
        if kind == "product":
            width = min(columns, 64)
            left = f"{source}[{row}:{row + rows}, {column}:{column + width}]"
            lines.append(f"nisa.nc_matmul(total[0:{width}, :], {left}, values[{row}:{row + rows}, {count % 2}, :])")
            continue
        if kind == "fill":
            lines.append(f"nisa.memset({part}, {count + 0.5})")
            continue
        name, count = f"t{count}", count + 1
        if kind == "transpose":
            at = draw(st.integers(0, 256 - rows))
            lines += [
                f"{name}p = nl.ndarray((128, 256), weights.dtype, buffer=nl.psum)",
                *([f"nisa.memset({name}p, 0.25)"] if draw(st.booleans()) else []),
                f"nisa.nc_transpose({name}p[0:{columns}, {at}:{at + rows}], {part})",
                f"{name} = nl.ndarray((128, 256), weights.dtype)",
                f"nisa.tensor_copy({name}[0:{columns}, {at}:{at + rows}], {name}p[0:{columns}, {at}:{at + rows}])",
            ]
        else:
            call = "nisa.tensor_copy({}, {})" if kind == "copy" else "nisa.activation({}, nl.copy, {})"
            lines += [
                f"{name} = nl.ndarray((128, 256), weights.dtype)",
                call.format(part.replace(source, name, 1), part),
            ]
        tiles.append(name)
        if draw(st.booleans()):
            lines.append(f"nisa.nc_matmul(total[0:64, :], {name}[:, 64:128], values[:, 0, :])")
    return "nisa.memset(total, 0.0)\n" + "\n".join(lines)


@given(bodies(), st.sampled_from(("nl.bfloat16", "nl.float32")), st.booleans())
def test_moves_of_all_kinds_change_nothing(body: str, dtype: str, blocks: bool) -> None:
    moved, arrays = Moved(body, 0, dtype=dtype, blocks=blocks), operands()
    (by_tile,), (got,) = (run(moved, arrays, order)[1] for order in ("tile", "slab"))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(by_tile))
    finite = np.isfinite(by_tile)
    np.testing.assert_allclose(got[finite], by_tile[finite], rtol=2e-5, atol=1e-3)
    program, _ = traced(kernel_of(moved.text), arrays, ["bfloat16"] * 2, moved.target)
    check_repeats(program, [arrays, operands(1)])
