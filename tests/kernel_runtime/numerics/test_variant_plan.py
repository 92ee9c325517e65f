"""How one variant is executed: directly where it may be, with conversions where it must be, rounded only if needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nki_lab.isa.dtype import BF16, F16
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.numerics.storage import BYTES, NATIVE, SHADOW, kind_of
from nki_lab.kernel_runtime.numerics.variant_plan import VariantPlan
from tests.calls import kernel_of, traced

PRELUDE = """
def kernel(a):
    x = nl.ndarray((4, 6), nl.float32)
    y = nl.ndarray((4, 6), nl.float32)
    h = nl.ndarray((4, 6), nl.bfloat16)
    g = nl.ndarray((4, 6), nl.bfloat16)
    k = nl.ndarray((4, 6), nl.float16)
    i = nl.ndarray((4, 6), nl.int32)
    j = nl.ndarray((4, 6), nl.int32)
    b = nl.ndarray((4, 6), nl.bool_)
    e = nl.ndarray((4, 6), nl.float8_e8m0fnu)
    f = nl.ndarray((4, 6), nl.float8_e8m0fnu)
    c = nl.ndarray((4, 1), nl.bfloat16)
"""


def program_of(call: str) -> Program:
    text = f"{PRELUDE}    nisa.{call}\n"
    program, _ = traced(kernel_of(text), [np.zeros((1, 1), np.float32)], ["float32"], "trn3")
    return program


def recipe(call: str, *kinds: int, precise: bool = True) -> VariantPlan:
    program = program_of(call)
    (op,) = program.ops()
    usual = tuple(kind_of(view.buffer) for view in op.views)
    return VariantPlan(op.variant, kinds or usual, precise)


@pytest.mark.parametrize(
    ("call", "compute", "direct"),
    [
        ("tensor_tensor(x, x, y, nl.add)", "float32", True),
        ("tensor_tensor(h, x, g, nl.add)", "float32", True),
        ("tensor_tensor(x, i, y, nl.add)", "float32", False),
        ("tensor_tensor(i, i, j, nl.add)", "native", True),
        ("tensor_tensor(i, i, j, nl.add, engine=nisa.engine.vector)", "float32", False),
        ("tensor_tensor(i, i, j, nl.bitwise_and)", "bits", True),
        ("tensor_copy(h, g)", "native", True),
        ("tensor_copy(i, j)", "native", True),
        ("tensor_copy(h, x)", "float32", True),
        ("tensor_copy(i, x)", "float32", False),
        ("memset(i, 3)", "native", True),
        ("memset(b, 1)", "native", True),
        (
            "tensor_copy(x.reshape((4, 2, 3)).permute((0, 2, 1)), y.reshape((4, 3, 2)).permute((0, 2, 1)))",
            "native",
            False,
        ),
        ("tensor_tensor(x.reshape((4, 2, 3)), y, y.reshape((4, 3, 2)), nl.add)", "float32", True),
    ],
)
def test_the_precision_and_the_path_follow_the_operands(call: str, compute: str, direct: bool) -> None:
    found = recipe(call)
    assert (found.compute, found.direct) == (compute, direct)


@pytest.mark.parametrize(
    ("call", "rounded"),
    [
        ("tensor_tensor(h, x, y, nl.add)", BF16),
        ("tensor_tensor(x, x, y, nl.add)", None),
        ("tensor_tensor(h, g, h, nl.add)", BF16),
        ("tensor_tensor(h, g, h, nl.maximum)", None),  # one of the inputs, on their grid
        ("tensor_tensor(h, g, x, nl.maximum)", BF16),
        ("tensor_tensor(h, g, x, nl.less)", BF16),
        ("tensor_tensor(k, g, h, nl.maximum)", F16),  # bfloat16 reaches further than float16
        ("tensor_copy(x, h)", None),
        ("tensor_copy(h, k)", BF16),
        ("tensor_copy(h, b)", None),
        ("activation(h, nl.copy, g)", None),
        ("activation(h, nl.copy, g, reduce_res=c)", BF16),
        ("activation(h, nl.copy, g, scale=2.0)", BF16),
        ("activation(h, nl.exp, g)", BF16),
        ("memset(h, 1.0)", None),
        ("memset(h, 0.1)", BF16),
        ("tensor_reduce(c, nl.maximum, h, 1)", None),
        ("tensor_reduce(c, nl.maximum, h, 1, negate=True)", BF16),
        ("tensor_reduce(c, nl.add, h, 1)", BF16),
    ],
)
def test_results_are_rounded_only_where_they_may_leave_the_grid(call: str, rounded: Any) -> None:
    assert recipe(call).rounds[0] is rounded


def test_a_grid_without_zero_is_always_rounded_to() -> None:
    assert recipe("tensor_tensor(e, e, f, nl.less)").rounds[0] is not None


def test_without_precision_narrow_floats_are_not_rounded_but_float16_is() -> None:
    assert recipe("tensor_tensor(h, x, y, nl.add)", precise=False).rounds[0] is None
    assert recipe("tensor_copy(k, h)", precise=False).rounds[0] is F16
    assert recipe("tensor_copy(k, k)", precise=False).rounds[0] is None


def test_operands_held_as_bytes_are_converted() -> None:
    found = recipe("tensor_copy(h, g)", BYTES, SHADOW)
    assert (found.compute, found.direct, found.moves) == ("float32", False, True)
    found = recipe("tensor_copy(i, j)", BYTES, NATIVE)
    assert (found.compute, found.direct) == ("native", True)
    found = recipe("tensor_tensor(x, x, y, nl.add)", SHADOW, BYTES, SHADOW)
    assert (found.compute, found.direct) == ("float32", False)


@pytest.mark.parametrize(
    ("call", "clash"),
    [
        ("tensor_copy(x, y)", False),
        ("tensor_tensor(x, x, y, nl.add)", False),
        ("tensor_copy(x[:, 0:4], x[:, 1:5])", True),
        ("tensor_copy(x[:, 0:4], x[:, 0:4])", False),
        ("tensor_tensor(x[:, 0:4], x[:, 0:4], x[:, 2:6], nl.add)", True),
        ("activation(h, nl.copy, g, reduce_res=h[:, 3:4])", True),
        ("activation(h, nl.copy, g, reduce_res=c)", False),
    ],
)
def test_an_output_clashes_with_whatever_else_lies_in_its_memory(call: str, clash: bool) -> None:
    program = program_of(call)
    (op,) = program.ops()
    flats = {view.buffer.id: object() for view in op.views}
    bounds: Any = [type("Held", (), {"flat": flats[view.buffer.id]}) for view in op.views]
    kinds = tuple(kind_of(view.buffer) for view in op.views)
    assert VariantPlan(op.variant, kinds, True).clashes(list(op.views), bounds) is clash
