"""The first picture of a large run: lanes and their sums, which are read off the recording without looking at rows.

What a view shows of rows, memory, lines and loops comes with the opening message, which takes longer to work out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.columns import Array
from nki_lab.wire import overview
from nki_lab.wire.header_types import Header
from nki_lab.wire.message import message

FROM: Final = 1 << 17
"""Rows from which on there is one: the opening message of smaller runs is there as soon."""

_BUCKETS: Final = 1024
"""Stretches of time: about a pixel each, until the opening message has more of them. A server of notebooks takes a
tenth of a second for two megabytes."""

_READ: Final = ("ops", "sites")
"""Tables that are small whatever the run, and that names of lanes and sources need."""


def preview(recording: Recording, columns: Mapping[str, tuple[str, ...]]) -> bytes:
    """Return the message of a recording's lanes and sums; its other tables, with their `columns`, are empty."""
    shift, found = recording.sums(0, recording.makespan + 1, _BUCKETS)
    nothing = np.zeros(0, np.uint8)
    tables: dict[str, Mapping[str, Array]] = {
        name: {column: recording.first_column(name, column) if name in _READ else nothing for column in known}
        for name, known in columns.items()
    }
    tables["zoom"] = found._asdict()
    tables["zoom_critical"] = {"lane": nothing, "bucket": nothing}
    head = {**_header(recording), "zoom_shift": shift, "first": 0, "count": 0, "from": 0, "until": 0}
    return message(head, tables)


def _header(recording: Recording) -> Header:
    summary = {name: value for name, value in recording.summary.items() if name != "diagnostics"}
    target = str(summary.get("target") or "")
    lanes = recording.lanes
    counts = recording.first_column("lane_spans", "rows").tolist()
    head: Header = {
        "kernel": str(summary.get("kernel") or ""),
        "target": target,
        "makespan": recording.makespan,
        "steps": len(recording),
        "instructions": recording.instructions,
        "fault": -1,
        "capacity": overview.capacity(target, len({lane.core for lane in lanes}), recording.ranks),
        "lanes": [{"name": lane.name, "kind": lane.kind, "core": lane.core, "rank": lane.rank} for lane in lanes],
        "stalls": list(recording.stalls),
        "names": list(recording.names),
        "sources": [
            {"path": path, "text": text}
            for path, text in zip(recording.texts("sources", "path"), recording.texts("sources", "text"), strict=True)
        ],
        "summary": summary,
        "findings": [],
        "path": {"work": {}, "waits": {}},
        "lane_times": [{"busy": 0, "critical": 0, "waits": {}, "empty": 0, "rows": rows} for rows in counts],
        "lines": [],
        "core_names": {str(core): name for core, name in recording.core_names.items() if name},
        "coarse": True,
    }
    known = overview.machine(target)
    return {**head, "machine": known} if known else head
