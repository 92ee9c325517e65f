"""Refusals: which fault is named first, what the message says, and what is only remarked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.isa.arch import TARGETS, legal_starts
from tests.calls import kernel_of, traced


def trace(body: str, target: str = "trn2") -> list[Diagnostic]:
    """What tracing a kernel of these lines says: remarks, or the refusal."""
    text = "def kernel(a):\n" + "\n".join("    " + line for line in body.strip().split("\n")) + "\n"
    try:
        _, builder = traced(kernel_of(text), [np.zeros((128, 64), np.float32)], ["float32"], target)
    except NkiError as error:
        return list(error.diagnostics)
    return builder.notes


TILE = "x = nl.ndarray((128, 64), nl.float32)\n"


@pytest.mark.parametrize("rows", [1, 16, 32, 33, 64, 65, 100, 128])
def test_start_partitions_are_remarked_where_no_access_may_begin(rows: int) -> None:
    for start in range(0, 129 - rows, 16):
        found = trace(TILE + f"nisa.memset(x[{start}:{start + rows}], 0.0)")
        assert [item.code for item in found] == ([] if start in legal_starts(rows) else ["NKI206"])


def test_dma_starts_anywhere() -> None:
    assert not trace(TILE + "nisa.dma_copy(x[3:20], a[3:20])")


def test_a_start_partition_counts_from_where_the_tensor_was_placed() -> None:
    body = "x = nl.ndarray((32, 64), nl.float32, address=(64, 0))\nnisa.memset(x{}, 0.0)"
    assert not trace(body.format(""))
    assert [item.code for item in trace(body.format("[16:32]"))] == ["NKI206"]


def test_operands_beyond_the_last_partition_are_refused() -> None:
    body = "x = nl.ndarray((256, 8), nl.float32)\nnisa.memset(x[{}], 0.0)"
    assert not trace(body.format("0:128"))
    for rows in ("0:129", "128:256", "64:192"):
        (found,) = trace(body.format(rows))
        assert (found.code, found.operand) == ("NKI204", "dst")
        assert "128" in found.message
    assert [item.code for item in trace("x = nl.ndarray((200, 8), nl.float32)\nnisa.dma_copy(x, a[0:25])")] == [
        "NKI204"
    ]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        # Several things are wrong; the first of: argument, memory, dtype, shape, engine, the instruction's own rules.
        ("nisa.tensor_tensor(x, a, y)", "NKI003"),
        ("nisa.tensor_tensor(x, a, 3, nl.add)", "NKI013"),
        ("nisa.tensor_tensor(x, a, y, nl.bitwise_and)", "NKI201"),
        ("nisa.tensor_tensor(x, y, y, nl.bitwise_and)", "NKI203"),
        ("nisa.tensor_tensor(x, x, x, nl.bitwise_and, engine=nisa.engine.scalar)", "NKI208"),
        ("nisa.tensor_tensor(x, x, x, nl.bitwise_and)", "NKI202"),
    ],
)
def test_the_first_fault_is_named(call: str, code: str) -> None:
    (found,) = trace(TILE + "y = nl.ndarray((128, 32), nl.float32)\n" + call)
    assert found.code == code


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("tensor_copy(x, x[:, 0:63])", "tensor_copy: src (128, 63) has 63 elements per partition, dst (128, 64) has 64"),
        ("tensor_copy(x, x[0:64])", "tensor_copy: src (64, 64) has 64 partitions, dst (128, 64) has 128"),
        ("tensor_copy(x, a)", "tensor_copy: src is in HBM, it must be in SBUF or PSUM"),
        ("tensor_copy(x, None)", "tensor_copy: src is None (NoneType), it must be a tensor"),
        ("tensor_copy(x, np.zeros((2, 2)))", "tensor_copy: src is a NumPy array, it must be a tensor"),
        ("tensor_copy(x, nisa.memset(x, 0.0))", "tensor_copy: src is the handle of an instruction, it must be a tensor"),
        ("tensor_copy(x)", "tensor_copy: argument src is missing"),
        ("tensor_copy(x, x, engin=1)", "tensor_copy: got an unexpected keyword argument 'engin'"),
        ("tensor_copy(x, x, 1, None, 5)", "tensor_copy: takes 4 arguments, 1 more were given"),
        ("tensor_scalar(x, x, nl.add, x)",
         "tensor_scalar: operand0 is (128, 64), it must have 1 element(s) per partition"),
        ("dma_copy(x, a[0:64])", "dma_copy: src (64, 64) has 4096 elements, dst (128, 64) has 8192"),
        ("tensor_copy(x, x, engine='vector')",
         "tensor_copy: engine is 'vector', it must be a member of nisa.engine"),
    ],
)  # fmt: skip
def test_messages_speak_of_the_users_operands(call: str, message: str) -> None:
    (found,) = trace(f"{TILE}nisa.{call}")
    assert found.message == message
    assert found.limit
    assert found.span is not None
    assert found.span.line == 3


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        ("nc_find_index8(index, x, x[:, 0:8])", "allocate it with dtype=nl.uint16 or nl.uint32"),
        ("quantize_mx(x, half, scale)", "allocate it with dtype=nl.float8_e5m2_x4 or nl.float8_e4m3fn_x4"),
        ("nc_matmul_mx(bank, x, x, scale, scale)", "quantise it with nisa.quantize_mx"),
        ("tensor_copy_predicated(x, x, x)", "cast it with nisa.tensor_copy"),
    ],
)
def test_the_remedy_for_a_dtype_fits_the_operand(call: str, remedy: str) -> None:
    tiles = """index = nl.ndarray((128, 8), nl.int32)
