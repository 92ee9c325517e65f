"""`neuronxcc.nki.isa`: the declared instructions in Beta 1's spelling, which returns a tile instead of taking `dst`.

Operand order, keywords and the result tile are the `beta1` property of each declaration; `dtype=` and `mask=` are the
same for all of them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nki_lab.diagnostic import Diagnostic, NkiError, coded_error, diagnose, error_of
from nki_lab.isa.dtype import BOOL, F32, UINT8, DType, dtype_of, promote
from nki_lab.isa.enums import engine
from nki_lab.isa.spec import REQUIRED, SBUF, TABLE, Beta1, Instruction, Operand
from nki_lab.kernel_runtime.beta1.adapters import adapt
from nki_lab.kernel_runtime.beta1.blocks import require_tile
from nki_lab.kernel_runtime.beta1.builder import current
from nki_lab.kernel_runtime.beta1.masking import TILE, MaskLike, Shape, cut, cut_tensors, masked, with_shapes
from nki_lab.kernel_runtime.beta1.plans import Key, Plan, key_of, places_of
from nki_lab.kernel_runtime.beta1.subscript import checked
from nki_lab.kernel_runtime.issue.legality import fixed_names, live_names
from nki_lab.kernel_runtime.issue.nisa_functions import describe
from nki_lab.kernel_runtime.language import operations
from nki_lab.kernel_runtime.tensor import MemoryRegion, NkiTensor

Values = dict[str, Any]
"""Arguments of a call by name, as the user passed them or as `issue` takes them."""

_GENERIC = ("dtype", "mask", "name", "buffer")
# Spellings of enumeration members that Beta 1 kernels pass as strings.
_MEMBERS = {"double_row_gen3": "double_row"}


@functools.cache
def instruction_function(name: str) -> Callable[..., Any]:
    """The Beta 1 function of a declared instruction."""
    instruction = TABLE[name]
    spelling = _spelling(instruction)

    def function(*args: Any, **kwargs: Any) -> NkiTensor | None:
        return call(instruction, args, kwargs)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "neuronxcc.nki.isa"
    function.__doc__ = describe(instruction)
    function.__signature__ = _signature(instruction, spelling)  # type: ignore[attr-defined]
    function.nki_instruction = instruction  # type: ignore[attr-defined]
    return function


def _spelling(instruction: Instruction) -> Beta1:
    spelling = instruction.beta1
    assert isinstance(spelling, Beta1), f"{instruction.name} has no Beta 1 spelling"
    return spelling


def _signature(instruction: Instruction, spelling: Beta1) -> inspect.Signature:
    empty = inspect.Parameter.empty

    def default(name: str) -> Any:
        operand = instruction.operands.get(name)
        if operand is None:
            return None if name in spelling.keywords else empty
        return empty if operand.default is REQUIRED else operand.default

    parameters = [
        inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default(n)) for n in spelling.positional
    ]
    named = dict.fromkeys((*spelling.keywords, "dtype", "mask"))
    parameters += [
        inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None if n in _GENERIC else default(n))
        for n in named
        if n not in spelling.positional
    ]
    return inspect.Signature(parameters)


def call(instruction: Instruction, args: tuple[Any, ...], kwargs: Values) -> NkiTensor | None:
    """Record one call as Beta 1 writes it; gives the result tile, or None where the call names its destination."""
    builder = current()
    key, tensors = key_of(instruction, args, kwargs)
    plan: Plan | None = builder.plans.get(key) if key else None
    if plan is None:
        return _call(instruction, args, kwargs, key, tensors)
    if builder.pinned >= 0:
        return plan.follow(builder, tensors)
    builder.pinned, builder.pinned_iteration = builder.place()
    try:
        return plan.follow(builder, tensors)
    finally:
        builder.pinned = -1


def _call(
    instruction: Instruction, args: tuple[Any, ...], kwargs: Values, key: Key, tensors: list[NkiTensor]
) -> NkiTensor | None:
    """Record one call, and plan those with the same key where it is one."""
    spelling = _spelling(instruction)
    if kwargs.get("dst_rmw_op") is not None:
        instruction, kwargs = _update(kwargs)
    values, generic = _bind(instruction, spelling, args, kwargs)
    adapt(instruction, spelling, values)
    names = _prepare(instruction, values)
    if spelling.returns:
        made = _with_result(instruction, spelling, values, names, generic)
        if key and not any(misfits(instruction, len(args), kwargs, spelling)):
            _plan(instruction, spelling, values, names, generic, key, tensors)
        return made
    _record_cut(instruction, values, names, generic["mask"], generic["name"])
    return None


def _record_cut(
    instruction: Instruction,
    values: Values,
    names: Sequence[str],
    mask: MaskLike,
    name: str | None,
) -> None:
    """Issue an instruction on what the mask leaves of the tensors `names`."""
    tensors = [values[item] for item in names]
    boxes = cut_tensors(mask, tensors, [instruction.operands[item].dims for item in names])
    if not boxes.empty:
        record(instruction, values | dict(zip(names, boxes.of(tensors), strict=True)), name)


def _plan(
    instruction: Instruction,
    spelling: Beta1,
    values: Values,
    names: Sequence[str],
    generic: Values,
    key: Key,
    tensors: Sequence[NkiTensor],
) -> None:
    """Keep how a call without a mask was recorded, where its instruction took its tensors as they are."""
    if spelling.arrange is not None:
        spelling.arrange(values)
    live, fixed = _operands(instruction, values)
    places = places_of(live, tensors)
    if places is None or len(places) < len(names) or spelling.result is None:
        return
    sizes, kind, space = spelling.result(values)
    own = MemoryRegion(space)
    current().plans[key] = Plan(
        instruction=instruction,
        live=tuple([None if isinstance(value, NkiTensor) else value for value in live]),
        places=places,
        result=live_names(instruction).index(spelling.returns),
        fixed=fixed,
        shape=operations.tile_shape(tuple(sizes)),
        dtype=_result_dtype(values, names, generic["dtype"], kind),
        space=generic["buffer"] or own,
        own_dtype=_result_dtype(values, names, None, kind),
        own_space=own,
    )


def tensor_copy_dynamic_src(src: Operand, mask: MaskLike = None, dtype: object = None, **more: Any) -> NkiTensor:
    """A new tile with what lies at a run-time place of src: `src[i_p, off[0, 0] + i_f]`."""
    return instruction_function("tensor_copy")(src, mask=mask, dtype=dtype, **more)  # type: ignore[no-any-return]


def tensor_copy_dynamic_dst(*, dst: Operand, src: Operand, mask: MaskLike = None, **more: Any) -> None:
    """Copy src to a run-time place of dst: `dst[i_p, off[0, 0] + i_f]`."""
    copy = TABLE["tensor_copy"]
    values: Values = {"dst": dst, "src": src}
    for name, value in values.items():
        if not isinstance(value, NkiTensor):
            raise _no_tensor(copy, copy.operands[name], value)
        require_tile(value)
    values["engine"] = more.get("engine", engine.unknown)
    _record_cut(copy, values, ("dst", "src"), mask, more.get("name"))


def record(instruction: Instruction, values: Mapping[str, Any], name: str | None) -> None:
    """Issue an instruction from its values by operand name; operands not given have their defaults."""
    live, fixed = _operands(instruction, values)
    current().issue(instruction, live, fixed, name)


def _operands(instruction: Instruction, values: Mapping[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the live and the fixed operands of an instruction, in declaration order."""
    live, fixed = _defaults(instruction)
    return (
        tuple([values.get(operand, default) for operand, default in live]),
        tuple([values.get(operand, default) for operand, default in fixed]),
    )


