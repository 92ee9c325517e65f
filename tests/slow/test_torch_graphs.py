"""Kernels in PyTorch's graphs: custom operators under `compile`, `export`, `make_fx` and `vmap`, and training."""

from __future__ import annotations

import importlib
import io
import subprocess
import sys
from collections import namedtuple
from types import ModuleType
from typing import Any

import neuronxcc.nki.language as nl1
import nki
import nki.language as nl
import pytest
from neuronxcc import nki as nki1

# Lambdas around kernels: a kernel is called within the compiled code, and is not itself what is compiled.
# ruff: noqa: PLW0108
# Parts of torch use others that it is about to drop.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
BACKENDS = ("eager", "aot_eager", "inductor")
Pair = namedtuple("Pair", "sum factor")


@pytest.fixture(scope="module")
def torch() -> ModuleType:
    """The library; a test run without it fails rather than passing these tests by."""
    return importlib.import_module("torch")


@nki.jit
def double(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    nl.store(out, nl.add(tile, tile))
    return out


@nki.jit
def triple(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(a), 3.0))
    return out


@nki.jit
def transposed(a):
    out = nl.ndarray((a.shape[1], a.shape[0]), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.transpose(nl.load(a)))
    return out


@nki.jit
def add_scaled(pair, factor, dtype):
    first, second = pair
    out = nl.ndarray(first.shape, dtype=dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.add(nl.load(first), nl.load(second)), factor, dtype=dtype))
    return {"sum": out, "all": (out, [factor])}


@nki.jit
def named(a, factor):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(a), factor))
    return Pair(out, factor)


@nki1.jit
def increase(a, out):
    nl1.store(out, nl1.load(a) + 1)


def compiled(torch: ModuleType, function: Any, backend: str = "aot_eager", **options: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend=backend, **options)


# -- compile ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_plain_call_is_part_of_one_graph(backend: str, torch: ModuleType) -> None:
    model = compiled(torch, lambda x: double(x) + double(a=x + 1), backend)
    x = torch.randn(4, 3)
    torch.testing.assert_close(model(x), 4 * x + 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_shapes_and_dtypes_are_those_of_the_kernel(backend: str, torch: ModuleType) -> None:
    def function(x: Any) -> Any:
        out = transposed(x)
        return out.new_ones(out.shape), out

    x = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    ones, out = compiled(torch, function, backend)(x)
    assert ones.shape == (3, 2)
    assert ones.dtype == torch.float32
    assert torch.equal(out, x.T.float())


@pytest.mark.parametrize("backend", BACKENDS)
def test_containers_and_constants_go_in_and_come_out(backend: str, torch: ModuleType) -> None:
    x = torch.ones(4, 3)
    given = {"nki": nl.bfloat16, "torch": torch.bfloat16, "text": "bfloat16"}
    for dtype in given.values():
        found = compiled(torch, lambda x, dtype=dtype: add_scaled((x, x + 1), 2.0, dtype), backend)(x)
        assert found["sum"].dtype == torch.bfloat16
        assert (found["sum"] == 6).all()
        assert (found["all"][0] == 6).all()
        assert found["all"][1] == [2.0]
    pair = compiled(torch, lambda x: named(x, 2.0), backend)(x)
    assert type(pair) is Pair
    assert (pair.sum == 2).all()


def test_results_are_those_of_the_plain_call(torch: ModuleType) -> None:
    x = torch.randn(64, 96).bfloat16()
    for backend in BACKENDS:
        assert torch.equal(compiled(torch, lambda x: transposed(x), backend)(x), transposed(x))


def test_another_kernel_under_the_same_name_is_compiled_again(torch: ModuleType) -> None:
    names = {"kernel": double}
    model = compiled(torch, lambda x: names["kernel"](x))
    x = torch.ones(4, 3)
    assert (model(x) == 2).all()
    names["kernel"] = triple
    assert (model(x) == 3).all()


def test_kernels_of_one_code_and_other_closures_differ(torch: ModuleType) -> None:
    def made(factor: float) -> Any:
        @nki.jit
        def scale(a):
            out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.multiply(nl.load(a), factor))
            return out

        return scale

    x = torch.ones(4, 3)
    kernels = [made(2.0), made(3.0)]
    found = compiled(torch, lambda x: (kernels[0](x), kernels[1](x)), "inductor")(x)
    assert [item[0, 0].item() for item in found] == [2, 3]


