"""Legality checks the operands of an instruction against its declaration.

Works on view types, so that the answer holds for every call with the same types and attributes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from numbers import Number
from operator import index
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import Diagnostic, NkiError, coded_error, diagnose
from nki_lab.isa import enums
from nki_lab.isa.activation import activation_of
from nki_lab.isa.alu import alu_of
from nki_lab.isa.arch import ENGINE_REACH, TARGETS, Arch, legal_starts
from nki_lab.isa.dtype import DTYPES, DType
from nki_lab.isa.spec import REQUIRED, Instruction, Operand, Register, Use, show_value
from nki_lab.kernel_runtime.issue import gathers
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


@dataclass(frozen=True, slots=True)
class Legal:
    """An accepted use: what a Variant is made of, and findings that do not stop it."""

    instruction: Instruction
    use: Use
    names: tuple[str, ...]
    notes: tuple[Diagnostic, ...]


def legalise(instruction: Instruction, live: tuple[object, ...], fixed: tuple[object, ...], arch: Arch) -> Legal:
    """Check one call against the declaration; raises the coded error of the first thing that is wrong."""
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
    present = {name: view for name, view in types.items() if view is not None}
    for name, view in present.items():
        _check_operand(instruction, instruction.operands[name], view, arch)
    use = Use(instruction, arch, types, attrs, unify(instruction, types))
    use.engine = _engine(instruction, use)
    _check_limits(instruction, use)
    for predicate in instruction.predicates:
        message = predicate.test(use)
        if message is not None:
            raise refusal(
                instruction, predicate.code, message, predicate.operand, types, predicate.text, predicate.help
            )
    if instruction.precision(use) == "float32":
        _check_unpacked(instruction, present)
    for name, view in present.items():
        if view.on_chip:
            check_partitions(instruction, name, view, arch)
        if view.on_chip and use.engine != "dma":
            _check_access(instruction, name, view, use, notes)
    _check_gathers(use, notes)
    if instruction.warns is not None:
        notes += instruction.warns(use)
    return Legal(instruction, use, tuple(present), tuple(notes))


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


def refusal(
    instruction: Instruction,
    code: str,
    message: str,
    operand: str,
    types: Mapping[str, ViewType | None],
    limit: str,
    help_text: str,
) -> NkiError:
    view = types.get(operand)
    note = f"{operand}: {describe(view)}" if view is not None else ""
    needs = _NEEDS.search(message)
    if needs is not None:
        limit = f"{limit}; targets: {', '.join(targets_from(int(needs[1])))}"
    return coded_error(code, f"{instruction.name}: {message}", operand=operand, note=note, limit=limit, help=help_text)


_NEEDS = re.compile(r"\b(?:needs|from) NeuronCore-v(\d)")


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
    if value.__class__ is NkiTensor or isinstance(value, NkiTensor):
        return view_type(value), None
    if value is None and (operand.optional or operand.default is None):
        return None, None
    if operand.scalar and _is_number(value):
        return None, value.item() if isinstance(value, np.generic) else value
    wanted = "a tensor or a number" if operand.scalar else "a tensor"
    what = {
        "ndarray": "a NumPy array",
        "Tensor": "a framework tensor",
        "NkiInstruction": "the handle of an instruction",
    }
    found = what.get(type(value).__name__, f"{show_value(value)} ({type(value).__name__})")
    if type(value).__name__ == "NkiInstruction":
        hint = "nisa functions write to dst and return no tensor: pass the tensor that was its dst"
    elif type(value).__name__ in ("ndarray", "Tensor", "Array"):
        hint = "pass arrays as arguments of the kernel, or make a tile with nl.ndarray and copy into it"
    else:
        hint = operand.former or f"{operand.name}: {operand.doc}"
    raise coded_error(
        "NKI013",
        f"{instruction.name}: {operand.name} is {found}, it must be {wanted}",
        operand=operand.name,
        limit=f"{operand.name} is {wanted}",
        help=hint,
    )


def _is_number(value: object) -> bool:
    """Return whether a value is a real number that a float64 can approximate."""
    if isinstance(value, int):
        return value.bit_length() < 1024
    return isinstance(value, (Number, np.generic)) and not isinstance(value, complex)


def _bad_attribute(instruction: Instruction, operand: Operand, value: object, wanted: str) -> NkiError:
    return coded_error(
        "NKI012",
        f"{instruction.name}: {operand.name} is {show_value(value)}, it must be {wanted}",
        operand=operand.name,
        limit=f"{operand.name} is {wanted}",
        help=f"{operand.name}: {operand.doc}",
    )


def attribute(instruction: Instruction, operand: Operand, value: Any, notes: list[Diagnostic]) -> Any:
    kind = operand.kind
    if kind == "enum":
        return _enum(instruction, operand, value, notes)
    if kind in ("alu", "activation"):
        if value is None and operand.default in (None, REQUIRED):
            if operand.default is None or operand.optional:
                return None
            raise _bad_attribute(instruction, operand, value, "an operator such as nl.add")
        try:
            return alu_of(value) if kind == "alu" else activation_of(value)
        except NkiError as error:
            first = error.diagnostics[0]
            raise coded_error(
                first.code,
                f"{instruction.name}: {first.message}",
                operand=operand.name,
                limit=first.limit,
                help=operand.former or first.help,
            ) from None
    if kind == "bool":
        if not isinstance(value, (bool, np.bool_, int)):
            raise _bad_attribute(instruction, operand, value, "True or False")
        return bool(value)
    if kind == "number":
        if _is_number(value):
            return value.item() if isinstance(value, np.generic) else value
        raise _bad_attribute(instruction, operand, value, "a number known at compile time")
    if kind.startswith("register"):
        return _register(instruction, operand, value)
    if kind == "pattern":
        return _pattern(instruction, operand, value)
    integers = isinstance(value, (tuple, list)) and all(isinstance(item, int) for item in value)
    if kind == "pair":
        if value is None or value == () or (integers and len(value) == 2):
            return tuple(value or ())
        raise _bad_attribute(instruction, operand, value, "a pair of integers")
    if kind == "integers":
        try:
            return tuple(index(item) for item in (value if isinstance(value, tuple | list) else (value,)))
        except TypeError:
            raise _bad_attribute(instruction, operand, value, "a list of integers") from None
    if kind == "axis":
        if not integers and (not isinstance(value, int) or isinstance(value, bool)):
            raise _bad_attribute(instruction, operand, value, "an integer or a list of integers")
        return tuple(value) if isinstance(value, list) else value
    if operand.choices and not any(value is choice or value == choice for choice in operand.choices):
        raise _bad_attribute(instruction, operand, value, " or ".join(show_value(c) for c in operand.choices))
    return value


def _enum(instruction: Instruction, operand: Operand, value: object, notes: list[Diagnostic]) -> object:
    wanted = operand.enum
    assert wanted is not None
    if isinstance(value, wanted):
        return value
    # Production kernels pass dge_mode as an integer and perf_mode as a string; the documentation asks for members.
    plain = isinstance(value, str) or (isinstance(value, int) and not isinstance(value, (bool, Enum)))
    if plain and wanted in (enums.dge_mode, enums.matmul_perf_mode):
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


def _check_operand(instruction: Instruction, operand: Operand, view: ViewType, arch: Arch) -> None:
    types = {operand.name: view}
    check_memory(instruction, operand, view.space, types)
    check_dtype(instruction, operand, view.dtype, types)
    if view.dtype.since > arch.generation:
        have = next((name for name, known in TARGETS.items() if known.generation >= view.dtype.since), "")
        raise refusal(
            instruction,
            "NKI221",
            f"{operand.name} is {view.dtype.name}, which {arch.name} does not have",
            operand.name,
            types,
            f"{view.dtype.name} from NeuronCore-v{view.dtype.since}",
            f"choose target={have!r}, or one of {_dtypes_of(operand, arch)}",
        )
    if view.indirect == "gather" and (arch.generation < 4 or instruction.engines == ("dma",)):
        raise refusal(
            instruction,
            "NKI309",
            f"{operand.name} is gathered by indirect() on {arch.name}",
            operand.name,
            types,
            "tensor indirection: compute engines of NeuronCore-v4",
            "gather rows from HBM with nisa.dma_copy and vector_offset",
        )
    if view.indirect not in (None, "scalar") and not operand.indirect:  # any address may be a base and a register
        raise refusal(
            instruction,
            "NKI309",
            f"{operand.name} is addressed at run time ({view.indirect})",
            operand.name,
            types,
            f"{operand.name} is a view with a static address",
            "move the selected data into a tile with nisa.dma_copy first",
        )
    if view.on_chip and view.partition_step != 1 and instruction.engines != ("dma",):
        raise refusal(
            instruction,
            "NKI219",
            f"{operand.name} takes every {view.partition_step}. partition",
            operand.name,
            types,
            "an operand covers consecutive partitions",
            "gather the rows with nisa.dma_copy first",
        )


def check_memory(
    instruction: Instruction, operand: Operand, space: MemoryRegion, types: Mapping[str, ViewType | None]
) -> None:
    """Refuse an operand in a memory that the instruction does not access."""
    memory = "hbm" if space.endswith("hbm") else space.value
    if memory not in operand.spaces:
        names = {"sbuf": "SBUF", "psum": "PSUM", "hbm": "HBM"}
        allowed = " or ".join(names[space] for space in operand.spaces)
        raise refusal(
            instruction,
            "NKI201",
            f"{operand.name} is in {names[memory]}, it must be in {allowed}",
            operand.name,
            types,
            f"{operand.name} in {allowed}",
            _space_help(memory, operand),
        )


def check_dtype(instruction: Instruction, operand: Operand, dtype: DType, types: Mapping[str, ViewType | None]) -> None:
    """Refuse an operand of a dtype that the instruction does not take."""
    if operand.dtypes and dtype not in operand.dtypes:
        allowed = ", ".join(dtype.name for dtype in operand.dtypes)
        raise refusal(
            instruction,
            "NKI202",
            f"{operand.name} is {dtype.name}",
            operand.name,
            types,
            f"{operand.name} is one of {allowed}",
            "cast it with nisa.tensor_copy into a tile of that dtype",
        )


def check_partitions(instruction: Instruction, name: str, view: ViewType, arch: Arch) -> None:
    """Check that an operand ends at the last partition; limits of the instruction itself come first, in their terms."""
    end = view.start_partition + view.partitions
    if end <= arch.pmax:
        return
    rows = (
        f"partitions {view.start_partition} to {end - 1}" if view.start_partition else f"{view.partitions} partitions"
    )
    raise refusal(
        instruction,
        "NKI204",
        f"{name} spans {rows}, the memory has {arch.pmax}",
        name,
        {name: view},
        f"start partition + partitions <= pmax ({arch.pmax})",
        "tile the partition dimension by 128",
    )


def _check_unpacked(instruction: Instruction, types: Mapping[str, ViewType]) -> None:
    """Check that packed elements are moved or multiplied by MX instructions, never read as numbers."""
    for name, view in types.items():
        if view.dtype.kind == "packed":
            raise refusal(
                instruction,
                "NKI202",
                f"{name} is {view.dtype.name}, four numbers an element",
                name,
                types,
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


def _check_access(instruction: Instruction, name: str, view: ViewType, use: Use, notes: list[Diagnostic]) -> None:
    """Check the access pattern that the hardware takes: start partition, rank, free size."""
    types = {name: view}
    arch, engine = use.arch, use.engine
    starts = legal_starts(view.partitions)
    if view.start_partition not in starts and view.start_partition % 32 not in instruction.operands[name].offsets:
        notes.append(
            diagnose(
                "NKI206",
                f"{instruction.name}: {name} of {view.partitions} partitions starts at "
                f"partition {view.start_partition}",
                operand=name,
                note=f"{name}: {describe(view)}",
                limit=f"{view.partitions} partitions start at {' or '.join(map(str, starts))}",
                help="place the rows at a legal start partition, or move them there with nisa.dma_copy",
            )
        )
    rank = len(view.free_shape)
    if rank > 4:
        raise refusal(
            instruction,
            "NKI205",
            f"{name} has {rank} free dimensions that cannot be merged",
            name,
            types,
            "access patterns have at most 4 free dimensions",
            "split the instruction over the outermost one",
        )
    if any(abs(step) >= _STEP_END for step in view.free_strides):
        notes.append(
            diagnose(
                "NKI227",
                f"{instruction.name}: {name} steps by {max(view.free_strides, key=abs)} elements",
                operand=name,
                note=f"{name}: {describe(view)}",
                limit="steps of an access pattern are 16-bit numbers of elements",
                help="copy the parts one by one, or lay the tile out so that they are closer",
            )
        )
    most = arch.psum_operand_fmax if view.space.value == "psum" else arch.sbuf_operand_fmax
    if view.free_size > most and engine != "tensor":
        raise refusal(
            instruction,
            "NKI220",
            f"{name} has {view.free_size} elements per partition",
            name,
            types,
            f"elements per partition <= {most} in {view.space.value.upper()}",
            "split the instruction along the free dimension",
        )


def _check_gathers(use: Use, notes: list[Diagnostic]) -> None:
    """Check the limits of tensor indirection: faults are raised, rejections of the compiler are noted."""
    for item in gathers.problems(use):
        error = refusal(use.instruction, item.code, item.message, item.operand, use.types, item.limit, item.help)
        if error.diagnostics[0].outcome == "fault":
            raise error
        notes += error.diagnostics


def unify(instruction: Instruction, types: Mapping[str, ViewType | None]) -> dict[str, int]:
    """Return the sizes of the dimension letters; NKI203 where two operands disagree. Some may be `ANY_SIZE`."""
    dims: dict[str, int] = {}
    origin: dict[str, str] = {}
    for name, view in types.items():
        letters = instruction.operands[name].dims
        if view is None or not letters:
            continue
        sizes = _sizes(view, len(letters))
        if sizes is None:
            raise refusal(
                instruction,
                "NKI203",
                f"{name} has shape {tuple(view.shape)}",
                name,
                types,
                f"{name} is [{', '.join(letters)}]",
                f"{name}: {instruction.operands[name].doc}",
            )
        for letter, size in zip(letters, sizes, strict=True):
            if size is ANY_SIZE:
                continue
            want = int(letter) if letter.isdigit() else dims.setdefault(letter, size)
            if want == size:
                origin.setdefault(letter, name)
                continue
            raise _mismatch(instruction, types, name, letter, size, want, origin.get(letter, ""))
    return dims


def _sizes(view: ViewType, letters: int) -> tuple[int, ...] | None:
    if letters == 1:
        return (view.partitions * view.free_size,)
    shape = view.shape
    if len(shape) < letters:
        return (shape[0], 1) if len(shape) == 1 and letters == 2 else None
    return (*shape[: letters - 1], math.prod(shape[letters - 1 :]))


def _mismatch(
    instruction: Instruction,
    types: Mapping[str, ViewType | None],
    name: str,
    letter: str,
    size: int,
    want: int,
    other: str,
) -> NkiError:
    view = types[name]
    letters = instruction.operands[name].dims
    assert view is not None
    meaning = {"P": "partitions", "F": "elements per partition", "E": "elements"}.get(letter, f"{letter} =")
    if letter.isdigit():
        return refusal(
            instruction,
            "NKI203",
            f"{name} is {tuple(view.shape)}, it must have {letter} element(s) per partition",
            name,
            types,
            f"{name} is [{', '.join(letters)}]",
            f"{name}: {instruction.operands[name].doc}",
        )
    first = types[other]
    assert first is not None
    have = f"{meaning} {size}" if meaning.endswith("=") else f"{size} {meaning}"
    need = f"{meaning} {want}" if meaning.endswith("=") else f"{want}"
    return refusal(
        instruction,
        "NKI203",
        f"{name} {tuple(view.shape)} has {have}, {other} {tuple(first.shape)} has {need}",
        name,
        types,
        f"{other}[{', '.join(instruction.operands[other].dims)}] and {name}[{', '.join(letters)}] share {letter}",
        "slice or allocate the operands with the same sizes; nothing broadcasts",
    )


def _engine(instruction: Instruction, use: Use) -> str:
    asked = use.attrs.get("engine")
    if instruction.engines == ("dma",):
        return "dma"
    if isinstance(asked, enums.engine) and asked is not enums.engine.unknown:
        if asked.name not in instruction.engines:
            raise refusal(
                instruction,
                "NKI208",
                f"engine.{asked.name} cannot run it",
                "engine",
                use.types,
                f"engine is {', '.join(instruction.engines)} or unknown",
                "leave engine= out",
            )
        chosen = asked.name
    else:
        chosen = instruction.engine(use)
    reach = None if instruction.only_orders else ENGINE_REACH.get(chosen)
    for name, view in use.types.items():
        if view is None or reach is None:
            continue
        written = instruction.operands[name].role == "out"
        if use.space(name) not in (reach.write if written else reach.read):
            raise refusal(
                instruction,
                "NKI208",
                f"the {chosen} engine cannot {'write' if written else 'read'} {name} in {use.space(name).upper()}",
                name,
                use.types,
                f"the {chosen} engine reaches {', '.join(s.upper() for s in reach.read)}",
                "leave engine= out, or move the tile to a memory that the engine reaches",
            )
    return chosen


def _check_limits(instruction: Instruction, use: Use) -> None:
    if instruction.limits:
        names = dict(use.dims) | {
            f"{name}_bytes": 0 if dtype is None else dtype.nbytes for name, dtype in use.dtypes.items()
        }
        check_limits(instruction, names, use.types, use.arch)


def check_limits(
    instruction: Instruction, known: Mapping[str, int], types: Mapping[str, ViewType | None], arch: Arch
) -> None:
    """Refuse what is beyond a limit; those that name something that is not among `known` are left out."""
    facts = arch.facts
    for limit in instruction.limits:
        used = (*limit.left.co_names, *limit.right.co_names)
        if not all(name in known or name in facts for name in used):
            continue
        names = {name: known[name] if name in known else facts[name].value for name in used}
        left, right = limit.sides(names)
        if not limit.holds(left, right):
            message = f"{limit.operand}: {limit.left_text} is {left}, it must be {limit.compare} {right}"
            raise refusal(
                instruction,
                limit.code,
                message,
                limit.operand,
                types,
                f"{limit.text} ({limit.right_text} = {right})",
                limit.help,
            )
