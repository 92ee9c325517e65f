"""Parts that legal calls are drawn from: dtypes, sizes, numbers, tiles and names."""

from __future__ import annotations

from typing import Any

from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import DTYPES
from tests.calls import Part, Word
from tests.draws import Choice, Scene, factors

INTEGERS = ("int32", "uint32", "int16", "uint16", "int8", "uint8")
PACKED = ("float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4")
FLAVOURS = ("plain", "special", "bits", "edges")
BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
ARITHMETIC = (
    "add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal", "greater_equal", "greater",
    "less_equal", "less", "logical_and", "logical_or", "logical_xor",
)  # fmt: skip


def op(name: str) -> Word:
    """An operator or a function of nl, as an argument."""
    return Word(f"nl.{name}", name)


def member(kind: str, name: str) -> Word:
    return Word(f"nisa.{kind}.{name}", name)


def dtypes_of(arch: Arch) -> tuple[str, ...]:
    """Every dtype that can be computed with on the target, the usual ones first."""
    usual = ("float32", "bfloat16", "float16", "int32")
    others = [n for n, d in DTYPES.items() if n not in usual and d.kind != "packed" and d.since <= arch.generation]
    return (*usual, *others)


def draw_dtype(choice: Choice, arch: Arch) -> str:
    names = dtypes_of(arch)
    return choice.pick(names[:2]) if choice.chance(40) else choice.pick(names)


def draw_integers(choice: Choice, count: int) -> list[str]:
    """Integer dtypes for the operands of a bit operator: mostly of one width."""
    width = choice.pick(("32", "16", "8"))
    mixed = choice.chance(15)
    return [choice.pick(("int", "uint")) + (choice.pick(("32", "16", "8")) if mixed else width) for _ in range(count)]


def draw_partitions(choice: Choice, most: int = 128) -> int:
    """A number of partitions, those beside quadrants and halves often."""
    found = choice.pick((1, 2, 128, 3, 31, 32, 33, 64, 65, 127)) if choice.chance(70) else choice.integer(1, 128)
    return min(found, most)


def draw_free(choice: Choice, most: int = 1 << 16) -> int:
    """Elements per partition: mostly small, sometimes around powers of two, seldom many."""
    kind = choice.integer(0, 9)
    if kind < 6:
        return min(most, choice.integer(1, 24))
    if kind < 9:
        return min(most, choice.pick((32, 64, 100, 127, 128, 129, 511, 512, 513)))
    return min(most, choice.pick((1000, 2048, 4095, 4096, 65536)))


def draw_shape(scene: Scene, *, most: int = 4096) -> tuple[int, int]:
    """Partitions and elements per partition that stay quick."""
    columns = draw_free(scene.choice, most)
    return draw_partitions(scene.choice, max(1, (1 << 17) // columns)), columns


def draw_flavour(choice: Choice) -> str:
    return choice.pick(FLAVOURS)


def tile(scene: Scene, space: str, dtype: str, shape: tuple[int, int], **more: Any) -> Part:
    """A view of P partitions and F elements, the latter in any free shape."""
    return scene.part(space, dtype, (shape[0], *factors(scene.choice, shape[1])), **more)


def column(scene: Scene, dtype: str, partitions: int, *, spaces: tuple[str, ...] = ("sbuf", "sbuf", "psum"),
           **more: Any) -> Part:  # fmt: skip
    """A tile of one column."""
    return scene.part(put(scene, spaces), dtype, (partitions, 1), **more)


def number(choice: Choice) -> float | int:
    return choice.pick((1.0, 2, -1.5, 0, 0.1, -3, 1e-3, 12345.678, 2.0**-126, 1e30, 1e39, float("inf"), float("nan")))


def put(scene: Scene, spaces: tuple[str, ...]) -> str:
    return scene.choice.pick(spaces)


def output(scene: Scene, space: str, shape: tuple[int, int], sources: list[Part], dtype: str) -> Part:
    """dst: a tensor of its own, or the very view of a source."""
    if sources and scene.choice.chance(15):
        same = scene.choice.pick(sources)
        if same.text == "" or same.text.startswith("["):
            return same
    return tile(scene, space, dtype, shape, written=True)
