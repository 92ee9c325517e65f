"""Uninitialised reads, unwritten results and accumulation, against a map of every byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab import spec
from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.dtype import DTYPES
from nki_lab.kernel_runtime.coverage import Tracker, cover
from nki_lab.kernel_runtime.footprint import WrittenPart
from nki_lab.kernel_runtime.interpreter import ModuleSource, Signature, evaluate
from nki_lab.kernel_runtime.ir import Program
from nki_lab.kernel_runtime.numerics.executor import Executor
from tests.calls import OUTPUTS, Case, contents, kernel_of, source, traced
from tests.draws import Drawn
from tests.expected import Expected
from tests.programs import draw_program
from tests.scale import scaled
from tests.strategies import arches


class Bytes:
    """What a program has written, and what matmuls have, byte by byte."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.places = Expected(Case(case.target, case.memories, ())).places
        sizes = [int(np.prod(m.shape)) * DTYPES[m.dtype].nbytes for m in case.memories]
        hbm = [memory.space == "hbm" for memory in case.memories]
        self.written = [np.full(size, whole) for size, whole in zip(sizes, hbm, strict=True)]
        self.multiplied = [np.zeros(size, bool) for size in sizes]
        self.codes: set[tuple[int, str]] = set()
        self.add: dict[int, Any] = {}
        self.suspects: set[int] = set()

    def at(self, part: Any) -> np.ndarray[Any, Any]:
        """Numbers of the bytes of a view, those of an element along the last axis."""
        width = DTYPES[part.dtype].nbytes
        return self.places(part)[0][..., None] * width + np.arange(width)

    def follow(self) -> None:
        for index, call in enumerate(self.case.calls):
            for name, part in call.parts.items():
                if name not in OUTPUTS:
                    seen = self.written[part.memory][self.at(part)]
                    if not seen.all():
                        self.codes.add((index, "NKI302" if seen.any() else "NKI301"))
                        self.suspects.add(part.memory)
            if call.name == "nc_matmul":
                self._accumulate(index, call)
            for name, part in call.parts.items():
                if name in OUTPUTS:
                    self.written[part.memory][self.at(part)] = True

    def _accumulate(self, index: int, call: Any) -> None:
        part, asked = call.arguments["dst"], call.arguments["accumulate"]
        places = self.at(part)
        done = self.multiplied[part.memory][places].all(axis=-1)
        self.add[index] = done if asked is None else np.full(part.shape, asked)
        if asked and not done.all():
            self.codes.add((index, "NKI401"))
            if not self.written[part.memory].all():
                self.suspects.add(part.memory)
        self.multiplied[part.memory][places] = True


def program_of(case: Case) -> Program:
    arrays = [contents(memory) for memory in case.memories]
    program, _ = traced(kernel_of(source(case)), arrays, [m.dtype for m in case.memories], case.target, **case.options)
    return program


@st.composite
def programs(draw: Any) -> Case:
    choice = Drawn(lambda low, high: draw(st.integers(low, high)))
    return draw_program(choice, choice.pick(arches()), exact=False)


@settings(max_examples=scaled(120))
@given(programs())
def test_findings_are_those_of_a_map_of_every_byte(case: Case) -> None:
    program = program_of(case)
    assert len(program) == len(case.calls)
    found = cover(program)
    truth = Bytes(case)
    truth.follow()
    first = min(program.sites[site].line for site in program.op_site)
    # Results that nothing wrote are another test's.
    said = {(item.line - first, item.code) for item in found.diagnostics if item.code != "NKI308"}
    assert said == truth.codes
    assert set(found.add) == set(truth.add)
    for index, add in found.add.items():
        np.testing.assert_array_equal(np.broadcast_to(add, truth.add[index].shape), truth.add[index])


@settings(max_examples=scaled(40))
@given(programs())
def test_every_tensor_with_an_unwritten_element_that_is_read_is_a_suspect(case: Case) -> None:
    program = program_of(case)
    tracker = Tracker(program)
    tracker.finish()
    truth = Bytes(case)
    truth.follow()
    # Tensors on the chip are made after the arguments, in the order of the case.
    chip = [n for n, memory in enumerate(case.memories) if memory.space != "hbm"]
    numbers = {number: len(case.memories) + place for place, number in enumerate(chip)}
    assert {numbers[number] for number in truth.suspects if number in numbers} <= tracker.suspects


def findings(body: str, *arrays: Any, target: str = "trn2") -> list[Diagnostic]:
    given_arrays = list(arrays) or [np.zeros((8, 8), np.float32)]
    text = "def kernel(a):\n" + "\n".join("    " + line for line in body.strip().split("\n")) + "\n"
    program, _ = traced(kernel_of(text), given_arrays, ["float32"], target)
    return cover(program).diagnostics


