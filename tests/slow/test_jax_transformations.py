"""Kernels in functions that JAX transforms: jit, grad, vmap, loops, several devices. These tests need `nki-lab[jax]`."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import neuronxcc.nki as beta1
import neuronxcc.nki.language as bl
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

from nki_lab import session
from nki_lab.diagnostic import NkiError
from nki_lab.dialects.environment import chosen

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DTYPES = ["float32", "float16", "bfloat16", "float8_e5m2", "float8_e4m3", "float8_e4m3fn", "int8", "uint8", "int16",
          "uint16", "int32", "uint32", "bool_"]  # fmt: skip


@pytest.fixture(scope="module")
def jax() -> Any:
    """The library; a test run without it fails rather than passing these tests by."""
    return importlib.import_module("jax")


@pytest.fixture(scope="module")
def jnp(jax: Any) -> Any:
    return jax.numpy


class Pair(NamedTuple):
    total: Any
    twice: Any


@nki.jit
def add(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(b)))
    return out


@nki.jit
def square(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    nl.store(out, nl.multiply(tile, tile))
    return out


@nki.jit
def square_backward(a, given):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.multiply(nl.load(a), nl.load(given)), 2.0))
    return out


@nki.jit
def copied(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a))
    return out


@nki.jit
def structured(a, pair, scale):
    total = nl.ndarray((a.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(total, nl.sum(nl.load(a), axis=1, keepdims=True))
    twice = nl.ndarray(a.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    nl.store(twice, nl.add(nl.load(pair[0]), nl.multiply(nl.load(pair[1]["b"]), scale)))
    return Pair(total, {"twice": twice, "number": 3, "nothing": None})


@beta1.jit
def doubled_rows(a):
    row = bl.program_id(0)
    out = bl.ndarray(a.shape, dtype=a.dtype, buffer=bl.shared_hbm)
    bl.store(out[row], bl.load(a[row]) * 2)
    return out


@beta1.jit
def stored(a, out):
    bl.store(out, bl.load(a))


@nki.jit
def picked(a, row):
    """Rows of `a` from a number that is in an array: out of bounds only where its value is."""
    out = nl.ndarray((1, a.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
    index = nisa.register_alloc()
    nisa.register_load(dst=index, src=nl.load(row))
    nisa.dma_copy(dst=out, src=a.ap([[a.shape[1], 1], [1, a.shape[1]]], scalar_offset=index, indirect_dim=0))
    return out


@pytest.mark.parametrize("name", DTYPES)
def test_a_compiled_function_computes_as_the_call_does(name: str, jax: Any, jnp: Any) -> None:
    a = jnp.array([[1, 0, 1], [0, 1, 1]]).astype(getattr(jnp, name))
    plain, compiled = copied(a), jax.jit(copied)(a)
    assert type(compiled) is type(plain) is type(a)
    assert compiled.dtype == plain.dtype == a.dtype
    assert (np.asarray(compiled) == np.asarray(a)).all()


def test_the_structure_of_results_and_arguments_is_kept(jax: Any, jnp: Any) -> None:
    a = jnp.ones((4, 3), jnp.float32)
    found = jax.jit(lambda a: structured(a, (a, {"b": a * 2}), 3.0))(a)
    assert type(found) is Pair
    assert (found.total == 3).all()
    assert found.twice["twice"].dtype == jnp.bfloat16
    assert (found.twice["twice"] == 7).all()
    assert found.twice["nothing"] is None


def test_arrays_of_numpy_are_constants_of_the_traced_function(jax: Any, jnp: Any) -> None:
    a, b = jnp.ones((4, 3)), np.full((4, 3), 2, np.float32)
    assert (jax.jit(lambda a: add(a, b))(a) == 3).all()
    assert (jax.jit(lambda a: add(a, jnp.asarray(b)))(a) == 3).all()


def test_an_array_passed_twice_is_one_tensor(jax: Any, jnp: Any) -> None:
    @nki.jit
    def same(a, b):
        assert a is b
        return add(a, b)

    a = jnp.ones((4, 3))
    assert (jax.jit(lambda a: same(a, a))(a) == 2).all()
    with pytest.raises(NkiError, match="NKI007"):
        jax.jit(same)(a, a)


def test_the_shape_is_known_without_a_run(jax: Any) -> None:
    found = jax.eval_shape(lambda a: structured(a, (a, {"b": a}), 1.0), jax.ShapeDtypeStruct((4, 3), "float32"))
    assert found.total.shape == (4, 1)
    assert (found.twice["twice"].shape, found.twice["twice"].dtype) == ((4, 3), "bfloat16")


def test_the_operation_is_named_in_the_program(jax: Any, jnp: Any) -> None:
    text = str(jax.make_jaxpr(lambda a: add(a, a) * a)(jnp.ones((4, 3))))
    assert "nki_call[call=add]" in text


def test_a_launch_grid_holds_in_both_dialects(jax: Any, jnp: Any) -> None:
    a = jnp.ones((2, 4, 3))
    assert (jax.jit(doubled_rows[2])(a) == 2).all()
    with chosen(target="trn2"):
        assert (jax.jit(add[2])(a[0], a[0]) == 2).all()
    with pytest.raises(NkiError, match="NKI016"):
        jax.jit(add[64])(a[0], a[0])


def test_the_target_is_that_of_the_trace(jax: Any, jnp: Any) -> None:
    @nki.jit
    def limits(a):
        out = nl.ndarray((1, nl.tile_size.total_available_sbuf_size // 1024), dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(out.shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=1.0)
        nl.store(out, tile)
        return out

    compiled = jax.jit(limits)
    with chosen(target="trn2"):
        first = compiled(jnp.ones((4, 3))).shape
    with chosen(target="trn3"):
        assert compiled(jnp.ones((4, 3))).shape == first


def test_a_rule_with_a_backward_kernel_gives_gradients(jax: Any, jnp: Any) -> None:
    op = jax.custom_vjp(square)
    op.defvjp(lambda a: (square(a), a), lambda a, given: (square_backward(a, given),))
    a = jnp.arange(12, dtype=jnp.float32).reshape(4, 3)
    for transformed in (jax.grad(lambda a: (op(a) * a).sum()), jax.jit(jax.grad(lambda a: (op(a) * a).sum()))):
        assert np.allclose(transformed(a), 3 * a**2)
    assert np.allclose(jax.vmap(jax.grad(lambda a: op(a).sum()))(a[None]), 2 * a)
    value, gradient = jax.value_and_grad(lambda a: op(op(a)).sum())(a / 10)
    assert np.allclose(value, ((a / 10) ** 4).sum())
    assert np.allclose(gradient, 4 * (a / 10) ** 3)


@pytest.mark.parametrize("how", ["grad", "jit of grad", "jvp", "linearize", "grad of vmap", "grad of scan"])
def test_a_derivative_without_a_rule_is_refused(how: str, jax: Any, jnp: Any) -> None:
    a = jnp.ones((4, 3))

    def loss(a):
        return square(a).sum()  # the place

    calls = {
        "grad": lambda: jax.grad(loss)(a),
        "jit of grad": lambda: jax.jit(jax.grad(loss))(a),
        "jvp": lambda: jax.jvp(loss, (a,), (a,)),
        "linearize": lambda: jax.linearize(loss, a),
        "grad of vmap": lambda: jax.grad(lambda a: jax.vmap(loss)(a[None]).sum())(a),
        "grad of scan": lambda: jax.grad(lambda a: jax.lax.scan(lambda c, _: (square(c), None), a, None, 2)[0].sum())(
            a
        ),
    }
    with pytest.raises(NkiError, match="NKI029 jax differentiates through the kernel square") as found:
        calls[how]()
    first = found.value.diagnostics[0]
    assert first.file == __file__
    assert "custom_vjp" in first.help


def test_a_stopped_gradient_passes(jax: Any, jnp: Any) -> None:
    a = jnp.ones((4, 3))
    assert (jax.grad(lambda a: (square(jax.lax.stop_gradient(a)) * a).sum())(a) == 1).all()


def test_vmap_calls_the_kernel_for_each_element(jax: Any, jnp: Any) -> None:
    a, b = jnp.arange(60.0).reshape(5, 4, 3), jnp.ones((4, 3))
    assert (jax.vmap(add)(a, a) == 2 * a).all()
    assert (jax.vmap(add, in_axes=(0, None))(a, b) == a + 1).all()
    moved = jax.vmap(add, in_axes=(2, 1), out_axes=1)(jnp.ones((4, 3, 5)), jnp.ones((4, 5, 3)))
    assert moved.shape == (4, 5, 3)
    assert (jax.jit(jax.vmap(jax.vmap(copied)))(a[None]) == a).all()


def test_loops_of_jax_call_kernels(jax: Any, jnp: Any) -> None:
    a = jnp.ones((4, 3))
    last, sums = jax.lax.scan(lambda c, _: (add(c, c), c.sum()), a, None, length=5)
    assert (last == 32).all()
    assert sums.tolist() == [12.0, 24.0, 48.0, 96.0, 192.0]
    assert (jax.lax.fori_loop(0, 3, lambda _, c: add(c, c), a) == 8).all()
    assert (jax.lax.while_loop(lambda c: c[0, 0] < 9, lambda c: add(c, c), a) == 16).all()
    assert (jax.lax.cond(True, lambda a: add(a, a), lambda a: a, a) == 2).all()
    assert (jax.checkpoint(square)(a) == 1).all()


def test_large_arrays_pass_without_a_deadlock() -> None:
    code = """
