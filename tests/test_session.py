"""A call of a kernel: arguments in, results out, and what happens in between."""

from __future__ import annotations

import dataclasses
import gc
import os
import subprocess
import sys
import weakref
from enum import Enum
from pathlib import Path
from typing import Any

import ml_dtypes
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab import session
from nki_lab.diagnostic import NkiError
from nki_lab.kernel_runtime.issue.arguments import spec
from nki_lab.kernel_runtime.issue.context import local
from nki_lab.kernel_runtime.options import Options

ROOT = Path(__file__).parents[1]


def execute(
    function: Any, *args: Any, kwargs: Any = None, on_error: session.OnError = "raise", target: Any = "trn2", **how: Any
) -> session.Execution:
    return session.execute(session.Launch(function, target, **how), args, kwargs or {}, on_error=on_error)


def add(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(b)))
    return out


def double(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    nl.store(out, nl.add(tile, tile))
    return out


def ones(*shape: int, dtype: Any = np.float32) -> Any:
    return np.ones(shape, np.float32).astype(dtype)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    session.forget()


# -- results ----------------------------------------------------------------------------------------------------------


def test_results_come_as_host_arrays_in_the_dtype_of_the_tensor() -> None:
    done = execute(add, ones(4, 3, dtype=ml_dtypes.bfloat16), ones(4, 3, dtype=ml_dtypes.bfloat16))
    assert done.outputs.dtype == ml_dtypes.bfloat16
    assert (done.outputs == 2).all()
    assert done.flat[0] is done.outputs
    assert done.diagnostics == ()
    assert done.error is None


def test_the_structure_of_the_result_is_kept() -> None:
    def kernel(a):
        x, y = double(a), add(a, a)
        return {"x": x, "rest": [y, (x, a)]}

    done = execute(kernel, ones(4, 3))
    assert list(done.outputs) == ["x", "rest"]
    assert isinstance(done.outputs["rest"], list)
    assert isinstance(done.outputs["rest"][1], tuple)
    assert len(done.flat) == 4
    assert (done.outputs["rest"][1][0] == 2).all()
    assert (done.outputs["rest"][1][1] == 1).all()


def test_a_kernel_may_return_nothing() -> None:
    def kernel(a):
        nl.load(a)

    done = execute(kernel, ones(4, 3))
    assert done.outputs is None
    assert done.flat == ()


def test_a_returned_input_is_a_copy() -> None:
    def kernel(a):
        return a

    a = ones(4, 3)
    done = execute(kernel, a)
    done.outputs[0, 0] = 5
    assert a[0, 0] == 1


def test_a_written_argument_changes_in_place() -> None:
    def kernel(a):
        nl.store(a, nl.add(nl.load(a), 1.0))

    a = ones(4, 3)
    execute(kernel, a)
    assert (a == 2).all()


def test_a_written_argument_changes_where_it_is_a_strided_view_in_another_byte_order() -> None:
    def kernel(a):
        nl.store(a, nl.add(nl.load(a), 1.0))

    whole = np.ones((8, 6), ">f4")
    execute(kernel, whole[::2, ::2])
    assert (whole[::2, ::2] == 2).all()
    assert whole.sum() == 8 * 6 + 12


def test_an_argument_that_is_only_read_stays_as_it_is() -> None:
    a = ones(4, 3)
    a.flags.writeable = False
    assert (execute(double, a).outputs == 2).all()


def test_packed_and_rounded_arguments_are_written_in_place_too() -> None:
    def kernel(a, b):
        nisa.dma_copy(dst=b, src=a)

    for name in ("float8_e5m2_x4", "tfloat32"):
        host = np.dtype(getattr(nl, name))
        a = np.arange(12, dtype=np.float32).reshape(4, 3).view(host)
        b = np.zeros((4, 3), np.float32).view(host)
        execute(kernel, a, b, target="trn3")
        assert a.tobytes() == b.tobytes()


def test_a_read_only_argument_cannot_be_written() -> None:
    def kernel(a):
        nl.store(a, nl.load(a))

    a = ones(4, 3)
    a.flags.writeable = False
    with pytest.raises(TypeError, match=r"NKI001.* read-only array, and the kernel writes it"):
        execute(kernel, a)


def test_a_read_only_argument_that_is_written_and_returned_comes_back_new() -> None:
    def kernel(a):
        nl.store(a, nl.add(nl.load(a), 1.0))
        return a

    a = ones(4, 3)
    a.flags.writeable = False
    assert (execute(kernel, a).outputs == 2).all()
    assert (a == 1).all()


def test_one_array_passed_twice_is_one_tensor() -> None:
    def kernel(a, b):
        nl.store(a, nl.add(nl.load(a), 1.0))
        return double(b)

    a = ones(4, 3)
    assert (execute(kernel, a, a).outputs == 4).all()
    b = ones(4, 3)
    assert (execute(kernel, ones(4, 3), b).outputs == 2).all()


# -- arguments --------------------------------------------------------------------------------------------------------


class Mode(Enum):
    A = 1


@dataclasses.dataclass(frozen=True)
class Config:
    weight: Any
    scale: float = 2.0
    nested: tuple[Any, ...] = ()


class Holder(nl.NKIObject):
    weight: Any
    bias = 1.0


def test_arrays_inside_tuples_dataclasses_and_nki_objects_become_tensors() -> None:
    def kernel(pair, config, holder, table):
        total = add(pair[0], pair[1][0])
        total = add(total, config.weight)
        total = add(total, config.nested[0])
        total = add(total, holder.weight)
        return add(total, table["w"])

    one = ones(4, 3)
    holder = Holder(weight=ones(4, 3))
    config = Config(ones(4, 3), nested=(ones(4, 3),))
    done = execute(kernel, (one, [ones(4, 3)]), config, holder, {"w": ones(4, 3)})
    assert (done.outputs == 6).all()
    assert isinstance(holder.weight, np.ndarray)
    assert isinstance(config.weight, np.ndarray)


def test_constants_reach_the_kernel_unchanged() -> None:
    constants = (None, True, 3, 2.5, "text", Mode.A, nl.bfloat16, np.float32, (1, (2, 3)), slice(1, 2), add, nl.sbuf)
    seen = []

    def kernel(a, constants, *more, **named):
        seen.append((constants, more, named))
        return double(a)

    execute(kernel, ones(4, 3), constants, 7, kwargs={"x": Mode.A})
    ((first, more, named),) = seen
    assert first is constants
    assert more == (7,)
    assert named == {"x": Mode.A}


def test_a_zero_dimensional_array_is_a_number() -> None:
    seen = []

    def kernel(a, factor):
        seen.append(factor)
        return double(a)

    execute(kernel, ones(4, 3), np.array(2.5, ml_dtypes.bfloat16))
    assert seen == [2.5]
    assert type(seen[0]) is float


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.ones((4, 3)), "argument b is an array of float64"),
        (np.ones((4, 3), np.int64), r"b.astype\(np.int32\)"),
        (np.ones((4, 3), np.uint64), r"b.astype\(np.uint32\)"),
        (np.ones((4, 3), np.complex64), "an array of complex64"),
        (np.array([["a"]]), "argument b is an array of str"),
        (np.array([[object()]]), "argument b is an array of object"),
        (np.ones((4, 0), np.float32), "without elements"),
        (np.array("2020", "M8[Y]"), "argument b is a date"),
        (np.ma.masked_array(np.ones((4, 3), np.float32)), "a masked array"),
        (np.ones((4, 3), "i4,f4"), "argument b is an array of void64"),
        ({1, 2}, "argument b is a set"),
        ((i for i in range(2)), "argument b is a generator"),
        (object(), "argument b is a object"),
        (1j, "argument b is a complex"),
        (memoryview(b"abc"), "argument b is a memoryview"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_an_argument_that_no_kernel_takes_is_named(value: Any, says: str) -> None:
    def kernel(a, b):
        return double(a)

    with pytest.raises(TypeError, match=f"(?s)NKI001.*{says}"):
        execute(kernel, ones(4, 3), value)


def test_a_nested_argument_is_named_by_its_path() -> None:
    def kernel(a, config):
        return double(a)

    with pytest.raises(TypeError, match=r"argument config.nested\[1\] is an array of float64"):
        execute(kernel, ones(4, 3), Config(ones(4, 3), nested=(1, np.ones(3))))


def test_an_argument_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)

    def kernel(a, b):
        return double(a)

    with pytest.raises(TypeError, match=r"NKI001.*contains itself"):
        execute(kernel, ones(4, 3), (loop,))


