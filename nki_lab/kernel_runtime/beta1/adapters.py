"""Arguments of Beta 1 that stand for operands of another kind, and operands that it is stricter about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.isa.alu import ALU
from nki_lab.isa.dtype import DType
from nki_lab.isa.spec import Beta1, Instruction
from nki_lab.kernel_runtime.beta1.blocks import split_shape
from nki_lab.kernel_runtime.beta1.index import Index, Mask
from nki_lab.kernel_runtime.tensor import NkiTensor
from nki_lab.kernel_runtime.tensor.buffer import integer_of


def adapt(instruction: Instruction, spelling: Beta1, values: dict[str, Any]) -> None:
    """Replace arguments of Beta 1's own forms by the operands that they stand for, as the declaration says."""
    for name, form in spelling.forms.items():
        if form == "shape":
            # The first entry is the partition dimension, marked or not.
            blocks, sizes = split_shape(values[name])
            values[name] = (*blocks, *sizes)
        elif form == "index":
            index = _index(instruction, name, values[name])
            values |= {"shape": index.shape, **_affine(index, index.shape)}
        else:
            tile = next(key for key, operand in instruction.operands.items() if operand.role == "in")
            shape = tuple(values[tile]._shape)
            index, sign = _comparison(instruction, name, values.pop(name), tile, shape)
            values |= {"cmp_op": ALU[sign], **_affine(index, shape)}
    _check_dtypes(instruction, spelling.dtypes, values)
    if spelling.adapt is not None:
        spelling.adapt(values)


def _affine(index: Index, shape: tuple[int, ...]) -> dict[str, Any]:
    """The coefficients of an index expression as the instructions take them."""
    return {
        "offset": index.offset,
        "channel_multiplier": index.steps[0],
        "pattern": tuple(zip(index.steps[1:], shape[1:], strict=True)),
    }


def _index(instruction: Instruction, name: str, value: Any) -> Index:
    if isinstance(value, Index) and value.ndim >= 2:
        return value
    if (number := integer_of(value)) is not None:  # as nl.program_id() is, which public kernels pass
        return Index((1, 1), (0, 0), number, (frozenset(), frozenset()))
    what = f"an index of shape {value.shape}" if isinstance(value, Index) else f"a {type(value).__name__}"
    raise coded_error(
        "NKI216",
        f"{instruction.name}: {name} is {what}",
        operand=name,
        limit=f"{name} is an index expression with a partition and a free dimension",
        help="write nl.arange(n)[None, :] or nl.arange(n)[:, None]",
    )


def _comparison(
    instruction: Instruction, name: str, value: Any, tile: str, shape: tuple[int, ...]
) -> tuple[Index, str]:
    """A comparison of index expressions, as an affine function and the operator that compares it with 0."""
    source = value.source if isinstance(value, Mask) else None
    if source is None:
        what = f"{value!r}" if isinstance(value, Mask) else f"a {type(value).__name__}"
        raise _bad_comparison(
            instruction,
            name,
            f"is {what}",
            f"{name} is one affine comparison of index expressions, such as i_p >= i_f",
            "select twice, once for each comparison",
        )
    index: Index = source[0]
    if index.ndim != len(shape):
        raise _bad_comparison(
            instruction,
            name,
            f"has {index.ndim} dimensions, {tile} is {shape}",
            f"{name} indexes the tile's partition and free dimensions",
            "write the indices as nl.arange(n)[:, None] and nl.arange(n)[None, :]",
        )
    return index, source[1]


def _bad_comparison(instruction: Instruction, name: str, problem: str, limit: str, instead: str) -> NkiError:
    return coded_error("NKI012", f"{instruction.name}: {name} {problem}", operand=name, limit=limit, help=instead)


def _check_dtypes(instruction: Instruction, dtypes: Mapping[str, tuple[DType, ...]], values: Mapping[str, Any]) -> None:
    for name, allowed in dtypes.items():
        value = values.get(name)
        if isinstance(value, NkiTensor) and value._dtype not in allowed:
            or_number = ", or pass a number" * (len(allowed) == 1)
            raise coded_error(
                "NKI202",
                f"{instruction.name}: {name} is {value._dtype.name}",
                operand=name,
                limit=f"{name} is {' or '.join(item.name for item in allowed)}",
                help=f"copy it to a tile of {allowed[0].name} first{or_number}",
            )
