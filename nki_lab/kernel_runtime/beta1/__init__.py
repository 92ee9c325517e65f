"""The Beta 1 dialect (`neuronxcc.nki`): calls that return tiles, index expressions, masks, block dimensions.

It differs from the current dialect in namespaces and in its builder only: every call ends in the same `issue` over the
same declarations, and what it leaves is the same IR.
"""

from __future__ import annotations

from typing import Final

from nki_lab.kernel_runtime.beta1.instructions import misfits
from nki_lab.kernel_runtime.beta1.launch import TENSOR_METHODS, Beta1Builder, grid_sizes
from nki_lab.kernel_runtime.beta1.names import MODULES, instruction_names, missing, names
from nki_lab.kernel_runtime.beta1.refused_names import KERNELS

DEFAULT_PRECISE: Final = False
"""`Options.precise` of Beta 1 kernels: AWS's Beta 1 simulator kept low-precision floats in float32."""


__all__ = [
    "DEFAULT_PRECISE",
    "KERNELS",
    "MODULES",
    "TENSOR_METHODS",
    "Beta1Builder",
    "grid_sizes",
    "instruction_names",
    "misfits",
    "missing",
    "names",
]
