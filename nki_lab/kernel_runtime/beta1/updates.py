"""Updates of HBM by DMA, and what instances of a launch grid do together, where there is one instance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from nki_lab.diagnostic import coded_error, error_of
from nki_lab.isa.spec import TABLE
from nki_lab.kernel_runtime.beta1 import memory
from nki_lab.kernel_runtime.beta1.builder import current
from nki_lab.kernel_runtime.beta1.elementwise import operand, plain_number
from nki_lab.kernel_runtime.beta1.instructions import call, record
from nki_lab.kernel_runtime.beta1.masking import MaskLike
from nki_lab.kernel_runtime.beta1.refused_names import unmodelled
from nki_lab.kernel_runtime.language import operations
from nki_lab.kernel_runtime.language.operations import Operand
from nki_lab.kernel_runtime.tensor import NkiTensor

Axes = int | Sequence[int]
"""One or several axes of a launch grid."""

_COPY, _SUM = TABLE["dma_copy"], TABLE["dma_compute"]


def atomic_rmw(dst: Operand, value: Any, op: Any, mask: MaskLike = None, **_hints: object) -> None:
    """Update rows of HBM that an index tile picks: `dst = op(dst, value)` with a tile or a number; `op` is np.add."""
    target = operand(dst, "atomic_rmw", "dst")
    if target._indirect is None:
        raise coded_error(
            "NKI012",
            "nl.atomic_rmw: dst is not indexed by a tile",
            operand="dst",
            limit="dst is a view of HBM such as out[index_tile, i_f]",
            help="write nl.store(dst, nl.load(dst) + value), or nisa.dma_copy(dst=, src=, dst_rmw_op=np.add)",
        )
    if not isinstance(value, NkiTensor):
        value = memory.full(target._shape, plain_number(value), target._dtype)
    call(_COPY, (), {"dst": target, "src": value, "dst_rmw_op": op, "mask": mask})


def _tiled_offloaded_memcpy(src: Operand, dst: Operand, dtype: object = None, mask: MaskLike = None) -> None:
    """Copy between HBM and SBUF by DMA; the dtype of `dst` counts."""
    call(_COPY, (), {"dst": dst, "src": src, "mask": mask})


def _tiled_offloaded_fma(*srcs: Operand, dst: Operand, scales: Sequence[float] | None = None, **_hints: object) -> None:
    """Write the sum of tensors in HBM or SBUF to `dst` by DMA; each factor of `scales` is 1.0."""
    terms = {f"src{number}": operand(item, "_tiled_offloaded_fma", "srcs") for number, item in enumerate(srcs)}
    factors = None if scales is None else tuple(scales)
    target = operand(dst, "_tiled_offloaded_fma", "dst")
    record(_SUM, {"dst": target, **terms, "reduce_op": "add", "scales": factors}, None)


def all_reduce(
    x: Operand, op: Any, program_axes: Axes, mask: MaskLike = None, dtype: object = None, **_hints: object
) -> NkiTensor:
    """Return a tile reduced over the instances of the launch grid along `program_axes`: a copy where there is one.

    NKI010 for several: they run one after the other.
    """
    remedy = "store each instance's part in HBM, and reduce the parts in a kernel of its own"
    _require_one_instance("nl.all_reduce", program_axes, remedy)
    return memory.copy(x, mask, dtype)


@contextmanager
def sync_program(program_axes: Axes | None = None, **_hints: object) -> Iterator[None]:
    """Wait for the instances of the launch grid along `program_axes`: nothing where there is one.

    NKI010 for several: they run one after the other.
    """
    remedy = "end the kernel where instances wait for each other, and launch another one"
    _require_one_instance("sync_program", program_axes, remedy)
    yield


def _require_one_instance(what: str, axes: Axes | None, remedy: str) -> None:
    current(what)
    count = operations.num_programs(axes)
    if count > 1:
        raise error_of(unmodelled(f"{what} over {count} instances, which run one after the other,", remedy))