import faulthandler; faulthandler.dump_traceback_later(100, exit=True)
import nki_lab; nki_lab.activate()
import jax, jax.numpy as jnp
from tests.slow.test_jax_transformations import add
x, eye = jnp.ones((128, 4096)), jnp.eye(4096)
step = jax.jit(lambda c: jax.lax.fori_loop(0, 6, lambda i, c: add(c * 0.5, c @ eye * 0.5), c))
print(float(step(x).sum()))
pending = [jax.jit(lambda x, i=i: add(x, x * i) @ eye)(x) for i in range(3)]  # several callbacks at a time
print([float(item[0, 0]) for item in pending])
z = x
for _ in range(8):
    z = jax.jit(lambda z: add(z * 0.5, z * 0.5))(z)
print(float(add(z, z)[0, 0]))  # a call with an array that is still being computed
print(float(jax.vmap(lambda q: add(q, q))(jnp.ones((4, 128, 2048))).sum()))
"""
    assert ran(code).splitlines()[-4:] == ["524288.0", "[1.0, 2.0, 3.0]", "2.0", "2097152.0"]


def ran(code: str, **variables: str) -> str:
    """The output of a script in a fresh interpreter."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_several_devices_call_kernels() -> None:
    code = """
import nki_lab; nki_lab.activate()
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from tests.slow.test_jax_transformations import add
mesh = Mesh(np.array(jax.devices()), ("x",))
x = jax.device_put(jnp.arange(512.0).reshape(64, 8), NamedSharding(mesh, P("x")))
mapped = jax.shard_map(lambda x: add(x, x), mesh=mesh, in_specs=P("x"), out_specs=P("x"))
for found in (add(x, x), jax.jit(lambda x: add(x, x))(x), jax.jit(mapped)(x)):
    print(bool((np.asarray(found) == 2 * np.asarray(x)).all()))
"""
    assert ran(code, XLA_FLAGS="--xla_force_host_platform_device_count=2").split() == ["True"] * 3


