"""Tensor indirection limits an instruction's operands beyond its declaration.

Source: NKI API, `NkiTensor.indirect`, and the notes on tensor indirection of the instructions that take it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nki_lab.diagnostic import Diagnostic, diagnose
from nki_lab.isa.spec import SBUF, Use
from nki_lab.kernel_runtime.tensor import ViewType
from nki_lab.kernel_runtime.tensor.indirect import GATHER_GROUP, TENSOR_ENGINE_GATHER_GROUP

_QUADRANT = 32


class Problem(NamedTuple):
    """A limit of tensor indirection that an operand does not keep."""

    code: str
    message: str
    operand: str
    limit: str
    help: str
    measured: tuple[int, int] | None = None


def problems(use: Use) -> Iterator[Problem]:
    """Find problems of the gathered operands of a use: first those that refuse it, then those the compiler rejects."""
    gathered = {name: view for name, view in use.types.items() if view is not None and view.indirect == "gather"}
    for name, view in gathered.items():
        yield from _short(use, name, view)
        if use.engine == "scalar" and use.instruction.operands[name].role == "out" and use.space(name) != SBUF:
            yield Problem(
                "NKI208",
                f"the scalar engine cannot scatter {name} in PSUM",
                name,
                "the Scalar Engine scatters into SBUF only",
                "scatter into a tile in SBUF, or on the Vector Engine",
            )
    for name, view in gathered.items():
        if _start(view.index) >= 0:
            yield from _placement(use, name, view)


def _short(use: Use, name: str, view: ViewType) -> Iterator[Problem]:
    """Find a list of offsets that is shorter than the view: each group of partitions keeps its own."""
    group = TENSOR_ENGINE_GATHER_GROUP if use.engine == "tensor" else GATHER_GROUP
    lanes = view.partitions % group or group
    columns = view.index.free_size if view.index is not None else 0
    have, count = lanes * columns, view.free_size
    if count > have:
        yield Problem(
            "NKI309",
            f"{name} picks {count} columns, and {lanes} partitions with {columns} offsets each hold {have}",
            name,
            f"{group} partitions share one list of offsets on the {use.engine} engine, fewer at the end",
            "give the index tensor more columns, or the view whole groups of partitions",
        )


def _start(view: ViewType | None) -> int:
    """Return the partition at which a placed tensor starts, -1 for one that the compiler places."""
    return view.start_partition if view is not None and view.placed else -1


def _placement(use: Use, name: str, view: ViewType) -> Iterator[Problem]:
    """Find a gathered view whose index, placed by address, starts at another partition than it must."""
    start = _start(view.index)
    if start % _QUADRANT:
        yield Problem(
            "NKI226",
            f"the index of {name} starts at partition {start}",
            name,
            f"index tensors start at a multiple of {_QUADRANT} partitions",
            "place the index at a quadrant's beginning",
        )
        return
    if use.instruction.operands[name].role == "in":
        if _start(view) not in (-1, start):
            yield Problem(
                "NKI226",
                f"{name} starts at partition {view.start_partition} and its index at {start}",
                name,
                "a gathered operand and its index start at one partition",
                f"place the index at {view.start_partition}",
            )
        return
    source = next(key for key, item in use.instruction.operands.items() if item.role == "in" and item.indirect)
    other = use.types.get(source)
    if other is None:
        return
    direct = use.space(source) == SBUF
    wanted, what = (_start(other), source) if direct else (_start(other.index), f"the index of {source}")
    if wanted not in (-1, start):
        yield Problem(
            "NKI226",
            f"the index of {name} starts at partition {start} and {what} at {wanted}",
            name,
            "the index of a scattered result starts where the input does",
            f"place the index at {wanted}",
        )


def repeated_row(name: str, first: int, again: int, place: int, dim: int) -> Diagnostic:
    """Return NKI412: the rows `first` and `again` of a scatter both go to index `place` of dimension `dim`."""
    return diagnose(
        "NKI412",
        f"{name}: rows {first} and {again} both go to index {place} of dimension {dim}",
        operand="dst",
        limit="the rows of a transfer are moved at the same time: the indices of a scatter differ",
        help="split the scatter, or send rows that shall not count outside with oob_mode=nisa.oob_mode.skip",
    )
