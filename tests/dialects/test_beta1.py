"""The Beta 1 doors: modules, decorators, launches, and the getting-started kernels as they are written."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from neuronxcc import nki
from neuronxcc.nki import isa as nisa
from neuronxcc.nki import language as nl
from neuronxcc.nki import typing as nt
from neuronxcc.nki.language import bfloat16, par_dim
from neuronxcc.nki.typing import tensor

import nki_lab
from nki_lab.diagnostic import NkiError
from nki_lab.dialects import kernel as kernels

MODULES = ["neuronxcc", "neuronxcc.nki", *(f"neuronxcc.nki.{name}" for name in (
    "language", "language.iterators", "isa", "isa.constants", "isa.neuron_isa", "typing", "compiler", "tensor", "nccl",
    "kernels", "kernels.attention", "compiler.backends.neuron.indexing"))]  # fmt: skip


@pytest.fixture(autouse=True)
def _unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_announced", set())


@nki.jit
def tensor_add(a_input, b_input):
    """The getting-started kernel of Beta 1."""
    c_output = nl.ndarray(a_input.shape, dtype=a_input.dtype, buffer=nl.shared_hbm)
    a_tile = nl.load(a_input)
    b_tile = nl.load(b_input)
    nl.store(c_output, value=a_tile + b_tile)
    return c_output


def by_reference(a, b, out):
    nl.store(out, value=nl.load(a) + nl.load(b))


@nki.jit
def on_grid(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    i, j = nl.program_id(0), nl.program_id(1)
    nl.store(out[i, j], nl.load(a[i, j]))
    return out


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def test_the_getting_started_kernel_prints_two(capsys: pytest.CaptureFixture[str]) -> None:
    print(tensor_add(ones(4, 3), ones(4, 3)))
    shown = capsys.readouterr()
    assert shown.out == "[[2. 2. 2.]\n [2. 2. 2.]\n [2. 2. 2.]\n [2. 2. 2.]]\n"
    assert shown.err == ""


def test_a_script_prints_two_in_a_process_of_its_own() -> None:
    script = (
        "import nki_lab; nki_lab.activate()\n"
        "import numpy as np\n"
        "import neuronxcc.nki as nki\n"
        "import neuronxcc.nki.language as nl\n"
        "def add(a, b, c):\n"
        "    i_p, i_f = nl.arange(128)[:, None], nl.arange(512)[None, :]\n"
        "    nl.store(c[i_p, i_f], value=nl.load(a[i_p, i_f]) + nl.load(b[i_p, i_f]))\n"
        "a = np.ones((128, 512), np.float32)\n"
        "c = np.zeros_like(a)\n"
        "assert nki.simulate_kernel(add, a, a, c) is None\n"
        "print(c.min(), c.max())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "2.0 2.0\n"
    assert done.stderr == ""


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_importable_and_say_what_they_are(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize(
    "decorate",
    [
        nki.jit,
        nki.jit(mode="simulation"),
        lambda f: nki.jit(f, mode="trace"),
        nki.jit(mode="baremetal", platform_target="trn2", debug_kernel=True),
        lambda f: nki.jit(nki.jit(f), mode="simulation", platform_target="trn2"),
        nki.trace,
        nki.baremetal,
        nki.baremetal(),
        nki.baremetal(additional_compile_opt="--y"),
        lambda f: nki.baremetal(nki.jit(f)),
        nki.benchmark(warmup=1, iters=2),
        nki.jit(mode="benchmark"),
        lambda f: nki.benchmark(nki.jit(f)),
        lambda f: nki.compiler.skip_middle_end_transformations(nki.baremetal(f)),
        lambda f: nki.compiler.enable_stack_allocator(log_level=10)(nki.jit(f)),
        lambda f: nki.compiler.force_auto_alloc(nki.jit(f)),
    ],
)
def test_every_way_to_decorate_runs_the_kernel(decorate: Any) -> None:
    kernel = decorate(tensor_add.function)
    np.testing.assert_array_equal(kernel(ones(4, 3), ones(4, 3)), 2 * ones(4, 3))
    np.testing.assert_array_equal(nki.simulate_kernel(kernel, ones(4, 3), b_input=ones(4, 3)), 2 * ones(4, 3))


@pytest.mark.parametrize("decorate", [lambda f: f, nki.jit, nki.trace, nki.baremetal])
def test_outputs_passed_by_reference_change_in_place(decorate: Any) -> None:
    out = np.zeros((4, 3), np.float32)
    assert nki.simulate_kernel(decorate(by_reference), ones(4, 3), ones(4, 3), out) is None
    np.testing.assert_array_equal(out, 2 * ones(4, 3))


@pytest.mark.parametrize("grid", [(4, 2), (nl.spmd_dim(nl.nc(2), 2), 2), (nl.nc(2) * 2, 2), (2 * nl.nc(2), 2)])
def test_launch_grids_run_every_instance(grid: Any) -> None:
    source = np.random.default_rng(0).normal(size=(4, 2, 1, 1)).astype(np.float32)
    np.testing.assert_array_equal(on_grid[grid](source), source)
    np.testing.assert_array_equal(nki.simulate_kernel(on_grid[grid], source), source)


def test_a_grid_of_zero_is_one_instance() -> None:
    np.testing.assert_array_equal(tensor_add[0](ones(4, 3), ones(4, 3)), 2 * ones(4, 3))


def test_kernels_call_kernels_inline_without_a_grid() -> None:
    @nki.trace
    def helper(tile):
        return nl.exp(tile)

    @nki.jit
    def caller(a, launch):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, (helper[2] if launch else helper)(nl.load(a)))
        return out

    np.testing.assert_allclose(caller(ones(4, 3), False), np.exp(ones(4, 3)), rtol=1e-6)
    with pytest.raises(NkiError, match="NKI016 helper is called inside a kernel"):
        caller(ones(4, 3), True)


def test_kernels_without_arguments_run() -> None:
    @nki.jit(mode="simulation")
    def constant():
        out = nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nisa.memset(shape=(4, 4), value=0.5, dtype=nl.float32))
        return out

    np.testing.assert_array_equal(constant(), np.full((4, 4), 0.5, np.float32))


def test_any_object_is_a_compile_time_argument() -> None:
    class Config:
        scale = 3.0

    @nki.jit
    def kernel(a, config, ops, kind, sizes=[4, 3]):  # noqa: B006 - kernels have such defaults
        assert sizes == list(a.shape)
        out = nl.ndarray(sizes, dtype=kind, buffer=nl.shared_hbm)
        nl.store(out, nisa.tensor_scalar(nl.load(a), ops[0], config.scale))
        return out

    np.testing.assert_array_equal(kernel(ones(4, 3), Config(), (np.multiply,), nl.float32), 3 * ones(4, 3))


def test_low_precision_is_kept_in_float32_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(nl.load(a), dtype=bfloat16))
        return out

    source = np.full((2, 2), 1.001, np.float32)
    np.testing.assert_array_equal(kernel(source), source)
    monkeypatch.setenv("NKI_PRECISE_FP", "1")
    np.testing.assert_array_equal(kernel(source), np.ones((2, 2), np.float32))


def test_parameters_are_held_to_their_annotations() -> None:
    @nki.jit
    def kernel(a: tensor[4, 3], b: nki.tensor, c: nt.mutable_tensor):
        tile: tensor[4, 3] = nl.load(a)
        nl.store(c, tile)

    kernel(ones(4, 3), ones(1, 1), np.zeros((4, 3), np.float32))
    with pytest.raises(NkiError, match="NKI203 argument a is"):
        kernel(ones(3, 3), ones(1, 1), ones(3, 3))


@pytest.mark.parametrize(
    ("module", "name", "code", "exception"),
    [
        ("language", "gemm_grid", "NKI010", NotImplementedError),
        ("nccl", "all_reduce", "NKI010", NotImplementedError),
        ("_private.private_api", "sendrecv", "NKI010", NotImplementedError),
        ("kernels.attention", "flash_fwd", "NKI010", NotImplementedError),
        ("isa", "builtin_custom_op", "NKI010", NotImplementedError),
        ("isa", "tensor_scalr", "NKI006", AttributeError),
        ("language", "aranje", "NKI006", AttributeError),
        ("typing", "scalar", "NKI010", NotImplementedError),
        ("compiler", "allocation_scope", "NKI010", NotImplementedError),
    ],
)
def test_missing_names_say_why(module: str, name: str, code: str, exception: type[Exception]) -> None:
    with pytest.raises(exception, match=f"{code} .*{name}"):
        getattr(importlib.import_module(f"neuronxcc.nki.{module}"), name)


def test_a_missing_name_in_an_import_statement_says_why() -> None:
    with pytest.raises(NkiError, match=r"NKI010 neuronxcc\.nki\.language\.gemm_grid"):
        from neuronxcc.nki.language import gemm_grid  # noqa: F401


def test_an_unmodelled_instruction_in_a_kernel_is_placed_at_its_name() -> None:
    @nki.jit
    def kernel(a):
        return nisa.builtin_custom_op(nl.load(a))

    with pytest.raises(NkiError, match=r"NKI010 neuronxcc\.nki\.isa\.builtin_custom_op") as caught:
        kernel(ones(4, 8))
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert span.line == kernel.function.__code__.co_firstlineno + 2


def test_both_dialects_do_not_mix_in_a_kernel() -> None:
    import nki as current

    @current.jit
    def kernel(a):
        return nl.exp(a)

    with pytest.raises(NkiError, match="NKI605"):
        kernel(ones(4, 3))


def test_runs_have_the_same_api(capsys: pytest.CaptureFixture[str]) -> None:
    run = nki_lab.run(tensor_add, ones(4, 3), ones(4, 3), target="trn2")
    np.testing.assert_array_equal(run.outputs[0], 2 * ones(4, 3))
    assert run.program.dialect == "beta1"
    assert run.ok
    program = nki_lab.compile(tensor_add, nki_lab.spec((4, 3), "float32"), nki_lab.spec((4, 3), "float32"))
    found = [op.variant.instruction.name for op in program.ops()]
    assert found == ["dma_copy", "dma_copy", "tensor_tensor", "dma_copy"]


def test_masked_tiles_are_used_without_a_word_and_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        i_p, i_f = nl.mgrid[0:8, 0:4]
        tile = nl.load(a[i_p, i_f], mask=i_p < 5)
        nl.store(out[i_p, i_f], tile * 2.0, mask=i_p < 5)
        return out

    np.testing.assert_array_equal(kernel(ones(5, 4)), 2 * ones(5, 4))
    assert capsys.readouterr().err == ""
    assert [item.code for item in nki_lab.run(kernel, ones(5, 4)).diagnostics] == ["NKI302"]


def test_repeated_calls_are_the_same_program() -> None:
    first = tensor_add.execute((ones(4, 3), ones(4, 3)), {})
    again = tensor_add.execute((2 * ones(4, 3), ones(4, 3)), {})
    assert again.cached
    assert again.program is first.program
    np.testing.assert_array_equal(again.outputs, 3 * ones(4, 3))


def test_par_dim_is_a_size() -> None:
    assert par_dim(128) == 128
    assert par_dim(128) + 1 == 129


@nki.jit
def gathered_transpose(src, rows):
    """Rows of `src` that `rows` picks, with the first and last dimensions swapped."""
    count, (_, middle, last) = rows.shape[0], src.shape
    index = nl.load(rows)
    out = nl.ndarray((last, middle, count), dtype=src.dtype, buffer=nl.shared_hbm)
    i_p, i_y, i_z = nl.arange(count)[:, None, None], nl.arange(middle)[None, :, None], nl.arange(last)[None, None, :]
    nl.store(out, nisa.dma_transpose(src[index[i_p, 0], i_y, i_z], axes=(2, 1, 0)))
    return out


@pytest.mark.parametrize("middle", [1, 3])
def test_a_transposing_transfer_gathers_the_rows_that_an_index_tile_picks(middle: int) -> None:
    rng = np.random.default_rng(5)
    src = rng.normal(size=(64, middle, 16)).astype(np.float16)
    rows = rng.integers(0, 64, (32, 1)).astype(np.uint32)
    got = nki.simulate_kernel(gathered_transpose, src, rows)
    np.testing.assert_array_equal(got, src[rows[:, 0]].transpose(2, 1, 0))


def test_a_run_time_index_outside_is_an_index_error_itself_as_tests_compare_it() -> None:
    rows = np.full((32, 1), 64, np.uint32)
    with pytest.raises(IndexError) as caught:
        nki.simulate_kernel(gathered_transpose, np.zeros((64, 1, 16), np.float16), rows)
    assert caught.type is IndexError
    assert str(caught.value) == "index 1024 is out of bounds for axis 0 with size 1024"
    assert isinstance(caught.value.__cause__, NkiError)
