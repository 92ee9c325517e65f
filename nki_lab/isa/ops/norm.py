"""Vector Engine statistics: mean and variance in two steps."""


# mypy: disable-error-code="misc"

from __future__ import annotations

import numpy as np

from nki_lab.isa.ops.cycles import engine_cost, free_size, streaming
from nki_lab.isa.ops.shapes import by_partition
from nki_lab.isa.spec import (
    ONCHIP,
    Arrays,
    Beta1,
    Cost,
    EngineState,
    Fault,
    Predicate,
    Use,
    arg,
    instruction,
    limit,
    out,
)


@instruction(engine="vector", see="NKI API, nki.isa.bn_stats")
class bn_stats:
    """dst = count, mean and count x variance of data's even elements, then of its odd ones, in each partition.

    Computed in float32. `bn_aggr` merges the triples of one or more calls into mean and variance.
    """

    dst = out("P 6", ONCHIP, "six statistics of each partition, cast on write")
    data = arg("P F", ONCHIP, "input tile")

    width = limit(
        "F <= bn_stats_fmax",
        "NKI220",
        operand="data",
        help="call it for parts of the tile and merge their triples with nisa.bn_aggr",
    )

    example = {"dst": "sbuf float32 128x6", "data": "sbuf float32 128x512"}
    shapes = by_partition

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        for first in (0, 1):
            part = ins.data[:, first::2]
            at = 3 * first
            out.dst[:, at] = part.shape[1]
            if not part.shape[1]:  # guess: no odd element gives zeros
                out.dst[:, at + 1 : at + 3] = 0
                continue
            mean = part.mean(axis=1, dtype=part.dtype)
            out.dst[:, at + 1] = mean
            apart = part - mean[:, None]
            out.dst[:, at + 2] = np.einsum("pf,pf->p", apart, apart)

    cost = streaming("data")

    beta1 = Beta1(shape=lambda v: (v["data"].shape[0], 6), order="data")


def _triples(use: Use) -> Fault:
    size = use.types["data"].free_size
    return None if size % 3 == 0 else f"data has {size} elements in each partition"


@instruction(engine="vector", see="NKI API, nki.isa.bn_aggr")
class bn_aggr:
    """dst = mean and variance of each partition, merged from data's triples of count, mean and count x variance.

    The variance is that of the population: divided by the count, not by one less. Computed in float32.
    """

    dst = out("P 2", ONCHIP, "mean and variance of each partition, cast on write")
    data = arg("P F", ONCHIP, "triples as nisa.bn_stats writes them")

    triples = Predicate(
        "NKI220",
        "data holds whole triples",
        _triples,
        operand="data",
        help="pass what nisa.bn_stats wrote: six elements for each call",
        accepts={"data": "sbuf float32 128x6"},
        refuses={"data": "sbuf float32 128x7"},
    )

    example = {"dst": "sbuf float32 128x2", "data": "sbuf float32 128x12"}
    shapes = by_partition

    def numerics(out: Arrays, ins: Arrays, use: Use, state: EngineState) -> None:
        triples = ins.data.reshape(ins.data.shape[0], -1, 3)
        count, mean, spread = triples[..., 0], triples[..., 1], triples[..., 2]
        total = count.sum(axis=1, dtype=count.dtype)
        middle = np.einsum("pk,pk->p", count, mean) / total
        apart = mean - middle[:, None]
        out.dst[:, 0] = middle
        out.dst[:, 1] = (spread.sum(axis=1, dtype=spread.dtype) + np.einsum("pk,pk,pk->p", count, apart, apart)) / total

    def cost(use: Use) -> Cost:
        return engine_cost(use, 13 * free_size(use, "data") / 3)

    beta1 = Beta1(shape=lambda v: (v["data"].shape[0], 2), order="data")
