"""The packages that tests of kernel libraries import beside NKI."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import neuron_dtypes
import nki
import nki.language as nl
import nki_cpu_simulator.nki.isa as sim_isa
import nki_cpu_simulator.nki.language as sim_language
import nki_cpu_simulator.nki.language.dtypes as sim_dtypes
import numpy as np
import pytest
from nki_cpu_simulator import nki as sim_nki

from nki_lab.dialects.modules import is_ours
from nki_lab.testing import quantize_mx

X = np.random.default_rng(3).standard_normal((8, 16)).astype(np.float32)


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float8_e4m3", "float8_e5m2", "float32", "int32", "uint8"])
def test_a_cast_is_the_one_of_numpy(name: str) -> None:
    dtype = getattr(neuron_dtypes, name)
    values = np.abs(X) * 10
    np.testing.assert_array_equal(neuron_dtypes.static_cast(values, dtype), values.astype(dtype))
    assert neuron_dtypes.sizeinbytes(dtype) == np.dtype(dtype).itemsize
    assert neuron_dtypes.is_float_type(dtype) == ("float" in name)


def test_dtypes_that_only_numpy_has_are_cast_too() -> None:
    assert neuron_dtypes.static_cast(X, np.float64).dtype == np.float64
    assert neuron_dtypes.sizeinbytes(np.int64) == 8
    assert neuron_dtypes.is_float_type(np.float64)
    assert not neuron_dtypes.is_float_type(np.dtype(np.int64))
    assert neuron_dtypes.finfo(nl.bfloat16).bits == 16


@pytest.mark.parametrize(
    ("packed", "element", "most"),
    [
        (nl.float8_e4m3fn_x4, ml_dtypes.float8_e4m3fn, 448),
        (nl.float8_e5m2_x4, ml_dtypes.float8_e5m2, 57344),
        (nl.float4_e2m1fn_x4, ml_dtypes.float4_e2m1fn, 6),
    ],
)
def test_four_neighbours_are_one_element_of_a_packed_dtype(packed: Any, element: type, most: float) -> None:
    four = neuron_dtypes.static_cast(X, packed)
    assert four.shape == (8, 4)
    np.testing.assert_array_equal(neuron_dtypes.static_cast(four, np.float32), X.astype(element).astype(np.float32))
    bits = four.view(f"u{four.dtype.itemsize}")
    np.testing.assert_array_equal(neuron_dtypes.static_cast(bits, packed).view(bits.dtype), bits)
    assert neuron_dtypes.static_cast(np.full((1, 4), most, np.float32), packed).shape == (1, 1)
    assert neuron_dtypes.sizeinbytes(packed) == four.dtype.itemsize


def test_packed_elements_are_those_that_kernels_take() -> None:
    elements, _ = quantize_mx(np.repeat(X, 16, axis=0), "float8_e5m2")
    four = neuron_dtypes.static_cast(elements.astype(np.float32), nl.float8_e5m2_x4)
    assert four.tobytes() == elements.tobytes()


@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out


def plain(x):
    assert nl.program_ndim() < 2  # the current dialect's, whatever the modules are called
    return double.function(x)


@pytest.mark.parametrize("kernel", [double, plain])
def test_a_kernel_is_simulated_for_the_generation_that_the_environment_names(
    kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.testing.assert_array_equal(sim_nki.cpu_simulate(kernel)(X), X * 2)
    monkeypatch.setenv("NKI_NC_VERSION", "gen2")
    with pytest.raises(ValueError, match="NKI016"):
        sim_nki.cpu_simulate(kernel)[2](X)  # trn1 has one core
    monkeypatch.setenv("NKI_NC_VERSION", "gen3")
    np.testing.assert_array_equal(sim_nki.cpu_simulate(kernel)[2](X), X * 2)


def test_the_modules_stand_in_for_nki(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sim_language.bfloat16 is sim_dtypes.bfloat16 is nl.bfloat16
    assert sim_isa.nc_matmul is nki.isa.nc_matmul
    for name in ("nki", "nki.language", "nki.isa"):
        monkeypatch.setitem(sys.modules, name, sys.modules[f"nki_cpu_simulator.{name}"])
    scope: dict[str, Any] = {}
    exec("import nki, nki.language as nl, nki.isa as nisa\ncast = nki.cpu_simulate", scope)
    assert is_ours(scope["nki"])
    assert scope["nl"].add is nl.add
