"""What production kernels use beyond the published functions: one claim a test."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

import ml_dtypes
import neuronxcc.nki as old_nki
import neuronxcc.nki.compiler as old_compiler
import neuronxcc.nki.language as old
import nki
import nki.isa as nisa
import nki.isa.constants
import nki.language as nl
import numpy as np
import pytest

import nki_lab
from nki_lab import NkiError
from tests.verdicts import agreed

X = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)
COUNTS = np.arange(128 * 64, dtype=np.int32).reshape(128, 64)


def passed_on(function: Any, *args: Any, target: str = "trn2", **kwargs: Any) -> Any:
    """What a kernel makes of a float tile: `function` gets a loaded tile and the arguments, and gives a tile."""

    def kernel(x, *more, **named):
        out_tile = function(nl.load(x), *more, **named)
        out = nl.ndarray(out_tile.shape, out_tile.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=out_tile)
        return out

    return nki_lab.run(kernel, X, *args, target=target, **kwargs)


def tile(shape: tuple[int, ...], dtype: Any = nl.float32, **place: Any) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, **place)


# -- modules and names --------------------------------------------------------------------------------------------------

IMPORTS = """
from nki.isa.constants import dge_mode, oob_mode, matmul_perf_mode
import nki.isa.constants as constants, nki.isa as nisa
assert constants.dge_mode is nisa.dge_mode and oob_mode is nisa.oob_mode and matmul_perf_mode is nisa.matmul_perf_mode
---
import nki.isa as nisa
from nki.isa import vector_engine, scalar_engine, gpsimd_engine, tensor_engine, dma_engine, unknown_engine
assert vector_engine == nisa.engine.vector and scalar_engine == nisa.engine.scalar
---
from nki.isa.constants import vector_engine
---
from nki.collectives import ReplicaGroup
GROUP = ReplicaGroup([[0, 1]])
---
import nki, nki.language as nl
def helper(x: nki.tensor, dtype: nki.dtype = nl.bfloat16, other: nki.dtype | None = None) -> nki.tensor: ...
---
import nki.dtype as nt, nki.language as nl
assert nt.float8_e4m3 is nl.float8_e4m3 and nt.bfloat16 is nl.bfloat16
---
import nki.typing as nt
def helper(x: nt.tensor, y: nt.tensor[128, 512], z: nt.mutable_tensor): ...
---
from nki.typing import tensor
import nki.tensor, neuronxcc.nki.tensor
from neuronxcc.nki.typing import tensor, mutable_tensor
import neuronxcc.nki.typing as nt
---
from nki.language import NKIObject, affine_range, static_range
---
from nki.isa import engine, dma_engine, core_barrier, sendrecv, reduce_cmd
---
from neuronxcc.nki.compiler import skip_middle_end_transformations, enable_stack_allocator, force_auto_alloc
from neuronxcc.nki.compiler import sbuf, psum, no_reorder
assert sbuf.alloc and sbuf.mod_alloc and psum.alloc and psum.mod_alloc
---
import neuronxcc.nki.language as nl
names = "spmd_dim nc par_dim mgrid arange shared_constant shared_identity_matrix loop_reduce gather_flattened static_cast"
assert all(hasattr(nl, name) for name in names.split()) and nl.fp32.min < -3e38
---
from neuronxcc.nki import baremetal, benchmark, profile, trace
for decorator in (baremetal, benchmark, profile, trace):
    decorator(warmup=1, iters=2, save_neff_name="x.neff", additional_compile_opt="-O1")(lambda x: None)
