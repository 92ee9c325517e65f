"""The enumerations that instructions take as attributes, with the values NKI documents."""

from __future__ import annotations

from enum import Enum as _Enum
from enum import IntEnum


class Enum(_Enum):
    """An enumeration whose members hash by identity, as they compare: instructions are found by attributes."""

    __hash__ = object.__hash__


class engine(Enum):
    """A NeuronCore engine; `unknown` lets the compiler choose."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6


class reduce_cmd(Enum):
    """Commands of an instruction to its engine's accumulation registers."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class dge_mode(Enum):
    """Sources of the descriptors of a DMA."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class oob_mode(Enum):
    """Treatment of addresses outside of the tensor by a dynamic DMA."""

    error = 0
    skip = 1


class matmul_perf_mode(Enum):
    """Throughput modes of the tensor engine."""

    none = "none"
    double_row = "double_row"


class nc_version(IntEnum):
    """NeuronCore generation; ordered, so that kernels can ask for `>= gen3`."""

    gen2 = 2
    gen3 = 3
    gen4 = 4


class dma_engine(Enum):
    """Transfer mechanism of `sendrecv`."""

    dma = 1
    gpsimd_dma = 2
