"""Names of NKI 0.6 that have no implementation here, and names that it no longer has.

The first can be imported, so that a module that mentions one still loads, and refuse to be called; the second say what
replaced them. Sources: the public stubs of NKI 0.6.0, its migration guide and release notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic, diagnose, error_of
from nki_lab.isa.spelling import did_you_mean

PUBLISHED: Final[Mapping[str, str]] = {
    "nki.language": """
        abs abs_max abs_min add affine_range all arctan average bitwise_and bitwise_or bitwise_xor broadcast_to bypass
        ceil copy cos device_print divide dropout ds dynamic_range empty_like equal erf erf_dx exp expand_dims floor
        fmod fori_loop full gather_flattened gelu gelu_apprx_sigmoid gelu_apprx_sigmoid_dx gelu_apprx_tanh gelu_dx
        greater greater_equal invert is_hbm is_on_chip is_psum is_sbuf left_shift less less_equal load load_transpose2d
        log logical_and logical_not logical_or logical_xor matmul max maximum mean min minimum mish mod multiply ndarray
        negative no_reorder not_equal num_programs ones power prelu prod program_id program_ndim rand random_seed
        reciprocal relu right_shift rms_norm rsqrt sequential_range shared_constant shared_identity_matrix sigmoid sign
        silu silu_dx sin softmax softplus sqrt square static_range store subtract sum tan tanh transpose trunc var where
        while_loop zeros zeros_like
    """,
    "nki.isa": """
        activate2 activation activation_reduce affine_select bn_aggr bn_stats core_barrier dma_compute dma_copy
        dma_transpose dropout exponential get_nc_sub_version get_nc_version iota local_gather max8 memset nc_find_index8
        nc_match_replace8 nc_matmul nc_matmul_mx nc_n_gather nc_stream_shuffle nc_transpose nonzero_with_count
        quantize_mx rand2 rand_get_state rand_set_state range_select reciprocal register_alloc register_load
        register_move register_store rng scalar_tensor_tensor select_reduce sendrecv sequence_bounds set_rng_seed
        tensor_copy tensor_copy_predicated tensor_partition_reduce tensor_reduce tensor_scalar tensor_scalar_cumulative
        tensor_scalar_reduce tensor_tensor tensor_tensor_scan topk
    """,
    "nki.collectives": """
        all_gather all_gather_v all_reduce all_to_all all_to_all_v collective_permute collective_permute_implicit
        collective_permute_implicit_current_processing_rank_id collective_permute_implicit_reduce rank_id reduce_scatter
    """,
}
"""The functions of each module, by NKI's stubs."""

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
        "benchmark": _FRAMEWORK,
        "profile": _FRAMEWORK,
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


def absent(module: str, have: Iterable[str]) -> dict[str, Callable[..., Any]]:
    """A stand-in for each published function of `module` that is not among `have`; calling one is NKI010."""
    known = set(have)
    return {name: _stand_in(module, name) for name in PUBLISHED.get(module, "").split() if name not in known}


def _stand_in(module: str, name: str) -> Callable[..., Any]:
    def function(*_args: Any, **_kwargs: Any) -> Any:
        raise error_of(
            diagnose(
                "NKI010",
                f"{module}.{name} is part of NKI 0.6 and not modelled here",
                limit="what is modelled is computed, and nothing else is made up",
                help="`nki-lab doctor` lists what is modelled",
            )
        )

    function.__name__ = function.__qualname__ = name
    function.is_stand_in = True  # type: ignore[attr-defined]
    function.__module__ = module
    function.__doc__ = f"{module}.{name} of NKI 0.6; not modelled here, calling it is NKI010."
    return function


def missing(module: str, name: str, names: Iterable[str]) -> Diagnostic:
    """What is wrong with `module.name`: removed (NKI603) or never there (NKI006)."""
    remedy = REMOVED.get(module, {}).get(name)
    if remedy is None:
        return unknown_name(module, name, names)
    return diagnose("NKI603", f"{module}.{name} was removed", operand=name,
                    limit=f"the names of {module} in NKI 0.6", help=remedy)  # fmt: skip


def unknown_name(module: str, name: str, names: Iterable[str]) -> Diagnostic:
    """NKI006 with the nearest names."""
    short = {"nki.language": "nl", "nki.isa": "nisa"}.get(module, module)
    near = did_you_mean(name, names)
    return diagnose("NKI006", f"{module} has no {name}", operand=name, limit=f"the names of {module} in NKI 0.6",
                    help=near or f"dir({short}) lists them")  # fmt: skip
