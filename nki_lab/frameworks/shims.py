"""The registry of shims: modules that stand in for the Neuron packages of PyTorch and JAX on this computer.

A shim has the names that the guides and the public samples use. It is importable only while `nki_lab.activate()` holds,
and never where the real package is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from nki_lab.diagnostic import Diagnostic, diagnose
from nki_lab.frameworks import jax_neuronx, neuron_dtypes, nki_cpu_simulator, torch_neuronx, torch_xla
from nki_lab.frameworks.entries import Entries
from nki_lab.isa.spelling import did_you_mean

Names = Mapping[str, Mapping[str, Any]]
"""The names of each module of a shim, by the module's full name; parents come before their children."""


class Shim(NamedTuple):
    """A stand-in for a package: the library that it needs, the extra that brings the library, and its modules."""

    library: str
    extra: str
    modules: Callable[[Entries], Names]
    doc: str


SHIMS: Final[Mapping[str, Shim]] = {
    "torch_neuronx": Shim("torch", "torch", torch_neuronx.modules, "Kernels in PyTorch, on the nki_lab simulator."),
    "torch_xla": Shim("torch", "torch", torch_xla.modules, "One XLA device, which is the CPU that nki_lab runs on."),
    "jax_neuronx": Shim("jax", "jax", jax_neuronx.modules, "Kernels in JAX, on the nki_lab simulator."),
    "neuron_jax": Shim("jax", "jax", partial(jax_neuronx.modules, root="neuron_jax"), "An older name of jax_neuronx."),
    "neuron_dtypes": Shim("numpy", "", neuron_dtypes.modules, "The dtypes of kernels in NumPy arrays."),
    "nki_cpu_simulator": Shim("numpy", "", nki_cpu_simulator.modules, "The nki_lab simulator, beside nki."),
}
"""The shims by the name of the package."""


def missing(module: str, name: str, have: Iterable[str]) -> Diagnostic:
    """Diagnose a name that the shim of a module does not have: NKI006."""
    names = sorted(have)
    return diagnose(
        "NKI006",
        f"{module} is simulated by nki_lab and has no {name}",
        operand=name,
        limit=f"it has {', '.join(names)}" if names else "it has no names, only modules below it",
        help=did_you_mean(name, names) or f"on a Neuron host, call {module}.{name} of the real package",
    )
