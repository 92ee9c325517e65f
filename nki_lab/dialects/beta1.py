"""The modules of the Beta 1 dialect: `neuronxcc.nki` and what is below it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NoReturn

from nki_lab import session
from nki_lab.diagnostic import NkiError, coded_error
from nki_lab.dialects import annotation
from nki_lab.dialects.annotation import TensorAnnotation, check_shapes
from nki_lab.dialects.kernel import Kernel, announce, as_kernel
from nki_lab.dialects.modules import Description, DialectModule, make_modules
from nki_lab.dialects.tracebacks import user_frames
from nki_lab.isa.arch import Arch
from nki_lab.kernel_runtime import beta1
from nki_lab.kernel_runtime.issue.arguments import spec
from nki_lab.kernel_runtime.issue.context import local

RELEASE = "2.26"
"""The Neuron SDK release whose names and rules the Beta 1 dialect has: the last before `nki`."""


class Beta1Kernel(Kernel):
    """A Beta 1 kernel. `kernel[4, 2]` runs its instances one after the other; arguments that it stores to change."""

    dialect = "beta1"
    # Masks leave tiles partly written by design; block dimensions and results by reference are how Beta 1 was written.
    quiet = frozenset({"NKI302", "NKI333", "NKI334"})

    def grid_of(self, key: Any) -> tuple[int, ...]:
        """The sizes of the launch grid's axes: integers, `nl.nc(n)` and `nl.spmd_dim(a, b)`."""
        return beta1.grid_sizes(key)

    def check_grid(self, arch: Arch) -> None:
        """Every grid is one: its instances run one after the other."""

    def _check_launch(self, arch: Arch, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        check_shapes(self.function, args, kwargs)


class TimedKernel(Beta1Kernel):
    """A kernel of `nki.benchmark` or `nki.profile`: it runs once, without a device there is no latency."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run once. Arguments that are only shapes (`nt.tensor[[128, 512], nl.float32]`) give no results."""
        given = [*args, *kwargs.values()]
        if local.builder is not None or not any(isinstance(item, TensorAnnotation) for item in given):
            return super().__call__(*args, **kwargs)
        shapes = tuple(_shape_only(item) for item in args)
        named = {name: _shape_only(item) for name, item in kwargs.items()}
        _, found = session.specialise(
            session.Launch(self.function, self.target(), grid=self.grid, dialect=self.dialect), shapes, named
        )
        announce(found)
        return None

    @property
    def benchmark_result(self) -> NoReturn:
        """Latencies of the device; NKI010."""
        raise coded_error(
            "NKI010",
            f"{self.__name__}.benchmark_result: latencies of a device are not modelled",
            limit="benchmark and profile run the kernel once, for its results",
            help="nki_lab.profile estimates times",
        )


def _shape_only(value: Any) -> Any:
    return spec(value.shape, value.dtype) if isinstance(value, TensorAnnotation) else value


def _decorator(kind: type[Beta1Kernel], name: str, doc: str) -> Callable[..., Any]:
    def entry(func: Any = None, mode: str = "auto", **keywords: Any) -> Any:
        def decorate(function: object) -> Kernel:
            plain = as_kernel(function, f"@nki.{name}")
            if type(plain) is not kind:
                plain = kind(plain.function, keywords=plain.keywords, grid=plain.grid, notes=plain.notes)
            return plain._with(keywords=plain.keywords | {"mode": mode} | keywords)

        return decorate if func is None else decorate(func)

    entry.__name__ = entry.__qualname__ = name
    entry.__module__ = "neuronxcc.nki"
    entry.__doc__ = doc
    return entry


jit = _decorator(Beta1Kernel, "jit", "The kernel of a function; every `mode` runs it on the simulator.")
trace = _decorator(Beta1Kernel, "trace", "The kernel of a function that other kernels, or simulate_kernel, call.")
baremetal = _decorator(Beta1Kernel, "baremetal", "The kernel of a function; there is no device, it is simulated.")
benchmark = _decorator(TimedKernel, "benchmark", "The kernel of a function, run once: latencies are not modelled.")
profile = _decorator(TimedKernel, "profile", "The kernel of a function, run once: profiles are not modelled.")


def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a kernel, or one launch of it such as `kernel[4]`, on NumPy arrays; those that it stores to change.

    A run-time index outside of its tensor raises IndexError itself and no class derived from it, since tests of Beta 1
    kernels compare the type; the NkiError is its context.
    """
    runnable = kernel if isinstance(kernel, Beta1Kernel) else jit(kernel)
    try:
        with user_frames:
            return runnable.launch(args, kwargs)
    except NkiError as error:
        if error.diagnostics[0].code != "NKI310":
            raise
        raise IndexError(str(error)).with_traceback(error.__traceback__) from None


@cache
def modules() -> dict[str, DialectModule]:
    """The modules by name, made once."""
    entries = {
        "jit": jit,
        "trace": trace,
        "baremetal": baremetal,
        "benchmark": benchmark,
        "profile": profile,
        "simulate_kernel": simulate_kernel,
    }
    types = {"tensor": annotation.tensor, "mutable_tensor": annotation.mutable_tensor}
    return make_modules(
        {
            "neuronxcc": Description({"__version__": RELEASE}, "NKI Beta 1 on the nki_lab simulator."),
            "neuronxcc.nki": Description(entries, "Entry points of Beta 1 kernels."),
            "neuronxcc.nki.language": Description(beta1.names(), "Tensors, indices and operators."),
            "neuronxcc.nki.isa": Description(beta1.instruction_names(), "The instructions."),
            "neuronxcc.nki.isa.constants": Description(beta1.constant_names(), "Enumerations of neuronxcc.nki.isa."),
            "neuronxcc.nki.typing": Description(types, "Annotations of tensors."),
            "neuronxcc.nki.compiler": Description(beta1.compiler_names(), "Allocators and hints."),
            "neuronxcc.nki.tensor": Description(
                {"tensor": annotation.tensor}, "The type of tensors.", annotation.tensor
            ),
        },
        beta1.missing,
    )