half = nl.ndarray((128, 256), nl.bfloat16)
scale = nl.ndarray((128, 64), nl.uint8)
bank = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
"""
    (found,) = trace(f"{TILE}{tiles}nisa.{call}", "trn3")
    assert found.code == "NKI202"
    assert found.help.startswith(remedy)


def test_an_engine_is_told_by_what_it_reads_or_writes() -> None:
    tiles = "bank = nl.ndarray((32, 32), nl.float32, buffer=nl.psum)\nsmall = x[0:32, 0:32]\n"
    (found,) = trace(f"{TILE}{tiles}nisa.nc_transpose(small, small, engine=nisa.engine.tensor)")
    assert (found.code, found.limit) == ("NKI208", "the tensor engine writes PSUM")
    (found,) = trace(f"{TILE}{tiles}nisa.tensor_copy(small, bank, engine=nisa.engine.gpsimd)")
    assert (found.code, found.limit) == ("NKI208", "the gpsimd engine reads SBUF")


def test_a_note_describes_the_operand_and_where_it_was_made() -> None:
    (found,) = trace(TILE + "nisa.tensor_copy(x, x[:, 0:63])")
    assert found.note.startswith("src: (128, 63) float32 in SBUF")
    assert "line 2" in found.note


@pytest.mark.parametrize("space", ["sbuf", "psum"])
def test_free_sizes_end_where_an_access_does(space: str) -> None:
    most = {"sbuf": 65536, "psum": 4096}[space]
    body = "x = nl.ndarray((2, {0}), nl.uint8, buffer=nl." + space + ")\nnisa.memset(x, 0)"
    assert not trace(body.format(most))
    (found,) = trace(body.format(most + 1))
    assert found.code == "NKI220"
    assert str(most + 1) in found.message
    assert str(most) in found.limit


@pytest.mark.parametrize(("repeats", "fits"), [(24, True), (204, True), (205, False)])
def test_what_is_read_again_from_psum_counts_once_there_and_as_often_in_the_access(repeats: int, fits: bool) -> None:
    body = """
