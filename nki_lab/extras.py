"""Packages that not every user needs: where one is missing, the finding names the extra that installs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nki_lab.diagnostic import coded_error


@contextmanager
def extra(name: str, what: str, *, operand: str = "", otherwise: str = "") -> Iterator[None]:
    """While this lasts, a package that is missing is NKI022: `what` needs it, and `nki-lab[name]` installs it.

    `otherwise` says what works without it. A package of ours that is missing is a fault of the installation.
    """
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0] or name
        if package == "nki_lab":
            raise
        missing = isinstance(error, ModuleNotFoundError)
        raise coded_error(
            "NKI022",
            f"{what} the package {package}, which {'is not installed' if missing else f'cannot be imported: {error}'}",
            operand=operand,
            help=f"pip install {'' if missing else '--upgrade '}'nki-lab[{name}]'{otherwise and f', or {otherwise}'}",
        ) from (None if missing else error)
