"""Vector Engine searches: the eight largest values of a row, where values stand, and replacing them."""


# mypy: disable-error-code="misc"

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nki_lab.isa.arch import Arch
from nki_lab.isa.dtype import UINT16, UINT32
from nki_lab.isa.ops.cycles import engine_cost, free_size
from nki_lab.isa.ops.shapes import by_partition
from nki_lab.isa.spec import ONCHIP, SBUF, Cost, Legacy, Use, arg, attr, instruction, limit, out, predicate

_WIDE: Final = "search the row in parts, and then their results"
_LONG: Final = "pad the row with the lowest value"


def _rank(operand: str, most: int) -> Callable[[Use], str | None]:
    def test(use: Use) -> str | None:
        rank = len(use.types[operand].shape)
        return None if rank <= most else f"{operand} has {rank} dimensions, {use.instruction.name} takes {most}"

    return test


def _at_least_eight(operand: str) -> Callable[[Use], str | None]:
    def test(use: Use) -> str | None:
        size = use.types[operand].free_size
        return None if size >= 8 else f"{operand} has {size} elements in each partition"

    return test


@instruction(engine="vector", see="NKI API, nki.isa.max8")
class max8:
    """dst = the eight largest values of each partition of src, largest first; equal values are kept.

    Values are compared, and written, as float32.
    """

    dst = out("P 8", ONCHIP, "eight values of each partition, cast on write")
    src = arg("P F", ONCHIP, "tile to search")

    short = predicate(
        "NKI220",
        "src has at least 8 elements in each partition",
        _at_least_eight("src"),
        operand="src",
        help=_LONG,
        accepts={"src": "sbuf float32 128x8"},
        refuses={"src": "sbuf float32 128x7"},
    )
    long = limit("F <= 16384", "NKI220", operand="src", help=_WIDE)
    rank = predicate("NKI205", "src has up to 3 dimensions", _rank("src", 3), operand="src",
                     help="merge free dimensions with .reshape()", accepts={"src": "sbuf float32 128x4x8"},
                     refuses={"src": "sbuf float32 128x2x2x8"})  # fmt: skip

    example = {"dst": "sbuf float32 128x8", "src": "sbuf float32 128x512"}
    shapes = by_partition

    exact = True

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        src = ins.src
        # guess: NaN counts as the largest value, as NumPy sorts it; the documentation does not say.
        top = np.partition(src, src.shape[1] - 8, axis=1)[:, -8:] if src.shape[1] > 8 else src
        out.dst[...] = np.sort(top, axis=1)[:, ::-1]

    def cost(arch: Arch, use: Use) -> Cost:
        return engine_cost(arch, use, free_size(use, "src"))

    legacy = Legacy(shape=lambda v: (v["src"].shape[0], 8))


@instruction(engine="vector", see="NKI API, nki.isa.nc_find_index8")
class nc_find_index8:
    """dst[i] = free index in data of vals[i], for the eight values of each partition.

    Equal values in vals take successive places, in ascending order. A value that is not there gives all ones: 65535 or
    4294967295. Values are compared as float32.
    """

    dst = out("P 8", ONCHIP, "eight indices of each partition", dtypes=(UINT16, UINT32))
    data = arg("P F", ONCHIP, "tile to search")
    vals = arg("P V", ONCHIP, "eight values of each partition")

    short = predicate(
        "NKI220",
        "data has at least 8 elements in each partition",
        _at_least_eight("data"),
        operand="data",
        help=_LONG,
        accepts={"data": "sbuf float32 128x8"},
        refuses={"data": "sbuf float32 128x7"},
    )
    long = limit("F <= 16384", "NKI220", operand="data", help=_WIDE)
    eight = limit("V == 8", "NKI203", operand="vals", help="pass what nisa.max8 gives: eight values")
    rank = predicate("NKI205", "data has up to 3 dimensions", _rank("data", 3), operand="data",
                     help="merge free dimensions with .reshape()", accepts={"data": "sbuf float32 128x4x8"},
                     refuses={"data": "sbuf float32 128x2x2x8"})  # fmt: skip

    example = {"dst": "sbuf uint32 128x8", "data": "sbuf float32 128x512", "vals": "sbuf float32 128x8"}
    shapes = by_partition

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        free = np.ones(ins.data.shape, bool)
        rows = np.arange(len(free))
        for place in range(8):
            match = (ins.data == ins.vals[:, place, None]) & free
            first = match.argmax(axis=1)
            found = match[rows, first]
            free[rows[found], first[found]] = False
            out.dst[:, place] = np.where(found, first, 2**32)

    def cost(arch: Arch, use: Use) -> Cost:
        return engine_cost(arch, use, free_size(use, "data"))

    legacy = Legacy(result=lambda v: ((v["data"].shape[0], 8), UINT32, SBUF))


@instruction(engine="vector", see="NKI API, nki.isa.nc_match_replace8")
class nc_match_replace8:
    """dst = data with one place of each of the eight values of vals replaced by imm; dst_idx = those places.

    vals is gone through backwards: of equal values the last takes the first place, so that their places in dst_idx
    descend, the other way round than nc_find_index8. A value that is not there replaces nothing.
    """

    dst = out("P F", ONCHIP, "data with places replaced; may be data itself")
    data = arg("P F", ONCHIP, "tile to search")
    vals = arg("P V", ONCHIP, "eight values of each partition")
    imm = attr("number", "what is written in their places, as float32")
    dst_idx = out("P 8", (SBUF,), "free index of each replaced place", dtypes=(UINT16, UINT32), optional=True)

    long = limit("F <= 16384", "NKI220", operand="data", help=_WIDE)
    eight = limit("V == 8", "NKI203", operand="vals", help="pass what nisa.max8 gives: eight values")

    example = {"dst": "sbuf float32 128x512", "data": "sbuf float32 128x512", "vals": "sbuf float32 128x8", "imm": 0.0,
               "dst_idx": "sbuf uint32 128x8"}  # fmt: skip
    shapes = by_partition

    def numerics(out: Any, ins: Any, use: Use, state: Any) -> None:
        data = ins.data
        replaced = np.zeros(data.shape, bool)
        rows = np.arange(len(data))
        for place in reversed(range(8)):
            match = (data == ins.vals[:, place, None]) & ~replaced
            first = match.argmax(axis=1)
            found = match[rows, first]
            replaced[rows[found], first[found]] = True
            if out.dst_idx is not None:
                # The index of a value that is not there is undefined. guess: all ones, as nc_find_index8 gives.
                out.dst_idx[:, place] = np.where(found, first, 2**32)
        out.dst[...] = np.where(replaced, np.float32(use.attrs["imm"]), data)

    def cost(arch: Arch, use: Use) -> Cost:
        return engine_cost(arch, use, free_size(use, "data"))

    legacy = Legacy()
