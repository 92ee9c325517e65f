"""The entry points of the dialects that shims hand on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, NamedTuple


class Entries(NamedTuple):
    """The parts of the dialects that shims need.

    `jit` and `beta1_jit` are the decorators of both dialects, `as_kernel` makes a kernel of what a caller names as one
    (a kernel itself, or a function in either dialect, told apart by the modules that it names), `nki` is the module.
    While the context `on_target` lasts, calls that name no target have this one, where it is not None.
    """

    jit: Callable[..., Any]
    beta1_jit: Callable[..., Any]
    as_kernel: Callable[[Callable[..., Any]], Any]
    nki: ModuleType
    on_target: Callable[[str | None], AbstractContextManager[Any]]
