"""Torch tensors as arguments and results. These tests need `nki-lab[torch]`."""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType
from typing import Any

import nki
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab import testing

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def torch() -> ModuleType:
    """The library; a test run without it fails rather than passing these tests by."""
    return importlib.import_module("torch")


def quietly(make: Any, *args: Any, **kwargs: Any) -> Any:
    """A tensor of a kind that torch is about to drop, or has not finished: making one warns."""
    with warnings.catch_warnings(action="ignore"):
        return make(*args, **kwargs)


@nki.jit
def double(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    nl.store(out, nl.add(tile, tile))
    return out


@nki.jit
def copied(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a))
    return out


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float8_e5m2", "float8_e4m3fn", "int8", "uint8",
                                  "int16", "uint16", "int32", "uint32", "bool"])  # fmt: skip
@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_every_dtype_comes_back_as_it_went_in(name: str, target: str, torch: ModuleType) -> None:
    a = torch.tensor([[1, 0, 1], [0, 1, 1]], dtype=torch.float32).to(getattr(torch, name))
    (result,) = nki_lab.run(copied, a, target=target).outputs
    assert isinstance(result, torch.Tensor)
    assert result.dtype == a.dtype
    assert result.to(torch.float32).tolist() == a.to(torch.float32).tolist()


def test_values_keep_every_bit(torch: ModuleType) -> None:
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).reshape(128, 512)
    a = bits.view(torch.bfloat16)
    result = copied(a)
    same = (result.view(torch.int16) == bits) | (result.isnan() & a.isnan())
    assert bool(same.all())


def test_a_plain_call_and_simulate_take_tensors(torch: ModuleType) -> None:
    a = torch.ones(4, 3, dtype=torch.bfloat16)
    for result in (double(a), nki.simulate(double)(a), double[1](a=a)):
        assert result.dtype == torch.bfloat16
        assert (result == 2).all()


def test_views_and_layouts_do_not_matter(torch: ModuleType) -> None:
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    for a in (base.t(), base[::2, 1::2], base.clone().detach()):
        assert torch.equal(double(a), 2 * a)


def test_a_gradient_is_never_lost_silently(torch: ModuleType) -> None:
    for a in (
        torch.ones(4, 3, requires_grad=True),
        torch.nn.Parameter(torch.ones(4, 3)),
        torch.ones(4, 3).requires_grad_() * 2,
    ):
        for call in (double, lambda value: nki_lab.run(double, value), lambda value: double(a=value)):
            with pytest.raises(
                TypeError, match=r"(?s)NKI029 argument a is .*requires a gradient.*autograd.Function.*no_grad"
            ):
                call(a)
        with torch.no_grad():
            assert torch.equal(double(a), 2 * a)
        assert torch.equal(double(a.detach()), 2 * a.detach())
        assert nki_lab.compile(double, a).inputs[0].shape == (4, 3)


def test_nor_is_that_of_a_scalar(torch: ModuleType) -> None:
    @nki.jit
    def scaled(a, factor):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(a), factor))
        return out

    factor = torch.nn.Parameter(torch.tensor(2.0))
    with pytest.raises(TypeError, match="NKI029 argument factor is a torch tensor that requires a gradient"):
        scaled(torch.ones(4, 3), factor)
    with torch.no_grad():
        assert (scaled(torch.ones(4, 3), factor) == 2).all()


def test_nor_is_a_tangent(torch: ModuleType) -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(a: Any) -> Any:
            return double(a)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            """Nothing is saved."""

        @staticmethod
        def jvp(ctx: Any, given: Any) -> Any:
            return double(given)

    a = torch.ones(4, 3)
    for map_first in (lambda function: function, torch.func.vmap):
        with pytest.raises(TypeError, match=r"(?s)NKI029 argument a is .*has a tangent.*jvp"):
            quietly(torch.func.jvp, map_first(double), (a,), (a,))
    dual = torch.autograd.forward_ad
    with dual.dual_level():
        for _ in range(2):
            assert (double(a) == 2).all()
        both = quietly(dual.make_dual, a, a)
        with pytest.raises(TypeError, match="NKI029"):
            double(both)
        assert (double(both.detach()) == 2).all()
    assert (quietly(torch.func.jvp, Double.apply, (a,), (a,))[1] == 2).all()


def test_an_argument_is_changed_in_place(torch: ModuleType) -> None:
    @nki.jit
    def kernel(a):
        nl.store(a, nl.add(nl.load(a), 1.0))

    base = torch.ones(4, 6, dtype=torch.bfloat16)
    kernel(base[:, ::2])
    assert base.sum() == 24 + 12
    leaf = torch.ones(4, 3, requires_grad=True)
    with torch.no_grad():
        kernel(leaf)
    assert (leaf == 2).all()


