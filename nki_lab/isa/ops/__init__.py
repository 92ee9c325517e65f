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
    reduce,
    register,
    scan,
    search,
    select,
)

__all__ = [
    "activation", "dma", "elementwise", "gather", "matmul", "move", "mx", "norm", "reduce", "register", "scan",
    "search", "select",
]  # fmt: skip