def test_a_tensor_of_another_kernel_is_refused() -> None:
    leaked = []

    def leak(a):
        leaked.append(a)
        return a

    execute(leak, ones(4, 3))
    with pytest.raises(TypeError, match=r"NKI001.*a tensor of another kernel"):
        execute(double, leaked[0])


def test_a_list_is_rejected_and_works() -> None:
    def kernel(pair):
        return add(pair[0], pair[1])

    done = execute(kernel, [ones(4, 3), ones(4, 3)])
    assert (done.outputs == 2).all()
    (found,) = done.diagnostics
    assert (found.code, found.outcome, found.severity) == ("NKI114", "reject", "error")
    with pytest.raises(NkiError, match="NKI114"):
        execute(kernel, [ones(4, 3), ones(4, 3)], options=Options(strict=True))


def test_a_list_is_fine_in_the_dialect_of_beta_1() -> None:
    def kernel(pair):
        return add(pair[0], pair[1])

    found = execute(kernel, [ones(4, 3), ones(4, 3)], dialect="beta1").diagnostics
    assert {item.code for item in found} <= {"NKI336"}  # the result is made in a function that the kernel calls


@pytest.mark.parametrize(
    ("args", "kwargs", "code", "says"),
    [
        ((1,), {}, "NKI003", "add is called without its argument b"),
        ((), {"b": 1}, "NKI003", "without its argument a"),
        ((), {}, "NKI003", "without its arguments a, b"),
        ((1, 2, 3), {}, "NKI002", "takes 2 positional arguments, 3 were given"),
        ((1, 2), {"c": 3}, "NKI002", "unexpected keyword argument 'c'"),
        ((1, 2), {"b": 3}, "NKI002", "multiple values for argument 'b'"),
    ],
)
def test_arguments_that_do_not_fit_the_signature_are_said(args: Any, kwargs: Any, code: str, says: str) -> None:
    with pytest.raises(TypeError, match=f"{code}.*{says}"):
        execute(add, *args, kwargs=kwargs)


