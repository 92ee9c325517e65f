"""Where drawn values come from, and how drawn tensors and views are laid out.

Everything random is drawn through a `Choice`, in whole numbers with the simplest one first. So the same generators run
under hypothesis, at full speed from a seed, and again from a tape of numbers, which is how a failure is made small.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from nki_lab.isa.arch import Arch, legal_starts
from nki_lab.isa.dtype import DTYPES
from tests.calls import Memory, Part

T = TypeVar("T")


class Choice:
    """Draws whole numbers; subclasses say from where."""

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both included; low is the simplest."""
        raise NotImplementedError

    def pick(self, options: Sequence[T]) -> T:
        """One of the options; the first is the simplest."""
        return options[self.integer(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        """True in about that many of a hundred draws; False is the simplest."""
        return self.integer(0, 99) >= 100 - percent


class Seeded(Choice):
    """Draws from a seed, and keeps what it drew."""

    def __init__(self, seed: int) -> None:
        self.tape: list[int] = []
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        value = low + self._random.getrandbits(32) % (high - low + 1)
        self.tape.append(value - low)
        return value


class Replayed(Choice):
    """Draws from a tape of distances from the simplest; what is beyond its end, or too large, is the simplest."""

    def __init__(self, tape: Sequence[int]) -> None:
        self.tape: list[int] = []
        self._given = iter(tape)

    def integer(self, low: int, high: int) -> int:
        step = next(self._given, 0)
        step = step if step <= high - low else 0
        self.tape.append(step)
        return low + step


class Drawn(Choice):
    """Draws through hypothesis."""

    def __init__(self, integers: Callable[[int, int], int]) -> None:
        self._integers = integers

    def integer(self, low: int, high: int) -> int:
        return self._integers(low, high)


def factors(choice: Choice, count: int, most: int = 3) -> tuple[int, ...]:
    """`count` elements as a shape of up to `most` dimensions."""
    shape = [count]
    for _ in range(choice.integer(0, most - 1)):
        divisors = [n for n in range(1, min(shape[-1], 64) + 1) if shape[-1] % n == 0]
        cut = choice.pick(divisors)
        shape[-1:] = [cut, shape[-1] // cut] if choice.chance(50) else [shape[-1] // cut, cut]
    return tuple(shape)


def row_major(shape: Sequence[int]) -> list[int]:
    steps = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        steps[k] = steps[k + 1] * shape[k + 1]
    return steps


@dataclass
class Scene:
    """The tensors of one drawn kernel; `part` adds one together with a view of it."""

    choice: Choice
    arch: Arch
    memories: list[Memory] = field(default_factory=list)

    def memory(self, space: str, dtype: str, shape: Sequence[int], **more: Any) -> int:
        """A tensor; gives its number."""
        seed = self.choice.integer(0, 10_000)
        self.memories.append(Memory(space, dtype, tuple(shape), seed=seed, **more))
        return len(self.memories) - 1

    def room(self, space: str, dtype: str) -> int:
        """Elements that fit a partition."""
        size = self.arch.psum_partition_bytes if space == "psum" else self.arch.sbuf_usable_bytes
        return min(size // DTYPES[dtype].nbytes, 1 << 18)

    def part(self, space: str, dtype: str, shape: Sequence[int], *, written: bool = False, flavour: str = "plain",
             plain: bool = False) -> Part:  # fmt: skip
        """A view of `shape` in one of the layouts that kernels write; a `written` one names no element twice."""
        layouts = [_whole] if plain else [_whole, _whole, _sliced, _sliced, _permuted, _pattern, _reshaped, _cast,
                                          _dropped, _whole if written else _broadcast]  # fmt: skip
        made = self.choice.pick(layouts)(self, space, dtype, tuple(shape), written, flavour)
        if made is not None and self._fits(made):
            return made
        return _whole(self, space, dtype, tuple(shape), written, flavour)

    def _fits(self, part: Part) -> bool:
        """Whether the tensor fits the memory and is not too large to be quick; else it is dropped again."""
        memory = self.memories[part.memory]
        row = math.prod(memory.shape[1:])
        if math.prod(memory.shape) <= 1 << 18 and (
            memory.space == "hbm" or row <= self.room(memory.space, memory.dtype)
        ):
            return True
        self.memories.pop()
        return False

    def first(self, space: str, partitions: int) -> int:
        """A partition where a view of so many may start."""
        if space == "hbm":
            return self.choice.integer(0, 3)
        starts = [start for start in legal_starts(partitions) if start + partitions <= 128]
        return self.choice.pick(starts or [0])

    def shifted(self, space: str, dtype: str, partitions: int, columns: int, flavour: str) -> tuple[Part, Part]:
        """Two views of one tensor that overlap without being the same."""
        by = self.choice.integer(1, 3)
        number = self.memory(space, dtype, (partitions, columns + by), flavour=flavour)
        left, right = (
            Part(number, f"[:, {start}:{start + columns}]", dtype, start, (partitions, columns), (columns + by, 1))
            for start in (0, by)
        )
        return (left, right) if self.choice.chance(50) else (right, left)


Layout = Callable[[Scene, str, str, tuple[int, ...], bool, str], "Part | None"]


def _whole(scene: Scene, space: str, dtype: str, shape: tuple[int, ...], _written: bool, flavour: str) -> Part:
    number = scene.memory(space, dtype, shape, flavour=flavour)
    return Part(number, "", dtype, 0, shape, tuple(row_major(shape)))


def _sliced(scene: Scene, space: str, dtype: str, shape: tuple[int, ...], _written: bool, flavour: str) -> Part:
    choice = scene.choice
    sizes, starts, steps, texts = [], [], [], []
    for dim, count in enumerate(shape):
        step = 1 if dim == 0 and space != "hbm" else choice.pick((1, 1, 1, 2, 3))
        start = scene.first(space, count) if dim == 0 else choice.integer(0, 3)
        end = start + (count - 1) * step + 1
        sizes.append(end + (choice.integer(0, 2) if dim or end < 127 else 0))
        starts.append(start)
        steps.append(step)
        texts.append(f"{start}:{end}" + (f":{step}" if step > 1 else ""))
    number = scene.memory(space, dtype, sizes, flavour=flavour)
    rows = row_major(sizes)
    offset = sum(start * row for start, row in zip(starts, rows, strict=True))
    strides = tuple(step * row for step, row in zip(steps, rows, strict=True))
    return Part(number, f"[{', '.join(texts)}]", dtype, offset, shape, strides)


def _permuted(
    scene: Scene, space: str, dtype: str, shape: tuple[int, ...], _written: bool, flavour: str
) -> Part | None:
    fixed = 0 if space == "hbm" else 1
    moving = list(range(fixed, len(shape)))
    if len(moving) < 2:
        return None
    order = list(range(fixed))
    while moving:
        order.append(moving.pop(scene.choice.integer(0, len(moving) - 1)))
    sizes = [0] * len(shape)
    for dim, source in enumerate(order):
        sizes[source] = shape[dim]
    number = scene.memory(space, dtype, sizes, flavour=flavour)
    rows = row_major(sizes)
    return Part(number, f".permute({tuple(order)})", dtype, 0, shape, tuple(rows[source] for source in order))


def _pattern(scene: Scene, space: str, dtype: str, shape: tuple[int, ...], written: bool, flavour: str) -> Part:
    """An explicit access pattern: gaps anywhere, and for reading also repeated, overlapping and backward steps."""
    choice = scene.choice
    on_chip = space != "hbm"
    free = list(shape[1:] if on_chip else shape)
    order = list(range(len(free)))
    if choice.chance(30):
        order.reverse()
    steps = [0] * len(free)
    reach = 1
    for dim in reversed(order):
        steps[dim] = reach + choice.pick((0, 0, 1, 5))
        if not written and choice.chance(25):
            steps[dim] = choice.pick((0, 1, -1))
        reach += abs(steps[dim]) * (free[dim] - 1)
    low = sum(min(0, step * (size - 1)) for step, size in zip(steps, free, strict=True))
    high = sum(max(0, step * (size - 1)) for step, size in zip(steps, free, strict=True))
    before, after = choice.integer(0, 2), choice.integer(0, 2)
    row = before - low + high + 1 + after
    start = before - low
    pairs = list(zip(steps, free, strict=True))
    if on_chip:
        first = scene.first(space, shape[0])
        number = scene.memory(space, dtype, (first + shape[0], row), flavour=flavour)
        start += first * row
        pairs.insert(0, (row, shape[0]))
    else:
        number = scene.memory(space, dtype, (row,), flavour=flavour)
    text = f".ap({[list(pair) for pair in pairs]}, offset={start})"
    return Part(number, text, dtype, start, shape, tuple(step for step, _ in pairs))


def _reshaped(scene: Scene, space: str, dtype: str, shape: tuple[int, ...], _written: bool, flavour: str) -> Part:
    count = math.prod(shape[1:])
    sizes = (shape[0], *factors(scene.choice, count)) if len(shape) < 3 else (shape[0], count)
    number = scene.memory(space, dtype, sizes, flavour=flavour)
    return Part(number, f".reshape({shape})", dtype, 0, shape, tuple(row_major(shape)))


def _cast(scene: Scene, space: str, dtype: str, shape: tuple[int, ...], _written: bool, flavour: str) -> Part | None:
    """A tensor of another dtype, reinterpreted."""
    names = ("uint8", "int8", "int16", "uint16", "bfloat16", "int32", "uint32", "float32", "float16")
    other = scene.choice.pick(names)
    last, odd = divmod(shape[-1] * DTYPES[dtype].nbytes, DTYPES[other].nbytes)
    if odd or not last or dtype == "bool_" or len(shape) < 2:
        return None
    number = scene.memory(space, other, (*shape[:-1], last), flavour=flavour, seen_as=dtype)
    return Part(number, f".view(nl.{dtype})", dtype, 0, shape, tuple(row_major(shape)))


def _dropped(scene: Scene, space: str, dtype: str, shape: tuple[int, ...], _written: bool, flavour: str) -> Part | None:
    """One place of a further dimension."""
    if len(shape) < 2:
        return None
    at = scene.choice.integer(1, len(shape) - 1)
    size = scene.choice.integer(1, 3)
    place = scene.choice.integer(0, size - 1)
    sizes = (*shape[:at], size, *shape[at:])
    number = scene.memory(space, dtype, sizes, flavour=flavour)
    rows = row_major(sizes)
    text = ", ".join([":"] * at + [str(place)] + [":"] * (len(shape) - at))
    strides = tuple(rows[:at] + rows[at + 1 :])
    return Part(number, f"[{text}]", dtype, place * rows[at], shape, strides)


def _broadcast(
    scene: Scene, space: str, dtype: str, shape: tuple[int, ...], _written: bool, flavour: str
) -> Part | None:
    fixed = 0 if space == "hbm" else 1
    if len(shape) <= fixed:
        return None
    dim = scene.choice.integer(fixed, len(shape) - 1)
    sizes = (*shape[:dim], 1, *shape[dim + 1 :])
    number = scene.memory(space, dtype, sizes, flavour=flavour)
    rows = row_major(sizes)
    rows[dim] = 0
    return Part(number, f".broadcast({dim}, {shape[dim]})", dtype, 0, shape, tuple(rows))
