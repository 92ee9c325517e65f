"""Arguments of kernels that stand for arrays: a shape and a dtype, without values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nki_lab.diagnostic import coded_error
from nki_lab.isa.dtype import DType, dtype_of
from nki_lab.printable import shown


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input tensor of which only shape and dtype are known. `shape` is outermost dimension first.

    `memory` is where it lies: "sbuf", "psum", or empty for HBM. Only helpers take tensors on the chip.
    """

    shape: tuple[int, ...]
    dtype: DType
    memory: str = ""

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        memory = f"{self.memory} " if self.memory else ""
        return f"{memory}{self.dtype.name}[{','.join(map(str, self.shape))}]"


def spec(shape: object, dtype: Any) -> TensorSpec:
    """Return the input tensor of `shape` (a tuple or list of positive integers, or one integer) and `dtype`.

    `dtype` is anything that names an NKI dtype: "bfloat16", `nl.bfloat16`, `np.float32`. Raises NKI307 for a shape
    that no tensor has, and NKI012 for an unknown dtype.
    """
    given = (shape,) if isinstance(shape, int) and not isinstance(shape, bool) else shape
    sizes = tuple(given) if isinstance(given, (tuple, list)) else ()
    if not sizes or any(type(size) is bool or not hasattr(size, "__index__") or int(size) <= 0 for size in sizes):
        raise coded_error(
            "NKI307",
            f"shape is {shown(shape)}",
            operand="shape",
            limit="a shape is a tuple of positive integers",
            help="for example nki_lab.spec((128, 512), 'bfloat16')",
        )
    return TensorSpec(tuple(int(size) for size in sizes), dtype_of(dtype))
