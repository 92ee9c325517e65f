"""Arguments of Beta 1 that stand for operands of another kind, and operands that it is stricter about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import diagnose, error_of
from nki_lab.isa.alu import ALU
from nki_lab.isa.dtype import BF16, F16, F32, dtype_of
from nki_lab.isa.enums import reduce_cmd
from nki_lab.kernel_runtime.beta1.blocks import split_shape
from nki_lab.kernel_runtime.beta1.index import Index, Mask
from nki_lab.kernel_runtime.tensor import NkiTensor


def _fill_arguments(values: dict[str, Any]) -> None:
    """memset(shape, value, dtype): the first entry of shape is the partition dimension, marked or not."""
    blocks, tile = split_shape(values["shape"])
    values["shape"] = (*blocks, *tile)
    if isinstance(values["value"], np.generic):
        values["value"] = values["value"].item()
    if dtype_of(values["dtype"]).is_integer and isinstance(values["value"], float) and values["value"].is_integer():
        values["value"] = int(values["value"])


def _iota_arguments(values: dict[str, Any]) -> None:
    """iota(expr, dtype): the affine coefficients of the index expression are the pattern."""
    expr = values["expr"]
    if not isinstance(expr, Index) or expr.ndim < 2:
        what = f"an index of shape {expr.shape}" if isinstance(expr, Index) else f"a {type(expr).__name__}"
        raise error_of(
            diagnose("NKI216", f"iota: expr is {what}", operand="expr",
                     limit="expr is an index expression with a partition and a free dimension",
                     help="write nl.arange(n)[None, :] or nl.arange(n)[:, None]")
        )  # fmt: skip
    values["shape"] = expr.shape
    values["offset"] = expr.offset
    values["channel_multiplier"] = expr.steps[0]
    values["pattern"] = tuple(zip(expr.steps[1:], expr.shape[1:], strict=True))


def _affine_arguments(values: dict[str, Any]) -> None:
    """affine_select(pred, ...): a comparison of index expressions, as an affine function compared with 0."""
    pred = values.pop("pred")
    source = pred.source if isinstance(pred, Mask) else None
    if source is None:
        what = f"{pred!r}" if isinstance(pred, Mask) else f"a {type(pred).__name__}"
        raise error_of(
            diagnose("NKI012", f"affine_select: pred is {what}", operand="pred",
                     limit="pred is one affine comparison of index expressions, such as i_p >= i_f",
                     help="select twice, once for each comparison")
        )  # fmt: skip
    index, sign = source
    shape = tuple(values["on_true_tile"]._shape)
    if index.ndim != len(shape):
        raise error_of(
            diagnose("NKI012", f"affine_select: pred has {index.ndim} dimensions, on_true_tile is {shape}",
                     operand="pred", limit="pred indexes the tile's partition and free dimensions",
                     help="write the indices as nl.arange(n)[:, None] and nl.arange(n)[None, :]")
        )  # fmt: skip
    values["offset"] = index.offset
    values["channel_multiplier"] = index.steps[0]
    values["pattern"] = tuple(zip(index.steps[1:], shape[1:], strict=True))
    values["cmp_op"] = ALU[sign]


def _activation_arguments(values: dict[str, Any]) -> None:
    """activation(..., bias=, scale=): columns that Beta 1 does not convert."""
    for name, dtypes in (("bias", (F32, F16, BF16)), ("scale", (F32,))):
        value = values.get(name)
        if isinstance(value, NkiTensor) and value._dtype not in dtypes:
            raise error_of(
                diagnose("NKI202", f"activation: {name} is {value._dtype.name}", operand=name,
                         limit=f"{name} is {' or '.join(item.name for item in dtypes)}",
                         help=f"copy it to a tile of {dtypes[0].name} first" + ", or pass a number" * (name == "scale"))
            )  # fmt: skip


def _cumulative_arguments(values: dict[str, Any]) -> None:
    """tensor_scalar_cumulative(..., imm1=): AWS's kernels pass a start with every command, which load_reduce reads."""
    if values.get("reduce_cmd") is not reduce_cmd.load_reduce:
        values.pop("imm1", None)


# Beta 1 arguments that stand for operands of another kind: shapes for tiles, index expressions for patterns.
ADAPTERS: Final[Mapping[str, Callable[[dict[str, Any]], None]]] = {
    "activation": _activation_arguments, "activation_reduce": _activation_arguments, "affine_select": _affine_arguments,
    "iota": _iota_arguments, "memset": _fill_arguments,
    "tensor_scalar_cumulative": _cumulative_arguments,
}  # fmt: skip
