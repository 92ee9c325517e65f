"""The modules of the current dialect: `nki` and what is below it."""

from __future__ import annotations

from functools import cache
from typing import Any

from nki_lab.diagnostic import NkiError
from nki_lab.dialects import annotation
from nki_lab.dialects.builder import compile_kernel
from nki_lab.dialects.kernel import Kernel, jit, simulate
from nki_lab.dialects.modules import DialectModule, attach, make_module
from nki_lab.isa import enums
from nki_lab.isa.dtype import DTYPES
from nki_lab.kernel_runtime.frontend import collectives, language, published
from nki_lab.kernel_runtime.tensor import NkiTensor, VirtualRegister

RELEASE = "0.6.0"
"""The NKI release whose names and rules the current dialect has."""


class _DTypeType(type):
    """What `isinstance(x, nki.dtype)` asks."""

    def __instancecheck__(cls, value: object) -> bool:
        return any(
            value is kind.host or (type(value) is type(kind.host) and value == kind.host) for kind in DTYPES.values()
        )


class _DType(metaclass=_DTypeType):
    """A dtype of NKI, as an annotation."""

    def __new__(cls, spelling: Any) -> Any:
        from nki_lab.isa.dtype import dtype_of

        return dtype_of(spelling).host


@cache
def modules() -> dict[str, DialectModule]:
    """The modules by name, made once: kernels of one process share their names' values."""
    missing = published.missing
    names = language.names()
    functions = language.instruction_names()
    functions |= {"NkiValidationError": NkiError, "VirtualRegister": VirtualRegister}
    constants = {name: value for name, value in functions.items() if name in vars(enums) or name.endswith("_engine")}
    exchanges = collectives.names()
    hosts = {name: kind.host for name, kind in DTYPES.items()}
    made = [
        make_module("nki", {"jit": jit, "simulate": simulate, "Kernel": Kernel, "__version__": RELEASE},
                    doc="The Neuron Kernel Interface on the nki_lab simulator.", missing=missing),
        make_module("nki.language", names, doc="Tensors, constants and operators of kernels.", missing=missing),
        make_module("nki.isa", functions, doc="The instructions of the NeuronCore.", missing=missing),
        make_module("nki.isa.constants", constants, doc="The enumerations of nki.isa.", missing=missing),
        make_module("nki.collectives", exchanges,
                    doc="Operations between the ranks of a launch.", missing=missing),
        make_module("nki.typing", {"tensor": annotation.tensor, "mutable_tensor": annotation.mutable_tensor},
                    doc="Annotations of tensors.", missing=missing),
        make_module("nki.dtype", hosts | {"bool": hosts["bool_"]}, doc="The dtypes; also the type of one.",
                    missing=missing, stands_for=_DType),
        make_module("nki.tensor", {"tensor": annotation.tensor, "NkiTensor": NkiTensor}, doc="The type of tensors.",
                    missing=missing, stands_for=annotation.tensor),
        make_module("nki.compiler", {}, doc="The compiler's own names; kernels need none of them.", missing=missing),
        make_module("nki.compiler.kernel_builder", {"compile_kernel": compile_kernel},
                    doc="Compiling a function without a framework around it.", missing=missing),
        make_module("nki.meta", {}, doc="Types of the meta-programming language.", missing=missing),
        make_module("nki.meta.tensor", {"tensor": annotation.tensor, "NkiTensor": NkiTensor},
                    doc="The type of tensors.", missing=missing, stands_for=annotation.tensor),
        make_module("nki.experimental", {"while_loop": names["while_loop"]},
                    doc="Names on their way into nki.language.", missing=missing),
    ]  # fmt: skip
    return attach(made)
