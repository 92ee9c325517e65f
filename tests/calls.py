"""Kernels as data: tensors, calls on views of them, the source text they make, and how it runs.

A `Case` is a kernel of a few instructions. `source` writes it as a kernel author would, `execute` traces that text and
runs it. Nothing about instructions is known here.
"""

from __future__ import annotations

import linecache
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.arch import arch_of
from nki_lab.isa.dtype import DTYPES, dtype_of
from nki_lab.isa.spec import TABLE
from nki_lab.kernel_runtime.ir import Program, verify
from nki_lab.kernel_runtime.issue.builder import Builder
from nki_lab.kernel_runtime.language import namespaces
from nki_lab.kernel_runtime.language.kernel_builder import KernelBuilder
from nki_lab.kernel_runtime.numerics.executor import Executor
from nki_lab.kernel_runtime.options import Options
from nki_lab.kernel_runtime.tensor import NkiTensor, shared_hbm
from nki_lab.kernel_runtime.tracer import trace
from tests.reference.grid import INTEGERS, Array, host, narrow


@dataclass(frozen=True, slots=True)
class Memory:
    """One tensor of the kernel. `flavour` names what it is filled with; `seen_as` the dtype its bytes make sense in.

    `values` are its contents where they matter, flat.
    """

    space: str
    dtype: str
    shape: tuple[int, ...]
    seed: int = 0
    flavour: str = "plain"
    seen_as: str = ""
    values: tuple[int, ...] = ()
    address: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A view of a tensor: `text` is what stands behind its name, the rest what that means in elements of `dtype`.

    With `index` the view's address is computed at run time: `kind` scalar adds index * `stride`, vector replaces the
    step of dimension 0; an index outside `lowest` to `highest` is skipped.
    """

    memory: int
    text: str
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    index: Part | None = None
    kind: str = ""
    stride: int = 0
    lowest: int = 0
    highest: int = 0


@dataclass(frozen=True, slots=True)
class Word:
    """An argument by its text in the kernel; `meaning` is what the references call it."""

    text: str
    meaning: Any = None


@dataclass(frozen=True, slots=True)
class Call:
    """One instruction; arguments are Parts, Words and Python's own constants, by keyword."""

    name: str
    arguments: Mapping[str, Any]

    def but(self, **changes: Any) -> Call:
        """The call with some arguments replaced."""
        return replace(self, arguments={**self.arguments, **changes})

    def without(self, name: str) -> Call:
        return replace(self, arguments={key: value for key, value in self.arguments.items() if key != name})

    @property
    def parts(self) -> dict[str, Part]:
        return {name: value for name, value in self.arguments.items() if isinstance(value, Part)}


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel: its target, tensors and instructions. `written` are the operands that instructions write."""

    target: str
    memories: tuple[Memory, ...]
    calls: tuple[Call, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def call(self) -> Call:
        """The last instruction, which the case is about."""
        return self.calls[-1]

    def with_call(self, call: Call, *more: Memory) -> Case:
        """The case with its last instruction replaced, and more tensors."""
        return replace(self, calls=(*self.calls[:-1], call), memories=(*self.memories, *more))


OUTPUTS = ("dst", "reduce_res")
# Tensors that nothing has written when the instructions start: of known contents, NaN or 4, and of none.
UNWRITTEN = ("poison", "none")


def outputs(case: Case) -> list[int]:
    """Numbers of the tensors that the case gives back: those in HBM that it writes, or all where it writes none."""
    found = [part.memory for call in case.calls for name, part in call.parts.items() if name in OUTPUTS]
    stored = [number for number in found if case.memories[number].space == "hbm"]
    return list(dict.fromkeys(stored or found))


# -- source ------------------------------------------------------------------------------------------------------------


def argument_text(value: Any) -> str:
    """An argument as it is written in the kernel."""
    if isinstance(value, Part):
        inner = value.text if value.index is None else value.text.replace("INDEX", argument_text(value.index))
        return f"t{value.memory}{inner}"
    if isinstance(value, Word):
        return value.text
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def source(case: Case) -> str:
    """The kernel as text."""
    inputs = ", ".join(f"x{number}" for number in range(len(case.memories)))
    lines = [f"def kernel({inputs}):"]
    for number, memory in enumerate(case.memories):
        lines += ["    " + line for line in _filling(number, memory)]
    for call in case.calls:
        given = ", ".join(_arguments(call))
        lines.append(f"    nisa.{call.name}({given})")
    lines.append(f"    return ({''.join(f't{number}, ' for number in outputs(case))})")
    return "\n".join(lines) + "\n"


def _arguments(call: Call) -> list[str]:
    """The arguments of a call; operands of a list come together where its first one stands."""
    groups = TABLE[call.name].groups
    listed = {name: group for group, names in groups.items() for name in names}
    written: list[str] = []
    for name, value in call.arguments.items():
        group = listed.get(name)
        if group is None:
            written.append(f"{name}={argument_text(value)}")
        elif name == groups[group][0]:
            inner = [argument_text(call.arguments[item]) for item in groups[group] if item in call.arguments]
            written.append(f"{group}=[{', '.join(inner)}]")
    return written


def _filling(number: int, memory: Memory) -> list[str]:
    """Lines that make a tensor and copy its input into it."""
    tile, given = f"t{number}", f"x{number}"
    place = f", address={memory.address}" if memory.address is not None else ""
    space = "shared_hbm" if memory.space == "hbm" else memory.space
    make = f"nl.ndarray({memory.shape}, nl.{memory.dtype}, buffer=nl.{space}{place})"
    if memory.flavour in UNWRITTEN:
        return [f"{tile} = {make}"]
    if memory.space == "hbm":
        return [f"{tile} = {given}"]
    if memory.space == "sbuf":
        return [f"{tile} = {make}", f"nisa.dma_copy({tile}, {given})"]
    stage = f"s{number}"
    lines = [f"{tile} = {make}", f"{stage} = nl.ndarray({memory.shape}, nl.{memory.dtype}, buffer=nl.sbuf)"]
    lines.append(f"nisa.dma_copy({stage}, {given})")
    wide_rows = math.prod(memory.shape[1:])
    if wide_rows <= 4096:
        return [*lines, f"nisa.tensor_copy({tile}, {stage})"]
    flat = (memory.shape[0], wide_rows)
    for start in range(0, wide_rows, 4096):
        cut = f".reshape({flat})[:, {start}:{min(start + 4096, wide_rows)}]"
        lines.append(f"nisa.tensor_copy({tile}{cut}, {stage}{cut})")
    return lines


# -- contents ----------------------------------------------------------------------------------------------------------


def contents(memory: Memory) -> Array:
    """What a tensor holds before the kernel's instructions."""
    kind = memory.seen_as or memory.dtype
    if memory.flavour == "poison":
        fresh = np.nan if DTYPES[memory.dtype].kind == "float" else 4
        return np.full(memory.shape, fresh).astype(host(memory.dtype))
    if memory.flavour == "none":
        return np.zeros(memory.shape, host(memory.dtype))
    if memory.values:
        return np.array(memory.values).astype(host(memory.dtype)).reshape(memory.shape)
    count = math.prod(memory.shape) * DTYPES[memory.dtype].nbytes // DTYPES[kind].nbytes
    rng = np.random.default_rng(memory.seed)
    values = _FLAVOURS[memory.flavour](rng, kind, count)
    return values.view(np.uint8).view(host(memory.dtype)).reshape(memory.shape)


