"""Legality checks the operands of an instruction against its declaration.

Works on view types, so that the answer holds for every call with the same types and attributes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from numbers import Number
from operator import index
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import Diagnostic, NkiError, coded_error, diagnose
from nki_lab.isa import enums
from nki_lab.isa.activation import ACTIVATIONS, Activation, activation_of
from nki_lab.isa.alu import ALU, AluOp, alu_of
from nki_lab.isa.arch import ENGINE_REACH, TARGETS, Arch, legal_starts
from nki_lab.isa.dtype import DTYPES, PACKED, DType
from nki_lab.isa.spec import REQUIRED, Instruction, Operand, Predicate, Register, Use, show_value
from nki_lab.kernel_runtime.issue import gathers
from nki_lab.kernel_runtime.issue.gathers import Problem
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor, ViewType, VirtualRegister, view_type


class _AnySize(int):
    """A size that is not known: products with it are not known either."""

    def __mul__(self, other: object) -> Any:
        return self

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return "?"


ANY_SIZE: Final = _AnySize(1)
"""Stands for the sizes that are not known of the view of a partly known call."""


def legalise(
    instruction: Instruction,
    live: tuple[object, ...],
    fixed: tuple[object, ...],
    arch: Arch,
    *,
    dialect: str = "current",
    every: bool = False,
) -> tuple[Use, tuple[Diagnostic, ...]]:
    """Check one call against the declaration; return its use, and findings that do not stop it.

    Raises the coded error of the first thing that is wrong; of `every` one, as far as they are seen.
    """
    values = dict(zip(live_names(instruction), live, strict=True)) | dict(
        zip(fixed_names(instruction), fixed, strict=True)
    )
    _require_target(instruction, arch)
    notes: list[Diagnostic] = []
    types: dict[str, ViewType | None] = {}
    attrs: dict[str, Any] = {}
    for name, operand in instruction.operands.items():
        value = values[name]
        if value is REQUIRED:
            raise missing(instruction, name)
        if operand.is_tensor:
            types[name], scalar = tensor_or_number(instruction, operand, value)
            if operand.scalar or operand.optional:
                attrs[name] = scalar
        else:
            attrs[name] = attribute(instruction, operand, value, notes)
    use = Use(instruction, arch, types, attrs, {}, dialect=dialect)
    notes += noted(instruction, types, _problems(use), every=every)
    if instruction.warns is not None:
        notes += instruction.warns(use)
    return use, tuple(notes)


def is_legal(use: Use) -> bool:
    """Return whether a call is legal; its sizes and its engine are entered on the way."""
    return next(_problems(use), None) is None


def _problems(use: Use) -> Iterator[Problem]:
    """Find problems of a use, in the order in which they count; its sizes and its engine are entered on the way."""
    instruction = use.instruction
    present = {name: view for name, view in use.types.items() if view is not None}
    for name, view in present.items():
        yield from _operand_problems(use, instruction.operands[name], view)
    yield from size_problems(use)
    yield from _engine_problems(use)
    if instruction.limits:
        sizes = {f"{name}_bytes": 0 if dtype is None else dtype.nbytes for name, dtype in use.dtypes.items()}
        yield from limit_problems(instruction, dict(use.dims) | sizes, use.arch)
    found = (predicate_problem(item, use) for item in instruction.predicates)
    yield from (problem for problem in found if problem is not None)
    if instruction.precision(use) == "float32":
        yield from _packed_numbers(present)
    for name, view in present.items():
        if view.on_chip:
            yield from partition_problems(name, view, use.arch)
        if view.on_chip and use.engine != "dma":
            yield from _access_problems(use, instruction.operands[name], view)
    yield from gathers.problems(use)


_STEP_END = 2**15  # steps of an engine's access pattern are signed 16-bit numbers of elements


@cache
def _groups(instruction: Instruction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    varying = ("number", "pattern", "register_or_int")
    live = tuple(n for n, o in instruction.operands.items() if o.is_tensor or o.kind in varying)
    return live, tuple(n for n in instruction.operands if n not in live)


def live_names(instruction: Instruction) -> tuple[str, ...]:
    """Return the operands whose values vary from call to call: tensors, scalars and numbers."""
    return _groups(instruction)[0]


def fixed_names(instruction: Instruction) -> tuple[str, ...]:
    """Return the other attributes: operators, enumerations, flags."""
    return _groups(instruction)[1]


def noted(
    instruction: Instruction,
    types: Mapping[str, ViewType | None],
    problems: Iterable[Problem],
    *,
    every: bool = False,
) -> list[Diagnostic]:
    """Return the findings that do not stop a call; raises the error of the first one that does, or of `every` one."""
    notes: list[Diagnostic] = []
    first: NkiError | None = None
    try:
        for problem in problems:
            error = _refusal(instruction, types, problem)
            if error.diagnostics[0].outcome != "fault":
                notes += error.diagnostics
            elif first is None:
                first = error
                if not every:
                    break
            else:
                first.diagnostics += error.diagnostics
    except Exception:
        if first is None:  # what one fault leads to is none of ours
            raise
    if first is not None:
        raise first
    return notes


def _refusal(instruction: Instruction, types: Mapping[str, ViewType | None], problem: Problem) -> NkiError:
    view = types.get(problem.operand)
    note = f"{problem.operand}: {describe(view)}" if view is not None else ""
    needs, limit = _NEEDS.search(problem.message), problem.limit
    if needs is not None:
        limit = f"{limit}; targets: {', '.join(targets_from(int(needs[1])))}"
    return coded_error(
        problem.code,
        f"{instruction.name}: {problem.message}",
        operand=problem.operand,
        note=note,
        limit=limit,
        help=problem.help,
        measured=problem.measured,
    )


_NEEDS = re.compile(r"\b(?:needs?|from) NeuronCore-v(\d)")


def targets_from(since: int, until: int | None = None) -> list[str]:
    """Return the targets whose NeuronCore generation is in a range."""
    names = sorted(name for name in TARGETS if name.startswith(("trn", "inf")))
    return [name for name in names if since <= TARGETS[name].generation <= (until or TARGETS[name].generation)]


def describe(view: ViewType) -> str:
    """Describe a view in a message: shape, dtype, memory."""
    memory = {"sbuf": "SBUF", "psum": "PSUM"}.get(view.space.value, "HBM")
    return f"{tuple(view.shape)} {view.dtype.name} in {memory}"


def _require_target(instruction: Instruction, arch: Arch) -> None:
    if instruction.since <= arch.generation and (instruction.until is None or arch.generation <= instruction.until):
        return
    have = targets_from(instruction.since, instruction.until)
    raise coded_error(
        "NKI209",
        f"{instruction.name}: {arch.name} does not have this instruction",
        limit=f"targets with {instruction.name}: {', '.join(have)}",
        help=f"choose target={have[0]!r}, or use instructions that {arch.name} has" if have else "",
    )


def missing(instruction: Instruction, name: str) -> NkiError:
    """Return the error of a call without an operand, NKI003."""
    doc = instruction.operands[name].doc
    name = next((group for group, members in instruction.groups.items() if name in members), name)
    return coded_error(
        "NKI003",
        f"{instruction.name}: argument {name} is missing",
        operand=name,
        limit=instruction.signature(),
        help=f"{name}: {doc}",
    )


def tensor_or_number(instruction: Instruction, operand: Operand, value: object) -> tuple[ViewType | None, object]:
    """Return the type of the view that is the value of an operand, or the number or None in its place."""
    if value.__class__ is NkiTensor or isinstance(value, NkiTensor):
        return view_type(value), None
    if value is None and (operand.optional or operand.default is None):
        return None, None
    if operand.scalar and _is_number(value):
        return None, value.item() if isinstance(value, np.generic) else value
    wanted = "a tensor or a number" if operand.scalar else "a tensor"
    kind = type(value).__name__
    found = _NO_TENSORS.get(kind, f"{show_value(value)} ({kind})")
    if kind == "NkiInstruction":
        hint = "nisa functions write to dst and return no tensor: pass the tensor that was its dst"
    elif kind in ("ndarray", "Tensor", "Array"):
        hint = "pass arrays as arguments of the kernel, or make a tile with nl.ndarray and copy into it"
    else:
        hint = operand.former or f"{operand.name}: {operand.doc}"
    raise _must_be("NKI013", instruction, operand, found, wanted, hint)


_NO_TENSORS: Final = {
    "ndarray": "a NumPy array",
    "Tensor": "a framework tensor",
    "NkiInstruction": "the handle of an instruction",
}


def _must_be(
    code: str, instruction: Instruction, operand: Operand, found: str, wanted: str, remedy: str = ""
) -> NkiError:
    """Return the error of an argument that is `found` and must be `wanted`."""
    return coded_error(
        code,
        f"{instruction.name}: {operand.name} is {found}, it must be {wanted}",
        operand=operand.name,
        limit=f"{operand.name} is {wanted}",
        help=remedy or f"{operand.name}: {operand.doc}",
    )


def _is_number(value: object) -> bool:
    """Return whether a value is a real number that a float64 can approximate."""
    if isinstance(value, int):
        return value.bit_length() < 1024
    return isinstance(value, (Number, np.generic)) and not isinstance(value, complex)


def _bad_attribute(instruction: Instruction, operand: Operand, value: object, wanted: str) -> NkiError:
    return _must_be("NKI012", instruction, operand, show_value(value), wanted)


def attribute(instruction: Instruction, operand: Operand, value: Any, notes: list[Diagnostic]) -> Any:
    """Return the value of an attribute in the form in which it is kept; findings that do not stop it go to `notes`."""
    kind = operand.kind
    if kind == "enum":
        return _enum(instruction, operand, value, notes)
    if kind in ("alu", "activation"):
        return _operator(instruction, operand, value)
    if kind.startswith("register"):
        return _register(instruction, operand, value)
    if kind == "pattern":
        return _pattern(instruction, operand, value)
    if kind == "integers":
        try:
            return tuple(index(item) for item in (value if isinstance(value, tuple | list) else (value,)))
        except TypeError:
            raise _bad_attribute(instruction, operand, value, "a list of integers") from None
    if kind in _KINDS:
        wanted, fits, converted = _KINDS[kind]
        if not fits(value):
            raise _bad_attribute(instruction, operand, value, wanted)
        return converted(value)
    if operand.choices and not any(value is choice or value == choice for choice in operand.choices):
        raise _bad_attribute(instruction, operand, value, " or ".join(show_value(c) for c in operand.choices))
    return value


def _integers(value: object) -> bool:
    return isinstance(value, (tuple, list)) and all(isinstance(item, int) for item in value)


_KINDS: Final[Mapping[str, tuple[str, Callable[[Any], bool], Callable[[Any], Any]]]] = {
    "bool": ("True or False", lambda value: isinstance(value, (bool, np.bool_, int)), bool),
    "number": (
        "a number known at compile time",
        _is_number,
        lambda value: value.item() if isinstance(value, np.generic) else value,
    ),
    "pair": (
        "a pair of integers",
        lambda value: value is None or value == () or (_integers(value) and len(value) == 2),
        lambda value: tuple(value or ()),
    ),
    "axis": (
        "an integer or a list of integers",
        lambda value: _integers(value) or (isinstance(value, int) and not isinstance(value, bool)),
        lambda value: tuple(value) if isinstance(value, list) else value,
    ),
}
"""Of kinds of attributes: the words for a value, the test whether one fits, and the form in which it is kept."""


def operators_of(operand: Operand) -> Mapping[str, AluOp | Activation]:
    """Return the operators that an attribute may be, by name; none for other attributes."""
    if operand.kind == "alu":
        return ALU
    return ACTIVATIONS if operand.kind == "activation" else {}


def _operator(instruction: Instruction, operand: Operand, value: Any) -> object:
    if value is None and operand.default in (None, REQUIRED):
        if operand.default is None or operand.optional:
            return None
        raise _bad_attribute(instruction, operand, value, "an operator such as nl.add")
    try:
        return alu_of(value) if operand.kind == "alu" else activation_of(value)
    except NkiError as error:
        first = error.diagnostics[0]
        raise coded_error(
            first.code,
            f"{instruction.name}: {first.message}",
            operand=operand.name,
            limit=first.limit,
            help=operand.former or _instead_of(operand, value, first.help),
        ) from None


def _instead_of(operand: Operand, value: object, near: str) -> str:
    """Return what to write instead of something that is no operator: an instruction that has it, or another name.

    Names in strings may be misspelt; functions have the names that they are known by.
    """
    computes = operand.kind == "alu"
    name = value if isinstance(value, str) else getattr(value, "__name__", "")
    if name in (ACTIVATIONS if computes else ALU):
        return (
            f"use {'nisa.activation' if computes else 'nisa.tensor_tensor or nisa.tensor_scalar'}, which has nl.{name}"
        )
    if near and (isinstance(value, str) or not near.startswith("did you mean")):
        return near
    return f"give {'an operator such as nl.add' if computes else 'a function such as nl.exp'}"


PLAIN_VALUES: Final = (enums.dge_mode, enums.matmul_perf_mode)
"""Enumerations of which production kernels pass the members' values; the documentation asks for members."""