def test_the_open_8_bit_float_arrives_as_the_chips_own_where_it_lacks_it() -> None:
    seen = []

    def kernel(a):
        seen.append(str(a.dtype))
        nl.store(a, nl.load(a))

    for target in ("trn2", "trn3"):
        a = np.full((4, 3), 3.5, ml_dtypes.float8_e4m3fn)
        execute(kernel, a, target=target)
        assert (a == ml_dtypes.float8_e4m3fn(3.5)).all()
    assert seen == ["float8_e4m3", "float8_e4m3fn"]


@pytest.mark.parametrize("name", ["bool_", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32",
                                  "bfloat16", "float8_e4m3", "float8_e5m2", "float8_e5m2_x4",
                                  "float4_e2m1fn_x4"])  # fmt: skip
def test_every_dtype_goes_through_bit_by_bit(name: str) -> None:
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=a)
        return out

    host = np.dtype(getattr(nl, name))
    raw = np.random.default_rng(1).integers(0, 2 if name == "bool_" else 100, (4, 6 * host.itemsize)).astype(np.uint8)
    done = execute(kernel, raw.view(host), target="trn3")
    assert done.outputs.dtype == host
    assert done.outputs.tobytes() == raw.tobytes()


@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from(["C", "F"]), st.booleans())
def test_the_layout_of_an_array_does_not_matter(rows: int, columns: int, order: Any, reverse: bool) -> None:
    values = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    given_array = np.array(values, order=order)
    if reverse:
        given_array, values = given_array[::-1, ::-1], values[::-1, ::-1]
    assert (execute(double, given_array).outputs == 2 * values).all()


