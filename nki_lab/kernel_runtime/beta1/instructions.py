"""`neuronxcc.nki.isa`: the declared instructions in Beta 1's spelling, which returns a tile instead of taking `dst`.

Operand order, keywords and the result tile are the `beta1` property of each declaration; `dtype=` and `mask=` are the
same for all of them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import numpy as np

from nki_lab.diagnostic import Diagnostic, NkiError, diagnose, error_of
from nki_lab.isa.dtype import BOOL, F32, UINT8, dtype_of, promote
from nki_lab.isa.enums import engine
from nki_lab.isa.spec import REQUIRED, TABLE, Beta1, Instruction, Operand
from nki_lab.kernel_runtime.beta1.adapters import adapt
from nki_lab.kernel_runtime.beta1.blocks import require_tile
from nki_lab.kernel_runtime.beta1.builder import LegacyBuilder, current
from nki_lab.kernel_runtime.beta1.masking import cut, masked, with_shapes
from nki_lab.kernel_runtime.beta1.subscript import axes_of, checked
from nki_lab.kernel_runtime.issue.legality import fixed_names, live_names
from nki_lab.kernel_runtime.issue.nisa_functions import describe
from nki_lab.kernel_runtime.language import operations
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor

_GENERIC = ("dtype", "mask", "name", "buffer")
# Spellings of enumeration members that Beta 1 kernels pass as strings.
_MEMBERS = {"double_row_gen3": "double_row"}


def has_legacy_face(instruction: Instruction) -> bool:
    """Whether Beta 1 had the instruction."""
    return isinstance(instruction.beta1, Beta1)


@functools.cache
def door_of(name: str) -> Callable[..., Any]:
    """The Beta 1 function of a declared instruction."""
    instruction = TABLE[name]
    face = _face(instruction)

    def door(*args: Any, **kwargs: Any) -> Any:
        return call(instruction, current(f"nisa.{name}"), args, kwargs)

    door.__name__ = door.__qualname__ = name
    door.__module__ = "neuronxcc.nki.isa"
    door.__doc__ = describe(instruction)
    door.__signature__ = _signature(instruction, face)  # type: ignore[attr-defined]
    door.nki_instruction = instruction  # type: ignore[attr-defined]
    return door


def _face(instruction: Instruction) -> Beta1:
    face = instruction.beta1
    assert isinstance(face, Beta1), f"{instruction.name} has no Beta 1 spelling"
    return face


def _signature(instruction: Instruction, face: Beta1) -> inspect.Signature:
    empty = inspect.Parameter.empty

    def default(name: str) -> Any:
        operand = instruction.operands.get(name)
        if operand is None:
            return None if name in face.keywords else empty
        return empty if operand.default is REQUIRED else operand.default

    parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default(n)) for n in face.order]
    named = dict.fromkeys((*face.keywords, "dtype", "mask"))
    parameters += [
        inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None if n in _GENERIC else default(n))
        for n in named
        if n not in face.order
    ]
    return inspect.Signature(parameters)


def call(instruction: Instruction, builder: LegacyBuilder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record one call as Beta 1 writes it; gives the result tile, or None where the call names its destination."""
    face = _face(instruction)
    if kwargs.get("dst_rmw_op") is not None:
        instruction, kwargs = _update(kwargs)
    values, generic = _bind(instruction, face, builder, args, kwargs)
    adapt(instruction, face, values)
    names = _prepare(instruction, builder, values)
    if face.returns:
        return _with_result(instruction, face, builder, values, names, generic)
    tensors = [values[name] for name in names]
    letters = [instruction.operands[name].dims for name in names]
    made = cut(generic["mask"], [(t._shape, dims, axes_of(t)) for t, dims in zip(tensors, letters, strict=True)])
    if not made.empty:
        record(builder, instruction, values | dict(zip(names, made.of(tensors), strict=True)), generic["name"])
    return None


def tensor_copy_dynamic_src(src: Any, mask: Any = None, dtype: Any = None, **more: Any) -> NkiTensor:
    """A new tile with what lies at a run-time place of src: `src[i_p, off[0, 0] + i_f]`."""
    return door_of("tensor_copy")(src, mask=mask, dtype=dtype, **more)  # type: ignore[no-any-return]


def tensor_copy_dynamic_dst(*, dst: Any, src: Any, mask: Any = None, **more: Any) -> None:
    """Copy src to a run-time place of dst: `dst[i_p, off[0, 0] + i_f]`."""
    builder = current("nisa.tensor_copy_dynamic_dst")
    pair = [_tile(tile, which) for tile, which in ((dst, "dst"), (src, "src"))]
    made = cut(mask, [(tile._shape, ("P", "F"), axes_of(tile)) for tile in pair])
    if not made.empty:
        values = dict(zip(("dst", "src", "engine"), (*made.of(pair), more.get("engine", engine.unknown)), strict=True))
        record(builder, TABLE["tensor_copy"], values, more.get("name"))