def _enum(instruction: Instruction, operand: Operand, value: object, notes: list[Diagnostic]) -> object:
    wanted = operand.enum
    assert wanted is not None
    if isinstance(value, wanted):
        return value
    plain = isinstance(value, str) or (isinstance(value, int) and not isinstance(value, (bool, Enum)))
    if plain and wanted in PLAIN_VALUES:
        spelled = "double_row" if value == "double_row_gen3" else value
        member = next((item for item in wanted if spelled in (item.value, item.name)), None)
        if member is not None:
            notes.append(
                diagnose(
                    "NKI606",
                    f"{instruction.name}: {operand.name}={value!r} stands for {show_value(member)}",
                    operand=operand.name,
                    limit=f"{operand.name} is a member of nisa.{wanted.__name__}",
                    help=f"write nisa.{show_value(member)}",
                )
            )
            return member
    raise _bad_attribute(instruction, operand, value, f"a member of nisa.{wanted.__name__}")


def _register(instruction: Instruction, operand: Operand, value: object) -> object:
    """Return a register by its number; constants stay what they are, where they may stand."""
    if isinstance(value, VirtualRegister):
        if operand.kind == "register_out" and value.frozen:
            raise coded_error(
                "NKI118",
                f"{instruction.name}: {operand.name} is {value!r}, the variable of nl.dynamic_range",
                operand=operand.name,
                limit="a loop's own variable is not written: the loop counts it",
                help="move the value into a register of your own: nisa.register_move(mine, i)",
            )
        return Register(value.id)
    if operand.kind == "register_or_int":
        whole = value.item() if isinstance(value, np.generic) else value
        if isinstance(whole, int) and not isinstance(whole, bool):
            return whole
    wanted = "a register, as nisa.register_alloc() gives one"
    raise _bad_attribute(instruction, operand, value, wanted + ", or an integer" * (operand.kind == "register_or_int"))