def test_constants_that_python_calls_equal_differ(torch: ModuleType) -> None:
    seen = []

    @nki.jit
    def kernel(a, value):
        seen.append(value)
        return a

    x = torch.ones(4, 3)
    compiled(torch, lambda x: (kernel(x, 1), kernel(x, 1.0), kernel(x, True), kernel(x, 0.0), kernel(x, -0.0)))(x)
    assert {repr(value) for value in seen} == {"1", "1.0", "True", "0.0", "-0.0"}


def test_each_shape_is_compiled_where_sizes_are_dynamic(torch: ModuleType) -> None:
    model = compiled(torch, lambda x: double(x) + x.shape[0], "inductor", dynamic=True)
    for size in (2, 3, 5):
        assert (model(torch.ones(size, 4)) == 2 + size).all()


def test_a_grid_is_part_of_the_graph(torch: ModuleType) -> None:
    @nki.jit
    def cores(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        number = nl.program_id(0)
        nl.store(out[number], nl.multiply(nl.load(a[number]), 2.0))
        return out

    x = torch.ones(2, 4, 3)
    assert (compiled(torch, lambda x: cores[2](x))(x) == 2).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_arguments_that_the_kernel_writes_change(backend: str, torch: ModuleType) -> None:
    def function(x: Any) -> Any:
        out = torch.zeros_like(x)
        increase(x, out)
        return out * 2

    x = torch.ones(4, 3)
    assert (compiled(torch, function, backend)(x) == 4).all()
    kept = torch.zeros(4, 3)
    compiled(torch, lambda x, out: increase(x, out), backend)(x, kept)
    assert (kept == 2).all()


def test_one_tensor_twice_is_one_operand(torch: ModuleType) -> None:
    x = torch.ones(4, 3)
    found = compiled(torch, lambda x: add_scaled((x, x), 1.0, nl.float32)["sum"])(x)
    assert (found == 2).all()
    assert (compiled(torch, lambda x, y: add_scaled((x, y), 1.0, nl.float32)["sum"])(x, x) == 2).all()


def test_operators_of_other_shapes_have_other_names(torch: ModuleType) -> None:
    # Torch keeps compiled graphs on disk, under the names of their operators.
    def name(size: int) -> str:
        graph = torch.export.export(Model(torch, double), (torch.ones(size, 4),)).graph
        (node,) = [node for node in graph.nodes if "nki_lab" in str(node.target)]
        return str(node.target)

    assert name(2) != name(3)
    assert name(2) == name(2)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda torch: torch.ones(300, 4), r"NKI204.*300 partitions"),
        (lambda torch: torch.ones(4, 3, dtype=torch.float64), r"NKI001 argument a is.*a.to\(torch.float32\)"),
        (lambda torch: torch.ones(4, 3, requires_grad=True), r"NKI029 argument a.*autograd.Function"),
        (lambda torch: torch.ones(4, 3, device="meta"), r"NKI001 argument a.*meta"),
    ],
    ids=["too tall", "float64", "gradient", "meta"],
)
def test_a_fault_is_known_when_the_graph_is_made(make: Any, says: str, torch: ModuleType) -> None:
    with pytest.raises(Exception, match=rf"(?s){says}"):
        compiled(torch, lambda x: double(x))(make(torch))
    with pytest.raises(Exception, match=rf"(?s){says}"):
        torch.export.export(Model(torch, double), (make(torch),))


def test_the_graph_of_a_kernel_within_a_kernel_has_one_operator(torch: ModuleType) -> None:
    @nki.jit
    def outer(a):
        return double(double(a))

    graph = torch.export.export(Model(torch, outer), (torch.ones(4, 3),)).graph
    assert len([node for node in graph.nodes if "nki_lab" in str(node.target)]) == 1


# -- export, make_fx, vmap ---------------------------------------------------------------------------------------------


def Model(torch: ModuleType, function: Any) -> Any:  # noqa: N802 - stands for a class
    class Module(torch.nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, x: Any) -> Any:
            return function(x)

    return Module()


