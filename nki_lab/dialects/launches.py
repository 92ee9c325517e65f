"""Calls of kernels that are observed: a notebook cell shows the runs in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from nki_lab.kernel_runtime.issue.arguments import TensorSpec
from nki_lab.session import Execution


class LaunchObserver(Protocol):
    """An observer of the calls of kernels.

    `inputs` makes the values of an argument of which only the shape is given; without it such a call is timed and
    computes nothing. `timed` says whether plain calls with values are timed too, `interactive` whether people and no
    code read the errors of the calls.
    """

    inputs: Callable[[TensorSpec], Any] | None
    timed: bool
    interactive: bool

    def add(self, run: Any) -> None:
        """Take the Run that `nki_lab.run` or `nki_lab.profile` is about to give."""

    def launched(self, name: str, execution: Execution, arguments: tuple[Any, ...]) -> None:
        """Take the result of a plain call of a kernel; `arguments` are as the kernel got them."""


_observers: list[LaunchObserver] = []


@contextmanager
def observed_by(observer: LaunchObserver) -> Iterator[None]:
    """While this lasts, in all threads, calls of kernels are reported to `observer`, and print nothing."""
    begin_observation(observer)
    try:
        yield
    finally:
        end_observation(observer)


def begin_observation(observer: LaunchObserver) -> None:
    """Report calls of kernels to `observer` from now on."""
    _observers.append(observer)


def end_observation(observer: LaunchObserver) -> None:
    """Report no further calls to `observer`."""
    _observers.remove(observer)


def current_observer() -> LaunchObserver | None:
    """Return the observer that began last; None where there is none."""
    return _observers[-1] if _observers else None


def is_interactive() -> bool:
    """Return whether people read the errors of calls."""
    return bool(_observers) and _observers[-1].interactive


def report(run: Any) -> None:
    """Report a run to the current observer."""
    if _observers:
        _observers[-1].add(run)


def filled(
    inputs: Callable[[TensorSpec], Any] | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """The arguments with values in place of shapes where `inputs` makes them, and whether all have values."""
    given = [*args, *kwargs.values()]
    if not any(isinstance(item, TensorSpec) for item in given):
        return args, dict(kwargs), True
    if inputs is None:
        return args, dict(kwargs), False
    values = [inputs(item) if isinstance(item, TensorSpec) else item for item in given]
    return tuple(values[: len(args)]), dict(zip(kwargs, values[len(args) :], strict=True)), True