def record(builder: LegacyBuilder, instruction: Instruction, values: Mapping[str, Any], name: str | None) -> None:
    """Issue an instruction from its values by operand name; operands not given have their defaults."""
    live, fixed = _defaults(instruction)
    builder.issue(
        instruction,
        tuple([values.get(operand, default) for operand, default in live]),
        tuple([values.get(operand, default) for operand, default in fixed]),
        name,
    )


_Defaults = tuple[tuple[tuple[str, Any], ...], tuple[tuple[str, Any], ...]]


@functools.cache
def _defaults(instruction: Instruction) -> _Defaults:
    """Names and defaults of the live and of the fixed operands."""
    operands = instruction.operands
    live = tuple((name, operands[name].default) for name in live_names(instruction))
    return live, tuple((name, operands[name].default) for name in fixed_names(instruction))


def _bind(instruction: Instruction, face: Beta1, builder: LegacyBuilder, args: tuple[Any, ...],
          kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """The call's values by name, and those of the generic keywords."""
    name = instruction.name

    def found(code: str, message: str, operand: str = "", remedy: str = "") -> Diagnostic:
        limit = f"{name}{_signature(instruction, face)}"
        return diagnose(code, f"{name}{message}", operand=operand, limit=limit, help=remedy)

    if len(args) > len(face.order):
        message = f" takes {len(face.order)} positional arguments, got {len(args)}"
        raise error_of(found("NKI002", message, remedy="pass the others by keyword"))
    values = dict(zip(face.order, args, strict=False))
    generic: dict[str, Any] = dict.fromkeys(_GENERIC)
    for key, value in kwargs.items():
        if key in values:
            raise error_of(found("NKI002", f" got argument {key} twice", key))
        if key in face.order or key in face.keywords or key in instruction.operands:
            values[key] = value
        if key in generic and key not in face.order:
            generic[key] = value
        elif key not in values:
            builder.note(found("NKI604", f": argument {key} is ignored", key, "drop it"), builder.site())
    for key in face.order:
        operand = instruction.operands.get(key)
        if key not in values and (operand is None or operand.default is REQUIRED):
            doc = "" if operand is None else f"{key}: {operand.doc}"
            raise error_of(found("NKI003", f": argument {key} is missing", key, doc))
    for key in face.keywords:
        if key not in instruction.operands and key not in _GENERIC and values.get(key) not in (None, False):
            raise error_of(
                diagnose("NKI010", f"{instruction.name}: {key} is not modelled", operand=key,
                         limit=f"modelled: {', '.join(instruction.operands)}", help=f"leave {key} out")
            )  # fmt: skip
    return values, generic


def _prepare(instruction: Instruction, builder: LegacyBuilder, values: dict[str, Any]) -> list[str]:
    """Bring values into the form that `issue` takes; gives the names of the tensors among them."""
    names = []
    for name, operand in instruction.operands.items():
        if name not in values:
            if operand.default is not REQUIRED:
                values[name] = operand.default
            continue
        value = values[name]
        if isinstance(value, NkiTensor):
            require_tile(value)
            values[name] = _truth_as_bytes(operand, _scalars_in_float32(builder, operand, value))
            names.append(name)
        elif isinstance(value, np.generic):
            values[name] = value.item()
        elif operand.is_tensor and not operand.scalar and value is not None:
            raise _no_tensor(instruction, operand, value)
        elif isinstance(value, list):
            values[name] = tuple(value)
        elif isinstance(value, str) and operand.enum is not None:
            values[name] = _member(operand.enum, value)
    _free_broadcast(instruction, values, names)
    return names


def _tile(value: Any, name: str) -> NkiTensor:
    if not isinstance(value, NkiTensor):
        raise _no_tensor(TABLE["tensor_copy"], TABLE["tensor_copy"].operands[name], value)
    require_tile(value)
    return value


def _no_tensor(instruction: Instruction, operand: Operand, value: Any) -> NkiError:
    hint = "load it with nl.load first" if isinstance(value, np.ndarray) else f"{operand.name}: {operand.doc}"
    return error_of(
        diagnose("NKI013", f"{instruction.name}: {operand.name} is a {type(value).__name__}, it must be a tensor",
                 operand=operand.name, limit=f"{operand.name} is a tensor", help=hint)
    )  # fmt: skip


def _member(kind: type[Enum], value: str) -> Any:
    spelled = _MEMBERS.get(value, value)
    return kind[spelled] if spelled in kind.__members__ else value


def _scalars_in_float32(builder: LegacyBuilder, operand: Operand, tile: NkiTensor) -> NkiTensor:
    """Per-partition scalars as the engines take them: Beta 1 converts low-precision columns."""
    if operand.scalar and operand.dims == ("P", "1") and tile._dtype.is_float and tile._dtype is not F32:
        wide = builder.like(tile, dtype=F32)
        operations.assign(wide, checked(tile))
        return wide
    return tile


def _truth_as_bytes(operand: Operand, tile: NkiTensor) -> NkiTensor:
    """Truth values as the numbers 0 and 1 where the engines take whole numbers: comparisons give bool in Beta 1."""
    if tile._dtype is not BOOL or BOOL in operand.dtypes or UINT8 not in operand.dtypes:
        return tile
    view = tile.view(UINT8)
    view._extra = tile._extra
    return view


def _update(kwargs: dict[str, Any]) -> tuple[Instruction, dict[str, Any]]:
    """dma_copy with dst_rmw_op, dst = dst op src, as dma_compute has it."""
    more = {key: value for key, value in kwargs.items() if key not in ("src", "dst_rmw_op", "dge_mode")}
    return TABLE["dma_compute"], more | {"src0": kwargs.get("src"), "src1": kwargs.get("dst"),
                                         "reduce_op": kwargs["dst_rmw_op"]}  # fmt: skip


def _free_broadcast(instruction: Instruction, values: dict[str, Any], names: list[str]) -> None:
    """Repeat size-1 free dimensions of inputs that share their letters with another input."""
    inputs = [name for name in names if instruction.operands[name].role == "in"]
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in inputs:
        groups.setdefault(instruction.operands[name].dims, []).append(name)
    for letters, members in groups.items():
        shapes = {values[name]._shape for name in members}
        if len(shapes) < 2 or "1" in letters or len({len(shape) for shape in shapes}) > 1:
            continue
        common = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
        for name in members:
            tile = values[name]
            fits = all(have in (1, want) for have, want in zip(tile._shape[1:], common[1:], strict=True))
            if tile._shape != common and tile._shape[0] == common[0] and fits:
                values[name] = operations.broadcast_to(checked(tile), common)


def _with_result(instruction: Instruction, face: Beta1, builder: LegacyBuilder, values: dict[str, Any],
                 names: list[str], generic: dict[str, Any]) -> NkiTensor:  # fmt: skip
    returns, result = face.returns, face.result
    assert result is not None  # every declaration that returns a tile has one
    tensors = [values[name] for name in names]

    def shape_of(*shapes: tuple[int, ...]) -> tuple[int, ...]:
        shape, _, _ = result(with_shapes(values, names, shapes))
        return _tile_shape(shape)

    def blank(_: tuple[int, ...]) -> tuple[Any, Any]:
        _, kind, space = result(values)
        return _dtype(values, names, generic["dtype"], kind), MemoryRegion(space)

    def compute(*parts: NkiTensor) -> NkiTensor:
        bound = values | dict(zip(names, parts, strict=True))
        shape, kind, space = result(bound)
        asked = _dtype(bound, names, generic["dtype"], kind)
        place = generic["buffer"] or MemoryRegion(space)
        tile = builder.allocate(_tile_shape(shape), asked, place)
        try:
            record(builder, instruction, bound | {returns: tile}, generic["name"])
        except NkiError:
            # Results of a fixed dtype or memory are cast by a copy.
            own = _dtype(bound, names, None, kind)
            if own is tile._dtype and place is MemoryRegion(space):
                raise
            first = builder.allocate(_tile_shape(shape), own, MemoryRegion(space))
            record(builder, instruction, bound | {returns: first}, generic["name"])
            operations.assign(tile, first)
        return tile

    if "accumulate" in instruction.operands and "accumulate" not in values:
        values["accumulate"] = False  # a call makes a new tile; `+=` accumulates
    if names or generic["mask"] is None:
        letters = [instruction.operands[name].dims for name in names]
        return masked(builder, generic["mask"], compute, tensors, letters, shape_of, blank)
    return _masked_constant(builder, generic["mask"], compute, shape_of(), blank)


def _masked_constant(builder: LegacyBuilder, mask: Any, compute: Callable[..., NkiTensor], shape: tuple[int, ...],
                     blank: Callable[..., tuple[Any, Any]]) -> NkiTensor:  # fmt: skip
    """A call without tensor operands under a mask: the whole tile is computed, what is masked off is undefined."""
    made = cut(mask, [(shape, ("P", "F"), None)])
    if made.empty:
        return builder.unwritten(shape, *blank(shape))
    return compute()


def _tile_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(shape) if len(shape) > 1 else (*shape, 1)


def _dtype(values: Mapping[str, Any], names: list[str], asked: Any, declared: Any) -> Any:
    """The result's dtype: as asked, as declared, or what the inputs promote to."""
    if asked is not None:
        return dtype_of(asked)
    if declared is not None:
        return dtype_of(declared)
    return promote(*[values[name]._dtype for name in names])
