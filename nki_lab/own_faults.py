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
