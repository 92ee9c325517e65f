"""`jax_neuronx.nki_call`: kernels that write their last parameters. These tests need `nki-lab[jax]`."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import neuronxcc.nki as beta1
import neuronxcc.nki.language as bl
import nki
import nki.language as nl
import numpy as np
import pytest

from nki_lab.diagnostic import NkiError

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def jax() -> Any:
    """The library; a test run without it fails rather than passing these tests by."""
    return importlib.import_module("jax")


@pytest.fixture(scope="module")
def jnp(jax: Any) -> Any:
    return jax.numpy


@pytest.fixture(scope="module")
def nki_call(jax: Any) -> Any:
    return importlib.import_module("jax_neuronx").nki_call


def sums(a, b, total, twice, scale=1.0):
    bl.store(total, bl.add(bl.load(a), bl.multiply(bl.load(b), scale)))
    bl.store(twice, bl.multiply(bl.load(a), 2.0))


def by_rows(a, out):
    row = bl.program_id(0)
    bl.store(out[row], bl.load(a[row]) * 2)


def partly(a, out):
    bl.store(out[0:2], bl.load(a[0:2]))


def halves(a, out, rest):
    bl.store(out, bl.load(a))


def increased(a, out):
    bl.store(a, bl.load(a) + 1.0)
    bl.store(out, bl.load(a))


def returning(a, scale=2.0):
    out = bl.ndarray(a.shape, dtype=a.dtype, buffer=bl.shared_hbm)
    bl.store(out, bl.multiply(bl.load(a), scale))
    return out


def copied_in_the_current_dialect(a, out):
    nl.store(out, nl.load(a))


@pytest.fixture
def a(jnp: Any) -> Any:
    return jnp.arange(12, dtype=jnp.bfloat16).reshape(4, 3)


def test_results_come_in_the_structure_of_out_shape(a: Any, jax: Any, jnp: Any, nki_call: Any) -> None:
    like, wide = jax.ShapeDtypeStruct(a.shape, a.dtype), jax.ShapeDtypeStruct(a.shape, jnp.float32)

    def call(a):
        return nki_call(partial(sums, scale=3.0), a, a, out_shape={"total": like, "twice": [wide]})

    for found in (call(a), jax.jit(call)(a), jax.tree.map(lambda item: item[0], jax.vmap(call)(a[None]))):
        assert found["total"].dtype == a.dtype
        assert (found["total"] == 4 * a).all()
        assert found["twice"][0].dtype == jnp.float32
        assert (found["twice"][0] == 2 * a).all()


@pytest.mark.parametrize("kernel", [sums, beta1.jit(sums), partial(beta1.jit(sums))])
def test_a_kernel_is_a_function_a_kernel_or_a_part_of_one(kernel: Any, a: Any, jax: Any, nki_call: Any) -> None:
    like = jax.ShapeDtypeStruct(a.shape, a.dtype)
    total, _ = nki_call(kernel, a, a, out_shape=(like, like), scale=2.0)
    assert (total == 3 * a).all()


@pytest.mark.parametrize("function", [copied_in_the_current_dialect, nki.jit(copied_in_the_current_dialect)])
def test_the_current_dialect_is_known_by_what_the_function_names(
    function: Any, a: Any, jax: Any, nki_call: Any
) -> None:
    found = jax.jit(lambda a: nki_call(function, a, out_shape=jax.ShapeDtypeStruct(a.shape, a.dtype)))(a)
    assert (found == a).all()


@pytest.mark.parametrize("grid", [2, (2,), (bl.nc(2),)])
def test_the_grid_launches_instances(grid: Any, jax: Any, jnp: Any, nki_call: Any) -> None:
    b = jnp.ones((2, 4, 3))
    assert (nki_call(by_rows, b, grid=grid, out_shape=jax.ShapeDtypeStruct(b.shape, b.dtype)) == 2).all()


def test_a_kernel_may_return_its_results(a: Any, jax: Any, nki_call: Any) -> None:
    like = jax.ShapeDtypeStruct(a.shape, a.dtype)
    assert (nki_call(returning, a) == 2 * a).all()
    assert (nki_call(returning, a, out_shape=like, scale=4.0) == 4 * a).all()
    (found,) = jax.jit(lambda a: nki_call(returning, a, out_shape=[like]))(a)
    assert (found == 2 * a).all()


def test_elements_that_no_instance_writes_are_nan(a: Any, jax: Any, jnp: Any, nki_call: Any) -> None:
    found = nki_call(partly, a, out_shape=jax.ShapeDtypeStruct(a.shape, a.dtype))
    assert (found[:2] == a[:2]).all()
    assert jnp.isnan(found[2:]).all()


def test_gradients_need_a_rule(a: Any, jax: Any, jnp: Any, nki_call: Any) -> None:
    b = a.astype(jnp.float32)

    def call(b):
        return nki_call(sums, b, b, out_shape=(jax.ShapeDtypeStruct(b.shape, b.dtype),) * 2)[0]

    with pytest.raises(NkiError, match="NKI029 jax differentiates through the kernel sums"):
        jax.grad(lambda b: call(b).sum())(b)
    op = jax.custom_vjp(call)
    op.defvjp(lambda b: (call(b), None), lambda _, given: (2 * given,))
    assert (jax.jit(jax.grad(lambda b: op(b).sum()))(b) == 2).all()


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda nki_call, a, like: nki_call(sums, a, a), "NKI012 nki_call of sums says no out_shape"),
        (lambda nki_call, a, like: nki_call(sums, a, out_shape=like), "NKI003 sums is called without"),
        (lambda nki_call, a, like: nki_call(halves, a, out_shape=(like, like)), "that halves does not write"),
        (lambda nki_call, a, like: nki_call(returning, a, out_shape=(like, like)), "NKI012 out_shape says bfloat16"),
        (lambda nki_call, a, like: nki_call(returning, a, out_shape=(4, 3)), r"NKI012 out_shape is \(4, 3\)"),
        (lambda nki_call, a, like: nki_call(3, a, out_shape=like), "NKI001 the kernel is a int"),
        (lambda nki_call, a, like: nki_call(increased, a, out_shape=like), "NKI001 argument a is a jax array, and the"),
        (lambda nki_call, a, like: nki_call(returning, a, grid=-1), "NKI016"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(call: Any, reason: str, a: Any, jax: Any, nki_call: Any) -> None:
    like = jax.ShapeDtypeStruct(a.shape, a.dtype)
    for transformed in (lambda a: call(nki_call, a, like), jax.jit(lambda a: call(nki_call, a, like))):
        with pytest.raises(NkiError, match=reason):
            transformed(a)


def test_the_place_of_a_refusal_is_the_call(a: Any, jax: Any, nki_call: Any) -> None:
    with pytest.raises(NkiError) as found:
        jax.jit(lambda a: nki_call(sums, a, a))(a)
    assert found.value.diagnostics[0].file == __file__


def test_other_names_of_the_package_are_there(a: Any, jax: Any, nki_call: Any) -> None:
    for name in ("jax_neuronx.core", "neuron_jax"):
        assert callable(importlib.import_module(name).nki_call)
    seen: list[Any] = []
    debug_callback = importlib.import_module("jax_neuronx.experimental").debug_callback
    jax.jit(lambda a: debug_callback(seen.append, a))(a)
    jax.effects_barrier()
    assert (np.asarray(seen[0]) == np.asarray(a)).all()


def test_a_script_runs_unmodified(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(
        "import neuronxcc.nki.language as nl\ndef scaled(a, out, factor):\n    nl.store(out, nl.load(a) * factor)\n"
    )
    script = tmp_path / "scaled_jax.py"
    script.write_text(
        "from functools import partial\nimport jax\nimport jax.numpy as jnp\nfrom jax_neuronx import nki_call\n"
        "from kernels import scaled\n"
        "a = jnp.ones((4, 3), dtype=jnp.float16)\n"
        "print(nki_call(partial(scaled, factor=3), a, out_shape=jax.ShapeDtypeStruct(a.shape, a.dtype)).sum())\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "nki_lab", "run", str(script)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[0] == "36.0"
