"""The declared example of an instruction: as a use on a target, and as a program that runs it.

A tensor operand of an example reads `space dtype shape`, for instance "psum float32 64x512"; registers read "register",
or "register 7" for one that holds 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

import numpy as np

from nki_lab.isa.arch import GENERATIONS, Arch
from nki_lab.isa.dtype import dtype_of
from nki_lab.isa.spec import TABLE, Instruction, Operand, Use, show_value
from nki_lab.kernel_runtime.issue.legality import fixed_names, legalise, live_names
from nki_lab.kernel_runtime.language import namespaces
from nki_lab.kernel_runtime.tensor import Buffer, MemoryRegion, NkiTensor, VirtualRegister

_SPACES: Final = {"sbuf": MemoryRegion.sbuf, "psum": MemoryRegion.psum, "hbm": MemoryRegion.shared_hbm}
_COPY: Final = next(name for name, item in TABLE.items() if item.role == "copy" and item.engines == ("dma",))
_ON_CHIP_COPY: Final = next(name for name, item in TABLE.items() if item.role == "copy" and "dma" not in item.engines)
_STORE: Final = next(
    name
    for name, item in TABLE.items()
    if item.tensors and any(operand.kind == "register" for operand in item.operands.values())
)
_DRAWN: Final = {"f": "rng.standard_normal({shape}).astype({dtype})"}
_RANKS: Final = (0, 1)
"""The choices of an operand that names a core: each core of the example names the other one."""
_ZEROS: Final = "np.zeros({shape}, dtype={dtype})"
_HEAD: Final = """import ml_dtypes
import numpy as np

import nki_lab

nki_lab.activate()

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
"""


class _Tensor(NamedTuple):
    """A tensor operand of an example."""

    operand: Operand
    space: str
    dtype: str
    shape: tuple[int, ...]


def having(instruction: Instruction) -> tuple[Arch, ...]:
    """Return the targets that have an instruction, the oldest first."""
    return tuple(
        arch
        for arch in GENERATIONS.values()
        if instruction.since <= arch.generation <= (instruction.until or arch.generation)
    )


def use_of(instruction: Instruction, arch: Arch) -> Use:
    """Return the use of an instruction that its example is, on a target."""
    values = {
        name: _value(operand, instruction.example.get(name, operand.default))
        for name, operand in instruction.operands.items()
    }
    live = tuple(values[name] for name in live_names(instruction))
    use, _ = legalise(instruction, live, tuple(values[name] for name in fixed_names(instruction)), arch)
    return use


def _value(operand: Operand, value: Any) -> Any:
    """Return an argument of an example: a tensor, a register, or the attribute itself."""
    if operand.is_tensor and isinstance(value, str):
        _, space, dtype, shape = _tensor(operand, value)
        return NkiTensor(shape, dtype, Buffer(0, _SPACES[space], dtype_of(dtype), shape))
    if operand.kind.startswith("register") and isinstance(value, str):
        return VirtualRegister(None, False, id=0)
    return value


def _tensor(operand: Operand, text: str) -> _Tensor:
    space, dtype, sizes = text.split()
    return _Tensor(operand, space, dtype, tuple(int(size) for size in sizes.split("x")))


# -- as a program --------------------------------------------------------------------------------------------------


def program_of(instruction: Instruction) -> str:
    """Return a program that calls an instruction in a kernel, runs the kernel and prints the result.

    The arrays that come in are random numbers, and zeros where the dtype is an integer or has no NumPy counterpart. The
    target is the oldest one that has the instruction, from trn2 on where that has it too.
    """
    tensors = {
        name: _tensor(instruction.operands[name], value)
        for name, value in instruction.example.items()
        if instruction.operands[name].is_tensor and isinstance(value, str)
    }
    cores = _cores(instruction)
    given = [name for name, item in tensors.items() if item.operand.role != "out"]
    calls = [f"{name} = {_array(tensors[name])}" for name in given]
    if not given:  # a kernel takes at least one tensor
        given, calls = ["unused"], ["unused = np.zeros((1, 1), dtype=np.float32)"]
    lines = [f"def example({', '.join(given)}):"]
    lines += [f"    {line}" for line in _body(instruction, tensors)]
    drawn = ["rng = np.random.default_rng(0)"] if any("rng." in line for line in calls) else []
    target = next((arch for arch in having(instruction) if arch.generation >= 3), having(instruction)[0]).target
    grid = f", grid={cores}" if cores > 1 else ""
    start = f'run = nki_lab.run({", ".join(["example", *given])}, target="{target}"{grid})'
    shown = ["for output in run.outputs:", "    print(output.dtype, output.shape)"]
    shown.append('print(f"{run.summary.makespan_ns:.0f} ns")')
    body = "\n".join([*lines, "", "", *drawn, *calls, start, *shown])
    head = _HEAD if "ml_dtypes." in body else _HEAD.removeprefix("import ml_dtypes\n")
    return f"{head}{body}\n"


def _cores(instruction: Instruction) -> int:
    """Return the cores that an example speaks of: an instruction that waits for the other core needs it."""
    use = use_of(instruction, having(instruction)[-1])
    return 1 if instruction.synchronizes is None or instruction.synchronizes(use) is None else 2


def _array(item: _Tensor) -> str:
    """Return the expression of an array that comes in."""
    kind = dtype_of(item.dtype)
    host = kind.host
    name = np.dtype(host).name
    spelled = f"np.{name}" if hasattr(np, name) else f"ml_dtypes.{name}"
    if kind.kind == "packed":
        return f"np.zeros({item.shape}, dtype=nl.{item.dtype})"
    pattern = _DRAWN.get(kind.kind[0], _ZEROS)
    return pattern.format(shape=item.shape, dtype=spelled)


def _body(instruction: Instruction, tensors: Mapping[str, _Tensor]) -> Iterator[str]:
    """Yield the lines of the kernel: tiles with their contents, the call, and what it wrote as results."""
    tiles = {name: name if _stays(item) else f"{name}_tile" for name, item in tensors.items()}
    for name, item in tensors.items():
        yield from _filled(name, tiles[name], item)
    register = instruction.register_out
    for name, value in instruction.example.items():
        if instruction.operands[name].kind.startswith("register") and isinstance(value, str):
            start = value.removeprefix("register").strip()
            yield f"{name} = nisa.register_alloc({start})"
            tiles[name] = name
    yield from _call(instruction, tiles)
    written = [name for name, item in tensors.items() if item.operand.role == "out"]
    if register:
        yield "number = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)"
        yield f"nisa.{_STORE}(dst=number, src={register})"
        tensors = {**tensors, "number": _Tensor(next(iter(instruction.operands.values())), "sbuf", "int32", (1, 1))}
        tiles["number"] = "number"
        written.append("number")
    written = written or list(tensors)[:1]
    for name in written:
        yield from _returned(name, tiles[name], tensors[name])
    yield f"return {', '.join(f'{name}_result' for name in written)}"


def _stays(item: _Tensor) -> bool:
    """Whether the parameter, or the result, bears the operand's own name in the kernel."""
    return item.operand.role == "out" or item.space == "hbm"