def _plain(rng: np.random.Generator, dtype: str, count: int) -> Array:
    """Small numbers, so that sums and products stay far from overflow."""
    if dtype == "bool_":
        return rng.integers(0, 2, count).astype(np.bool_)
    if dtype in INTEGERS:
        low = 0 if dtype.startswith("u") else -20
        return rng.integers(low, 21, count).astype(dtype)
    if DTYPES[dtype].kind == "packed":
        return _bits(rng, dtype, count)
    return narrow(rng.standard_normal(count) * 2, dtype)


def _special(rng: np.random.Generator, dtype: str, count: int) -> Array:
    """Small numbers with zeros, infinities and NaN among them."""
    values = _plain(rng, dtype, count)
    if DTYPES[dtype].kind == "float":
        odd = narrow(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5]), dtype)
        at = rng.random(count) < 0.05
        values = np.where(at, odd[rng.integers(0, len(odd), count)], values).astype(values.dtype)
    return values


def _bits(rng: np.random.Generator, dtype: str, count: int) -> Array:
    """Any bit patterns: all magnitudes, subnormals, infinities, NaN; for integers the whole range."""
    if dtype == "bool_":
        return _plain(rng, dtype, count)
    kind = host(dtype)
    raw = rng.integers(0, 256, count * kind.itemsize, dtype=np.uint8)
    values = raw.view(kind)
    if dtype == "tfloat32":
        with np.errstate(all="ignore"):
            return narrow(values.astype(np.float64), dtype)
    if DTYPES[dtype].kind == "float":
        # Payloads of NaN are not kept, so that there is one NaN only.
        values = np.where(np.isnan(values.astype(np.float32)), narrow(np.array(np.nan), dtype), values).astype(kind)
    return values


