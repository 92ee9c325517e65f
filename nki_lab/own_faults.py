"""Findings about nki_lab itself: they carry what a report needs, and say where it goes."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from typing import Final

from nki_lab.diagnostic import Diagnostic, Related, Span, diagnose

REPOSITORY: Final = "https://github.com/nki-lab/nki-lab"
"""The entry `Homepage` of the package's metadata."""
ISSUES: Final = f"{REPOSITORY}/issues"
"""Where mistakes are reported: the entry `Issues` of the package's metadata."""


OWN_FAULT: Final = "NKI901"


def own_fault(message: str, *, limit: str, report: str = "the kernel", span: Span | None = None) -> Diagnostic:
    """Return the finding NKI901: a mistake of nki_lab's, to be reported together with `report`."""
    return diagnose(
        "NKI901",
        message,
        span=span,
        limit=limit,
        help=f"please report {report} together with this message: {ISSUES}",
        related=(Related(versions()),),
    )


def ended_evaluation(file: str, reason: str, kernel: str = "") -> Diagnostic:
    """Return the finding NKI901 of a file whose evaluation ended without a result, while `kernel` was evaluated."""
    part = f"kernel {kernel}" if kernel else "this file"
    return own_fault(
        f"evaluating {part} failed, {reason}: only the syntax of this file is checked, and a run is not affected",
        span=Span(file, 1, 1, 1, 2),
        report="the file",
        limit="nothing that a file contains makes the checker fail",
    )


def versions() -> str:
    """Return the versions that decide what nki_lab does, and the kind of computer, on one line."""
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    packages = [f"{name} {installed_version(name) or 'missing'}" for name in ("numpy", "ml_dtypes")]
    return ", ".join([f"nki_lab {version()}", f"Python {platform.python_version()}", *packages, system])


def version() -> str:
    """Return the version of nki_lab. The package is of a higher layer, and loaded already."""
    found: str = vars(sys.modules["nki_lab"])["__version__"]
    return found


def installed_version(package: str) -> str:
    """Return the version of an installed package; "" where there is none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
