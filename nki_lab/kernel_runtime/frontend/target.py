"""The target that names such as `nl.tile_size` answer for: the running kernel's, else the doors' choice."""

from __future__ import annotations

from collections.abc import Callable

from nki_lab.isa.arch import Arch, arch_of
from nki_lab.isa.enums import nc_version
from nki_lab.kernel_runtime.frontend.context import local

DEFAULT_TARGET = "trn3"
"""What NKI's own simulator assumes without a chip."""


class _Choice:
    outside: Callable[[], str] = staticmethod(lambda: DEFAULT_TARGET)


choice = _Choice()
"""`choice.outside()` names the target outside a kernel; the doors set it to read the environment."""


def current_arch() -> Arch:
    """The target's table: that of the kernel being specialised, else of `choice`."""
    builder = local.builder
    return builder.arch if builder is not None else arch_of(choice.outside())


def get_nc_version() -> nc_version:
    """The NeuronCore generation of the current target."""
    return nc_version(current_arch().generation)
