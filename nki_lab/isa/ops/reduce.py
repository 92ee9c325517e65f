"""Vector Engine reductions along the free dimension."""


# mypy: disable-error-code="misc"

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import BF16, INTEGERS
from nki_lab.isa.ops.cycles import engine_cost, free_size
from nki_lab.isa.spec import ONCHIP, Cost, Legacy, Use, arg, attr, instruction, out, predicate


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """The reduced axes, sorted and non-negative."""
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(sorted(a + rank if a < 0 else a for a in given))


def _axes(use: Use) -> str | None:
    shape = use.types["data"].shape
    rank = len(shape)
    axes = axes_of(use.attrs["axis"], rank)
    if not axes:
        return "axis is empty"
    if axes[0] <= 0:
        return f"axis {use.attrs['axis']} includes the partition dimension of data {tuple(shape)}"
    if axes != tuple(range(axes[0], rank)):
        return f"axis {use.attrs['axis']} of data {tuple(shape)} is not the last {len(axes)} dimension(s)"
    return None


def _kept(use: Use) -> tuple[int, ...]:
    shape = use.types["data"].shape
    return tuple(shape[: axes_of(use.attrs["axis"], len(shape))[0]])


def _reduction(use: Use) -> str | None:
    op = use.attrs["op"]
    if op.reduction and op.name != "average":  # that one belongs to tensor_partition_reduce
        return None
    return f"op=nl.{op.name} is not a reduction operator"


def _result_size(use: Use) -> str | None:
    if _axes(use):
        return None
    kept = int(np.prod(_kept(use)[1:], dtype=int))
    have = use.types["dst"].free_size
    if kept == have and use.types["dst"].shape[0] == use.dims["P"]:
        return None
    return (
        f"dst is {tuple(use.types['dst'].shape)}, reducing data {tuple(use.types['data'].shape)} over axis "
        f"{use.attrs['axis']} gives {use.dims['P']} partitions of {kept} element(s)"
    )


def _integers(use: Use) -> str | None:
    if use.attrs["op"].category != "bitvec":
        return None
    for name, dtype in use.dtypes.items():
        if dtype is not None and dtype not in INTEGERS:
            return f"op=nl.{use.attrs['op'].name} works on bits of integers, {name} is {dtype.name}"
    return "negate is arithmetic and op is a bit operator" if use.attrs["negate"] else None


@instruction(engine="vector", see="NKI API, nki.isa.tensor_reduce")
class tensor_reduce:
    """dst = reduction of data over its last free dimension(s), in float32.

    `axis` names the trailing dimensions of data as the user sees it, never the partition dimension. `negate`
    multiplies the result by -1. A reduction with subtract folds from the left.
    """

    dst = out("P R", ONCHIP, "kept elements of each partition")
    op = attr("alu", "reduction operator: add, subtract, multiply, maximum, minimum, logical or bit and/or/xor")
    data = arg("P F", ONCHIP, "input tile")
    axis = attr("axis", "a trailing free dimension, or a list of them")
    negate = attr("bool", "multiply the result by -1", default=False)
    keepdims = attr("bool", "keep reduced dimensions at size 1", default=False)

    trailing = predicate("NKI217", "axis names the last free dimensions in a row", _axes, operand="axis",
                         help="permute the free dimensions so that the reduced ones come last",
                         accepts={"axis": [1]}, refuses={"axis": 0})  # fmt: skip
    reduction = predicate("NKI215", "op is a reduction operator", _reduction, operand="op",
                          help="use add, subtract, multiply, maximum, minimum or a logical or bit and/or/xor",
                          accepts={"op": "minimum"}, refuses={"op": "equal"})  # fmt: skip
    result = predicate("NKI203", "dst holds the kept elements", _result_size, operand="dst",
                       help="allocate dst with one element for each kept one", accepts={},
                       refuses={"dst": "sbuf float32 128x2"})  # fmt: skip
    integers = predicate("NKI202", "bit operators reduce integers, without negate", _integers, operand="op",
                         help="reinterpret the tile with .view(nl.int32), or use an arithmetic operator",
                         accepts={"op": "bitwise_or", "data": "sbuf int32 128x512", "dst": "sbuf int32 128x1"},
                         refuses={"op": "bitwise_or"})  # fmt: skip

    example = {"dst": "sbuf float32 128x1", "op": "add", "data": "sbuf float32 128x512", "axis": 1}

    def precision(use: Use) -> str:
        return "bits" if use.attrs["op"].category == "bitvec" else "float32"

    def exact(use: Use) -> bool:
        return use.attrs["op"].selects and not use.attrs["negate"]

    def shapes(use: Use) -> Mapping[str, tuple[int, ...]]:
        return {"dst": _kept(use), "data": tuple(use.types["data"].shape)}

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        axes = tuple(range(out.dst.ndim, ins.data.ndim))
        if out.dst.dtype.kind != "f" and ins.data.dtype != out.dst.dtype:
            # guess: a bit reduction works at the width of data; dst takes its low bits, or zeros in front.
            result = np.empty(out.dst.shape, ins.data.dtype)
            np.copyto(out.dst, use.attrs["op"].reduce(ins.data, axes, result), casting="unsafe")
            return
        use.attrs["op"].reduce(ins.data, axes, out.dst)
        if use.attrs["negate"]:
            np.multiply(out.dst, np.float32(-1), out=out.dst)

    def cost(arch: Arch, use: Use) -> Cost:
        n = free_size(use, "data")
        fast = all(d is BF16 for d in use.dtypes.values()) and use.attrs["op"].name in ("add", "maximum")
        return engine_cost(arch, use, n / 2 if fast else n)

    legacy = Legacy(
        result=lambda v: (_legacy_shape(v), v["data"].dtype, "sbuf"),
        order=("op", "data", "axis"),
        keywords=("negate", "keepdims"),
    )


def _legacy_shape(values: Mapping[str, Any]) -> tuple[int, ...]:
    shape = tuple(values["data"].shape)
    axes = [axis for axis in axes_of(values["axis"], len(shape)) if axis]  # the partition dimension is refused later
    if values.get("keepdims"):
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    kept = tuple(n for i, n in enumerate(shape) if i not in axes)
    return kept if len(kept) > 1 else (*kept, 1)
