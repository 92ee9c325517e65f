"""JAX arrays as arguments and results. These tests need `nki-lab[jax]`."""

from __future__ import annotations

import importlib
from types import ModuleType

import nki
import nki.language as nl
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import nki_lab
from nki_lab import testing

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def jnp() -> ModuleType:
    """The library; a test run without it fails rather than passing these tests by."""
    return importlib.import_module("jax.numpy")


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


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float8_e5m2", "float8_e4m3", "int8", "uint8",
                                  "int16", "uint16", "int32", "uint32", "bool_"])  # fmt: skip
def test_every_dtype_comes_back_as_it_went_in(name: str, jnp: ModuleType) -> None:
    a = jnp.array([[1, 0, 1], [0, 1, 1]]).astype(getattr(jnp, name))
    (result,) = nki_lab.run(copied, a, target="trn2").outputs
    assert isinstance(result, type(a))
    assert result.dtype == a.dtype
    assert (np.asarray(result) == np.asarray(a)).all()


def test_a_plain_call_and_simulate_take_arrays(jnp: ModuleType) -> None:
    a = jnp.ones((4, 3), jnp.bfloat16)
    for result in (double(a), nki.simulate(double)(a)):
        assert isinstance(result, type(a))
        testing.assert_close(result, jnp.full((4, 3), 2.0))


def test_an_array_cannot_be_written_in_place_but_returned(jnp: ModuleType) -> None:
    @nki.jit
    def silent(a):
        nl.store(a, nl.add(nl.load(a), 1.0))

    @nki.jit
    def returning(a):
        nl.store(a, nl.add(nl.load(a), 1.0))
        return a

    a = jnp.ones((4, 3))
    with pytest.raises(TypeError, match=r"NKI001 argument a is a jax array, and the kernel writes it"):
        silent(a)
    assert (returning(a) == 2).all()
    assert (a == 1).all()


def test_a_scalar_dtype_is_a_constant(jnp: ModuleType) -> None:
    @nki.jit
    def kernel(a, dtype, factor):
        out = nl.ndarray(a.shape, dtype=dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(a), factor, dtype=dtype))
        return out

    result = kernel(jnp.ones((4, 3)), jnp.bfloat16, jnp.float32(2.0))
    assert result.dtype == jnp.bfloat16
    assert (result == 2).all()


def test_arrays_without_values_are_named(jnp: ModuleType) -> None:
    jax = importlib.import_module("jax")
    gone = jnp.ones((4, 3))
    gone.delete()
    for value, says in (
        (gone, "a jax array that was deleted or donated"),
        (jax.random.split(jax.random.key(0), 4), r"a jax array of key<fry>.*pass jax.random.key_data\(a\)"),
        (jax.random.key(0), "a scalar of key<fry>"),
        (jax.ShapeDtypeStruct((4, 3), jnp.float32), "a ShapeDtypeStruct.*nki_lab.profile"),
    ):
        for _ in range(2):
            with pytest.raises(TypeError, match=f"(?s)NKI001 argument a is {says}"):
                double(value)


def test_a_run_of_a_traced_array_is_refused(jnp: ModuleType) -> None:
    jax = importlib.import_module("jax")
    with pytest.raises(TypeError, match=r"NKI001 argument a is a jax tracer"):
        jax.jit(lambda a: nki_lab.run(double, a).outputs)(jnp.ones((4, 3)))


def test_a_notebook_cell_takes_jax_arrays_and_gives_them_back(
    jnp: ModuleType, notebook_shell: InteractiveShell
) -> None:
    notebook_shell.user_ns.update(x=jnp.ones((4, 3), dtype="bfloat16"), double=double)
    result = notebook_shell.run_cell("%%nki --no-view\ndouble(x)", store_history=True)
    assert result.error_in_exec is None
    assert isinstance(result.result, jnp.ndarray)
    assert result.result.dtype == "bfloat16"
    assert (result.result == 2).all()
