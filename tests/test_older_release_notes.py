"""What the release notes of NKI 0.2 to 0.4 say is so, and still is: a test for each statement.

The number in a test's name is the statement's: R4xx of release 0.4, R3xx of 0.3, R2xx of 0.2.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki.language import NKIObject

import nki_lab
from nki_lab.diagnostic import NkiError
from tests.test_release_notes import ONE, filled, findings, normal, psum, rows, run, sbuf


def refusal(kernel: Any, *arrays: Any, **more: Any) -> NkiError:
    """The error that ends a run."""
    with pytest.raises(NkiError) as caught:
        nki_lab.run(kernel, *arrays, **({"target": "trn3"} | more))
    return caught.value


# -- 0.4 ---------------------------------------------------------------------------------------------------------------


def test_r401_skipping_copies_keep_the_bits_of_integers() -> None:
    def kernel(x, at):
        tile, index = filled((4, 2), 0, nl.int32), nl.load(at)
        nisa.dma_copy(tile, x.vector_select(0, index), oob_mode=nisa.oob_mode.skip)
        return tile

    x = np.array([[2**24 + 1, -(2**31)], [2**31 - 1, 2**24 + 3]], np.int32)
    at = np.array([[1], [0], [9], [1]], np.int32)
    np.testing.assert_array_equal(run(kernel, x, at), [x[1], x[0], [0, 0], x[1]])


def test_r402_a_shuffle_of_255_leaves_the_partition() -> None:
    def kernel(x):
        tile = filled((32, 4), 7.0)
        nisa.nc_stream_shuffle(tile, nl.load(x), [255, 0] + [1] * 30)
        return tile

    x = normal(32, 4)
    found = run(kernel, x)
    assert (found[0] == 7).all()
    np.testing.assert_array_equal(found[1:3], x[:2])


@pytest.mark.parametrize("form", ["slice", "ap"])
def test_r403_a_local_gather_writes_slices_and_patterns(form: str) -> None:
    def kernel(x):
        whole, index = filled((16, 64), -1.0), filled((16, 1), 2, nl.uint16)
        target = whole[:, 8:24] if form == "slice" else whole.ap([[64, 16], [2, 16]], 8)
        nisa.local_gather(target, nl.load(x), index)
        return whole

    x = normal(16, 8)
    wanted = np.full((16, 64), -1, np.float32)
    wanted[:, slice(8, 24) if form == "slice" else slice(8, 40, 2)] = x[:, 2:3]
    np.testing.assert_array_equal(run(kernel, x), wanted)


@pytest.mark.parametrize("start", [0, 5, -3])
def test_r406_patterns_start_at_the_value_of_a_register(start: int) -> None:
    def kernel(x, first):
        register, counted, chosen = nisa.register_alloc(), sbuf((2, 4), nl.int32), sbuf((2, 4))
        nisa.register_load(register, nl.load(first))
        nisa.iota(counted, [[1, 4]], register, 10)
        nisa.affine_select(chosen, [[1, 4]], 0, nl.load(x), -9.0, nl.greater_equal, register)
        return counted, chosen

    x = normal(2, 4)
    counted, chosen = run(kernel, x, np.array([[start]], np.int32))
    place = start + np.arange(4)
    np.testing.assert_array_equal(counted, place + 10 * np.arange(2)[:, None])
    np.testing.assert_array_equal(chosen, np.where(place >= 0, x, np.float32(-9)))


def test_r408_a_scale_other_than_one_is_refused() -> None:
    def kernel(x, scale):
        tile = sbuf((4, 4))
        nisa.dma_compute(tile, [x, x], nl.add, scales=[1.0, scale])
        return tile

    x = normal(4, 4)
    np.testing.assert_array_equal(run(kernel, x, 1.0), x + x)
    assert "NKI012" in findings(kernel, x, 0.5)


def test_r409_logical_and_asks_both_inputs() -> None:
    x, y = rows(0, 0, 2, 3), rows(0, 1, 0, -1)
    assert run(lambda a, b: nl.logical_and(nl.load(a), nl.load(b)), x, y).tolist() == [[0, 0, 0, 1]]


def test_r410_low_precision_is_rounded_unless_the_environment_says_no(monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(x):
        return nl.copy(nl.copy(nl.load(x), nl.bfloat16), nl.float32)

    third = rows(1 / 3)
    for value, wanted in ((None, ml_dtypes.bfloat16(1 / 3)), ("1", ml_dtypes.bfloat16(1 / 3)), ("0", third[0, 0])):
        monkeypatch.delenv("NKI_PRECISE_FP", raising=False)
        if value is not None:
            monkeypatch.setenv("NKI_PRECISE_FP", value)
        assert run(kernel, third)[0, 0] == np.float32(wanted)


@dataclasses.dataclass(frozen=True)
class Frozen(NKIObject):
    scale: float
    shift: float = 0.0


def test_r413_frozen_data_classes_and_none_are_arguments_and_programs_are_kept() -> None:
    def kernel(x, settings, nothing):
        assert nothing is None
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.multiply, settings.scale, False, nl.add, settings.shift)
        return tile

    assert run(kernel, rows(2), Frozen(scale=3.0, shift=1.0), None).tolist() == [[7]]
    assert run(kernel, rows(2), Frozen(scale=5.0), None).tolist() == [[10]]


def test_r414_the_variable_of_a_loop_is_read_and_not_written() -> None:
    def writing(x):
        for i in nl.dynamic_range(2):
            nisa.register_move(i, 0)

    def reading(x):
        tile = filled((1, 4), 0.0)
        for i in nl.dynamic_range(4):
            nisa.dma_copy(tile.ap([[4, 1], [1, 1]], scalar_offset=i, indirect_dim=1),
                          x.ap([[4, 1], [1, 1]], scalar_offset=i, indirect_dim=1))  # fmt: skip
        return tile

    assert isinstance(refusal(writing, rows(1)), AssertionError)
    assert run(reading, rows(1, 2, 3, 4)).tolist() == [[1, 2, 3, 4]]


def test_r415_a_transpose_runs_where_it_is_told_to() -> None:
    def kernel(x):
        tile = nl.load(x)
        nisa.nc_transpose(psum((8, 16)), tile)
        nisa.nc_transpose(sbuf((8, 16)), tile)
        nisa.nc_transpose(psum((8, 16)), tile, engine=nisa.engine.vector)

    program = nki_lab.compile(kernel, nki_lab.spec((16, 8), "float32"), target="trn2")
    used = [program.op(number).variant.use for number in range(len(program))]
    assert [use.engine for use in used if use.instruction.name == "nc_transpose"] == ["tensor", "vector", "vector"]


def test_r416_tensors_of_one_dimension_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def kernel(x):
        nl.device_print("here", x)
        return nl.load(x)

    run(kernel, np.arange(3, dtype=np.float32))
    assert "here [0. 1. 2.]" in capsys.readouterr().out


def test_r417_a_transpose_keeps_the_rank() -> None:
    assert "NKI225" in findings(lambda x: nisa.dma_transpose(sbuf((4, 24)), x), normal(8, 3, 4))


@pytest.mark.parametrize("name", ["tensor_copy_dynamic_src", "tensor_copy_dynamic_dst"])
def test_r418_dynamic_copies_are_gone(name: str) -> None:
    assert "NKI603" in findings(lambda x: getattr(nisa, name)(x, x), ONE)


def test_r419_a_loop_sees_what_was_written_before_it() -> None:
    def kernel(x):
        tile, total = nl.load(x), filled((1, 4), 1.0)
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)

        def body(i):
            nisa.tensor_tensor(total, total, tile, nl.add)
            nisa.tensor_scalar(tile[:, 1:3], tile[:, 0:2], nl.multiply, 2.0)

        nl.fori_loop(0, 2, body)
        return total

    tile, total = np.array([2.0, 3.0, 4.0, 5.0]), np.ones(4)
    for _ in range(2):
        total = total + tile
        tile[1:3] = tile[0:2] * 2
    assert run(kernel, rows(1, 2, 3, 4)).tolist() == [total.tolist()]


def test_r420_cores_exchange_any_number_of_partitions() -> None:
    def kernel(x):
        mine, theirs, other = filled((5, 4), 0.0), sbuf((5, 4)), 1 - nl.program_id(0)
        nisa.memset(mine, 1.0 + nl.program_id(0))
        nisa.sendrecv(mine, theirs, other, other, 0)
        result = nl.ndarray((2, 5, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(result[nl.program_id(0)], theirs)
        return result

    found = run(nki.jit(kernel)[2], ONE, target="trn2")
    assert (found[0] == 2).all()
    assert (found[1] == 1).all()


def test_r421_two_kinds_of_float8_do_not_meet() -> None:
    def kernel(x):
        nisa.nc_matmul(psum((8, 8)), sbuf((16, 8), nl.float8_e4m3), sbuf((16, 8), nl.float8_e4m3fn))

    assert "NKI207" in findings(kernel, ONE)


def test_r422_only_rows_picked_at_run_time_are_skipped() -> None:
    def kernel(x):
        nisa.dma_compute(sbuf((128, 64)), [x, x], nl.add, oob_mode=nisa.oob_mode.skip)

    assert "NKI222" in findings(kernel, ONE)


def test_r425_functions_that_the_official_compiler_fails_on_compute_here() -> None:
    x, y = rows(7, -7, 5.5), rows(2, 2, 2)
    assert run(lambda a, b: nl.fmod(nl.load(a), nl.load(b)), x, y).tolist() == [[1, -1, 1.5]]
    assert run(lambda a, b: nl.mod(nl.load(a), nl.load(b)), x, y).tolist() == [[1, 1, 1.5]]
    assert run(lambda a: nl.power(nl.load(a), 2.0), y).tolist() == [[4, 4, 4]]
    square = np.eye(4, dtype=np.float32)
    assert "NKI606" in findings(lambda a: nl.copy(nl.matmul(nl.load(a), nl.load(a))), square)


def test_r426_a_seed_is_a_tile() -> None:
    assert "NKI013" in findings(lambda x: nl.random_seed(7), ONE)


# -- 0.3 ---------------------------------------------------------------------------------------------------------------


def test_r301_a_reduction_ends_at_the_last_axis() -> None:
    def kernel(x, axis, shape):
        made = sbuf(shape)
        nisa.tensor_reduce(made, nl.add, nl.load(x), axis)
        return made

    x = np.round(normal(4, 3, 5) * 9)
    assert "NKI217" in findings(kernel, x, 1, (4, 5))
    np.testing.assert_array_equal(run(kernel, x, 2, (4, 3)), x.sum(2))
    np.testing.assert_array_equal(run(kernel, x, (1, 2), (4, 1)), x.sum((1, 2))[:, None])


def test_r302_a_range_selection_keeps_the_maximum_it_had() -> None:
    def kernel(x):
        tile, bound, most = nl.load(x), filled((1, 1), 3.0), sbuf((1, 1))
        for part, command in ((tile[:, 0:4], nisa.reduce_cmd.reset_reduce), (tile[:, 4:8], nisa.reduce_cmd.reduce)):
            nisa.range_select(sbuf((1, 4)), part, nl.less, nl.less, bound, bound, command, most)
        return most

    assert run(kernel, rows(5, 1, 2, 90, 3, 4, 1, 91)).tolist() == [[5]]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda x: nisa.dma_copy(x, psum((128, 64))), "NKI201"),
        (lambda x: nisa.dma_copy(sbuf((128, 64), nl.bfloat16), x, dge_mode=nisa.dge_mode.hwdge), "NKI222"),
        (lambda x: nisa.dma_copy(sbuf((128, 64)), x, dst_rmw_op=nl.add), "NKI602"),
        (lambda x: nisa.memset(sbuf((128, 64), nl.int32), 2.5), "NKI224"),
        (lambda x: nisa.sendrecv(x, x, 0, 1, 0, use_gpsimd_dma=True), "NKI602"),
        (lambda x: nisa.register_move(nisa.register_alloc(), imm=1), "NKI602"),
    ],
)
def test_r303_what_release_three_dropped_is_refused(call: Any, code: str) -> None:
    assert code in findings(call, ONE, target="trn2")


@pytest.mark.parametrize("keyword", [{"platform_target": "trn2"}, {"mode": "torchxla"}])
def test_r304_arguments_of_the_decorator_that_no_longer_count_are_reported(keyword: dict[str, str]) -> None:
    kernel = nki.jit(lambda x: nl.copy(nl.load(x)), **keyword)
    assert "NKI604" in [item.code for item in nki_lab.run(kernel, rows(1)).diagnostics]


def test_r305_psum_is_not_stored() -> None:
    assert "NKI201" in findings(lambda x: nl.store(x, psum((128, 64))), ONE)


# -- 0.2 ---------------------------------------------------------------------------------------------------------------


def test_r201_an_activation_leaves_the_registers_alone() -> None:
    def kernel(x):
        tile, total = nl.load(x), sbuf((1, 1))
        first, more = nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.reduce
        nisa.activation(sbuf((1, 2)), nl.copy, tile[:, 0:2], reduce_op=nl.add, reduce_cmd=first)
        nisa.activation(sbuf((1, 2)), nl.copy, tile[:, 2:4])
        nisa.activation(sbuf((1, 2)), nl.copy, tile[:, 4:6], reduce_op=nl.add, reduce_res=total, reduce_cmd=more)
        return total

    assert run(kernel, rows(1, 2, 30, 40, 500, 600)).tolist() == [[1103]]


def test_r202_rsqrt_abs_and_power_are_operators() -> None:
    def kernel(x):
        tile, found = nl.load(x), [sbuf((1, 2)) for _ in range(3)]
        nisa.tensor_scalar(found[0], tile, nl.rsqrt, None)
        nisa.tensor_scalar(found[1], tile, nl.multiply, -1.0, False, nl.abs, None)
        nisa.tensor_tensor(found[2], tile, tile, nl.power)
        return found

    assert [item.tolist() for item in run(kernel, rows(1, 4))] == [[[1, 0.5]], [[1, 4]], [[1, 256]]]


@pytest.mark.parametrize("region", [nl.shared_hbm, nl.private_hbm])
def test_r203_tensors_in_hbm_are_reshaped_in_every_dimension(region: Any) -> None:
    def kernel(x):
        made = nl.ndarray((128, 64), dtype=nl.float32, buffer=region)
        nisa.dma_copy(made, x)
        return nl.load(made.reshape((1024, 8))[512:640])

    x = normal(128, 64)
    np.testing.assert_array_equal(run(kernel, x), x.reshape(1024, 8)[512:640])


def test_r204_a_bias_has_one_column() -> None:
    def kernel(x):
        nisa.activation(sbuf((128, 64)), nl.exp, nl.load(x), bias=filled((128, 2), 0.0))

    assert "NKI203" in findings(kernel, ONE)


def test_r205_a_misspelled_keyword_is_unexpected() -> None:
    error = refusal(lambda x: nisa.tensor_copy(dst=x, source=x), ONE)
    assert isinstance(error, TypeError)
    assert "unexpected keyword argument" in str(error)


def test_r206_calling_a_kernel_runs_it() -> None:
    doubled = nki.jit(lambda x: nl.multiply(nl.load(x), 2.0))
    assert doubled(rows(1, 2)).tolist() == [[2, 4]]
    with pytest.raises(NkiError, match="without arguments"):
        doubled()


def test_r207_a_kernel_of_other_shapes_is_another_program() -> None:
    @nki.jit
    def kernel(x):
        return nl.multiply(nl.load(x), float(x.shape[1]))

    assert kernel(rows(1, 2)).tolist() == [[2, 4]]
    assert kernel(rows(1, 2, 3)).tolist() == [[3, 6, 9]]
    assert kernel(rows(1, 2)).tolist() == [[2, 4]]


@pytest.mark.parametrize("name", ["baremetal", "benchmark", "profile", "simulate_kernel"])
def test_r208_what_release_two_dropped_names_itself(name: str) -> None:
    with pytest.raises(NkiError, match=f"nki.{name} was removed"):
        getattr(nki, name)


def test_r209_wrappers_around_a_kernel_are_seen_through() -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args)

        return wrapper

    kernel = logged(nki.jit(lambda x: nl.multiply(nl.load(x), 2.0)))
    assert kernel(rows(1, 2)).tolist() == [[2, 4]]
    assert run(kernel, rows(1, 2)).tolist() == [[2, 4]]


def test_r210_an_error_names_file_and_line() -> None:
    def kernel(x):
        nisa.tensor_copy(sbuf((128, 64)), x)

    first = refusal(kernel, ONE).diagnostics[0]
    assert first.span is not None
    assert first.span.file == __file__
    assert first.span.line == kernel.__code__.co_firstlineno + 1


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_r211_float8_arrays_come_in(target: str) -> None:
    x = np.array([[1.0, -2.5, 96.0]], ml_dtypes.float8_e4m3fn)
    found = run(lambda a: nl.copy(nl.load(a), nl.float32), x, target=target)
    assert found.tolist() == [[1.0, -2.5, 96.0]]