# -- outcomes ---------------------------------------------------------------------------------------------------------


def too_tall(a):
    tile = nl.ndarray((256, 4), dtype=a.dtype, buffer=nl.sbuf)
    nisa.memset(tile, 0.0)


def test_a_fault_is_raised_at_its_line() -> None:
    with pytest.raises(AssertionError) as caught:
        execute(too_tall, ones(4, 3))
    (found,) = caught.value.diagnostics  # type: ignore[attr-defined]
    assert found.file == __file__
    assert found.line == too_tall.__code__.co_firstlineno + 1  # where the tensor is made, with its use beside it
    assert [item.span.line for item in found.related if item.span] == [found.line + 1]


def test_a_fault_is_reported_where_asked_for() -> None:
    done = execute(too_tall, ones(4, 3), on_error="report")
    assert isinstance(done.error, NkiError)
    assert done.diagnostics == done.error.diagnostics
    assert done.flat == ()
    assert done.outputs is None


def test_an_argument_fault_is_reported_where_asked_for() -> None:
    done = execute(double, np.ones(3), on_error="report")
    assert done.diagnostics[0].code == "NKI001"
    assert done.diagnostics[0].file == __file__


def test_findings_before_a_fault_are_reported_with_it() -> None:
    def kernel(pair):
        too_tall(pair[0])

    done = execute(kernel, [ones(4, 3)], on_error="report")
    assert done.diagnostics[0].code == "NKI114"
    assert len(done.diagnostics) == 2


def test_an_uninitialised_read_keeps_its_results_unless_strict() -> None:
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        nl.store(out, tile)
        return out

    done = execute(kernel, ones(4, 3))
    assert [item.code for item in done.diagnostics] == ["NKI301"]
    assert np.isnan(done.outputs).all()
    with pytest.raises(NkiError, match="NKI301"):
        execute(kernel, ones(4, 3), options=Options(strict=True))
    assert execute(kernel, ones(4, 3), options=Options(strict=True), on_error="report").error is not None


def comprehending(a):
    sizes = [size for size in a.shape]  # noqa: C416
    assert sizes == [4, 3]
    return double(a)


def test_syntax_outside_the_language_is_found_in_the_kernels_source() -> None:
    found = execute(comprehending, ones(4, 3)).diagnostics
    assert [item.code for item in found] == ["NKI103"]
    assert found[0].line == comprehending.__code__.co_firstlineno + 1


def test_only_the_kernel_that_runs_is_judged() -> None:
    assert execute(double, ones(4, 3)).diagnostics == ()


def test_a_kernel_without_source_runs() -> None:
    scope: dict[str, Any] = {"nl": nl, "double": double}
    exec("def kernel(a):\n    return double(a)\n", scope)
    done = execute(scope["kernel"], ones(4, 3))
    assert done.diagnostics == ()
    assert (done.outputs == 2).all()


class OddError(ValueError):
    pass


def test_what_the_kernel_raises_is_an_nki_error_of_its_own_kind() -> None:
    def kernel(a):
        raise OddError("odd")

    with pytest.raises(OddError, match=r"NKI007.*OddError: odd") as caught:
        execute(kernel, ones(4, 3))
    assert isinstance(caught.value, NkiError)
    assert isinstance(caught.value.__cause__, OddError)