def test_a_read_of_fresh_memory_names_the_operand_and_where_the_tensor_was_made() -> None:
    (found,) = findings("x = nl.ndarray((8, 8), nl.float32)\ny = nl.load(a)\nnisa.tensor_tensor(y, y, x, nl.add)")
    assert (found.code, found.outcome, found.operand, found.line) == ("NKI301", "reject", "data2", 4)
    assert found.related[0].span is not None
    assert found.related[0].span.line == 2


def test_a_partly_written_tile_says_how_much_is_missing() -> None:
    (found,) = findings(
        "x = nl.ndarray((8, 8), nl.float32)\nnisa.memset(x[:, 0:3], 0.0)\ny = nl.load(a)\nnisa.tensor_copy(y, x)"
    )
    assert (found.code, found.outcome, found.line) == ("NKI302", "advice", 5)
    assert "src (8, 8) of 'x' in sbuf: 40 of its 64 elements are" in found.message
    assert found.message.endswith("before they are written: elements 3 to 7 of partitions 0 to 7")


@pytest.mark.parametrize(
    ("made", "name"),
    [
        ("x = nl.ndarray((8, 8), nl.float32)", "'x'"), ("x: object = nl.ndarray((8, 8), nl.float32)", "'x'"),
        ("(x, z), w = (nl.ndarray((8, 8), nl.float32), 1), 2", "'x'"), ("x = z = nl.ndarray((8, 8), nl.float32)", "'x'"),
        ("if (x := nl.ndarray((8, 8), nl.float32)) is None: pass", "'x'"),
        ("x = nl.ndarray((8, 8), nl.float32, name='given')", "'given'"),
        ("[x] = [nl.ndarray((8, 8), nl.float32)]", "a (8, 8) float32 tensor"),
        ("tiles = [nl.ndarray((8, 8), nl.float32)]; x = tiles[0]", "a (8, 8) float32 tensor"),
    ],
)  # fmt: skip
def test_a_tensor_has_the_name_that_it_is_given_or_assigned_to(made: str, name: str) -> None:
    (found,) = findings(f"{made}\ny = nl.load(a)\nnisa.tensor_copy(y, x)")
    assert found.message == f"tensor_copy: src (8, 8) of {name} in sbuf is read and nothing has written it"


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ("(8, 8), nl.uint32, address=(0, 64)", "NKI302"), ("(8, 2, 4), nl.float32, address=(0, 64)", "NKI302"),
        ("(8, 8), nl.float32, address=(0, 64)", "NKI301"), ("(8, 4), nl.uint32, address=(0, 80)", "NKI302"),
        ("(8, 8), nl.uint32, address=(0, 96)", "NKI301"), ("(8, 8), nl.uint32", "NKI301"),
    ],
)  # fmt: skip
def test_a_tensor_in_the_place_of_another_holds_what_is_there(other: str, code: str) -> None:
    made = f"x = nl.ndarray((8, 8), nl.float32, address=(0, 64))\nz = nl.ndarray({other})\n"
    (found,) = findings(f"{made}nisa.dma_copy(x, a)\ny = nl.ndarray((8, 8), z.dtype)\nnisa.tensor_copy(y[:, 0:4], "
                        "z.reshape((8, z.size // 8))[:, 0:4])")  # fmt: skip
    assert (found.code, found.operand, found.line) == (code, "src", 6)


def test_missing_elements_are_counted_in_elements_of_a_reinterpreted_tile() -> None:
    (found,) = findings(
        "x = nl.ndarray((8, 8), nl.float32)\nnisa.memset(x.view(nl.uint8)[:, 0:6], 0)\ny = nl.load(a)\n"
        "nisa.tensor_copy(y, x)"
    )
    assert found.code == "NKI302"
    assert "56 of its 64 elements" in found.message  # one element of each row is whole


def test_a_result_that_is_not_written_says_how_much_is() -> None:
    (found,) = findings(
        "out = nl.ndarray((8, 8), nl.float32, buffer=nl.shared_hbm)\nnisa.dma_copy(out[0:2], nl.load(a)[0:2])\nreturn out"
    )
    assert (found.code, found.severity, found.line) == ("NKI308", "warning", 2)
    assert "16 of its 64" in found.message


