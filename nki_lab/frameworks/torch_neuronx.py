"""The shim of `torch_neuronx`: `nki_jit`, `nki_op` and `trace`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nki_lab.diagnostic import coded_error
from nki_lab.frameworks.entries import Entries


class Traced:
    """A function or module for inputs of fixed shapes and dtypes, as `torch_neuronx.trace` returns it."""

    def __init__(self, function: Callable[..., Any], examples: tuple[Any, ...]) -> None:
        self.function = function
        self.signature = _signature(examples)

    def __call__(self, *inputs: Any) -> Any:
        """Call the function on tensors of the traced shapes, without gradients; NKI001 for others."""
        import torch

        given = _signature(inputs)
        if given != self.signature:
            raise coded_error(
                "NKI001",
                f"the traced function gets {_shown(given)}",
                limit=f"it was traced for {_shown(self.signature)}",
                help="trace it again for other shapes",
            )
        with torch.no_grad():
            return self.function(*inputs)


def _signature(inputs: tuple[Any, ...]) -> tuple[tuple[tuple[int, ...], str], ...]:
    return tuple((tuple(item.shape), str(item.dtype).removeprefix("torch.")) for item in inputs)


def _shown(signature: tuple[tuple[tuple[int, ...], str], ...]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in signature) or "no tensors"


def trace(func: Callable[..., Any], example_inputs: Any, *_states: Any, **_compiler: Any) -> Traced:
    """Run a function or module once on `example_inputs`, a tensor or a tuple of them, and return it for such inputs.

    The options of the device compiler, such as `compiler_args` and `compiler_workdir`, have no effect here.
    """
    examples = tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    traced = Traced(func, examples)
    traced(*examples)
    return traced


def nki_op(name: str, fn: Callable[..., Any] | None = None, *, mutates_args: Any, **options: Any) -> Any:
    """Register a function that calls kernels as the custom operator `name`, such as "mylib::scale".

    Its parameters and result are annotated as for `torch.library.custom_op`, which takes the same `mutates_args`. Its
    fake kernel is the function itself on tensors without values: shapes and dtypes come from the kernels that it calls.
    """
    import torch

    def register(function: Callable[..., Any]) -> Any:
        operator = torch.library.custom_op(name, function, mutates_args=mutates_args, **options)
        operator.register_fake(function)
        return operator

    return register if fn is None else register(fn)


def profile(*_args: Any, **_options: Any) -> None:
    """Profiles of a device; NKI010."""
    raise coded_error(
        "NKI010",
        "torch_neuronx.experimental.profiler.profile: there is no device to profile",
        limit="nki_lab models the time of kernels, and not that of the graph around them",
        help='nki_lab.run(kernel, *tensors).to_perfetto("trace.pftrace") writes the modelled times of one kernel',
    )


def modules(entries: Entries) -> dict[str, dict[str, Any]]:
    """Return the names of each module."""

    def nki_jit(func: Any = None, **_compiler: Any) -> Any:
        """The kernel of a function in either dialect, to be called with tensors; compiler options have no effect."""
        return entries.as_kernel if func is None else entries.as_kernel(func)

    return {
        "torch_neuronx": {"nki_jit": nki_jit, "nki_op": nki_op, "trace": trace, "nki": entries.nki},
        "torch_neuronx.xla_impl": {},
        "torch_neuronx.xla_impl.ops": {"nki_jit": nki_jit},
        "torch_neuronx.experimental": {},
        "torch_neuronx.experimental.profiler": {"profile": profile},
    }