@functools.cache
def _defaults(instruction: Instruction) -> tuple[tuple[tuple[str, Any], ...], ...]:
    """Return names and defaults of the live and of the fixed operands."""
    operands = instruction.operands
    groups = live_names(instruction), fixed_names(instruction)
    return tuple(tuple((name, operands[name].default) for name in names) for names in groups)


def _bind(
    instruction: Instruction, spelling: Beta1, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Values, Values]:
    """Return the call's values by name, and those of the generic keywords."""
    for found in misfits(instruction, len(args), kwargs, spelling):
        if found.outcome == "fault":
            raise error_of(found)
        current().note(found, current().site())
    values = dict(zip(spelling.positional, args, strict=False))
    generic: Values = dict.fromkeys(_GENERIC)
    for key, value in kwargs.items():
        if key in spelling.positional or key in spelling.keywords or key in instruction.operands:
            values[key] = value
        if key in generic and key not in spelling.positional:
            generic[key] = value
    for key in spelling.keywords:
        if key not in instruction.operands and key not in _GENERIC and values.get(key) not in (None, False):
            raise coded_error(
                "NKI010",
                f"{instruction.name}: {key} is not modelled",
                operand=key,
                limit=f"modelled: {', '.join(instruction.operands)}",
                help=f"leave {key} out",
            )
    return values, generic


