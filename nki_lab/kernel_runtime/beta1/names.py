"""List the names of `neuronxcc.nki.language` and `neuronxcc.nki.isa`, and diagnose missing ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic, diagnose
from nki_lab.isa import enums
from nki_lab.isa.dtype import DTYPES
from nki_lab.isa.spec import TABLE, Beta1
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.beta1 import composites, elementwise, launch, memory, updates
from nki_lab.kernel_runtime.beta1.allocators import names as compiler_names
from nki_lab.kernel_runtime.beta1.blocks import par_dim
from nki_lab.kernel_runtime.beta1.builder import located
from nki_lab.kernel_runtime.beta1.index import Index, arange, mgrid
from nki_lab.kernel_runtime.beta1.instructions import (
    instruction_function,
    tensor_copy_dynamic_dst,
    tensor_copy_dynamic_src,
)
from nki_lab.kernel_runtime.beta1.refused_names import REFUSED, refused
from nki_lab.kernel_runtime.issue.target import get_nc_version, tile_size
from nki_lab.kernel_runtime.language import operations
from nki_lab.kernel_runtime.tensor import MemoryRegion, ds, hbm, private_hbm, psum, sbuf, shared_hbm

_DTYPES = ("float32", "float16", "bfloat16", "tfloat32", "float8_e4m3", "float8_e5m2", "int8", "int16", "int32",
           "uint8", "uint16", "uint32", "bool_")  # fmt: skip


def names() -> dict[str, Any]:
    """Everything `neuronxcc.nki.language` exports, by name."""
    own: dict[str, Any] = elementwise.functions()
    functions = (
        memory.ndarray,
        memory.full,
        memory.zeros,
        memory.ones,
        memory.empty_like,
        memory.zeros_like,
        memory.load,
        memory.store,
        memory.load_transpose2d,
        memory.copy,
        memory.broadcast_to,
        memory.shared_constant,
        memory.shared_identity_matrix,
        memory.device_print,
        operations.program_id,
        launch.num_programs,
        operations.program_ndim,
        updates.atomic_rmw,
        updates.all_reduce,
        *composites.FUNCTIONS,
    )
    own |= {item.__name__: item for item in functions}
    own = {name: located(item, f"nl.{name}") for name, item in own.items()}
    compile_time = (
        memory.static_cast,
        memory.expand_dims,
        memory.finfo,
        operations.affine_range,
        operations.sequential_range,
        operations.static_range,
        par_dim,
        launch.nc,
        launch.spmd_dim,
    )
    own |= {item.__name__: located(item) for item in compile_time}
    own |= {item.__name__: item for item in (memory.fp32, memory.bfp16, memory.constants)}
    own |= {name: DTYPES[name].host for name in _DTYPES}
    own |= {"sbuf": sbuf, "psum": psum, "hbm": hbm, "private_hbm": private_hbm, "shared_hbm": shared_hbm}
    # arange records nothing: looking for its place would take longer than all the rest, at every operand.
    own |= {"arange": arange, "mgrid": mgrid, "ds": ds}
    return own | {"tile_size": tile_size, "MemoryRegion": MemoryRegion}


def instruction_names() -> dict[str, Any]:
    """Everything `neuronxcc.nki.isa` exports, by name."""
    return dict(_instruction_names())


@cache
def _instruction_names() -> dict[str, Any]:
    functions = [instruction_function(name) for name, item in TABLE.items() if isinstance(item.beta1, Beta1)]
    functions += (tensor_copy_dynamic_dst, tensor_copy_dynamic_src)
    functions += (updates._tiled_offloaded_memcpy, updates._tiled_offloaded_fma)
    own: dict[str, Any] = {item.__name__: located(item, f"nisa.{item.__name__}") for item in functions}
    own |= constant_names()
    own |= {f"{name}_engine": enums.engine[name] for name in ("tensor", "vector", "scalar", "gpsimd", "dma", "unknown")}
    return own | {"get_nc_version": get_nc_version, "fp32": memory.fp32}


def constant_names() -> dict[str, Any]:
    """Everything `neuronxcc.nki.isa.constants` exports: the enumerations."""
    kinds = (enums.engine, enums.reduce_cmd, enums.dge_mode, enums.oob_mode, enums.nc_version)
    return {kind.__name__: kind for kind in kinds}


def iterator_names() -> dict[str, Any]:
    """Everything `neuronxcc.nki.language.iterators` exports, by name."""
    loops = (operations.affine_range, operations.sequential_range, operations.static_range)
    return {item.__name__: located(item) for item in loops} | {
        "sync_program": located(updates.sync_program, "sync_program")
    }


MODULES: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "language": names,
    "language.iterators": iterator_names,
    "isa": instruction_names,
    "isa.neuron_isa": instruction_names,
    "isa.constants": constant_names,
    "compiler": compiler_names,
    "compiler.backends": dict,
    "compiler.backends.neuron": dict,
    "compiler.backends.neuron.indexing": lambda: {"TileIndex": Index},
    "backends": dict,
    "backends.neuron": dict,
    "backends.neuron.indexing": lambda: {"TileIndex": Index},
    "nccl": dict,
    "_private": dict,
    "_private.private_api": dict,
}
"""The names of the modules below `neuronxcc.nki` that have no others."""


def missing(module: str, name: str, have: Iterable[str]) -> Diagnostic:
    """Diagnose `module.name`: NKI010 for a name that Beta 1 had, else NKI006."""
    return refused(module, name) or diagnose(
        "NKI006",
        f"{module} has no {name}",
        operand=name,
        limit=f"the names of {module} in Beta 1",
        help=did_you_mean(name, [*have, *REFUSED.get(module, ())]),
    )
