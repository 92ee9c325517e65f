"""Functions behind objects that users call: kernels, partials, methods, decorated functions."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import CodeType, TracebackType

MOST_LAYERS = 8


def plain_function(value: object) -> object:
    """Return the function inside of kernel objects and partials; another object as it is."""
    for _ in range(MOST_LAYERS):
        inner = getattr(value, "function", None) or getattr(value, "func", None)
        if inner is None or hasattr(value, "__code__"):
            break
        value = inner
    return inspect.unwrap(value) if callable(value) else value


def traceback_steps(error: BaseException) -> Iterator[TracebackType]:
    """Yield the steps of an error's traceback, the outermost first."""
    step = error.__traceback__
    while step is not None:
        yield step
        step = step.tb_next


def code_of(value: object) -> CodeType | None:
    """Return the code object behind a callable; None where it has none."""
    code = getattr(plain_function(value), "__code__", None)
    return code if isinstance(code, CodeType) else None
