"""The shim of `nki_cpu_simulator`: a simulator beside `nki`, which tests of kernel libraries put in the place of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any, Final

from nki_lab.frameworks.entries import Entries

VERSION_VARIABLE: Final = "NKI_NC_VERSION"
"""The environment variable that names the core's generation for this simulator: gen2, gen3 or gen4."""
_ROOT: Final = "nki_cpu_simulator.nki"
_PARTS: Final = ("compiler", "isa", "isa.constants", "language", "tensor", "typing")


class Simulated:
    """A kernel on the simulator: `simulated[2](x)` on two cores."""

    def __init__(self, kernel: Callable[..., Any], entries: Entries) -> None:
        self._kernel = kernel
        self._entries = entries

    def __getitem__(self, grid: Any) -> Simulated:
        """Return the kernel on a launch grid."""
        return Simulated(self._entries.jit(self._kernel)[grid], self._entries)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run for the generation that NKI_NC_VERSION names, else for the target of other calls."""
        with self._entries.on_target(os.environ.get(VERSION_VARIABLE) or None):
            return self._entries.jit(self._kernel)(*args, **kwargs)


def modules(entries: Entries) -> dict[str, dict[str, Any]]:
    """Return the names of the modules: those of `nki`, and `cpu_simulate`."""

    @wraps(Simulated)
    def cpu_simulate(kernel: Callable[..., Any]) -> Simulated:
        return Simulated(kernel, entries)

    made: dict[str, dict[str, Any]] = {"nki_cpu_simulator": {}, _ROOT: _names(entries.nki)}
    made[_ROOT]["cpu_simulate"] = cpu_simulate
    for part in _PARTS:
        module = entries.nki
        for name in part.split("."):
            module = getattr(module, name)
        made[f"{_ROOT}.{part}"] = _names(module)
    made[f"{_ROOT}.language.dtypes"] = _names(entries.nki.dtype)
    made[f"{_ROOT}.builtin"] = {}
    return made


def _names(module: ModuleType) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if not name.startswith("__") or name == "__version__"}
