"""What reports read from a recording beside its digest: findings, memory peaks with capacities, lines that cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.arch import TARGETS, Arch
from nki_lab.kernel_runtime.recording import Recording

_SEVERITIES: Final = ("error", "warning", "information", "hint")


def findings(recording: Recording) -> tuple[Diagnostic, ...]:
    """The findings that were recorded with a run, errors first."""
    kept = recording.summary.get("diagnostics")
    found = [Diagnostic.from_dict(item) for item in kept if isinstance(item, dict)] if isinstance(kept, list) else []
    return tuple(sorted(found, key=lambda item: _SEVERITIES.index(item.severity)))


def target_of(summary: Mapping[str, Any]) -> Arch | None:
    """The generation that a recording was made for; None where its name says nothing."""
    return TARGETS.get(str(summary.get("target", "")))


def capacities(summary: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """SBUF and PSUM with their peak and their capacity in bytes of a partition; capacity 0 where it is unknown."""
    arch = target_of(summary)
    sizes = (arch.sbuf_partition_bytes, arch.psum_partition_bytes) if arch else (0, 0)
    return [
        (space, int(summary[name]), capacity)
        for space, capacity in zip(("SBUF", "PSUM"), sizes, strict=True)
        if (name := f"{space.lower()}_peak_bytes_per_partition") in summary
    ]
