"""The GpSimd Engine's search for the K largest values of a snake over 16 partitions."""


# mypy: disable-error-code="misc"

from __future__ import annotations

from typing import Final

import numpy as np

from nki_lab.isa.dtype import BF16, UINT32
from nki_lab.isa.ops.cycles import engine_cost
from nki_lab.isa.ops.shapes import by_partition, partitions_of
from nki_lab.isa.spec import (
    SBUF,
    Arrays,
    Cost,
    EngineState,
    Fault,
    Predicate,
    Unmodelled,
    Use,
    arg,
    attr,
    instruction,
    out,
)

LANES: Final = 16
"""Partitions of one GpSimd core, over which a snake winds (NKI API, nki.isa.topk)."""


def _snake(use: Use) -> Fault:
    n = use.attrs["n"]
    return f"n is {n}" if n != n // 1 or not 8 <= n < 2**16 else None


def _fits(use: Use) -> Fault:
    columns, n = use.types["src"].free_size, use.attrs["n"]
    return None if columns * LANES >= n else f"n is {n}, src holds {LANES} x {columns} elements"


def _found(use: Use) -> Fault:
    size, n = use.types["val_dst"].free_size, use.attrs["n"]
    return None if size <= min(n, 2**15 - 1) else f"val_dst has {size} elements in each partition, n is {n}"


@instruction(engine="gpsimd", release="0.6", see="NKI API, nki.isa.topk")
class topk:
    """val_dst = the K largest of n values in ascending order, idx_dst = their places; K is val_dst's free size.

    Each group of 16 partitions of src holds n values as a snake: value 16 c + r stands in partition r of column c. Of
    equal values the one that stands first comes first.
    """

    # guess: every partition of a group has the group's result. The documentation has each partition work for itself,
    # on a source that 16 of them share, and says no more.
    val_dst = out("P K", (SBUF,), "the largest values, ascending", dtypes=(BF16,))
    idx_dst = out("P K", (SBUF,), "their places in the snake, from 0", dtypes=(UINT32,))
    src = arg("P F", (SBUF,), "tile that holds a snake in each 16 partitions", dtypes=(BF16,))
    n = attr("number", "values in a snake, from 8 to 65535")

    count = Predicate(
        "NKI220",
        "8 <= n < 65536",
        _snake,
        operand="n",
        help="search the rows in parts",
        accepts={"n": 8},
        refuses={"n": 7},
    )
    room = Predicate(
        "NKI203",
        "src has at least n / 16 columns",
        _fits,
        operand="n",
        help="pass the number of values that src holds",
        refuses={"n": 1025},
    )
    most = Predicate(
        "NKI220",
        "K <= n, and K < 32768",
        _found,
        operand="val_dst",
        help="allocate fewer columns",
        accepts={"val_dst": "sbuf bfloat16 128x42", "idx_dst": "sbuf uint32 128x42", "n": 42},
        refuses={"val_dst": "sbuf bfloat16 128x43", "idx_dst": "sbuf uint32 128x43", "n": 42},
    )
    whole = Predicate(
        "NKI204",
        "src spans a multiple of 16 partitions",
        partitions_of("src", LANES, "spans"),
        operand="src",
        help="pad src to whole groups of 16 partitions",
        accepts={"val_dst": "sbuf bfloat16 112x8", "idx_dst": "sbuf uint32 112x8", "src": "sbuf bfloat16 112x64"},
        refuses={"val_dst": "sbuf bfloat16 120x8", "idx_dst": "sbuf uint32 120x8", "src": "sbuf bfloat16 120x64"},
    )

    example = {
        "val_dst": "sbuf bfloat16 128x8",
        "idx_dst": "sbuf uint32 128x8",
        "src": "sbuf bfloat16 128x64",
        "n": 1024,
    }
    shapes = by_partition

    exact = True

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        n, k = int(use.attrs["n"]), out.val_dst.shape[1]
        columns = -(-n // LANES)
        groups = ins.src[:, :columns].reshape(-1, LANES, columns)
        snakes = groups.transpose(0, 2, 1).reshape(len(groups), -1)[:, :n]
        order = np.argsort(snakes, axis=1, kind="stable")[:, n - k :]
        out.val_dst[...] = np.repeat(np.take_along_axis(snakes, order, axis=1), LANES, axis=0)
        out.idx_dst[...] = np.repeat(order, LANES, axis=0)

    def cost(use: Use) -> Cost:
        return engine_cost(
            use, 4 * use.attrs["n"] + use.types["val_dst"].free_size, source="NKI API, nki.isa.topk: 4 n + K cycles"
        )

    beta1 = Unmodelled("Beta 1 has no topk")
