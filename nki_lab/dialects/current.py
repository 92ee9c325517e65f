"""The modules of the current dialect: `nki` and what is below it."""

from __future__ import annotations

from functools import cache
from typing import Any

from nki_lab.diagnostic import NkiError
from nki_lab.dialects import annotation
from nki_lab.dialects.kernel import Kernel, jit, simulate
from nki_lab.dialects.modules import Description, DialectModule, compile_kernel, make_modules
from nki_lab.isa import enums
from nki_lab.isa.dtype import DTYPES, dtype_of
from nki_lab.kernel_runtime.collectives.collective_names import collective_names
from nki_lab.kernel_runtime.issue import nki_api_names
from nki_lab.kernel_runtime.language import namespaces
from nki_lab.kernel_runtime.tensor import NkiTensor, VirtualRegister

RELEASE = "0.6.0"
"""The NKI release whose names and rules the current dialect has."""


class _DTypeType(type):
    """The type of `nki.dtype`, for `isinstance(x, nki.dtype)`."""

    def __instancecheck__(cls, value: object) -> bool:
        return any(
            value is kind.host or (type(value) is type(kind.host) and value == kind.host) for kind in DTYPES.values()
        )


class _DType(metaclass=_DTypeType):
    """A dtype of NKI, as an annotation."""

    def __new__(cls, spelling: object) -> Any:
        return dtype_of(spelling).host


@cache
def modules() -> dict[str, DialectModule]:
    """The modules by name, made once: kernels of one process share their names' values."""
    names = namespaces.language_names()
    functions = namespaces.instruction_names()
    functions |= {"NkiValidationError": NkiError, "VirtualRegister": VirtualRegister}
    constants = {name: value for name, value in functions.items() if name in vars(enums) or name.endswith("_engine")}
    hosts = {name: kind.host for name, kind in DTYPES.items()}
    types = {"tensor": annotation.tensor, "NkiTensor": NkiTensor}
    return make_modules(
        {
            "nki": Description(
                {"jit": jit, "simulate": simulate, "Kernel": Kernel, "__version__": RELEASE},
                "The Neuron Kernel Interface on the nki_lab simulator.",
            ),
            "nki.language": Description(names, "Tensors, constants and operators of kernels."),
            "nki.isa": Description(functions, "The instructions of the NeuronCore."),
            "nki.isa.constants": Description(constants, "The enumerations of nki.isa."),
            "nki.collectives": Description(collective_names(), "Operations between the ranks of a launch."),
            "nki.typing": Description(
                {"tensor": annotation.tensor, "mutable_tensor": annotation.mutable_tensor}, "Annotations of tensors."
            ),
            "nki.dtype": Description(hosts | {"bool": hosts["bool_"]}, "The dtypes; also the type of one.", _DType),
            "nki.tensor": Description(types, "The type of tensors.", annotation.tensor),
            "nki.compiler": Description({}, "The compiler's own names; kernels need none of them."),
            "nki.compiler.kernel_builder": Description(
                {"compile_kernel": compile_kernel}, "Compiling a function without a framework around it."
            ),
            "nki.meta": Description({}, "Types of the meta-programming language."),
            "nki.meta.tensor": Description(types, "The type of tensors.", annotation.tensor),
            "nki.experimental": Description(
                {"while_loop": names["while_loop"]}, "Names on their way into nki.language."
            ),
        },
        nki_api_names.missing,
    )
