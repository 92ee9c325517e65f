"""Counts of a program, read off its columns and the declarations of its instructions."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.isa.spec import HBM, Unmodelled
from nki_lab.kernel_runtime.ir import Program, Variant


class Summary(dict[str, Any]):
    """A dict whose names are attributes as well."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the summary has no {name}; it has {', '.join(self)}") from None


def summarise(program: Program) -> Summary:
    """Return the counts of a program, without a model of time.

    `instructions` of all `cores`; `flops` of matrix products, transposes not counted; `dma_bytes` moved by DMA;
    `hbm_read_bytes` and `hbm_write_bytes` of all accesses to HBM; `target`. A name of which some part is not modelled
    is left out. Of a program with device loops, whose trip counts are unknown here, only the recorded
    `instructions` are counted.
    """
    if program.regions:
        return Summary(target=program.arch.target, instructions=len(program), cores=program.cores)
    totals = {"flops": 0, "dma_bytes": 0, "hbm_read_bytes": 0, "hbm_write_bytes": 0}
    unknown: set[str] = set()
    for variant, count in counted(program):
        totals["flops"] += count * variant.instruction.flops(variant.use)
        cost = variant.instruction.cost
        if isinstance(cost, Unmodelled):
            unknown |= {"dma_bytes"} if variant.engine == "dma" else set()
        elif variant.engine == "dma":
            totals["dma_bytes"] += count * int(cost(variant.use).bytes)
        for name, is_out in zip(variant.names, variant.outs, strict=True):
            view = variant.use.types[name]
            if variant.use.space(name) == HBM:
                key = "hbm_write_bytes" if is_out else "hbm_read_bytes"
                totals[key] += count * view.partitions * view.free_size * view.dtype.nbytes
    known = {name: value for name, value in totals.items() if name not in unknown}
    return Summary(target=program.arch.target, instructions=len(program), cores=program.cores, **known)


def counted(program: Program) -> list[tuple[Variant, int]]:
    """Return each variant of a program with the number of its instructions."""
    counts: list[int] = np.bincount(program.variant_column(), minlength=len(program.variants)).tolist()
    return list(zip(program.variants, counts, strict=True))
