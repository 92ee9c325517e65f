"""The shim of `jax_neuronx`: `nki_call`, and host callbacks.

`nki_call` is how JAX called kernels before SDK 2.23: a kernel writes its last parameters, and `out_shape` says which
arrays they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from nki_lab.diagnostic import NkiError, diagnose, error_of
from nki_lab.frameworks import jax_calls
from nki_lab.frameworks.entries import Entries
from nki_lab.kernel_runtime.issue.arguments import TensorSpec, spec
from nki_lab.late_annotations import signature_of
from nki_lab.session import Launch, Results
from nki_lab.session.arrays import give_back, nameable

Specs = tuple[TensorSpec, ...]


def modules(entries: Entries, root: str = "jax_neuronx") -> dict[str, dict[str, Any]]:
    """Return the names of each module below `root`; the first samples knew the package as `neuron_jax`."""

    def nki_call(func: Callable[..., Any], *args: Any, grid: Any = None, out_shape: Any = None, **kwargs: Any) -> Any:
        """Call a kernel with arrays of JAX; returns arrays in the structure of `out_shape`.

        `func` is a kernel or a function, also in a `functools.partial`. `out_shape` has a `jax.ShapeDtypeStruct` for
        each result. A kernel with parameters left for them writes its results there; any other kernel returns them.
        NKI012 for an `out_shape` that is not what the kernel does. `grid` is the launch grid: an integer or a tuple.
        """
        while isinstance(func, partial):
            args, kwargs, func = (*func.args, *args), {**func.keywords, **kwargs}, func.func
        kernel = entries.as_kernel(func)
        if grid not in (None, ()):
            kernel = kernel[grid]
        leaves, structure = _described(out_shape)
        if _missing(kernel.function, args, kwargs) == 0:
            return _returned(kernel, args, kwargs, leaves, structure)
        if not leaves:
            raise _refused(
                f"nki_call of {kernel.__name__} says no out_shape",
                limit="the kernel has parameters for results, whose shapes and dtypes out_shape gives",
                remedy="out_shape=jax.ShapeDtypeStruct(a.shape, a.dtype), or a tuple of them",
            )
        return structure(_ByReference(kernel, leaves).launch(args, kwargs))

    return {
        root: {"nki_call": nki_call},
        f"{root}.core": {"nki_call": nki_call},
        f"{root}.experimental": {"debug_callback": debug_callback},
    }


def debug_callback(callback: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    """Call a function of the host with the values of arrays, also under `jax.jit`: `jax.debug.callback`."""
    import jax

    jax.debug.callback(callback, *args, **kwargs)


def _refused(message: str, *, limit: str, remedy: str) -> NkiError:
    """Return the NKI012 error for an `out_shape`, in the call of `nki_call`."""
    item = diagnose("NKI012", message, operand="out_shape", limit=limit, help=remedy)
    return error_of(jax_calls.user_place()(item))


def _described(out_shape: Any) -> tuple[Specs, Callable[[Any], Any]]:
    """Return the results that `out_shape` describes, and what puts results into its structure."""
    import jax

    leaves, tree = jax.tree.flatten(out_shape)
    try:
        specs = tuple(spec(tuple(leaf.shape), np.dtype(leaf.dtype)) for leaf in leaves)
    except (AttributeError, TypeError) as error:
        if isinstance(error, NkiError):
            raise
        raise _refused(
            f"out_shape is {out_shape!r}",
            limit="a jax.ShapeDtypeStruct, or a tuple of them",
            remedy="out_shape=jax.ShapeDtypeStruct(a.shape, a.dtype)",
        ) from None
    return specs, lambda results: jax.tree.unflatten(tree, results)


def _missing(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Return how many positional parameters without a default get no argument."""
    parameters = list(signature_of(function).parameters.values())
    if any(item.kind is item.VAR_POSITIONAL for item in parameters):
        return 1
    rest = [item for item in parameters if item.kind not in (item.KEYWORD_ONLY, item.VAR_KEYWORD)][len(args) :]
    return sum(item.default is item.empty and item.name not in kwargs for item in rest)


def _returned(
    kernel: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], leaves: Specs, structure: Callable[[Any], Any]
) -> Any:
    """Call a kernel that returns its results; where `leaves` says what they are, that is checked."""
    if not leaves:
        return kernel(*args, **kwargs)
    found = kernel.results_of(args, kwargs).flat
    if [_shown(item) for item in found] != [_shown(item) for item in leaves]:
        raise _refused(
            f"out_shape says {_listed(leaves)}",
            limit=f"{kernel.__name__} returns {_listed(found)}",
            remedy="leave out_shape out, or correct it",
        )
    import jax

    return structure([item for item in jax.tree.leaves(kernel(*args, **kwargs)) if isinstance(item, jax.Array)])


def _shown(item: TensorSpec) -> str:
    return f"{nameable(np.dtype(item.dtype.host))}{list(item.shape)}"


def _listed(specs: Specs) -> str:
    return ", ".join(map(_shown, specs)) or "nothing"


class _ByReference:
    """A kernel that writes its last parameters, called as one that returns them."""

    def __init__(self, kernel: Any, results: Specs) -> None:
        self.kernel = kernel
        self.results = results
        self.__name__ = kernel.__name__

    def prepared(self) -> Launch:
        """Return the launch with the target and the options that hold now."""
        launch: Launch = self.kernel.prepared()
        return launch

    def results_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Results:
        """Return the results that `out_shape` describes; NKI012 where the kernel does not write one of them."""
        found = self.kernel.results_of((*args, *self.results), kwargs)
        places = {id(item): number for number, item in enumerate(self.results)}
        written = {places[id(item.argument)] for item in found.written if id(item.argument) in places}
        for number, item in enumerate(self.results):
            if number not in written:
                raise _refused(
                    f"out_shape has {_shown(item)} for a parameter that {self.__name__} does not write",
                    limit=f"the kernel writes {len(written)} of the {len(self.results)} parameters for results",
                    remedy="the parameters for results are the last ones, in the order of out_shape",
                )
        others = tuple(item for item in found.written if id(item.argument) not in places)
        return Results(self.results, self.results, others)

    def launch(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], prepared: Launch | None = None) -> Any:
        """Run on new arrays for the results; returns these, or tracers where JAX follows the call."""
        if jax_calls.is_traced(args, kwargs):
            return jax_calls.call(self, args, kwargs)
        if prepared is None:
            self.results_of(args, kwargs)
        made = [np.empty(item.shape, np.dtype(item.dtype.host)) for item in self.results]
        for item in made:  # elements that the kernel does not write have no value on a chip either
            item.fill(np.nan if item.dtype.kind == "f" or item.dtype.name.startswith(("bfloat", "float")) else 0)
        self.kernel.launch((*args, *made), kwargs, prepared)
        return made if prepared is not None else [give_back(item, "jax") for item in made]