---
import neuronxcc.nki as nki, neuronxcc.nki.language as nl, neuronxcc.nki.isa as nisa, neuronxcc.nki.compiler as ncc
---
import nki, nki.language, nki.isa
assert nki.language.bfloat16 and nki.isa.nc_matmul and nki.__version__
---
from nki import language as nl, isa as nisa, jit, simulate
---
import nki.language as nl
assert nl.range is range and nl.bool == nl.bool_
---
from nki.isa.constants import *
assert dge_mode.swdge and engine.vector
"""


@pytest.mark.parametrize("text", IMPORTS.split("---"), ids=lambda text: text.strip().split("\n")[0])
def test_names_are_importable_as_kernels_import_them(text: str) -> None:
    exec(compile(textwrap.dedent(text), "kernels.py", "exec"), {"__name__": "kernels"})


# -- decorator and kernel object ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keywords",
    [{}, {"mode": "trace"}, {"mode": "auto"}, {"mode": "simulation"}, {"platform_target": "trn2"}, {"debug_kernel": True},
     {"show_compiler_tb": True}, {"experimental_flags": "a=b"}, {"additional_compile_opt": "-O1"}],
)  # fmt: skip
def test_jit_takes_the_keywords_of_all_releases(keywords: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    @nki.jit(**keywords)
    def double(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.load(x), nl.load(x)))
        return out

    np.testing.assert_array_equal(double(X), X + X)


@nki.jit
def shifted(x, by: float = 1.0, *, scale: float = 1.0):
    """Shift, then scale."""
    t = nl.load(x)
    nisa.tensor_scalar(t, t, op0=nl.add, operand0=by, op1=nl.multiply, operand1=scale)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out


def test_a_kernel_is_inspected_like_its_function() -> None:
    assert list(inspect.signature(shifted).parameters) == ["x", "by", "scale"]
    assert (shifted.__name__, shifted.__doc__) == ("shifted", "Shift, then scale.")
    assert "nisa.tensor_scalar" in inspect.getsource(shifted)


def test_a_kernel_is_launched_on_cores_and_scheduled() -> None:
    np.testing.assert_array_equal(shifted[1](X), X + 1)
    np.testing.assert_array_equal(shifted.with_schedule([])(X), X + 1)


def test_a_jitted_function_called_inside_a_kernel_is_inlined() -> None:
    @nki.jit(mode="trace")
    def inner(t):
        nisa.tensor_scalar(t, t, op0=nl.multiply, operand0=2.0)
        return t

    np.testing.assert_array_equal(passed_on(lambda t: inner(inner(t))).outputs[0], X * 4)


class Mode(Enum):
    PLAIN = "plain"
    TWICE = "twice"


@dataclass
class Settings:
    mode: Mode
    dtype: Any = None
    sizes: tuple[int, ...] = ()


def test_simulate_hands_on_what_is_no_array() -> None:
    seen = {}

    def kernel(x, mode, config=None, dtype=nl.float32, sizes=(), number=0, name="", **rest):
        seen.update(mode=mode, config=config, dtype=dtype, sizes=sizes, number=number, name=name, rest=rest)
        out = nl.ndarray(x.shape, dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    config = Settings(Mode.TWICE, nl.bfloat16, (1, 2))
    result = nki.simulate(kernel)(X, Mode.PLAIN, config=config, dtype=nl.float32, sizes=(1, (2, None)), number=np.int64(3),
                                  name="a", extra=None)  # fmt: skip
    np.testing.assert_array_equal(result, X)
    assert seen["mode"] is Mode.PLAIN
    assert (seen["config"], seen["dtype"], seen["sizes"]) == (config, nl.float32, (1, (2, None)))
    assert (seen["number"], seen["name"], seen["rest"]) == (3, "a", {"extra": None})


def test_results_keep_their_nesting_and_their_memory() -> None:
    def kernel(x):
        t = nl.load(x)
        outs = [nl.ndarray(x.shape, x.dtype, buffer=buffer) for buffer in (nl.shared_hbm, nl.hbm, nl.shared_hbm)]
        for out in outs:
            nl.store(out, t)
        return outs[0], [outs[1], (outs[2],)]

    first, (second, (third,)) = nki.simulate(kernel)(X)
    for result in (first, second, third):
        np.testing.assert_array_equal(result, X)


def test_a_kernel_without_results_writes_its_parameter() -> None:
    def kernel(x, into):
        nisa.dma_copy(dst=into, src=x)

    into = np.zeros_like(X)
    assert nki.simulate(kernel)(X, into) is None
    np.testing.assert_array_equal(into, X)


def test_a_template_is_compiled_with_functions_as_hyperparameters() -> None:
    from nki.compiler.kernel_builder import compile_kernel

    def template(source, target, tile_fn):
        t, result = nl.load(source), tile((128, 64))
        tile_fn(dst=result, src=t)
        nl.store(target, result)

    def halved(dst, src):
        nisa.tensor_scalar(dst=dst, data=src, op0=nl.multiply, operand0=0.5)

    into = np.zeros_like(X)
    program = compile_kernel(
        template, inputs={"source": X}, outputs={"target": into}, compile_opts=None, tile_fn=halved
    )
    assert "tensor_scalar" in program.text()
    assert not into.any()


# -- dtypes -------------------------------------------------------------------------------------------------------------

NAMES = ("float32", "bfloat16", "float16", "int32", "uint32", "int8", "uint8", "int16", "uint16", "float8_e4m3",
         "float8_e5m2", "float8_e4m3fn")  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_dtypes_are_numpys_own_with_bare_names(name: str) -> None:
    kind = getattr(nl, name)
    array = np.ones((2, 2), dtype=kind)
    assert str(kind) == str(array.dtype) == name
    assert kind == array.dtype
    assert array.dtype == kind
    assert np.dtype(kind) == kind
    assert X.astype(kind).dtype == kind
    assert kind in (nl.int64 if hasattr(nl, "int64") else None, kind)
    assert {kind: 1}[np.dtype(kind)] == 1
    assert len({kind, np.dtype(kind)}) == 1


def test_the_dtype_of_a_tensor_has_the_bare_name() -> None:
    seen: list[str] = []
    passed_on(lambda t: seen.append(f"{t.dtype} {tile((1, 1), nl.float8_e4m3).dtype!s}") or t)
    assert seen == ["float32 float8_e4m3"]


@pytest.mark.parametrize(("name", "size"), [("float8_e4m3fn_x4", 4), ("float8_e5m2_x4", 4), ("float4_e2m1fn_x4", 2)])
def test_packed_dtypes_have_a_host_dtype(name: str, size: int) -> None:
    host = np.dtype(getattr(nl, name))
    assert host.itemsize == size
    assert name in str(host)


@pytest.mark.parametrize("host", [np.uint32, np.int32, np.float32])
def test_numbers_of_four_bytes_pass_as_packed_fp8(host: Any) -> None:
    packed = np.random.default_rng(0).integers(0, 120, (32, 16, 4)).astype(np.uint8).view(ml_dtypes.float8_e4m3fn)
    bits = packed.view(np.uint32)[..., 0].view(host)

    def kernel(w):
        t = tile((32, 16), nl.float8_e4m3fn_x4)
        nisa.dma_copy(dst=t, src=w.ap([[16, 32], [1, 16]], dtype=nl.float8_e4m3fn_x4))
        out = nl.ndarray((32, 16), nl.uint32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out.ap([[16, 32], [1, 16]], dtype=nl.float8_e4m3fn_x4), src=t)
        return out

    result = nki_lab.run(kernel, bits, target="trn3").outputs[0]
    np.testing.assert_array_equal(result, packed.view(np.uint32)[..., 0])


@pytest.mark.parametrize("host", [np.uint16, np.int16, np.float16])
def test_numbers_of_two_bytes_pass_as_packed_fp4(host: Any) -> None:
    bits = np.random.default_rng(0).integers(0, 20000, (32, 16)).astype(np.uint16)

    def kernel(w):
        t = tile((32, 16), nl.float4_e2m1fn_x4)
        nisa.dma_copy(dst=t, src=w.ap([[16, 32], [1, 16]], dtype=nl.float4_e2m1fn_x4))
        out = nl.ndarray((32, 16), nl.uint16, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out.ap([[16, 32], [1, 16]], dtype=nl.float4_e2m1fn_x4), src=t)
        return out

    np.testing.assert_array_equal(nki_lab.run(kernel, bits.view(host), target="trn3").outputs[0], bits)


# -- NKIObject ------------------------------------------------------------------------------------------------------------


class Bare(nl.NKIObject):
    rows: int
    name: str
    scale: float = 2.0


@dataclass
class Decorated(nl.NKIObject):
    rows: int
    tensor: Any
    kind = "plain"
    scale: float = 2.0


def test_an_object_without_dataclass_is_made_by_keywords_from_its_annotations() -> None:
    made = Bare(rows=3, scale=1.5)
    assert (made.rows, made.name, made.scale) == (3, None, 1.5)


def test_fields_without_a_value_default_to_none_under_dataclass_too() -> None:
    assert (Decorated().rows, Decorated(rows=2).tensor, Decorated(rows=2).scale) == (None, None, 2.0)


def test_attributes_without_annotation_are_keywords_under_dataclass_too() -> None:
    assert (Decorated(rows=1, kind="other").kind, Decorated(rows=1).kind) == ("other", "plain")


@dataclass
class Holding(nl.NKIObject):
    table: dict[str, Any] = field(default_factory=dict)
    rows: list[int] = field(default_factory=lambda: [1])
    width: int = field(default=4)
    LIMIT: ClassVar[int] = 7


class Further(Holding):
    depth: int = 2


def test_fields_that_a_function_makes_are_each_objects_own() -> None:
    first, second = Holding(), Holding({"a": 1}, width=5)
    first.table["b"] = 2
    assert (first.table, first.rows, first.width) == ({"b": 2}, [1], 4)
    assert (second.table, second.width, Holding().table, Holding.LIMIT) == ({"a": 1}, 5, {}, 7)
    assert (Further(depth=3).table, Further().rows, Further(depth=3).depth) == ({}, [1], 3)


OBJECTS = """
@dataclass
class Holding(nl.NKIObject):
    table: dict = field(default_factory=dict)
    rows: list = field(default_factory=lambda: [1])
    width: int = field(default=4)