def _pattern(instruction: Instruction, operand: Operand, value: Any) -> tuple[tuple[int, int], ...]:
    try:
        pattern = tuple((index(step), index(num)) for step, num in value)
    except (TypeError, ValueError):
        raise _bad_attribute(instruction, operand, value, "a list of [step, num] pairs") from None
    if any(num < 1 for _, num in pattern):
        raise _bad_attribute(instruction, operand, value, "a list of [step, num] pairs with num >= 1")
    return pattern


def _dtypes_of(operand: Operand, arch: Arch) -> str:
    """Return the dtypes that an operand may have on a target, for a message."""
    known = operand.dtypes or tuple(DTYPES.values())
    return ", ".join(dtype.name for dtype in known if dtype.since <= arch.generation)


def _operand_problems(use: Use, operand: Operand, view: ViewType) -> Iterator[Problem]:
    name, arch = operand.name, use.arch
    yield from memory_problems(operand, view.space)
    yield from dtype_problems(operand, view.dtype)
    if view.dtype.since > arch.generation:
        have = next((target for target, known in TARGETS.items() if known.generation >= view.dtype.since), "")
        yield Problem(
            "NKI221",
            f"{name} is {view.dtype.name}, which {arch.name} does not have",
            name,
            f"{view.dtype.name} from NeuronCore-v{view.dtype.since}",
            f"choose target={have!r}, or one of {_dtypes_of(operand, arch)}",
        )
    by_dma = use.instruction.engines == ("dma",)
    if view.indirect == "gather" and (arch.generation < 4 or by_dma):
        yield Problem(
            "NKI309",
            f"{name} is gathered by indirect() on {arch.name}",
            name,
            "tensor indirection: compute engines of NeuronCore-v4",
            "gather rows from HBM with nisa.dma_copy and vector_offset",
        )
    if view.indirect not in (None, "scalar") and not operand.indirect:  # any address may be a base and a register
        yield Problem(
            "NKI309",
            f"{name} is addressed at run time ({view.indirect})",
            name,
            f"{name} is a view with a static address",
            "move the selected data into a tile with nisa.dma_copy first",
        )
    if view.on_chip and view.partition_step != 1 and not by_dma:
        yield Problem(
            "NKI219",
            f"{name} takes every {view.partition_step}. partition",
            name,
            "an operand covers consecutive partitions",
            "gather the rows with nisa.dma_copy first",
        )


