"""Names of Beta 1 that are refused, with what to use in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nki_lab.diagnostic import Diagnostic, diagnose
from nki_lab.isa.spec import TABLE

_COLLECTIVES: Final = (
    "write the kernel in the current dialect: nki.collectives has such operations; nki_lab.run_ranks runs the ranks"
)
_TWO_CORES: Final = "write the kernel in the current dialect, with nisa.{} and a launch on kernel[2]"
_PACKAGED: Final = "a kernel of AWS's own package without public source: write it with nki.language and nki.isa"

REFUSED: Final[Mapping[str, Mapping[str, str]]] = {
    "neuronxcc.nki": {
        "FrameworkKernel": "decorate the function with nki.jit: arrays of NumPy, torch and jax go in and come out",
    },
    "neuronxcc.nki.language": {
        "gemm_grid": "write the moving tile's indices: nl.mgrid[0:128, 0:512]",
        "gemm_stationary_grid": "write the stationary tile's indices: nl.mgrid[0:128, 0:128]",
    },
    "neuronxcc.nki.isa": {
        "builtin_custom_op": "it calls a prebuilt GpSimd library, which is no part of NKI: write the operation with "
        "nisa instructions",
    },
    "neuronxcc.nki.typing": {
        "scalar": "loops whose condition is data exist in the current dialect: nl.while_loop and nl.dynamic_range",
    },
    "neuronxcc.nki.compiler": {
        "allocation_scope": "tensors live from their first write to their last read: leave it out, or place them with "
        "sbuf.mod_alloc and psum.mod_alloc",
    },
    "neuronxcc.nki.nccl": dict.fromkeys(
        ("all_gather", "all_reduce", "all_to_all", "collective_permute", "collectives", "reduce_scatter"), _COLLECTIVES
    ),
    "neuronxcc.nki._private.private_api": {
        **{name: _TWO_CORES.format(name) for name, item in TABLE.items() if item.synchronizes is not None},
        "do_while": "loops whose condition is data exist in the current dialect: nl.while_loop",
        "cc_div": "divide whole numbers in Python: -(-a // b) rounds up",
        **dict.fromkeys(
            ("attention_kernel", "column_tiled_mm_kernel", "mlp_fused_add_kernel", "mlp_kernel",
             "qkv_fused_add_kernel", "qkv_kernel", "row_tiled_mm_kernel"),
            _PACKAGED,
        ),
    },
}  # fmt: skip
"""The remedy by module and name."""


KERNELS: Final = "neuronxcc.nki.kernels"
"""The module of packaged kernels. AWS publishes their source as `nki_samples.reference`."""

_SAMPLES: Final = (
    "put src/ of a Beta 1 checkout of github.com/aws-neuron/nki-samples on PYTHONPATH: its package nki_samples has the "
    "source of this kernel, and neuronxcc.nki.kernels finds it there"
)


def refused(module: str, name: str) -> Diagnostic | None:
    """Return NKI010 for a name that is refused; None for other names."""
    remedy = _SAMPLES if module.startswith(KERNELS) else REFUSED.get(module, {}).get(name)
    return None if remedy is None else unmodelled(f"{module}.{name}", remedy)


def unmodelled(
    what: str, remedy: str = "write it with other functions of neuronxcc.nki.language or neuronxcc.nki.isa"
) -> Diagnostic:
    """Diagnose something of Beta 1 that is known and not modelled."""
    return diagnose(
        "NKI010",
        f"{what} is part of Beta 1 and not modelled here",
        limit="a function is modelled when its instructions are declared",
        help=remedy,
    )
