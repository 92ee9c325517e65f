"""Recording an instruction: what is shared between calls, what is kept apart, and where things are said to be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nki_lab
from nki_lab.diagnostic import NkiError
from nki_lab.isa.arch import arch_of
from nki_lab.isa.spec import TABLE
from nki_lab.kernel_runtime.ir import Program, verify
from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.issue.context import recording
from nki_lab.kernel_runtime.issue.nisa_functions import instruction_function
from nki_lab.kernel_runtime.issue.source_location import site_at
from nki_lab.kernel_runtime.language.kernel_builder import KernelBuilder
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.tensor import psum, sbuf, shared_hbm
from tests.calls import kernel_of, traced


@pytest.fixture
def builder() -> Any:
    made = KernelBuilder(Program("kernel", arch_of("trn2"), Options()))
    with recording(made):
        yield made
    verify(made.program)


def tile(builder: Builder, *shape: int, dtype: Any = "float32", space: Any = sbuf) -> Any:
    return builder.allocate(shape or (8, 6), dtype, space)


def test_calls_of_one_kind_share_a_variant_whatever_their_tensors(builder: Builder) -> None:
    for _ in range(3):
        instruction_function("tensor_tensor")(tile(builder), tile(builder), tile(builder), "add")
    assert len(builder.program.variants) == 1
    assert len(builder.program) == 3
    assert len(builder.program.views) == 9


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, 1.0), (1, True), (0.0, -0.0), (1.0, 2.0), (float("inf"), float("-inf"))],
)
def test_numbers_that_mean_different_things_are_kept_apart(builder: Builder, first: Any, second: Any) -> None:
    x = tile(builder)
    instruction_function("tensor_scalar")(x, x, "multiply", first)
    instruction_function("tensor_scalar")(x, x, "multiply", second)
    assert len(builder.program.variants) == 2
    values = [variant.use.attrs["operand0"] for variant in builder.program.variants]
    assert [repr(value) for value in values] == [repr(first), repr(second)]


@pytest.mark.parametrize("change", [{"dtype": "bfloat16"}, {"space": psum}])
def test_other_operand_types_make_another_variant(builder: Builder, change: dict[str, Any]) -> None:
    y = tile(builder)
    instruction_function("tensor_copy")(y, tile(builder))
    instruction_function("tensor_copy")(y, tile(builder, **change))
    assert len(builder.program.variants) == 2


def test_lists_and_tuples_mean_the_same(builder: Builder) -> None:
    x, y = tile(builder, 8, 2, 3), tile(builder, 8, 1)
    for axis in ([1, 2], (1, 2)):
        instruction_function("tensor_reduce")(y, "add", x, axis)
    assert len(builder.program.variants) == 1


def test_one_view_is_one_number_however_it_was_made(builder: Builder) -> None:
    x = tile(builder)
    same = [x[0:4, 0:6], x[0:4], x[:, :][0:4, :], x.ap([[6, 4], [1, 6]], offset=0)]
    assert len({builder.view_of(view) for view in same}) == 1
    assert builder.view_of(x[4:8]) != builder.view_of(same[0])
    assert builder.view_of(x) != builder.view_of(x.view(np.int32))


def test_a_view_of_everything_is_full(builder: Builder) -> None:
    x = tile(builder, 8, 2, 3)
    full = [builder.program.views[builder.view_of(v)].full for v in (x, x.reshape((8, 6)), x[:, 0:1], x.view(np.int32))]
    assert full == [True, True, False, False]


def test_a_tensor_of_another_run_is_refused(builder: Builder) -> None:
    stranger = KernelBuilder(Program("other", arch_of("trn2"), Options())).allocate((8, 6), "float32", sbuf)
    with pytest.raises(NkiError) as caught:
        instruction_function("tensor_copy")(tile(builder), stranger)
    assert caught.value.diagnostics[0].code == "NKI314"
    # What was recorded of the call is no row.
    program = builder.program
    for column in (program.op_variant, program.op_site, program.op_access, program.op_iteration, program.access_view):
        del column[:]


def test_an_endless_kernel_is_stopped() -> None:
    made = KernelBuilder(Program("kernel", arch_of("trn2"), Options(max_instructions=5)))
    with recording(made), pytest.raises(NkiError) as caught:
        while True:
            instruction_function("memset")(tile(made), 0.0)
    (found,) = caught.value.diagnostics
    assert found.code == "NKI011"
    assert "5 instructions" in found.message
    assert len(made.program) == 5
    verify(made.program)


def test_names_and_handles(builder: Builder) -> None:
    handle = instruction_function("memset")(tile(builder), 0.0, name="clear")
    other = instruction_function("memset")(tile(builder), 0.0)
    assert builder.program.op_names == {0: "clear"}
    assert repr(handle) == "<memset clear>"
    assert (repr(other), other.index) == ("<memset 1>", 1)


@pytest.mark.parametrize("shape", [(8, 6.0), (8, True), (8.0, 6)])
def test_a_size_that_is_no_integer_is_refused_also_after_an_equal_one(builder: Builder, shape: Any) -> None:
    builder.allocate((8, 6), "float32", sbuf)
    builder.allocate((8, 1), "float32", sbuf)
    with pytest.raises(NkiError, match="NKI307"):
        builder.allocate(shape, "float32", sbuf)


def test_shapes_may_be_lists_and_numpy_integers(builder: Builder) -> None:
    for shape in ([8, 6], (np.int64(8), np.int32(6)), np.array([8, 6]).tolist()):
        assert builder.allocate(shape, "float32", sbuf)._shape == (8, 6)


def test_a_remark_is_made_once_a_place() -> None:
    text = """
