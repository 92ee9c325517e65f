"""The results of a kernel before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import ml_dtypes
import neuronxcc.nki as beta1
import neuronxcc.nki.language as bl
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from nki_lab import session
from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.issue.arguments import TensorSpec, spec
from nki_lab.kernel_runtime.options import Options
from nki_lab.session import Launch, Results, programs


@pytest.fixture(autouse=True)
def _fresh() -> None:
    session.forget()


def results(function: Any, *args: Any, kwargs: Any = None, target: str = "trn2", **how: Any) -> Results:
    return session.results_of(Launch(getattr(function, "function", function), target, **how), args, kwargs or {})


def shaped(*shape: Any, dtype: Any = np.float32) -> Any:
    """What a framework without values hands over, `jax.ShapeDtypeStruct` for example."""
    return SimpleNamespace(shape=shape, dtype=np.dtype(dtype))


class Pair(NamedTuple):
    total: Any
    peak: Any


def double(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(a)))
    return out


def sums(a):
    total = nl.ndarray((a.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(total, nl.sum(nl.load(a), axis=1, keepdims=True))
    return Pair(total, {"out": double(a), "number": 3, "rest": [double(a), (a, None)]})


@beta1.jit
def by_reference(a, out):
    bl.store(out, bl.load(a) * 2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2", "int8", "uint16", "int32", "bool"])
def test_shapes_and_dtypes_are_those_of_a_run(dtype: str) -> None:
    array = np.ones((4, 3)).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
    for argument in (array, spec((4, 3), dtype), shaped(4, 3, dtype=array.dtype)):
        found = results(double, argument)
        assert found.structure == spec((4, 3), dtype)
        assert found.flat == (found.structure,)
        assert found.written == ()
    run = session.execute(Launch(double, "trn2"), (array,), {})
    assert run.outputs.shape == found.structure.shape
    assert run.outputs.dtype == found.structure.dtype.host


def test_the_structure_of_the_result_is_kept() -> None:
    a, total = spec((4, 3), "bfloat16"), spec((4, 1), "float32")
    found = results(sums, a)
    assert type(found.structure) is Pair
    assert found.structure == Pair(total, {"out": a, "number": 3, "rest": [a, (a, None)]})
    assert found.flat == (total, a, a, a)


def test_a_kernel_without_results_has_none() -> None:
    found = results(by_reference, spec((4, 3), "float32"), spec((4, 3), "float32"), dialect="beta1")
    assert found.structure is None
    assert found.flat == ()


def test_changed_arguments_are_told_with_the_callers_object() -> None:
    a, out = np.ones((4, 3), np.float32), np.zeros((4, 3), np.float32)
    found = results(by_reference, a, out, dialect="beta1")
    ((name, argument),) = [(item.name, item.argument) for item in found.written]
    assert name == "out"
    assert argument is out
    assert not out.any()


def test_changed_arguments_within_containers_are_named() -> None:
    @dataclass
    class Buffers:
        first: Any
        second: Any

    def kernel(a, places, more):
        nl.store(places[1], nl.load(a))
        nl.store(more.second, nl.load(a))

    specs = [TensorSpec((4, 3), spec((1,), "float32").dtype) for _ in range(5)]
    found = results(kernel, specs[0], (specs[1], specs[2]), Buffers(specs[3], specs[4]))
    assert [item.name for item in found.written] == ["places[1]", "more.second"]


def test_a_run_uses_the_program_that_was_made_for_its_results() -> None:
    a = np.ones((4, 3), np.float32)
    results(double, shaped(4, 3))
    run = session.execute(Launch(double, "trn2"), (a,), {})
    assert run.cached
    assert (run.outputs == 2).all()
    kept = len(programs._kept)
    results(double, a)
    assert len(programs._kept) == kept == 1


def test_a_run_prints_the_values_that_were_not_there_before(capsys: pytest.CaptureFixture[str]) -> None:
    def kernel(a):
        tile = nl.load(a)
        nl.device_print("tile", tile)
        print(f"tile {tile}")
        return double(a)

    assert results(kernel, shaped(2, 2)).structure == spec((2, 2), "float32")
    capsys.readouterr()
    session.execute(Launch(kernel, "trn2"), (np.full((2, 2), 7, np.float32),), {})
    assert capsys.readouterr().out.count("7.") == 8


def test_a_name_made_of_values_is_made_again_with_values() -> None:
    def kernel(a):
        tile = nl.load(a)
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name=f"o{len(str(tile))}")
        nl.store(out, tile)
        return out

    results(kernel, shaped(2, 2))
    assert not session.execute(Launch(kernel, "trn2"), (np.ones((2, 2), np.float32),), {}).cached


def test_a_shape_that_depends_on_values_is_refused() -> None:
    def kernel(a):
        rows = int(nl.load(a).numpy()[0, 0])
        return nl.ndarray((rows, 4), dtype=a.dtype, buffer=nl.shared_hbm)

    with pytest.raises(TypeError, match="NKI017"):
        results(kernel, np.full((2, 2), 3, np.float32))


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        (shaped(4, 3, dtype=np.float64), "NKI001 argument a is an array of float64"),
        (shaped(4, 3, dtype=np.complex64), "NKI001 argument a is an array of complex64"),
        (shaped(0, 3), "NKI001 argument a is an array of shape \\(0, 3\\), without elements"),
        (shaped("n", 3), "NKI001 argument a is an array of shape \\(n, 3\\), whose sizes are not all numbers"),
        (shaped(), "NKI001 argument a is a scalar without a value"),
        (SimpleNamespace(shape=(4, 3), dtype="key<fry>"), "NKI001 argument a is an array of key<fry>"),
        (np.ones((4, 3)), "NKI001 argument a is an array of float64"),
        (np.ones((4, 3, 2), np.float32), "NKI"),
    ],
)
def test_what_a_run_refuses_is_refused(argument: Any, reason: str) -> None:
    def kernel(a):
        assert len(a.shape) == 2
        return double(a)

    with pytest.raises(NkiError, match=reason):
        results(kernel, argument)


def test_a_fault_has_its_code_and_line() -> None:
    def kernel(a):
        tile = nl.ndarray((256, 4), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a)
        return a

    with pytest.raises(NkiError) as found:
        results(kernel, shaped(256, 4))
    first = found.value.diagnostics[0]
    assert first.file == __file__
    assert "256" in first.message


def test_strict_refuses_what_the_device_compiler_rejects() -> None:
    def kernel(a):
        assert [size + 1 for size in a.shape]
        return double(a)

    assert results(kernel, shaped(4, 3)).structure
    for _ in range(2):
        with pytest.raises(NkiError, match="NKI103"):
            results(kernel, shaped(4, 3), options=Options(strict=True))


def test_a_read_only_argument_that_is_written_is_refused() -> None:
    frozen = np.zeros((4, 3), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(NkiError, match="NKI001 argument out is a read-only array"):
        results(by_reference, np.ones((4, 3), np.float32), frozen, dialect="beta1")


def test_numbers_are_constants_and_an_array_passed_twice_is_one() -> None:
    def kernel(a, b, factor, dtype):
        out = nl.ndarray((a.shape[0], int(factor)), dtype=dtype, buffer=nl.shared_hbm)
        return (out, a is b)

    a = shaped(4, 3)
    number = np.array(5, np.int32)
    assert results(kernel, a, a, number, ml_dtypes.bfloat16).structure == (spec((4, 5), "bfloat16"), True)
    assert results(kernel, a, shaped(4, 3), 6, nl.float16).structure == (spec((4, 6), "float16"), False)


def test_a_kernel_object_checks_its_launch() -> None:
    kernel = nki.jit(double)
    assert kernel.results_of((shaped(4, 3),), {}).structure == spec((4, 3), "float32")
    with pytest.raises(NkiError, match="NKI016"):
        kernel[64].results_of((shaped(4, 3),), {})
    with pytest.raises(NkiError, match="NKI009"):
        kernel.results_of((), {})
    assert kernel[2].results_of((shaped(4, 3),), {}).structure == spec((4, 3), "float32")