"""


def test_the_editor_makes_the_same_objects() -> None:
    body = """
held = Holding(width=5)
held.table["t"] = nl.load(x)
held.rows.append(2)
assert Holding().table == {} and Holding().rows == [1] and held.width == 5
nl.store(x, held.table["t"])
"""
    assert not agreed(body, OBJECTS).code


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        Bare(rows=1, colour="red")


# -- tensors ----------------------------------------------------------------------------------------------------------------


def test_tensors_have_the_attributes_that_kernels_read() -> None:
    def look(t):
        a = tile((128, 4, 16), nl.bfloat16, name="mine", address=(0, 256))
        assert (a.shape, a.dtype, a.name, a.address) == ((128, 4, 16), nl.bfloat16, "mine", (0, 256))
        assert (a.buffer, a.strides, a.offset, a.ndim, a.size) == (nl.sbuf, (64, 16, 1), 0, 3, 8192)
        assert (a[:, 1:3, ::2].shape, a[:, 1:3, ::2].strides, a[:, 1:3, ::2].offset) == ((128, 2, 8), (64, 16, 2), 16)
        assert a.buffer == "sbuf" or str(a.buffer) == "sbuf" or a.buffer == nl.sbuf
        return t

    passed_on(look)


def ap_forms(n):
    """Ways to write the rows 0..31 and columns 8..15 of a (128, 64) tensor in HBM."""
    return [
        lambda x, i, r: x.ap([[64, 32], [1, 8]], 8),
        lambda x, i, r: x.ap(pattern=[[64, 32], [1, 8]], offset=8),
        lambda x, i, r: x.ap(((64, 32), (1, 8)), 8, None, None, 0, None),
        lambda x, i, r: x.ap([[64, 32], [1, 1], [1, 8]], offset=8),
        lambda x, i, r: x.ap([[64, 32], [1, 8]], scalar_offset=i, indirect_dim=1),
        lambda x, i, r: x.ap([[64, 32], [1, 8]], 0, r, None, 1),
        lambda x, i, r: x.ap([[64, 32], [1, 8]], 0, scalar_offset=nisa.register_alloc(8), indirect_dim=1),
        lambda x, i, r: x.reshape((2, 64, 64)).ap([[64, 32], [1, 8]], offset=8),
        lambda x, i, r: x[0:32, 8:16],
        lambda x, i, r: x[nl.ds(0, 32), nl.ds(8, 8)],
        lambda x, i, r: x[:, 8:16][0:32],
        lambda x, i, r: x[:32, ..., 8:16],
        lambda x, i, r: x.ap([[64, 32], [1, 8]], offset=8, dtype=nl.float32),
    ][n]


@pytest.mark.parametrize("n", range(13))
def test_every_form_of_a_view_reads_the_same(n: int) -> None:
    def kernel(x, where):
        t, i, r = tile((32, 8)), tile((1, 1), nl.int32), nisa.register_alloc()
        nisa.dma_copy(dst=i, src=where)
        nisa.register_load(r, where)
        view = ap_forms(n)(x, i, r)
        nisa.dma_copy(dst=t.reshape(view.shape) if len(view.shape) == 2 else t.expand_dim(1), src=view)
        out = nl.ndarray((32, 8), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=t)
        return out

    result = nki_lab.run(kernel, X, np.array([[8]], np.int32), target="trn2").outputs[0]
    np.testing.assert_array_equal(result, X[:32, 8:16])


def test_vector_offsets_gather_rows() -> None:
    index = np.random.default_rng(1).integers(0, 128, (64, 1)).astype(np.int32)

    def kernel(x, where):
        t, i = tile((64, 64)), nl.load(where)
        nisa.dma_copy(dst=t, src=x.ap([[64, 64], [1, 64]], 0, None, i, 0))
        out = nl.ndarray((64, 64), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=t)
        return out

    np.testing.assert_array_equal(nki_lab.run(kernel, X, index, target="trn2").outputs[0], X[index[:, 0]])


@pytest.mark.parametrize("name", ["view", "reinterpret_cast"])
def test_a_view_shows_other_bits(name: str) -> None:
    assert np.array_equal(
        passed_on(lambda t: getattr(t, name)(nl.uint32)).outputs[0], X.view(np.uint32)
    )  # fmt: skip


def test_addresses_that_overlap_share_their_bytes() -> None:
    def overlap(t):
        whole, half = tile((128, 64), address=(0, 1024)), tile((128, 32), address=(0, 1024 + 128))
        nisa.tensor_copy(whole, t)
        nisa.memset(half, 7.0)
        result = tile((128, 64))
        nisa.tensor_copy(result, whole)
        return result

    expected = X.copy()
    expected[:, 32:] = 7
    np.testing.assert_array_equal(passed_on(overlap).outputs[0], expected)


def test_addresses_of_other_dtypes_share_their_bytes() -> None:
    def overlap(t):
        words, halves = tile((128, 4), nl.uint32, address=(0, 0)), tile((128, 8), nl.uint16, address=(0, 0))
        nisa.memset(words, 0x00020001)
        result = tile((128, 8), nl.uint16)
        nisa.tensor_copy(result, halves)
        return result

    assert passed_on(overlap).outputs[0][0].tolist() == [1, 2] * 4


def test_tile_sizes_have_the_older_names_too() -> None:
    sizes: list[int] = []

    def read(t):
        s = nl.tile_size
        sizes.extend((s.total_available_sbuf_size, s.sbuf_fmax_bytes, s.psum_fmax, s.gemm_stationary_fmax,
                      s.gemm_moving_fmax, s.pmax, s.psum_num_banks, s.bn_stats_fmax))  # fmt: skip
        return t

    passed_on(read)
    assert sizes[2:6] == [512, 128, 512, 128]
    assert 192 * 1024 <= sizes[0] <= 224 * 1024


@pytest.mark.parametrize("file", [False, True])
def test_a_shared_constant_is_an_array_or_its_file(file: bool, tmp_path: Path) -> None:
    values = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    np.save(tmp_path / "values.npy", values)
    given = str(tmp_path / "values.npy") if file else values

    def kernel(x):
        t, constant = nl.load(x), tile((128, 64))
        nisa.dma_copy(dst=constant, src=nl.shared_constant(given))
        nisa.tensor_tensor(t, t, constant, nl.add)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, t)
        return out

    np.testing.assert_array_equal(nki.simulate(kernel)(X), X + values)


# -- execution --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("grid", "expected"), [(None, (0, 1, 0)), (2, (1, 2, 0))])
def test_programs_know_their_number(grid: int | None, expected: tuple[int, int, int]) -> None:
    seen: list[Any] = []

    @nki.jit
    def kernel(x):
        seen.append(
            (nl.program_ndim(), nl.num_programs(0) if nl.program_ndim() else nl.num_programs(), nl.program_id(0))
        )
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        if nl.program_id(axis=0) == 0:
            nl.store(out, nl.load(x))
        return out

    nki_lab.run(kernel if grid is None else kernel[grid], X, target="trn2")
    assert seen[0] == expected
    assert len(seen) == (grid or 1)


def test_loops_on_the_device_and_the_order_context_run() -> None:
    def kernel(x, count):
        t, trips = nl.load(x), nisa.register_alloc()
        nisa.register_load(trips, count)
        for _ in nl.dynamic_range(trips):
            nisa.tensor_scalar(t, t, op0=nl.add, operand0=1.0)
        with nl.no_reorder():
            nisa.tensor_scalar(t, t, op0=nl.multiply, operand0=2.0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, t)
        return out

    result = nki_lab.run(kernel, X, np.array([[3]], np.int32), target="trn2").outputs[0]
    np.testing.assert_allclose(result, (X + 3) * 2, rtol=1e-6)


def test_generations_are_ordered_and_read_at_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def kernel(x):
        version = nisa.get_nc_version()
        seen.append((version.name, version >= nisa.nc_version.gen3, version >= nisa.nc_version.gen4, version))
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    for target in ("trn1", "trn2", "trn3"):
        monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
        nki.simulate(kernel)(X)
    assert [item[:3] for item in seen] == [("gen2", False, False), ("gen3", True, False), ("gen4", True, True)]
    assert seen[2][3] == nisa.nc_version.gen4


def test_prints_reach_the_standard_output(tmp_path: Path) -> None:
    script = tmp_path / "prints.py"
    script.write_text(
        "import nki_lab; nki_lab.activate()\nimport nki, numpy as np, nki.language as nl\n"
        "@nki.jit\ndef kernel(x):\n    t = nl.load(x)\n    print('shape', t.shape)\n    nl.device_print('tile', t)\n"
        "    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n    nl.store(out, t)\n    return out\n"
        "kernel(np.ones((2, 2), np.float32))\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert "shape (2, 2)" in done.stdout
    assert "tile" in done.stdout.replace("shape", "")


# -- keywords that the stubs lack, values that the documentation forbids ------------------------------------------------------


def tolerated(function: Any, *args: Any, **kwargs: Any) -> Any:
    made = passed_on(function, *args, **kwargs)
    assert not [item for item in made.diagnostics if item.severity == "error"]
    return made.outputs[0]


def test_tensor_copy_takes_a_dtype() -> None:
    def copy(t):
        result = tile((128, 64), nl.bfloat16)
        nisa.tensor_copy(dst=result, src=t, dtype=nl.bfloat16)
        return result

    assert np.array_equal(tolerated(copy), X.astype(ml_dtypes.bfloat16))


def test_scalar_tensor_tensor_takes_a_dtype() -> None:
    def combine(t):
        result = tile((128, 64))
        nisa.scalar_tensor_tensor(dst=result, data=t, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=t,
                                  dtype=nl.float32)  # fmt: skip
        return result

    np.testing.assert_allclose(tolerated(combine), 3 * X, rtol=1e-6)


@pytest.mark.parametrize("mode", [0, 3])
def test_integers_pass_for_descriptor_modes(mode: int) -> None:
    def kernel(x):
        t = tile((128, 64))
        nisa.dma_copy(dst=t, src=x, dge_mode=mode)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, t, dge_mode=mode)
        return out

    made = nki_lab.run(kernel, X, target="trn2")
    np.testing.assert_array_equal(made.outputs[0], X)
    assert "NKI606" in {item.code for item in made.diagnostics}


@pytest.mark.parametrize("mode", ["none", "double_row"])
def test_strings_pass_for_matmul_modes(mode: str) -> None:
    def kernel(w, x):
        acc, result = nl.ndarray((32, 64), nl.float32, buffer=nl.psum), tile((32, 64))
        a, b = tile(shapes[0], nl.float8_e4m3), tile(shapes[1], nl.float8_e4m3)
        nisa.dma_copy(a, w.reshape(shapes[0]))
        nisa.dma_copy(b, x.reshape(shapes[1]))
        if mode == "none":
            for row in range(2):
                nisa.nc_matmul(acc, a[:, row], b[:, row], perf_mode=mode)
        else:
            nisa.nc_matmul(acc, a, b, perf_mode=mode)
        nisa.tensor_copy(result, acc)
        out = nl.ndarray((32, 64), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, result)
        return out

    shapes = ((128, 2, 32), (128, 2, 64))
    w, x = (
        np.random.default_rng(n).integers(-4, 5, (128, 2 * s[2])).astype(nl.float8_e4m3) for n, s in enumerate(shapes)
    )
    made = nki_lab.run(kernel, w, x, target="trn2")
    left, right = (array.astype(np.float32).reshape(256, -1) for array in (w, x))
    np.testing.assert_array_equal(made.outputs[0], left.T @ right)
    assert "NKI606" in {item.code for item in made.diagnostics}


@pytest.mark.parametrize(
    ("stages", "expected"),
    [({"op0": None, "operand0": None, "op1": nl.add, "operand1": 1.0}, X + 1),
     ({"op0": nl.multiply, "operand0": 2.0, "op1": None, "operand1": None}, X * 2),
     ({"op0": None, "operand0": None, "op1": None, "operand1": None}, X)],
)  # fmt: skip
def test_stages_of_tensor_scalar_can_be_left_out(stages: dict[str, Any], expected: Any) -> None:
    def compute(t):
        nisa.tensor_scalar(dst=t, data=t, **stages)
        return t

    np.testing.assert_array_equal(tolerated(compute), expected)


def test_a_float_zero_clears_an_integer_tile() -> None:
    def clear(t):
        scales = tile((128, 16), nl.uint8)
        nisa.memset(dst=scales, value=0.0)
        return scales

    assert not tolerated(clear).any()


@pytest.mark.parametrize("cores", [(0, 1), [0, 1], (0,)])
def test_a_barrier_takes_its_cores_as_kernels_write_them(cores: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        half = nl.ds(64 * nl.program_id(0), 64)
        nl.store(out[half], nl.load(x[half]))
        nisa.core_barrier(out, cores)
        return out

    made = nki_lab.run(kernel[2], X, target="trn2")
    np.testing.assert_array_equal(made.outputs[0], X)


def test_a_register_is_made_from_a_one_element_tensor() -> None:
    def kernel(x, count):
        t, c = nl.load(x), nl.load(count)
        register = nisa.register_alloc(c)
        for _ in nl.dynamic_range(register):
            nisa.tensor_scalar(t, t, op0=nl.multiply, operand0=2.0)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, t)
        return out

    made = nki_lab.run(kernel, X, np.array([[3]], np.int32), target="trn2")
    np.testing.assert_array_equal(made.outputs[0], X * 8)


def test_a_dma_transpose_without_descriptor_generation_runs() -> None:
    def kernel(x):
        t = tile((64, 128), nl.bfloat16)
        nisa.dma_transpose(dst=t, src=x, dge_mode=nisa.dge_mode.none)
        out = nl.ndarray((64, 128), nl.bfloat16, buffer=nl.shared_hbm)
        nisa.dma_copy(out, t)
        return out

    x = X.astype(ml_dtypes.bfloat16)
    assert np.array_equal(nki_lab.run(kernel, x, target="trn2").outputs[0], x.T)


def test_columns_of_the_array_hold_matmuls_of_their_own() -> None:
    def kernel(w, x):
        acc, result = nl.ndarray((128, 64), nl.float32, buffer=nl.psum), tile((128, 64))
        a, b = nl.load(w), nl.load(x)
        for column in range(4):
            place = nl.ds(32 * column, 32)
            nisa.nc_matmul(acc[place], a[:, place], b, tile_position=(0, 32 * column), tile_size=(128, 32))
        nisa.tensor_copy(result, acc)
        out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, result)
        return out

    w = np.random.default_rng(1).standard_normal((128, 128)).astype(ml_dtypes.bfloat16)
    x = X.astype(ml_dtypes.bfloat16)
    expected = w.astype(np.float32).T @ x.astype(np.float32)
    np.testing.assert_allclose(nki_lab.run(kernel, w, x, target="trn2").outputs[0], expected, rtol=1e-4, atol=1e-4)


def test_searched_values_come_from_a_broadcast_view() -> None:
    def search(t):
        best, index = tile((128, 8)), tile((128, 8), nl.uint32)
        nisa.max8(dst=best, src=t)
        nisa.nc_find_index8(dst=index, data=t, vals=best.ap([[8, 128], [0, 8]]))
        return index

    result = passed_on(search).outputs[0]
    np.testing.assert_array_equal(result[:, 0], X.argmax(1))


def test_found_values_are_replaced_in_place() -> None:
    def replace(t):
        best = tile((128, 8))
        nisa.max8(dst=best, src=t)
        nisa.nc_match_replace8(dst=t, data=t, vals=best, imm=0.0)
        return t

    expected = X.copy()
    np.put_along_axis(expected, np.argsort(-X, 1)[:, :8], 0, 1)
    np.testing.assert_array_equal(passed_on(replace).outputs[0], expected)


# -- Beta 1 -------------------------------------------------------------------------------------------------------------------


def test_legacy_allocators_and_hints_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the recording goes there

    @old_compiler.skip_middle_end_transformations
    @old_nki.baremetal(save_neff_name="file.neff")
    def kernel(x):
        out = old.ndarray(x.shape, dtype=x.dtype, buffer=old.shared_hbm)
        t = old.ndarray((old.par_dim(128), 64), dtype=x.dtype, buffer=old_compiler.sbuf.alloc(placed))
        t[...] = old.load(x)
        old.store(out, t + t)
        return out

    def placed(idx, pdim_size, fdim_size):
        return 0, 1024

    np.testing.assert_array_equal(kernel(X), X + X)


@pytest.mark.parametrize(
    ("unrolled", "addresses"), [(False, [0, 256, 0, 256, 0, 256]), (True, [0, 256, 512, 768, 1024, 1280])]
)
def test_a_sum_for_an_address_grows_once_in_a_loop_that_was_traced_once(unrolled: bool, addresses: list[int]) -> None:
    seen: list[int] = []

    @old_nki.baremetal
    def kernel(x):
        out = old.ndarray(x.shape, dtype=x.dtype, buffer=old.shared_hbm)
        free = 0
        if unrolled:
            for _ in old.static_range(3):
                free = body(x, out, free)
        else:
            for _ in old.sequential_range(3):
                free = body(x, out, free)
        return out

    def body(x, out, free):
        for _ in range(2):
            t = old.ndarray((old.par_dim(128), 64), dtype=x.dtype, buffer=old_compiler.sbuf.mod_alloc(base_addr=free))
            seen.append(t.address[1])
            t[...] = old.load(x)
            old.store(out, t)
            free += 256
        return free

    np.testing.assert_array_equal(kernel(X), X)
    assert seen == addresses


def test_a_name_of_beta_1_in_the_current_dialect_says_what_to_write() -> None:
    with pytest.raises(NkiError, match="write slices"):
        nl.arange(4)