def _edges(rng: np.random.Generator, dtype: str, count: int) -> Array:
    """Numbers where rounding and saturation are decided: halves, powers of two, ends of ranges, neighbours of all."""
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        some = [limits.min, limits.min + 1, 0, 1, 2, 3, 127, limits.max - 1, limits.max, limits.max // 2, 2**24 + 1]
        return np.array(some, np.int64).clip(limits.min, limits.max)[rng.integers(0, len(some), count)].astype(dtype)
    if DTYPES[dtype].kind != "float":
        return _bits(rng, dtype, count)
    some = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.5, 126.5, 127.5, 255.5, -128.5, 300.7, 448.0, 464.0, 480.0, 65504.0,
            65520.0, 32767.5, 2.0**31, 2.0**32, -(2.0**31), 1e10, 3.4e38, -3.4e38, 1e-40, 2.0**-24, np.inf,
            -np.inf, np.nan]  # fmt: skip
    base = np.array(some)[rng.integers(0, len(some), count)]
    nudge = np.array([0.0, 0.0, 2.0**-23, -(2.0**-23), 2.0**-8])[rng.integers(0, 5, count)]
    with np.errstate(all="ignore"):
        return narrow(base * (1 + nudge), dtype)


def _positive(rng: np.random.Generator, dtype: str, count: int) -> Array:
    """Numbers between one half and two, for products and powers."""
    if dtype in INTEGERS or dtype == "bool_":
        return rng.integers(1, 2, count).astype(host(dtype))
    return narrow(np.exp2(rng.random(count) * 2 - 1), dtype)


def _blocks(rng: np.random.Generator, dtype: str, count: int) -> Array:
    """What MX tiles hold: packed numbers that are finite, and scales around one."""
    if dtype == "uint8":
        return rng.integers(117, 138, count).astype(np.uint8)
    if dtype == "float8_e8m0fnu":
        return narrow(np.exp2(rng.integers(-10, 11, count)), dtype)
    if dtype == "float4_e2m1fn_x4":
        return rng.integers(0, 2**16, count).astype(np.uint16)
    if dtype in ("float8_e5m2_x4", "float8_e4m3fn_x4"):
        numbers = rng.standard_normal(4 * count) * np.exp2(rng.integers(-4, 5, 4 * count))
        return numbers.astype(host(dtype[:-3])).view(np.uint8).view(np.uint32)
    return _plain(rng, dtype, count)


_FLAVOURS: Mapping[str, Callable[[np.random.Generator, str, int], Array]] = {
    "plain": _plain, "special": _special, "bits": _bits, "edges": _edges, "positive": _positive, "blocks": _blocks,
}  # fmt: skip


# -- running -----------------------------------------------------------------------------------------------------------

NAMES = {"nl": types.SimpleNamespace(**namespaces.language_names()), "np": np, "ml_dtypes": ml_dtypes}


class Ran(NamedTuple):
    """What a case gave: the contents of the tensors it writes, by number, and what else was said."""

    written: dict[int, Array]
    diagnostics: list[Diagnostic]
    program: Program
    machine: Executor


def kernel_of(text: str, file: str = "<kernel>") -> Callable[..., Any]:
    """The function `kernel` of a source text, with `nl` and `nisa` as kernels see them; its lines can be shown."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = NAMES | {"nisa": types.SimpleNamespace(**namespaces.instruction_names()), "__name__": "kernels"}
    exec(compile(text, file, "exec"), names)
    function: Callable[..., Any] = names["kernel"]
    return function


def traced(function: Callable[..., Any], arrays: list[Array], dtypes: list[str], target: str,
           **options: Any) -> tuple[Program, Builder]:  # fmt: skip
    """A kernel traced over arrays that stand for its inputs, verified."""
    program = Program(function.__name__, arch_of(target), Options(**options))
    builder = KernelBuilder(program)
    tensors = [
        builder.allocate(array.shape, dtype_of(dtype), shared_hbm, kind="input")
        for array, dtype in zip(arrays, dtypes, strict=True)
    ]
    program.inputs = [tensor._buffer for tensor in tensors]
    trace(function, tuple(tensors), {}, builder)
    verify(program)
    return program, builder


def execute(case: Case, *, final: bool = True) -> Ran:
    """Trace the case's source and run it."""
    arrays = [contents(memory) for memory in case.memories]
    program, builder = traced(
        kernel_of(source(case)), arrays, [memory.dtype for memory in case.memories], case.target, **case.options
    )
    machine = Executor(program, dict(enumerate(arrays)))
    machine.run(final=final)
    found = dict(zip(outputs(case), (machine.read(tensor) for tensor in program.outputs), strict=True))
    return Ran(found, [*builder.notes, *machine.tracker.result.diagnostics], program, machine)


def tensor_of(program: Program, number: int) -> NkiTensor:
    """The number-th tensor that the program returns."""
    return program.outputs[number]
