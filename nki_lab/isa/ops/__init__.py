"""The instruction declarations, one file a family; importing this package fills `isa.spec.TABLE`."""

from nki_lab.isa.ops import (
    activation,
    dma,
    elementwise,
    gather,
    matmul,
    move,
    mx,
    norm,
    random,
    reduce,
    register,
    scan,
    search,
    select,
    sync,
    topk,
)

__all__ = [
    "activation", "dma", "elementwise", "gather", "matmul", "move", "mx", "norm", "random", "reduce", "register",
    "scan", "search", "select", "sync", "topk",
]  # fmt: skip