class PickyError(ValueError):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(one + two)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PickyError(1, 2), ValueError),
        (KeyError("k"), KeyError),
        (FileNotFoundError(2, "gone"), RuntimeError),
        (UnicodeDecodeError("utf-8", b"", 0, 1, "bad"), ValueError),
        (Exception("plain"), RuntimeError),
        (StopIteration(), StopIteration),
        (ExceptionGroup("several", [ValueError()]), RuntimeError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_exception_that_cannot_be_remade_comes_as_the_nearest_kind(error: Exception, kind: type[Exception]) -> None:
    def kernel(a):
        raise error

    with pytest.raises(kind, match="NKI007"):
        execute(kernel, ones(4, 3))


def test_an_interrupt_passes_through_and_leaves_nothing_behind() -> None:
    def kernel(a):
        double(a)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(kernel, ones(4, 3))
    assert local.builder is None
    assert (execute(double, ones(4, 3)).outputs == 2).all()


def test_an_interrupt_is_reported_where_asked_for() -> None:
    def kernel(a):
        double(a)
        raise KeyboardInterrupt

    done = execute(kernel, ones(4, 3), on_error="report")
    assert [item.code for item in done.diagnostics] == ["NKI008"]
    assert len(done.program) == 3


def test_system_exit_passes_through() -> None:
    def kernel(a):
        sys.exit(3)

    with pytest.raises(SystemExit):
        execute(kernel, ones(4, 3), on_error="report")


def test_a_mistake_of_ours_is_said_to_be_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("inside")

    monkeypatch.setattr("nki_lab.session.call.Executor.run", broken)
    with pytest.raises(RuntimeError, match=r"NKI901.*ZeroDivisionError: inside") as caught:
        execute(double, ones(4, 3))
    assert caught.value.diagnostics[0].file == __file__  # type: ignore[attr-defined]


def test_a_mistake_of_ours_inside_an_instruction_is_not_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    scope = {"__name__": "nki_lab.broken"}
    exec("def legalise(*_, **__):\n    raise AttributeError('no such field')\n", scope)
    monkeypatch.setattr("nki_lab.kernel_runtime.issue.builder.legalise", scope["legalise"])
    with pytest.raises(NkiError, match=r"NKI901.*AttributeError: no such field") as caught:
        execute(double, ones(4, 3))
    assert caught.value.diagnostics[0].line == double.__code__.co_firstlineno + 2


# -- looking at values ------------------------------------------------------------------------------------------------


def test_values_can_be_looked_at_while_the_kernel_runs(capsys: pytest.CaptureFixture[str]) -> None:
    def kernel(a):
        tile = nl.load(a)
        print("before", tile)
        twice = nl.add(tile, tile)
        nl.device_print("after", twice)
        assert float(twice.numpy()[0, 0]) == 2.0
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, twice)
        return out

    done = execute(kernel, ones(2, 2))
    said = capsys.readouterr().out
    assert "before [[1. 1.]\n [1. 1.]]" in said
    assert "after [[2. 2.]\n [2. 2.]]" in said
    assert (done.outputs == 2).all()
    assert done.program.observed


def test_observed_and_unobserved_runs_agree() -> None:
    def quiet(a):
        x = nl.load(a)
        return _stored(a, nl.add(nl.exp(x), x))

    def nosy(a):
        x = nl.load(a)
        str(x)
        y = nl.exp(x)
        repr(y)
        return _stored(a, nl.add(y, x))

    a = np.random.default_rng(3).standard_normal((128, 64)).astype(np.float32)
    assert np.array_equal(execute(quiet, a).outputs, execute(nosy, a).outputs)


def _stored(a, tile):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


def test_values_are_let_go_after_the_run() -> None:
    leaked = []

    def kernel(a):
        tile = nl.load(a)
        leaked.append(tile)
        str(tile)
        return a

    a = ones(4, 3)
    gone = weakref.ref(a)
    execute(kernel, a)
    with pytest.raises(TypeError, match="NKI017"):
        leaked[0].numpy()
    del a
    gc.collect()
    assert gone() is None


def test_nothing_has_values_in_a_specialisation() -> None:
    def kernel(a):
        assert "tensor (4, 3) float32" in str(a)
        return double(a)

    program, found = session.specialise(session.Launch(kernel, "trn2"), (spec((4, 3), "float32"),))
    assert program.op(0).variant.instruction.name == "dma_copy"
    assert found == ()

    def nosy(a):
        nl.load(a).numpy()

    with pytest.raises(TypeError, match="NKI017"):
        session.specialise(session.Launch(nosy, "trn2"), (spec((4, 3), "float32"),))