def memory_problems(operand: Operand, space: MemoryRegion) -> Iterator[Problem]:
    """Check that an operand is in a memory that the instruction accesses."""
    memory = "hbm" if space.endswith("hbm") else space.value
    if memory not in operand.spaces:
        names = {"sbuf": "SBUF", "psum": "PSUM", "hbm": "HBM"}
        allowed = " or ".join(names[space] for space in operand.spaces)
        yield Problem(
            "NKI201",
            f"{operand.name} is in {names[memory]}, it must be in {allowed}",
            operand.name,
            f"{operand.name} in {allowed}",
            _space_help(memory, operand),
        )


def dtype_problems(operand: Operand, dtype: DType) -> Iterator[Problem]:
    """Check that an operand has a dtype that the instruction takes."""
    if operand.dtypes and dtype not in operand.dtypes:
        yield Problem(
            "NKI202",
            f"{operand.name} is {dtype.name}",
            operand.name,
            f"{operand.name} is one of {', '.join(item.name for item in operand.dtypes)}",
            _dtype_help(operand, dtype),
        )


def _dtype_help(operand: Operand, dtype: DType) -> str:
    """Return how an operand gets a dtype that the instruction takes."""
    if operand.role == "out":
        return f"allocate it with dtype={' or '.join(f'nl.{item.name}' for item in operand.dtypes)}"
    if PACKED.issuperset(operand.dtypes):
        return "quantise it with nisa.quantize_mx, or reinterpret what is packed already with .view(dtype)"
    if dtype in PACKED:
        return "packed types are moved, never cast: nisa.nc_matmul_mx multiplies them"
    return "cast it with nisa.tensor_copy into a tile of that dtype"


