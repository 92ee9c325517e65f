"""Type stubs of both dialects, made of what they consist of: declarations, functions, enumerations, dtypes."""

from __future__ import annotations

from nki_lab.dialects import beta1, current
from nki_lab.kernel_runtime.beta1 import TENSOR_METHODS
from nki_lab.stubs.modules import MARK, Dialect

__all__ = ["MARK", "stubs"]


def stubs() -> dict[str, str]:
    """Return the stubs by their paths: packages `nki-stubs` and `neuronxcc-stubs`, as PEP 561 describes them.

    Both are partial: a module that they lack is that of the installed package.
    """
    files: dict[str, str] = {}
    for dialect in (
        Dialect("nki", current.modules(), {}),
        Dialect("neuronxcc.nki", beta1.modules(), TENSOR_METHODS),
    ):
        package = dialect.root.partition(".")[0]
        files |= {f"{package}-stubs/{path}": text for path, text in dialect.texts()}
        files[f"{package}-stubs/py.typed"] = "partial\n"
    return files