def misfits(
    instruction: Instruction, count: int, keywords: Iterable[str], spelling: Beta1 | None = None
) -> Iterator[Diagnostic]:
    """Diagnose the arguments of a call that do not fit: too many, given twice, unknown (ignored), missing.

    `count` of them are positional.
    """
    spelling, name = spelling or _spelling(instruction), instruction.name
    positional = spelling.positional

    def found(code: str, message: str, operand: str = "", remedy: str = "") -> Diagnostic:
        return diagnose(
            code, f"{name}{message}", operand=operand, limit=f"{name}{_signature(instruction, spelling)}", help=remedy
        )

    if count > len(positional):
        message = f" takes {len(positional)} positional arguments, got {count}"
        yield found("NKI002", message, remedy="pass the others by keyword")
    given = {*positional[:count]}
    for key in keywords:
        if key in given:
            yield found("NKI002", f" got argument {key} twice", key)
        given.add(key)
        if key not in (*positional, *spelling.keywords, *_GENERIC) and key not in instruction.operands:
            yield found("NKI604", f": argument {key} is ignored", key, "drop it")
    for key in positional:
        operand = instruction.operands.get(key)
        if key not in given and (operand is None or operand.default is REQUIRED):
            doc = "" if operand is None else f"{key}: {operand.doc}"
            yield found("NKI003", f": argument {key} is missing", key, doc)


def _prepare(instruction: Instruction, values: Values) -> list[str]:
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
            value = _truth_as_bytes(operand, _scalars_in_float32(operand, value))
            values[name] = _copied_to_sbuf(instruction, operand, value)
            names.append(name)
        elif isinstance(value, np.generic):
            values[name] = value.item()
        elif operand.is_tensor and not operand.scalar and value is not None:
            raise _no_tensor(instruction, operand, value)
        elif isinstance(value, list):
            values[name] = tuple(value)
        elif isinstance(value, str) and operand.enum is not None:
            values[name] = operand.enum.__members__.get(_MEMBERS.get(value, value), value)
    _free_broadcast(instruction, values, names)
    return names


def _no_tensor(instruction: Instruction, operand: Operand, value: object) -> NkiError:
    hint = "load it with nl.load first" if isinstance(value, np.ndarray) else f"{operand.name}: {operand.doc}"
    return coded_error(
        "NKI013",
        f"{instruction.name}: {operand.name} is a {type(value).__name__}, it must be a tensor",
        operand=operand.name,
        limit=f"{operand.name} is a tensor",
        help=hint,
    )


def _scalars_in_float32(operand: Operand, tile: NkiTensor) -> NkiTensor:
    """Per-partition scalars as the engines take them: Beta 1 converts low-precision columns."""
    if operand.scalar and operand.dims == ("P", "1") and tile._dtype.is_float and tile._dtype is not F32:
        wide = current().like(tile, dtype=F32)
        operations.assign(wide, checked(tile))
        return wide
    return tile


def _copied_to_sbuf(instruction: Instruction, operand: Operand, tile: NkiTensor) -> NkiTensor:
    """A tile of SBUF for an input that is read there only: the compiler of Beta 1 copied a tile of PSUM itself.

    AWS's reference kernels rely on that: `flash_fwd` selects from PSUM, published attention kernels transpose into PSUM
    and multiply with the result.
    """
    if operand.role != "in" or operand.spaces != (SBUF,) or tile._buffer.space is not MemoryRegion.psum:
        return tile
    current().advise(
        "NKI609",
        f"{instruction.name}: {operand.name} is in PSUM and is copied to SBUF",
        operand=operand.name,
        limit=f"{operand.name} in SBUF",
        remedy="copy the tile with nl.copy where it is made, and use the copy each time",
    )
    copy = current().like(tile)
    operations.assign(copy, checked(tile))
    return copy


