"""The hint for `import nki` where the simulator is not active: the last finder that Python asks.

It imports nothing, and does nothing until a module of the dialects is imported that nobody else has found.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import FrameType, ModuleType
from typing import Any, Final

_ROOTS: Final = ("nki", "neuronxcc")


class ImportHint:
    """A finder of nothing: where it is asked for a module of the dialects, it raises NKI030 with what to do.

    `importlib.util.find_spec`, which asks whether a module is there, gets None.
    """

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Return None; NKI030, a ModuleNotFoundError, where a statement imports a module of the dialects."""
        if name not in _ROOTS or not _is_imported():
            return
        from nki_lab.diagnostic import diagnose, error_of
        from nki_lab.kernel_runtime.issue.source_location import outside, placed, site_at

        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
            frame = frame.f_back
        user = outside(frame)
        item = diagnose(
            "NKI030",
            f"No module named {name!r}: the simulator is not active",
            limit="nki and neuronxcc are importable while the simulator is active",
            help=_remedy(),
        )
        error: Any = error_of(item if user is None else placed(item, site_at(user.f_code, user.f_lasti)))
        error.name = name
        try:
            raise error
        except ImportError:
            error.__traceback__ = None  # the traceback begins, and ends, at the user's line
            raise


def _is_imported() -> bool:
    """Whether the module is imported, and not merely looked for."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename.startswith("<frozen importlib._bootstrap") and frame.f_back is not None:
        if frame.f_code.co_name == "_find_and_load":
            return True
        frame = frame.f_back
    return False


def _remedy() -> str:
    """Return the one thing to do, where this process runs."""
    if "PYTEST_VERSION" in os.environ:
        return "run pytest --nki-target trn2, or set NKI_SIMULATOR=1"
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        return "run %load_ext nki_lab first"
    return "call nki_lab.activate() before it, or run the script with nki-lab run"


def install() -> None:
    """Have Python ask this finder last."""
    if not any(isinstance(finder, ImportHint) for finder in sys.meta_path):
        sys.meta_path.append(ImportHint())


def offer_magic() -> None:
    """Have a shell of IPython load the extension where `%%nki` is used without it."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None and "nki" not in shell.magics_manager.magics["cell"]:
        register = shell.magics_manager.register_lazy
        # In versions without it a lazy magic is one of a line too.
        kind = {"magic_kind": "cell"} if "magic_kind" in register.__code__.co_varnames else {}
        register("nki", "nki_lab", **kind)
