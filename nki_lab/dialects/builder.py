"""`nki.compiler.kernel_builder`: compiling a function without a framework around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nki_lab import session
from nki_lab.dialects.kernel import announce, as_kernel
from nki_lab.kernel_runtime.ir import Program


def compile_kernel(
    fn: Callable[..., Any],
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    compile_opts: Any = None,
    **hyperparameters: Any,
) -> Program:
    """The program of a function for arrays of these shapes; nothing is computed, and no array is changed.

    `inputs` and `outputs` are arrays by parameter; `hyperparameters` go to the function as they are, functions too. Of
    `compile_opts` the target counts, where it names one. Faults raise, other findings go to the error stream.
    """
    kernel = as_kernel(fn)
    arch = kernel.target(getattr(compile_opts, "target", None))
    program, found = session.specialise(
        session.Launch(kernel.function, arch, grid=kernel.grid),
        (),
        {**(inputs or {}), **(outputs or {}), **hyperparameters},
    )
    announce(found)
    return program