def _made(tile: str, item: _Tensor, space: str) -> str:
    return f"{tile} = nl.ndarray({item.shape}, dtype=nl.{item.dtype}, buffer=nl.{space})"


def _filled(name: str, tile: str, item: _Tensor) -> Iterator[str]:
    """Yield the lines that make a tile, and copy into it what comes in."""
    if item.operand.role == "out":
        yield _made(tile, item, "shared_hbm" if item.space == "hbm" else item.space)
    elif item.space == "sbuf":
        yield _made(tile, item, "sbuf")
        yield f"nisa.{_COPY}(dst={tile}, src={name})"
    elif item.space == "psum":
        yield _made(f"{name}_loaded", item, "sbuf")
        yield f"nisa.{_COPY}(dst={name}_loaded, src={name})"
        yield _made(tile, item, "psum")
        yield f"nisa.{_ON_CHIP_COPY}(dst={tile}, src={name}_loaded)"


def _returned(name: str, tile: str, item: _Tensor) -> Iterator[str]:
    """Yield the lines that copy a tile to a result in HBM."""
    source = tile
    if item.space == "psum":
        source = f"{name}_copied"
        yield _made(source, item, "sbuf")
        yield f"nisa.{_ON_CHIP_COPY}(dst={source}, src={tile})"
    yield _made(f"{name}_result", item, "shared_hbm")
    yield f"nisa.{_COPY}(dst={name}_result, src={source})"


def _call(instruction: Instruction, tiles: Mapping[str, str]) -> Iterator[str]:
    """Yield the call, broken into a line for each argument where it is long."""
    listed = {name: group for group, names in instruction.groups.items() for name in names}
    given: dict[str, Any] = {}
    for name, value in instruction.example.items():
        text = tiles.get(name) or _spelled(instruction.operands[name], value)
        if name in listed:
            given.setdefault(listed[name], []).append(text)
        else:
            given[name] = text
    arguments = [
        f"{name}=[{', '.join(value)}]" if isinstance(value, list) else f"{name}={value}"
        for name, value in given.items()
    ]
    line = f"nisa.{instruction.name}({', '.join(arguments)})"
    if len(line) <= 100:
        yield line
        return
    yield f"nisa.{instruction.name}("
    yield from (f"    {argument}," for argument in arguments)
    yield ")"


def _spelled(operand: Operand, value: Any) -> str:
    """Return an attribute as it is written in a kernel."""
    if isinstance(value, str) and value in namespaces.language_names():
        return f"nl.{value}"
    if operand.choices == _RANKS:
        return f"{value} - nl.program_id(0)"
    return f"nisa.{show_value(value)}" if isinstance(value, Enum) else show_value(value)