def test_threads_call_compiled_functions(jax: Any, jnp: Any) -> None:
    compiled, found = jax.jit(lambda a: add(a, a)), []

    def work(value: int) -> None:
        found.append(bool((compiled(jnp.full((4, 3), float(value))) == 2 * value).all()))

    threads = [threading.Thread(target=work, args=(value,)) for value in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 8


def test_a_compiled_function_uses_the_program_of_its_trace(jax: Any, jnp: Any) -> None:
    session.forget()
    compiled = jax.jit(lambda a: add(a, a))
    a = jnp.ones((4, 3))
    compiled(a)
    (program,) = [item.program for item in session.programs._kept.values()]
    compiled(a + 1)
    assert [item.program for item in session.programs._kept.values()] == [program]


def test_a_notebook_cell_shows_the_runs_of_a_compiled_function(
    jax: Any, jnp: Any, notebook_shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook_shell.user_ns.update(x=jnp.ones((4, 3)), compiled=jax.jit(lambda x: add(x, x) * 2))
    result = notebook_shell.run_cell(
        "%%nki --no-view --target trn2\ncompiled(x).block_until_ready()", store_history=True
    )
    assert result.error_in_exec is None
    assert (result.result == 4).all()
    assert "add  trn2 · 4 instructions" in capsys.readouterr().out


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_a_fault_is_raised_where_jax_traces_the_call(jax: Any, jnp: Any) -> None:
    @nki.jit
    def tall(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a))
        return out

    with pytest.raises(NkiError) as found:
        jax.eval_shape(tall, jax.ShapeDtypeStruct((256, 4), jnp.float32))
    assert found.value.diagnostics[0].file == __file__
    assert "256" in str(found.value)


@pytest.mark.parametrize("how", ["argument", "closure", "key"])
def test_a_traced_scalar_is_no_constant(how: str, jax: Any, jnp: Any) -> None:
    @nki.jit
    def scaled(a, factor):
        return square(a) if factor else a

    a = jnp.ones((4, 3))
    calls = {
        "argument": lambda: jax.jit(scaled)(a, 2.0),
        "closure": lambda: jax.jit(lambda a: scaled(a, a[0, 0]))(a),
        "key": lambda: jax.vmap(scaled, in_axes=(None, 0))(a, jnp.ones(3)),
    }
    with pytest.raises(TypeError, match="NKI001 argument factor is a traced scalar") as found:
        calls[how]()
    assert found.value.diagnostics[0].file == __file__  # type: ignore[attr-defined]
    assert "static_argnames" in str(found.value)
    assert (jax.jit(scaled, static_argnames="factor")(a, factor=2.0) == 1).all()
    assert (scaled(a, jnp.float32(2.0)) == 1).all()


def test_a_symbolic_shape_is_refused(jax: Any) -> None:
    export = importlib.import_module("jax.export")
    symbolic = jax.ShapeDtypeStruct(export.symbolic_shape("n, 3"), "float32")
    with pytest.raises(TypeError, match=r"NKI001 argument a is an array of shape \(n, 3\), whose sizes are not all"):
        export.export(jax.jit(square))(symbolic)


def test_dtypes_without_a_place_on_the_chip_are_refused(jax: Any, jnp: Any) -> None:
    with pytest.raises(TypeError, match="NKI001 argument a is an array of complex64"):
        jax.jit(square)(jnp.ones((4, 3), jnp.complex64))
    with pytest.raises(TypeError, match="NKI001 argument a is an array of key"):
        jax.jit(square)(jax.random.split(jax.random.key(0), 3))


def test_traced_functions_change_no_arrays(jax: Any, jnp: Any) -> None:
    a, out = jnp.ones((4, 3)), np.zeros((4, 3), np.float32)
    with pytest.raises(TypeError, match="NKI001 argument out is a jax array, and the kernel writes it"):
        jax.jit(stored)(a, a * 2)
    with pytest.raises(TypeError, match="NKI001 argument out is an array that the kernel writes, in a function that"):
        jax.jit(lambda a: stored(a, out))(a)
    assert not out.any()


def test_an_argument_that_contains_itself_is_refused(jax: Any, jnp: Any) -> None:
    items: list[Any] = [jnp.ones((4, 3))]
    items.append(items)
    with pytest.raises(TypeError, match=r"NKI001 .* contains itself"):
        jax.jit(lambda a: add(a, tuple(items)))(items[0])


def test_values_at_compile_time_are_refused(jax: Any, jnp: Any) -> None:
    @nki.jit
    def looking(a):
        rows = int(nl.load(a).numpy()[0, 0])
        return nl.ndarray((rows, 4), dtype=a.dtype, buffer=nl.shared_hbm)

    with pytest.raises(TypeError, match="NKI017"):
        jax.jit(looking)(jnp.ones((4, 3)))


def test_a_fault_of_values_keeps_its_diagnostic_without_the_frames_between(jax: Any, jnp: Any) -> None:
    a, compiled = jnp.arange(12, dtype=jnp.int32).reshape(4, 3), jax.jit(picked)
    assert compiled(a[:1], jnp.zeros((1, 1), jnp.int32)).tolist() == [[0, 1, 2]]
    with pytest.raises(Exception, match="NKI310") as found:
        compiled(a[:1], jnp.full((1, 1), 100, jnp.int32)).block_until_ready()
    *frames, last = str(found.value).split('  File "')
    assert "run-time index 100" in last
    assert "^^^" in last
    assert f"{Path(__file__).name}:" in last
    assert len(last.splitlines()) < 12
    assert sum("nki_lab/" in frame for frame in (*frames, last)) == 1


def test_a_printing_kernel_prints_values_at_each_run(jax: Any, jnp: Any, capfd: pytest.CaptureFixture[str]) -> None:
    @nki.jit
    def printing(a):
        tile = nl.load(a)
        nl.device_print("tile", tile)
        return add(a, a)

    compiled = jax.jit(printing)
    for value in (7.0, 8.0):
        compiled(jnp.full((2, 2), value)).block_until_ready()
    assert capfd.readouterr().out.replace("\n", "").count("7.") == 4
