"""Random straight-line programs: several instructions over a few tensors, in views that overlap and reinterpret.

Tiles live for different stretches, so that their memory is used again; some are read before they are written.
"""

from __future__ import annotations

import math
from typing import Any

from nki_lab.isa.arch import Arch, legal_starts
from nki_lab.isa.dtype import DTYPES
from tests.calls import Call, Case, Memory, Part
from tests.draws import Choice, row_major
from tests.ingredients import ARITHMETIC, member, op

KINDS = ("float32", "bfloat16", "float16", "int32", "uint8", "float8_e4m3", "int16", "tfloat32", "bool_")
PARTITIONS, COLUMNS = 64, 24


class Writer:
    """Writes one program, instruction by instruction."""

    def __init__(self, choice: Choice, arch: Arch, *, exact: bool) -> None:
        self.choice = choice
        self.arch = arch
        self.exact = exact
        self.memories: list[Memory] = []
        self.calls: list[Call] = []

    def memory(self, space: str, dtype: str, shape: tuple[int, ...], flavour: str) -> int:
        self.memories.append(Memory(space, dtype, shape, self.choice.integer(0, 10_000), flavour))
        return len(self.memories) - 1

    def tile(self) -> int:
        """An on-chip tensor: one of those that are there, or a new one that nothing has written."""
        there = [n for n, m in enumerate(self.memories) if m.space != "hbm"]
        if there and self.choice.chance(75):
            return self.choice.pick(there)
        space = self.choice.pick(("sbuf", "sbuf", "psum"))
        shape = (PARTITIONS, COLUMNS) if self.choice.chance(70) else (PARTITIONS, 4, COLUMNS // 4)
        return self.memory(space, self.choice.pick(KINDS), shape, "poison")

    def view(self, number: int, rows: int, columns: int, *, written: bool, dtype: str = "") -> Part:
        """A view of so many partitions and elements of a tile, in its dtype or reinterpreted."""
        memory = self.memories[number]
        kind = dtype or memory.dtype
        width, own = DTYPES[kind].nbytes, DTYPES[memory.dtype].nbytes
        row = COLUMNS * own // width
        text = f".reshape({(memory.shape[0], COLUMNS)})" if len(memory.shape) > 2 else ""
        if dtype:
            text += f".view(nl.{dtype})"
        starts = [s for s in legal_starts(rows) if s + rows <= memory.shape[0]]
        first = self.choice.pick(starts)
        steps = [s for s in (1, 2, 3) if (columns - 1) * s < row] or [1]
        step = self.choice.pick(steps)
        start = self.choice.integer(0, row - (columns - 1) * step - 1)
        stop = start + (columns - 1) * step + 1
        if (rows, columns, start, first) != (memory.shape[0], row, 0, 0):
            text += f"[{first}:{first + rows}, {start}:{stop}" + (f":{step}]" if step > 1 else "]")
        return Part(number, text, kind, first * row + start, (rows, columns), (row, step))

    def issue(self, name: str, **arguments: Any) -> None:
        self.calls.append(Call(name, arguments))

    def space(self, part: Part) -> str:
        return self.memories[part.memory].space

    def step(self) -> None:
        """One more instruction."""
        kinds = [self.load, self.load, self.move, self.scalar, self.binary, self.fill, self.store]
        if not self.exact:
            kinds += [self.reduce, self.activate, self.multiply]
        self.choice.pick(kinds)()

    def size(self) -> tuple[int, int]:
        rows = self.choice.pick((32, PARTITIONS, 1, 7, 33))
        return rows, self.choice.pick((COLUMNS // 2, 1, 3, 4))

    def operand(self, size: tuple[int, int], *, written: bool = False, computed: bool = False) -> Part:
        """A view of a tile. What is `computed` may be NaN, of which only that is defined: no float seen as another."""
        number = self.tile()
        memory = self.memories[number]
        width = DTYPES[memory.dtype].nbytes
        other = ""
        if self.choice.chance(20) and memory.dtype != "bool_":
            kinds = ("int32", "uint8", "uint16") if computed else ("int32", "bfloat16", "uint8", "float32", "uint16")
            fits = [k for k in kinds if COLUMNS * width // DTYPES[k].nbytes >= size[1] and k != memory.dtype]
            other = self.choice.pick(fits) if fits else ""
        return self.view(number, *size, written=written, dtype=other)

    def load(self) -> None:
        number = self.tile()
        memory = self.memories[number]
        if memory.space == "psum":
            return self.move()
        flavour = "special" if DTYPES[memory.dtype].is_float else "plain"
        source = self.memory("hbm", memory.dtype if self.choice.chance(70) else "float32", memory.shape, flavour)
        strides = tuple(row_major(memory.shape))
        whole = Part(number, "", memory.dtype, 0, memory.shape, strides)
        self.issue("dma_copy", dst=whole, src=Part(source, "", self.memories[source].dtype, 0, memory.shape, strides))
        return None

    def store(self) -> None:
        size = self.size()
        part = self.operand(size)
        if self.space(part) == "psum":
            return
        out = self.memory("hbm", part.dtype if self.choice.chance(60) else "float32", size, "plain")
        strides = tuple(row_major(size))
        self.issue("dma_copy", dst=Part(out, "", self.memories[out].dtype, 0, size, strides), src=part)

    def move(self) -> None:
        size = self.size()
        self.issue("tensor_copy", dst=self.operand(size, written=True), src=self.operand(size))

    def scalar(self) -> None:
        size = self.size()
        numbers = (2.0, 0.5, 0, -1, 3)
        arguments: dict[str, Any] = {"op0": op(self.choice.pick(ARITHMETIC)), "operand0": self.choice.pick(numbers)}
        if self.choice.chance(50):
            arguments |= {"op1": op(self.choice.pick(ARITHMETIC)), "operand1": self.choice.pick(numbers)}
        self.issue(
            "tensor_scalar", dst=self.operand(size, written=True, computed=True), data=self.operand(size), **arguments
        )

    def binary(self) -> None:
        size = self.size()
        left, right = self.operand(size), self.operand(size)
        if self.space(left) == self.space(right) == "psum":
            return
        same = self.choice.chance(30) and left.dtype == self.memories[left.memory].dtype
        out = left if same else self.operand(size, written=True, computed=True)
        self.issue("tensor_tensor", dst=out, data1=left, data2=right, op=op(self.choice.pick(ARITHMETIC)),
                   engine=member("engine", "vector"))  # fmt: skip

    def fill(self) -> None:
        part = self.operand(self.size(), written=True)
        self.issue("memset", dst=part, value=self.choice.pick((0, 1, 3)))

    def reduce(self) -> None:
        rows, columns = self.size()
        self.issue("tensor_reduce", dst=self.operand((rows, 1), written=True), op=op("add"),
                   data=self.operand((rows, columns)), axis=1)  # fmt: skip

    def activate(self) -> None:
        size = self.size()
        arguments: dict[str, Any] = {}
        if self.choice.chance(40):
            arguments["reduce_cmd"] = member("reduce_cmd", self.choice.pick(("reduce", "reset_reduce")))
        if self.choice.chance(40):
            arguments["reduce_res"] = self.operand((size[0], 1), written=True)
        self.issue("activation", dst=self.operand(size, written=True), op=op(self.choice.pick(("exp", "tanh", "copy"))),
                   data=self.operand(size), **arguments)  # fmt: skip

    def multiply(self) -> None:
        """A matmul, sometimes into the tile of the one before."""
        k, m, n = self.choice.pick((32, PARTITIONS)), self.choice.pick((4, 12)), self.choice.pick((4, 12))
        tiles = [i for i, t in enumerate(self.memories) if t.space == "sbuf" and t.dtype in ("bfloat16", "float16")]
        sums = [i for i, t in enumerate(self.memories) if t.space == "psum" and t.dtype == "float32"]
        if not tiles:
            tiles = [self.memory("sbuf", "bfloat16", (PARTITIONS, COLUMNS), "poison")]
        if not sums or self.choice.chance(30):
            sums = [self.memory("psum", "float32", (PARTITIONS, COLUMNS), "poison")]
        sides = [self.view(self.choice.pick(tiles), k, size, written=False) for size in (m, n)]
        place = self.choice.pick(sums)
        start = self.choice.pick((0, 4))
        dst = Part(place, f".reshape({(PARTITIONS, COLUMNS)})[0:{m}, {start}:{start + n}]", "float32", start, (m, n),
                   (COLUMNS, 1))  # fmt: skip
        again = dst if not self.choice.chance(20) else None
        for part in [dst] + ([again] if again else []):
            self.issue("nc_matmul", dst=part, stationary=sides[0], moving=sides[1],
                       accumulate=self.choice.pick((None, None, True, False)))  # fmt: skip


def draw_program(choice: Choice, arch: Arch, *, exact: bool, length: int = 24) -> Case:
    """A program of up to `length` instructions; `exact` ones have only steps that the references compute exactly."""
    writer = Writer(choice, arch, exact=exact)
    for _ in range(choice.integer(3, length)):
        writer.step()
    written = {
        part.memory for call in writer.calls for name, part in call.parts.items() if name in ("dst", "reduce_res")
    }
    last = [n for n in sorted(written) if writer.memories[n].space == "sbuf"]
    for number in last[: choice.integer(1, 3)]:
        memory = writer.memories[number]
        out = writer.memory("hbm", memory.dtype, memory.shape, "plain")
        strides = tuple(row_major(memory.shape))
        writer.issue("dma_copy", dst=Part(out, "", memory.dtype, 0, memory.shape, strides),
                     src=Part(number, "", memory.dtype, 0, memory.shape, strides))  # fmt: skip
    return Case(arch.target, tuple(writer.memories), tuple(writer.calls), {"matmul_order": "tile"})


def elements(case: Case) -> int:
    return sum(math.prod(memory.shape) for memory in case.memories)