def test_specialising_on_arrays_gives_the_same_program_as_on_specs() -> None:
    on_specs, _ = session.specialise(
        session.Launch(add, "trn2"), (spec((4, 3), "float32"),), {"b": spec([4, 3], nl.float32)}
    )
    on_arrays, _ = session.specialise(session.Launch(add, "trn2"), (ones(4, 3), ones(4, 3)))
    assert on_specs.text() == on_arrays.text()


# -- programs that are kept -------------------------------------------------------------------------------------------

FACTOR = 2.0
TABLE = [2.0]


def scaled(a):
    return _stored(a, nl.multiply(nl.load(a), FACTOR))


def looked_up(a):
    return _stored(a, nl.multiply(nl.load(a), TABLE[0]))


def calls_scaled(a):
    return scaled(a)


def printing(a):
    print("traced")
    return double(a)


def test_a_second_call_takes_the_program_of_the_first() -> None:
    assert not execute(double, ones(4, 3)).cached
    again = execute(double, 3 * ones(4, 3))
    assert again.cached
    assert (again.outputs == 6).all()


@pytest.mark.parametrize(
    "second",
    [
        {"args": (np.ones((4, 4), np.float32),)},
        {"args": (np.ones((4, 3), np.float16),)},
        {"target": "trn3"},
        {"options": Options(matmul_order="tile")},
        {"options": Options(precise=False)},
        {"grid": (2,)},
        {"dialect": "beta1"},
    ],
    ids=str,
)
def test_another_shape_dtype_target_option_or_grid_is_another_program(second: dict[str, Any]) -> None:
    execute(double, ones(4, 3))
    args = second.pop("args", (ones(4, 3),))
    assert not execute(double, *args, **second).cached


@pytest.mark.parametrize(("first", "second"), [(1, 1.0), (1, True), (0.0, -0.0), ("1", 1), (None, 0), ((1,), (1.0,))])
def test_constants_that_only_compare_equal_are_told_apart(first: Any, second: Any) -> None:
    def kernel(a, constant):
        return double(a)

    execute(kernel, ones(4, 3), first)
    assert not execute(kernel, ones(4, 3), second).cached
    assert execute(kernel, ones(4, 3), first).cached


def test_a_changed_global_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    for function in (scaled, calls_scaled, looked_up):
        assert (execute(function, ones(4, 3)).outputs == 2).all()
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 3.0)
    TABLE[0] = 3.0
    try:
        for function in (scaled, calls_scaled, looked_up):
            assert (execute(function, ones(4, 3)).outputs == 3).all()
    finally:
        TABLE[0] = 2.0


def test_a_changed_closure_is_seen() -> None:
    factor = 2.0

    def kernel(a):
        return _stored(a, nl.multiply(nl.load(a), factor))

    assert (execute(kernel, ones(4, 3)).outputs == 2).all()
    assert execute(kernel, ones(4, 3)).cached
    factor = 3.0
    assert (execute(kernel, ones(4, 3)).outputs == 3).all()


def test_a_redefined_function_is_another() -> None:
    def made(factor: str) -> Any:
        scope = {"nl": nl, "_stored": _stored}
        exec(f"def kernel(a):\n    return _stored(a, nl.multiply(nl.load(a), {factor}))\n", scope)
        return scope["kernel"]

    assert (execute(made("2.0"), ones(4, 3)).outputs == 2).all()
    assert (execute(made("3.0"), ones(4, 3)).outputs == 3).all()
    assert (execute(made("-0.0"), ones(4, 3)).outputs == 0).all()


def test_a_kernel_that_prints_prints_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    execute(printing, ones(4, 3))
    execute(printing, ones(4, 3))
    assert capsys.readouterr().out == "traced\ntraced\n"


def test_a_kernel_with_side_effects_has_them_each_time() -> None:
    seen = []

    def kernel(a):
        seen.append(1)
        return double(a)

    execute(kernel, ones(4, 3))
    execute(kernel, ones(4, 3))
    assert seen == [1, 1]


def test_a_kernel_that_draws_random_numbers_draws_each_time() -> None:
    def kernel(a):
        return _stored(a, nl.multiply(nl.load(a), float(np.random.default_rng().random())))

    execute(kernel, ones(4, 3))
    assert not execute(kernel, ones(4, 3)).cached


