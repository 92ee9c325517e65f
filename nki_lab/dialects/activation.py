"""`activate`: makes both dialects importable, and `deactivate` takes them away again."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from nki_lab.diagnostic import coded_error
from nki_lab.dialects import beta1, current, shims, tracebacks
from nki_lab.dialects.environment import is_other_side
from nki_lab.dialects.modules import DialectModule, is_ours

_ROOTS = ("neuronxcc", "nki")
_replaced: dict[str, ModuleType] = {}
_installed: dict[str, DialectModule] = {}


@tracebacks.with_user_frames
def activate(force: bool = False) -> None:
    """Make `nki`, its submodules and the older `neuronxcc.nki` importable, on the simulator.

    Where a real package of such a name is installed, NKI015 is raised; `force=True` puts the simulator in front of it
    in this process until `deactivate()`. Calling it again changes nothing, and so does calling it in the process that a
    crosscheck runs the installed package in. The shims of `frameworks.shims` become
    importable too, each where the package that it stands in for is not installed.
    """
    if is_other_side():
        return
    if not force:
        for root, place in real_packages().items():
            raise coded_error(
                "NKI015",
                f"a package called {root} is installed: {place}",
                limit="a real package is not shadowed silently",
                help="activate(force=True) simulates in this process all the same",
            )
    for name in [name for name in sys.modules if name.partition(".")[0] in _ROOTS and not is_ours(sys.modules[name])]:
        _replaced[name] = sys.modules.pop(name)
    for name, module in (current.modules() | beta1.modules()).items():
        sys.modules[name] = _installed[name] = module
    shims.install()
    tracebacks.hook()


def deactivate() -> None:
    """Take the dialects' modules out of `sys.modules`, and put back what `activate(force=True)` replaced."""
    for name, module in _installed.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
    sys.modules.update(_replaced)
    shims.remove()
    _installed.clear()
    _replaced.clear()
    tracebacks.unhook()


def is_active() -> bool:
    """Whether `import nki` finds the simulator."""
    return is_ours(sys.modules.get("nki"))


def real_packages() -> dict[str, str]:
    """The packages called as the dialects are that are not ours, with the place that each is imported from."""
    return {root: place for root in _ROOTS if (place := _real(root))}


def _real(root: str) -> str:
    """Return the place that a package which is not ours would be imported from; empty where there is none."""
    loaded = sys.modules.get(root)
    if loaded is not None:
        return "" if is_ours(loaded) else str(getattr(loaded, "__file__", None) or "loaded already")
    try:
        spec = importlib.util.find_spec(root)
    except (ImportError, ValueError):
        return ""
    # A folder without __init__.py, such as a checkout's own `nki`, is found too: it has no origin.
    return "" if spec is None or spec.origin is None else str(spec.origin)
