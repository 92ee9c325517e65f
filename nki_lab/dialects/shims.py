"""The finder of shims: `import torch_neuronx` and its like while the dialects are importable."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import Any

from nki_lab.diagnostic import error_class
from nki_lab.dialects import beta1, current
from nki_lab.dialects.environment import chosen
from nki_lab.dialects.kernel import Kernel
from nki_lab.dialects.modules import Description, DialectModule, is_ours, make_modules
from nki_lab.extras import extra
from nki_lab.frameworks.entries import Entries
from nki_lab.frameworks.shims import SHIMS, missing


def as_kernel(function: Callable[..., Any]) -> Kernel:
    """`function` itself where it is a kernel; else a kernel of it, in the dialect of the modules that it names."""
    if isinstance(function, Kernel):
        return function
    made: Kernel = (current.jit if "nki" in _roots(function) else beta1.jit)(function)
    return made


def _roots(function: object) -> set[str]:
    """Return the packages that a function names; those that its module names where it names none of the dialects'."""
    if not isinstance(function, FunctionType):
        return set()
    known = function.__globals__
    for names in (function.__code__.co_names, known):
        modules = (known[name] for name in names if isinstance(known.get(name), ModuleType))
        found = {module.__name__.partition(".")[0] for module in modules}
        if found & {"nki", "neuronxcc"}:
            return found
    return set()


def on_target(target: str | None) -> AbstractContextManager[Any]:
    """While this lasts, `target` is that of calls that name none."""
    return nullcontext() if target is None else chosen(target=target)


def _modules(root: str) -> dict[str, DialectModule]:
    entries = Entries(current.jit, beta1.jit, as_kernel, current.modules()["nki"], on_target)
    shim = SHIMS[root]
    return make_modules({name: Description(names, shim.doc) for name, names in shim.modules(entries).items()}, missing)


class ShimFinder:
    """Finds the shims, and only those whose real packages are not there; it also loads them."""

    def __init__(self) -> None:
        self._made: dict[str, DialectModule] = {}
        self._asking = False

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """Return how to load the module of a shim; None for any other module. NKI006 for a module that a shim lacks."""
        root = name.partition(".")[0]
        if root not in SHIMS or self._asking or (name != root and not is_ours(sys.modules.get(root))):
            return None
        if name == root and self.real(root):
            return None
        if root not in self._made:
            self._made |= _modules(root)
        if name in self._made:
            return ModuleSpec(name, self, origin="nki_lab", is_package=True)  # type: ignore[arg-type]
        parent, _, last = name.rpartition(".")
        have = [item.rpartition(".")[2] for item in self._made if item.rpartition(".")[0] == parent]
        raise error_class(ModuleNotFoundError)((missing(parent, last, have),))

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the shim's module; NKI022 where the library that it needs is not installed."""
        root = spec.name.partition(".")[0]
        shim = SHIMS[root]
        with extra(shim.extra, f"{root} needs", operand=root):
            if importlib.util.find_spec(shim.library) is None:  # found is enough: imports of torch take seconds
                raise ModuleNotFoundError(name=shim.library)
        return self._made[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module is complete when it is made."""

    def real(self, root: str) -> str:
        """Return the place of the real package of that name; empty where there is none."""
        loaded = sys.modules.get(root)
        if loaded is not None:
            return "" if is_ours(loaded) else str(getattr(loaded, "__file__", None) or "loaded already")
        with self._stepping_aside():
            try:
                spec = importlib.util.find_spec(root)
            except (ImportError, ValueError):
                return ""
        # A folder without __init__.py is found too: it has no origin.
        return "" if spec is None or spec.origin is None else str(spec.origin)

    @contextmanager
    def _stepping_aside(self) -> Iterator[None]:
        self._asking = True
        try:
            yield
        finally:
            self._asking = False


_finder = ShimFinder()


def install() -> None:
    """Make the shims importable."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def remove() -> None:
    """Take the shims away, those that are imported too."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in [name for name, module in sys.modules.items() if name.partition(".")[0] in SHIMS and is_ours(module)]:
        del sys.modules[name]


def shims() -> dict[str, str]:
    """Return for each shim the place of the real package that is used instead; empty where the shim stands in."""
    return {root: _finder.real(root) for root in SHIMS}
