"""Calls of kernels while somebody collects them: a notebook cell shows what ran in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.session import Execution


class Collector(Protocol):
    """Who is told of each call of a kernel.

    `inputs` makes the values of an argument of which only the shape is given; without it such a call is timed and
    computes nothing.
    """

    inputs: Callable[[TensorSpec], Any] | None

    def add(self, run: Any) -> None:
        """Take the Run that `nki_lab.run` or `nki_lab.profile` is about to give."""

    def launched(self, name: str, execution: Execution, arguments: tuple[Any, ...]) -> None:
        """Take what a plain call of a kernel left; `arguments` are as the kernel got them."""


_collectors: list[Collector] = []


@contextmanager
def collected(collector: Collector) -> Iterator[None]:
    """While this lasts, in all threads, calls of kernels are timed and told to `collector`, and print nothing."""
    _collectors.append(collector)
    try:
        yield
    finally:
        _collectors.remove(collector)


def collector() -> Collector | None:
    """Who collects now: the one that began last."""
    return _collectors[-1] if _collectors else None


def tell(run: Any) -> None:
    """Tell whoever collects of a run."""
    if _collectors:
        _collectors[-1].add(run)


def filled(
    inputs: Callable[[TensorSpec], Any] | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """The arguments with values in place of shapes where `inputs` makes them, and whether all have values."""
    given = [*args, *kwargs.values()]
    if not any(isinstance(item, TensorSpec) for item in given):
        return args, dict(kwargs), True
    if inputs is None:
        return args, dict(kwargs), False
    made = [inputs(item) if isinstance(item, TensorSpec) else item for item in given]
    return tuple(made[: len(args)]), dict(zip(kwargs, made[len(args) :], strict=True)), True
