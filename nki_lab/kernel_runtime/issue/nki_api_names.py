"""Names that NKI 0.6 no longer has, with their replacements. Source: its migration guide and release notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from nki_lab.diagnostic import Diagnostic, diagnose
from nki_lab.isa.spelling import did_you_mean

_SLICES: Final = "write slices, nl.ds(start, size) or .ap(...)"
_RANGE: Final = "write the loop with nisa instructions that accumulate into one tile"
_FRAMEWORK: Final = "call the kernel itself, or nki.simulate(kernel)(...)"
_ADDRESS: Final = "pass address=(partition, byte) to nl.ndarray"

REMOVED: Final[Mapping[str, Mapping[str, str]]] = {
    "nki.language": {
        "arange": _SLICES,
        "mgrid": _SLICES,
        "par_dim": "dimension 0 is the partition dimension: leave it out",
        "loop_reduce": _RANGE,
        "spmd_dim": "launch with kernel[n], n being the number of physical cores",
        "nc": "launch with kernel[n], n being the number of physical cores",
        "static_cast": "allocate the result in the wanted dtype and use nisa.tensor_copy",
        "fp32": "write the limits of float32 as numbers, or np.finfo(np.float32).min",
        "finfo": "use np.finfo or ml_dtypes.finfo",
        "all_reduce": "use nki.collectives.all_reduce",
        "atomic_rmw": "use nisa.dma_compute",
        "gemm_grid": _SLICES,
        "gemm_stationary_grid": _SLICES,
    },
    "nki.isa": {
        "tensor_copy_dynamic_src": "use nisa.tensor_copy with .ap(..., scalar_offset=register) on src",
        "tensor_copy_dynamic_dst": "use nisa.tensor_copy with .ap(..., scalar_offset=register) on dst",
        "builtin_custom_op": "write the operation with nisa instructions",
        "neuron_isa": "use the instructions of nki.isa",
    },
    "nki": {
        "baremetal": _FRAMEWORK,
        "benchmark": "call the kernel, and time it with nki_lab.profile(kernel, ...).summary.makespan_ns",
        "profile": "call the kernel, and write run.save or run.to_explorer of run = nki_lab.profile(kernel, ...)",
        "simulate_kernel": "write nki.simulate(kernel)(...) in place of nki.simulate_kernel(kernel, ...)",
        "trace": "functions that a kernel calls need no decorator",
        "cpu_simulate": "write nki.simulate(kernel)(...)",
        "kernels": "the kernel library is a package of its own now",
    },
    "nki.compiler": {
        "sbuf": _ADDRESS,
        "psum": _ADDRESS,
        "alloc": _ADDRESS,
        "mod_alloc": _ADDRESS,
        "auto_alloc": "leave address out",
        "allocation_scope": _ADDRESS,
        "enable_stack_allocator": "drop it: tensors without an address are placed by the compiler",
        "force_auto_alloc": "drop it: tensors without an address are placed by the compiler",
        "skip_middle_end_transformations": "drop it",
        "multi_buffer": "allocate the tile inside the loop",
        "no_reorder": "use nl.no_reorder()",
    },
    "nki.typing": {
        "mutable": "write nt.tensor: arguments may be written",
        "scalar": "annotate with int or float",
    },
}
"""Names of earlier releases by module, with what to write instead."""


def missing(module: str, name: str, names: Iterable[str]) -> Diagnostic:
    """Diagnose `module.name`: removed (NKI603) or never there (NKI006)."""
    remedy = REMOVED.get(module, {}).get(name)
    if remedy is None:
        return unknown_name(module, name, names)
    return diagnose(
        "NKI603", f"{module}.{name} was removed", operand=name, limit=f"the names of {module} in NKI 0.6", help=remedy
    )


def unknown_name(module: str, name: str, names: Iterable[str]) -> Diagnostic:
    """Return NKI006 with the nearest names."""
    short = {"nki.language": "nl", "nki.isa": "nisa"}.get(module, module)
    return diagnose(
        "NKI006",
        f"{module} has no {name}",
        operand=name,
        limit=f"the names of {module} in NKI 0.6",
        help=did_you_mean(name, names) or f"dir({short}) lists them",
    )