def kernel(a):
    x = nl.ndarray((128, 8), nl.float32)
    for i in range(3):
        nisa.memset(x[16:48], 0.0)
    nisa.memset(x[16:48], 0.0)
    nisa.memset(x[0:32], 0.0)
"""
    _, made = traced(kernel_of(text), [np.zeros((1, 1), np.float32)], ["float32"], "trn2")
    assert [(note.code, note.line) for note in made.notes] == [("NKI206", 5), ("NKI206", 6)]
    assert all(note.operand == "dst" and "partition 16" in note.message for note in made.notes)


def test_calls_of_a_loop_share_their_place_and_calls_of_a_line_do_not() -> None:
    text = "def kernel(a):\n    x = nl.ndarray((8, 8), nl.float32)\n    for _ in range(4):\n"
    text += "        nisa.memset(x, 0.0); nisa.memset(x, 1.0)\n"
    program, _ = traced(kernel_of(text), [np.zeros((1, 1), np.float32)], ["float32"], "trn2")
    assert len(set(program.op_site)) == 2
    columns = [(op.site.line, op.site.column) for op in program.ops()][:2]
    assert columns == [(4, 8), (4, 29)]


def test_composites_carry_the_users_place() -> None:
    text = "def kernel(a):\n    x = nl.load(a)\n    return nl.softmax(\n        x,\n    )\n"
    program, _ = traced(kernel_of(text), [np.zeros((4, 4), np.float32)], ["float32"], "trn2")
    places = {(op.site.line, op.site.end_line, op.site.function) for op in program.ops()}
    assert places == {(2, 2, "kernel"), (3, 5, "kernel")}


def test_a_helpers_own_lines_are_places_too() -> None:
    text = """
def helper(x):
    nisa.tensor_scalar(x, x, nl.add, 1.0)


def kernel(a):
    x = nl.load(a)
    helper(x)
    return x
"""
    program, _ = traced(kernel_of(text), [np.zeros((4, 4), np.float32)], ["float32"], "trn2")
    assert [(op.site.line, op.site.function) for op in program.ops()] == [(7, "kernel"), (3, "helper")]


def test_values_are_not_known_without_a_reader(builder: Builder) -> None:
    assert not builder.has_values
    with pytest.raises(NkiError, match="NKI017"):
        builder.read(tile(builder))


def test_a_place_without_positions_is_its_functions_line() -> None:
    code = test_names_and_handles.__code__
    assert site_at(code, -1).line == code.co_firstlineno


def test_no_row_is_left_by_a_refused_call(builder: Builder) -> None:
    x, h = tile(builder), tile(builder, space=shared_hbm)
    for arguments in ((x, h), (x, tile(builder, 8, 5)), (x, None)):
        with pytest.raises(NkiError):
            instruction_function("tensor_copy")(*arguments)
    assert len(builder.program) == 0
    instruction_function("tensor_copy")(x, tile(builder))
    assert len(builder.program) == 1


def test_every_instruction_is_recorded_with_its_engine(builder: Builder) -> None:
    x = tile(builder, 8, 8)
    instruction_function("tensor_tensor")(x, x, x, "power")
    instruction_function("tensor_tensor")(x, x, x, "add")
    instruction_function("activation")(x, "exp", x)
    instruction_function("iota")(x, [[1, 8]])
    instruction_function("dma_copy")(x, tile(builder, 8, 8, space=shared_hbm))
    engines = [op.variant.engine for op in builder.program.ops()]
    assert engines == ["gpsimd", "vector", "scalar", "gpsimd", "dma"]
    assert set(engines) <= {engine for item in TABLE.values() for engine in item.engines}


HEAD_OF_SOURCE = """
import nki.language as nl
import nki, nki.typing as nt
@nki.jit
def kernel(x: nt.tensor[128, 64], n=3):
"""


@pytest.mark.parametrize(
    "test", ["t", "x", "x[0:4]", "not t", "t and n", "None or t", "all([x, t])", "bool(t)", "t + 1"]
)
def test_a_tensor_object_is_true_and_an_advice_says_so(test: str) -> None:
    source = HEAD_OF_SOURCE + f"    t = nl.load(x)\n    if {test}:\n        nl.store(x, t)\n    return x\n"
    found = [item for item in nki_lab.check(source=source) if item.code in ("NKI017", "NKI608")]
    assert {item.code for item in found} == {"NKI608"}
    assert all(item.span is not None and item.span.line == 7 and item.help and item.limit for item in found)


@pytest.mark.parametrize("test", ["t[0, 0]", "t[0, 0] > 1", "t > 1", "bool(t <= t)", "n and t < 3"])
def test_values_are_no_conditions(test: str) -> None:
    source = HEAD_OF_SOURCE + f"    t = nl.load(x)\n    if {test}:\n        nl.store(x, t)\n    return x\n"
    assert "NKI017" in {item.code for item in nki_lab.check(source=source)}


def test_a_while_over_a_tensor_object_is_refused_since_it_would_not_end() -> None:
    source = HEAD_OF_SOURCE + "    t = nl.load(x)\n    while t and n:\n        pass\n    return x\n"
    assert "NKI017" in {item.code for item in nki_lab.check(source=source)}
