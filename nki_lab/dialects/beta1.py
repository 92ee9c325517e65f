"""The modules of the Beta 1 dialect: `neuronxcc.nki` and what is below it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from nki_lab.diagnostic import coded_error
from nki_lab.dialects import annotation
from nki_lab.dialects.beta1_kernel import Beta1Kernel
from nki_lab.dialects.device_kernels import BenchmarkedKernel, DeviceKernel, ProfiledKernel
from nki_lab.dialects.kernel import Kernel, as_kernel
from nki_lab.dialects.modules import Description, DialectModule, SampleModule, make_modules
from nki_lab.isa.dtype import DTYPES
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime import beta1

RELEASE = "2.26"
"""The Neuron SDK release whose names and rules the Beta 1 dialect has: the last before `nki`."""


_MODES: Final = ("auto", "jax", "torchxla", "baremetal", "benchmark", "simulation", "trace")
_KEYWORDS: Final = ("platform_target", "experimental_flags", "show_compiler_tb", "additional_compile_opt",
                    "kernel_return", "enable_out_of_bound_check", "debug_kernel", "mode")  # fmt: skip
_FILES: Final = ("save_neff_name", "save_trace_name", "additional_compile_opt")
_OPTIONS: Final[Mapping[type[Beta1Kernel], tuple[str, ...]]] = {
    DeviceKernel: (*_FILES, "artifacts_dir"),
    BenchmarkedKernel: (*_FILES, "warmup", "iters"),
    ProfiledKernel: (*_FILES, "working_directory", "overwrite", "profile_nth", "num_execs"),
}
"""The keywords of each decorator, beside those of `nki.jit`."""


def _decorator(kind: type[Beta1Kernel], name: str, doc: str) -> Callable[..., Any]:
    def entry(func: Any = None, mode: str = "auto", **keywords: Any) -> Any:
        func = keywords.pop("kernel", func)  # as the documentation of all but jit calls it
        chosen = BenchmarkedKernel if kind is Beta1Kernel and mode == "benchmark" else kind
        _check_keywords(name, mode, keywords, (*_KEYWORDS, *_OPTIONS.get(chosen, ())))

        def decorate(function: object) -> Kernel:
            plain = as_kernel(function, f"@nki.{name}")
            if type(plain) is not chosen:
                plain = chosen(plain.function, keywords=plain.keywords, grid=plain.grid, notes=plain.notes)
            made = plain._with(keywords=plain.keywords | {"mode": mode} | keywords)
            if isinstance(made, DeviceKernel):
                made.check_options()
            return made

        return decorate if func is None else decorate(func)

    entry.__name__ = entry.__qualname__ = name
    entry.__module__ = "neuronxcc.nki"
    entry.__doc__ = doc
    entry.nki_kernel = kind  # type: ignore[attr-defined]
    return entry


def _check_keywords(entry: str, mode: str, keywords: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """NKI012 for a mode that Beta 1 has not, NKI002 for a keyword that is nearly one of those `known`."""
    if mode not in _MODES:
        raise coded_error(
            "NKI012",
            f"nki.{entry}: mode is {mode!r}",
            operand="mode",
            limit=f"one of {', '.join(_MODES)}",
            help=did_you_mean(str(mode), _MODES),
        )
    for name in keywords:
        near = did_you_mean(name, known)
        if name not in known and near:
            message = f"nki.{entry} got an unexpected keyword argument {name!r}"
            raise coded_error("NKI002", message, operand=name, help=near)


jit = _decorator(Beta1Kernel, "jit", "The kernel of a function; every `mode` runs it on the simulator.")
trace = _decorator(Beta1Kernel, "trace", "The kernel of a function that other kernels, or simulate_kernel, call.")
baremetal = _decorator(
    DeviceKernel,
    "baremetal",
    """The kernel of a function; there is no device, it is simulated.

    `save_neff_name="file.neff"` writes the recording of each call into a folder of that name,
    `save_trace_name="profile.ntff"` the tables of a Neuron Explorer profile, `artifacts_dir` the NKI IR of the kernel.
    """,
)
benchmark = _decorator(
    BenchmarkedKernel,
    "benchmark",
    """The kernel of a function; a call runs it once and leaves `benchmark_result.nc_latency`.

    `get_latency_percentile(50)` is the predicted time in microseconds with the launch: a prediction, not a measurement,
    and the same for each percentile whatever `warmup` and `iters` are. Files as for `baremetal`.
    """,
)
profile = _decorator(
    ProfiledKernel,
    "profile",
    """The kernel of a function; a call runs it once and writes its predicted profile into `working_directory`.

    The folder `file.neff` is the recording, `profile.ntff` has the tables of a Neuron Explorer profile, `json_reports`
    a summary; `save_neff_name` and `save_trace_name` give other names. `profile_nth=10, num_execs=20` writes
    `profile_exec_10.ntff` and `profile_exec_20.ntff`, which are alike. What exists is replaced with `overwrite=True`.
    """,
)


def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a kernel, or one launch of it such as `kernel[4]`, on NumPy arrays; those that it stores to change.

    A run-time index outside of its tensor raises IndexError itself and no class derived from it, since tests of Beta 1
    kernels compare the type; the NkiError is its cause.
    """
    runnable: Beta1Kernel = kernel if isinstance(kernel, Beta1Kernel) else jit(kernel)
    return runnable.simulate(args, kwargs)


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
    types = {name: getattr(annotation, name) for name in ("tensor", "mutable_tensor", "mutable")}
    samples = ("", ".attention", ".allocated_attention", ".allocated_fused_linear", ".double_row_matmul", ".vision")
    dtypes = {name: DTYPES[name].host for name in ("bfloat16", "float8_e4m3", "float8_e5m2")}
    return make_modules(
        {
            "neuronxcc": Description({"__version__": RELEASE}, "NKI Beta 1 on the nki_lab simulator."),
            "neuronxcc.nki": Description(entries, "Entry points of Beta 1 kernels."),
            **{f"neuronxcc.nki.{name}": Description(made(), _DOCS[name]) for name, made in beta1.MODULES.items()},
            "neuronxcc.nki.typing": Description(types, "Annotations of tensors."),
            "neuronxcc.nki.tensor": Description(
                {"tensor": annotation.tensor}, "The type of tensors.", annotation.tensor
            ),
            **{
                f"{beta1.KERNELS}{name}": Description({}, "Packaged kernels, from nki_samples.", kind=SampleModule)
                for name in samples
            },
            "neuronxcc.starfish": Description({}, "Parts of the compiler that samples import dtypes from."),
            "neuronxcc.starfish.support": Description({}, "Parts of the compiler that samples import dtypes from."),
            "neuronxcc.starfish.support.dtype": Description(dtypes, "Dtypes that NumPy does not have."),
        },
        beta1.missing,
    )


_INDEXING: Final = "The type of index expressions, by the path of a part of the compiler."
_DOCS: Final[Mapping[str, str]] = {
    "language": "Tensors, indices and operators.",
    "language.iterators": "Loops, and waiting for instances of a launch grid.",
    "isa": "The instructions.",
    "isa.neuron_isa": "The instructions, by an older path.",
    "isa.constants": "Enumerations of neuronxcc.nki.isa.",
    "compiler": "Allocators and hints.",
    **dict.fromkeys(("compiler.backends", "compiler.backends.neuron", "compiler.backends.neuron.indexing"), _INDEXING),
    **dict.fromkeys(("backends", "backends.neuron", "backends.neuron.indexing"), _INDEXING),
    "nccl": "Collectives of Beta 1, which are refused.",
    "_private": "Names without documentation.",
    "_private.private_api": "Names without documentation, which are refused.",
}