mean = nl.ndarray((128, 320), nl.float32, buffer=nl.psum)
out = nl.ndarray((128, 320, {0}), nl.bfloat16)
nisa.tensor_copy(out, mean.ap(pattern=[[320, 128], [1, 320], [0, {0}]]))
"""
    found = [item.code for item in trace(body.format(repeats))]
    assert found == ([] if fits else ["NKI220"])


def test_four_free_dimensions_are_taken_and_five_are_not() -> None:
    body = "x = nl.ndarray((2, 3, 3, 3, 3, 3), nl.float32)\nnisa.memset(x[:, {}], 0.0)"
    assert not trace(body.format("0:2, 0:2, 0:2, 0:2, 0"))
    assert not trace(body.format("0:2, 0:2, 0:2, 0:2"))  # the last one merges
    (found,) = trace(body.format("0:2, 0:2, 0:2, 0:2, 0:2"))
    assert found.code == "NKI205"


@pytest.mark.parametrize(("value", "member"), [(2, "hwdge"), (0, "unknown"), ("swdge", "swdge")])
def test_modes_passed_as_literals_are_taken_with_a_remark(value: Any, member: str) -> None:
    (found,) = trace(f"{TILE}nisa.dma_copy(x, a, dge_mode={value!r})")
    assert (found.code, found.severity, found.operand) == ("NKI606", "warning", "dge_mode")
    assert member in found.message


@pytest.mark.parametrize("value", ["True", "7", "'hardware'", "None", "1.0"])
def test_other_literals_are_no_modes(value: str) -> None:
    assert [item.code for item in trace(f"{TILE}nisa.dma_copy(x, a, dge_mode={value})")] == ["NKI012"]


def test_dtypes_that_a_target_lacks_are_refused_with_those_that_it_has() -> None:
    body = "x = nl.ndarray((2, 2), nl.float8_e8m0fnu)\nnisa.memset(x, 1.0)"
    assert not trace(body, "trn3")
    (found,) = trace(body, "trn2")
    assert found.code == "NKI221"
    assert "float8_e8m0fnu" in found.message
    assert "float8_e4m3" in found.help
    assert "float8_e8m0fnu" not in found.help


@pytest.mark.parametrize("spelling", ["nl.add", "np.add", "'add'", "nl.sum", "'sum'"])
def test_operators_are_taken_by_every_name_kernels_use(spelling: str) -> None:
    assert not trace(f"{TILE}nisa.tensor_tensor(x, x, x, {spelling})")


def test_a_misspelled_operator_gets_a_near_one() -> None:
    (found,) = trace(f"{TILE}nisa.tensor_tensor(x, x, x, 'multipy')")
    assert (found.code, found.operand) == ("NKI012", "op")
    assert "multiply" in found.help


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        ("tensor_scalar(x, x, nl.gelu, 1.0)", "use nisa.activation, which has nl.gelu"),
        ("tensor_scalar(x, x, nl.sin, 1.0)", "use nisa.activation, which has nl.sin"),
        ("tensor_tensor(x, x, x, nl.matmul)", "give an operator such as nl.add"),
        ("tensor_tensor(x, x, x, nl.divide)", "multiply by the reciprocal: nisa.reciprocal of a tile, or 1 / number"),
        ("tensor_tensor(x, x, x, '>=')", "write nl.greater_equal"),
        ("activation(x, nl.maximum, x)", "use nisa.tensor_tensor or nisa.tensor_scalar, which has nl.maximum"),
        ("activation(x, nl.softmax, x)", "give a function such as nl.exp"),
        ("activation(x, 'tahn', x)", "did you mean tanh or arctan?"),
    ],
)
def test_what_is_no_operator_is_answered_with_what_computes_it(call: str, remedy: str) -> None:
    (found,) = trace(f"{TILE}nisa.{call}")
    assert (found.code, found.operand) == ("NKI012", "op0" if "tensor_scalar" in call else "op")
    assert found.help == remedy


@pytest.mark.parametrize("number", ["np.float32(2)", "np.int64(2)", "2", "True", "2.5", "np.float64(2)"])
def test_numbers_of_every_kind_are_scalars(number: str) -> None:
    assert not trace(f"{TILE}nisa.tensor_scalar(x, x, nl.add, {number})")


@pytest.mark.parametrize("number", ["1j", "'2'", "[2]", "np.zeros(1)"])
def test_other_things_are_none(number: str) -> None:
    assert [item.code for item in trace(f"{TILE}nisa.tensor_scalar(x, x, nl.add, {number})")] == ["NKI013"]


def test_every_target_name_is_known() -> None:
    for target in TARGETS:
        assert not trace(TILE + "nisa.memset(x, 0.0)", target)


@pytest.mark.parametrize(
    "call",
    [
        "tensor_tensor(dst=x[:, 0:8], data1=x[:, 0:8], data2={view}, op=nl.add)",
        "tensor_tensor(dst={view}, data1=x[:, 0:8], data2=x[:, 8:16], op=nl.add)",
        "tensor_scalar(dst=x, data=x, op0=nl.add, operand0={view}[:, 0:1])",
        "activation(dst=x, op=nl.exp, data=x, scale={view}[:, 0:1])",
        "max8(dst=x[:, 0:8], src={view})",
    ],
)
def test_every_operand_may_begin_where_a_register_says(call: str) -> None:
    start = "lane = nisa.register_alloc(3)\nnisa.dma_copy(x, a)\n"
    view = "x.reshape((128, 8, 8)).select(1, lane)"
    assert not trace(f"{TILE}{start}nisa.{call.format(view=view)}")
