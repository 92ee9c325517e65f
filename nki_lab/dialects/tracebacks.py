"""Tracebacks of refused kernels, which end at the user's own lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, Final, ParamSpec, TypeVar

from nki_lab.diagnostic import NkiError
from nki_lab.dialects.environment import shows_own_frames
from nki_lab.kernel_runtime.issue.source_location import is_ours
from nki_lab.source.callables import traceback_steps

P = ParamSpec("P")
R = TypeVar("R")

_OWN_FAULT: Final = "NKI901"
"""The code of our own mistakes: their tracebacks are for those who mend them, and stay whole."""


class UserFrames:
    """A context of an entry point: an NkiError that leaves it has no frames of this package, and stands for its cause.

    Python puts the frames outside of the context back in front. The frames of a cause, an exception of the kernel's
    own code, become the error's, and the cause is not shown a second time; it stays in `__context__`.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        """Do nothing: all of it happens at the end."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Take the frames out of the error."""
        if error is not None:
            strip(error)


user_frames: Final = UserFrames()


def with_user_frames(function: Callable[P, R]) -> Callable[P, R]:
    """Return an entry point whose NkiErrors end at the user's lines."""

    @wraps(function)
    def entry(*args: P.args, **kwargs: P.kwargs) -> R:
        with user_frames:
            return function(*args, **kwargs)

    return entry


def strip(error: BaseException) -> None:
    """Leave only the user's frames in the traceback of an NkiError, unless the environment asks for all."""
    if (
        not isinstance(error, NkiError)
        or shows_own_frames()
        or any(item.code == _OWN_FAULT for item in error.diagnostics)
    ):
        return
    steps = [step for step in traceback_steps(error) if not is_ours(step.tb_frame)]
    cause = error.__cause__
    if cause is not None and not isinstance(cause, NkiError):
        steps += [step for step in traceback_steps(cause) if not is_ours(step.tb_frame)]
        error.__cause__, error.__context__, error.__suppress_context__ = None, cause, True
    error.__traceback__ = chained(steps)


def chained(steps: list[TracebackType]) -> TracebackType | None:
    """Return a traceback of these steps, the outermost first; None of none."""
    traceback: TracebackType | None = None
    for step in reversed(steps):
        traceback = TracebackType(traceback, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return traceback


def hook() -> None:
    """Have errors that end the process shown without our frames, also those of calls that no entry point encloses."""
    if not isinstance(sys.excepthook, _Hook):
        sys.excepthook = _Hook(sys.excepthook)


def unhook() -> None:
    """Put back the hook that was there, unless somebody else has put another one in front."""
    if isinstance(sys.excepthook, _Hook):
        sys.excepthook = sys.excepthook.other


class _Hook:
    """A `sys.excepthook` before another one."""

    def __init__(self, other: Callable[..., Any]) -> None:
        self.other = other

    def __call__(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if isinstance(error, NkiError):
            strip(error)
            traceback = error.__traceback__
        self.other(kind, error, traceback)