def test_which_arguments_are_the_same_array_is_part_of_the_key() -> None:
    def kernel(a, b):
        nl.store(a, nl.add(nl.load(a), 1.0))
        return _stored(b, nl.load(b))

    assert (execute(kernel, ones(4, 3), ones(4, 3)).outputs == 1).all()
    a = ones(4, 3)
    assert (execute(kernel, a, a).outputs == 2).all()


def test_findings_of_a_kept_program_are_found_again() -> None:
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.hbm)
        nl.store(out, nl.load(a))
        return out

    first, second = execute(kernel, ones(4, 3)), execute(kernel, ones(4, 3))
    assert second.cached
    assert first.diagnostics == second.diagnostics
    assert [item.code for item in first.diagnostics] == ["NKI607"]


def test_a_debugger_meets_its_breakpoints_again() -> None:
    execute(double, ones(4, 3))
    former = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        assert not execute(double, ones(4, 3)).cached
    finally:
        sys.settrace(former)


def test_no_more_programs_are_kept_than_stated() -> None:
    from nki_lab.session import programs

    def kernel(a, number):
        return double(a)

    for number in range(programs.KEPT + 10):
        execute(kernel, ones(4, 3), number)
    assert len(programs._kept) == programs.KEPT
    assert not execute(kernel, ones(4, 3), 0).cached


# -- several programs -------------------------------------------------------------------------------------------------


def test_each_core_of_a_grid_does_its_part() -> None:
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        half = a.shape[0] // nl.num_programs()
        rows = nl.ds(nl.program_id(0) * half, half)
        assert nl.program_ndim() == 1
        nl.store(out[rows], nl.multiply(nl.load(a[rows]), 1.0 + nl.program_id(0)))
        return out

    done = execute(kernel, ones(8, 3), grid=(2,))
    assert (done.outputs[:4] == 1).all()
    assert (done.outputs[4:] == 2).all()
    assert done.diagnostics == ()


def test_private_memory_is_not_shared_between_programs() -> None:
    def kernel(a):
        mine = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.private_hbm)
        out = nl.ndarray((2, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(mine, nl.multiply(nl.load(a), 1.0 + nl.program_id(0)))
        nl.store(out[nl.program_id(0)], nl.load(mine))
        return out

    done = execute(kernel, ones(4, 3), grid=(2,))
    assert done.outputs[:, 0, 0].tolist() == [1, 2]
    assert sum(buffer.space == nl.private_hbm for buffer in done.program.buffers) == 2


def test_grids_of_several_dimensions_count_row_by_row() -> None:
    seen = []

    def kernel(a):
        seen.append((nl.program_id(0), nl.program_id(1), nl.num_programs((0, 1))))
        return double(a)

    execute(kernel, ones(4, 3), grid=(2, 3), dialect="beta1")
    assert seen == [(i, j, 6) for i in range(2) for j in range(3)]


# -- manners ----------------------------------------------------------------------------------------------------------


def test_times_are_told_by_stage() -> None:
    timings = execute(double, ones(4, 3)).timings
    assert timings.specialize > 0
    assert timings["numeric"] == timings.numeric > 0
    assert timings.timing is None
    assert timings.keys() == ("specialize", "check", "numeric", "timing")
    with pytest.raises(KeyError):
        timings["nonsense"]


def test_a_run_leaves_the_process_as_it_was() -> None:
    state = np.geterr(), dict(os.environ), np.get_printoptions(), sys.gettrace()
    execute(double, np.full((4, 3), np.inf, np.float32))
    assert state == (np.geterr(), dict(os.environ), np.get_printoptions(), sys.gettrace())


def test_torch_and_jax_are_not_imported_by_a_run_on_numpy_arrays() -> None:
    script = (
        "import sys, numpy as np, nki_lab; nki_lab.activate(); import nki.language as nl\n"
        "nki_lab.run(lambda a: a, np.ones((4, 3), np.float32))\n"
        "assert not {'torch', 'jax', 'pandas', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, cwd=ROOT)
