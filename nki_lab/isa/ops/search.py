"""Vector Engine searches: the eight largest values of a row, where values stand, and replacing them."""


# mypy: disable-error-code="misc"

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from nki_lab.isa.alu import Array
from nki_lab.isa.dtype import UINT16, UINT32
from nki_lab.isa.ops.cycles import streaming
from nki_lab.isa.ops.shapes import by_partition
from nki_lab.isa.spec import (
    ONCHIP,
    SBUF,
    Arrays,
    Beta1,
    EngineState,
    Fault,
    Limit,
    Predicate,
    Use,
    arg,
    attr,
    instruction,
    limit,
    out,
)

_ABSENT: Final = 2**32
"""Index of a value that is not there, which becomes all ones in dst."""


def _searched(operand: str) -> tuple[Predicate, Predicate]:
    """Limits: a row has at least 8 elements, and a tile up to 3 dimensions, in Beta 1 up to 5."""

    def short(use: Use) -> Fault:
        size = use.types[operand].free_size
        return None if size >= 8 else f"{operand} has {size} elements in each partition"

    def rank(use: Use) -> Fault:
        dimensions, most = len(use.types[operand].shape), 5 if use.dialect == "beta1" else 3
        return None if dimensions <= most else f"{operand} has {dimensions} dimensions, {use.name} takes {most}"

    return (
        Predicate(
            "NKI220",
            f"{operand} has at least 8 elements in each partition",
            short,
            operand=operand,
            help="pad the row with the lowest value",
            accepts={operand: "sbuf float32 128x8"},
            refuses={operand: "sbuf float32 128x7"},
        ),
        Predicate(
            "NKI205",
            f"{operand} has up to 3 dimensions",
            rank,
            operand=operand,
            help="merge free dimensions with .reshape()",
            accepts={operand: "sbuf float32 128x4x8"},
            refuses={operand: "sbuf float32 128x2x2x8"},
        ),
    )


def _eight_columns(dtype: str) -> Predicate:
    """Limit: the eight results of a partition are a row of dst, which is `dtype` in the example."""

    def test(use: Use) -> Fault:
        shape = tuple(use.types["dst"].shape)
        return None if len(shape) == 2 else f"dst is {shape}, {use.name} writes two dimensions"

    return Predicate(
        "NKI205",
        "dst is (partitions, 8)",
        test,
        operand="dst",
        help="give dst two dimensions, with .reshape() where it has more",
        accepts={"dst": f"psum {dtype} 128x8"},
        refuses={"dst": f"sbuf {dtype} 128x2x4"},
    )


def _vals_rank(use: Use) -> Fault:
    dimensions = len(use.types["vals"].shape)
    return None if dimensions <= 3 else f"vals has {dimensions} dimensions, {use.name} takes 3"


def _long(operand: str) -> Limit:
    return limit("F <= 16384", "NKI220", operand=operand, help="search the row in parts, and then their results")


_EIGHT: Final = limit("V == 8", "NKI203", operand="vals", help="pass what nisa.max8 gives: eight values")


def _places(data: Array, values: Array, order: Iterable[int]) -> Iterator[tuple[int, Array]]:
    """Yield the place of each of the eight values in each row; a place is taken once.

    Gives the number of the value and a column of places, `_ABSENT` where the value is not there.
    """
    free = data.astype(data.dtype)  # where a place is taken, NaN: equal to nothing
    match = np.empty(data.shape, bool)
    rows = np.arange(len(free))
    for number in order:
        np.equal(free, values[:, number, None], out=match)
        first = match.argmax(axis=1)
        found = match[rows, first]
        free[rows[found], first[found]] = np.nan
        yield number, np.where(found, first, _ABSENT)


@instruction(engine="vector", see="NKI API, nki.isa.max8")
class max8:
    """dst = the eight largest values of each partition of src, largest first; equal values are kept.

    Values are compared, and written, as float32.
    """

    dst = out("P 8", ONCHIP, "eight values of each partition, cast on write")
    src = arg("P F", ONCHIP, "tile to search")

    short, rank = _searched("src")
    long = _long("src")
    row = _eight_columns("float32")

    example = {"dst": "sbuf float32 128x8", "src": "sbuf float32 128x512"}
    shapes = by_partition

    exact = True

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        src = ins.src
        # guess: NaN counts as the largest value, as NumPy sorts it; the documentation does not say.
        top = np.partition(src, src.shape[1] - 8, axis=1)[:, -8:] if src.shape[1] > 8 else src
        out.dst[...] = np.sort(top, axis=1)[:, ::-1]

    cost = streaming("src")

    beta1 = Beta1(shape=lambda v: (v["src"].shape[0], 8))


@instruction(engine="vector", see="NKI API, nki.isa.nc_find_index8")
class nc_find_index8:
    """dst[i] = free index in data of vals[i], for the eight values of each partition.

    Equal values in vals take successive places, in ascending order. A value that is not there gives all ones: 65535 or
    4294967295. Values are compared as float32.
    """

    dst = out("P 8", ONCHIP, "eight indices of each partition", dtypes=(UINT16, UINT32))
    data = arg("P F", ONCHIP, "tile to search")
    vals = arg("P V", ONCHIP, "eight values of each partition")

    short, rank = _searched("data")
    long = _long("data")
    row = _eight_columns("uint32")
    eight = _EIGHT
    flat = Predicate(
        "NKI205",
        "vals has up to 3 dimensions",
        _vals_rank,
        operand="vals",
        help="merge free dimensions with .reshape()",
        accepts={"vals": "sbuf float32 128x2x4"},
        refuses={"vals": "sbuf float32 128x2x2x2"},
    )

    example = {"dst": "sbuf uint32 128x8", "data": "sbuf float32 128x512", "vals": "sbuf float32 128x8"}
    shapes = by_partition

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        for number, places in _places(ins.data, ins.vals, range(8)):
            out.dst[:, number] = places

    cost = streaming("data")

    beta1 = Beta1(result=lambda v: ((v["data"].shape[0], 8), UINT32, SBUF))


@instruction(engine="vector", see="NKI API, nki.isa.nc_match_replace8")
class nc_match_replace8:
    """dst = data with one place of each of the eight values of vals replaced by imm; dst_idx = those places.

    The eight values are searched backwards: of equal values the last takes the first place, so that their places in
    dst_idx descend, the other way round than nc_find_index8. A value that is not there replaces nothing.
    """

    dst = out("P F", ONCHIP, "data with places replaced; may be data itself")
    data = arg("P F", ONCHIP, "tile to search")
    vals = arg("P V", ONCHIP, "eight values of each partition")
    imm = attr("number", "what is written in their places, as float32")
    dst_idx = out("P 8", (SBUF,), "free index of each replaced place", dtypes=(UINT16, UINT32), optional=True)

    long = _long("data")
    eight = _EIGHT

    example = {
        "dst": "sbuf float32 128x512",
        "data": "sbuf float32 128x512",
        "vals": "sbuf float32 128x8",
        "imm": 0.0,
        "dst_idx": "sbuf uint32 128x8",
    }
    shapes = by_partition

    continuous = False

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        places = dict(_places(ins.data, ins.vals, reversed(range(8))))
        np.copyto(out.dst, ins.data)
        for number, place in places.items():
            found = place < _ABSENT
            out.dst[found, place[found]] = np.float32(use.attrs["imm"])
            if out.dst_idx is not None:
                # The index of a value that is not there is undefined. guess: all ones, as nc_find_index8 gives.
                out.dst_idx[:, number] = place

    cost = streaming("data")

    beta1 = Beta1()
