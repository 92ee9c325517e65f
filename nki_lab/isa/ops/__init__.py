"""The instruction declarations, one file a family; importing this package fills `isa.spec.TABLE`."""

from nki_lab.isa.ops import activation, dma, elementwise, matmul, move, norm, reduce, scan

__all__ = ["activation", "dma", "elementwise", "matmul", "move", "norm", "reduce", "scan"]
