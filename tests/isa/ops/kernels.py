"""Small kernels that the tests of single instructions share."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.diagnostic import Diagnostic, NkiError
from nki_lab.isa.dtype import dtype_of
from nki_lab.kernel_runtime.numerics.executor import Executor
from tests.calls import kernel_of, traced

Array = np.ndarray[Any, Any]


def run(text: str, *arrays: Array, target: str = "trn2", dtypes: tuple[str, ...] = (), **options: Any) -> list[Array]:
    """The results of the function `kernel` of a source text over arrays, whose dtypes may be named."""
    names = list(dtypes) or [dtype_of(array.dtype).name for array in arrays]
    program, _ = traced(kernel_of(text), list(arrays), names, target, **options)
    machine = Executor(program, dict(enumerate(arrays)))
    machine.run(final=True)
    return [machine.read(tensor) for tensor in program.outputs]


# Tensors that calls in tests name: float32 and integer tiles, one in PSUM, one in HBM, and matmul operands.
TENSORS = {
    "x": "(64, 96), nl.float32", "y": "(64, 96), nl.float32", "z": "(64, 96), nl.float32", "w": "(64, 96), nl.bfloat16",
    "i": "(64, 96), nl.int32", "j": "(64, 96), nl.int32", "u": "(64, 96), nl.uint8", "c": "(64, 1), nl.float32",
    "p": "(64, 96), nl.float32, buffer=nl.psum", "q": "(64, 96), nl.bfloat16, buffer=nl.psum",
    "h": "(64, 96), nl.float32, buffer=nl.shared_hbm", "g": "(64, 96), nl.int32, buffer=nl.shared_hbm",
    "s": "(128, 64), nl.bfloat16", "m": "(128, 96), nl.bfloat16", "r": "(64, 4, 24), nl.float32", "n": "(64, 1), nl.int32",
}  # fmt: skip


def refused(call: str, target: str) -> str:
    """The code with which `nisa.<call>` on these tensors is refused; empty where it is accepted."""
    found = refusal(call, target)
    return "" if found is None else found.code


def refusal(call: str, target: str) -> Diagnostic | None:
    """What is said of `nisa.<call>` on these tensors where it is refused."""
    lines = [f"    {name} = nl.ndarray({what})" for name, what in TENSORS.items()]
    text = "\n".join(["def kernel(a):", *lines, f"    nisa.{call}", ""])
    try:
        traced(kernel_of(text), [np.zeros((1, 1), np.float32)], ["float32"], target)
    except NkiError as error:
        (found,) = error.diagnostics
        assert found.span is not None
        assert found.span.line == len(lines) + 2
        return found
    return None
