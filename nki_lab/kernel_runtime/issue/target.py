"""The target of names such as `nl.tile_size`: the running kernel's, else that of the caller's environment."""

from __future__ import annotations

from types import SimpleNamespace

from nki_lab.diagnostic import coded_error
from nki_lab.isa.arch import Arch, arch_of
from nki_lab.isa.enums import nc_version
from nki_lab.isa.spelling import did_you_mean
from nki_lab.kernel_runtime.issue.context import local

DEFAULT_TARGET = "trn3"
"""The target that NKI's own simulator assumes without a chip."""


choice = SimpleNamespace(outside=lambda: DEFAULT_TARGET)
"""`choice.outside()` names the target outside a kernel; `nki_lab.dialects` sets it to read the environment."""


def current_arch() -> Arch:
    """Return the target's table: that of the kernel being specialised, else of `choice`."""
    builder = local.builder
    return builder.arch if builder is not None else arch_of(choice.outside())


def get_nc_version() -> nc_version:
    """Return the NeuronCore generation of the current target."""
    return nc_version(current_arch().generation)


def get_nc_sub_version() -> int:
    """Return the revision within a NeuronCore generation; always 0 here."""
    return 0


get_nc_version.__module__ = get_nc_sub_version.__module__ = "nki.isa"


class _TileSize:
    """Hardware sizes of the current target; outside a kernel those of the default target."""

    __slots__ = ()  # who reads it reads the target alone
    _NAMES = (
        "pmax", "psum_fmax", "psum_bank_fmax", "psum_bank_fmax_bytes", "psum_num_banks", "gemm_stationary_fmax",
        "gemm_moving_fmax", "bn_stats_fmax", "psum_min_align", "sbuf_min_align", "sbuf_size_bytes", "sbuf_fmax",
        "sbuf_fmax_bytes", "total_available_sbuf_size",
    )  # fmt: skip

    def __getattr__(self, name: str) -> int:
        found = tile_size_of(name, current_arch())
        if found is None:
            raise coded_error(
                "NKI006",
                f"nl.tile_size has no {name}",
                limit=f"names: {', '.join(self._NAMES)}",
                help=did_you_mean(name, self._NAMES),
            )
        return found

    def __dir__(self) -> list[str]:
        return list(self._NAMES)


def tile_size_of(name: str, arch: Arch) -> int | None:
    """Return `nl.tile_size.<name>` on a target; None where there is no such name."""
    sizes: dict[str, int] = {
        "psum_bank_fmax_bytes": arch.psum_bank_bytes,
        "psum_num_banks": arch.psum_banks,
        "sbuf_size_bytes": arch.sbuf_bytes,
        "sbuf_fmax_bytes": arch.sbuf_usable_bytes,
        "total_available_sbuf_size": arch.sbuf_usable_bytes,
        "sbuf_fmax": arch.sbuf_usable_bytes // 4,
        # guess: published allocators align to the dtype only.
        "psum_min_align": 4,
        "sbuf_min_align": 1,
    }
    return int(sizes.get(name) or getattr(arch, name)) if name in dir(tile_size) else None


tile_size = _TileSize()