@pytest.mark.parametrize("strict", [False, True])
def test_a_model_is_exported_saved_and_loaded(strict: bool, torch: ModuleType) -> None:
    x = torch.randn(4, 3)
    program = torch.export.export(Model(torch, lambda x: double(x) + triple(x)), (x,), strict=strict)
    targets = [str(node.target) for node in program.graph.nodes if "nki_lab" in str(node.target)]
    assert len(targets) == 2
    assert all(torch.allclose(made(x), 5 * x) for made in (program.module(), program.run_decompositions().module()))
    stream = io.BytesIO()
    torch.export.save(program, stream)
    stream.seek(0)
    assert torch.allclose(torch.export.load(stream).module()(x), 5 * x)


def test_make_fx_and_jit_trace_have_the_operator(torch: ModuleType) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    x = torch.ones(4, 3)
    for mode in ("real", "fake"):
        graph = make_fx(lambda x: double(x) + 1, tracing_mode=mode)(x)
        assert "nki_lab.double" in graph.code
        assert (graph(5 * x) == 11).all()
    with pytest.warns(Warning, match="trac"):
        traced = torch.jit.trace(lambda x: double(x), (x,))
    assert (traced(5 * x) == 10).all()


def test_fake_tensors_need_no_values(torch: ModuleType) -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        found = transposed(torch.ones(4, 3, dtype=torch.bfloat16))
    assert found.shape == (3, 4)
    assert found.dtype == torch.float32


def test_vmap_runs_one_element_after_the_other(torch: ModuleType) -> None:
    x, y = torch.randn(5, 4, 3), torch.randn(4, 3)

    def add(x: Any, y: Any) -> Any:
        return add_scaled((x, y), 1.0, nl.float32)["sum"]

    assert torch.equal(torch.func.vmap(add, in_dims=(0, None))(x, y), x + y)
    assert torch.equal(torch.func.vmap(double, in_dims=1, out_dims=1)(x), 2 * x)
    out = torch.zeros(5, 4, 3)

    def change(x: Any, out: Any) -> Any:
        increase(x, out)
        return out

    torch.func.vmap(change)(x, out)
    assert torch.equal(out, x + 1)


@pytest.mark.parametrize("kernel", [double, named])
def test_operators_pass_the_checks_of_torch(kernel: Any, torch: ModuleType) -> None:
    x = torch.ones(4, 3)
    graph = torch.export.export(Model(torch, lambda x: kernel(x) if kernel is double else kernel(x, 2.0)), (x,)).graph
    (operator,) = [node.target for node in graph.nodes if "nki_lab" in str(node.target)]
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    assert set(torch.library.opcheck(operator, (x,), test_utils=tests).values()) == {"SUCCESS"}


# -- training ---------------------------------------------------------------------------------------------------------


def doubled(torch: ModuleType) -> Any:
    class Double(torch.autograd.Function):  # type: ignore[name-defined, misc]
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return double(a)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return double(gradient)

    return Double


@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_a_function_with_a_backward_kernel_has_gradients(backend: str | None, torch: ModuleType) -> None:
    rule = doubled(torch)

    def loss(weight: Any) -> Any:
        return (rule.apply(weight * 2) ** 2).sum()

    weight = torch.nn.Parameter(torch.randn(4, 3))
    (loss if backend is None else compiled(torch, loss, backend))(weight).backward()
    torch.testing.assert_close(weight.grad, 32 * weight.detach())


def test_gradients_pass_gradcheck(torch: ModuleType) -> None:
    a = torch.randn(4, 3, requires_grad=True)
    with pytest.warns(UserWarning, match="double precision"):
        assert torch.autograd.gradcheck(doubled(torch).apply, (a,), eps=1e-2, atol=1e-2, rtol=1e-2)


def test_a_gradient_without_a_rule_is_an_error_within_a_model(torch: ModuleType) -> None:
    linear = torch.nn.Linear(3, 4)
    with pytest.raises(TypeError, match="NKI029"):
        double(linear(torch.ones(2, 3)))
    with torch.inference_mode():
        assert double(linear(torch.ones(2, 3))).shape == (2, 4)


def test_tensors_of_inference_mode_stay_so_in_operators(torch: ModuleType) -> None:
    model = compiled(torch, lambda x: double(x))
    with torch.inference_mode():
        assert (model(torch.ones(4, 3)) == 2).all()


# -- without torch ----------------------------------------------------------------------------------------------------


def test_importing_the_frameworks_imports_no_library() -> None:
    code = "import sys, nki_lab.frameworks.torch_calls; print({'torch', 'jax'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