def partition_problems(name: str, view: ViewType, arch: Arch) -> Iterator[Problem]:
    """Check that an operand ends at the last partition; limits of the instruction itself come first, in their terms."""
    first, end = view.start_partition, view.start_partition + view.partitions
    if end > arch.pmax:
        rows = f"partitions {first} to {end - 1}" if first else f"{view.partitions} partitions"
        yield Problem(
            "NKI204",
            f"{name} spans {rows}, the memory has {arch.pmax}",
            name,
            f"start partition + partitions <= pmax ({arch.pmax})",
            "tile the partition dimension by 128",
            (end, arch.pmax),
        )


def _packed_numbers(types: Mapping[str, ViewType]) -> Iterator[Problem]:
    """Check that packed elements are moved or multiplied by MX instructions, never read as numbers."""
    for name, view in types.items():
        if view.dtype.kind == "packed":
            yield Problem(
                "NKI202",
                f"{name} is {view.dtype.name}, four numbers an element",
                name,
                "packed dtypes are moved without a cast, or multiplied by the MX instructions",
                "convert with nisa.quantize_mx, or reinterpret the tile with .view()",
            )


def _space_help(memory: str, operand: Operand) -> str:
    if memory == "hbm":
        return "copy it on the chip with nisa.dma_copy first"
    if memory == "psum" and operand.role == "in":
        return "copy it to SBUF with nisa.tensor_copy first"
    if operand.spaces == ("psum",):
        return "allocate it with buffer=nl.psum"
    return "allocate it in the memory that the instruction reaches"


