"""Facts that several exports need: findings in order of severity, memory peaks with capacities, lines of source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from nki_lab.diagnostic import Diagnostic
from nki_lab.isa.arch import TARGETS
from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array

SEVERITIES: Final = ("error", "warning", "information", "hint")


def by_severity(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the findings, errors first."""
    return sorted(found, key=lambda item: SEVERITIES.index(item.severity))


def counts(found: Iterable[Diagnostic], *, information: str = "information") -> str:
    """Return how many findings there are of each severity: "1 error, 2 warnings". `information` names that one."""
    number = Counter[str](item.severity for item in found)
    return ", ".join(
        f"{number[kind]} {name}{'s' * (number[kind] > 1 and name != 'information')}"
        for kind, name in {kind: information if kind == "information" else kind for kind in SEVERITIES}.items()
        if number[kind]
    )


def findings(recording: Recording) -> tuple[Diagnostic, ...]:
    """Return the findings that were recorded with a run, errors first."""
    recorded = recording.summary.get("diagnostics")
    items = recorded if isinstance(recorded, list) else []
    return tuple(by_severity(Diagnostic.from_dict(item) for item in items if isinstance(item, dict)))


def capacities(summary: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """Return SBUF and PSUM with the most live bytes at one time in the fullest partition, and a partition's capacity.

    The capacity is 0 where it is unknown. Older summaries, which do not tell what is live at one time, give the peak in
    program order.
    """
    arch = TARGETS.get(str(summary.get("target", "")))
    sizes = (arch.sbuf_partition_bytes, arch.psum_partition_bytes) if arch else (0, 0)
    out = []
    for space, capacity in zip(("SBUF", "PSUM"), sizes, strict=True):
        names = [f"{space.lower()}_{kind}_bytes_per_partition" for kind in ("occupied", "peak")]
        known = [int(summary[name]) for name in names if name in summary]
        out += [(space, known[0], capacity)] if known else []
    return out


def numbered(texts: list[str]) -> tuple[list[str], Array]:
    """Return the different ones of some texts in order of appearance, and the number of each text among them."""
    known = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return list(known), np.array([known[text] for text in texts], np.int64)


def queues(recording: Recording) -> list[int]:
    """Return the numbers of the lanes that are DMA queues."""
    return [lane.number for lane in recording.lanes if lane.kind == "dma"]


def source_lines(recording: Recording) -> list[tuple[str, int]]:
    """Return file and line of each site."""
    sites, paths = recording.table("sites"), recording.table("sources").texts("path")
    return [(paths[n], line) for n, line in zip(sites["source"][:].tolist(), sites["line"][:].tolist(), strict=True)]
