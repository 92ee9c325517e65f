"""NKI kernels on any computer: compile, check and simulate them.

`nki_lab.activate()` makes `nki` and `neuronxcc.nki` importable; `nki_lab.run(kernel, *arrays)` runs a kernel and gives
its outputs with everything that was found; `nki_lab.profile(kernel, *specs)` gives its times without values;
`nki_lab.run_ranks(kernel, arguments)` runs it on several ranks, which exchange data through `nki.collectives`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nki_lab import import_hint

if TYPE_CHECKING:
    from nki_lab import plots, testing
    from nki_lab.crosschecks import crosscheck
    from nki_lab.diagnostic import Diagnostic, NkiError
    from nki_lab.dialects import activate, deactivate
    from nki_lab.kernel_runtime.options import Options
    from nki_lab.result import Run, check, compile, profile, run, run_ranks, spec  # noqa: A004 - the contract's names
    from nki_lab.result import open as open  # noqa: A004 - the same, and no part of __all__
    from nki_lab.sweeps import sweep

__version__ = "0.2.0"

# `open` is an attribute only: `from nki_lab import *` leaves Python's own in place.
__all__ = [
    "Diagnostic",
    "NkiError",
    "Options",
    "Run",
    "activate",
    "check",
    "compile",
    "crosscheck",
    "deactivate",
    "plots",
    "profile",
    "run",
    "run_ranks",
    "spec",
    "sweep",
    "testing",
]

# The module of each public name. Modules are loaded when a name is asked for: `import nki_lab` itself costs nothing.
_PLACES = {
    "Diagnostic": "nki_lab.diagnostic",
    "NkiError": "nki_lab.diagnostic",
    "Options": "nki_lab.kernel_runtime.options",
    "Run": "nki_lab.result",
    "activate": "nki_lab.dialects",
    "check": "nki_lab.result",
    "compile": "nki_lab.result",
    "crosscheck": "nki_lab.crosschecks",
    "deactivate": "nki_lab.dialects",
    "open": "nki_lab.result",
    "profile": "nki_lab.result",
    "run": "nki_lab.result",
    "run_ranks": "nki_lab.result",
    "spec": "nki_lab.result",
    "sweep": "nki_lab.sweeps",
}


def load_ipython_extension(shell: Any) -> None:
    """Make kernels importable, and let cells start with `%%nki`: the hook of `%load_ext nki_lab`."""
    importlib.import_module("nki_lab.magic").load(shell)


def __getattr__(name: str) -> Any:
    if name in ("plots", "testing"):
        return importlib.import_module(f"nki_lab.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'nki_lab' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PLACES})


import_hint.install()
import_hint.offer_magic()