def _access_problems(use: Use, operand: Operand, view: ViewType) -> Iterator[Problem]:
    """Check the access pattern that the hardware takes: start partition, rank, free size."""
    name, arch = operand.name, use.arch
    starts = legal_starts(view.partitions)
    if view.start_partition not in starts and view.start_partition % 32 not in operand.offsets:
        yield Problem(
            "NKI206",
            f"{name} of {view.partitions} partitions starts at partition {view.start_partition}",
            name,
            f"{view.partitions} partitions start at {' or '.join(map(str, starts))}",
            "place the rows at a legal start partition, or move them there with nisa.dma_copy",
        )
    rank = len(view.free_shape)
    if rank > 4:
        yield Problem(
            "NKI205",
            f"{name} has {rank} free dimensions that cannot be merged",
            name,
            "access patterns have at most 4 free dimensions",
            "split the instruction over the outermost one",
        )
    if any(abs(step) >= _STEP_END for step in view.free_strides):
        yield Problem(
            "NKI227",
            f"{name} steps by {max(view.free_strides, key=abs)} elements",
            name,
            "steps of an access pattern are 16-bit numbers of elements",
            "copy the parts one by one, or lay the tile out so that they are closer",
        )
    size, most = view.free_size, arch.sbuf_operand_fmax
    if view.space.value == "psum" and size <= most:
        # A limit of the memory, which holds once what is read again and again.
        size = math.prod(count for count, step in zip(view.free_shape, view.free_strides, strict=True) if step)
        most = arch.psum_operand_fmax
    if size > most and use.engine != "tensor":
        yield Problem(
            "NKI220",
            f"{name} has {size} elements per partition",
            name,
            f"elements per partition <= {most} in {view.space.value.upper()}",
            "split the instruction along the free dimension",
        )


def size_problems(use: Use) -> Iterator[Problem]:
    """Enter the known sizes of the dimension letters; find operands that disagree about one."""
    dims: dict[str, int] = {}
    origin: dict[str, str] = {}
    for name, view in use.types.items():
        operand = use.instruction.operands[name]
        if view is None or not operand.dims:
            continue
        sizes = _sizes(view, len(operand.dims))
        if sizes is None:
            yield _misshapen(operand, f"{name} has shape {tuple(view.shape)}")
            return
        for letter, size in zip(operand.dims, sizes, strict=True):
            if size is ANY_SIZE:
                continue
            want = int(letter) if letter.isdigit() else dims.setdefault(letter, size)
            if want == size:
                origin.setdefault(letter, name)
            elif letter.isdigit():
                shape = tuple(view.shape)
                yield _misshapen(operand, f"{name} is {shape}, it must have {letter} element(s) per partition")
            else:
                yield _mismatch(use, operand, letter, size, want, use.instruction.operands[origin[letter]])
    use.dims = dims


