"""The exports of `nki.language` and `nki.isa`, by name."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from nki_lab.diagnostic import coded_error
from nki_lab.isa import enums
from nki_lab.isa.dtype import DTYPES
from nki_lab.isa.spec import TABLE
from nki_lab.kernel_runtime.issue import source_location
from nki_lab.kernel_runtime.issue.builder import NkiInstruction
from nki_lab.kernel_runtime.issue.nisa_functions import instruction_function
from nki_lab.kernel_runtime.issue.target import get_nc_sub_version, get_nc_version, tile_size
from nki_lab.kernel_runtime.language import composites, control, operations
from nki_lab.kernel_runtime.language.objects import NKIObject
from nki_lab.kernel_runtime.language.scheduling import no_reorder
from nki_lab.kernel_runtime.tensor import (
    DynamicSlice,
    MemoryRegion,
    NkiTensor,
    ds,
    hbm,
    private_hbm,
    psum,
    sbuf,
    shared_hbm,
)


class _OpToken:
    """An operator that exists only as an `op=` argument."""

    def __init__(self, name: str) -> None:
        self.__name__ = self.nki_op = name

    def __repr__(self) -> str:
        return f"nl.{self.nki_op}"

    def __call__(self, *_args: Any, **_keywords: Any) -> Any:
        raise coded_error(
            "NKI215",
            f"nl.{self.nki_op} is called, and is no function",
            operand=self.nki_op,
            limit=f"nl.{self.nki_op} stands as an op= argument",
            help="see what the instruction's op takes",
        )


def _by_name(items: Iterable[Any]) -> dict[str, Any]:
    return {item.__name__: item for item in items}


def language_names() -> dict[str, Any]:
    """Everything `import nki.language` gives, by name."""
    # What `functions` defines replaces a plainer function of the same name.
    own = _by_name(
        (
            *operations.FUNCTIONS,
            *(control.dynamic_range, control.fori_loop, control.while_loop, no_reorder, NKIObject),
            *composites.FUNCTIONS,
        )
    )
    own |= {name: _OpToken(name) for name in operations.TOKENS}
    own |= {name: kind.host for name, kind in DTYPES.items()}
    own |= {"bool": DTYPES["bool_"].host, "DType": str, "NkiTensor": NkiTensor, "MemoryRegion": MemoryRegion}
    own |= {"sbuf": sbuf, "psum": psum, "hbm": hbm, "private_hbm": private_hbm, "shared_hbm": shared_hbm}
    own |= {"ds": ds, "DynamicSlice": DynamicSlice, "tile_size": tile_size, "range": range}
    return own


def instruction_names() -> dict[str, Any]:
    """Everything `import nki.isa` gives, by name."""
    own: dict[str, Any] = {name: instruction_function(name) for name in TABLE}
    own |= _by_name(
        (
            enums.engine,
            enums.reduce_cmd,
            enums.dge_mode,
            enums.oob_mode,
            enums.matmul_perf_mode,
            enums.nc_version,
            enums.dma_engine,
        )
    )
    own |= {f"{name}_engine": enums.engine[name] for name in ("tensor", "vector", "scalar", "gpsimd", "unknown")}
    return own | _by_name((NkiInstruction, get_nc_sub_version, get_nc_version, control.register_alloc))


source_location.FUNCTIONS.update((name, item) for name, item in language_names().items() if inspect.isfunction(item))
