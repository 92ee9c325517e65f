"""Failures of interpreted code: how they travel to their handlers, and the findings that report them."""

from __future__ import annotations

from nki_lab.diagnostic import Diagnostic, diagnose


class FunctionExit(BaseException):
    """Leaves a function of the user's after a failing assert or a raise that has been reported."""


class PendingException(BaseException):
    """Carries a fault inside a `try` with handlers to them."""

    def __init__(self, error: Exception, findings: tuple[Diagnostic, ...]) -> None:
        super().__init__(error)
        self.error = error
        self.findings = findings


class Unobservable(Exception):  # noqa: N818 - no mistake of the user's: a run has values, an evaluation has none
    """Refuses to read a tensor's values."""


def kernel_raised(error: Exception) -> Diagnostic:
    """Return the finding for an exception of the kernel's own Python, in the tracer's words; a note is its help."""
    kind = type(error).__name__
    text = f"the kernel raised {kind}: {error}" if str(error) else f"the kernel raised {kind}"
    if isinstance(error, AssertionError):
        hint = "the kernel's own assert does not hold for these arguments"
    else:
        near = next(iter(getattr(error, "__notes__", ())), "")
        hint = near or "specialisation runs the kernel as Python; the error is in its own code"
    return diagnose("NKI007", text, help=hint)


def budget_reached(message: str) -> Diagnostic:
    """Return the NKI120 finding."""
    return diagnose(
        "NKI120",
        message,
        limit="an editor answers in bounded time and memory",
        help="run the kernel to check the rest",
    )


def internal_error(error: Exception) -> Diagnostic:
    """Return the finding for an error that is none of the user's."""
    return diagnose(
        "NKI901",
        f"nki_lab failed with {type(error).__name__}: {error}",
        limit="nothing that a file contains makes the evaluator fail",
        help="report it with the kernel; a run is not affected",
    )