def _misshapen(operand: Operand, message: str) -> Problem:
    return Problem(
        "NKI203",
        message,
        operand.name,
        f"{operand.name} is [{', '.join(operand.dims)}]",
        f"{operand.name}: {operand.doc}",
    )


def _sizes(view: ViewType, letters: int) -> tuple[int, ...] | None:
    if letters == 1:
        return (view.partitions * view.free_size,)
    shape = view.shape
    if len(shape) < letters:
        return (shape[0], 1) if len(shape) == 1 and letters == 2 else None
    return (*shape[: letters - 1], math.prod(shape[letters - 1 :]))


def _mismatch(use: Use, operand: Operand, letter: str, size: int, want: int, other: Operand) -> Problem:
    meaning = {"P": "partitions", "F": "elements per partition", "E": "elements"}.get(letter, f"{letter} =")
    have = f"{meaning} {size}" if meaning.endswith("=") else f"{size} {meaning}"
    need = f"{meaning} {want}" if meaning.endswith("=") else f"{want}"
    first, second = (tuple(use.types[item.name].shape) for item in (operand, other))
    return Problem(
        "NKI203",
        f"{operand.name} {first} has {have}, {other.name} {second} has {need}",
        operand.name,
        f"{other.name}[{', '.join(other.dims)}] and {operand.name}[{', '.join(operand.dims)}] share {letter}",
        "slice or allocate the operands with the same sizes; nothing broadcasts",
        (size, want),
    )


def _engine_problems(use: Use) -> Iterator[Problem]:
    """Enter the engine; find a choice that the instruction does not have, and operands out of the engine's reach."""
    instruction, asked = use.instruction, use.attrs.get("engine")
    if instruction.engines == ("dma",):
        use.engine = "dma"
        return
    if isinstance(asked, enums.engine) and asked is not enums.engine.unknown:
        if asked.name not in instruction.engines:
            yield Problem(
                "NKI208",
                f"engine.{asked.name} cannot run it",
                "engine",
                f"engine is {', '.join(instruction.engines)} or unknown",
                "leave engine= out",
            )
        use.engine = asked.name
    else:
        use.engine = instruction.engine(use)
    reach = None if instruction.only_orders else ENGINE_REACH.get(use.engine)
    for name, view in use.types.items():
        if view is None or reach is None:
            continue
        written = instruction.operands[name].role == "out"
        spaces = reach.write if written else reach.read
        if use.space(name) not in spaces:
            yield Problem(
                "NKI208",
                f"the {use.engine} engine cannot {'write' if written else 'read'} {name} in {use.space(name).upper()}",
                name,
                f"the {use.engine} engine {'writes' if written else 'reads'} {', '.join(s.upper() for s in spaces)}",
                "leave engine= out, or move the tile to a memory that the engine reaches",
            )


def limit_problems(instruction: Instruction, known: Mapping[str, int], arch: Arch) -> Iterator[Problem]:
    """Find sizes beyond a limit; limits that name something that is not among `known` are left out."""
    facts = arch.facts
    for limit in instruction.limits:
        used = (*limit.left.co_names, *limit.right.co_names)
        if not all(name in known or name in facts for name in used):
            continue
        left, right = limit.sides({name: known[name] if name in known else facts[name].value for name in used})
        if not limit.holds(left, right):
            message = f"{limit.operand}: {limit.left_text} is {left}, it must be {limit.compare} {right}"
            text = f"{limit.text} ({limit.right_text} = {right})"
            yield Problem(limit.code, message, limit.operand, text, limit.help, _whole(left, right))


def _whole(left: object, right: object) -> tuple[int, int] | None:
    return (left, right) if isinstance(left, int) and isinstance(right, int) else None


def predicate_problem(predicate: Predicate, use: Use) -> Problem | None:
    """Return what a predicate says against a use; None where it holds."""
    message = predicate.test(use)
    if message is None:
        return None
    remedy = predicate.older if predicate.older and _NEEDS.search(message) else predicate.help
    return Problem(predicate.code, message, predicate.operand, predicate.text, remedy)