def _truth_as_bytes(operand: Operand, tile: NkiTensor) -> NkiTensor:
    """Truth values as the numbers 0 and 1 where the engines take whole numbers: comparisons give bool in Beta 1."""
    if tile._dtype is not BOOL or BOOL in operand.dtypes or UINT8 not in operand.dtypes:
        return tile
    view = tile.view(UINT8)
    view._extra = tile._extra
    return view


def _update(kwargs: Values) -> tuple[Instruction, Values]:
    """dma_copy with dst_rmw_op, dst = dst op src, as dma_compute has it."""
    more = {key: value for key, value in kwargs.items() if key not in ("src", "dst_rmw_op", "dge_mode")}
    return TABLE["dma_compute"], more | {
        "src0": kwargs.get("src"),
        "src1": kwargs.get("dst"),
        "reduce_op": kwargs["dst_rmw_op"],
    }


def _free_broadcast(instruction: Instruction, values: Values, names: list[str]) -> None:
    """Repeat size-1 free dimensions of inputs that share their letters with another input."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        if instruction.operands[name].role == "in":
            groups.setdefault(instruction.operands[name].dims, []).append(name)
    for letters, members in groups.items():
        _widen_columns(values, members)
        shapes = {values[name]._shape for name in members}
        if len(shapes) < 2 or "1" in letters or len({len(shape) for shape in shapes}) > 1:
            continue
        common = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
        for name in members:
            tile = values[name]
            fits = all(have in (1, want) for have, want in zip(tile._shape[1:], common[1:], strict=True))
            if tile._shape != common and tile._shape[0] == common[0] and fits:
                values[name] = operations.broadcast_to(checked(tile), common)


def _widen_columns(values: Values, members: list[str]) -> None:
    """Give tiles of one element a partition as many dimensions as the others have; they repeat over all of them."""
    rank = max(len(values[name]._shape) for name in members)
    for name in members:
        tile = values[name]
        if len(tile._shape) < rank and tile.size == tile._shape[0]:
            while len(tile._shape) < rank:
                tile = tile.expand_dim(1)
            values[name] = tile


def _result_dtype(values: Values, names: Sequence[str], asked: object, declared: object) -> DType:
    """Return the result's dtype: as asked, as declared, or what the inputs promote to."""
    kind = declared if asked is None else asked
    return promote(*[values[name]._dtype for name in names]) if kind is None else dtype_of(kind)


def _with_result(
    instruction: Instruction, spelling: Beta1, values: Values, names: list[str], generic: Values
) -> NkiTensor:
    builder, result, mask = current(), spelling.result, generic["mask"]
    assert result is not None  # every declaration that returns a tile has one

    def shape_of(*shapes: Shape) -> Shape:
        return operations.tile_shape(tuple(result(with_shapes(values, names, shapes))[0]))

    def compute(*parts: NkiTensor) -> NkiTensor:
        bound = values | dict(zip(names, parts, strict=True))
        sizes, kind, space = result(bound)
        shape, own = operations.tile_shape(tuple(sizes)), MemoryRegion(space)
        tile = builder.allocate(shape, _result_dtype(bound, names, generic["dtype"], kind), generic["buffer"] or own)
        if spelling.arrange is not None:
            spelling.arrange(bound)
        try:
            record(instruction, bound | {spelling.returns: tile}, generic["name"])
        except NkiError:
            # Results of a fixed dtype or memory are cast by a copy.
            fixed = _result_dtype(bound, names, None, kind)
            if fixed is tile._dtype and (generic["buffer"] or own) is own:
                raise
            first = builder.allocate(shape, fixed, own)
            record(instruction, bound | {spelling.returns: first}, generic["name"])
            operations.assign(tile, first)
        return tile

    if "accumulate" in instruction.operands and "accumulate" not in values:
        values["accumulate"] = False  # a call makes a new tile; `+=` accumulates
    tensors = [values[name] for name in names]
    if mask is None:
        return masked(None, compute, tensors, F32)
    _, kind, space = result(values)
    blank = _result_dtype(values, names, generic["dtype"], kind), MemoryRegion(space)
    if names:
        return masked(
            mask,
            compute,
            tensors,
            *blank,
            letters=[instruction.operands[name].dims for name in names],
            shape_of=shape_of,
        )
    # Without tensors the whole tile is computed, its part outside of the mask is undefined.
    shape = shape_of()
    return builder.unwritten(shape, *blank) if cut(mask, [(shape, TILE, None)]).empty else compute()
