"""The facts of the runs of an output, for lists of runs."""

from __future__ import annotations

from typing import Final

from nki_lab.kernel_runtime.recording import Recording
from nki_lab.kernel_runtime.recording.figures import interval
from nki_lab.wire.header_types import RunAbout

ABOUT: Final = "application/vnd.nki-lab.about+json"
"""What is told about the runs of an output, in order, so that a list of runs need not read them: see `about`."""


def about(recording: Recording, *, times: int = 1) -> RunAbout:
    """Return what a list of runs tells of one, which stands for `times` equal ones in a row."""
    summary = recording.summary
    bounds = interval(summary)
    about: RunAbout = {
        "kernel": str(summary.get("kernel") or ""),
        "target": str(summary.get("target") or ""),
        "makespan": recording.makespan,
        "instructions": recording.instructions,
        "failed": "fault" in summary,
        "times": times,
    }
    return about if bounds is None else {**about, "interval": list(bounds)}
