"""The examples of the declarations, and the cases of their predicates, as kernels.

An operand reads `space dtype shape`, for instance "psum float32 64x512"; then `of 64x768 at 256` makes it a slice of a
wider tensor from free element 256 on, `of 128x512 row 32` one from partition 32 on, and `rows` a gather of rows that an
index tensor names at run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from nki_lab.isa.arch import Arch
from nki_lab.isa.spec import Instruction, Operand
from tests.calls import Call, Case, Memory, Part, Word
from tests.draws import row_major


def example(instruction: Instruction, arch: Arch, overrides: Mapping[str, Any] | None = None) -> Case:
    """The declared example with some arguments replaced, on a target."""
    memories: list[Memory] = []
    arguments: dict[str, Any] = {}
    for name, value in {**instruction.example, **(overrides or {})}.items():
        operand = instruction.operands[name]
        is_view = operand.is_tensor and isinstance(value, str)
        arguments[name] = view(value, memories) if is_view else constant(operand, value)
    return Case(arch.target, tuple(memories), (Call(instruction.name, arguments),))


def view(text: str, memories: list[Memory]) -> Part:
    """The view that an operand's text describes; its tensors are added to `memories`."""
    space, dtype, sizes, *more = text.split()
    shape = _sizes(sizes)
    if more[:1] == ["of"]:
        whole, start = _sizes(more[1]), int(more[3])
        memories.append(Memory(space, dtype, whole))
        if more[2] == "row":
            return Part(
                len(memories) - 1, f"[{start}:{start + shape[0]}]", dtype, start * whole[1], shape, (whole[1], 1)
            )
        cut = f"[:, {start}:{start + shape[1]}]"
        return Part(len(memories) - 1, cut, dtype, start, shape, (whole[1], 1))
    if more == ["rows"]:
        lanes, turns = min(shape[0], 128), -(-shape[0] // 128)
        memories.append(Memory("sbuf", "int32", (lanes, turns), values=tuple(range(lanes * turns))))
        index = Part(len(memories) - 1, "", "int32", 0, (lanes, turns), (turns, 1))
        memories.append(Memory(space, dtype, shape))
        cut = f".ap([[{shape[1]}, {shape[0]}], [1, {shape[1]}]], vector_offset=INDEX)"
        return Part(len(memories) - 1, cut, dtype, 0, shape, (shape[1], 1), index, "vector", shape[1], 0, shape[0] - 1)
    if more == ["picked"]:
        lists = -(-shape[1] // 16)
        memories.append(Memory("sbuf", "uint16", (shape[0], lists), values=(0,) * (shape[0] * lists)))
        index = Part(len(memories) - 1, "", "uint16", 0, (shape[0], lists), (lists, 1))
        memories.append(Memory(space, dtype, shape))
        cut = f".indirect(INDEX, {shape[1]})"
        return Part(len(memories) - 1, cut, dtype, 0, shape, (shape[1], 1), index, "gather", 1, 0, shape[1] - 1)
    if more:
        raise ValueError(f"an operand of an example reads {text!r}")
    memories.append(Memory(space, dtype, shape))
    return Part(len(memories) - 1, "", dtype, 0, shape, tuple(row_major(shape)))


def constant(operand: Operand, value: Any) -> Any:
    """An attribute as an argument: operators and enumerations by their names in the kernel.

    "register" is a fresh register, "register 7" one that holds 7.
    """
    if operand.kind.startswith("register") and isinstance(value, str):
        number = value.removeprefix("register").strip()
        return Word(f"nisa.register_alloc({number})", int(number) if number else None)
    if operand.kind in ("alu", "activation") and isinstance(value, str):
        return Word(f"nl.{value}" if value not in ("average", "bypass") else repr(value), value)
    if isinstance(value, Enum):
        return Word(f"nisa.{type(value).__name__}.{value.name}", value.name)
    return value


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split("x"))