@pytest.mark.parametrize(
    "body",
    [
        "x = nl.ndarray((8, 8), nl.float32)\nfor i in range(8):\n    nisa.memset(x[:, i : i + 1], 0.0)\nreturn nl.copy(x)",
        "x = nl.ndarray((8, 8), nl.float32)\nfor i in range(2):\n    nisa.memset(x[:, i:8:2], 0.0)\nreturn nl.copy(x)",
        "x = nl.ndarray((64, 8), nl.float32)\nfor i in (32, 0):\n    nisa.memset(x[i : i + 32], 0.0)\nreturn nl.copy(x)",
        "x = nl.ndarray((8, 8), nl.float32)\nnisa.memset(x.view(nl.uint8), 0)\nreturn nl.copy(x)",
        "x = nl.ndarray((8, 4, 2), nl.float32)\nnisa.memset(x.permute((0, 2, 1)), 0.0)\nreturn nl.copy(x)",
    ],
)  # fmt: skip
def test_tiles_written_in_parts_are_whole(body: str) -> None:
    assert [item.code for item in findings(body)] == []


MX = """packed = nl.load(a.view(nl.float8_e4m3fn_x4))
ours, theirs = nl.ndarray((64, 64), nl.uint8), nl.ndarray((64, 64), nl.uint8)
nisa.memset(ours, 127)
for row in {rows}:
    nisa.memset(theirs[row : row + 1], 127)
total = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
nisa.nc_matmul_mx(total, packed, packed, ours, theirs)
return nl.copy(total)
"""


@pytest.mark.parametrize(
    ("rows", "codes"),
    [("(0, 1, 2, 3, 32, 33, 34, 35)", []), ("(0, 1, 2, 32, 33, 34, 35)", ["NKI302"]), ("range(32, 64)", ["NKI302"])],
)
def test_scales_are_read_from_four_rows_of_a_quadrant(rows: str, codes: list[str]) -> None:
    found = findings(MX.format(rows=rows), np.zeros((64, 64), np.float32), target="trn3")
    assert [item.code for item in found] == codes


def test_the_same_line_says_a_thing_once() -> None:
    body = "y = nl.load(a)\nfor i in range(5):\n    x = nl.ndarray((8, 8), nl.float32)\n    nisa.tensor_copy(y, x)"
    assert [item.code for item in findings(body)] == ["NKI301"]


def test_an_index_that_nothing_wrote_is_a_read_too() -> None:
    body = "lane = nl.ndarray((8, 1), nl.int32)\nx = nl.ndarray((8, 8), nl.float32)\n"
    body += "nisa.dma_copy(x, a.ap([[8, 8], [1, 8]], vector_offset=lane))"
    assert [item.code for item in findings(body)] == ["NKI301"]


def test_a_program_may_grow_between_two_looks() -> None:
    a = np.zeros((8, 8), np.float32)
    text = "def kernel(a):\n    x = nl.ndarray((8, 8), nl.float32)\n    y = nl.load(a)\n    return x, y\n"
    program, builder = traced(kernel_of(text), [a], ["float32"], "trn2")
    tracker = Tracker(program)
    machine = Executor(program, {0: a}, tracker)
    machine.run(final=False)
    assert not tracker.result.diagnostics
    from nki_lab.kernel_runtime.issue.context import recording
    from nki_lab.kernel_runtime.issue.nisa_functions import instruction_function

    x, y = program.outputs
    with recording(builder):
        instruction_function("memset")(x.view(np.uint8)[:, 0:5], 0)
        tracker.advance()
        instruction_function("tensor_copy")(y, x)
        tracker.advance()
        instruction_function("memset")(x, 0.0)
        instruction_function("tensor_copy")(y, x)
    found = tracker.finish().diagnostics
    assert [item.code for item in found] == ["NKI302"]
    assert "56 of its 64 elements" in found[0].message


def test_asking_again_at_the_end_says_nothing_twice() -> None:
    text = "def kernel(a):\n    out = nl.ndarray((8, 8), nl.float32, buffer=nl.shared_hbm)\n    return out, out\n"
    program, _ = traced(kernel_of(text), [np.zeros((8, 8), np.float32)], ["float32"], "trn2")
    tracker = Tracker(program)
    found = [[item.code for item in tracker.finish().diagnostics] for _ in range(3)]
    assert found == [["NKI308"]] * 3
    assert tracker.suspects == {program.outputs[0]._buffer.id}


def test_a_large_buffer_is_not_searched_at_each_write(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
import nki.isa as nisa
import nki.language as nl

def kernel(x):
    out = nl.ndarray((128, 1024), nl.float32, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 4), nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    for i in range(255):
        nisa.dma_copy(dst=out[:, i:1024:256], src=t)
    return out
"""
    program = evaluate(
        ModuleSource.parse(text), "kernel", Signature(args=(spec((128, 4), "float32"),)), arch="trn2"
    ).program
    looks: list[int] = []
    look = WrittenPart._look
    monkeypatch.setattr(WrittenPart, "_look", lambda region: (looks.append(1), look(region))[1])
    (found,) = cover(program).diagnostics
    assert found.code == "NKI308"
    assert f"only {128 * 1020} of its {128 * 1024}" in found.message
    assert len(looks) < 4