def test_arguments_that_torch_does_not_change_are_refused_before_any_is_changed(torch: ModuleType) -> None:
    @nki.jit
    def both(a, b):
        for argument in (a, b):
            nl.store(argument, nl.add(nl.load(argument), 1.0))

    @nki.jit
    def given_back(b):
        nl.store(b, nl.add(nl.load(b), 1.0))
        return b

    with torch.inference_mode():
        inferred = torch.ones(4, 3)
    for fixed in (torch.ones(3).expand(4, 3), inferred):
        a = torch.ones(4, 3)
        for _ in range(2):
            with pytest.raises(TypeError, match=r"NKI001 argument b is .*tensor.*, and the kernel writes it"):
                both(a, fixed)
            assert (given_back(fixed) == 2).all()
        assert (a == 1).all() and (fixed == 1).all()
    both(a, torch.ones(4, 3))  # which leaves a plan
    with pytest.raises(TypeError, match="NKI001 argument b"):
        both(a, inferred)
    assert (a == 2).all()
    with torch.inference_mode():
        both(a, inferred)
    assert (a == 3).all() and (inferred == 2).all()


def test_one_tensor_among_numpy_arrays_decides(torch: ModuleType) -> None:
    @nki.jit
    def add(a, b):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.load(a), nl.load(b)))
        return out, [out]

    result, (again,) = add(np.ones((4, 3), np.float32), torch.ones(4, 3))
    assert isinstance(result, torch.Tensor)
    assert isinstance(again, torch.Tensor)


def test_a_scalar_tensor_is_a_number(torch: ModuleType) -> None:
    seen = []

    @nki.jit
    def kernel(a, factor, dtype):
        seen.append((factor, dtype))
        return a

    kernel(torch.ones(4, 3), torch.tensor(2.5, dtype=torch.bfloat16), torch.float16)
    assert seen == [(2.5, torch.float16)]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda torch: torch.ones(4, 3, dtype=torch.float64), "an array of float64"),
        (lambda torch: torch.ones(4, 3, dtype=torch.int64), r"a.to\(torch.int32\)"),
        (lambda torch: torch.ones(4, 3, dtype=torch.complex64), "complex64"),
        (lambda torch: torch.ones(4, 0), "without elements"),
        (lambda torch: torch.ones(4, 3).to_sparse(), r"layout torch.sparse_coo.*a.to_dense\(\)"),
        (lambda torch: torch.ones(4, 3, device="meta"), "on meta.*nki_lab.spec"),
        (
            lambda torch: quietly(torch.quantize_per_tensor, torch.ones(4, 3), 0.1, 0, torch.qint8),
            "quantized.*int_repr",
        ),
        (
            lambda torch: quietly(torch.nested.nested_tensor, [torch.ones(3)], layout=torch.jagged),
            "nested.*to_padded_tensor",
        ),
        (
            lambda torch: quietly(torch.nested.nested_tensor, [torch.ones(3), torch.ones(2)]),
            "nested.*to_padded_tensor",
        ),
        (lambda torch: torch.empty(4, 3, dtype=torch.int4), "of int4.*convert it"),
        (lambda torch: torch.empty(4, 3, dtype=torch.uint1), "of uint1.*convert it"),
        (lambda torch: quietly(torch.zeros, 4, 3, dtype=torch.complex32), "of complex32.*convert it"),
        (lambda torch: torch.empty((), dtype=torch.bits8), "a scalar of torch.bits8.*pass a number"),
        (
            lambda torch: importlib.import_module("torch._subclasses").FakeTensorMode().from_tensor(torch.ones(4, 3)),
            "FakeTensor without values",
        ),
    ],
    ids=[
        "float64",
        "int64",
        "complex",
        "empty",
        "sparse",
        "meta",
        "quantized",
        "jagged",
        "nested",
        "int4",
        "uint1",
        "complex32",
        "bits8",
        "fake",
    ],
)
def test_a_tensor_that_no_kernel_takes_is_named(make: Any, says: str, torch: ModuleType) -> None:
    with pytest.raises(TypeError, match=rf"(?s)NKI001 argument a is.*{says}"):
        double(make(torch))


def test_results_are_compared_with_tensors(torch: ModuleType) -> None:
    testing.assert_close(double(torch.ones(4, 3, dtype=torch.bfloat16)), torch.full((4, 3), 2.0))
    with pytest.raises(AssertionError, match="bfloat16"):
        testing.assert_close(torch.ones(3, dtype=torch.bfloat16), torch.zeros(3))


def test_shapes_of_tensors_are_specs(torch: ModuleType) -> None:
    assert nki_lab.spec(torch.ones(4, 3).shape, torch.bfloat16) == nki_lab.spec((4, 3), "bfloat16")
    program = nki_lab.compile(double, torch.ones(4, 3, dtype=torch.bfloat16))
    assert program.inputs[0].dtype.name == "bfloat16"


def test_a_notebook_cell_takes_torch_tensors_and_gives_them_back(torch: ModuleType, notebook_shell: Any) -> None:
    notebook_shell.user_ns.update(x=torch.ones((4, 3), dtype=torch.bfloat16), double=double)
    result = notebook_shell.run_cell("%%nki --no-view\ndouble(x)", store_history=True)
    assert result.error_in_exec is None
    assert isinstance(result.result, torch.Tensor)
    assert result.result.dtype == torch.bfloat16
    assert (result.result == 2).all()
